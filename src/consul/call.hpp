// SPDX-FileCopyrightText: The holdfast authors
// SPDX-License-Identifier: BSL-1.0

#pragma once

#include <holdfast/consul/client.hpp>
#include <string>
#include <string_view>

#include "consul/transport.hpp"

// Turns the arguments of an operation into a request and the rules for sending it. Pure.
namespace holdfast::consul::detail {

/// The effect of a request on Consul. It is one of the things that `may_repeat` depends on.
enum class effect {
  none,        ///< a read
  idempotent,  ///< a write that may be repeated after an unknown outcome: renew, destroy, register
  write,       ///< a write that may not be repeated after an unknown outcome
};

struct call {
  std::string_view name;  ///< for messages
  std::string key;        ///< for diagnostics
  http_request request;
  connection_class where = connection_class::ordinary;
  effect does = effect::none;
  bool retry = true;
  std::chrono::milliseconds time{0};  ///< from start to deadline
  diagnostics* diag = nullptr;
  const void* trace_parent = nullptr;
  error_code refused;            ///< if set, the arguments are not valid, and nothing is sent
  std::string_view refused_for;  ///< the invalid part of the arguments, if `refused` does not name it
};

/// The settings that all calls of a client share.
struct call_settings {
  explicit call_settings(const config& settings);

  // An empty datacenter means the agent's own. An empty namespace or partition means the token's.
  std::string datacenter;
  std::string consul_namespace;
  std::string partition;
  std::chrono::milliseconds timeout;
};

call make_call(const call_settings& settings, const get_request& request);
call make_call(const call_settings& settings, const list_request& request);
call make_call(const call_settings& settings, const keys_request& request);
call make_call(const call_settings& settings, const write_request& request);
call make_call(const call_settings& settings, const session_create_request& request);
call make_call(const call_settings& settings, const session_renew_request& request);
call make_call(const call_settings& settings, const session_destroy_request& request);
call make_call(const call_settings& settings, const session_info_request& request);
call make_call(const call_settings& settings, const node_register_request& request);
call make_call(const call_settings& settings, const node_read_request& request);
/// If there are more operations than `operations_max`, the call is refused with too_large.
call make_call(const call_settings& settings, const txn_request& request,
               std::size_t operations_max = txn_operations_max);

/// Returns true if the call may be sent again, after a pause, when an attempt has failed with `e`. The cases in which a
/// request is sent again even without `retry` are decided elsewhere: see `request_options::retry`.
bool may_repeat(const call& c, const error_code& e) noexcept;

/// Returns one line about a failure: the operation and the reason. After a success, it says that the answer lacks
/// something that the token may not read.
std::string describe(const call& c, std::string_view address, const attempt_result& outcome);

}  // namespace holdfast::consul::detail
