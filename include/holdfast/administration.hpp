#pragma once

#include <boost/asio/any_io_executor.hpp>
#include <boost/asio/async_result.hpp>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <holdfast/consul/client.hpp>
#include <holdfast/detail/initiation.hpp>
#include <holdfast/diagnostics.hpp>
#include <holdfast/error.hpp>
#include <holdfast/semaphore_status.hpp>
#include <memory>
#include <string>
#include <utility>

namespace holdfast {

namespace asio = boost::asio;

/// Which semaphore, and how long an order may take.
struct administration_options {
  std::string prefix{};            ///< as `semaphore_options::prefix`
  std::string lock_key = ".lock";  ///< as `semaphore_options::lock_key`
  /// For one order, all its requests and repetitions included, unless its own `request_options::timeout` says
  /// otherwise. 1 ms to 10 min.
  std::chrono::milliseconds timeout{10'000};
  /// How often in a row an order looks and writes in vain at most, while others write at the same time: what takes
  /// several transactions begins to count anew with each that is done. 1 or more.
  unsigned attempts_max = 100;
};

/// What `sweep` has removed. If a write of it got no answer, what is gone at the next look is taken for its work.
struct swept {
  std::size_t holders = 0;  ///< dead ones, from the record
  std::size_t entries = 0;  ///< that no session held
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

asio::any_io_executor executor_of(const administrator&) noexcept;
void start_command(const std::shared_ptr<administrator>&, administration_command, pending<>&&);
void start_command(const std::shared_ptr<administrator>&, administration_command, pending<swept>&&);
void start_command(const std::shared_ptr<administrator>&, administration_command, pending<semaphore_status>&&);

template <class Token, class... Results>
concept command_token = asio::completion_token_for<Token, void(error_code, Results...)>;

}  // namespace detail

/// An operator's hand on a semaphore that is in use, by any number of processes. All that it orders stands in Consul:
/// it needs no process that listens, and is not undone when this one ends. What each order means to other clients, and
/// what it does not do, is in doc/reference/administration.md.
///
/// An order reads what stands below the prefix and writes one transaction that Consul refuses if the record has changed
/// since; then it looks again, up to `attempts_max` times in vain. So any number of operators and processes can act at
/// once. After a write without an answer it looks too: what is done already is not done again. Slots that an order
/// makes free are granted in the same write, so whoever can run wakes up, and nobody else.
///
/// What does not fit into one transaction takes several: an order that fails may have been carried out in part, and
/// goes on from there when it is given again.
///
/// Operations take a completion token, by default `throwing`. Handlers run on their associated executor, by
/// default the client's, never inside the initiating function. The token may take the place of a request's options that
/// are not given; of those `request_options::retry` is not used. Of every order:
///
/// - Signature: void(error_code).
/// - Errors, at once: invalid_option (`request_options::timeout` is neither 0 nor from 1 ms to 10 min; nothing was
///   sent); not_a_semaphore, corrupt_record; permission_denied, plain_http_refused, bad_request, too_large; closed (of
///   the client); and what an order says besides.
/// - Errors, after the timeout or `attempts_max`: what `condition::unavailable` stands for, malformed_reply,
///   reply_too_large; transaction_conflict, if others wrote first each time. With a `condition::outcome_unknown` the
///   order may have been carried out, or may be later.
/// - Cancellation: terminal, partial, total; operation_aborted. What was written stays: the order may have been carried
///   out, or a part of it, or may be later.
/// - Lifetimes: `request_options::diag`, which gets the words of a failure, must outlive it; the handle need not.
///
/// no_semaphore, where an order says it, is also what an ACL token sees that may not read the prefix.
///
/// Threads: operations and const members are safe from any thread; assignment, move and destruction are not beside
/// them.
///
/// Lifetimes: as for `consul::client`.
class semaphore_administration {
public:
  using executor_type = asio::any_io_executor;

  /// An empty handle: only assignment, destruction and `valid()` are allowed.
  semaphore_administration() noexcept = default;
  /// Sends nothing yet. Throws `system_error`: invalid_prefix, invalid_option.
  semaphore_administration(consul::client client, administration_options options);

  bool valid() const noexcept { return impl_ != nullptr; }
  executor_type get_executor() const noexcept { return detail::executor_of(*impl_); }

