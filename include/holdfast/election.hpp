// SPDX-FileCopyrightText: The holdfast authors
// SPDX-License-Identifier: BSL-1.0

#pragma once

#include <cstdint>
#include <holdfast/detail/export.hpp>
#include <holdfast/diagnostics.hpp>
#include <holdfast/lock_store.hpp>
#include <holdfast/mutex.hpp>
#include <holdfast/options.hpp>
#include <holdfast/slot.hpp>
#include <holdfast/statistics.hpp>
#include <holdfast/with_slot.hpp>
#include <memory>
#include <optional>
#include <string>
#include <utility>

namespace holdfast {

class leadership;

/// The current leader, as an observer sees it.
struct leader {
  std::string value;  ///< the value of the leader's campaign, or of its last proclaim
  /// Identifies this term. `verify(client, leader.term)` asks whether the term still lasts.
  sequencer term;
  /// The key's ModifyIndex. At the beginning of a term of this library's clients it equals `fencing_token().grant`.
  /// A proclaim of another value raises it.
  std::uint64_t index = 0;
  bool operator==(const leader&) const = default;
};

namespace detail {

class election_impl;
class observation;
class statistics_access;

HOLDFAST_EXPORT asio::any_io_executor executor_of(const election_impl&) noexcept;
HOLDFAST_EXPORT asio::any_io_executor executor_of(const observation&) noexcept;
HOLDFAST_EXPORT void start_campaign(const election_impl&, std::string value, const operation_options& options,
                                    pending<hold>&&);
HOLDFAST_EXPORT void start_proclaim(const std::shared_ptr<slot_impl>&, std::string value, diagnostics*, pending<>&&);
HOLDFAST_EXPORT void start_next(const std::shared_ptr<observation>&, diagnostics*, pending<std::optional<leader>>&&);

}  // namespace detail

/// A term as the leader, from `election::campaign`. It is a `held_mutex`, with all of its operations. The destructor
/// resigns in the background.
///
/// Like any slot, the leadership can be lost at any time. A process that was paused may still believe that it leads. So
/// protect what the leader writes by the `fencing_token` or `fence_checks`.
class HOLDFAST_EXPORT leadership : public held_mutex {
public:
  /// Creates an empty handle.
  leadership() noexcept = default;

  /// Writes a new value into the key, for observers to read. The value follows the rules of `election::campaign`.
  /// Completes when the value is written, usually after two requests.
  ///
  /// Consul refuses the write if this process no longer leads. So a deposed leader never overwrites the value of its
  /// successor. A proclaim with an unknown outcome is never applied after a later proclaim.
  ///
  /// Two proclaims may overlap. Then either value may last, but a proclaim that certainly was not applied
  /// (`condition::not_applied`) leaves no value behind.
  ///
  /// Signature: void(error_code).
  /// Errors: invalid_option, for the value. not_held, if the handle is empty or has resigned. slot_lost.
  /// transaction_conflict, if another client writes the key all the time and this value is not in it. Also those of
  /// `consul::client`.
  /// Cancellation: not supported. Each request of the operation has a deadline, and the operation gives up when four of
  /// its writes were refused.
  /// Lifetimes: the object that `operation_options::diag` points to must outlive the operation. The handle may be
  /// destroyed before the operation completes; this resigns.
  template <class Token = throwing_t>
  auto proclaim(std::string value, Token&& token = {}) {
    return initiate_proclaim(std::move(value), nullptr, std::forward<Token>(token));
  }
  template <class Token = throwing_t>
  auto proclaim(std::string value, operation_options options, Token&& token = {}) {
    return initiate_proclaim(std::move(value), options.diag, std::forward<Token>(token));
  }
  /// Resigns: the next candidate in the queue gets the leadership. It is the same as `release`, and completes like it.
  /// Until the next leader writes its own value, the key keeps the value of the last proclaim, even if the outcome of
  /// that proclaim is unknown. If there was no proclaim, it keeps that of the campaign.
  ///
  /// Signature: void(error_code).
  template <class Token = throwing_t>
  auto resign(Token&& token = {}) {
    return release(std::forward<Token>(token));
  }

private:
  template <class To, class From, class Handler>
  friend struct detail::converting;
  explicit leadership(hold&& won) noexcept : held_mutex(std::move(won)) {}

