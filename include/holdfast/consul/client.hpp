// SPDX-FileCopyrightText: The holdfast authors
// SPDX-License-Identifier: BSL-1.0

#pragma once

#include <array>
#include <boost/asio/any_io_executor.hpp>
#include <boost/asio/async_result.hpp>
#include <chrono>
#include <concepts>
#include <cstdint>
#include <holdfast/consul/config.hpp>
#include <holdfast/consul/kv.hpp>
#include <holdfast/consul/query.hpp>
#include <holdfast/consul/session.hpp>
#include <holdfast/consul/txn.hpp>
#include <holdfast/detail/enumeration.hpp>
#include <holdfast/detail/export.hpp>
#include <holdfast/detail/initiation.hpp>
#include <holdfast/error.hpp>
#include <holdfast/error_with_diagnostics.hpp>
#include <holdfast/histogram.hpp>
#include <iterator>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace holdfast::detail {

class statistics_access;

}  // namespace holdfast::detail

namespace holdfast::consul {

namespace asio = boost::asio;

/// The kinds of operations of a client.
enum class request_kind {
  kv_read,   ///< get, list, keys
  kv_write,  ///< put, cas, acquire, release, remove and the like
  transact,
  session_create,
  session_renew,
  session_destroy,
  session_read,
  node_write,
  node_read,
};
/// The name of the enumerator, for metrics: "kv_read".
constexpr std::string_view to_string(request_kind kind) noexcept {
  switch (kind) {
    case request_kind::kv_read:
      return "kv_read";
    case request_kind::kv_write:
      return "kv_write";
    case request_kind::transact:
      return "transact";
    case request_kind::session_create:
      return "session_create";
    case request_kind::session_renew:
      return "session_renew";
    case request_kind::session_destroy:
      return "session_destroy";
    case request_kind::session_read:
      return "session_read";
    case request_kind::node_write:
      return "node_write";
    case request_kind::node_read:
      return "node_read";
  }
  return "unknown";
}
inline constexpr auto request_kinds = holdfast::detail::enumerators<request_kind>();

/// How an operation of a client has ended.
enum class request_outcome {
  ok,       ///< without an error; the answer may be that a compare-and-set was not applied
  refused,  ///< Consul or this library has refused it; repetition would not help
  failed,   ///< the error equals `condition::unavailable` or `condition::outcome_unknown`
  cancelled,
};
/// The name of the enumerator, for metrics: "ok".
constexpr std::string_view to_string(request_outcome outcome) noexcept {
  switch (outcome) {
    case request_outcome::ok:
      return "ok";
    case request_outcome::refused:
      return "refused";
    case request_outcome::failed:
      return "failed";
    case request_outcome::cancelled:
      return "cancelled";
  }
  return "unknown";
}
inline constexpr auto request_outcomes = holdfast::detail::enumerators<request_outcome>();

/// The operations of one kind.
struct operation_statistics {
  counters_by<request_outcome> ended{};  ///< an operation that sends several requests counts once
  duration_histogram took{};             ///< from the start to the end, with repetitions; without blocking queries
};

/// Counters of one client since its construction. Only `connections_open` can also fall.
struct client_statistics {
  std::array<operation_statistics, request_kinds.size()> operations{};  ///< indexed by `request_kind`
  const operation_statistics& of(request_kind kind) const noexcept {
    return operations[holdfast::detail::index_of(kind)];
  }

