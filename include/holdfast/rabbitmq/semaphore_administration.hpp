// SPDX-FileCopyrightText: The holdfast authors
// SPDX-License-Identifier: BSL-1.0

#pragma once

#include <boost/asio/any_io_executor.hpp>
#include <boost/asio/async_result.hpp>
#include <chrono>
#include <cstdint>
#include <holdfast/detail/export.hpp>
#include <holdfast/detail/initiation.hpp>
#include <holdfast/diagnostics.hpp>
#include <holdfast/error.hpp>
#include <holdfast/rabbitmq/client.hpp>
#include <memory>
#include <string>
#include <utility>
#include <vector>

namespace holdfast::rabbitmq {

/// Identifies the semaphore, and limits the time of its commands.
struct administration_options {
  std::string name{};                       ///< as `semaphore_options::name`
  std::chrono::milliseconds lease{10'000};  ///< as `semaphore_options::lease`
  bool letter_first = false;                ///< as `semaphore_options::letter_first`
  /// Timeout of one command, with the wait for other administrators and all requests. For the waits it limits the
  /// length of an outage, not the wait. 1 ms to 10 min. A command needs up to five requests for each slot, one after
  /// the other, so a command for hundreds of slots may need more than the default.
  std::chrono::milliseconds timeout{10'000};
};

/// The state of a semaphore. Its parts are read one after the other, so they may change meanwhile.
struct semaphore_status {
  bool exists = false;      ///< there is at least one slot
  std::uint32_t slots = 0;  ///< the number of slots
  /// The numbers of the slots that somebody holds, or keeps for a lease because nobody has released them. A number over
  /// `slots` is a slot that was removed while it was held.
  std::vector<std::uint32_t> taken{};
  /// True if a `create` has begun and is not done. If its process has died, repeat the command to complete it.
  bool unfinished = false;
  bool operator==(const semaphore_status&) const = default;
};

/// The holders and queues that a `destroy` has left at the broker.
struct destroy_result {
  /// The numbers of the slots that somebody still holds. `wait_until_released` waits for each.
  std::vector<std::uint32_t> held{};
  /// The names of the token queues that were kept, because the last holder has not released the slot, or has not done
  /// so yet. If such a queue is deleted by hand before one lease is over, and the slot is made anew, two processes may
  /// hold the slot.
  std::vector<std::string> kept_queues{};
  bool operator==(const destroy_result&) const = default;
};

namespace detail {

class administrator;

struct administration_command {
  enum class kind { create, grow, shrink, destroy, inspect, wait_until_released, wait_until_drained } what;
  std::uint32_t number = 0;
  std::chrono::nanoseconds within = std::chrono::nanoseconds::max();
  operation_options options{};
};

HOLDFAST_EXPORT asio::any_io_executor executor_of(const administrator&) noexcept;
HOLDFAST_EXPORT void start_command(const std::shared_ptr<administrator>&, administration_command,
                                   holdfast::detail::pending<>&&);
HOLDFAST_EXPORT void start_command(const std::shared_ptr<administrator>&, administration_command,
                                   holdfast::detail::pending<std::uint32_t>&&);
HOLDFAST_EXPORT void start_command(const std::shared_ptr<administrator>&, administration_command,
                                   holdfast::detail::pending<destroy_result>&&);
HOLDFAST_EXPORT void start_command(const std::shared_ptr<administrator>&, administration_command,
                                   holdfast::detail::pending<semaphore_status>&&);

template <class Token, class... Results>
concept command_token = asio::completion_token_for<Token, void(error_code, Results...)>;

}  // namespace detail

/// Lets an operator create, change and destroy a semaphore while any number of processes use it. Commands act only on
/// the queues at the broker. So a command needs no process that listens. Clients of the "Persistent Semaphore" that do
/// not use this library see the same slots, and may administer them, too.
///
/// `create`, `grow`, `shrink` and `destroy` exclude each other, by a mutex at the broker. Each command uses a
/// connection of its own, which also has the mutex. The next request is made when the one before is answered. So when
/// the connection ends, nobody acts any more.
///
/// An administrator may die in the middle of a command. Then the semaphore has fewer slots than asked for, or more, but
/// there is no gap. The same command completes the work. But `grow` and `shrink` count anew: they add or remove as many
/// slots as they are told, whatever an earlier command has done. So call `inspect` first.
///
/// Operations take a completion token, by default `throwing`. A completion handler runs on its associated executor, by
/// default the client's executor. It is never called inside the initiating function. `operation_options` may be omitted
/// before the token.
///
/// All commands have this in common:
///
/// - Completion: when the broker has confirmed the last change.
/// - Signature: void(error_code), unless stated otherwise.
/// - Errors that are reported at once: not_a_semaphore, permission_denied, certificate_refused,
///   client_certificate_refused, malformed_reply; closed, if the client was closed. Also the errors that a command
///   lists.
/// - Errors that are reported after the timeout: all that equal `condition::unavailable`; in_use, if another
///   administrator has the mutex; timed_out, also if the broker has an alarm.
/// - If the connection ends after a change, `grow` and `shrink` fail at once. The other commands connect again and
///   continue. After an error that equals `condition::outcome_unknown`, a part of the command may have been carried
///   out.
/// - Cancellation: terminal, partial, total. The command completes with operation_aborted, and its connection is
///   closed. Changes that were made stay.
/// - Lifetimes: the object that `operation_options::diag` points to must outlive the operation. This object need not.
///
/// Threads: operations and const members may be called from any thread at any time. Assignment, move and destruction
/// must not run at the same time as another call on the same object.
///
/// Lifetimes: the object may be destroyed while commands are pending. It is cheap to copy.
class HOLDFAST_EXPORT semaphore_administration {
public:
  using executor_type = asio::any_io_executor;

  /// Creates an empty object. Its operations complete with error::closed.
  semaphore_administration() noexcept = default;
  /// Sends nothing. Throws `system_error`: invalid_name, invalid_ttl (for the lease), invalid_option.
  semaphore_administration(const client& broker, administration_options options);

  bool valid() const noexcept { return impl_ != nullptr; }
  executor_type get_executor() const noexcept { return impl_ ? detail::executor_of(*impl_) : executor_type(); }

  /// Creates a semaphore with so many slots, 1 to 1,000. If there is one with as many slots already, the command
  /// succeeds. If an earlier `create` for the same number has ended in the middle, the command continues it; so does a
  /// process with this `semaphore_options::create_with`.
  ///
  /// A slot that somebody still holds, because it was removed before, exists again when its holder releases it.
  ///
  /// Errors: invalid_limit (nothing was sent). limit_conflict, if there is a semaphore with another number of slots, or
  /// an unfinished one for another number. lease_conflict, if a queue has another lease.
  template <detail::command_token Token = throwing_t>
  auto create(std::uint32_t slots, Token&& token = {}) {
    return create(slots, operation_options(), std::forward<Token>(token));
  }
  template <detail::command_token Token = throwing_t>
  auto create(std::uint32_t slots, operation_options options, Token&& token = {}) {
    return initiate<Token>({.what = command::create, .number = slots, .options = options}, token);
  }
  /// Adds so many slots. Completes with the new number of slots.
  ///
  /// Signature: void(error_code, std::uint32_t).
  /// Errors: invalid_limit, if `more` is 0, or there would be more than 1,000 slots; nothing was changed. no_semaphore.
  /// lease_conflict, if a queue has another lease.
  template <detail::command_token<std::uint32_t> Token = throwing_t>
  auto grow(std::uint32_t more, Token&& token = {}) {
    return grow(more, operation_options(), std::forward<Token>(token));
  }
  template <detail::command_token<std::uint32_t> Token = throwing_t>
  auto grow(std::uint32_t more, operation_options options, Token&& token = {}) {
    return initiate<Token, std::uint32_t>({.what = command::grow, .number = more, .options = options}, token);
  }
  /// Removes so many slots, the highest first, or all if there are not more. Completes with the new number of slots.
  ///
  /// Nobody gets a removed slot. If somebody holds it, that stays so until the holder releases it. A holder of this
  /// library is told by `slot::revoked` and `slot::wait_revoked`.
  ///
  /// Signature: void(error_code, std::uint32_t).
  /// Errors: invalid_limit, if `fewer` is 0 or over 1,000 (nothing was sent). no_semaphore.
  template <detail::command_token<std::uint32_t> Token = throwing_t>
  auto shrink(std::uint32_t fewer, Token&& token = {}) {
    return shrink(fewer, operation_options(), std::forward<Token>(token));
  }
  template <detail::command_token<std::uint32_t> Token = throwing_t>
  auto shrink(std::uint32_t fewer, operation_options options, Token&& token = {}) {
    return initiate<Token, std::uint32_t>({.what = command::shrink, .number = fewer, .options = options}, token);
  }
  /// Removes all slots, even if they are held, and then the queues of slots that nobody holds. Completes with a list of
  /// what it had to leave. If there is no semaphore, the command succeeds, too. A process with
  /// `semaphore_options::create_with` creates the semaphore again.
  ///
  /// `overshoot`: treat so many numbers above the highest slot as slots, too. They may have queues if slots were
  /// removed earlier. 0 to 1,000. Without it, the command finds such queues up to the first number that has none.
  ///
  /// Signature: void(error_code, destroy_result).
  /// Errors: invalid_limit, if `overshoot` is over 1,000 (nothing was sent).
  template <detail::command_token<destroy_result> Token = throwing_t>
  auto destroy(Token&& token = {}) {
    return destroy(0, operation_options(), std::forward<Token>(token));
  }
  template <detail::command_token<destroy_result> Token = throwing_t>
  auto destroy(std::uint32_t overshoot, Token&& token = {}) {
    return destroy(overshoot, operation_options(), std::forward<Token>(token));
  }
  template <detail::command_token<destroy_result> Token = throwing_t>
  auto destroy(std::uint32_t overshoot, operation_options options, Token&& token = {}) {
    return initiate<Token, destroy_result>({.what = command::destroy, .number = overshoot, .options = options}, token);
  }
  /// Reads which slots there are and which are taken. If there is no semaphore, it succeeds with
  /// `semaphore_status::exists` false. It does not wait for other administrators.
  ///
  /// Signature: void(error_code, semaphore_status).
  template <detail::command_token<semaphore_status> Token = throwing_t>
  auto inspect(Token&& token = {}) {
    return inspect(operation_options(), std::forward<Token>(token));
  }
  template <detail::command_token<semaphore_status> Token = throwing_t>
  auto inspect(operation_options options, Token&& token = {}) {
    return initiate<Token, semaphore_status>({.what = command::inspect, .options = options}, token);
  }
  /// Waits until nobody holds this slot, whether it exists or was removed. A slot that exists may be taken again at any
  /// moment.
  ///
  /// It asks the broker at once, and then with pauses of 10 ms, which double up to 1 s. Without `within` there is no
  /// time limit. While the broker cannot be reached, it retries. It fails if that lasts for the command's timeout.
  ///
  /// Errors: invalid_option, if the slot is not between 1 and 1,000 (nothing was sent). in_use, if it takes longer than
  /// `within`.
  template <detail::command_token Token = throwing_t>
  auto wait_until_released(std::uint32_t slot, Token&& token = {}) {
    return wait_until_released(slot, std::chrono::nanoseconds::max(), operation_options(), std::forward<Token>(token));
  }
  template <detail::command_token Token = throwing_t>
  auto wait_until_released(std::uint32_t slot, std::chrono::nanoseconds within, Token&& token = {}) {
    return wait_until_released(slot, within, operation_options(), std::forward<Token>(token));
  }
  template <detail::command_token Token = throwing_t>
  auto wait_until_released(std::uint32_t slot, std::chrono::nanoseconds within, operation_options options,
                           Token&& token = {}) {
    return initiate<Token>({.what = command::wait_until_released, .number = slot, .within = within, .options = options},
                           token);
  }
  /// Waits until nobody holds any slot, also none that was removed by `shrink`. It asks the broker as
  /// `wait_until_released` does. Use it when the slots are removed, because slots that exist may be taken again. After
  /// `destroy`, use `wait_until_released` for the slots that its result names.
  ///
  /// Errors: in_use, if it takes longer than `within`. no_semaphore, if there is none at the beginning.
  template <detail::command_token Token = throwing_t>
  auto wait_until_drained(Token&& token = {}) {
    return wait_until_drained(std::chrono::nanoseconds::max(), operation_options(), std::forward<Token>(token));
  }
  template <detail::command_token Token = throwing_t>
  auto wait_until_drained(std::chrono::nanoseconds within, Token&& token = {}) {
    return wait_until_drained(within, operation_options(), std::forward<Token>(token));
  }
  template <detail::command_token Token = throwing_t>
  auto wait_until_drained(std::chrono::nanoseconds within, operation_options options, Token&& token = {}) {
    return initiate<Token>({.what = command::wait_until_drained, .within = within, .options = options}, token);
  }

private:
  using command = detail::administration_command::kind;

  template <class Token, class... Results>
  auto initiate(detail::administration_command what, Token& token) {
    auto start = [what](const std::shared_ptr<detail::administrator>& impl,
                        holdfast::detail::pending<Results...>&& handler) {
      detail::start_command(impl, what, std::move(handler));
    };
    return holdfast::detail::begin_operation<Results...>(impl_, std::move(start), std::forward<Token>(token));
  }

  std::shared_ptr<detail::administrator> impl_;
};

}  // namespace holdfast::rabbitmq
