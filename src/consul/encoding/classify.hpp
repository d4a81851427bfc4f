// SPDX-FileCopyrightText: The holdfast authors
// SPDX-License-Identifier: BSL-1.0

#pragma once

#include <holdfast/consul/client.hpp>
#include <string>
#include <string_view>

#include "consul/encoding/http.hpp"

// Decides what a reply means before its body is decoded. Pure.
namespace holdfast::consul::detail {

/// Returns the error that the reply to a request of this kind stands for. `target` is the path and the query of the
/// request. Returns no error if the reply is to be decoded: a 200 whose body has the form of an answer, a 404 with an
/// index to a read, or the 409 of a transaction.
///
/// A load balancer, an ingress or a login page may answer in Consul's place, usually for a moment only. So a permanent
/// error is returned only for a reply that is certainly Consul's: it has a header of Consul's, or one of Consul's own
/// texts. Other replies are not_consul, except a 429 and a 5xx of plain text. These mean the same from any server.
///
/// doc/reference/errors.md has the table, and conformance.answers tests it with the replies of real agents.
error_code classify(request_kind kind, std::string_view target, const http_reply& reply);

/// Returns true if Consul refuses a request because it does not know its ACL token.
bool is_token_unknown(const http_reply& reply) noexcept;

/// Describes the reply for people: "302 to https://sso.example/, text/html".
std::string what_answered(const http_reply& reply);

/// Returns advice about a reply that is not Consul's, or an empty text.
std::string_view advice_about(const http_reply& reply) noexcept;

}  // namespace holdfast::consul::detail
