#pragma once

#include <functional>
#include <holdfast/consul/config.hpp>
#include <memory>
#include <string>

#include "file_stamp.hpp"
#include "net.hpp"

namespace holdfast::consul::detail {

/// The ACL token that requests are sent with: always the same, or a file's, or what a function of the user's says now.
/// Lives on the strand.
class token_source {
public:
  /// Throws `system_error`: invalid_option, if there is no token to be sent to begin with.
  explicit token_source(const config& settings);

  /// The token for a request that is sent now. If the new one cannot be sent, or the file has become empty, the last
  /// one stays in use, and `complain` is called once.
  std::shared_ptr<const std::string> get(time_point now, const std::function<void(std::string)>& complain);
  /// Which token that was: how many there have been.
  unsigned version() const noexcept { return version_; }
  /// Consul has refused the one of this version. Whether there is another one.
  bool has_another(unsigned version, const std::function<void(std::string)>& complain);

private:
  std::string read(bool is_first) const;
  void read_token(const std::function<void(std::string)>& complain);

  const config& settings_;
  std::shared_ptr<const std::string> token_;
  unsigned version_ = 0;
  file_stamp stamp_;
  time_point read_at_ = time_point::min();  // the file
  std::string complaint_;
};

}  // namespace holdfast::consul::detail
