// SPDX-FileCopyrightText: The holdfast authors
// SPDX-License-Identifier: BSL-1.0

#pragma once

#include <boost/asio/any_completion_executor.hpp>
#include <boost/asio/any_io_executor.hpp>
#include <boost/asio/associated_allocator.hpp>
#include <boost/asio/associated_cancellation_slot.hpp>
#include <boost/asio/associated_executor.hpp>
#include <boost/asio/cancellation_signal.hpp>
#include <boost/asio/prefer.hpp>
#include <boost/asio/recycling_allocator.hpp>
#include <boost/version.hpp>
#if BOOST_VERSION >= 108200
#include <boost/asio/associated_immediate_executor.hpp>
#endif
#include <cstddef>
#include <holdfast/detail/build.hpp>
#include <holdfast/detail/export.hpp>
#include <holdfast/detail/outcome.hpp>
#include <memory>
#include <tuple>
#include <type_traits>
#include <utility>

namespace holdfast {

namespace asio = boost::asio;

namespace detail {

/// True if both are the same executor, whatever their types.
template <class Executor>
bool is_same(const Executor& own, const asio::any_io_executor& other) {
  if constexpr (std::is_convertible_v<const Executor&, asio::any_io_executor>) {
    const asio::any_io_executor& same = own;
    return same == other;
  } else {
    return asio::any_completion_executor(own) == asio::any_completion_executor(other);
  }
}

#if BOOST_VERSION >= 108200
/// Stands for an executor while a handler is asked which executors it has. A handler without one answers with this.
struct executor_stand_in {
  executor_stand_in require(asio::execution::blocking_t::never_t) const noexcept { return {}; }
  template <class Function>
  void execute(Function&&) const noexcept {}
  bool operator==(const executor_stand_in&) const noexcept = default;
};

template <class Handler>
inline constexpr bool has_own_executor =
    !std::is_same_v<asio::associated_executor_t<Handler, executor_stand_in>, executor_stand_in>;
template <class Handler>
inline constexpr bool has_own_immediate_executor =
    !std::is_same_v<asio::associated_immediate_executor_t<Handler, executor_stand_in>, executor_stand_in>;

/// The executors that complete a handler within its initiating function.
struct immediate_executors {
  template <class Handler>
  static std::unique_ptr<immediate_executors> of(const Handler& h, const asio::any_io_executor& home) {
    if constexpr (has_own_immediate_executor<Handler>) {
      if (!home) return nullptr;  // the context has been destroyed, so the handler will not be called
      auto its = std::make_unique<immediate_executors>();
      its->immediate = asio::get_associated_immediate_executor(h, home);
      if constexpr (has_own_executor<Handler>) {
        asio::any_completion_executor own(asio::get_associated_executor(h, executor_stand_in()));
        if (!own.target<executor_stand_in>()) its->own = std::move(own);  // a type-erased handler may have none
      }
      return its;
    } else {
      return nullptr;
    }
  }

  asio::any_completion_executor immediate{};
  asio::any_completion_executor own{};  ///< the handler's associated executor; empty if it has none
};
#endif

/// The executor, with tracked work. It is kept out of the code of each operation, because most handlers have the
/// executor of their lock.
template <class Executor>
[[gnu::noinline]] std::unique_ptr<asio::any_completion_executor> tracked(Executor&& own) {
  return std::make_unique<asio::any_completion_executor>(
      asio::prefer(std::forward<Executor>(own), asio::execution::outstanding_work.tracked));
}

struct destroy_operation;

/// A pending or completed operation, with its type-erased handler. All memory for its completion is allocated when the
/// operation begins: for the result, for the link to other completed operations, and for posting. So an operation can
/// be completed under a lock. That allocates nothing, and neither calls nor destroys an object of the user.
class operation {
public:
  operation(const operation&) = delete;
  operation& operator=(const operation&) = delete;

  asio::cancellation_slot cancellation_slot() const {
    asio::cancellation_slot its;
    act_(const_cast<operation&>(*this), step::tell_slot, &its);
    return its;
  }

  operation* next = nullptr;  ///< in an `operation_list`
  /// The executor of the handler, with tracked work. Null if the operation is posted to the handler's executor.
  std::unique_ptr<asio::any_completion_executor> elsewhere{};
#if BOOST_VERSION >= 108200
  std::unique_ptr<immediate_executors> immediate{};  ///< null if the handler has no immediate executor
#endif
  bool is_on_strand = false;  ///< the handler's executor is the strand, whose work keeps the context running

  /// Room for an entry in the queue of an executor. An executor that needs more allocates it.
  struct room {
    alignas(std::max_align_t) std::byte bytes[48];
  };
  room& its_room() noexcept { return room_; }

protected:
  enum class step { call, destroy, tell_slot };
  using function = void (*)(operation&, step, asio::cancellation_slot*);

