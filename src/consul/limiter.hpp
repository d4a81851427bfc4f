#pragma once

#include <boost/intrusive/list.hpp>
#include <cstddef>
#include <cstdint>
#include <utility>

#include "net.hpp"

namespace holdfast::consul::detail {

/// At most `limit` are inside at once; the others wait. Lives on one strand.
class limiter {
public:
  /// Who goes in next: who has waited longest, or whose deadline comes first.
  enum class order { arrival, deadline };

  /// The right to be inside; leaves when destroyed. Empty after a wait that reached its deadline.
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

  /// What a request to an agent takes is less than `moment`, and the time that it is given is much more.
  limiter(const strand_type& strand, std::size_t limit, clock::duration moment = std::chrono::milliseconds(10),
          order next = order::arrival) noexcept
      : strand_(strand), limit_(limit), moment_(moment), order_(next) {}
  limiter(const limiter&) = delete;
  limiter& operator=(const limiter&) = delete;

  /// Whether not all places are taken.
  bool is_open() const noexcept { return inside_ < limit_; }
  std::size_t inside() const noexcept { return inside_; }
  std::size_t waiting() const noexcept { return waiters_.size(); }
  /// Nobody is sent out: if there are more inside, nobody goes in until enough have left.
  void set_limit(std::size_t limit) noexcept;

  /// Those who go in use something that is costly to make, of which there are `spare` lying about. Who finds none of
  /// those waits a moment for somebody to leave one, even though it is open; then one more goes in, and the others wait
  /// another moment. By default, nobody does.
  awaitable<permit> enter(time_point deadline, std::size_t spare = SIZE_MAX);
  /// The same, without any wait: empty where that would wait.
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
  std::size_t admitted_ = 0;  ///< of these, waiters that have yet to run
  time_point grown_;          ///< when one more went in that found nothing spare
  boost::intrusive::list<waiter> waiters_;
};

}  // namespace holdfast::consul::detail