  std::uint64_t requests = 0;  ///< HTTP requests written; retries, blocking queries and trials of agents count, too
  std::uint64_t writes = 0;    ///< the requests among them that are not reads; every transaction counts
  std::uint64_t bytes_sent = 0;
  std::uint64_t bytes_received = 0;
  std::uint64_t connections_opened = 0;
  std::uint64_t connections_open = 0;     ///< connections that are open now
  std::uint64_t connections_refused = 0;  ///< opened connections that the agent closed because it had too many
  std::uint64_t tokens_unknown = 0;       ///< requests whose ACL token Consul did not know yet
};

/// The state of a client's connection to Consul, for people and for health checks.
struct client_health {
  /// The address of the agent that requests go to. It changes when the first answer of another agent arrives that is
  /// Consul's and not a 5xx. The other agent may also be another IP address of the same name.
  std::string address{};
  /// The time of the last change of `address`; before the first one, the time of the client's construction.
  std::chrono::system_clock::time_point since = std::chrono::system_clock::now();
  /// The last failed attempt: the address and the reason. An attempt fails if there is no connection, no complete and
  /// well-formed reply, or a reply with status 403, 429 or 5xx, or one that is not Consul's. An agent that was left
  /// because it does not answer may also be named. Empty if nothing has failed.
  std::string last_failure{};
  std::chrono::system_clock::time_point last_failure_at{};
};

namespace detail {

class client_impl;

// One struct for each kind of request. The templates below pass it to client.cpp.
struct get_request {
  std::string key;
  read_options options;
};
struct list_request {
  std::string prefix;
  read_options options;
};
struct keys_request {
  std::string prefix;
  std::string separator;
  read_options options;
};
struct write_request {
  enum class kind { put, cas, acquire, release, remove, remove_tree, remove_cas } verb;
  std::string key;
  std::string value;
  std::uint64_t flags;
  std::uint64_t index;
  std::string session;
  request_options options;
};
struct session_create_request {
  session_options session;
  request_options options;
};
struct session_renew_request {
  std::string id;
  request_options options;
};
struct session_destroy_request {
  std::string id;
  request_options options;
};
struct session_info_request {
  std::string id;
  read_options options;
};
struct node_register_request {
  node_registration node;
  request_options options;
};
struct node_read_request {
  std::string name;
  read_options options;
};
struct txn_request {
  std::vector<txn_operation> operations;
  request_options options;
};

template <class... Results>
using handler_of = holdfast::detail::pending<Results...>;
template <class Token, class... Results>
concept token_for = asio::completion_token_for<Token, void(error_code, Results...)>;

HOLDFAST_EXPORT void start(const std::shared_ptr<client_impl>&, get_request,
                           handler_of<answer<std::optional<kv_entry>>>&&);
HOLDFAST_EXPORT void start(const std::shared_ptr<client_impl>&, list_request,
                           handler_of<answer<std::vector<kv_entry>>>&&);
HOLDFAST_EXPORT void start(const std::shared_ptr<client_impl>&, keys_request,
                           handler_of<answer<std::vector<std::string>>>&&);
HOLDFAST_EXPORT void start(const std::shared_ptr<client_impl>&, write_request, handler_of<bool>&&);
HOLDFAST_EXPORT void start(const std::shared_ptr<client_impl>&, session_create_request, handler_of<std::string>&&);
HOLDFAST_EXPORT void start(const std::shared_ptr<client_impl>&, session_renew_request, handler_of<>&&);
HOLDFAST_EXPORT void start(const std::shared_ptr<client_impl>&, session_destroy_request, handler_of<>&&);
HOLDFAST_EXPORT void start(const std::shared_ptr<client_impl>&, session_info_request,
                           handler_of<answer<std::optional<session_info>>>&&);
HOLDFAST_EXPORT void start(const std::shared_ptr<client_impl>&, node_register_request, handler_of<>&&);
HOLDFAST_EXPORT void start(const std::shared_ptr<client_impl>&, node_read_request,
                           handler_of<answer<std::optional<catalog_node>>>&&);
HOLDFAST_EXPORT void start(const std::shared_ptr<client_impl>&, txn_request, handler_of<txn_reply>&&);
HOLDFAST_EXPORT const asio::any_io_executor& executor_of(const client_impl&) noexcept;
HOLDFAST_EXPORT const asio::any_io_executor& strand_of(const client_impl&) noexcept;

template <class Token, class... Results, class Request>
auto initiate(std::shared_ptr<client_impl> impl, Request request, Token& token) {
  auto send = [request = std::move(request)](const std::shared_ptr<client_impl>& to,
                                             handler_of<Results...>&& waiting) mutable {
    start(to, std::move(request), std::move(waiting));
  };
  return holdfast::detail::begin_operation<Results...>(std::move(impl), std::move(send), token);
}

}  // namespace detail

/// A Consul HTTP client on Asio. It keeps connections alive between requests, gives every operation a deadline, and
/// supports blocking queries and transactions.
///
/// If a write fails with an error of `condition::not_applied`, it certainly had no effect. With an error of
/// `condition::outcome_unknown`, it may have been applied or may be applied later. (Consul was seen to apply a write 86
/// s after it had answered 500.) Reading a key, session or node that does not exist is not an error.
///
/// A proxy may send a request twice. The reply is then that to the second one. So `cas` and `release` may complete with
/// false, and `transact` with a reply that is not applied, although the first request was applied. Read the key to find
/// out. The locks of this library do that.
///
/// Keys must be UTF-8. An operation that may create a key refuses one that begins or ends with a space. A key or a name
/// in a path must not have a segment `.` or `..`: a proxy might make another path of it. (Transactions have no keys in
/// their path.) In these cases the operation fails with error::bad_request, and nothing is sent. An existing key with
/// such spaces can be read and deleted, on Consul 1.22 only in a transaction.
///
/// Deadline: each operation completes within `request_options::timeout` (0: `config::request_timeout`). A blocking
/// query completes within `wait` + `wait`/16 + `timeout`, or later if it has to queue or is sent again
/// (`read_options::index`).
///
/// Operations take a completion token, by default `throwing`. Handlers run on their associated executor, by default the
/// client's, and never inside the initiating function. The memory of a pending operation comes from the handler's
/// associated allocator. Trailing options can be left out: the token then takes their place. For every operation:
///
/// - Errors after which the agent has read nothing: invalid_option (an option is out of range), bad_request (the key is
///   not valid), unreachable, too_busy, certificate_refused, client_certificate_refused.
/// - Errors of a refused request, which had no effect: permission_denied, token_unknown, plain_http_refused,
///   bad_request, too_large, too_many_requests, and the errors that the operation lists. too_large and
///   too_many_requests may also occur before anything is sent.
/// - Errors after which a write may have been applied, or may be applied later: timed_out, connection_lost,
///   server_error, not_consul, reply_too_large, closed.
/// - Cancellation: terminal, partial and total are supported. The operation completes with operation_aborted, unless a
///   reply without an error has already arrived. A read leaves nothing in Consul. A write may have been applied, or may
///   be applied later. If the request was sent and is not answered, its connection is closed.
/// - Lifetimes: `request_options::diag`, which receives the description of a failure, must outlive the operation. The
///   handle need not.
///
/// Threads: operations and const members may be called from any thread. Assignment, move and destruction must not run
/// concurrently with other uses of the same handle.
///
/// Lifetimes: the handle is cheap to copy, and all copies refer to the same client. The connections live on an internal
/// strand, and pending operations keep them alive. The handle may outlive the execution context. Then handlers that
/// have not run, and those of later operations, are destroyed without being called.
///
/// <!-- cut from example/in_the_headers.cpp: client -->
/// ```cpp
/// asio::awaitable<void> count(holdfast::consul::client consul) {
///   using holdfast::consul::txn_operation;
///   const auto read = co_await consul.get("service/visits");
///   const int visits = read.value ? std::stoi(read.value->value) : 0;
///   const std::uint64_t index = read.value ? read.value->modify_index : 0;  // 0: the key must not exist
///   const std::vector all{txn_operation::cas("service/visits", std::to_string(visits + 1), index)};
///   const auto reply = co_await consul.transact(all);
///   say(reply.applied ? "counted" : "another process was faster");
/// }
/// ```
class HOLDFAST_EXPORT client {
public:
  using executor_type = asio::any_io_executor;

