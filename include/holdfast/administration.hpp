// SPDX-FileCopyrightText: The holdfast authors
// SPDX-License-Identifier: BSL-1.0

#pragma once

#include <boost/asio/any_io_executor.hpp>
#include <boost/asio/async_result.hpp>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <holdfast/consul/client.hpp>
#include <holdfast/detail/export.hpp>
#include <holdfast/detail/initiation.hpp>
#include <holdfast/diagnostics.hpp>
#include <holdfast/error.hpp>
#include <holdfast/lock_store.hpp>
#include <holdfast/semaphore_status.hpp>
#include <memory>
#include <string>
#include <utility>

namespace holdfast {

namespace asio = boost::asio;

// If an option of semaphores changes their keys, it must be here, too, and `src/runtime/administrator.cpp` must pass it
// on. No check finds that.

/// Identifies the semaphore, and limits the time and the attempts of its commands.
struct administration_options {
  std::string prefix{};            ///< as `semaphore_options::prefix`
  std::string lock_key = ".lock";  ///< as `semaphore_options::lock_key`
  /// Timeout of one command, with all its requests and retries. For `wait_until_drained` it limits the length of an
  /// outage, not the wait. A `request_options::timeout` other than 0 replaces it. 1 ms to 10 min.
  std::chrono::milliseconds timeout{10'000};
  /// The command fails after this many attempts in a row that failed. An attempt is a read and usually a write. Most
  /// failures occur because others write at the same time. A command that needs several transactions counts from 0
  /// again after each one. 1 or more. `inspect` and `wait_until_drained` ignore it.
  unsigned attempts_max = 100;
};

/// The number of items that `sweep` has removed. If one of its writes got no answer, items that are gone at the next
/// read are counted.
struct swept {
  std::size_t holders = 0;  ///< dead holders, removed from the record
  std::size_t entries = 0;  ///< entries without a session
  bool operator==(const swept&) const = default;
};

namespace detail {

class administrator;

struct administration_command {
  enum class kind { create, resize, close, open, revoke, evict, destroy, sweep, inspect, drain } what;
  std::uint32_t limit = 0;
  std::string session{};
  bool even_in_use = false;
  std::chrono::nanoseconds within = std::chrono::nanoseconds::max();
  consul::request_options request{};
};

HOLDFAST_EXPORT asio::any_io_executor executor_of(const administrator&) noexcept;
HOLDFAST_EXPORT void start_command(const std::shared_ptr<administrator>&, administration_command, pending<>&&);
HOLDFAST_EXPORT void start_command(const std::shared_ptr<administrator>&, administration_command, pending<swept>&&);
HOLDFAST_EXPORT void start_command(const std::shared_ptr<administrator>&, administration_command,
                                   pending<semaphore_status>&&);

template <class Token, class... Results>
concept command_token = asio::completion_token_for<Token, void(error_code, Results...)>;

}  // namespace detail

/// Lets an operator change a semaphore while any number of processes use it. Commands act only on the state in Consul.
/// So a command needs no process that listens, and it stays in effect after the process that sent it has ended.
/// doc/reference/administration.md states the effects of each command on other clients.
///
/// A command reads all keys below the prefix. Then, if there is anything to change, it writes one transaction. Consul
/// refuses the transaction if the record or an entry that it changes was written since the read. In this case the
/// command reads again and retries, up to `attempts_max` times. So any number of operators and processes can act at the
/// same time. After a write without an answer the command also reads again, and does not repeat what is done already.
/// If a command makes slots free, the same write grants them to waiting contenders of this library. So no other process
/// has to grant them.
///
/// A command that does not fit into one transaction uses several. `evict` destroys the session before its transaction.
/// If such a command fails, a part of it may have been carried out, whatever the error. If you send the command again,
/// it continues from there.
///
/// HashiCorp's Go client and clients that follow Consul's guide do not know `close` and `revoke`. Their writes of the
/// record undo both.
///
/// Operations take a completion token, by default `throwing`. A completion handler runs on its associated executor, by
/// default the client's executor. It is never called inside the initiating function. `request_options` may be omitted
/// before the token. `request_options::retry` is ignored.
///
/// All commands have this in common:
///
/// - Completion: when the change is written in Consul, unless stated otherwise.
/// - Signature: void(error_code), unless stated otherwise.
/// - Errors that are reported at once: not_a_semaphore, corrupt_record, bad_request, too_large, permission_denied,
///   plain_http_refused. Also certificate_refused and client_certificate_refused. closed, if the client was closed.
///   invalid_option, if `request_options::timeout` is neither 0 nor from 1 ms to 10 min; nothing was sent. Also the
///   errors that a command lists.
/// - Errors that are reported after the timeout or after `attempts_max`: all that equal `condition::unavailable`;
///   reply_too_large; transaction_conflict, if others wrote first each time, or if Consul refused the transaction for
///   an unknown reason. If the error equals `condition::outcome_unknown`, the command may have been carried out, or may
///   be carried out later.
/// - Cancellation: terminal, partial, total. The command completes with operation_aborted. Written changes stay. So the
///   command, or a part of it, may have been carried out or may be carried out later.
/// - Lifetimes: the object that `request_options::diag` points to must outlive the operation. This object need not.
///
/// no_semaphore may also mean that the ACL token is not allowed to read the prefix.
///
/// Threads: operations and const members may be called from any thread at any time. Assignment, move and destruction
/// must not run at the same time as another call on the same object.
///
/// Lifetimes: the object may be destroyed while commands are pending. It is cheap to copy.
///
/// <!-- cut from example/in_the_headers.cpp: administration -->
/// ```cpp
/// asio::awaitable<void> drain(holdfast::consul::client consul) {
///   holdfast::semaphore_administration admin(consul, {.prefix = "service/reports"});
///   const holdfast::semaphore_status now = co_await admin.inspect();
///   say(std::to_string(now.holders.size()) + " of " + std::to_string(now.limit) + " slots are held");
///   co_await admin.close();  // nobody is granted a slot
///   co_await admin.wait_until_drained();
///   co_await admin.open();
/// }
/// ```
class HOLDFAST_EXPORT semaphore_administration {
public:
  using executor_type = asio::any_io_executor;

