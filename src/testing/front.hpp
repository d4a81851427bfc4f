// SPDX-FileCopyrightText: The holdfast authors
// SPDX-License-Identifier: BSL-1.0

#pragma once

#include <boost/asio/dispatch.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <cstddef>
#include <holdfast/testing/server.hpp>
#include <list>
#include <memory>
#include <mutex>
#include <optional>
#include <string>

#include "lifetime/context_hook.hpp"
#include "testing/connection.hpp"
#include "testing/fault_steps.hpp"

namespace holdfast::testing::detail {

/// Makes the replies of a front, from the model or from an agent.
class backend {
public:
  virtual ~backend() = default;
  /// Called on the strand. `client` outlives the result.
  virtual std::unique_ptr<exchange> open(connection& client) = 0;
  virtual std::size_t body_bytes_max() const noexcept = 0;
  /// Called when the front is closed or its context is destroyed. The backend must destroy its timers.
  virtual void release() noexcept = 0;
};

/// The I/O shell. It accepts connections, reads requests, gets faults from the plan and replies from the backend, and
/// writes the replies. Connections are used on a strand. The mutex guards the settings and the listener, which users
/// change on any thread, so that changes take effect at once, even while the strand is busy. It also guards the
/// statistics, and the store of the model.
class front_impl final : public std::enable_shared_from_this<front_impl>, private lifetime::context_hook {
public:
  /// Throws `system_error` if an option is not valid.
  front_impl(asio::any_io_executor executor, const server_options& options);
  ~front_impl() { unhook(); }

  /// Begins to listen. Throws `system_error`.
  void open(std::shared_ptr<backend> behind);
  void close();

  const asio::ip::tcp::endpoint& endpoint() const noexcept { return endpoint_; }
  server_statistics statistics() const;
  void set_faults(fault_plan plan);
  void freeze();
  void thaw();
  void cut();
  void stop();
  void start();
  void answer_blocked(api_reply reply);

  // --- For backends.

  const strand_type& strand() const noexcept { return *strand_; }
  std::mutex& mutex() noexcept { return mutex_; }
  /// Requires the mutex. True if stop() or close() was called after the connection was accepted: nothing more may
  /// happen for it.
  bool is_stopped(const connection& client) const noexcept { return client.run != run_; }
  /// Runs `f` on the strand, at once if possible. If the context has been destroyed, `f` is dropped.
  template <class F>
  void dispatch(F f) {
    if (strand_) asio::dispatch(*strand_, std::move(f));
  }

  /// Marks a connection as waiting in a blocking query.
  class blocked_mark {
  public:
    blocked_mark(front_impl& front, connection& client);
    ~blocked_mark();
    blocked_mark(const blocked_mark&) = delete;
    blocked_mark& operator=(const blocked_mark&) = delete;

  private:
    front_impl& front_;
    connection& client_;
  };

private:
  using acceptor_type = asio::basic_socket_acceptor<asio::ip::tcp, strand_type>;
  using acceptor_ptr = std::shared_ptr<acceptor_type>;
  using connection_list = std::list<connection*>;
  enum class mode { running, frozen, thawing };
  class listed;  // lists and counts a connection while this object exists

  std::shared_ptr<void> on_context_shutdown() noexcept override;

  acceptor_ptr bind() const;
  void listen();
  unsigned close_listener();
  void accept(const acceptor_ptr& listener);
  void accepted(const acceptor_ptr& listener, const boost::system::error_code& ec, socket_type socket);
  void pause_accepting(const acceptor_ptr& listener);
  bool is_one_too_many(const socket_type& socket) const;

  static awaitable<void> serve(std::shared_ptr<front_impl> self, std::shared_ptr<connection> client);
  awaitable<bool> serve_one(connection& client);
  awaitable<parse_state> next_request(connection& client);
  fault_steps meet(const api_request& request);
  awaitable<std::optional<api_reply>> apply(connection& client, const http_request& request, const fault_steps& how);
  awaitable<bool> deliver(connection& client, std::string bytes, const fault_steps& how);
  static awaitable<void> apply_copy(std::shared_ptr<front_impl> self, std::shared_ptr<connection> nobody,
                                    http_request request, std::chrono::milliseconds after);
  awaitable<void> pass_freeze(connection& client, bool held);
  bool is_held_back(bool held) const;
  void release_next();

  const asio::ip::tcp::endpoint asked_;
  const std::size_t connections_max_;

  mutable std::mutex mutex_;
  // --- Guarded by the mutex.
  fault_plan plan_;
  mode mode_ = mode::running;
  server_statistics statistics_;
  std::size_t to_refuse_ = 0;  // the number of connections to refuse
  unsigned run_ = 0;           // counts the calls of stop() that had an effect, and of close()
  acceptor_ptr acceptor_;      // stays bound while it does not listen, to keep the port
  bool listening_ = false;

  // --- Used on the strand, or set once.
  asio::ip::tcp::endpoint endpoint_;
  std::shared_ptr<backend> backend_;
  std::optional<strand_type> strand_;
  std::optional<timer_type> accept_timer_;
  connection_list connections_;
  connection_list held_;  // held by a freeze, in order
};

}  // namespace holdfast::testing::detail
