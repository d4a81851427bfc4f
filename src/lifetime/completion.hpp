// SPDX-FileCopyrightText: The holdfast authors
// SPDX-License-Identifier: BSL-1.0

#pragma once

#include <boost/asio/any_io_executor.hpp>
#include <boost/asio/bind_executor.hpp>
#include <boost/asio/dispatch.hpp>
#include <boost/asio/execution/allocator.hpp>
#include <boost/asio/execution/blocking.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/require.hpp>
#include <cstddef>
#include <holdfast/detail/export.hpp>
#include <holdfast/detail/operation.hpp>
#include <memory>
#include <optional>
#include <utility>

namespace holdfast::detail {

/// Destroys an operation without calling its handler. The handler may own a slot. Releasing that slot may complete
/// other operations, and their executors may throw, too. The outermost call then destroys these operations one after
/// the other, so that the calls do not nest.
HOLDFAST_INTERNAL void drop(operation_ptr which) noexcept;

/// A queue of operations. It allocates nothing, and no function of it can fail.
class operation_list {
public:
  operation_list() = default;
  operation_list(operation_list&& other) noexcept
      : first_(std::exchange(other.first_, nullptr)), last_(std::exchange(other.last_, nullptr)) {}
  operation_list& operator=(operation_list&&) = delete;
  ~operation_list() {
    while (operation_ptr each = pop()) drop(std::move(each));
  }

  bool empty() const noexcept { return first_ == nullptr; }
  void push(operation_ptr which) noexcept {
    operation* const added = which.release();
    added->next = nullptr;
    (first_ ? last_->next : first_) = added;
    last_ = added;
  }
  /// Null if the list is empty.
  operation_ptr pop() noexcept {
    operation_ptr taken(first_);
    if (taken) first_ = taken->next;
    return taken;
  }

private:
  operation* first_ = nullptr;
  operation* last_ = nullptr;  ///< valid unless the list is empty
};

/// Delays `drop` on this thread: the outermost object of this class keeps the dropped operations, and its destructor
/// destroys them.
class HOLDFAST_INTERNAL dropping_later {
public:
  dropping_later() noexcept;
  dropping_later(const dropping_later&) = delete;
  dropping_later& operator=(const dropping_later&) = delete;
  ~dropping_later();

private:
  operation_list kept_{};
  const bool is_outermost_;
};

/// A function object that is posted to an executor. It calls the handler of a completed operation on the handler's
/// executor. If it is destroyed without being called, it drops the operation.
class arrival {
public:
  explicit arrival(operation_ptr which) noexcept : which_(std::move(which)) {}
  arrival(arrival&&) noexcept = default;
  arrival& operator=(arrival&&) = delete;
  ~arrival() {
    if (which_) drop(std::move(which_));
  }
  void operator()() {
    if (which_->elsewhere) return go_elsewhere(std::move(which_));
    call_handler(std::move(which_));
  }

private:
  HOLDFAST_INTERNAL static void go_elsewhere(operation_ptr which);

  operation_ptr which_;
};

/// An allocator that provides the room of one operation. The executor that the operation is posted to uses it.
template <class T>
class room_allocator {
public:
  using value_type = T;

  explicit room_allocator(operation& whose) noexcept : room_(&whose.its_room()) {}
  template <class Other>
  room_allocator(const room_allocator<Other>& other) noexcept  // NOLINT(google-explicit-constructor): an allocator
      : room_(other.room_) {}

  T* allocate(std::size_t count) const {
    if (count * sizeof(T) > sizeof(operation::room) || alignof(T) > alignof(operation::room))
      return std::allocator<T>().allocate(count);
    return reinterpret_cast<T*>(room_);
  }
  void deallocate(T* memory, std::size_t count) const noexcept {
    if (reinterpret_cast<operation::room*>(memory) != room_) std::allocator<T>().deallocate(memory, count);
  }
  template <class Other>
  bool operator==(const room_allocator<Other>& other) const noexcept {
    return room_ == other.room_;
  }

private:
  template <class>
  friend class room_allocator;
  operation::room* room_;
};

/// An executor in the form that completions are posted to: it never runs a function inside `execute`.
class posting_executor {
public:
  posting_executor() = default;
  posting_executor(const asio::any_io_executor& from)  // NOLINT(google-explicit-constructor): it is the same executor
      : never_(asio::require(from, asio::execution::blocking.never)) {
    if (const auto* const io = never_.target<io_executor>()) io_ = *io;
  }

  const asio::any_io_executor& get() const noexcept { return never_; }

  /// True for the executor of an io_context. There `post` cannot fail, because the operation has room for it, and it
  /// neither calls nor destroys an object of the user. So it may be called under a lock.
  bool is_safe_under_lock() const noexcept { return io_.has_value(); }
  /// Posts a completed operation. An executor that is not an io_context's stays type-erased. If it throws, the
  /// operation is dropped, and the exception is passed on.
  void post(operation_ptr ended) const {
    if (io_) {
      const room_allocator<std::byte> room(*ended);
      asio::require(*io_, asio::execution::allocator(room)).execute(arrival(std::move(ended)));
    } else {
      never_.execute(arrival(std::move(ended)));
    }
  }

private:
  using io_executor =
      decltype(asio::require(std::declval<asio::io_context::executor_type>(), asio::execution::blocking.never));

  asio::any_io_executor never_;
  std::optional<io_executor> io_{};  ///< the same, if it is that of an io_context
};

/// Posts the handler with the result of its operation to `home`, the executor that was given to `pending`. If the
/// handler has another executor, it is dispatched from there. Every completion of the library is posted in this way,
/// with three exceptions: the operations of empty handles, handlers on the strand of `consul::client`, and
/// `complete_immediately`.
template <class... Results, class... Given>
void post_completion(const posting_executor& home, pending<Results...>&& waiting, outcome&& ended, Given&&... results) {
  waiting->set_result(std::move(ended), std::forward<Given>(results)...);
  home.post(waiting.take());
}

/// A function as an operation, which has no result.
template <class Function>
class posted_function final : public operation {
public:
  static operation_ptr make(Function function) { return operation_ptr(new posted_function(std::move(function))); }

private:
  explicit posted_function(Function function) : operation(&act), function_(std::move(function)) {}
  ~posted_function() = default;
  static void act(operation& which, step what, asio::cancellation_slot*) {
    const std::unique_ptr<posted_function, deleter> self(&static_cast<posted_function&>(which));
    if (what == step::call) self->function_();
  }
  struct deleter {
    void operator()(posted_function* which) const noexcept { delete which; }
  };

  Function function_;
};

/// Whether `complete_immediately` can complete the operation. Always false before Boost 1.82, which has no immediate
/// executors.
template <class... Results>
bool has_immediate_executor([[maybe_unused]] const pending<Results...>& waiting) noexcept {
#if BOOST_VERSION >= 108200
  return waiting->immediate != nullptr;
#else
  return false;
#endif
}

/// Completes an operation within its initiating function, through the handler's immediate executor. The handler may be
/// called before this returns, so the caller must hold no lock, and must not use its object afterwards.
HOLDFAST_INTERNAL void complete_immediately(operation_ptr ended);

}  // namespace holdfast::detail