  /// Constructs an empty handle. Its operations complete with error::closed, and its other members return empty values.
  client() noexcept = default;
  /// Checks the settings, and reads the token and the certificates. Sends nothing yet. Throws `system_error`:
  /// invalid_address, unsupported_scheme, invalid_option. Passes on an exception of `config::token_function`.
  explicit client(asio::any_io_executor executor, config settings = config());
  template <class Context>
    requires(!std::same_as<Context, client>)  // a client also has get_executor(), but is copied
            && requires(Context& c) { c.get_executor(); }
  explicit client(Context& context, config settings = config())
      : client(asio::any_io_executor(context.get_executor()), std::move(settings)) {}

  /// Returns false for an empty handle.
  bool valid() const noexcept { return impl_ != nullptr; }
  /// The executor that the client was made with, and the default executor of its handlers. Empty if the execution
  /// context has been destroyed.
  executor_type get_executor() const noexcept;
  /// The strand that the client's own work runs on. Code that runs on it calls the client without a switch of threads.
  /// Handlers whose associated executor is this strand are called without one, too. Empty if the execution context has
  /// been destroyed.
  asio::any_io_executor strand() const noexcept;
  /// The configured address of the agent, for messages; of several addresses the first. See `health` for the address
  /// that is in use.
  const std::string& address() const noexcept;
  client_statistics statistics() const noexcept;
  client_health health() const;

