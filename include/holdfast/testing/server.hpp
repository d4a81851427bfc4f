// SPDX-FileCopyrightText: The holdfast authors
// SPDX-License-Identifier: BSL-1.0

#pragma once

#include <boost/asio/any_io_executor.hpp>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <holdfast/consul/config.hpp>
#include <holdfast/detail/build.hpp>
#include <holdfast/detail/export.hpp>
#include <holdfast/testing/faults.hpp>
#include <holdfast/testing/store.hpp>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <utility>

namespace holdfast::testing {

namespace asio = boost::asio;

namespace detail {
class front_impl;
class context_thread;
class model;
}  // namespace detail

struct server_options {
  std::string host = "127.0.0.1";  ///< an IP literal of a loopback address, or else error::invalid_option
  std::uint16_t port = 0;          ///< 0: any free port
  /// The limit of connections from one address, like Consul's `http_max_conns_per_client`. Further connections are
  /// reset. 0: no limit.
  std::size_t connections_max = 0;
  /// The limit of a blocking query's wait. A query that has waited longer gets no reply: its connection is closed, as
  /// by servers and proxies that end every request after 30 s. 0: no limit. Used by `server` only.
  std::chrono::milliseconds exchange_max{0};
  /// For session ids and the jitter of blocking queries. 0: a random one, so that no two servers have the same session
  /// ids. Used by `server` only.
  std::uint64_t seed = 0;
  store_options model{};  ///< `server` only
};

/// Counters since construction, except `connections`, `blocked` and `frozen`, which are current numbers.
struct server_statistics {
  std::uint64_t accepted = 0;   ///< connections, including those that a fault or the limit then reset
  std::uint64_t requests = 0;   ///< requests that were read completely
  std::uint64_t faults = 0;     ///< requests that got a fault, and queries answered by `answer_blocked`
  std::size_t connections = 0;  ///< including pending requests whose client has gone, and copies of `repeat_later`
  std::size_t blocked = 0;      ///< blocking queries that wait; for a proxy: that are pending
  std::size_t frozen = 0;       ///< requests and replies that a freeze holds
};

/// Base class of `server` and `proxy`: an HTTP listener that injects faults on demand.
///
/// Requests on one connection are answered in order. Bytes that are not a valid request are answered with 400, 413 or
/// 431, and the connection is closed. When a client closes its connection, its blocking query is dropped at once, while
/// Consul keeps it until its wait is over. Every other request that was read completely is still applied.
///
/// Thread safety: all functions may be called from any thread. Settings take effect at once. Effects on open
/// connections follow soon after, on an internal strand.
///
/// The destructor closes the listener and all connections. If the object has a thread of its own, the destructor joins
/// that thread. If the object runs in the user's context, the connections are closed when the context runs next or is
/// destroyed. The context may be destroyed before or after the object.
class HOLDFAST_EXPORT front {
public:
  front(const front&) = delete;
  front& operator=(const front&) = delete;

  std::string address() const;  ///< "127.0.0.1:port", of this listener
  std::string url() const { return "http://" + address(); }
  /// The configuration of a client of this listener.
  consul::config client_config() const;
  server_statistics statistics() const;

  /// Replaces the plan. Requests that a fault of the old plan holds stay held.
  void set_faults(fault_plan plan);
  /// Stops all answers, including those to requests that were read before. There are two exceptions: a reply that is
  /// being sent is completed, and bytes that are not a valid request are still refused. Connections are still accepted,
  /// as by the kernel for a stopped process. The sessions of a `server` still expire.
  void freeze();
  /// Applies the held requests and sends the held replies, in order. This includes requests of clients that have gone.
  /// Then requests are answered as usual.
  void thaw();
  /// Resets every connection. Requests that were read before are still applied, including those that a freeze holds.
  /// Blocking queries are dropped.
  void cut();
  /// Answers every blocking query that waits with this reply, as Consul does when the leader is lost.
  void answer_blocked(unsigned status, std::string text);
  /// Closes the listener and every connection. New connections are refused. Requests that were not applied before are
  /// never applied, except by the agent of a `proxy`: it may still apply requests that the proxy has passed on. The
  /// proxy may pass on requests until its connections are closed, shortly after the call. The state is kept, and the
  /// port stays reserved. Throws `system_error` if the port cannot be reserved.
  void stop();
  /// Listens again, on the same port. Throws `system_error` on failure.
  void start();

protected:
  /// With an empty executor, the object runs on a thread of its own.
  front(asio::any_io_executor executor, const server_options& options);
  ~front();

  std::unique_ptr<detail::context_thread> thread_;
  const std::shared_ptr<detail::front_impl> impl_;
};

/// A fake Consul: a model of Consul's HTTP API on a loopback port, for development and tests. It runs in one process,
/// and has no persistence, no ACLs and no cluster. It is not a Consul server. `store` documents the modelled parts.
///
/// `holdfast::testing::server consul; holdfast::consul::client client(io, consul.client_config());`
class HOLDFAST_EXPORT server : public front {
public:
  /// A notice that programs should print when they run the fake.
  static constexpr std::string_view banner =
      "A fake Consul, for development and tests only: one process, nothing is persisted, no ACLs, no cluster. "
      "It is not a Consul server.";

  /// Runs on a thread of its own. Throws `system_error` if it cannot listen, or if an option is not valid.
  explicit server(server_options options = {});
  /// Runs in the user's execution context, and answers while that runs.
  explicit server(asio::any_io_executor executor, server_options options = {});
  ~server();

  /// Calls `f(store&, now)` between two requests, and returns its result. Then wakes the blocking queries that wait for
  /// the changes. `f` must not call the server. It may copy the store, but must not assign to it; use `store::restore`
  /// instead.
  template <class F>
  auto with(F&& f) {
    const access locked(*this);
    return std::forward<F>(f)(locked.model(), locked.now());
  }

private:
  class HOLDFAST_EXPORT access {
  public:
    explicit access(server& owner);
    ~access();
    access(const access&) = delete;
    access& operator=(const access&) = delete;
    store& model() const noexcept;
    store::time_point now() const noexcept { return now_; }

  private:
    server& owner_;
    std::unique_lock<std::mutex> lock_;
    store::time_point now_;
  };
  std::shared_ptr<detail::model> model_;
};

}  // namespace holdfast::testing
