#pragma once

#include <cstdint>
#include <holdfast/diagnostics.hpp>
#include <holdfast/lock_store.hpp>
#include <holdfast/mutex.hpp>
#include <holdfast/options.hpp>
#include <holdfast/slot.hpp>
#include <holdfast/with_slot.hpp>
#include <memory>
#include <optional>
#include <string>
#include <utility>

namespace holdfast {

class leadership;

/// Who leads, as whoever looks at the key sees it.
struct leader {
  std::string value;  ///< what the leader campaigned with, or has proclaimed since
  /// Names this term: `verify(client, leader.term)` asks whether it lasts.
  sequencer term;
  /// The key's ModifyIndex: at the beginning of a term of ours its `fencing_token().grant`; each proclaim raises it.
  std::uint64_t index = 0;
  bool operator==(const leader&) const = default;
};

namespace detail {

class election_impl;
class observation;

asio::any_io_executor executor_of(const election_impl&) noexcept;
asio::any_io_executor executor_of(const observation&) noexcept;
void start_campaign(const election_impl&, std::string value, diagnostics*, pending<slot>&&);
void start_proclaim(const std::shared_ptr<slot_impl>&, std::string value, diagnostics*, pending<>&&);
void start_next(const std::shared_ptr<observation>&, diagnostics*, pending<std::optional<leader>>&&);

}  // namespace detail

/// A term, from `election::campaign`: a `held_mutex`, with all that one can do. The destructor resigns in the
/// background. Like any slot it can be lost at any time; a process that was paused may still believe to lead, so give
/// what it commands the `fencing_token` or `fence_checks`.
class leadership : public held_mutex {
public:
  /// Empty.
  leadership() noexcept = default;

  /// Puts another value in the key, for observers to see; by the rules of `election::campaign`. Consul itself refuses
  /// it if we do not lead any more, so a deposed leader never overwrites its successor's value; and one of which it is
  /// not known whether it was done is never done after a later one. Two requests. Two proclaims may overlap. Then
  /// either value may last, but a proclaim that certainly was not applied (`condition::not_applied`) leaves no value
  /// behind.
  ///
  /// Signature: void(error_code).
  /// Errors: invalid_option; not_held (empty, or resigned), slot_lost; transaction_conflict (somebody else writes the
  /// key all the time, and ours does not stand there); and those of `consul::client`.
  /// Cancellation: none; it ends by its own deadline.
  /// Lifetimes: `operation_options::diag` must outlive the operation; the handle may be destroyed before, which
  /// resigns.
  template <class Token = throwing_t>
  auto proclaim(std::string value, Token&& token = {}) {
    return initiate_proclaim(std::move(value), nullptr, std::forward<Token>(token));
  }
  template <class Token = throwing_t>
  auto proclaim(std::string value, operation_options options, Token&& token = {}) {
    return initiate_proclaim(std::move(value), options.diag, std::forward<Token>(token));
  }
  /// Gives the leadership up: whoever is next in the queue gets it. The same as `release`. The key keeps the value: the
  /// last one proclaimed, also if it is not known whether that was done.
  template <class Token = throwing_t>
  auto resign(Token&& token = {}) {
    return release(std::forward<Token>(token));
  }

private:
  template <class To, class From, class Handler>
  friend struct detail::converting;
  explicit leadership(slot&& won) noexcept : held_mutex(std::move(won)) {}

  template <class Token>
  auto initiate_proclaim(std::string value, diagnostics* diag, Token&& token) {
    auto start = [value = std::move(value), diag](const std::shared_ptr<detail::slot_impl>& held,
                                                  detail::pending<>&& handler) {
      detail::start_proclaim(held, value, diag, std::move(handler));
    };
    return detail::begin_operation_if_held<>(detail::impl_of(*this), std::move(start), std::forward<Token>(token));
  }
};

/// Reports the leader, and every change of the leader. An observer has no session and no entry, and writes nothing. One
/// blocking query is pending while `next` is, one of the `consul::config::blocking_max` of its client.
///
/// The ACL token must be allowed to read the key and the keys below it (`key_prefix`). If the token may read only the
/// key, Consul hides the candidates' entries. Then a candidate that another process has granted the key is reported
/// before it has accepted the grant, even if it is dead.
///
/// Operations take a completion token, by default `throwing`. Handlers run on their associated executor, by
/// default the client's, never inside the initiating function.
///
/// Threads: operations and const members are safe from any thread; assignment, move and destruction are not beside
/// them.
///
/// Lifetimes: the handle may be destroyed before its `next` ends. It is cheap to copy, and its copies are the same.
class election_observer {
public:
  using executor_type = asio::any_io_executor;

  /// Empty: only assignment, destruction and `valid()` are allowed.
  election_observer() noexcept = default;
  /// Sends nothing yet. Throws `system_error`: invalid_prefix (of the key). An `election` is not needed.
  election_observer(const lock_store& where, std::string key);

