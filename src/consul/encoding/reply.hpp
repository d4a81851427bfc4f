// SPDX-FileCopyrightText: The holdfast authors
// SPDX-License-Identifier: BSL-1.0

#pragma once

#include <cstddef>
#include <holdfast/consul/client.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "consul/encoding/entries.hpp"
#include "consul/encoding/http.hpp"

// Turns a reply into a value. To be used for a reply about which `classify` returns no error. If the body is not what
// Consul answers, the error is malformed_reply. Pure.
namespace holdfast::consul::detail {

/// Returns the text of Consul or of a proxy about a failure in a form for logs: shortened, and on one line.
std::string readable(std::string_view server_text);

using entry_answer = answer<std::optional<kv_entry>>;
using entries_answer = answer<std::vector<kv_entry>>;
using keys_answer = answer<std::vector<std::string>>;
using session_answer = answer<std::optional<session_info>>;
using node_answer = answer<std::optional<catalog_node>>;

// Each of these four functions decodes the next part of a reply, which may be long. It returns nullopt if there is
// more: the next call must have the same arguments.

std::optional<error_code> decode_list(entries_reader& from, const http_reply& reply, entries_answer& out);
std::optional<error_code> decode_keys(entries_reader& from, const http_reply& reply, keys_answer& out);
/// Consul answers with a list, which `list` keeps from part to part.
std::optional<error_code> decode_get(entries_reader& from, std::vector<kv_entry>& list, const http_reply& reply,
                                     entry_answer& out);
/// `operations` is the number of operations in the transaction. An error that names an operation beyond it is
/// malformed.
std::optional<error_code> decode_txn(entries_reader& from, const http_reply& reply, std::size_t operations,
                                     txn_reply& out);

error_code decode_write(const http_reply& reply, bool& out);
/// Decodes the reply to a write that Consul cannot decline: `false` is malformed.
error_code decode_confirmation(const http_reply& reply);
error_code decode_session_create(const http_reply& reply, std::string& out);
error_code decode_session_renew(const http_reply& reply);
error_code decode_session(const http_reply& reply, session_answer& out);
error_code decode_node(const http_reply& reply, node_answer& out);
/// If the reply refuses a transaction because it has too many operations, returns the number that Consul accepts.
/// Returns nullopt if that number is not plausible.
std::optional<std::size_t> operations_taken(const http_reply& reply);

}  // namespace holdfast::consul::detail
