// SPDX-FileCopyrightText: The holdfast authors
// SPDX-License-Identifier: BSL-1.0

#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace holdfast::consul::detail {

/// Replaces secrets in texts that others have sent, because an answer may repeat the request.
class secret_filter {
public:
  /// Hides this login in every text: as it is sent, as it was configured, and the password alone. The login is
  /// `user:password` or `user`. An empty one hides nothing.
  void add_login(const std::string& login);

  /// Returns the first `scanned_max` bytes of `text`, in which the logins and this token, if it is not null, are
  /// replaced.
  std::string without_secrets(std::string_view text, const std::string* token) const;

  static constexpr std::size_t scanned_max = 4096;  ///< much more than is ever shown

private:
  std::vector<std::string> secrets_;
};

}  // namespace holdfast::consul::detail