  /// Creates an empty object. Its operations complete with error::closed.
  semaphore_administration() noexcept = default;
  /// Sends nothing. Throws `system_error`: invalid_prefix, invalid_option.
  semaphore_administration(const lock_store& where, administration_options options);

  bool valid() const noexcept { return impl_ != nullptr; }
  executor_type get_executor() const noexcept { return impl_ ? detail::executor_of(*impl_) : executor_type(); }

  /// Writes a record with this limit. If there is a record with this limit already, the command succeeds and writes
  /// nothing. You need not create a semaphore: the first acquire also writes the record.
  ///
  /// Errors: invalid_limit (nothing was sent). limit_conflict, if there is a record with another limit.
  template <detail::command_token Token = throwing_t>
  auto create(std::uint32_t limit, Token&& token = {}) {
    return create(limit, consul::request_options(), std::forward<Token>(token));
  }
  template <detail::command_token Token = throwing_t>
  auto create(std::uint32_t limit, consul::request_options request, Token&& token = {}) {
    return initiate<Token>({.what = command::create, .limit = limit, .request = request}, token);
  }
  /// Sets another limit. A higher limit grants waiting contenders in the same write. A lower limit takes no slot away;
  /// nothing is granted until fewer slots are held.
  ///
  /// Use it only if all processes have `semaphore_options::use_recorded_limit`. While the semaphore is in use,
  /// processes without it fail with error::limit_conflict at their next acquire, and keep the slots that they hold. If
  /// nobody else uses it, such a process writes its own limit into the record.
  ///
  /// Errors: invalid_limit (nothing was sent). no_semaphore.
  template <detail::command_token Token = throwing_t>
  auto resize(std::uint32_t limit, Token&& token = {}) {
    return resize(limit, consul::request_options(), std::forward<Token>(token));
  }
  template <detail::command_token Token = throwing_t>
  auto resize(std::uint32_t limit, consul::request_options request, Token&& token = {}) {
    return initiate<Token>({.what = command::resize, .limit = limit, .request = request}, token);
  }
  /// Closes the semaphore: this library grants nothing until `open`. Holders keep their slots, and waiters keep waiting
  /// in their places.
  ///
  /// Errors: no_semaphore.
  template <detail::command_token Token = throwing_t>
  auto close(Token&& token = {}) {
    return close(consul::request_options(), std::forward<Token>(token));
  }
  template <detail::command_token Token = throwing_t>
  auto close(consul::request_options request, Token&& token = {}) {
    return initiate<Token>({.what = command::close, .request = request}, token);
  }
  /// Opens the semaphore again after `close`. The same write grants the next contenders.
  ///
  /// Errors: no_semaphore.
  template <detail::command_token Token = throwing_t>
  auto open(Token&& token = {}) {
    return open(consul::request_options(), std::forward<Token>(token));
  }
  template <detail::command_token Token = throwing_t>
  auto open(consul::request_options request, Token&& token = {}) {
    return initiate<Token>({.what = command::open, .request = request}, token);
  }
  /// Asks the holder with that session to release its slot. The holder sees the request by `slot::revoked` and
  /// `slot::wait_revoked`. Completes when the request is written, not when the slot is released.
  ///
  /// Errors: no_semaphore. not_held, if the session holds no slot. too_large, if the record has no room for another
  /// request.
  template <detail::command_token Token = throwing_t>
  auto revoke(std::string session, Token&& token = {}) {
    return revoke(std::move(session), consul::request_options(), std::forward<Token>(token));
  }
  template <detail::command_token Token = throwing_t>
  auto revoke(std::string session, consul::request_options request, Token&& token = {}) {
    return initiate<Token>({.what = command::revoke, .session = std::move(session), .request = request}, token);
  }
  /// Takes away the slot or the place in the queue of that session. The command destroys the session and grants the
  /// slot to the next contender. The holder notices this like any loss, and may act on its slot until then.
  ///
  /// Errors: not_held, if the session neither holds nor waits.
  /// After an error or a cancellation, the session may have been destroyed while its slot is not granted yet. Then a
  /// process that waits grants it.
  template <detail::command_token Token = throwing_t>
  auto evict(std::string session, Token&& token = {}) {
    return evict(std::move(session), consul::request_options(), std::forward<Token>(token));
  }
  template <detail::command_token Token = throwing_t>
  auto evict(std::string session, consul::request_options request, Token&& token = {}) {
    return initiate<Token>({.what = command::evict, .session = std::move(session), .request = request}, token);
  }
  /// Removes the record, all entries and the keys of numbers, if nobody holds, waits or has a number. A later acquire
  /// creates the semaphore again; the command does not remove what is created during its run.
  ///
  /// Errors: in_use.
  template <detail::command_token Token = throwing_t>
  auto destroy(Token&& token = {}) {
    return destroy(consul::request_options(), std::forward<Token>(token));
  }
  template <detail::command_token Token = throwing_t>
  auto destroy(consul::request_options request, Token&& token = {}) {
    return initiate<Token>({.what = command::destroy, .request = request}, token);
  }
  /// Removes the record, all entries and the keys of numbers, even if the semaphore is in use. All slots are lost, and
  /// waiters join a new queue. It does not fail with error::in_use.
  template <detail::command_token Token = throwing_t>
  auto destroy_in_use(Token&& token = {}) {
    return destroy_in_use(consul::request_options(), std::forward<Token>(token));
  }
  template <detail::command_token Token = throwing_t>
  auto destroy_in_use(consul::request_options request, Token&& token = {}) {
    return initiate<Token>({.what = command::destroy, .even_in_use = true, .request = request}, token);
  }
  /// Removes what dead processes have left: in the record, holders whose sessions have ended, and entries that no
  /// session holds. This is not needed for safety, nor to make those slots available, because waiting processes take
  /// them anyway. The command does not wait for the time for which waiting processes leave the slot of a vanished
  /// holder alone (`tuning::lock_delay` with node health checks, or the holder's TTL). If such a holder still acts, two
  /// processes may use its slot at the same time. Completes with the number of removed items.
  ///
  /// Signature: void(error_code, swept).
  template <detail::command_token<swept> Token = throwing_t>
  auto sweep(Token&& token = {}) {
    return sweep(consul::request_options(), std::forward<Token>(token));
  }
  template <detail::command_token<swept> Token = throwing_t>
  auto sweep(consul::request_options request, Token&& token = {}) {
    return initiate<Token, swept>({.what = command::sweep, .request = request}, token);
  }
  /// Reads the state in Consul, and completes with it. If there is no semaphore, it succeeds with
  /// `semaphore_status::exists` false.
  ///
  /// The result lists sessions, not coroutines. If any number of coroutines wait by one `semaphore` object, the queue
  /// has at most `limit` sessions of that object. The number of waiting coroutines is in its `semaphore::statistics`.
  ///
  /// Signature: void(error_code, semaphore_status).
  /// Cancellation: as above. It never writes anything.
  template <detail::command_token<semaphore_status> Token = throwing_t>
  auto inspect(Token&& token = {}) {
    return inspect(consul::request_options(), std::forward<Token>(token));
  }
  template <detail::command_token<semaphore_status> Token = throwing_t>
  auto inspect(consul::request_options request, Token&& token = {}) {
    return initiate<Token, semaphore_status>({.what = command::inspect, .request = request}, token);
  }
  /// Waits until no living holder holds a slot. Use it after `close`, because a slot of an open semaphore may be
  /// granted again at any moment.
  ///
  /// It reads at least once. Then it waits for changes, and reads again after each one, with pauses of up to 100 ms.
  /// After 10 s without a change it also reads again. Without `within` there is no time limit. While the agent cannot
  /// answer, it retries, even after `within`. It fails if the outage lasts for the command's timeout.
  ///
  /// Errors: in_use, if it takes longer than `within`. no_semaphore, if there is no record at the first read.
  /// Cancellation: as above. It never writes anything.
  template <detail::command_token Token = throwing_t>
  auto wait_until_drained(Token&& token = {}) {
    return wait_until_drained(std::chrono::nanoseconds::max(), consul::request_options(), std::forward<Token>(token));
  }
  template <detail::command_token Token = throwing_t>
  auto wait_until_drained(std::chrono::nanoseconds within, Token&& token = {}) {
    return wait_until_drained(within, consul::request_options(), std::forward<Token>(token));
  }
  template <detail::command_token Token = throwing_t>
  auto wait_until_drained(std::chrono::nanoseconds within, consul::request_options request, Token&& token = {}) {
    return initiate<Token>({.what = command::drain, .within = within, .request = request}, token);
  }

private:
  using command = detail::administration_command::kind;

  template <class Token, class... Results>
  auto initiate(detail::administration_command what, Token& token) {
    auto start = [what = std::move(what)](const std::shared_ptr<detail::administrator>& impl,
                                          detail::pending<Results...>&& handler) {
      detail::start_command(impl, what, std::move(handler));
    };
    return detail::begin_operation<Results...>(impl_, std::move(start), std::forward<Token>(token));
  }

  std::shared_ptr<detail::administrator> impl_;
};

}  // namespace holdfast