  explicit operation(function act) noexcept : act_(act) {}
  ~operation() = default;

private:
  friend struct destroy_operation;
  friend void call_handler(std::unique_ptr<operation, destroy_operation>);

  const function act_;
  room room_;
};

struct destroy_operation {
  void operator()(operation* which) const noexcept { which->act_(*which, operation::step::destroy, nullptr); }
};
using operation_ptr = std::unique_ptr<operation, destroy_operation>;

/// Destroys the operation, and then calls its handler with the result.
inline void call_handler(operation_ptr which) {
  operation& its = *which.release();
  its.act_(its, operation::step::call, nullptr);
}

/// Posts a completed operation to `system_executor`.
HOLDFAST_EXPORT void post_to_system(operation_ptr ended);

/// An operation with room for its result.
template <class... Results>
class operation_of : public operation {
public:
  void set_result(outcome&& how, Results... results) {
    ended_ = std::move(how);
    results_ = std::tuple<Results...>(std::move(results)...);
  }

protected:
  using operation::operation;
  ~operation_of() = default;

  outcome ended_{};
  std::tuple<Results...> results_{};
};

/// An operation with its handler. Its memory comes from the handler's allocator.
template <class Handler, class... Results>
class operation_with final : public operation_of<Results...> {
  using allocator = typename std::allocator_traits<
      asio::associated_allocator_t<Handler, asio::recycling_allocator<void>>>::template rebind_alloc<operation_with>;
  using memory = std::allocator_traits<allocator>;
  using base = operation_of<Results...>;

public:
  static operation_with* make(Handler&& handler) {
    allocator its = allocator_of(handler);
    operation_with* const at = memory::allocate(its, 1);
    try {
      return new (at) operation_with(std::move(handler));
    } catch (...) {
      memory::deallocate(its, at, 1);
      throw;
    }
  }

private:
  explicit operation_with(Handler&& handler) : base(&act), handler_(std::move(handler)) {}
  ~operation_with() = default;

  static allocator allocator_of(const Handler& handler) {
    return allocator(asio::get_associated_allocator(handler, asio::recycling_allocator<void>()));
  }
  static void free(operation_with& self) {
    allocator its = allocator_of(self.handler_);
    self.~operation_with();
    memory::deallocate(its, &self, 1);
  }
  static void act(operation& which, typename base::step what, asio::cancellation_slot* slot) {
    auto& self = static_cast<operation_with&>(which);
    switch (what) {
      case base::step::tell_slot:
        *slot = asio::get_associated_cancellation_slot(self.handler_);
        return;
      case base::step::destroy:
        return free(self);
      case base::step::call:
        // The handler may begin the next operation in the same memory.
        Handler handler(std::move(self.handler_));
        outcome ended = std::move(self.ended_);
        std::tuple<Results...> results = std::move(self.results_);
        free(self);
        std::apply([&](Results&... each) { std::move(handler)(std::move(ended), std::move(each)...); }, results);
    }
  }

  Handler handler_;
};

/// A pending operation, or nothing. `home` is the executor that the completion will be posted to. If the implementation
/// works on a strand that is open to users, `strand` points to it. The associated executor is read before the handler's
/// type is erased, because reading it afterwards allocates.
template <class... Results>
class pending {
public:
  pending() = default;
  template <class Handler>
  pending(Handler&& handler, const asio::any_io_executor& home, const asio::any_io_executor* strand = nullptr) {
    auto own = asio::get_associated_executor(handler, home);
    const bool is_on_strand = strand && is_same(own, *strand);
#if BOOST_VERSION >= 108200
    auto immediate = immediate_executors::of(handler, home);
#endif
    std::unique_ptr<asio::any_completion_executor> elsewhere;
    if (!is_on_strand && !is_same(own, home)) elsewhere = tracked(std::move(own));
    using own_handler = std::decay_t<Handler>;
    it_.reset(operation_with<own_handler, Results...>::make(own_handler(std::forward<Handler>(handler))));
    it_->is_on_strand = is_on_strand;
    it_->elsewhere = std::move(elsewhere);
#if BOOST_VERSION >= 108200
    it_->immediate = std::move(immediate);
#endif
  }

  /// For a handler that is called on `elsewhere`, or on the executor that the completion is posted to.
  template <class Handler>
  pending(Handler handler, std::unique_ptr<asio::any_completion_executor> elsewhere)
      : it_(operation_with<Handler, Results...>::make(std::move(handler))) {
    it_->elsewhere = std::move(elsewhere);
  }

  explicit operator bool() const noexcept { return it_ != nullptr; }
  operation_of<Results...>* operator->() const noexcept { return it_.get(); }
  operation_of<Results...>& operator*() const noexcept { return *it_; }
  operation_ptr take() noexcept { return operation_ptr(it_.release()); }

private:
  std::unique_ptr<operation_of<Results...>, destroy_operation> it_{};
};

}  // namespace detail

}  // namespace holdfast
