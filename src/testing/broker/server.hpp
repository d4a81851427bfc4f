// SPDX-FileCopyrightText: The holdfast authors
// SPDX-License-Identifier: BSL-1.0

#pragma once

#include <boost/asio/dispatch.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <cstddef>
#include <holdfast/testing/broker.hpp>
#include <list>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "lifetime/context_hook.hpp"
#include "testing/broker/model.hpp"
#include "testing/broker/session.hpp"

namespace holdfast::testing::detail {

/// The I/O shell. It accepts connections, reads requests, gets faults from the rules, gives the requests to the model,
/// and sends the model's answers. Sessions are used on a strand. The mutex guards the model, the settings and the
/// listener, which users change on any thread. Only the strand takes the model's answers, so they stay in order.
class broker_impl final : public std::enable_shared_from_this<broker_impl>, private lifetime::context_hook {
public:
  /// Throws `system_error` if an option is not valid.
  broker_impl(asio::any_io_executor executor, const broker_options& options);
  ~broker_impl() { unhook(); }

  /// Begins to listen. Throws `system_error`.
  void open();
  void close();
  void stop(broker::ending how);
  void start();

  const asio::ip::tcp::endpoint& endpoint() const noexcept { return endpoint_; }
  const broker_options& options() const noexcept { return options_; }
  broker_statistics statistics() const;
  std::uint64_t requests(std::string_view method) const;
  void set_faults(std::vector<broker_fault_rule> rules);
  void freeze();
  void thaw();
  void cut();
  void refuse_logins(bool are_refused);

  /// Calls `f(model, now)` between two requests, and returns its result. Then sends what the model answers.
  template <class F>
  auto with(F f) {
    const answers_sent later{*this};
    const std::lock_guard lock(mutex_);
    return f(model_, clock::now());
  }

private:
  using acceptor_type = asio::basic_socket_acceptor<asio::ip::tcp, strand_type>;
  using acceptor_ptr = std::shared_ptr<acceptor_type>;
  using session_ptr = std::shared_ptr<session>;
  class listed;  // lists and counts a session while this object exists
  struct answers_sent {
    broker_impl& owner;
    ~answers_sent() {
      owner.dispatch([self = owner.shared_from_this()] { self->send_answers(nullptr); });
    }
  };
  struct counted_rule {
    broker_fault_rule rule;
    std::size_t seen = 0;
    std::size_t met = 0;
  };

  std::shared_ptr<void> on_context_shutdown() noexcept override;
  template <class F>
  void dispatch(F f) {
    if (strand_) asio::dispatch(*strand_, std::move(f));
  }

  acceptor_ptr bind() const;
  void listen();
  unsigned close_listener();
  void accept(const acceptor_ptr& listener);
  void accepted(const acceptor_ptr& listener, const boost::system::error_code& ec, broker_socket socket);
  void pause_accepting(const acceptor_ptr& listener);

  static awaitable<void> serve(std::shared_ptr<broker_impl> self, session_ptr client);
  static awaitable<void> beat(std::shared_ptr<broker_impl> self, session_ptr client);
  static awaitable<void> deliver_late(std::shared_ptr<broker_impl> self, broker_message message, time_point at);
  awaitable<void> pause(session& client);
  bool advance(const session_ptr& client);
  void take(const session_ptr& client, client_request request);
  void begin(const session_ptr& client, const client_request& request);
  void log_in(session& client, const amqp::connection_start_ok& start);
  void tune(const session_ptr& client, const amqp::connection_tune_ok& tune);
  void open_session(session& client, const amqp::connection_open& open);
  void refuse(session& client, std::uint16_t code, std::string_view text);
  void meet(const session_ptr& client, client_request request);
  broker_fault fault_for(const client_request& request);
  void apply(const session_ptr& client, client_request request);
  void send_answers(session* cut);
  void follow_freeze();
  void ended(session& client);
  bool stands_still(const session& client) const;

  const broker_options options_;
  const asio::ip::tcp::endpoint asked_;

  mutable std::mutex mutex_;
  // --- Guarded by the mutex.
  broker_model model_;
  std::vector<counted_rule> rules_;
  std::map<std::string, std::uint64_t, std::less<>> requests_;
  broker_statistics statistics_;
  bool is_frozen_ = false;
  bool refuses_logins_ = false;
  unsigned run_ = 0;       // counts the calls of stop() that had an effect, and of close()
  acceptor_ptr acceptor_;  // stays bound while it does not listen, to keep the port
  bool listening_ = false;

  // --- Used on the strand, or set once.
  asio::ip::tcp::endpoint endpoint_;
  std::optional<strand_type> strand_;
  std::optional<timer_type> accept_timer_;
  std::list<session*> sessions_;
  std::list<timer_type*> late_;  // the timers of messages that are late
};

}  // namespace holdfast::testing::detail
