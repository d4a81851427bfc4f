// SPDX-FileCopyrightText: The holdfast authors
// SPDX-License-Identifier: BSL-1.0

#include "net/tls.hpp"

namespace holdfast::net {

std::unique_ptr<tls_client> make_tls_client(const tls_options&, std::function<void(log_event&&)>, bool is_needed) {
  if (!is_needed) return nullptr;
  throw system_error(error::unsupported_scheme, "https: this library was built without TLS (HOLDFAST_TLS=OFF)");
}

}  // namespace holdfast::net
