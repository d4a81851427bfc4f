// SPDX-FileCopyrightText: The holdfast authors
// SPDX-License-Identifier: BSL-1.0

#include "local/local_context.hpp"

#include <algorithm>
#include <boost/asio/post.hpp>
#include <new>

namespace holdfast::local {

std::shared_ptr<local_context> local_context::make(std::shared_ptr<local_state> state,
                                                   const asio::any_io_executor& executor) {
  return lifetime::make_hooked<local_context>(std::move(state), executor);
}

local_context::local_context(std::shared_ptr<local_state> state, const asio::any_io_executor& executor)
    : context_hook(executor),
      state_(std::move(state)),
      executor_(executor),
      strand_(platform::strand_type(executor)),
      timer_(*strand_) {
  const std::lock_guard lock(state_->mutex);
  state_->contexts.push_back(this);
}

local_context::~local_context() { unhook(); }

asio::any_io_executor local_context::executor() const {
  if (process().is_foreign()) return {};
  const std::lock_guard lock(state_->mutex);
  return executor_;
}

asio::any_io_executor local_context::strand() const {
  if (process().is_foreign()) return {};
  const std::lock_guard lock(state_->mutex);
  return strand_ ? asio::any_io_executor(*strand_) : asio::any_io_executor();
}

void local_context::close() {
  const std::lock_guard lock(state_->mutex);
  state_->is_closed = true;
  tell_all();
}

void local_context::add(local_reader&& r) {
  {
    const std::lock_guard lock(state_->mutex);
    if (!timer_) return;
    readers_.push_back(std::move(r));
  }
  settle();
}

/// Answers the reads that have news, have waited long enough, or have no index. If the store is closed, all reads are
/// answered. A timer calls it again at the next deadline. Without reads there is no timer, so that the context can run
/// out of work. If memory runs out, the reads that are not answered yet are answered later.
void local_context::settle() {
  std::list<local_reader> due;
  try {
    take_due(due);
    for (; !due.empty(); due.pop_front()) due.front().answer();
  } catch (const std::bad_alloc&) {
    const std::lock_guard lock(state_->mutex);
    if (timer_) readers_.splice(readers_.end(), due);
    settle_later();
  }
}

void local_context::take_due(std::list<local_reader>& due) {
  const std::lock_guard lock(state_->mutex);
  is_told_ = false;
  if (!timer_) return;
  const auto now = clock::now();
  testing::store& model = state_->model;
  const std::uint64_t before = model.raft_index();
  model.advance(now);
  if (model.raft_index() != before) tell_all();  // sessions have expired
  clock::time_point next = model.next_deadline();
  for (auto at = readers_.begin(); at != readers_.end();) {
    const auto here = at++;
    if (state_->is_closed || here->index == 0 || model.index_of(here->what) > here->index || here->until <= now) {
      due.splice(due.end(), readers_, here);
    } else {
      next = std::min(next, here->until);
    }
  }
  if (readers_.empty()) {
    timer_->cancel();
    return;
  }
  timer_->expires_at(next);
  timer_->async_wait([weak = weak_from_this()](const error_code& ec) {
    const auto self = weak.lock();
    if (self && !ec) self->settle();
  });
}

/// The state's mutex is locked. If the executor throws, the reads wait until their time is over. The thread that has
/// changed the state may not be one of this context, so the exception is not for it.
void local_context::settle_later() noexcept {
  if (!timer_ || is_told_) return;
  try {
    asio::post(*strand_, [weak = weak_from_this()] {
      if (const auto self = weak.lock()) self->settle();
    });
    is_told_ = true;
    // NOLINTNEXTLINE(bugprone-empty-catch): as said above
  } catch (...) {
  }
}

/// The state's mutex is locked.
void local_context::tell_all() {
  for (local_context* const each : state_->contexts)
    if (!each->readers_.empty()) each->settle_later();
}

/// Returns the readers, to be destroyed later. Each of them keeps this object alive, and the store that it belongs to.
/// The destructor of that store locks the mutex.
std::shared_ptr<void> local_context::on_context_shutdown() noexcept {
  const std::lock_guard lock(state_->mutex);
  std::erase(state_->contexts, this);
  left_->swap(readers_);
  timer_.reset();
  strand_.reset();
  executor_ = {};
  return std::move(left_);
}

}  // namespace holdfast::local
