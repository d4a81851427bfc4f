#pragma once

#include <algorithm>
#include <cassert>
#include <cstddef>
#include <deque>
#include <set>
#include <utility>

#include "protocol/events.hpp"

namespace holdfast::protocol {

/// One local acquire that waits.
struct waiter {
  protocol::ticket ticket{};
  std::uint32_t count = 1;
  bool once = false;
  time_point deadline = never;
  time_point came{};
  request_id asked = 0;    ///< the last request that was sent before it came: only later ones are a look for it
  unsigned conflicts = 0;  ///< attempts for a `once` waiter that another writer beat
};

/// First come, first served; nobody overtakes, whatever its count. Finding by ticket is a binary search, because
/// tickets grow; what is taken out of the middle leaves a hole that goes when it reaches the front, or when holes are
/// most of it.
class waiter_queue {
public:
  std::size_t size() const { return live_; }
  bool empty() const { return live_ == 0; }
  /// How many of them wait for as long as it takes. (A `once` waiter never stands behind one of those.)
  std::size_t patient() const { return patient_; }
  std::size_t room() const { return queue_.size(); }  ///< with the holes
  waiter& front() { return queue_.front(); }

  void push(waiter w) {
    assert(queue_.empty() || queue_.back().ticket < w.ticket);  // what `remove` relies on
    if (w.deadline != never) deadlines_.emplace(w.deadline, w.ticket);
    queue_.push_back(w);
    ++live_;
    patient_ += !w.once;
  }
  void pop() { take(queue_.begin()); }
  bool remove(ticket t) {
    const auto at = std::lower_bound(queue_.begin(), queue_.end(), t,
                                     [](const waiter& w, ticket wanted) { return w.ticket < wanted; });
    if (at == queue_.end() || at->ticket != t || at->count == 0) return false;
    take(at);
    return true;
  }

  time_point first_deadline() const { return deadlines_.empty() ? never : deadlines_.begin()->first; }
  ticket first_to_expire() const { return deadlines_.begin()->second; }

  /// Calls `visit(waiter&)` in order until it returns false.
  template <class Visit>
  void for_each(Visit visit) {
    for (waiter& w : queue_)
      if (w.count != 0 && !visit(w)) return;
  }

private:
  void take(std::deque<waiter>::iterator at) {
    if (at->deadline != never) deadlines_.erase({at->deadline, at->ticket});
    at->count = 0;
    --live_;
    patient_ -= !at->once;
    while (!queue_.empty() && queue_.front().count == 0) queue_.pop_front();
    if (queue_.size() > 2 * live_ + holes_max) std::erase_if(queue_, [](const waiter& w) { return w.count == 0; });
  }

  static constexpr std::size_t holes_max = 64;

  std::deque<waiter> queue_;
  std::set<std::pair<time_point, ticket>> deadlines_;
  std::size_t live_ = 0;
  std::size_t patient_ = 0;
};

}  // namespace holdfast::protocol
