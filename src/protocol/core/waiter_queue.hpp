// SPDX-FileCopyrightText: The holdfast authors
// SPDX-License-Identifier: BSL-1.0

#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <set>
#include <utility>
#include <vector>

#include "protocol/core/context.hpp"
#include "protocol/core/ticket_queue.hpp"

namespace holdfast::protocol {

/// One local acquire that waits.
struct waiter {
  protocol::ticket ticket{};
  acquire_terms terms{};
  time_point came{};
  request_id asked = 0;    ///< the last request that was sent before it came; only later reads count for it
  unsigned conflicts = 0;  ///< for a `once` waiter: attempts that were refused; the highest count if no number is free

  bool is_hole() const { return terms.count == 0; }
  void leave_hole() { terms.count = 0; }
};

/// Answers an acquire that gets no slot. `why_unknown`: why it is not known whether there was one.
template <class Context>
void end_without_slot(Context& ctx, ticket t, std::optional<failure> why_unknown) {
  if (why_unknown)
    ctx.act(action::fail{t, *std::move(why_unknown)});
  else
    ctx.act(action::deny{t});
}

/// First come, first served. No waiter overtakes another, whatever its count.
class waiter_queue {
public:
  std::size_t size() const { return queue_.size(); }
  bool empty() const { return queue_.empty(); }
  /// The number of waiters that are not `once`. No `once` waiter stands behind one of these.
  std::size_t patient() const { return patient_; }
  std::size_t room() const { return queue_.room(); }
  waiter& front() { return queue_.front(); }
  const waiter& front() const { return queue_.front(); }

  void push(waiter&& w) {
    if (w.terms.deadline != never) deadlines_.emplace(w.terms.deadline, w.ticket);
    patient_ += !w.terms.once;
    queue_.push(std::move(w));
  }
  void pop() { erase(front()); }
  bool remove(ticket t) {
    waiter* const found = queue_.find(t);
    if (found) erase(*found);
    return found;
  }

  /// Fails the first waiters with `why` that have waited for `most` since `since`. Sets a timer for the next one.
  template <class Context>
  void fail_since(Context& ctx, time_point since, duration most, const failure& why) {
    while (!empty() && ctx.due_or_wake(std::max(since, front().came) + most)) fail_first(ctx, why);
  }
  template <class Context>
  void fail_all(Context& ctx, const failure& why) {
    while (!empty()) fail_first(ctx, why);
  }
  template <class Context>
  void fail_first(Context& ctx, const failure& why) {
    ctx.act(action::fail{front().ticket, why});
    pop();
  }
  /// Denies the waiters whose deadlines have passed, or fails them if `why_unknown(const waiter&)` returns a failure:
  /// it is not known whether there was a slot. Sets a timer for the next deadline.
  template <class Context, class Why>
  void expire(Context& ctx, Why why_unknown) {
    while (first_deadline() != never && ctx.due_or_wake(first_deadline())) {
      waiter& expired = *first_to_expire();
      end_without_slot(ctx, expired.ticket, why_unknown(expired));
      erase(expired);
    }
  }
  /// Denies the `once` waiters.
  template <class Context>
  void deny_tries(Context& ctx) {
    std::vector<ticket> tries;
    for_each([&](const waiter& w) {
      if (w.terms.once) tries.push_back(w.ticket);
      return true;
    });
    deny_all(ctx, tries);
  }
  template <class Context>
  void deny_all(Context& ctx, const std::vector<ticket>& denied) {
    for (const ticket each : denied) {
      remove(each);
      ctx.act(action::deny{each});
    }
  }
  time_point first_deadline() const { return deadlines_.empty() ? never : deadlines_.begin()->first; }
  /// The waiter with the first deadline. Null if there is none.
  waiter* first_to_expire() { return deadlines_.empty() ? nullptr : queue_.find(deadlines_.begin()->second); }

  template <class Visit>
  void for_each(Visit visit) {
    queue_.for_each(visit);
  }

private:
  void erase(waiter& w) {
    if (w.terms.deadline != never) deadlines_.erase({w.terms.deadline, w.ticket});
    patient_ -= !w.terms.once;
    queue_.erase(w);
  }

  ticket_queue<waiter> queue_;
  std::set<std::pair<time_point, ticket>> deadlines_;
  std::size_t patient_ = 0;
};

}  // namespace holdfast::protocol
