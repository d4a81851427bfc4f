#pragma once

#include <boost/intrusive/list.hpp>
#include <cstddef>
#include <utility>

#include "net.hpp"

namespace holdfast::consul::detail {

/// At most `limit` are inside at once; the others wait, first come first served. Lives on one strand.
class gate {
public:
  /// The right to be inside; leaves when destroyed. Empty after a wait that reached its deadline.
  class pass {
  public:
    pass() = default;
    explicit pass(gate& owner) noexcept : owner_(&owner) {}
    pass(pass&& other) noexcept : owner_(std::exchange(other.owner_, nullptr)) {}
    pass& operator=(pass&& other) noexcept {
      std::swap(owner_, other.owner_);
      return *this;
    }
    ~pass() {
      if (owner_ != nullptr) owner_->leave();
    }
    explicit operator bool() const noexcept { return owner_ != nullptr; }

  private:
    gate* owner_ = nullptr;
  };

  gate(const strand_type& strand, std::size_t limit) noexcept : strand_(strand), limit_(limit) {}
  gate(const gate&) = delete;
  gate& operator=(const gate&) = delete;

  /// Whether `enter` would not wait.
  bool is_open() const noexcept { return inside_ < limit_; }
  std::size_t waiting() const noexcept { return waiters_.size(); }

  /// Empty if it is not open.
  pass try_enter() noexcept;
  awaitable<pass> enter(time_point deadline);

private:
  struct waiter;
  using hook = boost::intrusive::list_base_hook<>;
  struct waiter : hook {
    waiter(gate& owner, time_point deadline);
    ~waiter();

    gate& owner;
    timer_type timer;
    bool admitted = false;
  };

  void leave() noexcept;

  const strand_type& strand_;
  const std::size_t limit_;
  std::size_t inside_ = 0;
  boost::intrusive::list<waiter> waiters_;
};

}  // namespace holdfast::consul::detail
