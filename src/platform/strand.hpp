// SPDX-FileCopyrightText: The holdfast authors
// SPDX-License-Identifier: BSL-1.0

#pragma once

#include <atomic>
#include <boost/asio/any_io_executor.hpp>
#include <boost/asio/execution/allocator.hpp>
#include <boost/asio/execution/blocking.hpp>
#include <boost/asio/execution/context.hpp>
#include <boost/asio/execution/outstanding_work.hpp>
#include <boost/asio/execution/relationship.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/prefer.hpp>
#include <boost/asio/query.hpp>
#include <boost/asio/require.hpp>
#include <boost/asio/strand.hpp>
#include <concepts>
#include <cstddef>
#include <memory>
#include <optional>
#include <utility>

namespace holdfast::platform {

namespace asio = boost::asio;

/// Memory for one object at a time, which cannot run out. Thread-safe.
class reserve {
public:
  /// Null if the memory is in use or too small.
  void* take(std::size_t size) noexcept {
    return size <= sizeof(memory_) && !used_.test_and_set(std::memory_order_acquire) ? memory_ : nullptr;
  }
  bool give_back(const void* memory) noexcept {
    if (memory != memory_) return false;
    used_.clear(std::memory_order_release);
    return true;
  }

private:
  std::atomic_flag used_{};
  alignas(std::max_align_t) std::byte memory_[256];
};

/// An allocator that takes a reserve first.
template <class T>
class reserve_allocator {
public:
  using value_type = T;

  explicit reserve_allocator(std::shared_ptr<reserve> from) noexcept : from_(std::move(from)) {}
  template <class Other>
  reserve_allocator(
      const reserve_allocator<Other>& other) noexcept  // NOLINT(google-explicit-constructor): an allocator
      : from_(other.from_) {}

  T* allocate(std::size_t count) const {
    static_assert(alignof(T) <= alignof(std::max_align_t));
    if (void* const memory = from_->take(count * sizeof(T))) return static_cast<T*>(memory);
    return std::allocator<T>().allocate(count);
  }
  void deallocate(T* memory, std::size_t count) const noexcept {
    if (!from_->give_back(memory)) std::allocator<T>().deallocate(memory, count);
  }
  template <class Other>
  bool operator==(const reserve_allocator<Other>& other) const noexcept {
    return from_ == other.from_;
  }

private:
  template <class>
  friend class reserve_allocator;
  std::shared_ptr<reserve> from_;
};

/// The executor below a strand. A strand of Asio passes itself on to this executor whenever it has something to run, at
/// most once at a time. If that fails, the strand never runs again, or the program ends. Here it cannot fail if the
/// executor is an io_context's, because its memory is there from the start.
class strand_base {
public:
  // Only for this very type: whether a `strand_base` converts to it depends on whether it is an executor.
  template <std::same_as<asio::any_io_executor> Base>
  strand_base(const Base& from) : any_(from) {  // NOLINT(google-explicit-constructor): it is the same executor
    if (const auto* const io = from.template target<asio::io_context::executor_type>()) {
      io_ = *io;
      reserve_ = std::make_shared<reserve>();
    }
  }

  // An executor is one only if its copies cannot fail. That of an `optional` does not say so.
  strand_base(const strand_base&) noexcept = default;
  strand_base& operator=(const strand_base&) noexcept = default;
  strand_base(strand_base&&) noexcept = default;
  strand_base& operator=(strand_base&&) noexcept = default;
  ~strand_base() = default;

  asio::execution_context& query(asio::execution::context_t) const noexcept {
    return asio::query(any_, asio::execution::context);
  }
  asio::execution::blocking_t query(asio::execution::blocking_t) const noexcept {
    if (is_never_) return asio::execution::blocking.never;
    return asio::execution::blocking.possibly;
  }
  strand_base require(asio::execution::blocking_t::possibly_t as) const { return with(as); }
  strand_base require(asio::execution::blocking_t::never_t as) const {
    strand_base changed = with(as);
    changed.is_never_ = true;
    return changed;
  }
  strand_base require(asio::execution::outstanding_work_t::tracked_t as) const { return tracking(as); }
  strand_base require(asio::execution::outstanding_work_t::untracked_t as) const { return tracking(as); }
  strand_base require(asio::execution::relationship_t::fork_t as) const { return with(as); }
  strand_base require(asio::execution::relationship_t::continuation_t as) const { return with(as); }

  template <class Function>
  void execute(Function&& function) const {
    if (io_) {
      asio::require(*io_, asio::execution::allocator(reserve_allocator<void>(reserve_)))
          .execute(std::forward<Function>(function));
    } else {
      any_.execute(std::forward<Function>(function));
    }
  }

  bool operator==(const strand_base& other) const noexcept {
    return any_ == other.any_ && is_never_ == other.is_never_;
  }

private:
  template <class Property>
  strand_base with(Property as) const {
    strand_base changed = tracking(as);
    if (io_) changed.io_ = asio::require(*io_, as);
    changed.is_never_ = false;
    return changed;
  }
  template <class Property>
  strand_base tracking(Property as) const {
    strand_base changed(*this);
    changed.any_ = asio::prefer(any_, as);
    return changed;
  }

  asio::any_io_executor any_;  ///< counts the outstanding work
  bool is_never_ = false;
  std::optional<asio::io_context::executor_type> io_{};  ///< the same, if it is that of an io_context
  std::shared_ptr<reserve> reserve_{};                   ///< null if `io_` is empty
};

using strand_type = asio::strand<strand_base>;

}  // namespace holdfast::platform
