// SPDX-FileCopyrightText: The holdfast authors
// SPDX-License-Identifier: BSL-1.0

#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "protocol/broker/broker_actions.hpp"
#include "protocol/broker/broker_events.hpp"
#include "protocol/broker/broker_options.hpp"
#include "protocol/broker/seat.hpp"
#include "protocol/broker/slot_search.hpp"
#include "protocol/core/closing.hpp"
#include "protocol/core/liveness.hpp"
#include "protocol/core/outage.hpp"
#include "protocol/core/slot_table.hpp"
#include "protocol/core/waiter_queue.hpp"

namespace holdfast::protocol {

/// The core of a semaphore on RabbitMQ in one process: the local queue, the seats, and every decision about them. With
/// the same seed, the same events at the same times give the same actions.
///
/// The flow of a slot:
/// 1. An acquire enters the local queue.
/// 2. The search chooses a slot, and a seat asks the broker for it.
/// 3. If the last holder has left a token, the seat is held at once. Otherwise it waits for a whole lease.
/// 4. The seat is handed to the front of the local queue, and verified as long as it is held.
/// 5. A release hands the seat on locally, or the seat is vacated.
///
/// Seats and waiters are not bound to each other. So a seat that a cancelled acquire has asked for goes to the next
/// waiter, or back to the broker.
///
/// A pool is a value: a copy continues from the same state.
class broker_pool {
public:
  broker_pool(broker_options options, std::uint64_t seed)
      : ctx_(seed), options_(std::move(options)), application_(options_.alive_within, options_.name) {}

  /// Takes the event and appends the resulting actions to `out`, in order. If `now` is earlier than the core's time,
  /// the core's time stays.
  void step(broker_event&& e, time_point now, broker_actions& out);
  /// The latest time at which the next `tick` is due.
  time_point wake() const { return ctx_.wake(); }
  time_point now() const { return ctx_.now(); }
  const measurements& measured() const { return ctx_.measured(); }
  /// The failure of the outage that this pool knows of. Empty if requests are answered.
  std::optional<failure> why_unavailable() const;

  struct status {
    std::size_t waiting = 0;  ///< acquires in the local queue
    std::size_t seats = 0;    ///< each has a connection
    std::uint32_t count = 0;  ///< the number of slots, as far as is known
  };
  /// Adds to the digest what decides about the pool's future, for searches of all states. It leaves out random numbers
  /// and the ids of tickets, slots and requests. Times count relative to `when`.
  template <class Digest>
  void add_state(Digest& d, time_point when) const {
    d << waiters_.size() << closing_.has_begun() << outage_.on() << (outage_.retry_at() <= when) << blocked_ << listens_
      << has_completed_;
    search_.add_state(d, when);
    for (const auto& [number, each] : seats_) each.add_state(d, when);
  }
  status status_now() const { return {waiters_.size(), seats_.size(), search_.count()}; }

private:
  struct slot {
    enum class use { none, held, lost } state = use::none;
    std::uint32_t number = 0;
  };

  // broker_pool.cpp: events
  void on(event::acquire& e);
  void on(event::cancel& e);
  void on(event::release& e);
  void on(event::close& e);
  void on(event::tick&) {}
  void on(event::alive& e) { application_.answered(e.is_yes, now()); }
  void on(event::probed& e);
  void on(event::seized& e);
  void on(event::verified& e);
  void on(event::vacated& e);
  void on(event::hinted& e);
  void on(event::connection_ended& e);
  void on(event::blocked& e);
  void on(event::seat_blocked& e);
  void on(event::created& e);
  void won(seat& s, const event::seized& e);
  void request_failed(failure why, time_point asked_at);
  void no_semaphore();
  void complete_creation(const event::probed& e);

  // broker_seats.cpp: what is due, and the users of seats
  void advance();
  void advance_once();
  void check_seats();
  void check(seat& s);
  bool check_belief(seat& s);
  void check_request();
  std::optional<failure> why_unknown(const waiter& w) const;
  void fail_waiters();
  bool serve_only();
  bool would_do_nothing();
  void serve();
  void give_back();
  bool may_hand_on(const seat& s) const;
  void lose(seat& s, loss_reason reason, failure why = {});
  void report(const seat& s);
  void answer_release(seat& s, failure why = {});
  void remove(seat& s);
  void drop(seat& s, failure why = {});
  void finish_close();

  // broker_search.cpp: which slots are asked for
  void search();
  void attempt();
  bool try_hint();
  void open(slot_search::choice c, hint_id hint);
  void settle_hint(hint_id& hint, bool used);
  void deny_tries();
  void listen();
  std::size_t attempts() const;
  std::size_t unverified() const;
  std::size_t wanted() const;
  std::size_t cleansing() const;
  std::vector<bool> ours() const;

  seat* find(seat_id id);
  seat* find_number(std::uint32_t number);
  bool is_ours(std::uint32_t number) const { return seats_.contains(number); }
  failure failed(error_code code, std::string text) const { return {code, {std::move(text), options_.name, {}, {}}}; }

  /// This many slots more than there are waiters may be kept without a token at the same time.
  static constexpr std::size_t spare_cleansings = 3;
  static constexpr unsigned lost_races_max = 3;

  broker_context ctx_;
  broker_options options_;
  waiter_queue waiters_;
  closing closing_;
  outage outage_;
  liveness application_;
  slot_search search_;
  std::map<std::uint32_t, seat> seats_;  ///< by the numbers of their slots
  slot_table<slot> slots_;
  std::uint64_t generation_ = 0;
  std::size_t in_use_ = 0;         ///< slots that users have not released, including lost ones
  std::vector<bool> knows_lease_;  ///< by number: the broker has accepted our lease
  event::hinted hint_{};           ///< the hint that is not settled, and has no seat yet
  bool listens_ = false;
  bool blocked_ = false;
  bool has_completed_ = false;  ///< the link was asked to complete a creation
};

}  // namespace holdfast::protocol
