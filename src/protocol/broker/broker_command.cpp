// SPDX-FileCopyrightText: The holdfast authors
// SPDX-License-Identifier: BSL-1.0

#include "protocol/broker/broker_command.hpp"

#include <algorithm>
#include <chrono>
#include <utility>

namespace holdfast::protocol {

namespace {

using namespace std::chrono_literals;
using kind = broker_command::kind;
using answer = broker_answer::kind;

constexpr duration lock_pause_min = 10ms;
constexpr duration lock_pause_max = 100ms;
constexpr duration poll_pause_min = 10ms;
constexpr duration poll_pause_max = 1s;
/// Queues of higher slots than this are not looked for.
constexpr std::uint32_t leftover_number_max = 2 * slot_number_max;

/// True if `grow` and `shrink` must not be repeated after this request. The end of the connection takes back N and B.
bool counts_as_change(broker_request what) {
  switch (what) {
    case broker_request::lock:
    case broker_request::unlock:
    case broker_request::find_mark:
    case broker_request::find_slot:
    case broker_request::find_holder:
    case broker_request::find_tokens:
    case broker_request::take:
    case broker_request::give_back:
    case broker_request::delete_mark:
      return false;
    case broker_request::declare_mark:
    case broker_request::declare_slot:
    case broker_request::delete_slot:
    case broker_request::declare_tokens:
    case broker_request::publish_token:
    case broker_request::delete_tokens:
    case broker_request::delete_hints:
      return true;
  }
  return true;
}

}  // namespace

broker_command_run::broker_command_run(broker_command what, std::uint64_t seed, time_point now)
    : what_(std::move(what)), random_(seed), deadline_(now + what_.time), poll_pause_(poll_pause_min) {
  const duration longest = std::max(what_.within, duration::zero());
  if (is_wait() && longest < never - now) wait_ends_ = now + longest;
}

bool broker_command_run::is_wait() const {
  return what_.what == kind::wait_until_released || what_.what == kind::wait_until_drained;
}

bool broker_command_run::is_limit_right() const {
  switch (what_.what) {
    case kind::create:
    case kind::grow:
    case kind::shrink:
    case kind::wait_until_released:
      return 1 <= what_.number && what_.number <= slot_number_max;
    case kind::destroy:
      return what_.number <= slot_number_max;
    case kind::inspect:
    case kind::wait_until_drained:
      break;
  }
  return true;
}

broker_next_step broker_command_run::begin(time_point now) {
  if (is_limit_right()) return connect(now);
  const bool is_slot = what_.what == kind::wait_until_released;
  const std::string text = std::string(is_slot ? "the slot" : "the number of slots") + " is not between " +
                           (what_.what == kind::destroy ? "0" : "1") + " and " + std::to_string(slot_number_max);
  return end(described(is_slot ? error::invalid_option : error::invalid_limit, text));
}

// --- Steps that each command has.

broker_next_step broker_command_run::connect(time_point now) {
  if (is_wait()) deadline_ = (outage_.on() ? outage_.since() : now) + what_.time;
  seen_ = {};
  return broker_step::connect{std::max<duration>(deadline_ - now, 1ms)};
}

broker_next_step broker_command_run::connected(failure why, time_point now) {
  if (why.code) return failed(std::move(why), now);
  return is_read_only() ? begin_scan(now) : ask(broker_request::lock, 0, now);
}

broker_next_step broker_command_run::ask(broker_request what, std::uint32_t number, time_point now) {
  if (is_wait()) deadline_ = (outage_.on() ? outage_.since() : now) + what_.time;
  if (now >= deadline_) return end(described(error::timed_out, "not done in time"));
  asked_ = what;
  number_ = number;
  has_changed_ = has_changed_ || counts_as_change(what);
  return broker_step::ask{what, number, deadline_ - now};
}

/// Connects again after a pause, if that may help. After a change, `grow` and `shrink` would count anew, so they end.
broker_next_step broker_command_run::failed(failure why, time_point now) {
  const bool may_go_on = !has_changed_ || what_.what == kind::create || what_.what == kind::destroy;
  if (is_final(why.code) || !may_go_on) return end(std::move(why));
  if (is_wait() && !outage_.on()) deadline_ = now + what_.time;
  outage_.failed(why, now, random_);
  if (outage_.retry_at() >= deadline_) return end(std::move(why));
  pause_ = pausing::outage;
  return broker_step::pause{std::max(outage_.retry_at() - now, duration::zero())};
}

broker_next_step broker_command_run::rested(time_point now) {
  switch (pause_) {
    case pausing::outage:
      return connect(now);
    case pausing::mutex:
      return ask(broker_request::lock, 0, now);
    case pausing::poll:
      break;
  }
  return begin_scan(now);
}

/// Each answer that is not handled here is unexpected, and ends the command.
broker_next_step broker_command_run::answered(broker_answer a, time_point now) {
  if (asked_ == broker_request::unlock) return end();  // the end of the connection unlocks, too
  if (a.what == answer::failed) return failed(std::move(a.error), now);
  outage_.over();
  const bool is_ok = a.what == answer::ok;
  switch (asked_) {
    case broker_request::unlock:
      break;
    case broker_request::lock:
      if (a.what == answer::locked) return locked_out(now);
      if (is_ok) stage_ = stage::counting;
      if (is_ok) return ask(broker_request::find_slot, 1, now);
      break;
    case broker_request::find_slot:
      if (is_ok || a.what == answer::missing) return counted(a, now);
      break;
    case broker_request::find_holder:
      return saw_holder(std::move(a), now);
    case broker_request::find_mark:
    case broker_request::declare_mark:
      return marked(std::move(a), now);
    case broker_request::take:
      return took(std::move(a), now);
    case broker_request::find_tokens:
      return found_tokens(std::move(a), now);
    case broker_request::declare_tokens:
      if (a.what == answer::differs) a.error.code = error::lease_conflict;
      if (is_ok) return ask(broker_request::publish_token, number_, now);
      break;
    case broker_request::publish_token:
      if (is_ok) return ask(broker_request::declare_slot, number_, now);
      break;
    case broker_request::declare_slot:
      if (is_ok) seen_.slots = number_;
      if (is_ok) return is_taken_ ? given_back(now) : ask(broker_request::give_back, number_, now);
      break;
    case broker_request::delete_mark:
      if (is_ok) return unmarked(now);
      break;
    case broker_request::delete_slot:
      if (is_ok) return remove(number_ - 1, now);
      break;
    case broker_request::delete_tokens:
      if (is_ok) return ask(broker_request::give_back, number_, now);
      break;
    case broker_request::give_back:
      if (is_ok) return given_back(now);
      break;
    case broker_request::delete_hints:
      if (is_ok) return ask(broker_request::unlock, 0, now);
      break;
  }
  return end(std::move(a.error));
}

/// Another administrator has the mutex. Tries again after a pause.
broker_next_step broker_command_run::locked_out(time_point now) {
  pause_ = pausing::mutex;
  const duration time = random_.between(lock_pause_min, lock_pause_max);
  if (now + time < deadline_) return broker_step::pause{time};
  return end(described(error::in_use, "another administrator is at work"));
}

broker_next_step broker_command_run::counted(const broker_answer& a, time_point now) {
  const bool exists = a.what == answer::ok;
  if (exists) seen_.slots = number_;
  if (exists && number_ > slot_number_max)
    return end(described(error::not_a_semaphore, "there are more than " + std::to_string(slot_number_max) + " slots"));
  if (stage_ == stage::scanning) {
    is_beyond_ = !exists;
    if (exists) return ask(broker_request::find_holder, number_ + 1, now);
    return ask(broker_request::find_tokens, number_, now);
  }
  if (exists) return ask(broker_request::find_slot, number_ + 1, now);
  if (what_.what == kind::create) return begin_create(now);
  if (seen_.slots == 0 && what_.what != kind::destroy)
    return end(described(error::no_semaphore, "there is no semaphore of this name"));
  if (what_.what == kind::grow && seen_.slots + what_.number > slot_number_max)
    return end(
        described(error::invalid_limit, "there would be more than " + std::to_string(slot_number_max) + " slots"));
  return ask(broker_request::delete_mark, 0, now);
}

// --- Slots are made.

broker_next_step broker_command_run::begin_create(time_point now) {
  if (seen_.slots > what_.number) return limit_conflict();
  if (seen_.slots == 0) return ask(broker_request::declare_mark, what_.number, now);
  return ask(broker_request::find_mark, 0, now);
}

/// The answer about the mark. If a `create` has died when there was no slot yet, its number does not matter.
broker_next_step broker_command_run::marked(broker_answer a, time_point now) {
  const bool is_asked_for = asked_ == broker_request::find_mark;
  if (stage_ == stage::scanning) {
    if (a.what != answer::ok && a.what != answer::missing) return end(std::move(a.error));
    seen_.unfinished = a.what == answer::ok;
    return end();
  }
  if (a.what == answer::ok && is_asked_for) return ask(broker_request::declare_mark, what_.number, now);
  if (a.what == answer::ok) return make(seen_.slots + 1, now);
  if (a.what == answer::missing && is_asked_for && seen_.slots != what_.number) return limit_conflict();
  if (a.what == answer::missing && is_asked_for) return ask(broker_request::unlock, 0, now);
  if (a.what != answer::differs) return end(std::move(a.error));
  if (seen_.slots != 0) return limit_conflict(std::move(a.error));
  if (std::exchange(was_unmarked_, true)) return end(std::move(a.error));
  return ask(broker_request::delete_mark, 0, now);
}

broker_next_step broker_command_run::limit_conflict(failure why) const {
  why.code = error::limit_conflict;
  why.details.message = "the semaphore has another number of slots";
  why.details.key = what_.name;
  why.details.limit_conflict = diagnostics::limits{seen_.slots, what_.number};
  return end(std::move(why));
}

/// The mark is gone: that of an earlier `create`, or our own when all slots are made.
broker_next_step broker_command_run::unmarked(time_point now) {
  if (stage_ == stage::making) return ask(broker_request::unlock, 0, now);
  switch (what_.what) {
    case kind::create:
      return ask(broker_request::declare_mark, what_.number, now);
    case kind::grow:
      last_ = seen_.slots + what_.number;
      return make(seen_.slots + 1, now);
    case kind::shrink:
      last_ = what_.number < seen_.slots ? seen_.slots - what_.number + 1 : 1;
      return remove(seen_.slots, now);
    case kind::destroy:
    case kind::inspect:
    case kind::wait_until_released:
    case kind::wait_until_drained:
      break;
  }
  last_ = 1;
  top_ = seen_.slots + what_.number;
  return remove(top_, now);
}

broker_next_step broker_command_run::make(std::uint32_t number, time_point now) {
  stage_ = stage::making;
  if (what_.what == kind::create) last_ = what_.number;
  if (number <= last_) return ask(broker_request::take, number, now);
  if (what_.what == kind::create) return ask(broker_request::delete_mark, 0, now);
  return ask(broker_request::unlock, 0, now);
}

/// While B is ours, nobody else can have the slot. If another has B, that one still holds a slot that was removed.
broker_next_step broker_command_run::took(broker_answer a, time_point now) {
  if (a.what != answer::ok && a.what != answer::locked) return end(std::move(a.error));
  is_taken_ = a.what == answer::locked;
  if (is_taken_ && stage_ == stage::clearing) seen_.taken.push_back(number_);
  if (is_taken_ && stage_ == stage::making) return ask(broker_request::declare_slot, number_, now);
  return ask(broker_request::find_tokens, number_, now);
}

broker_next_step broker_command_run::found_tokens(broker_answer a, time_point now) {
  const bool exists = a.what == answer::ok;
  if (!exists && a.what != answer::missing) return end(std::move(a.error));
  switch (stage_) {
    case stage::making:
      // The token of a new F stands for a slot that nobody has held. That of an old F says what is true.
      return ask(exists ? broker_request::declare_slot : broker_request::declare_tokens, number_, now);
    case stage::looking_up:
      if (exists) top_ = number_;
      if (exists && number_ < leftover_number_max) return ask(broker_request::find_tokens, number_ + 1, now);
      return clear(top_, now);
    case stage::clearing: {
      const bool is_kept = exists && (is_taken_ || a.messages == 0);
      if (is_kept) seen_.kept.push_back(number_);
      if (is_taken_) return clear(number_ - 1, now);
      return ask(exists && !is_kept ? broker_request::delete_tokens : broker_request::give_back, number_, now);
    }
    case stage::scanning:
      if (exists || number_ < top_ || is_taken_) return scan(number_ + 1, now);
      return scanned(now);
    case stage::counting:
    case stage::removing:
      break;
  }
  return end(std::move(a.error));
}

broker_next_step broker_command_run::given_back(time_point now) {
  return stage_ == stage::clearing ? clear(number_ - 1, now) : make(number_ + 1, now);
}

// --- Slots are removed.

/// Removes the slots downwards, so that there is no gap.
broker_next_step broker_command_run::remove(std::uint32_t number, time_point now) {
  stage_ = stage::removing;
  if (number >= last_) return ask(broker_request::delete_slot, number, now);
  seen_.slots = std::min(seen_.slots, number);
  if (what_.what == kind::shrink) return ask(broker_request::unlock, 0, now);
  stage_ = stage::looking_up;  // for what an earlier `destroy` has left, which has died
  return ask(broker_request::find_tokens, top_ + 1, now);
}

/// Deletes F of a slot that nobody holds, if the last holder has released it. Otherwise a holder may still believe that
/// the slot is its own, and a new F would have a token.
broker_next_step broker_command_run::clear(std::uint32_t number, time_point now) {
  stage_ = stage::clearing;
  if (number != 0) return ask(broker_request::take, number, now);
  std::reverse(seen_.taken.begin(), seen_.taken.end());
  std::reverse(seen_.kept.begin(), seen_.kept.end());
  return ask(broker_request::delete_hints, 0, now);
}

// --- Nothing is changed.

/// Asks for the holders of all slots, and of those that were removed.
broker_next_step broker_command_run::begin_scan(time_point now) {
  stage_ = stage::scanning;
  seen_ = {};
  is_beyond_ = false;
  return ask(broker_request::find_holder, what_.what == kind::wait_until_released ? what_.number : 1, now);
}

/// A passive declare of another's queue is refused as locked.
broker_next_step broker_command_run::saw_holder(broker_answer a, time_point now) {
  if (a.what == answer::differs) return end(std::move(a.error));
  is_taken_ = a.what != answer::missing;
  top_ = std::max(top_, number_);
  if (is_taken_) seen_.taken.push_back(number_);
  if (is_taken_ && is_wait()) return poll(now);
  if (what_.what == kind::wait_until_released) return end();
  if (!is_beyond_) return ask(broker_request::find_slot, number_, now);
  if (is_taken_) return scan(number_ + 1, now);
  return ask(broker_request::find_tokens, number_, now);
}

broker_next_step broker_command_run::scan(std::uint32_t number, time_point now) {
  return number > leftover_number_max ? scanned(now) : ask(broker_request::find_holder, number, now);
}

broker_next_step broker_command_run::scanned(time_point now) {
  if (what_.what == kind::inspect) return ask(broker_request::find_mark, 0, now);
  const bool has_anything = seen_.slots != 0 || number_ > 1 || has_scanned_;
  if (has_anything) return end();
  return end(described(error::no_semaphore, "there is no semaphore of this name"));
}

/// Somebody holds the slot. Looks again after a pause.
broker_next_step broker_command_run::poll(time_point now) {
  has_scanned_ = true;
  if (now >= wait_ends_) return end(described(error::in_use, "somebody still holds slot " + std::to_string(number_)));
  pause_ = pausing::poll;
  const duration time = std::min(poll_pause_, wait_ends_ - now);
  poll_pause_ = std::min(2 * poll_pause_, poll_pause_max);
  return broker_step::pause{time};
}

}  // namespace holdfast::protocol