  /// Writes the record, with nobody in it. If there is one with this limit, that is all. A semaphore needs no such
  /// order: the first acquire writes the record, too.
  ///
  /// Errors: invalid_limit (nothing was sent); limit_conflict (there is one with another limit).
  template <detail::command_token Token = throwing_t>
  auto create(std::uint32_t limit, Token&& token = {}) {
    return create(limit, consul::request_options(), std::forward<Token>(token));
  }
  template <detail::command_token Token = throwing_t>
  auto create(std::uint32_t limit, consul::request_options request, Token&& token = {}) {
    return initiate<Token>({.what = command::create, .limit = limit, .request = request}, token);
  }
  /// Another limit, from now on. Whoever waits and fits into a higher one is granted. A lower one takes no slot away:
  /// nobody is granted until fewer hold. For processes with `semaphore_options::use_recorded_limit`; those without it
  /// fail with error::limit_conflict at their next acquire, and keep what they hold.
  ///
  /// Errors: invalid_limit (nothing was sent); no_semaphore.
  template <detail::command_token Token = throwing_t>
  auto resize(std::uint32_t limit, Token&& token = {}) {
    return resize(limit, consul::request_options(), std::forward<Token>(token));
  }
  template <detail::command_token Token = throwing_t>
  auto resize(std::uint32_t limit, consul::request_options request, Token&& token = {}) {
    return initiate<Token>({.what = command::resize, .limit = limit, .request = request}, token);
  }
  /// Nobody is granted from now on, until `open`. Holders go on; those who wait keep waiting, in their places.
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
  /// Ends what `close` began: those who come next are granted.
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
  /// Asks the holder with that session to give its slot up: it sees that as `slot::revoked` and `slot::wait_revoked`.
  /// Completes when the wish is written, not when it is fulfilled.
  ///
  /// Errors: no_semaphore; not_held (the session holds no slot); too_large (a thousand wishes are there that nobody has
  /// fulfilled).
  template <detail::command_token Token = throwing_t>
  auto revoke(std::string session, Token&& token = {}) {
    return revoke(std::move(session), consul::request_options(), std::forward<Token>(token));
  }
  template <detail::command_token Token = throwing_t>
  auto revoke(std::string session, consul::request_options request, Token&& token = {}) {
    return initiate<Token>({.what = command::revoke, .session = std::move(session), .request = request}, token);
  }
  /// Takes a slot, or a place in the queue, away: destroys the session and grants the slot to whoever comes next. The
  /// holder hears of it as of any loss, and may act on its slot until then.
  ///
  /// Errors: not_held (the session neither holds nor waits).
  /// Cancellation: the session may have been destroyed, and its slot not granted yet: whoever waits sees to that.
  template <detail::command_token Token = throwing_t>
  auto evict(std::string session, Token&& token = {}) {
    return evict(std::move(session), consul::request_options(), std::forward<Token>(token));
  }
  template <detail::command_token Token = throwing_t>
  auto evict(std::string session, consul::request_options request, Token&& token = {}) {
    return initiate<Token>({.what = command::evict, .session = std::move(session), .request = request}, token);
  }
  /// Removes the record and all entries, if nobody holds or waits. Whoever acquires later creates it anew; that is left
  /// alone.
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
  /// The same, whoever uses it: all slots are lost, and who waits joins a new queue. Never error::in_use.
  template <detail::command_token Token = throwing_t>
  auto destroy_in_use(Token&& token = {}) {
    return destroy_in_use(consul::request_options(), std::forward<Token>(token));
  }
  template <detail::command_token Token = throwing_t>
  auto destroy_in_use(consul::request_options request, Token&& token = {}) {
    return initiate<Token>({.what = command::destroy, .even_in_use = true, .request = request}, token);
  }
  /// Removes what dead processes have left: holders whose sessions have ended, from the record, and entries that no
  /// session holds. Nobody needs it to be safe, or to get those slots: whoever waits takes them. With
  /// `semaphore_options::node_health_checks` it does not wait for the lock delay. Completes with what was removed.
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
  /// Reads the state in Consul. If there is no semaphore, the answer says so. It lists sessions, not coroutines: of a
  /// process in which any number of coroutines wait, the queue shows no more sessions than `limit`. How many coroutines
  /// wait in a process is in its own `semaphore::statistics`.
  ///
  /// Signature: void(error_code, semaphore_status).
  /// Cancellation: nothing is ever written.
  template <detail::command_token<semaphore_status> Token = throwing_t>
  auto inspect(Token&& token = {}) {
    return inspect(consul::request_options(), std::forward<Token>(token));
  }
  template <detail::command_token<semaphore_status> Token = throwing_t>
  auto inspect(consul::request_options request, Token&& token = {}) {
    return initiate<Token, semaphore_status>({.what = command::inspect, .request = request}, token);
  }
  /// Completes when nobody alive holds a slot: of use after `close`, for otherwise somebody may have one in the next
  /// moment. One look in any case, and no end if no time is given. Looks again when something changes, with pauses of
  /// up to 100 ms. Rides out an agent that cannot answer for the timeout.
  ///
  /// Errors: in_use (it takes longer than `within`); no_semaphore (there is no record at the first look).
  /// Cancellation: nothing is ever written.
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
