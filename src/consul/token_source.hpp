// SPDX-FileCopyrightText: The holdfast authors
// SPDX-License-Identifier: BSL-1.0

#pragma once

#include <functional>
#include <holdfast/consul/config.hpp>
#include <memory>
#include <optional>
#include <string>

#include "consul/net_names.hpp"
#include "net/asio.hpp"
#include "platform/file_stamp.hpp"

namespace holdfast::consul::detail {

/// Provides the ACL token of requests: a fixed one, the content of a file, or the result of a user's function. Lives on
/// the strand.
class token_source {
public:
  /// Reads the first token. Throws `system_error`: invalid_option, if the file cannot be read or the token cannot be
  /// sent. Exceptions of the user's function are passed on.
  explicit token_source(const config& settings);

  /// Returns the token for a request that is sent now. If a new token cannot be read or sent, the last one stays in
  /// use, and `complain` is called once for each new reason.
  std::shared_ptr<const std::string> get(time_point now, const std::function<void(std::string)>& complain);
  /// The version of the current token: it grows by 1 with each new token. Directly after `get`, it is the version of
  /// the token that `get` has returned.
  unsigned version() const noexcept { return version_; }
  /// To be called when Consul has refused the token of this version. Reads the token again if it is still the current
  /// one. Returns true if there is another token now.
  bool has_another(unsigned version, const std::function<void(std::string)>& complain);

private:
  std::string read(bool is_first) const;
  void read_token(const std::function<void(std::string)>& complain);

  const config& settings_;
  std::shared_ptr<const std::string> token_;
  unsigned version_ = 0;
  platform::file_stamp stamp_;
  std::optional<time_point> read_at_;  // when `get` last checked whether the file has changed
  std::string complaint_;
};

}  // namespace holdfast::consul::detail
