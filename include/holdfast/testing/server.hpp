#pragma once

#include <boost/asio/any_io_executor.hpp>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <holdfast/consul/config.hpp>
#include <holdfast/detail/build.hpp>
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
  std::string host = "127.0.0.1";  ///< an IP literal; only loopback addresses are accepted: error::invalid_option
  std::uint16_t port = 0;          ///< 0: a free one
  /// From one address, as `http_max_conns_per_client`: one more is reset. 0: no limit.
  std::size_t connections_max = 0;
  /// A blocking query that has waited for so long gets no reply, only the end of its connection, as from servers and
  /// proxies that end every exchange after 30 s. 0: no limit. `server` only
  std::chrono::milliseconds exchange_max{0};
  std::uint64_t seed = 1;  ///< of session ids, and of the jitter of blocking queries. `server` only
  store_options model{};   ///< `server` only
};

/// Counters since construction; `connections`, `blocked` and `frozen` are levels.
struct server_statistics {
  std::uint64_t accepted = 0;   ///< connections, also those that were then refused by a fault or the limit
  std::uint64_t requests = 0;   ///< that were read whole
  std::uint64_t faults = 0;     ///< requests that met one, and queries that `answer_blocked` answered
  std::size_t connections = 0;  ///< also those whose client has gone, while something is still done for them
  std::size_t blocked = 0;      ///< blocking queries that wait; of a proxy: that are under way
  std::size_t frozen = 0;       ///< requests and replies that a freeze holds back
};

/// What `server` and `proxy` have in common: an HTTP listener on which things go wrong on demand.
///
/// Requests that come on one connection are answered in their order. What is no request is answered 400, 413 or 431,
/// and its connection closed. When a client goes, its blocking query is freed at once (Consul keeps it until its wait
/// is over); every other request that was read whole is applied.
///
/// Threads: safe from any thread. What is set counts at once; what happens to open connections happens on an internal
/// strand, soon after. Destruction closes all connections; with a thread of its own it also joins that. In the user's
/// context the rest of the work is dropped by that context, which may be destroyed before or after.
class front {
public:
  front(const front&) = delete;
  front& operator=(const front&) = delete;

  std::string address() const;  ///< "127.0.0.1:port", of this listener
  std::string url() const { return "http://" + address(); }
  /// For a client of it.
  consul::config client_config() const;
  server_statistics statistics() const;

  /// Replaces the plan. Requests that a fault holds already stay held.
  void set_faults(fault_plan plan);
  /// Nothing is answered, connections are accepted all the same: like a stopped process, whose kernel goes on. Also
  /// holds back replies to requests that were read before. Sessions of a server end in their time.
  void freeze();
  /// What was held is applied, in order, also for clients that have gone; then all goes on.
  void thaw();
  /// Resets every connection. What had been read is applied all the same, and so is what a freeze holds.
  void cut();
  /// Ends every blocking query that waits with this reply, as Consul does when the leader is lost.
  void answer_blocked(unsigned status, std::string text);
  /// Closes the listener and every connection: the next are refused. What was not applied never will be. State is kept,
  /// and the port stays reserved. Throws `system_error` if it cannot be.
  void stop();
  /// Listens again, on the same port. Throws `system_error` if it cannot.
  void start();

protected:
  /// With an empty executor: on a thread of its own.
  front(asio::any_io_executor executor, const server_options& options);
  ~front();

  std::unique_ptr<detail::context_thread> thread_;
  const std::shared_ptr<detail::front_impl> impl_;
};

/// A model of Consul's HTTP API behind a loopback port, for development and tests: one process, nothing persisted, no
/// ACLs, no cluster. It is not a Consul server. See `store` for what is modelled.
///
/// `holdfast::testing::server consul; holdfast::consul::client client(io, consul.client_config());`
class server : public front {
public:
  /// What programs that offer it should print.
  static constexpr std::string_view banner =
      "A fake Consul, for development and tests only: one process, nothing is persisted, no ACLs, no cluster. "
      "It is not a Consul server.";

  /// On a thread of its own. Throws `system_error` if it cannot listen, or an option is not valid.
  explicit server(server_options options = {});
  /// In the user's context: it answers while that runs.
  explicit server(asio::any_io_executor executor, server_options options = {});
  ~server();

  /// Runs `f(store&, now)` between two requests, and then wakes the queries that wait for what it has changed. `f` must
  /// not call the server. It may copy the store, but not assign to it: see `store::restore`.
  template <class F>
  auto with(F&& f) {
    const access locked(*this);
    return std::forward<F>(f)(locked.model(), locked.now());
  }

private:
  class access {
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
