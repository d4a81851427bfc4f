// SPDX-FileCopyrightText: The holdfast authors
// SPDX-License-Identifier: BSL-1.0

#pragma once

#include <boost/intrusive/list.hpp>
#include <cstddef>
#include <cstdint>
#include <utility>

#include "consul/net_names.hpp"
#include "net/asio.hpp"

namespace holdfast::consul::detail {

/// Gives out at most `limit` permits at a time; further callers wait. Lives on one strand.
class limiter {
public:
  /// The waiter that is admitted next: the one that has waited longest, or the one with the earliest deadline.
  enum class order { arrival, deadline };

  /// Occupies one place, and frees it when destroyed. An empty permit occupies none.
  class permit {
  public:
    permit() = default;
    explicit permit(limiter& owner) noexcept : owner_(&owner) {}
    permit(permit&& other) noexcept : owner_(std::exchange(other.owner_, nullptr)) {}
    permit& operator=(permit&& other) noexcept {
      std::swap(owner_, other.owner_);
      return *this;
    }
    ~permit() {
      if (owner_ != nullptr) owner_->leave();
    }
    explicit operator bool() const noexcept { return owner_ != nullptr; }

  private:
    limiter* owner_ = nullptr;
  };

  /// `moment` is how long a caller waits for a spare (see `enter`). It must be longer than a typical request and much
  /// shorter than a request's timeout. A caller with little time first waits only for a quarter of the time to its
  /// deadline.
  limiter(const strand_type& strand, std::size_t limit, clock::duration moment = std::chrono::milliseconds(10),
          order next = order::arrival) noexcept
      : strand_(strand), limit_(limit), moment_(moment), order_(next) {}
  limiter(const limiter&) = delete;
  limiter& operator=(const limiter&) = delete;

  /// Returns true if a place is free.
  bool is_open() const noexcept { return inside_ < limit_; }
  std::size_t inside() const noexcept { return inside_; }
  std::size_t waiting() const noexcept { return waiters_.size(); }
  /// Admits waiters if there are free places now. Permits that are given out stay valid: if they are more than `limit`,
  /// nothing is admitted until enough of them have been destroyed.
  void set_limit(std::size_t limit) noexcept;

  /// Completes with a permit, or with an empty one after the deadline or a cancellation.
  ///
  /// The holder of a permit uses something that is costly to make, such as a connection, and `spare` of those are idle.
  /// If admitted waiters will take all of these, or none is idle, the caller waits for `moment` even if a place is
  /// free, so that another holder can leave one. Then one waiter is admitted, and the others wait for another `moment`.
  /// If no permit is given out, the caller does not wait. By default there is always a spare.
  awaitable<permit> enter(time_point deadline, std::size_t spare = SIZE_MAX);
  /// Returns a permit, or an empty one if `enter` would wait.
  permit try_enter(std::size_t spare = SIZE_MAX) noexcept;

private:
  struct waiter;
  using hook = boost::intrusive::list_base_hook<>;
  struct waiter : hook {
    waiter(limiter& owner, time_point deadline);
    ~waiter();

    limiter& owner;
    const time_point deadline;
    timer_type timer;
    bool admitted = false;
  };

  void leave() noexcept;
  void admit_next() noexcept;

  const strand_type& strand_;
  std::size_t limit_;
  const clock::duration moment_;
  const order order_;
  std::size_t inside_ = 0;
  std::size_t admitted_ = 0;  ///< how many of these are waiters that were admitted and have not run yet
  time_point grown_;          ///< when a waiter was last admitted without a spare
  boost::intrusive::list<waiter> waiters_;
};

}  // namespace holdfast::consul::detail
