#pragma once

#include <boost/asio/any_io_executor.hpp>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <holdfast/consul/config.hpp>
#include <holdfast/testing/faults.hpp>
#include <holdfast/testing/store.hpp>
#include <memory>
#include <string>
#include <utility>

namespace holdfast::testing {

namespace asio = boost::asio;

struct server_options {
  std::string host = "127.0.0.1";  ///< an IP literal; only loopback addresses are accepted: error::invalid_option
  std::uint16_t port = 0;          ///< 0: a free one
  std::size_t connections_max =
      0;                   ///< from one address, as `http_max_conns_per_client`: one more is reset; 0: no limit
  std::uint64_t seed = 1;  ///< of session ids and of the jitter of blocking queries
  store_options model{};
};

/// Counters since construction; `connections`, `blocked` and `frozen` are levels.
struct server_statistics {
  std::uint64_t accepted = 0;
  std::uint64_t requests = 0;
  std::uint64_t faults = 0;
  std::size_t connections = 0;
  std::size_t blocked = 0;  ///< blocking queries that wait
  std::size_t frozen = 0;   ///< requests held back by `freeze`
};

/// What `server` and `proxy` have in common: an HTTP listener on which things go wrong on demand.
///
/// Threads: safe from any thread. Destruction closes all connections; with a thread of its own it also joins that.
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
  /// Nothing is answered, connections are accepted all the same: like a stopped process, whose kernel goes on.
  void freeze();
  /// What was held is applied, in order, also for clients that have gone; then all goes on.
  void thaw();
  /// Resets every connection.
  void cut();
  /// Closes the listener and every connection: the next are refused. State is kept.
  void stop();
  /// Listens again, on the same port.
  void start();

protected:
  class impl;
  front();
  ~front();
  std::shared_ptr<impl> impl_;
};

/// A model of Consul's HTTP API behind a loopback port, for development and tests: one process, nothing persisted, no
/// ACLs, no cluster. It is not a Consul server.
///
/// `holdfast::testing::server consul; holdfast::consul::client client(io, consul.client_config());`
class server : public front {
public:
  /// On a thread of its own. Throws `system_error` if it cannot listen, or an option is not valid.
  explicit server(server_options options = {});
  /// In the user's context: it answers while that runs.
  explicit server(asio::any_io_executor executor, server_options options = {});
  ~server();

  /// Runs `f(store&, now)` between two requests and then wakes what that has changed. `f` must not call the server.
  template <class F>
  auto with(F&& f) {
    const access locked(*this);
    return std::forward<F>(f)(locked.model(), locked.now());
  }

private:
  class model_backend;
  class access {
  public:
    explicit access(server& owner);
    ~access();
    store& model() const noexcept;
    store::time_point now() const noexcept { return now_; }

  private:
    model_backend& backend_;
    store::time_point now_;
  };
  std::shared_ptr<model_backend> backend_;
};

}  // namespace holdfast::testing