  /// Reads one key. Completes with its entry, or with nullopt if the key does not exist.
  ///
  /// Signature: void(error_code, answer<std::optional<kv_entry>>).
  template <detail::token_for<answer<std::optional<kv_entry>>> Token = throwing_t>
  auto get(std::string key, Token&& token = {}) {
    return get(std::move(key), read_options(), std::forward<Token>(token));
  }
  template <detail::token_for<answer<std::optional<kv_entry>>> Token = throwing_t>
  auto get(std::string key, read_options options, Token&& token = {}) {
    return detail::initiate<Token, answer<std::optional<kv_entry>>>(impl_, detail::get_request{std::move(key), options},
                                                                    token);
  }
  /// Reads all keys that start with `prefix`. Completes with their entries in key order. `prefix` is a string prefix,
  /// so it usually ends with a slash. Keys that the token may not read are left out: see
  /// `query_meta::filtered_by_acls`.
  ///
  /// Signature: void(error_code, answer<std::vector<kv_entry>>).
  template <detail::token_for<answer<std::vector<kv_entry>>> Token = throwing_t>
  auto list(std::string prefix, Token&& token = {}) {
    return list(std::move(prefix), read_options(), std::forward<Token>(token));
  }
  template <detail::token_for<answer<std::vector<kv_entry>>> Token = throwing_t>
  auto list(std::string prefix, read_options options, Token&& token = {}) {
    return detail::initiate<Token, answer<std::vector<kv_entry>>>(
        impl_, detail::list_request{std::move(prefix), options}, token);
  }
  /// Reads the names of all keys that start with `prefix`. Completes with the names in key order. If `separator` is not
  /// empty, each name is cut after the first separator behind the prefix, and equal names are listed once. Keys that
  /// the token may not read are left out: see `query_meta::filtered_by_acls`.
  ///
  /// Signature: void(error_code, answer<std::vector<std::string>>).
  template <detail::token_for<answer<std::vector<std::string>>> Token = throwing_t>
  auto keys(std::string prefix, Token&& token = {}) {
    return keys(std::move(prefix), std::string(), read_options(), std::forward<Token>(token));
  }
  template <detail::token_for<answer<std::vector<std::string>>> Token = throwing_t>
  auto keys(std::string prefix, std::string separator, Token&& token = {}) {
    return keys(std::move(prefix), std::move(separator), read_options(), std::forward<Token>(token));
  }
  template <detail::token_for<answer<std::vector<std::string>>> Token = throwing_t>
  auto keys(std::string prefix, std::string separator, read_options options, Token&& token = {}) {
    return detail::initiate<Token, answer<std::vector<std::string>>>(
        impl_, detail::keys_request{std::move(prefix), std::move(separator), options}, token);
  }

