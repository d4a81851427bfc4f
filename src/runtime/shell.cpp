// SPDX-FileCopyrightText: The holdfast authors
// SPDX-License-Identifier: BSL-1.0

#include "runtime/shell.hpp"

#include <algorithm>
#include <boost/asio/associated_cancellation_slot.hpp>
#include <boost/asio/associated_executor.hpp>
#include <boost/asio/bind_cancellation_slot.hpp>
#include <boost/asio/bind_executor.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/prefer.hpp>
#include <boost/asio/query.hpp>
#include <boost/system/errc.hpp>
#include <new>
#include <utility>

#include "runtime/terms_of.hpp"

namespace holdfast::detail {

/// Makes the queued requests with the mutex unlocked. Only one thread at a time does so, which keeps the requests in
/// order. That thread also makes the requests which other threads queue meanwhile.
void shell::make_all_requests(std::unique_lock<std::mutex> lock) {
  const auto self = shared_from_this();  // maybe the last reference at the end of this function
  makes_requests_ = true;
  while (has_requests() && !gone_) make_requests(lock);
  makes_requests_ = false;
  made_.notify_all();
  lock.unlock();  // before `self` is destroyed
}

/// Posts the completed operations and makes the queued requests, with the mutex unlocked. An executor may throw, and
/// then the operation is dropped. The destructor of its handler may use this lock.
void shell::finish(std::unique_lock<std::mutex> lock) {
  const dropping_later later;
  const auto self = shared_from_this();  // maybe the last reference at the end of this function
  if (!completed_.empty() || has_spare_work()) {
    operation_list completed = std::move(completed_);
    asio::any_io_executor spare = has_spare_work() ? std::exchange(work_, {}) : asio::any_io_executor();
    ++posting_;
    lock.unlock();
    while (operation_ptr each = completed.pop()) post(std::move(each));
    spare = {};
    lock.lock();
    if (--posting_ == 0) made_.notify_all();
  }
  if (has_requests() && !makes_requests_ && !gone_) return make_all_requests(std::move(lock));
  lock.unlock();  // before `self` is destroyed
}

/// If the executor throws, the operation is dropped. The exception is ignored: the caller is any user of the lock, and
/// has nothing to do with this operation.
void shell::post(operation_ptr ended) noexcept {
  try {
    if (ended->is_on_strand)
      posting_executor(strand()).post(std::move(ended));
    else
      post_.post(std::move(ended));
    // NOLINTNEXTLINE(bugprone-empty-catch): as said above
  } catch (...) {
  }
}

/// A cancellation signal can be emitted on any thread, and after the operation has completed. The canceller therefore
/// identifies its operation by a key, and does nothing if the operation is no longer pending.
template <class Key>
struct shell::canceller {
  explicit canceller(std::weak_ptr<shell> of) : owner(std::move(of)) {}
  std::weak_ptr<shell> owner;
  Key key{};
  void operator()(asio::cancellation_type) const {
    const auto self = owner.lock();
    if (!self) return;
    const locked lock(*self);
    if (lock) self->cancel(key);
  }
};

shell::shell(const asio::any_io_executor& executor, shell_options options, std::uint32_t limit)
    : context_hook(executor),
      options_(std::move(options)),
      executor_(executor),
      post_(executor_),
      timer_(executor_),
      counts_(std::make_shared<runtime::tallies>()) {
  counts_->limit.set(limit);
}

const std::string& name_of(const std::shared_ptr<shell>& impl) noexcept {
  static const std::string none;
  return impl ? impl->name() : none;
}

void shell::start() {
  if (!options_.account) return;
  log_ = options_.account->log(strand(), options_.log);
  options_.account->add(counts_, [weak = weak_from_this()]() -> std::optional<std::uint64_t> {
    const auto self = weak.lock();
    return self ? self->place_in_queue() : std::nullopt;
  });
}

lock_statistics shell::statistics() noexcept {
  lock_statistics all = counts_->read();
  all.place = place_in_queue();
  return all;
}

std::optional<std::uint64_t> shell::place_in_queue() noexcept {
  const locked lock(*this);
  const auto known = lock && counts_->waiting.read() != 0 ? known_queue(0) : std::nullopt;
  return known ? known->place : std::nullopt;
}

// ---- functions for any thread

// Once the context has been destroyed, no handler can run. The functions then destroy their handlers uncalled, as the
// context's shutdown did with the pending ones. A variable that receives an object under the lock is declared before
// the lock, so that the object is destroyed after the mutex has been unlocked.

/// Installs a canceller in the cancellation slot of the operation's handler. The caller sets its key under the lock.
/// Null if the handler cannot be cancelled.
template <class Key>
shell::canceller<Key>* shell::on_cancel(const operation& begun) {
  auto slot = begun.cancellation_slot();
  if (!slot.is_connected()) return nullptr;
  return &slot.template emplace<canceller<Key>>(weak_from_this());
}

void shell::acquire(const acquire_request& request, pending<hold>&& handler, std::string_view name) {
  if (!has_immediate_executor(handler)) return begin(request, std::move(handler), name, nullptr);
  initiating at_once;
  begin(request, std::move(handler), name, &at_once);
  // From here on this object may be destroyed, by the handler or by another thread.
  if (at_once.done) complete_immediately(at_once.done.take());
}

shell::acquiring::extra::~extra() = default;

/// The span of a hold. It is made and ended on the strand.
struct shell::hold_trace {
  std::shared_ptr<trace_span> span{};
};

/// Starts an acquire. `at_once` receives its completion if it completes within this call. It is null if the handler has
/// no immediate executor.
void shell::begin(const acquire_request& request, pending<hold>&& handler, std::string_view name, initiating* at_once) {
  auto* const cancelling = on_cancel<protocol::ticket>(*handler);
  std::unique_ptr<acquiring::extra> traced;
  if (options_.tracer) traced = trace_wait(request, name);
  pending<hold> forgotten;  // by an exception
  const locked lock(*this);
  if (!lock) return;
  const protocol::ticket ticket{++last_ticket_};
  if (cancelling) cancelling->key = ticket;
  keep_running();
  initiating_ = at_once;
  beginning_ = ticket;
  const struct reset {
    shell& of;
    ~reset() {
      of.initiating_ = nullptr;
      of.beginning_ = {};
    }
  } after_the_step{*this};
  const bool is_hurried = request.options.deadline != std::chrono::steady_clock::time_point::max();
  const bool is_timed = is_hurried || request.within != std::chrono::nanoseconds::max();
  acquire_time at{};
  protocol::acquire_terms terms{};
  try {
    at = is_timed || has_given_up_ ? acquire_time{runtime::now()} : time_for_acquire();
    terms = runtime::terms_of(request, at.now);
    acquiring& waiting = acquires_.push(ticket, std::move(handler), request);
    waiting.by_coarse_clock = !at.is_now;
    waiting.since = at.is_now ? at.now : runtime::coarse_now();
    waiting.rare = std::move(traced);
    if (at_once) at_once->ticket = ticket;
    if (has_given_up_ || is_hurried) [[unlikely]] {
      if (ends_at_once(waiting, request, at.now, terms)) return;
    }
  } catch (...) {
    if (acquiring* const queued = acquires_.find(ticket)) {
      forgotten = std::move(*queued);
      acquires_.erase(*queued);
    }
    no_longer_pending();
    throw;
  }
  step(protocol::event::acquire{ticket, terms, name}, at.now);
  if (!request.options.diag) return;
  guarded([&] {
    acquiring* const waits = acquires_.find(ticket);
    if (waits && !waits->knows_queue()) note_queue(*waits, 1);
  });
}

/// True if the acquire has failed, because the lock has given up, because its deadline has passed, or because its turn
/// would come after its deadline.
bool shell::ends_at_once(acquiring& waiting, const acquire_request& request, protocol::time_point now,
                         protocol::acquire_terms& terms) {
  if (has_given_up_) {
    protocol::action::fail failed{waiting.ticket, protocol::failure{make_error_code(error::closed), {}}};
    perform(failed);
    return true;
  }
  const protocol::turn_deadline turn = note_turn(waiting, request.options.deadline, now);
  terms.deadline = std::min(terms.deadline, turn.at());
  const std::optional<protocol::duration> wait = note_queue(waiting, 0);
  const bool has_passed = turn.has_passed(now);
  if (!has_passed && !turn.will_pass_first(now, wait)) return false;
  // In an outage, the queue is not the reason.
  std::optional<protocol::failure> why = has_passed ? std::nullopt : why_unavailable();
  if (!why)
    why = late(waiting, has_passed ? "the deadline had already passed" : "its turn would come after the deadline");
  protocol::action::fail failed{waiting.ticket, *std::move(why)};
  perform(failed);
  return true;
}

protocol::turn_deadline shell::note_turn(acquiring& waiting, std::chrono::steady_clock::time_point deadline,
                                         protocol::time_point now) {
  const auto steady_now = std::chrono::steady_clock::now();  // the difference of two arbitrary times may overflow
  const auto left = deadline > steady_now ? deadline - steady_now : protocol::duration(0);
  return waiting.its_extra().turn = protocol::turn_deadline(now, left);
}

/// Notes what is known of the queue when an acquire begins. `joined` is 1 if the acquire has joined it, else 0. Returns
/// the expected wait, if it is known.
std::optional<protocol::duration> shell::note_queue(acquiring& waiting, std::size_t joined) const {
  std::optional<protocol::queue_state> known = known_queue(0);
  if (!known) return {};
  known->before -= std::min(known->before, joined);
  const std::optional<protocol::duration> wait = hold_times_.expected_wait(*known);
  if (waiting.diag)
    waiting.its_extra().queue.emplace(diagnostics::queue_report{.before = known->before, .expected_wait = wait});
  return wait;
}

/// Adds what is known now to what was known when the acquire began.
void shell::describe_queue(const acquiring& waiting, std::optional<diagnostics::queue_report>& into) const {
  constexpr std::size_t holders_max = 10;
  const std::optional<protocol::queue_state> known = known_queue(holders_max);
  if (!known) return;
  into = waiting.knows_queue() ? *waiting.rare->queue : diagnostics::queue_report();
  if (known->place) into->place = known->place;
  into->held = known->held;
  into->held_here = known->held_here;
  for (const auto& [session, description, age] : known->holders) into->holders.push_back({session, description, age});
}

protocol::failure shell::late(const acquiring& waiting, std::string text) const {
  protocol::failure why{make_error_code(error::would_be_late), {std::move(text), options_.name, {}, {}, {}}};
  if (waiting.knows_queue() && waiting.rare->queue->expected_wait) {
    const auto expected = std::chrono::duration_cast<std::chrono::milliseconds>(*waiting.rare->queue->expected_wait);
    why.details.message += "; the expected wait was " + std::to_string(expected.count()) + " ms";
  }
  return why;
}

void shell::refuse(const protocol::failure& why, diagnostics* diag, pending<hold>&& handler) {
  {
    outcome ended = runtime::outcome_of(protocol::failure(why), diag);
    const locked lock(*this);
    if (!lock) return;
    counts_->ended(why.code);
    if (!has_immediate_executor(handler)) {
      keep_running();
      return complete(std::move(handler), std::move(ended), hold());
    }
  }
  handler->set_result(runtime::outcome_of(protocol::failure(why), diag), hold());
  complete_immediately(handler.take());
}

void shell::cancel(protocol::ticket ticket) { step(protocol::event::cancel{ticket}, runtime::now()); }

void shell::release(const hold_impl& held, protocol::time_point now, pending<>&& waiting) {
  std::shared_ptr<hold_impl> ended;
  const locked lock(*this);
  if (!lock) return;
  if (waiting) keep_running();
  const protocol::slot_id id = held.id;  // `held` may be destroyed as soon as its handler is posted
  if (in_use(id) != &held) {             // the slot was lost meanwhile
    if (waiting) complete(std::move(waiting), make_error_code(error::slot_lost));
    return step(protocol::event::release{id}, now);
  }
  slot_in_use& at = slots_[index_of(id)];
  ended = std::move(at.held);
  at.on_released = std::move(waiting);
  count_end(at, ended->granted_at, now);
  if (at.trace) trace_end(at, loss_reason::none);
  end_waits(id, error::not_held, loss_reason::none);
  step(protocol::event::release{id}, now);
}

void shell::let_go(const hold_impl& held) {
  const locked lock(*this);
  if (!lock) return;
  // The lease has expired: the core reports the loss before the release.
  if (in_use(held.id) == &held) step(protocol::event::tick{}, runtime::now());
  // If a renewal has just arrived, the core does not report the loss.
  if (in_use(held.id) == &held) guarded([&] { tell_lost(held.id, held.reason(), {}); });
  step(protocol::event::release{held.id}, runtime::now());
}

void shell::wait_lost(const hold_impl& held, pending<loss_reason>&& waiting) {
  auto* const cancelling = on_cancel<std::pair<protocol::slot_id, std::uint64_t>>(*waiting);
  const locked lock(*this);
  if (!lock) return;
  keep_running();
  const std::pair key(held.id, ++last_wait_);
  if (cancelling) cancelling->key = key;
  if (in_use(held.id)) {
    add_wait(losses_, key, std::move(waiting));
  } else if (held.reason() != loss_reason::none) {
    complete(std::move(waiting), error_code(), held.reason());
  } else {
    complete(std::move(waiting), make_error_code(error::not_held), loss_reason::none);
  }
}

void shell::wait_revoked(const hold_impl& held, pending<>&& waiting) {
  auto* const cancelling = on_cancel<wait_id>(*waiting);
  const locked lock(*this);
  if (!lock) return;
  keep_running();
  const wait_id key(held.id, ++last_wait_);
  if (cancelling) cancelling->key = key;
  if (in_use(held.id) != &held)
    complete(std::move(waiting),
             make_error_code(held.reason() != loss_reason::none ? error::slot_lost : error::not_held));
  else if (held.revoked())
    complete(std::move(waiting), error_code());
  else
    add_wait(revocations_, key, std::move(waiting));
}

template <class... Results>
void shell::add_wait(std::map<wait_id, pending<Results...>>& to, wait_id key, pending<Results...>&& waiting) {
  try {
    to.emplace(key, std::move(waiting));
  } catch (...) {
    no_longer_pending();
    throw;
  }
}

template <class... Results>
bool shell::take_wait(std::map<wait_id, pending<Results...>>& from, wait_id wait, pending<Results...>& into) {
  const auto at = from.find(wait);
  if (at == from.end()) return false;
  into = std::move(at->second);
  from.erase(at);
  return true;
}

void shell::cancel(wait_id wait) {
  const error_code aborted(asio::error::operation_aborted);
  pending<loss_reason> loss;
  pending<> revocation;
  if (take_wait(losses_, wait, loss)) complete(std::move(loss), aborted, loss_reason::none);
  if (take_wait(revocations_, wait, revocation)) complete(std::move(revocation), aborted);
}

void shell::close(pending<>&& waiting) {
  const locked lock(*this);
  if (!lock) return;
  closes_.reserve(closes_.size() + 1);
  keep_running();
  if (closed_) return complete(std::move(waiting), error_code());
  closes_.push_back(std::move(waiting));
  step(protocol::event::close{.lose_slots = true}, runtime::now());
}

void shell::abandon() noexcept {
  const locked lock(*this);
  if (lock && !closed_) step(protocol::event::close{.lose_slots = false}, runtime::now());
}

// ---- under the lock

void shell::stepped(protocol::time_point now, const protocol::measurements& measured) {
  now_ = now;
  for (const protocol::measurement& each : measured) counts_->measured(each);
}

void shell::settle(std::size_t waiting, std::size_t sessions, std::uint32_t limit, protocol::time_point wake) {
  counts_->waiting.set(waiting);
  counts_->sessions.set(sessions);
  counts_->limit.set(limit);
  schedule(wake);
}

void shell::schedule(protocol::time_point wake) {
  // A timer that the core no longer needs would keep the context running.
  if (wake == protocol::never && armed_ != protocol::never && counts_->held.read() == 0) {
    armed_ = protocol::never;
    sleeps_lightly_ = false;
    timer_->cancel();
  }
  const bool is_soon_enough = wake >= armed_ && (sleeps_lightly_ || counts_->held.read() == 0);
  if (is_soon_enough) return;
  armed_ = std::min(armed_, wake);
  sleep();
}

/// Timers stop while the machine is suspended, but leases continue to run. While a slot is held, the timer therefore
/// expires at least once a second to read the clock.
void shell::sleep() {
  constexpr protocol::duration longest = std::chrono::seconds(1);
  const auto left = std::max(armed_ - runtime::now(), protocol::duration::zero());
  sleeps_lightly_ = counts_->held.read() != 0;
  timer_->expires_after(sleeps_lightly_ ? std::min(left, longest) : left);
  timer_->async_wait([self = shared_from_this()](const error_code& ec) {
    if (ec) return;  // the timer was set again, or cancelled
    const locked lock(*self);
    if (!lock || (self->armed_ == protocol::never && !self->sleeps_lightly_)) return;
    if (!self->closed_ && runtime::now() < self->armed_) return self->guarded([&] { self->sleep(); });
    self->armed_ = protocol::never;
    self->sleeps_lightly_ = false;
    if (!self->closed_) self->step(protocol::event::tick{}, runtime::now());
  });
}

/// Keeps the context from running out of work while handlers are pending. One tracked executor serves all
/// handlers.
void shell::keep_running() {
  if (!work_) work_ = asio::prefer(post_.get(), asio::execution::outstanding_work.tracked);
  ++pending_count_;
}

hold_impl* shell::in_use(protocol::slot_id id) const {
  const std::size_t index = index_of(id);
  if (index >= slots_.size()) return nullptr;
  hold_impl* const there = slots_[index].held.get();
  return there && there->id == id ? there : nullptr;
}

void shell::log(log_event&& event) {
  if (log_) log_->add(std::move(event));
}

void shell::log_slot(log_event&& event, const hold_impl& held) {
  const held_slot slot = describe(held);
  event.token = slot.token;
  event.slot_number = slot.number;
  log(std::move(event));
}

// ---- tracing: a wait begins on its caller's thread, and all else is posted to the strand

/// Returns false if memory has run out. Then a span is not ended.
template <class Function>
bool shell::post_to_strand(Function function) noexcept {
  try {
    operation_ptr posted = posted_function<Function>::make(std::move(function));
    posted->is_on_strand = true;
    completed_.push(std::move(posted));
    return true;
  } catch (...) {
    return false;
  }
}

std::unique_ptr<shell::acquiring::extra> shell::trace_wait(const acquire_request& request,
                                                           std::string_view lock) const {
  if (process().is_foreign()) return nullptr;
  std::string key = name();
  if (!lock.empty()) key.append("/").append(lock);
  const span_start what{.kind = span_kind::wait,
                        .name = "acquire",
                        .key = key,
                        .at = std::chrono::system_clock::now(),
                        .parent = request.options.trace_parent};
  auto traced = std::make_unique<acquiring::extra>();
  traced->span = options_.tracer->started(what);
  traced->key = std::move(key);
  return traced;
}

void shell::trace_no_grant(acquiring& waiting, error_code ec) {
  if (!waiting.rare || !waiting.rare->span) return;
  const span_end how{.at = std::chrono::system_clock::now(), .error = ec};
  post_to_strand([span = std::move(waiting.rare->span), how] { span->ended(how); });
}

/// Ends the span of a wait, and begins that of the hold.
void shell::trace_grant(slot_in_use& its, acquiring& waiting) {
  its.trace = std::make_shared<hold_trace>();
  auto begin = [with = options_.tracer, trace = its.trace, at = std::chrono::system_clock::now(),
                slot = describe(*its.held), session = session_of(its.held->id),
                waited = waiting.rare ? std::move(waiting.rare->span) : nullptr,
                key = waiting.rare ? std::move(waiting.rare->key) : name()]() mutable {
    slot.session = session;
    if (waited) waited->ended({.at = at, .slot = &slot});
    trace->span = with->started({.kind = span_kind::hold,
                                 .name = "hold",
                                 .key = key,
                                 .at = at,
                                 .parent = no_parent,
                                 .wait = waited.get(),
                                 .slot = &slot});
  };
  post_to_strand(std::move(begin));
}

void shell::trace_end(slot_in_use& its, loss_reason reason) noexcept {
  const span_end how{.at = std::chrono::system_clock::now(), .reason = reason};
  post_to_strand([trace = std::move(its.trace), how] {
    if (trace->span) trace->span->ended(how);
  });
}

/// Takes the acquire from the queue, and posts its handler, or leaves it to the initiating function.
void shell::complete_acquire(acquiring& waiting, outcome&& ended, hold&& result) {
  if (initiating_ && initiating_->ticket == waiting.ticket) {
    waiting->set_result(std::move(ended), std::move(result));
    initiating_->done = std::move(waiting);
    no_longer_pending();
  } else {
    complete(std::move(waiting), std::move(ended), std::move(result));
  }
  acquires_.erase(waiting);
}

void shell::perform(protocol::action::grant& a) {
  acquiring& waiting = *acquires_.find(a.ticket);
  auto impl = make_hold(a, waiting.count);
  const std::size_t index = index_of(a.slot);
  if (index >= slots_.size()) slots_.resize(index + 1);
  slot_in_use& its = slots_[index];
  its.held = impl;
  its.suspect = false;
  impl->granted_at = now_;
  counts_->held.add();
  counts_->granted.add();
  if (a.token.handoff != 0) counts_->handoffs.add();
  counts_->wait.add(waited(waiting));
  if (waiting.diag && waiting.knows_queue() && a.ticket != beginning_)
    waiting.diag->queue = std::move(*waiting.rare->queue);
  if (options_.tracer) trace_grant(its, waiting);
  complete_acquire(waiting, error_code(), hold_impl::make_handle(std::move(impl)));
}

/// How long an acquire that is granted now has waited.
protocol::duration shell::waited(const acquiring& waiting) const {
  return std::max((waiting.by_coarse_clock ? runtime::coarse_now() : now_) - waiting.since, protocol::duration(0));
}

void shell::count_suspect(slot_in_use& its, bool is_suspect) {
  if (its.suspect == is_suspect) return;
  its.suspect = is_suspect;
  counts_->suspect.add(is_suspect ? 1 : -1);
}

/// A slot is no longer in use.
void shell::count_end(slot_in_use& its, protocol::time_point granted_at, protocol::time_point now) {
  count_suspect(its, false);
  const protocol::duration held = std::max(now - granted_at, protocol::duration(0));
  counts_->held.add(-1);
  counts_->hold.add(held);
  hold_times_.add(held);
}

void shell::perform(protocol::action::deny& a) {
  acquiring& waiting = *acquires_.find(a.ticket);
  if (waiting.rare && waiting.rare->turn.has_passed(now_)) {
    protocol::action::fail failed{a.ticket, late(waiting, "no slot was free before the deadline")};
    return perform(failed);
  }
  counts_->denied.add();
  if (options_.tracer) trace_no_grant(waiting, {});
  if (waiting.diag) describe_queue(waiting, waiting.diag->queue);
  complete_acquire(waiting, error_code(), hold());
}

void shell::perform(protocol::action::fail& a) {
  acquiring& waiting = *acquires_.find(a.ticket);
  counts_->ended(a.error.code);
  if (options_.tracer) trace_no_grant(waiting, a.error.code);
  if (waiting.diag) describe_queue(waiting, a.error.details.queue);
  complete_acquire(waiting, runtime::outcome_of(std::move(a.error), waiting.diag), hold());
}

void shell::perform(protocol::action::released& a) {
  pending<>& waiting = slots_[index_of(a.slot)].on_released;
  if (waiting) complete(std::move(waiting), a.error ? runtime::outcome_of(*std::move(a.error)) : outcome());
}

void shell::perform(protocol::action::lose& a) {
  tell_lost(a.slot, a.reason, a.why.details, a.lock, std::move(a.session));
}

void shell::tell_lost(protocol::slot_id id, loss_reason reason, const diagnostics& why, const std::string& lock,
                      std::string session) {
  if (!in_use(id)) return;
  if (log_ && session.empty()) session = session_of(id);
  auto details = std::make_unique<const diagnostics>(why);  // may throw, so the slot is still in use
  slot_in_use& at = slots_[index_of(id)];
  const std::shared_ptr<hold_impl> held = std::move(at.held);
  // This is posted before the waits for the loss end. When they have ended, a user may join a thread that waits for the
  // stop.
  if (operation_ptr stop = held->lose(reason, std::move(details))) post_completed(std::move(stop));
  if (held->reason() != loss_reason::none) reason = held->reason();  // else it was released meanwhile
  count_end(at, held->granted_at, now_);
  if (at.trace) trace_end(at, reason);
  counts_->lost.add(reason);
  end_waits(id, {}, reason);
  if (!log_) return;
  log_event event{.kind = log_kind::slot_lost, .key = name(), .session = std::move(session), .reason = reason};
  if (!lock.empty()) event.key += '/' + lock;
  event.cause = why.to_string();
  if (reason == loss_reason::lease_expired) event.cause += advice_on_expiry(why);
  log_slot(std::move(event), *held);
}

void shell::perform(protocol::action::revoke& a) {
  hold_impl* const held = in_use(a.slot);
  if (!held) return;
  held->revoke();
  counts_->revoked.add();
  complete_all(revocations_, a.slot, error_code());
  if (!log_) return;
  log_slot({.kind = log_kind::slot_revoked, .key = name(), .session = session_of(a.slot)}, *held);
}

void shell::perform(protocol::action::update& a) {
  hold_impl* const held = in_use(a.slot);
  if (!held) return;
  count_suspect(slots_[index_of(a.slot)], a.suspect);
  if (!held->update(a.deadline, a.suspect)) tell_lost(a.slot, held->reason(), {});
}

void shell::perform(protocol::action::closed& a) {
  closed_ = true;
  timer_->cancel();
  closed();
  if (log_) log_->flush();
  for (pending<>& waiting : std::exchange(closes_, {}))
    complete(std::move(waiting), runtime::outcome_of(protocol::failure(a.error)));
}

void shell::give_up(const std::exception_ptr& why) noexcept {
  if (gone_ || std::exchange(has_given_up_, true)) return;
  closed_ = true;
  error_code ec = make_error_code(error::closed);
  try {
    std::rethrow_exception(why);
  } catch (const std::bad_alloc&) {
    ec = make_error_code(boost::system::errc::not_enough_memory);
  } catch (...) {
    ec = make_error_code(error::closed);
  }
  timer_->cancel();
  while (!acquires_.empty()) {
    counts_->ended(ec);
    complete_acquire(acquires_.front(), ec, hold());
  }
  for (slot_in_use& each : slots_) {
    if (const std::shared_ptr<hold_impl> held = std::move(each.held)) {
      if (operation_ptr stop = held->lose(loss_reason::closed)) post_completed(std::move(stop));
      count_end(each, held->granted_at, now_);
      if (each.trace) trace_end(each, loss_reason::closed);
      counts_->lost.add(loss_reason::closed);
      end_waits(held->id, {}, loss_reason::closed);
      log_end(*held);
    }
    if (each.on_released) complete(std::move(each.on_released), ec);
  }
  counts_->waiting.set(0);
  counts_->sessions.set(0);
  for (pending<>& waiting : std::exchange(closes_, {})) complete(std::move(waiting), ec);
  try {
    closed();
    if (log_) log_->flush();
    // NOLINTNEXTLINE(bugprone-empty-catch): the store's reads end with the context
  } catch (...) {
  }
}

void shell::log_end(const hold_impl& held) noexcept {
  if (!log_) return;
  try {
    log_slot({.kind = log_kind::slot_lost,
              .key = name(),
              .reason = loss_reason::closed,
              .cause = "memory has run out, and the lock has closed itself"},
             held);
    // NOLINTNEXTLINE(bugprone-empty-catch): the loss itself has been reported
  } catch (...) {
  }
}

void shell::perform(protocol::action::note& a) {
  log({.kind = a.kind, .key = std::move(a.key), .session = std::move(a.session), .cause = std::move(a.cause)});
}

/// Answers when it is destroyed, so there is an answer in any case: a no if the application's function throws, or if
/// the executor throws or destroys the question.
struct shell::alive_question {
  explicit alive_question(std::weak_ptr<shell> of) : asked_by(std::move(of)) {}
  alive_question(const alive_question&) = delete;
  alive_question& operator=(const alive_question&) = delete;
  ~alive_question() {
    if (const auto self = asked_by.lock()) self->answer_alive(is_yes);
  }
  const std::weak_ptr<shell> asked_by;
  bool is_yes = false;
};

/// The question is posted from the strand, because the executor of the application may throw.
void shell::perform(protocol::action::ask_alive&) {
  const bool is_posted = post_to_strand([weak = weak_from_this(), how = *options_.alive] {
    try {
      auto question = std::make_shared<alive_question>(weak);
      asio::post(how.executor, [question = std::move(question), ask = how.ask] { question->is_yes = !ask || ask(); });
      // NOLINTNEXTLINE(bugprone-empty-catch): the question answers no
    } catch (...) {
    }
  });
  if (!is_posted) throw std::bad_alloc();
}

void shell::answer_alive(bool is_yes) {
  const locked lock(*this);
  if (lock && !closed_) guarded([&] { step(protocol::event::alive{is_yes}, runtime::now()); });
}

void shell::end_waits(protocol::slot_id id, error_code ec, loss_reason reason) {
  if (losses_.empty() && revocations_.empty()) return;
  complete_all(losses_, id, ec, reason);
  complete_all(revocations_, id, ec ? ec : make_error_code(error::slot_lost));
}

template <class... Results>
void shell::complete_all(std::map<wait_id, pending<Results...>>& waits, protocol::slot_id id, error_code ec,
                         Results... results) {
  for (auto at = waits.lower_bound({id, 0}); at != waits.end() && at->first.first == id;) {
    pending<Results...> waiting = std::move(at->second);
    at = waits.erase(at);
    complete(std::move(waiting), ec, results...);
  }
}

/// Pending handlers are destroyed without being called, and with the mutex unlocked, because they may hold slots.
/// Handles that are used later find `gone_` set and do nothing.
std::shared_ptr<void> shell::on_context_shutdown() noexcept {
  std::unique_lock lock(mutex_);
  gone_ = true;
  made_.wait(lock, [this] { return !makes_requests_ && posting_ == 0; });
  const std::shared_ptr<what_waits> left = std::move(left_);
  std::swap(left->acquires, acquires_);
  std::swap(left->losses, losses_);
  std::swap(left->revocations, revocations_);
  std::swap(left->closes, closes_);
  for (slot_in_use& each : slots_) {
    if (!each.held) continue;
    count_end(each, each.held->granted_at, now_);
    counts_->lost.add(loss_reason::closed);
  }
  counts_->waiting.set(0);
  counts_->sessions.set(0);
  std::swap(left->slots, slots_);
  left->requests = take_requests();
  lock.unlock();
  for (const slot_in_use& each : left->slots)
    if (each.held) each.held->lose(loss_reason::closed);
  leave_context();
  timer_.reset();
  executor_ = {};
  post_ = {};
  work_ = {};
  return left;
}

}  // namespace holdfast::detail
