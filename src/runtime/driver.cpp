// SPDX-FileCopyrightText: The holdfast authors
// SPDX-License-Identifier: BSL-1.0

#include "runtime/driver.hpp"

#include <exception>
#include <system_error>
#include <utility>
#include <variant>

#include "runtime/convert.hpp"

namespace holdfast::detail {

driver::driver(std::unique_ptr<runtime::store> store, runtime::driver_options options,
               std::unique_ptr<protocol::core> core)
    : shell(store->executor(), std::move(options.shell), core->status().limit),
      store_(std::move(store)),
      core_(std::move(core)),
      lock_key_(std::move(options.lock_key)),
      directory_(options.directory),
      makers_(directory_ ? runtime::maker_watch::of(*directory_, get_executor()) : nullptr),
      files_(directory_, lock_key_) {}

driver::~driver() { unhook(); }

/// Makes the file of a session before the core learns of the session, and removes it when the session has ended. If
/// there is no file, the TTL decides when the slot of this process is free after its death.
void driver::keep_files(const protocol::core_event& e) {
  if (process().is_foreign()) return;
  if (const auto* const ended = std::get_if<protocol::event::session_destroyed>(&e); ended && ended->gone)
    files_.ended(ended->session);
  const auto* const created = std::get_if<protocol::event::session_created>(&e);
  if (!created || created->session.empty()) return;
  const int error = files_.made(created->session);
  if (error == 0 || !account()->is_first_without_a_file()) return;
  const locked lock(*this);
  if (lock)
    log({.kind = log_kind::no_session_file,
         .key = name(),
         .session = created->session,
         .cause = directory_->path() + ": " + std::error_code(error, std::system_category()).message()});
}

void driver::deliver(protocol::core_event&& e) {
  std::exception_ptr failed;
  try {
    keep_files(e);
  } catch (...) {
    failed = std::current_exception();
  }
  const locked lock(*this);
  if (!lock) return;
  if (failed) return give_up(failed);
  feed(std::move(e), runtime::now());
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
  return lock ? session_in_use(slot) : std::string();
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
  if (lock && in_use(slot.id) == &slot) feed(std::move(e), runtime::now());
}

void driver::ask(runtime::store_request question) {
  const locked lock(*this);
  if (lock) to_make_.push_back(std::move(question));
}

/// Reads the lock index from the key. If the slot is not in use, the operation fails with error::not_held. If the
/// slot's session no longer locks the key, it fails with error::slot_lost.
void driver::sequencer(const slot_impl& slot, pending<holdfast::sequencer>&& waiting) {
  struct asking {
    asking(std::shared_ptr<driver> of, pending<holdfast::sequencer>&& waiting)
        : of(std::move(of)), waiting(std::move(waiting)) {}
    asking(const asking&) = delete;
    asking& operator=(const asking&) = delete;
    ~asking() {  // if the question could not be asked
      if (!waiting) return;
      const locked lock(*of);
      if (lock && is_asked) of->complete(std::move(waiting), error_code(error::connection_lost), holdfast::sequencer());
    }
    const std::shared_ptr<driver> of;
    pending<holdfast::sequencer> waiting;
    bool is_asked = false;
  };
  const auto asks = std::make_shared<asking>(self(), std::move(waiting));
  const locked lock(*this);
  if (!lock) return;
  std::string session = session_in_use(slot);
  if (session.empty()) {
    keep_running();
    return complete(std::move(asks->waiting), make_error_code(error::not_held), holdfast::sequencer());
  }
  auto answered = [session, asks](protocol::event::key_watched seen) {
    const locked again(*asks->of);
    if (!again) return;
    holdfast::sequencer result;
    const bool held = seen.pair && seen.pair->session == session;
    if (held) result = {seen.pair->key, seen.pair->lock_index, session, seen.pair->create_index};
    outcome ended = runtime::outcome_of(std::move(seen.error));
    if (!ended.code() && !held) ended = make_error_code(error::slot_lost);
    asks->of->complete(std::move(asks->waiting), std::move(ended), std::move(result));
  };
  to_make_.emplace_back(runtime::key_question{core_->lock_key(slot.id), std::move(answered)});
  keep_running();
  asks->is_asked = true;
}

// ---- under the lock

void driver::step(protocol::user_event&& e, protocol::time_point now) {
  std::visit([&](auto& concrete) { feed(std::move(concrete), now); }, e);
}

void driver::feed(protocol::core_event&& e, protocol::time_point now) noexcept {
  if (has_given_up()) return;
  guarded([&] {
    core_->step(std::move(e), now, actions_);
    stepped(core_->now(), core_->measured());
    for (protocol::core_action& a : actions_) std::visit([this](auto& concrete) { perform(concrete); }, a);
    actions_.clear();
    const protocol::core_status status = core_->status();
    if (status.trust != trust_) account()->note(trust_ = status.trust);
    settle(status.waiting, status.sessions, status.limit, core_->wake());
  });
}

shell::acquire_time driver::time_for_acquire() const {
  return core_->only_queues() ? acquire_time{core_->now(), false} : shell::time_for_acquire();
}

std::shared_ptr<hold_impl> driver::make_hold(protocol::action::grant& a, std::uint32_t count) {
  return std::make_shared<slot_impl>(self(), process(), a.slot, a.token, count, std::move(a.numbers), a.deadline);
}

held_slot driver::describe(const hold_impl& held) const {
  const auto& slot = static_cast<const slot_impl&>(held);
  held_slot result{.token = slot.token};
  if (!slot.numbers.empty()) result.number = slot.numbers.front();
  return result;
}

void driver::make_requests(std::unique_lock<std::mutex>& lock) {
  {
    auto requests = std::exchange(to_make_, {});
    const auto sink = self();
    lock.unlock();
    for (runtime::store_request& each : requests) make_request(std::move(each), sink);
  }  // a request may still own a handler, which must not be destroyed while the mutex is locked
  lock.lock();
}

/// If the store throws, the core gets a failure with an unknown outcome. The core tries again later.
void driver::make_request(runtime::store_request&& request, const std::shared_ptr<driver>& sink) noexcept {
  protocol::failure why{error::connection_lost, {}};
  try {
    try {
      return store_->make(std::move(request), sink);
    } catch (const std::exception& thrown) {
      why.details.message = std::string("the request could not be made: ") + thrown.what();
    } catch (...) {
      why.details.message = "the request could not be made: the executor has thrown";
    }
    if (auto answer = runtime::not_made(request, std::move(why))) deliver(*std::move(answer));
  } catch (...) {
    const locked lock(*this);
    if (lock) give_up(std::current_exception());
  }
}

std::string driver::session_of(protocol::slot_id id) const {
  if (has_given_up()) return {};
  auto entries = core_->entries_of(id);
  return entries.empty() ? std::string() : std::move(entries.front().session);
}

std::string driver::session_in_use(const slot_impl& slot) const {
  return in_use(slot.id) == &slot ? session_of(slot.id) : std::string();
}

void driver::perform(protocol::action::watch_makers& a) {
  if (!makers_) return;
  if (!a.on) return makers_->remove(this);
  makers_->add(this, lock_key_,
               [weak = std::weak_ptr(self())](const std::string& session, runtime::maker_watch::news what) {
                 const auto self = weak.lock();
                 if (!self) return;
                 if (what == runtime::maker_watch::news::gone)
                   return self->deliver(protocol::event::maker_gone{session});
                 self->deliver(protocol::event::maker_file_removed{session});
               });
}

void driver::perform(protocol::action::forget_session& a) { files_.ended(a.session); }

void driver::closed() {
  if (makers_) makers_->remove(this);
  files_.remove_all();
  to_make_.emplace_back(runtime::stop_reads());
}

std::shared_ptr<void> driver::take_requests() noexcept {
  left_->swap(to_make_);
  return std::move(left_);
}

void driver::leave_context() noexcept {
  if (makers_) makers_->remove(this);
  makers_.reset();
  files_.remove_all();
}

}  // namespace holdfast::detail