  using write = detail::write_request;
  /// Sets the value and the flags of the key, and creates the key if it does not exist. Without an argument for them,
  /// the flags are 0, as in all writes below. Completes with true.
  ///
  /// Signature: void(error_code, bool).
  template <detail::token_for<bool> Token = throwing_t>
  auto put(std::string key, std::string value, Token&& token = {}) {
    return put(std::move(key), std::move(value), 0, request_options(), std::forward<Token>(token));
  }
  template <detail::token_for<bool> Token = throwing_t>
  auto put(std::string key, std::string value, std::uint64_t flags, Token&& token = {}) {
    return put(std::move(key), std::move(value), flags, request_options(), std::forward<Token>(token));
  }
  template <detail::token_for<bool> Token = throwing_t>
  auto put(std::string key, std::string value, std::uint64_t flags, request_options options, Token&& token = {}) {
    return detail::initiate<Token, bool>(
        impl_, write{write::kind::put, std::move(key), std::move(value), flags, 0, {}, options}, token);
  }
  /// Sets the key if its ModifyIndex is `index`; with an `index` of 0, if it does not exist. Completes with true if the
  /// key was set.
  ///
  /// Signature: void(error_code, bool).
  template <detail::token_for<bool> Token = throwing_t>
  auto cas(std::string key, std::string value, std::uint64_t index, Token&& token = {}) {
    return cas(std::move(key), std::move(value), index, 0, request_options(), std::forward<Token>(token));
  }
  template <detail::token_for<bool> Token = throwing_t>
  auto cas(std::string key, std::string value, std::uint64_t index, std::uint64_t flags, Token&& token = {}) {
    return cas(std::move(key), std::move(value), index, flags, request_options(), std::forward<Token>(token));
  }
  template <detail::token_for<bool> Token = throwing_t>
  auto cas(std::string key, std::string value, std::uint64_t index, std::uint64_t flags, request_options options,
           Token&& token = {}) {
    return detail::initiate<Token, bool>(
        impl_, write{write::kind::cas, std::move(key), std::move(value), flags, index, {}, options}, token);
  }
  /// Locks the key with the session and sets it. Completes with true, or with false if another session has locked the
  /// key or its lock delay is running.
  ///
  /// Signature: void(error_code, bool).
  /// Errors: invalid_session (the session does not exist).
  template <detail::token_for<bool> Token = throwing_t>
  auto acquire(std::string key, std::string value, std::string session, Token&& token = {}) {
    return acquire(std::move(key), std::move(value), std::move(session), 0, request_options(),
                   std::forward<Token>(token));
  }
  template <detail::token_for<bool> Token = throwing_t>
  auto acquire(std::string key, std::string value, std::string session, std::uint64_t flags, Token&& token = {}) {
    return acquire(std::move(key), std::move(value), std::move(session), flags, request_options(),
                   std::forward<Token>(token));
  }
  template <detail::token_for<bool> Token = throwing_t>
  auto acquire(std::string key, std::string value, std::string session, std::uint64_t flags, request_options options,
               Token&& token = {}) {
    return detail::initiate<Token, bool>(
        impl_, write{write::kind::acquire, std::move(key), std::move(value), flags, 0, std::move(session), options},
        token);
  }
  /// Unlocks the key and sets it. Completes with true, or with false if the session has not locked the key.
  ///
  /// Signature: void(error_code, bool).
  template <detail::token_for<bool> Token = throwing_t>
  auto release(std::string key, std::string value, std::string session, Token&& token = {}) {
    return release(std::move(key), std::move(value), std::move(session), 0, request_options(),
                   std::forward<Token>(token));
  }
  template <detail::token_for<bool> Token = throwing_t>
  auto release(std::string key, std::string value, std::string session, std::uint64_t flags, Token&& token = {}) {
    return release(std::move(key), std::move(value), std::move(session), flags, request_options(),
                   std::forward<Token>(token));
  }
  template <detail::token_for<bool> Token = throwing_t>
  auto release(std::string key, std::string value, std::string session, std::uint64_t flags, request_options options,
               Token&& token = {}) {
    return detail::initiate<Token, bool>(
        impl_, write{write::kind::release, std::move(key), std::move(value), flags, 0, std::move(session), options},
        token);
  }
  /// Deletes the key, whether it exists or not. Completes with true.
  ///
  /// Signature: void(error_code, bool).
  template <detail::token_for<bool> Token = throwing_t>
  auto remove(std::string key, Token&& token = {}) {
    return remove(std::move(key), request_options(), std::forward<Token>(token));
  }
  template <detail::token_for<bool> Token = throwing_t>
  auto remove(std::string key, request_options options, Token&& token = {}) {
    return detail::initiate<Token, bool>(impl_, write{write::kind::remove, std::move(key), {}, 0, 0, {}, options},
                                         token);
  }
  /// Deletes every key that starts with `prefix`, which is a string prefix as for `list`. Completes with true.
  ///
  /// Signature: void(error_code, bool).
  template <detail::token_for<bool> Token = throwing_t>
  auto remove_tree(std::string prefix, Token&& token = {}) {
    return remove_tree(std::move(prefix), request_options(), std::forward<Token>(token));
  }
  template <detail::token_for<bool> Token = throwing_t>
  auto remove_tree(std::string prefix, request_options options, Token&& token = {}) {
    return detail::initiate<Token, bool>(
        impl_, write{write::kind::remove_tree, std::move(prefix), {}, 0, 0, {}, options}, token);
  }
  /// Deletes the key if its ModifyIndex is `index`. Completes with true, also if the key does not exist, or with
  /// false if it has another ModifyIndex.
  ///
  /// Signature: void(error_code, bool).
  template <detail::token_for<bool> Token = throwing_t>
  auto remove_cas(std::string key, std::uint64_t index, Token&& token = {}) {
    return remove_cas(std::move(key), index, request_options(), std::forward<Token>(token));
  }
  template <detail::token_for<bool> Token = throwing_t>
  auto remove_cas(std::string key, std::uint64_t index, request_options options, Token&& token = {}) {
    return detail::initiate<Token, bool>(
        impl_, write{write::kind::remove_cas, std::move(key), {}, 0, index, {}, options}, token);
  }

