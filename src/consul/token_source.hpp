#pragma once

#include <functional>
#include <holdfast/consul/config.hpp>
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

  /// For a request that is sent now. What cannot be sent is told to `complain`, once, and the last one stays in use.
  const std::string& get(time_point now, const std::function<void(std::string)>& complain);
  /// The last one.
  const std::string& last() const noexcept { return token_; }
  /// Which token that was: how many there have been.
  unsigned version() const noexcept { return version_; }
  /// Consul has refused the one of this version. Whether there is another one.
  bool has_another(unsigned version, const std::function<void(std::string)>& complain);

private:
  std::string read() const;
  void look(const std::function<void(std::string)>& complain);

  const config& settings_;
  std::string token_;
  unsigned version_ = 0;
  file_stamp stamp_;
  time_point looked_at_ = time_point::min();  // the file
  std::string complaint_;
};

}  // namespace holdfast::consul::detail
