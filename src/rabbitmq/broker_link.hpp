// SPDX-FileCopyrightText: The holdfast authors
// SPDX-License-Identifier: BSL-1.0

#pragma once

#include <boost/asio/any_io_executor.hpp>
#include <chrono>
#include <memory>
#include <string>
#include <variant>

#include "protocol/broker/broker_actions.hpp"
#include "protocol/broker/broker_events.hpp"

namespace holdfast::rabbitmq::detail {

namespace asio = boost::asio;

/// Receives the answers of a link. The link holds a reference to its sink until the last answer is delivered, and the
/// sink owns the link.
class broker_sink {
public:
  virtual void deliver(protocol::broker_event&& e) = 0;

protected:
  ~broker_sink() = default;
};

/// The core has finished, and makes no more requests. The link closes the connections that it keeps for later use.
struct end_link {};

/// A request to a link.
using link_request = protocol::joined<protocol::link_action, std::variant<end_link>>;

/// The settings of the link of one semaphore.
struct link_terms {
  std::string name{};         ///< the name of the semaphore
  bool letter_first = false;  ///< the form of the queues' names: see `queue_names`
  std::chrono::milliseconds lease = std::chrono::seconds(10);
  /// How long a connection that nobody uses is kept.
  std::chrono::milliseconds session_idle_timeout = std::chrono::seconds(10);
};

/// The queues of a semaphore at a broker, as its core sees them. A driver reaches them only through this interface. For
/// slot k of the semaphore N:
///
/// - A, `N-k-A`: the slot exists while this queue does.
/// - B, `N-k-B`: exclusive. The slot is taken by the process whose connection has this queue.
/// - F, `N-k-F`: has one message, the token, if the last holder of ours has released the slot.
/// - `N-F`: has hints, each with the number of a slot that has become free.
///
/// The core relies on the rules below. The name in brackets after a rule is its test in
/// test/rabbitmq/on_a_broker/link_contract.cpp. Each kind of link must pass these tests.
///
/// How it answers:
/// - The link answers after `make` has returned, on the strand, one answer at a time.
///   [an_answer_comes_later_and_on_the_strand]
/// - The link answers each request once, by its id, apart from the two rules that follow. `drop`, `listen` and
///   `settle_hint` get no answer. [each_request_is_answered_once_by_its_id]
/// - If the connection of a seat ends, the link delivers `connection_ended` once. A pending request of the seat gets no
///   other answer, and nothing more is delivered about the seat. [a_seat_whose_connection_ends_is_told_that_once]
/// - After `drop`, nothing is delivered about the seat, and the broker soon has no B of it.
///   [a_dropped_seat_is_told_nothing_and_has_no_b]
/// - The link releases its reference to the sink when no request is pending, no seat has a connection, and it does not
///   listen. [the_sink_lives_until_its_last_answer]
/// - After `end_link`, the link keeps no connection: neither those that its seats have used, nor the one for probes and
///   hints if no other link of the client uses it. [a_link_that_has_ended_keeps_no_connection]
/// - A failure has a code of `error`, and its text has no password. [a_failure_is_one_of_ours]
///   [a_wrong_password_is_a_failure_without_it]
/// - A closed link answers every request with error::closed. After such an answer it delivers `event::close`.
///   [what_is_closed_says_so_and_closes_its_core]
/// - The `executor()` is empty once the context has been destroyed. The link then gets no more requests. It may be
///   destroyed later than its context. [an_executor_is_empty_once_its_context_is_gone]
///
/// Slots:
/// - A probe tells of each slot whether A and B are there. It leaves no message in them.
///   [a_probe_tells_which_slots_exist_and_which_are_taken] [a_probe_leaves_no_message]
/// - A seizure that gets B has also taken the token, if there was one. [a_seizure_gets_b_and_the_token]
/// - A seizure that does not get B is `locked`, and the token stays. [a_seizure_of_a_taken_slot_is_locked]
/// - The link never declares a B on a connection that may have it. So of two seats with the same slot only one gets B,
///   also in one process. [two_seats_never_share_a_connection]
/// - A seizure of a slot without A is `no_such_slot`, and gets B all the same. [a_slot_without_a_is_seized_and_told_so]
/// - If F is missing, the link declares it. If F has another lease, a seizure with `declares_tokens` fails with
///   error::lease_conflict. [a_missing_token_queue_is_declared] [another_lease_is_a_conflict]
/// - A verification is `ours` only if B belonged to the connection of the seat after the request was made. Otherwise it
///   is `gone`, also if B was deleted and made anew by another. [a_verification_tells_whose_b_is]
///   [a_verification_tells_whether_the_slot_exists]
/// - A cleansing removes the token, and then verifies. [a_cleansing_removes_the_token]
/// - A vacated seat has no B. The next seizure finds the token if and only if `with_token` was set and B was still the
///   seat's own. [a_vacated_slot_has_the_token_that_was_asked_for] [a_b_that_is_anothers_gets_no_token]
/// - A slot that was vacated can be seized anew at once, on the same connection. A connection that no seat uses is
///   closed after `session_idle_timeout`. [a_connection_is_used_again] [idle_connections_are_closed]
///
/// Hints:
/// - While the link listens, it delivers one hint at a time. The next one comes after `settle_hint`.
///   [a_hint_reaches_a_link_that_listens]
/// - A hint that was not used goes to another link. So does one that is not settled when the link stops listening.
///   [a_hint_that_is_not_used_goes_to_another]
/// - A link that listens goes on when the queue of the hints was deleted, or its connection has ended. It tells nobody.
///   [a_link_listens_again_after_its_queue_was_deleted]
///
/// The broker:
/// - `blocked` is delivered when the broker begins to refuse messages on a connection of the client, and when that is
///   over. [an_alarm_is_told_and_its_end]
/// - `seat_blocked` is delivered when that begins on the connection of a seat.
///   [an_alarm_is_told_to_the_seat_that_has_published]
/// - `create` makes a semaphore with so many slots, each with a token. If there is one by then, its number of slots
///   stays, and that is no failure. If its creation has died in the middle, and was for the same number, `create` makes
///   the missing slots. [a_semaphore_is_created] [a_creation_that_has_died_is_completed]
///
/// The methods of each request stand in this order, in one write on the connection of the seat. If the broker refuses a
/// method, it closes the channel and does none of the methods behind it. The link repeats no request. The safety of the
/// core rests on the orders that are marked with (safe); the facts of test/rabbitmq/conformance.cpp say why.
/// - `seize`: declare F if `declares_tokens`; declare B exclusively; take one message of F without acknowledgement;
///   declare A passively. The token counts only because it was taken behind the declare of B. (safe)
/// - `verify`: declare B passively, then A passively.
/// - `cleanse`: purge F, then as `verify`. (safe)
/// - `vacate`: declare B passively; publish the token if `with_token`; delete B; publish a hint if `with_hint`. A token
///   is published in no other way, except when a slot is created. (safe)
/// - `drop`: closes the connection, which is never used again. (safe)
/// - `probe`, `listen` and `create` use connections that no seat uses.
class broker_link {
public:
  virtual ~broker_link() = default;

  /// Runs the handlers that have no executor of their own.
  virtual asio::any_io_executor executor() const noexcept = 0;
  /// The link calls `deliver` here, one call at a time.
  virtual asio::any_io_executor strand() const = 0;
  /// The name of the broker in the texts of errors, for example "RabbitMQ at amqp://127.0.0.1:5672".
  virtual std::string name() const = 0;
  /// Starts an action. Actions are started in the order of the calls. Only one thread at a time may call it.
  virtual void make(link_request&& what, const std::shared_ptr<broker_sink>& to) = 0;
};

}  // namespace holdfast::rabbitmq::detail
