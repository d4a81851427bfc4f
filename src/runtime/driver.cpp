// SPDX-FileCopyrightText: The holdfast authors
// SPDX-License-Identifier: BSL-1.0

#include "runtime/driver.hpp"

#include <unistd.h>

#include <algorithm>
#include <boost/asio/append.hpp>
#include <boost/asio/associated_cancellation_slot.hpp>
#include <boost/asio/associated_executor.hpp>
#include <boost/asio/bind_cancellation_slot.hpp>
#include <boost/asio/bind_executor.hpp>
#include <boost/asio/execution/allocator.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/prefer.hpp>
#include <boost/asio/query.hpp>
#include <boost/asio/require.hpp>
#include <system_error>
#include <utility>

#include "runtime/convert.hpp"

namespace holdfast::detail {
namespace {

// Elections of 12 to 16 s leave enough time for a renewal with this TTL, as measured by test/cluster/failover.cpp.
constexpr std::chrono::seconds ttl_for_slow_elections{30};

}  // namespace

/// Locks the driver's mutex. The destructor unlocks it and makes the requests that were queued meanwhile, unless
/// another thread is making requests. That thread then makes these, too. If the object converts to false, the caller
/// must do nothing: either the context has been destroyed, or this is a child of fork(), where the mutex is not locked
/// at all.
class driver::locked {
public:
  explicit locked(driver& of) : of_(of), lock_(of.process().is_foreign() ? lock() : lock(of.mutex_)) {}
  locked(const locked&) = delete;
  locked& operator=(const locked&) = delete;
  ~locked() {
    if (lock_ && !of_.to_make_.empty() && !of_.makes_requests_) of_.make_requests(std::move(lock_));
  }
  explicit operator bool() const noexcept { return lock_ && !of_.gone_; }

private:
  using lock = std::unique_lock<std::mutex>;
  driver& of_;
  lock lock_;
};

/// Makes the queued requests with the mutex unlocked. Only one thread at a time does so, which keeps the requests in
/// order. That thread also makes the requests which other threads queue meanwhile.
void driver::make_requests(std::unique_lock<std::mutex> lock) {
  const auto self = shared_from_this();  // maybe the last reference at the end of this function
  makes_requests_ = true;
  while (!to_make_.empty() && !gone_) {
    auto requests = std::exchange(to_make_, {});
    lock.unlock();
    for (runtime::store_request& each : requests) store_->make(std::move(each), self);
    lock.lock();
  }
  makes_requests_ = false;
  made_.notify_all();
  lock.unlock();  // before `self` is destroyed
}

/// A cancellation signal can be emitted on any thread, and after the operation has completed. The canceller therefore
/// identifies its operation by a key, and does nothing if the operation is no longer pending.
template <class Key>
struct driver::canceller {
  explicit canceller(std::weak_ptr<driver> of) : owner(std::move(of)) {}
  std::weak_ptr<driver> owner;
  Key key{};
  void operator()(asio::cancellation_type) const {
    const auto self = owner.lock();
    if (!self) return;
    const locked lock(*self);
    if (lock) self->cancel(key);
  }
};

driver::driver(std::unique_ptr<runtime::store> store, runtime::driver_options options,
               std::unique_ptr<protocol::core> core)
    : context_hook(store->executor()),
      options_(std::move(options)),
      store_(std::move(store)),
      executor_(store_->executor()),
      post_(asio::require(executor_, asio::execution::blocking.never)),
      post_to_io_(post_.target<io_executor>()),
      timer_(executor_),
      makers_(options_.directory ? runtime::maker_watch::of(*options_.directory, executor_) : nullptr),
      files_(options_.directory, options_.lock_key),
      core_(std::move(core)),
      limit_(core_->status().limit) {}

driver::~driver() { unhook(); }

semaphore_statistics driver::statistics() const noexcept {
  return {counters_.granted, counters_.handoffs, counters_.lost, counters_.waiting, counters_.sessions, counters_.held};
}

// ---- functions for any thread

// Once the context has been destroyed, no handler can run. The functions then destroy their handlers uncalled, as the
// context's shutdown did with the pending ones. A variable that receives an object under the lock is declared before
// the lock, so that the object is destroyed after the mutex has been unlocked.

/// Installs a canceller in the handler's cancellation slot. The caller sets its key under the lock. Null if the handler
/// cannot be cancelled.
template <class Key, class Handler>
driver::canceller<Key>* driver::on_cancel(Handler& handler) {
  auto slot = asio::get_associated_cancellation_slot(handler);
  if (!slot.is_connected()) return nullptr;
  return &slot.template emplace<canceller<Key>>(weak_from_this());
}

void driver::acquire(const acquire_request& request, pending<slot>&& handler, std::string_view name) {
  auto* const cancelling = on_cancel<protocol::ticket>(handler.handler);
  acquiring waiting(std::move(handler));
  waiting.diag = request.diag;
  waiting.count = request.count;
  const locked lock(*this);
  if (!lock) return;
  const protocol::ticket ticket{++last_ticket_};
  if (cancelling) cancelling->key = ticket;
  waiting.ticket = ticket;
  keep_running();
  acquires_.push(std::move(waiting));
  const auto now = !request.within && core_->only_queues() ? core_->now() : runtime::now();  // saves a clock read
  const bool ends = request.within && *request.within < protocol::never - now;  // else the sum would overflow
  const auto deadline = ends ? now + *request.within : protocol::never;
  feed(protocol::event::acquire{ticket, request.count, request.once, deadline, name}, now);
}

void driver::refuse(const protocol::failure& why, diagnostics* diag, pending<slot>&& handler) {
  const locked lock(*this);
  if (!lock) return;
  keep_running();
  complete(std::move(handler), runtime::outcome_of(protocol::failure(why), diag), slot());
}

/// Makes the file of a session before the core learns of the session, and removes it when the session has ended. If
/// there is no file, the TTL decides when the slot of this process is free after its death.
void driver::keep_files(const protocol::core_event& e) {
  if (process().is_foreign()) return;
  if (const auto* const ended = std::get_if<protocol::event::session_destroyed>(&e); ended && ended->gone)
    files_.ended(ended->session);
  const auto* const created = std::get_if<protocol::event::session_created>(&e);
  if (!created || created->session.empty()) return;
  const int error = files_.made(created->session);
  if (error == 0 || has_no_file_.exchange(true)) return;
  const locked lock(*this);
  if (lock)
    log("no file could be made in " + options_.directory->path() + ": " +
        std::error_code(error, std::system_category()).message() + "; if this process dies, the slots of " +
        options_.name + " are free only when its sessions expire");
}

void driver::deliver(protocol::core_event&& e) {
  keep_files(e);
  const locked lock(*this);
  if (lock) feed(std::move(e));
}

void driver::cancel(protocol::ticket ticket) { feed(protocol::event::cancel{ticket}); }

void driver::release(const hold_impl& slot, protocol::time_point now, pending<>&& waiting) {
  std::shared_ptr<slot_impl> ended;
  const locked lock(*this);
  if (!lock) return;
  if (waiting.handler) keep_running();
  const protocol::slot_id id = slot.id;  // `slot` may be destroyed as soon as its handler is posted
  if (in_use(id) != &slot) {             // the slot was lost meanwhile
    if (waiting.handler) complete(std::move(waiting), make_error_code(error::slot_lost));
    return feed(protocol::event::release{id}, now);
  }
  slot_in_use& at = slots_[index_of(id)];
  ended = std::move(at.slot);
  at.on_released = std::move(waiting);
  counters::add(counters_.held, -1);
  end_waits(id, error::not_held, loss_reason::none);
  feed(protocol::event::release{id}, now);
}

void driver::let_go(const hold_impl& slot) {
  const locked lock(*this);
  if (!lock) return;
  // The lease has expired: the core reports the loss before the release.
  if (in_use(slot.id) == &slot) feed(protocol::event::tick{});
  // If a renewal has just arrived, the core does not report the loss.
  if (in_use(slot.id) == &slot) tell_lost(slot.id, slot.reason(), {});
  feed(protocol::event::release{slot.id});
}

void driver::wait_lost(const hold_impl& slot, pending<loss_reason>&& waiting) {
  auto* const cancelling = on_cancel<std::pair<protocol::slot_id, std::uint64_t>>(waiting.handler);
  const locked lock(*this);
  if (!lock) return;
  keep_running();
  const std::pair key(slot.id, ++last_wait_);
  if (cancelling) cancelling->key = key;
  if (in_use(slot.id)) {
    losses_.emplace(key, std::move(waiting));
  } else if (slot.reason() != loss_reason::none) {
    complete(std::move(waiting), error_code(), slot.reason());
  } else {
    complete(std::move(waiting), make_error_code(error::not_held), loss_reason::none);
  }
}

void driver::wait_revoked(const hold_impl& slot, pending<>&& waiting) {
  auto* const cancelling = on_cancel<wait_id>(waiting.handler);
  const locked lock(*this);
  if (!lock) return;
  keep_running();
  const wait_id key(slot.id, ++last_wait_);
  if (cancelling) cancelling->key = key;
  if (in_use(slot.id) != &slot)
    complete(std::move(waiting),
             make_error_code(slot.reason() != loss_reason::none ? error::slot_lost : error::not_held));
  else if (slot.revoked())
    complete(std::move(waiting), error_code());
  else
    revocations_.emplace(key, std::move(waiting));
}

template <class... Results>
bool driver::take_wait(std::map<wait_id, pending<Results...>>& from, wait_id wait, pending<Results...>& into) {
  const auto at = from.find(wait);
  if (at == from.end()) return false;
  into = std::move(at->second);
  from.erase(at);
  return true;
}

void driver::cancel(wait_id wait) {
  const error_code aborted(asio::error::operation_aborted);
  pending<loss_reason> loss;
  pending<> revocation;
  if (take_wait(losses_, wait, loss)) complete(std::move(loss), aborted, loss_reason::none);
  if (take_wait(revocations_, wait, revocation)) complete(std::move(revocation), aborted);
}

std::vector<consul::txn_operation> driver::fence_checks(const slot_impl& slot) {
  std::vector<consul::txn_operation> checks;
  const locked lock(*this);
  if (!lock || in_use(slot.id) != &slot || !store_->has_fence_checks()) return checks;
  for (auto& [key, session, grant] : core_->entries_of(slot.id)) {
    checks.push_back(consul::txn_operation::check_session(key, std::move(session)));
    checks.push_back(consul::txn_operation::check_index(std::move(key), grant));
  }
  return checks;
}

std::string driver::holding_session(const slot_impl& slot) {
  const locked lock(*this);
  return lock ? session_of(slot) : std::string();
}

std::vector<int> driver::maker_files(const slot_impl& slot) {
  std::vector<int> files;
  const locked lock(*this);
  if (!lock || in_use(slot.id) != &slot) return files;
  for (const auto& [key, session, grant] : core_->entries_of(slot.id))
    if (const int file = files_.descriptor(session); file >= 0) files.push_back(file);
  return files;
}

void driver::value_written(const slot_impl& slot, protocol::event::value_written e) {
  const locked lock(*this);
  if (lock && in_use(slot.id) == &slot) feed(std::move(e));
}

void driver::ask(runtime::store_request question) {
  const locked lock(*this);
  if (lock) to_make_.push_back(std::move(question));
}

void driver::close(pending<>&& waiting) {
  const locked lock(*this);
  if (!lock) return;
  keep_running();
  if (closed_) return complete(std::move(waiting), error_code());
  closes_.push_back(std::move(waiting));
  feed(protocol::event::close{true});
}

void driver::abandon() noexcept {
  const locked lock(*this);
  if (lock && !closed_) feed(protocol::event::close{false});
}

// ---- under the lock

std::string driver::session_of(const slot_impl& slot) {
  const auto entries = in_use(slot.id) == &slot ? core_->entries_of(slot.id) : std::vector<protocol::core::entry>();
  return entries.empty() ? std::string() : entries.front().session;
}

void driver::feed(protocol::core_event&& e, protocol::time_point now) {
  core_->step(std::move(e), now, actions_);
  for (protocol::core_action& a : actions_) std::visit([this](auto& concrete) { perform(concrete); }, a);
  actions_.clear();
  const protocol::core_status status = core_->status();
  counters_.waiting.store(status.waiting, std::memory_order_relaxed);
  counters_.sessions.store(status.sessions, std::memory_order_relaxed);
  limit_.store(status.limit, std::memory_order_relaxed);
  schedule();
}

void driver::schedule() {
  const auto wake = core_->wake();
  // A timer that the core no longer needs would keep the context running.
  if (wake == protocol::never && armed_ != protocol::never && counters_.held == 0) {
    armed_ = protocol::never;
    sleeps_lightly_ = false;
    timer_->cancel();
  }
  const bool is_soon_enough = wake >= armed_ && (sleeps_lightly_ || counters_.held == 0);
  if (is_soon_enough) return;
  armed_ = std::min(armed_, wake);
  sleep();
}

/// Timers stop while the machine is suspended, but leases continue to run. While a slot is held, the timer therefore
/// expires at least once a second to read the clock.
void driver::sleep() {
  constexpr protocol::duration longest = std::chrono::seconds(1);
  const auto left = std::max(armed_ - runtime::now(), protocol::duration::zero());
  sleeps_lightly_ = counters_.held != 0;
  timer_->expires_after(sleeps_lightly_ ? std::min(left, longest) : left);
  timer_->async_wait([self = shared_from_this()](const error_code& ec) {
    if (ec) return;  // the timer was set again, or cancelled
    const locked lock(*self);
    if (!lock || (self->armed_ == protocol::never && !self->sleeps_lightly_)) return;
    if (!self->closed_ && runtime::now() < self->armed_) return self->sleep();
    self->armed_ = protocol::never;
    self->sleeps_lightly_ = false;
    if (!self->closed_) self->feed(protocol::event::tick{});
  });
}

/// Keeps the store's context from running out of work while handlers are pending. One tracked executor serves all
/// handlers.
void driver::keep_running() {
  if (pending_count_++ == 0) work_ = asio::prefer(post_, asio::execution::outstanding_work.tracked);
}

/// Posts the handler to the store's executor. If the handler has another executor, it is dispatched from there. The
/// memory for the post comes from the handler's allocator if the store's executor is one of an io_context, and the
/// handler has no other. Otherwise the post is made by a type-erased executor, which cannot use that allocator.
template <class... Results>
void driver::complete(pending<Results...>&& waiting, outcome ended, Results... results) {
  if (waiting.elsewhere) {
    asio::post(post_, asio::append(std::move(waiting.handler), std::move(ended), std::move(results)...));
    waiting.elsewhere.reset();
  } else {
    const auto memory = waiting.handler.get_allocator();
    auto arrive = [handler = std::move(waiting.handler), ended = std::move(ended),
                   ... results = std::move(results)]() mutable {
      std::move(handler)(std::move(ended), std::move(results)...);
    };
    if (post_to_io_)
      asio::require(*post_to_io_, asio::execution::allocator(memory)).execute(std::move(arrive));
    else
      post_.execute(std::move(arrive));
  }
  if (--pending_count_ == 0) work_ = {};
}

slot_impl* driver::in_use(protocol::slot_id id) const {
  const std::size_t index = index_of(id);
  if (index >= slots_.size()) return nullptr;
  slot_impl* const there = slots_[index].slot.get();
  return there && there->id == id ? there : nullptr;
}

/// Logs on the store's strand, so that lines neither mix nor change order.
void driver::log(std::string line) {
  if (!options_.log) return;
  asio::post(store_->strand(), [self = shared_from_this(), line = std::move(line)] { self->options_.log(line); });
}

/// Reads the lock index from the key. If the slot is not in use, the operation fails with error::not_held. If the
/// slot's session no longer locks the key, it fails with error::slot_lost.
void driver::sequencer(const slot_impl& slot, pending<holdfast::sequencer>&& waiting) {
  const locked lock(*this);
  if (!lock) return;
  keep_running();
  const std::string session = session_of(slot);
  if (session.empty()) return complete(std::move(waiting), make_error_code(error::not_held), holdfast::sequencer());
  auto answered = [self = shared_from_this(), session,
                   waiting = std::move(waiting)](protocol::event::key_watched seen) mutable {
    const locked again(*self);
    if (!again) return;
    holdfast::sequencer result;
    const bool held = seen.pair && seen.pair->session == session;
    if (held) result = {seen.pair->key, seen.pair->lock_index, session, seen.pair->create_index};
    outcome ended = runtime::outcome_of(std::move(seen.error));
    if (!ended.code() && !held) ended = make_error_code(error::slot_lost);
    self->complete(std::move(waiting), std::move(ended), std::move(result));
  };
  to_make_.emplace_back(runtime::key_question{core_->lock_key(slot.id), std::move(answered)});
}

void driver::perform(protocol::action::watch_makers& a) {
  if (!makers_) return;
  if (!a.on) return makers_->remove(this);
  makers_->add(this, options_.lock_key,
               [weak = weak_from_this()](const std::string& session, runtime::maker_watch::news what) {
                 const auto self = weak.lock();
                 if (!self) return;
                 if (what == runtime::maker_watch::news::gone)
                   return self->deliver(protocol::event::maker_gone{session});
                 self->deliver(protocol::event::maker_file_removed{session});
               });
}

void driver::perform(protocol::action::forget_session& a) { files_.ended(a.session); }

void driver::perform(protocol::action::grant& a) {
  acquiring& waiting = *acquires_.find(a.ticket);
  auto impl = std::make_shared<slot_impl>(shared_from_this(), process(), a.slot, a.token, waiting.count,
                                          std::move(a.numbers), a.deadline);
  const std::size_t index = index_of(a.slot);
  if (index >= slots_.size()) slots_.resize(index + 1);
  slots_[index].slot = impl;
  counters::add(counters_.held);
  counters::add(counters_.granted);
  if (a.token.handoff != 0) counters::add(counters_.handoffs);
  complete(std::move(waiting), error_code(), slot_impl::make_handle(std::move(impl)));
  acquires_.erase(waiting);
}

void driver::perform(protocol::action::deny& a) {
  acquiring& waiting = *acquires_.find(a.ticket);
  complete(std::move(waiting), error_code(), slot());
  acquires_.erase(waiting);
}

void driver::perform(protocol::action::fail& a) {
  acquiring& waiting = *acquires_.find(a.ticket);
  complete(std::move(waiting), runtime::outcome_of(std::move(a.error), waiting.diag), slot());
  acquires_.erase(waiting);
}

void driver::perform(protocol::action::released& a) {
  pending<>& waiting = slots_[index_of(a.slot)].on_released;
  if (waiting.handler) complete(std::move(waiting), runtime::outcome_of(std::move(a.error)));
}

void driver::perform(protocol::action::lose& a) { tell_lost(a.slot, a.reason, std::move(a.why.details), a.lock); }

void driver::tell_lost(protocol::slot_id id, loss_reason reason, diagnostics why, const std::string& lock) {
  slot_impl* const slot = in_use(id);
  if (!slot) return;
  // request_stop runs the user's stop callbacks, which must not run under the lock.
  const std::string token = std::to_string(slot->token.grant) + '.' + std::to_string(slot->token.handoff);
  std::string line = (lock.empty() ? "slot of " + options_.name : "lock " + options_.name + '/' + lock) +
                     " (fencing token " + token + ") lost: ";
  const std::string explanation = why.to_string();
  const bool is_for_want_of_a_leader = protocol::tells_of_no_leader(why);
  std::stop_source stop = slot->lose(reason, std::move(why));
  if (stop.stop_possible()) asio::post(post_, [stop]() mutable { stop.request_stop(); });
  if (slot->reason() != loss_reason::none) reason = slot->reason();  // else it was released meanwhile
  slots_[index_of(id)].slot.reset();
  counters::add(counters_.held, -1);
  counters::add(counters_.lost);
  end_waits(id, {}, reason);
  line.append(to_string(reason)).append(explanation.empty() ? "" : ": ").append(explanation);
  const bool is_outlasted = is_for_want_of_a_leader && options_.ttl < ttl_for_slow_elections;
  if (reason == loss_reason::lease_expired && is_outlasted) {
    line += "; a session_ttl of 30 s outlasts the elections of a Consul with its default raft_multiplier";
  }
  log(std::move(line));
}

void driver::perform(protocol::action::revoke& a) {
  slot_impl* const slot = in_use(a.slot);
  if (!slot) return;
  slot->revoke();
  complete_all(revocations_, a.slot, error_code());
  log("slot of " + options_.name + " revoked: an operator asks for it");
}

void driver::perform(protocol::action::update& a) {
  slot_impl* const slot = in_use(a.slot);
  if (slot && !slot->update(a.deadline, a.suspect)) tell_lost(a.slot, slot->reason(), {});
}

void driver::perform(protocol::action::closed& a) {
  closed_ = true;
  if (makers_) makers_->remove(this);
  files_.remove_all();
  timer_->cancel();
  to_make_.emplace_back(runtime::stop_reads());
  for (pending<>& waiting : std::exchange(closes_, {}))
    complete(std::move(waiting), runtime::outcome_of(protocol::failure(a.error)));
}

void driver::perform(protocol::action::note& a) { log(std::move(a.text)); }

void driver::end_waits(protocol::slot_id id, error_code ec, loss_reason reason) {
  if (losses_.empty() && revocations_.empty()) return;
  complete_all(losses_, id, ec, reason);
  complete_all(revocations_, id, ec ? ec : make_error_code(error::slot_lost));
}

template <class... Results>
void driver::complete_all(std::map<wait_id, pending<Results...>>& waits, protocol::slot_id id, error_code ec,
                          Results... results) {
  for (auto at = waits.lower_bound({id, 0}); at != waits.end() && at->first.first == id;) {
    pending<Results...> waiting = std::move(at->second);
    at = waits.erase(at);
    complete(std::move(waiting), ec, results...);
  }
}

/// Pending handlers are destroyed without being called, and with the mutex unlocked, because they may hold slots.
/// Handles that are used later find `gone_` set and do nothing.
std::shared_ptr<void> driver::on_context_shutdown() noexcept {
  std::unique_lock lock(mutex_);
  gone_ = true;
  made_.wait(lock, [this] { return !makes_requests_; });
  auto left = std::make_shared<what_waits>();
  std::swap(left->acquires, acquires_);
  std::swap(left->losses, losses_);
  std::swap(left->revocations, revocations_);
  std::swap(left->closes, closes_);
  std::swap(left->requests, to_make_);
  const auto slots = std::exchange(slots_, {});
  lock.unlock();
  for (const slot_in_use& each : slots)
    if (each.slot) each.slot->lose(loss_reason::closed);
  if (makers_) makers_->remove(this);
  makers_.reset();
  files_.remove_all();
  timer_.reset();
  executor_ = {};
  post_to_io_ = nullptr;
  post_ = {};
  work_ = {};
  return left;
}

}  // namespace holdfast::detail
