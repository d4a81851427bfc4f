// SPDX-FileCopyrightText: The holdfast authors
// SPDX-License-Identifier: BSL-1.0

#pragma once

#include <boost/asio/any_io_executor.hpp>
#include <memory>
#include <string>
#include <variant>

#include "protocol/broker/broker_actions.hpp"
#include "protocol/broker/broker_events.hpp"

namespace holdfast::rabbitmq {

namespace asio = boost::asio;

/// Receives the answers of a link. The link holds a reference to its sink while an answer is due, and the sink owns the
/// link.
class link_sink {
public:
  virtual void deliver(protocol::link_event&& e) = 0;

protected:
  ~link_sink() = default;
};

/// The core has finished. The link closes its connections and stops to consume, and delivers nothing more.
struct end_link {};

/// A request to a link.
using link_request =
    std::variant<protocol::action::probe, protocol::action::seize, protocol::action::verify, protocol::action::cleanse,
                 protocol::action::vacate, protocol::action::drop, protocol::action::listen,
                 protocol::action::settle_hint, protocol::action::create, end_link>;

/// One semaphore at a broker. A driver reaches the broker only through this interface, and `protocol::broker_pool`
/// relies on the rules below.
///
/// N is the name of the semaphore, and k the number of a slot. The queues of slot k are:
/// - A, which is `N-k-A`: there is the slot.
/// - B, which is `N-k-B` and exclusive: the connection that has declared it has the slot.
/// - F, which is `N-k-F`: a message in it is a token. It says that the last holder of ours has released the slot.
///
/// `N-F` is the queue of hints. The safety of the core rests on the rules that are marked with (safe).
///
/// How it answers:
/// - It answers after `make` has returned, on the strand, one answer at a time, with the seat and the id of the
///   request. It answers `probe` and `create` at the latest after the timeout of a request.
/// - The answer to a request of a seat may stay away only if `connection_ended` follows for the seat. After
///   `connection_ended`, and after `drop`, the seat gets no more answers.
/// - `connection_ended` is delivered once, as soon as the connection of a seat has ended, for each seat that was seized
///   and has not ended in another way. A seat ends by `drop`, by `seized` with `locked` or `failed`, or by `vacated`.
/// - If the answer does not show what the broker has done, the outcome is a failure: `seizure::failed`,
///   `verification::failed`, or an error in `vacated`. The core then drops the seat, except after a verification of a
///   held slot, which it repeats. (safe)
/// - A failure has a code of `error`. If the same request may work later, the code belongs to `condition::unavailable`.
///   The core fails all its users with any other code.
/// - A request for a seat that has ended is ignored.
///
/// Connections:
/// - A seat has a connection of its own from `seize` to its end. No two seats use a connection at the same time, also
///   not seats of two links with the same name. So no connection declares the same B twice. (safe)
/// - All requests of a seat are made on that connection, each in one write, in the order in which they were made. The
///   link does not repeat a request. (safe)
/// - If the broker refuses a method, it closes the channel and does none of the methods behind it. The link opens
///   another channel on the same connection. Queues that are exclusive to the connection stay.
/// - After `locked` and `vacated`, the link keeps the connection for `session_idle_timeout`, and may use it for another
///   seat. After `drop`, `failed` or an error it closes the connection, which is never used again. (safe)
/// - A connection ends if no byte was received for two heartbeats. The heartbeat is half the lease in whole seconds,
///   and 60 s at most.
/// - Probes, hints and `create` use connections that no seat uses.
///
/// The methods of each request, in their order:
/// - `seize`: declare B exclusively; declare F if `declares_tokens`; take one message of F without acknowledgement;
///   declare A passively. `locked` means that B was refused with 405. `no_such_slot` means that A was missing, and B is
///   ours. `token` is true only if this request has taken a message, behind the declaration of B on this connection.
///   If F is missing, the link declares F and then A passively on another channel, and there is no token. (safe)
/// - If the broker refuses F with 406, the outcome is `failed` with the error for another lease.
/// - `verify`: declare B passively, then A passively. `gone` means that B was refused with 404 or 405.
/// - `cleanse`: purge F, then as `verify`. (safe)
/// - `vacate`: declare B passively; publish a token into F if `with_token`; delete B; publish a hint if `with_hint`. If
///   the broker refuses B, nothing else is done, and the answer is `vacated` without an error. A token is published in
///   no other way, except when a slot is created. (safe)
/// - A token and a hint are transient. A token is published without `mandatory`, because a lost token is harmless.
/// - `probe`: for each slot from 1 to `count`, whether A and B exist. It leaves no message behind.
/// - `create`: as `semaphore_administration::create`. If the semaphore exists by then, the answer has no error.
///
/// Hints:
/// - From `listen` with true to `listen` with false, the link consumes `N-F` whenever it can, one message at a time. It
///   connects again after a failure, with pauses. The core is not notified of that.
/// - The next `hinted` comes after `settle_hint` for the one before. `used` acknowledges the message. Otherwise it is
///   requeued. When the consumer is cancelled or its connection has ended, the broker requeues the message, and the
///   link ignores `settle_hint` for it.
///
/// Alarms:
/// - `blocked` with true is delivered when the broker has sent `connection.blocked` on any connection of the client,
///   and with false when it has sent `connection.unblocked` on each of these, or when they have ended.
///
/// The end:
/// - The driver makes `end_link` when the core is closed. The link requeues its hint and closes all its connections.
///   Then this process has no B and no consumer any more. F stays.
class broker_link {
public:
  virtual ~broker_link() = default;

  /// Runs the handlers that have no executor of their own. Empty once the context has been destroyed.
  virtual asio::any_io_executor executor() const noexcept = 0;
  /// The link calls `deliver` here, one event at a time.
  virtual asio::any_io_executor strand() const = 0;
  /// The name of the broker in the texts of errors, without a password.
  virtual std::string name() const = 0;
  /// Starts a request. `deliver` is never called from within this function. Only one thread at a time may call it.
  virtual void make(link_request&& request, const std::shared_ptr<link_sink>& to) = 0;
};

}  // namespace holdfast::rabbitmq
