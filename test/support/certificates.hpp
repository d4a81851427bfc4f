// SPDX-FileCopyrightText: The holdfast authors
// SPDX-License-Identifier: BSL-1.0

#pragma once

#include <chrono>
#include <memory>
#include <string>
#include <vector>

namespace holdfast::test {

/// A certificate with its key, both as PEM.
struct identity {
  std::string certificate;
  std::string key;
};

/// A certificate to be signed. A name that is an IP literal becomes an IP address in the certificate.
struct certificate_request {
  std::vector<std::string> names{};
  std::chrono::seconds from = -std::chrono::hours(1);  ///< from now
  std::chrono::seconds until = std::chrono::hours(1);
  bool rsa = false;  ///< the key is an RSA key, else one on the curve P-256
  std::string common_name = "test";
};

/// A certificate authority of the test's own.
class authority {
public:
  authority();
  ~authority();
  authority(authority&&) noexcept;
  authority& operator=(authority&&) noexcept;

  const std::string& certificate() const;  ///< PEM
  identity issue(const certificate_request& request) const;
  /// A certificate that is signed with its own key.
  static identity self_signed(const certificate_request& request);

private:
  struct state;
  std::unique_ptr<state> state_;
};

}  // namespace holdfast::test