  bool valid() const noexcept { return impl_ != nullptr; }
  executor_type get_executor() const noexcept { return detail::executor_of(*impl_); }

  /// The first call completes with the present leader. Each later call completes when the leader differs from the last
  /// result: another leader, another value, or nobody, `std::nullopt`. A lasting state is always reported. A state that
  /// comes and goes while no call is pending, or within a moment, may be skipped. So a change of leaders may show
  /// without the time between in which there was none. The result was true when Consul answered a consistent read.
  ///
  /// A candidate that another process has granted the key is reported when it has accepted the grant. Until then nobody
  /// leads: the candidate may be dead, and then the key goes to another one.
  ///
  /// While Consul cannot answer it asks again, with pauses that grow to a second, for as long as it takes.
  ///
  /// Signature: void(error_code, std::optional<leader>).
  /// Errors: permission_denied, not_a_mutex (the key belongs to something else), and whatever is not
  /// `condition::unavailable`: the next call asks anew. too_many_waiters: another `next` of this observer is under way.
  /// Cancellation: terminal, partial, total; it loses nothing, however late it comes: the next call tells.
  /// Lifetimes: `operation_options::diag` must outlive the operation; the handle need not.
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

/// Leader election over Consul, with the key of Consul's guide: whoever has locked it leads, and its value says what
/// the others should know, an address, say. A Go program with `api.Lock`, `consul lock -n 1`, and whoever acquires the
/// key by hand as the guide says may take part.
///
/// Each campaign is a candidate of its own, a contender for a `mutex` with a session that ends with it: one process may
/// have several, and each term has its own session. Candidates are elected in the order in which they came.
///
/// Operations: as for `semaphore`.
///
/// Threads: operations and const members are safe from any thread; assignment, move and destruction are not beside
/// them.
///
/// Lifetimes: the handle may be destroyed at any time; campaigns under way, and those that were won, go on. It is cheap
/// to copy, and its copies are the same.
///
/// There is no `close`, and so no time limit for it. A campaign ends when it is cancelled, a term when the `leadership`
/// is resigned or destroyed. Then its session ends at once, and keeps the execution context running until that is done.
class election {
public:
  using executor_type = asio::any_io_executor;

  /// Empty: only assignment, destruction and `valid()` are allowed.
  election() noexcept = default;
  /// Sends nothing yet. Throws `system_error`: invalid_prefix (of the key), invalid_ttl, invalid_option.
  election(const lock_store& where, election_options options);

  bool valid() const noexcept { return impl_ != nullptr; }
  executor_type get_executor() const noexcept { return detail::executor_of(*impl_); }
  const std::string& key() const noexcept;

  /// Stands for election, and completes when it is won, however long that takes. From then on the key has this value,
  /// in one write with the lock; before, an operator reads it in our entry below the key. Empty, or none: "host:pid".
  /// By the rules of `semaphore_options::description`, else invalid_option.
  ///
  /// Signature: void(error_code, leadership).
  /// Errors: as of `mutex::lock`.
  /// Cancellation: terminal, partial, total; operation_aborted, and its entry and session go in the background.
  /// Lifetimes: `operation_options::diag` must outlive the operation; the handle need not.
  template <detail::slot_token<leadership> Token = throwing_t>
  auto campaign(Token&& token = {}) {
    return campaign(std::string(), std::forward<Token>(token));
  }
  template <detail::slot_token<leadership> Token = throwing_t>
  auto campaign(std::string value, Token&& token = {}) {
    return initiate(std::move(value), nullptr, std::forward<Token>(token));
  }
  template <detail::slot_token<leadership> Token = throwing_t>
  auto campaign(std::string value, operation_options options, Token&& token = {}) {
    return initiate(std::move(value), options.diag, std::forward<Token>(token));
  }

  /// For leaders, candidates, and those who only follow.
  election_observer observe() const;

private:
  template <class Token>
  auto initiate(std::string value, diagnostics* diag, Token&& token) {
    auto start = [value = std::move(value), diag](const std::shared_ptr<const detail::election_impl>& impl,
                                                  detail::pending<slot>&& handler) {
      detail::start_campaign(*impl, value, diag, std::move(handler));
    };
    return detail::begin_operation_as<leadership, slot>(impl_, std::move(start), std::forward<Token>(token));
  }

  std::shared_ptr<const detail::election_impl> impl_;
};

/// Campaigns, and runs `body(leadership&)` (a coroutine: `asio::awaitable<void>`) while we lead: see `with_slot`. To
/// stand again when the leadership is lost, call it in a loop.
template <class Body>
asio::awaitable<void> with_leadership(election candidate, std::string value, Body body) {
  leadership won = co_await candidate.campaign(std::move(value));
  co_await detail::with_held(std::move(won), std::move(body));
}

}  // namespace holdfast
