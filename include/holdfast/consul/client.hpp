#pragma once

#include <boost/asio/any_completion_handler.hpp>
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
#include <holdfast/detail/initiation.hpp>
#include <holdfast/error.hpp>
#include <holdfast/error_with_diagnostics.hpp>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace holdfast::consul {

namespace asio = boost::asio;

/// Counters of one client since its construction; `connections_open` is a level.
struct client_statistics {
  std::uint64_t requests = 0;  ///< HTTP requests written, retries and blocking queries included
  std::uint64_t writes = 0;    ///< of these: KV writes, transactions, session create/renew/destroy
  std::uint64_t bytes_sent = 0;
  std::uint64_t bytes_received = 0;
  std::uint64_t connections_opened = 0;
  std::uint64_t connections_open = 0;     ///< now
  std::uint64_t connections_refused = 0;  ///< of those opened, that the agent closed because it had too many
};

/// What a client knows of its way to Consul, for people and for health checks.
struct client_health {
  std::string address{};  ///< of the agent that requests go to now
  std::chrono::system_clock::time_point since = std::chrono::system_clock::now();  ///< when they began to
  std::string last_failure{};  ///< what became of the last attempt that failed, at which address; empty: none has
  std::chrono::system_clock::time_point last_failure_at{};
};

namespace detail {

class client_impl;

// One struct per shape of request: what crosses from the templates below into client.cpp.
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
using handler_of = asio::any_completion_handler<void(holdfast::detail::outcome, Results...)>;
template <class Token, class... Results>
concept token_for = asio::completion_token_for<Token, void(error_code, Results...)>;

void start(const std::shared_ptr<client_impl>&, get_request, handler_of<answer<std::optional<kv_entry>>>);
void start(const std::shared_ptr<client_impl>&, list_request, handler_of<answer<std::vector<kv_entry>>>);
void start(const std::shared_ptr<client_impl>&, keys_request, handler_of<answer<std::vector<std::string>>>);
void start(const std::shared_ptr<client_impl>&, write_request, handler_of<bool>);
void start(const std::shared_ptr<client_impl>&, session_create_request, handler_of<std::string>);
void start(const std::shared_ptr<client_impl>&, session_renew_request, handler_of<>);
void start(const std::shared_ptr<client_impl>&, session_destroy_request, handler_of<>);
void start(const std::shared_ptr<client_impl>&, session_info_request, handler_of<answer<std::optional<session_info>>>);
void start(const std::shared_ptr<client_impl>&, node_register_request, handler_of<>);
void start(const std::shared_ptr<client_impl>&, node_read_request, handler_of<answer<std::optional<catalog_node>>>);
void start(const std::shared_ptr<client_impl>&, txn_request, handler_of<txn_reply>);
asio::any_io_executor executor_of(const client_impl&) noexcept;

// Not an aggregate: g++ 12 destroys aggregate temporaries in a co_await expression twice.
template <class Request>
class initiation {
public:
  using executor_type = asio::any_io_executor;
  initiation(std::shared_ptr<client_impl> impl, Request request)
      : impl_(std::move(impl)), request_(std::move(request)) {}
  executor_type get_executor() const noexcept { return executor_of(*impl_); }
  template <class Handler>
  void operator()(Handler&& handler) && {
    start(impl_, std::move(request_), holdfast::detail::receiving(std::forward<Handler>(handler)));
  }

private:
  std::shared_ptr<client_impl> impl_;
  Request request_;
};

template <class Token, class... Results, class Request>
auto initiate(std::shared_ptr<client_impl> impl, Request request, Token& token) {
  return asio::async_initiate<Token, void(error_code, Results...)>(
      initiation<Request>(std::move(impl), std::move(request)), token);
}

}  // namespace detail

/// A Consul HTTP client on Asio: keep-alive connections, deadlines on everything, blocking queries, transactions.
///
/// `condition::not_applied` says that a failed write certainly had no effect, `condition::outcome_unknown` that it may
/// have been applied or may be applied later (Consul was seen to apply a write 86 s after it had answered 500). Reading
/// what does not exist is not an error.
///
/// Keys must be UTF-8, and what may create one refuses spaces at either end of it: error::bad_request, and nothing is
/// sent. A key with such spaces that exists can still be read and deleted, on Consul 1.22 in a transaction only.
///
/// Deadline: each operation ends by `request_options::timeout`, a blocking query by `wait` + `wait`/16 + that.
///
/// Operations take a completion token, by default `throwing`. Handlers run on their associated executor, by
/// default the client's, never inside the initiating function. The token may take the place of options that are not
/// given. Of every operation:
///
/// - Errors, nothing was sent: invalid_option (of the options), bad_request (of the key); unreachable, too_busy.
/// - Errors, it was refused, and had no effect: permission_denied, plain_http_refused, bad_request, too_large,
///   too_many_requests, and what an operation says besides.
/// - Errors, a write may have been applied, or may be later: timed_out, connection_lost, server_error, malformed_reply,
///   reply_too_large; closed.
/// - Cancellation: terminal, partial, total; operation_aborted. A read leaves nothing in Consul; a write may have been
///   applied, or may be later. The connection of a request that was sent is closed.
/// - Lifetimes: `request_options::diag`, which gets the words of a failure, must outlive it; the handle need not.
///
/// Threads: operations and const members are safe from any thread; assignment, move and destruction are not beside
/// them.
///
/// Lifetimes: the handle is cheap to copy, and its copies are the same. Operations keep the connections alive, which
/// live on an internal strand. The handle may outlive the execution context: handlers that have not run by then, and
/// those of later operations, are destroyed without being called.
class client {
public:
  using executor_type = asio::any_io_executor;

