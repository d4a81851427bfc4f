// SPDX-FileCopyrightText: The holdfast authors
// SPDX-License-Identifier: BSL-1.0

#include "consul/agents/outage.hpp"

#include "net/backoff.hpp"

namespace holdfast::consul::detail {

outage::scout::~scout() {
  if (!of_) return;
  if (tries()) {
    of_.now_->is_tried = false;
    wake_all(of_.now_->impatient);
  }
  of_.wake_a_scout();
}

void outage::scout::begin() noexcept {
  tries_in_ = of_.now_->number;
  of_.now_->is_tried = true;
}

bool outage::may_try(bool waits) const noexcept { return !now_->is_tried && (clock::now() >= now_->try_at || !waits); }

awaitable<void> outage::wait(place where, time_point deadline) {
  waiter one(strand_, deadline);
  switch (where) {
    case place::first:
      now_->waiting.push_front(one);
      break;
    case place::last:
      now_->waiting.push_back(one);
      break;
    case place::no_turn:
      now_->impatient.push_back(one);
      break;
  }
  wake_a_scout();
  if (!one.is_woken) co_await one.timer.async_wait(as_result);
}

// Wakes the first waiting request as soon as an attempt is due and no other request makes one.
void outage::wake_a_scout() {
  if (now_->is_tried || now_->waiting.empty()) return;
  if (clock::now() >= now_->try_at) return wake(now_->waiting.front());
  timer_.set_by(now_->try_at, owner_, [this] {
    if (now_) wake_a_scout();
  });
}

void outage::begin_or_prolong(const attempt_result& failed) {
  if (!now_) {
    now_ = std::make_unique<state>();
    now_->number = ++count_;
  }
  now_->last = failed;
  now_->last.goes_on = now_->last.shows_no_agent = false;
  const auto pause = pause_after(now_->failures++, first_, longest_, random_);
  now_->try_at = clock::now() + pause;
}

void outage::end() noexcept {
  if (!now_) return;
  waiter_list all;
  all.splice(all.end(), now_->impatient);
  all.splice(all.end(), now_->waiting);
  now_.reset();
  timer_.cancel();
  wake_all(all);
}

}  // namespace holdfast::consul::detail
