// SPDX-FileCopyrightText: The holdfast authors
// SPDX-License-Identifier: BSL-1.0

#include "lifetime/event_log.hpp"

#include <algorithm>
#include <boost/asio/post.hpp>
#include <utility>

namespace holdfast::lifetime {
namespace {

constexpr unsigned told_max = 10;
/// How many kinds of equal events are counted at a time.
constexpr std::size_t storms_max = 64;

/// The beginning and the end of a problem count as equal, so the last report shows the present state.
std::optional<log_kind> problem_of(log_kind kind) {
  if (kind == log_kind::watch_restored || kind == log_kind::watch_failed) return log_kind::watch_failed;
  if (kind == log_kind::answers_agree || kind == log_kind::answers_contradict) return log_kind::answers_contradict;
  if (kind == log_kind::broker_alarm_over || kind == log_kind::broker_alarm) return log_kind::broker_alarm;
  return {};
}

bool are_equal(const log_event& a, const log_event& b) {
  if (const auto problem = problem_of(a.kind)) return problem == problem_of(b.kind) && a.key == b.key;
  return a.kind == b.kind && a.reason == b.reason && a.key == b.key && a.session == b.session &&
         a.slot_number == b.slot_number && a.previous == b.previous && a.cause == b.cause;
}

}  // namespace

std::shared_ptr<event_log> event_log::make(const boost::asio::any_io_executor& strand, log_function function,
                                           duration window) {
  if (!function || !strand) return nullptr;
  return make_hooked<event_log>(strand, std::move(function), window);
}

event_log::event_log(const boost::asio::any_io_executor& strand, log_function function, duration window)
    : context_hook(strand),
      function_(std::make_shared<const log_function>(std::move(function))),
      window_(window),
      strand_(strand),
      timer_(strand_) {}

event_log::~event_log() {
  flush();
  unhook();
}

std::shared_ptr<void> event_log::on_context_shutdown() noexcept {
  const std::lock_guard lock(mutex_);
  timer_.reset();
  strand_ = {};
  storms_.clear();
  return nullptr;
}

void event_log::add(log_event&& event) {
  if (process().is_foreign()) return;
  const std::lock_guard lock(mutex_);
  if (!strand_) return;
  storm& its = storm_of(event, clock::now());
  if (its.told < told_max) {
    ++its.told;
    return tell(std::move(event));
  }
  ++its.left_out;
  its.last = std::move(event);
  sleep();
}

void event_log::flush() {
  if (process().is_foreign()) return;
  const std::lock_guard lock(mutex_);
  if (!strand_) return;
  for (storm& each : storms_) tell_rest(each);
  storms_.clear();
  sleeps_until_ = clock::time_point::max();
  timer_->cancel();
}

event_log::storm& event_log::storm_of(const log_event& event, clock::time_point now) {
  end_storms(now);
  const auto at =
      std::find_if(storms_.begin(), storms_.end(), [&](const storm& each) { return are_equal(each.last, event); });
  if (at != storms_.end()) return *at;
  if (storms_.size() == storms_max) {
    tell_rest(storms_.front());
    storms_.erase(storms_.begin());
  }
  storms_.push_back({event, now + window_});
  return storms_.back();
}

void event_log::tell(log_event&& event) {
  boost::asio::post(strand_, [to = function_, event = std::move(event)] { (*to)(event); });
}

void event_log::tell_rest(storm& of) {
  if (of.left_out == 0) return;
  of.last.left_out = std::exchange(of.left_out, 0) - 1;  // without the one that tells it
  tell(std::move(of.last));
}

void event_log::end_storms(clock::time_point now) {
  for (storm& each : storms_)
    if (each.end <= now) tell_rest(each);
  std::erase_if(storms_, [now](const storm& each) { return each.end <= now; });
}

/// Arms the timer for the end of the first storm that has left something out.
void event_log::sleep() {
  clock::time_point first = clock::time_point::max();
  for (const storm& each : storms_)
    if (each.left_out != 0) first = std::min(first, each.end);
  if (first >= sleeps_until_) return;
  sleeps_until_ = first;
  timer_->expires_at(first);
  timer_->async_wait([weak = weak_from_this()](const boost::system::error_code& ec) {
    const auto self = weak.lock();
    if (self && !ec) self->wake();
  });
}

void event_log::wake() {
  const std::lock_guard lock(mutex_);
  sleeps_until_ = clock::time_point::max();
  if (!strand_) return;
  end_storms(clock::now());
  sleep();
}

}  // namespace holdfast::lifetime