  template <class Token>
  auto initiate_proclaim(std::string value, diagnostics* diag, Token&& token) {
    auto start = [value = std::move(value), diag](const std::shared_ptr<detail::slot_impl>& held,
                                                  detail::pending<>&& handler) {
      detail::start_proclaim(held, value, diag, std::move(handler));
    };
    return detail::begin_operation<>(detail::slot_impl_of(*this), std::move(start), std::forward<Token>(token));
  }
};

/// Reports the leader, and each lasting change of the leader. An observer has no session and no entry, and writes
/// nothing. While `next` is pending, the observer uses one of the `consul::config::blocking_max` blocking queries of
/// its client.
///
/// The ACL token must be allowed to read the key and the keys below it (`key_prefix`). If the token may read only the
/// key, Consul hides the candidates' entries. Then a candidate is reported as soon as another process has granted it
/// the key, even if the candidate is dead and never accepts the grant.
///
/// Operations take a completion token, by default `throwing`. A completion handler runs on its associated executor, by
/// default the client's executor. It is never called inside the initiating function, unless it has an immediate
/// executor (see `semaphore`).
///
/// Threads: operations and const members may be called from any thread at any time. Assignment, move and destruction
/// must not run at the same time as another call on the same object.
///
/// Lifetimes: the handle may be destroyed while `next` is pending. It is cheap to copy. All copies refer to the same
/// observer.
///
/// <!-- cut from example/in_the_headers.cpp: observer -->
/// ```cpp
/// asio::awaitable<void> follow(holdfast::consul::client consul) {
///   holdfast::election_observer observer(consul, "service/leader");
///   for (;;) {
///     const std::optional<holdfast::leader> now = co_await observer.next();  // waits for a change
///     say(now ? "leader: " + now->value : "no leader");
///     if (now) co_return;
///   }
/// }
/// ```
class HOLDFAST_EXPORT election_observer {
public:
  using executor_type = asio::any_io_executor;

  /// Creates an empty object. Its operations complete with error::closed.
  election_observer() noexcept = default;
  /// Sends nothing. Throws `system_error`: invalid_prefix (for the key). No `election` is needed.
  election_observer(const lock_store& where, std::string key);

  bool valid() const noexcept { return impl_ != nullptr; }
  executor_type get_executor() const noexcept { return impl_ ? detail::executor_of(*impl_) : executor_type(); }

  /// Waits for news of the leader. The first call completes with the present leader. Each later call completes when the
  /// leader differs from the last result: another leader or term, another value or `leader::index`, or no leader
  /// (`std::nullopt`).
  ///
  /// A lasting state is always reported. A state may be skipped if it begins and ends while no call is pending, or
  /// within a moment. So a change of leaders may be reported without the time between them. The read is consistent, so
  /// the result was true when Consul answered.
  ///
  /// If another process has granted the key to a candidate, the candidate is reported when it has accepted the grant.
  /// Until then the result is `std::nullopt`, because the candidate may be dead. If it is dead, the key goes to another
  /// candidate.
  ///
  /// While Consul cannot answer, the operation retries without a time limit, with pauses of up to one second.
  ///
  /// Signature: void(error_code, std::optional<leader>).
  /// Errors: permission_denied; not_a_mutex, if the key belongs to something else; and all others that do not equal
  /// `condition::unavailable`. After such an error the next call reads again. too_many_waiters, if another `next` of
  /// this observer is pending.
  /// Cancellation: terminal, partial, total. It loses no news: the next call reports them.
  /// Lifetimes: the object that `operation_options::diag` points to must outlive the operation. The handle need not.
  template <class Token = throwing_t>
  auto next(Token&& token = {}) {
    return initiate(nullptr, std::forward<Token>(token));
  }
  template <class Token = throwing_t>
  auto next(operation_options options, Token&& token = {}) {
    return initiate(options.diag, std::forward<Token>(token));
  }

private:
  template <class Token>
  auto initiate(diagnostics* diag, Token&& token) {
    auto start = [diag](const std::shared_ptr<detail::observation>& impl,
                        detail::pending<std::optional<leader>>&& handler) {
      detail::start_next(impl, diag, std::move(handler));
    };
    return detail::begin_operation<std::optional<leader>>(impl_, std::move(start), std::forward<Token>(token));
  }

