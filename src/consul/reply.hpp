#pragma once

#include <cstddef>
#include <holdfast/consul/client.hpp>
#include <optional>

#include "http.hpp"

// What a reply means. Pure: a reply in, an error or a value out.
namespace holdfast::consul::detail {

/// No error for a 200. Otherwise what the status and, where Consul says a definite thing in a 500, its text mean. A 404
/// or 409 that is an answer to the question asked is for the functions below.
error_code classify(const http_reply& reply);

/// Consul's text of a failure, fit for a log: cut, and on one line.
std::string readable(std::string_view server_text);

using entry_answer = answer<std::optional<kv_entry>>;
using entries_answer = answer<std::vector<kv_entry>>;
using keys_answer = answer<std::vector<std::string>>;
using session_answer = answer<std::optional<session_info>>;
using node_answer = answer<std::optional<catalog_node>>;

error_code decode_get(const http_reply& reply, entry_answer& out);
error_code decode_list(const http_reply& reply, entries_answer& out);
error_code decode_keys(const http_reply& reply, keys_answer& out);
error_code decode_write(const http_reply& reply, bool& out);
/// Of a write that Consul does or fails to do, but does not decline.
error_code decode_confirmation(const http_reply& reply);
error_code decode_session_create(const http_reply& reply, std::string& out);
error_code decode_session_renew(const http_reply& reply);
error_code decode_session(const http_reply& reply, session_answer& out);
error_code decode_node(const http_reply& reply, node_answer& out);
error_code decode_txn(const http_reply& reply, std::size_t operations, txn_reply& out);
/// How many operations Consul takes, if this refuses a transaction for having more.
std::optional<std::size_t> operations_taken(const http_reply& reply);

}  // namespace holdfast::consul::detail