  /// An empty handle: only assignment, destruction and `valid()` are allowed.
  client() noexcept = default;
  /// Sends nothing yet. Throws `system_error` (invalid_address, unsupported_scheme, invalid_option).
  explicit client(asio::any_io_executor executor, config settings = config());
  template <class Context>
    requires(!std::same_as<Context, client>)  // that has an executor, too, but is to be copied
            && requires(Context& c) { c.get_executor(); }
  explicit client(Context& context, config settings = config())
      : client(asio::any_io_executor(context.get_executor()), std::move(settings)) {}

  bool valid() const noexcept { return impl_ != nullptr; }
  executor_type get_executor() const noexcept;
  /// The strand that the client's own work runs on; a part that lives on it calls, and is called, without a thread hop.
  asio::any_io_executor strand() const noexcept;
  /// `host:port` of the agent, for messages.
  const std::string& address() const noexcept;
  client_statistics statistics() const noexcept;
  client_health health() const;

  /// One key; nullopt if it does not exist.
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
  /// All keys that start with `prefix` (a string prefix: end it with a slash), in key order. Keys that the token may
  /// not read are left out, or all: see `query_meta::filtered_by_acls`. The same holds for `keys`.
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
  /// The names of the keys that start with `prefix`, cut after the next `separator` unless that is empty.
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
  /// Sets the key. Completes with true.
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
  /// Sets the key if its ModifyIndex is `index` (0: if it does not exist). Completes with whether it was.
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
  /// Locks the key with the session and sets it. Completes with false if another session has it, or lock delay runs.
  ///
  /// Signature: void(error_code, bool).
  /// Errors: invalid_session (there is no such session).
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
  /// Unlocks the key and sets it. Completes with false if that session does not have it.
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
  /// Deletes every key that starts with `prefix` (a string prefix). Completes with true.
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
  /// Deletes the key if its ModifyIndex is `index`. Completes with whether it was.
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

  /// Creates a session; completes with its id. After an unknown outcome a session may be left to its TTL, if it has
  /// one.
  ///
  /// Signature: void(error_code, std::string).
  /// Errors: invalid_ttl; invalid_option (also of `lock_delay`); missing_node (its node is not in the catalog).
  /// Cancellation: the same may be left.
  template <detail::token_for<std::string> Token = throwing_t>
  auto create_session(session_options session, Token&& token = {}) {
    return create_session(std::move(session), request_options(), std::forward<Token>(token));
  }
  template <detail::token_for<std::string> Token = throwing_t>
  auto create_session(session_options session, request_options options, Token&& token = {}) {
    return detail::initiate<Token, std::string>(impl_, detail::session_create_request{std::move(session), options},
                                                token);
  }
  /// Renews the session's TTL, on a connection that is reserved for that.
  ///
  /// Signature: void(error_code).
  /// Errors: invalid_session (it is gone).
  template <detail::token_for<> Token = throwing_t>
  auto renew_session(std::string id, Token&& token = {}) {
    return renew_session(std::move(id), request_options(), std::forward<Token>(token));
  }
  template <detail::token_for<> Token = throwing_t>
  auto renew_session(std::string id, request_options options, Token&& token = {}) {
    return detail::initiate<Token>(impl_, detail::session_renew_request{std::move(id), options}, token);
  }
  /// Destroys the session; destroying one that is gone succeeds.
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
  /// The session, nullopt if it does not exist, or the token may not read it (`query_meta::filtered_by_acls`).
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

  /// Registers a node in the catalog of `config::datacenter`, without an id and without checks: sessions can belong to
  /// it, and no agent's end ends them. If it is there already, its address is set to this one. ACL: `node` write;
  /// `node` read is enough where nothing would change.
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
  /// Consul does not tell the two apart. ACL: `node` read. The index in the answer is the catalog's, which writes to
  /// other tables do not move.
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

  /// All of the operations, or none: `txn_reply::applied` tells. A refusal is an answer, not an error.
  ///
  /// Signature: void(error_code, txn_reply).
  /// Errors: too_large (more bytes or operations than Consul takes; nothing is sent of more than `txn_operations_max`
  /// operations, or of more than the number that Consul has named when it refused a transaction of this client).
  template <detail::token_for<txn_reply> Token = throwing_t>
  auto transact(std::vector<txn_operation> operations, Token&& token = {}) {
    return transact(std::move(operations), request_options(), std::forward<Token>(token));
  }
  template <detail::token_for<txn_reply> Token = throwing_t>
  auto transact(std::vector<txn_operation> operations, request_options options, Token&& token = {}) {
    return detail::initiate<Token, txn_reply>(impl_, detail::txn_request{std::move(operations), options}, token);
  }

  /// Ends every running and queued operation with error::closed and closes all connections. Later ones fail the same
  /// way. It satisfies no condition: a write may have been sent before. From any thread, as the operations.
  void close() noexcept;

private:
  std::shared_ptr<detail::client_impl> impl_;
};

}  // namespace holdfast::consul
