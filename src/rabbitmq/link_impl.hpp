// SPDX-FileCopyrightText: The holdfast authors
// SPDX-License-Identifier: BSL-1.0

#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <string>

#include "net/waiting.hpp"
#include "rabbitmq/broker_link.hpp"
#include "rabbitmq/client_impl.hpp"
#include "rabbitmq/queues.hpp"

namespace holdfast::rabbitmq::detail {

namespace action = protocol::action;
namespace event = protocol::event;

/// The state of an `amqp_link`. Lives on the client's strand. It holds no socket and no timer, because it may outlive
/// the execution context. Requests and users of channels hold it, and the sink.
class link_impl final : public std::enable_shared_from_this<link_impl> {
public:
  using sink = std::shared_ptr<broker_sink>;

  link_impl(std::shared_ptr<client_impl> client, link_terms terms);

  void on(const action::probe& a, const sink& to);
  void on(const action::seize& a, const sink& to);
  void on(const action::verify& a, const sink& to);
  void on(const action::cleanse& a, const sink& to);
  void on(const action::vacate& a, const sink& to);
  void on(const action::drop& a, const sink& to);
  void on(const action::listen& a, const sink& to);
  void on(const action::settle_hint& a, const sink& to);
  void on(const action::create& a, const sink& to);
  void on(const end_link& a, const sink& to);
  /// Begins to tell this sink of alarms. Further calls have no effect.
  void watch_alarms(const sink& to);

private:
  struct seat {
    std::weak_ptr<connection> link{};
  };
  struct hint {
    protocol::hint_id id = protocol::hint_id::none;
    std::uint64_t delivery_tag = 0;
  };

  static awaitable<void> probe(std::shared_ptr<link_impl> self, action::probe a, sink to);
  static awaitable<void> open_seat(std::shared_ptr<link_impl> self, action::seize a, sink to);
  static awaitable<void> listen(std::shared_ptr<link_impl> self, sink to);
  static awaitable<void> create(std::shared_ptr<link_impl> self, action::create a, sink to);

  void begin_seat(const std::shared_ptr<connection>& link, const action::seize& a, const sink& to);
  void on_seized(const action::seize& a, const sink& to, reply&& answer);
  void declare_missing_tokens(const action::seize& a, const sink& to);
  void on_verified(protocol::seat_id whose, protocol::request_id id, const sink& to, std::size_t before,
                   reply&& answer);
  void on_cleansed(const action::cleanse& a, const sink& to, reply&& answer);
  void on_vacated(const action::vacate& a, const sink& to, reply&& answer);
  void on_probed(const action::probe& a, const sink& to, const reply& answer);
  void on_hint(const sink& to, std::uint64_t delivery_tag, const std::string& body);

  std::shared_ptr<connection> connection_of(protocol::seat_id id) const;
  void release_seat(protocol::seat_id id);
  void keep(const std::shared_ptr<connection>& link);
  failure described(const refusal& why, const char* what) const;
  static void deliver(const sink& to, protocol::broker_event&& e, const error_code& code);
  std::uint16_t channel_for_probes(const std::shared_ptr<connection>& link);
  std::uint16_t channel_for_hints(const std::shared_ptr<connection>& link, const sink& to);
  steps subscription() const;
  void wake_listener() { net::wake_all(listener_); }
  void settle(bool used);
  void unsubscribe();
  time_point request_deadline() const;
  time_point lease_deadline() const;

  const std::shared_ptr<client_impl> client_;
  const link_terms terms_;
  const queues queues_;
  const std::uint16_t heartbeat_;
  std::map<protocol::seat_id, seat> seats_{};
  bool watches_alarms_ = false;
  bool has_ended_ = false;

  // On the connection for probes.
  std::weak_ptr<connection> probes_{};
  std::uint16_t probe_channel_ = 0;
  std::uint16_t hint_channel_ = 0;

  // Hints.
  bool wants_hints_ = false;
  bool listens_ = false;        ///< the coroutine runs
  bool is_subscribed_ = false;  ///< the consumer is there
  bool is_asking_ = false;      ///< the answer to a subscription is pending
  net::waiter_list listener_{};
  hint hint_{};
  std::uint64_t last_hint_ = 0;
};

}  // namespace holdfast::rabbitmq::detail