  /// Creates a session. Completes with its id. After an error with an unknown outcome, a session of unknown id may
  /// exist until its TTL has expired. Without a TTL, it exists until its node or a health check of the node ends it.
  ///
  /// Signature: void(error_code, std::string). Errors: invalid_ttl; invalid_option (also for `lock_delay`);
  /// missing_node (the session's node is not in the catalog). Cancellation: a session may exist as after an unknown
  /// outcome.
  template <detail::token_for<std::string> Token = throwing_t>
  auto create_session(session_options session, Token&& token = {}) {
    return create_session(std::move(session), request_options(), std::forward<Token>(token));
  }
  template <detail::token_for<std::string> Token = throwing_t>
  auto create_session(session_options session, request_options options, Token&& token = {}) {
    return detail::initiate<Token, std::string>(impl_, detail::session_create_request{std::move(session), options},
                                                token);
  }
  /// Renews the session's TTL, on a connection that is reserved for renewals. While the agent refuses connections or
  /// cannot be reached, an idle connection of ordinary requests is used if there is one.
  ///
  /// Signature: void(error_code).
  /// Errors: invalid_session (the session does not exist any more).
  template <detail::token_for<> Token = throwing_t>
  auto renew_session(std::string id, Token&& token = {}) {
    return renew_session(std::move(id), request_options(), std::forward<Token>(token));
  }
  template <detail::token_for<> Token = throwing_t>
  auto renew_session(std::string id, request_options options, Token&& token = {}) {
    return detail::initiate<Token>(impl_, detail::session_renew_request{std::move(id), options}, token);
  }
  /// Destroys the session. Succeeds also if the session does not exist any more.
  ///
  /// Signature: void(error_code).
  template <detail::token_for<> Token = throwing_t>
  auto destroy_session(std::string id, Token&& token = {}) {
    return destroy_session(std::move(id), request_options(), std::forward<Token>(token));
  }
  template <detail::token_for<> Token = throwing_t>
  auto destroy_session(std::string id, request_options options, Token&& token = {}) {
    return detail::initiate<Token>(impl_, detail::session_destroy_request{std::move(id), options}, token);
  }
  /// Reads a session. Completes with nullopt if the session does not exist, or if the token may not read it
  /// (`query_meta::filtered_by_acls`).
  ///
  /// Signature: void(error_code, answer<std::optional<session_info>>).
  template <detail::token_for<answer<std::optional<session_info>>> Token = throwing_t>
  auto session(std::string id, Token&& token = {}) {
    return session(std::move(id), read_options(), std::forward<Token>(token));
  }
  template <detail::token_for<answer<std::optional<session_info>>> Token = throwing_t>
  auto session(std::string id, read_options options, Token&& token = {}) {
    return detail::initiate<Token, answer<std::optional<session_info>>>(
        impl_, detail::session_info_request{std::move(id), options}, token);
  }

