#pragma once

#include <holdfast/consul/client.hpp>
#include <string>
#include <string_view>

#include "transport.hpp"

// What to send for an operation, and how. Pure: arguments in, bytes and rules out.
namespace holdfast::consul::detail {

/// What a repetition would do.
enum class effect {
  none,        ///< a read
  idempotent,  ///< a write that may be repeated after an unknown outcome: renew, destroy
  write,       ///< one that may not
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
  error_code refused;            ///< set: the arguments are not valid, and nothing is to be sent
  std::string_view refused_for;  ///< what in them, if the error does not say it
};

/// What all calls of a client have in common.
struct call_settings {
  explicit call_settings(const config& settings);

  // Empty: the agent's own, or the token's.
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
/// `operations_max`: of more operations nothing is sent.
call make_call(const call_settings& settings, const txn_request& request,
               std::size_t operations_max = txn_operations_max);

/// Whether the call may be sent once more after an attempt that ended with `e`.
bool may_repeat(const call& c, const error_code& e) noexcept;

/// One sentence about a failure: which operation, and why. About a success, if the answer lacks something.
std::string describe(const call& c, std::string_view address, const attempt_result& outcome);

}  // namespace holdfast::consul::detail