  friend class election;
  explicit election_observer(std::shared_ptr<detail::observation> impl) noexcept : impl_(std::move(impl)) {}
  std::shared_ptr<detail::observation> impl_;
};

/// Leader election over Consul, with the key of Consul's guide. The client that has locked the key is the leader. The
/// key's value is a text for the other processes, for example the leader's address. Go programs with `api.Lock`,
/// `consul lock -n 1`, and clients that acquire the key by hand as in the guide may take part.
///
/// Each campaign is a candidate of its own: a contender for a `mutex`, with a session that ends with the candidate. So
/// one process may have several candidates, and each term has its own session. Candidates are elected in the order in
/// which they joined. Clients of other kinds do not queue: see `mutex`.
///
/// Completion tokens, executors and allocators: as for `semaphore`.
///
/// Threads: operations and const members may be called from any thread at any time. Assignment, move and destruction
/// must not run at the same time as another call on the same object.
///
/// Lifetimes: the handle may be destroyed at any time. Pending campaigns and terms that were won continue. The handle
/// is cheap to copy. All copies refer to the same election.
///
/// There is no `close`, and so no time limit for it. To end a campaign, cancel it. To end a term, resign or destroy its
/// `leadership`. Then its session is destroyed at once. Until that is done, the session keeps the execution context
/// running.
///
/// <!-- cut from example/in_the_headers.cpp: election -->
/// ```cpp
/// asio::awaitable<void> lead(holdfast::consul::client consul) {
///   holdfast::election candidate(consul, {.key = "service/leader"});
///   holdfast::leadership term = co_await candidate.campaign("10.0.0.7:8080");
///   co_await term.proclaim("10.0.0.7:8081");  // what observers see from now on
///   co_await write_report();
///   co_await term.resign();
/// }
/// ```
class HOLDFAST_EXPORT election {
public:
  using executor_type = asio::any_io_executor;

  /// Creates an empty object: see `slot_source`.
  election() noexcept = default;
  /// Sends nothing. Throws `system_error`: invalid_prefix (for the key), invalid_ttl, invalid_option.
  election(const lock_store& where, election_options options);

  bool valid() const noexcept { return impl_ != nullptr; }
  executor_type get_executor() const noexcept {
    return impl_ ? executor_type(detail::executor_of(*impl_)) : executor_type();
  }
  const std::string& key() const noexcept;
  /// The statistics of all candidates and terms of this election in this process.
  lock_statistics statistics() const;

  /// Becomes a candidate. Completes when the election is won, without a time limit. The write that wins the election
  /// also puts `value` into the key. Before that, operators can read the value in the candidate's entry below the key.
  /// If the value is empty or omitted, "host:pid" is used.
  ///
  /// Signature: void(error_code, leadership).
  /// Errors: invalid_option, if the value breaks the rules of `semaphore_options::description`. Also those of
  /// `mutex::lock`.
  /// Cancellation: terminal, partial, total. It completes with operation_aborted. The candidate's entry and session are
  /// removed in the background.
  /// Lifetimes: the object that `operation_options::diag` points to must outlive the operation. The handle need not.
  template <detail::slot_token<leadership> Token = throwing_t>
  auto campaign(Token&& token = {}) {
    return campaign(std::string(), std::forward<Token>(token));
  }
  template <detail::slot_token<leadership> Token = throwing_t>
  auto campaign(std::string value, Token&& token = {}) {
    return initiate(std::move(value), operation_options(), std::forward<Token>(token));
  }
  template <detail::slot_token<leadership> Token = throwing_t>
  auto campaign(std::string value, operation_options options, Token&& token = {}) {
    return initiate(std::move(value), options, std::forward<Token>(token));
  }

  /// Returns a new observer of this election. It works for leaders, candidates and other processes.
  election_observer observe() const;

private:
  template <class Token>
  auto initiate(std::string value, operation_options options, Token&& token) {
    auto start = [value = std::move(value), options](const std::shared_ptr<const detail::election_impl>& impl,
                                                     detail::pending<hold>&& handler) {
      detail::start_campaign(*impl, value, options, std::move(handler));
    };
    return detail::begin_operation_as<leadership, hold>(impl_, std::move(start), std::forward<Token>(token));
  }

  friend class detail::statistics_access;
  std::shared_ptr<const detail::election_impl> impl_;
};

namespace detail {

template <class Body>
asio::awaitable<void> campaign_and_run(election candidate, std::string value, Body body) {
  leadership won = co_await candidate.campaign(std::move(value));
  co_await with_held(std::move(won), std::move(body));
}

}  // namespace detail

/// Campaigns, runs `body(leadership&)` (a coroutine that returns `asio::awaitable<void>`) while this process leads, and
/// resigns: see `with_slot`. To campaign again after a loss of the leadership, call it in a loop.
template <class Body>
asio::awaitable<void> with_leadership(election candidate, std::string value, Body&& body) {
  detail::check_body<Body>();
  return detail::campaign_and_run<std::decay_t<Body>>(std::move(candidate), std::move(value), std::forward<Body>(body));
}

}  // namespace holdfast