  /// Registers a node in the catalog of `config::datacenter`, without an id and without checks. A session that belongs
  /// to the node does not depend on any agent. If the node is registered already, its address is set to this one. ACL:
  /// `node` write; if nothing would change, `node` read is enough.
  ///
  /// Signature: void(error_code).
  /// Errors: invalid_option (an empty name or address).
  template <detail::token_for<> Token = throwing_t>
  auto register_node(node_registration node, Token&& token = {}) {
    return register_node(std::move(node), request_options(), std::forward<Token>(token));
  }
  template <detail::token_for<> Token = throwing_t>
  auto register_node(node_registration node, request_options options, Token&& token = {}) {
    return detail::initiate<Token>(impl_, detail::node_register_request{std::move(node), options}, token);
  }

  /// Reads a node of the catalog. Completes with nullopt if there is no such node, or if the token may not read it:
  /// Consul's answer is the same. ACL: `node` read. The index in the answer is the catalog's; writes to other tables do
  /// not change it.
  ///
  /// Signature: void(error_code, answer<std::optional<catalog_node>>).
  /// Errors: invalid_option (an empty name).
  template <detail::token_for<answer<std::optional<catalog_node>>> Token = throwing_t>
  auto node(std::string name, Token&& token = {}) {
    return node(std::move(name), read_options(), std::forward<Token>(token));
  }
  template <detail::token_for<answer<std::optional<catalog_node>>> Token = throwing_t>
  auto node(std::string name, read_options options, Token&& token = {}) {
    return detail::initiate<Token, answer<std::optional<catalog_node>>>(
        impl_, detail::node_read_request{std::move(name), options}, token);
  }

  /// Applies all operations, or none. Completes with a reply whose `txn_reply::applied` is true if they were applied.
  /// If Consul refuses an operation, that is a reply and not an error.
  ///
  /// Signature: void(error_code, txn_reply). Errors: too_large (more bytes or operations than Consul accepts). Nothing
  /// is sent if there are more operations than `txn_operations_max`, or than the number that Consul has named when it
  /// refused a transaction of this client.
  template <detail::token_for<txn_reply> Token = throwing_t>
  auto transact(std::vector<txn_operation> operations, Token&& token = {}) {
    return transact(std::move(operations), request_options(), std::forward<Token>(token));
  }
  template <detail::token_for<txn_reply> Token = throwing_t>
  auto transact(std::vector<txn_operation> operations, request_options options, Token&& token = {}) {
    return detail::initiate<Token, txn_reply>(impl_, detail::txn_request{std::move(operations), options}, token);
  }

  /// Makes all pending and later operations complete with error::closed, and closes all connections. Returns at once;
  /// the work is done on the client's strand. If a reply without an error has arrived by then, the operation completes
  /// with it. Later operations whose arguments are not valid complete with the error for that.
  /// error::closed is not `condition::not_applied`, because a write that was pending may have been applied. It is not
  /// `condition::outcome_unknown` either, because an operation that begins after `close` sends nothing. May be called
  /// from any thread.
  void close() noexcept;

private:
  friend class holdfast::detail::statistics_access;
  std::shared_ptr<detail::client_impl> impl_;
};

}  // namespace holdfast::consul
