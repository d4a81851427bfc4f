// SPDX-FileCopyrightText: The holdfast authors
// SPDX-License-Identifier: BSL-1.0

#pragma once

#include <boost/asio/any_io_executor.hpp>
#include <boost/asio/bind_executor.hpp>
#include <boost/asio/dispatch.hpp>
#include <boost/asio/execution/allocator.hpp>
#include <boost/asio/execution/blocking.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/require.hpp>
#include <holdfast/detail/initiation.hpp>
#include <memory>
#include <optional>
#include <utility>

namespace holdfast::detail {

/// An executor in the form that completions are posted to: it never runs a function inside `execute`.
class posting_executor {
public:
  posting_executor() = default;
  posting_executor(const asio::any_io_executor& from)  // NOLINT(google-explicit-constructor): it is the same executor
      : never_(asio::require(from, asio::execution::blocking.never)) {
    if (const auto* const io = never_.target<io_executor>()) io_ = *io;
  }

  const asio::any_io_executor& get() const noexcept { return never_; }

  /// Posts the function. Most executors are those of an io_context. A post to one of these takes its memory from the
  /// allocator. Other executors stay type-erased, and cannot use the allocator.
  template <class Allocator, class Function>
  void execute(const Allocator& memory, Function&& function) const {
    if (io_)
      asio::require(*io_, asio::execution::allocator(memory)).execute(std::forward<Function>(function));
    else
      never_.execute(std::forward<Function>(function));
  }

private:
  using io_executor =
      decltype(asio::require(std::declval<asio::io_context::executor_type>(), asio::execution::blocking.never));

  asio::any_io_executor never_;
  std::optional<io_executor> io_{};  ///< the same, if it is that of an io_context
};

/// Posts `arrive` to `home`, which dispatches it to `to`. It is kept out of the code of each completion.
template <class Arrive>
[[gnu::noinline]] void post_elsewhere(const posting_executor& home, std::unique_ptr<asio::any_completion_executor> to,
                                      Arrive&& arrive) {
  asio::post(home.get(), asio::bind_executor(std::move(*to), std::forward<Arrive>(arrive)));
}

/// Posts `arrive`, which owns the handler of `waiting` and calls it, to `home`, the executor that was given to
/// `pending`. If the handler has another executor, `arrive` is dispatched from there. Every completion of the library
/// is posted by this function, with three exceptions: the operations of empty handles, handlers on the strand of
/// `consul::client`, and `complete_immediately`.
template <class Allocator, class Arrive, class... Results>
void post_arrival(const posting_executor& home, pending<Results...>& waiting, const Allocator& memory,
                  Arrive&& arrive) {
  if (waiting.elsewhere)
    post_elsewhere(home, std::move(waiting.elsewhere), std::forward<Arrive>(arrive));
  else
    home.execute(memory, std::forward<Arrive>(arrive));
}

/// Posts `deliver(handler)`.
template <class Deliver, class... Results>
void post_delivery(const posting_executor& home, pending<Results...>&& waiting, Deliver deliver) {
  const auto memory = waiting.handler.get_allocator();
  post_arrival(home, waiting, memory, [handler = std::move(waiting.handler), deliver = std::move(deliver)]() mutable {
    deliver(std::move(handler));
  });
}

/// Posts the handler with the result of its operation.
template <class... Results, class... Given>
void post_completion(const posting_executor& home, pending<Results...>&& waiting, outcome&& ended, Given&&... results) {
  const auto memory = waiting.handler.get_allocator();
  post_arrival(home, waiting, memory,
               [handler = std::move(waiting.handler), ended = std::move(ended),
                ... results = std::forward<Given>(results)]() mutable {
                 std::move(handler)(std::move(ended), std::move(results)...);
               });
}

/// Whether `complete_immediately` can complete the operation. Always false before Boost 1.82, which has no immediate
/// executors.
template <class... Results>
constexpr bool has_immediate_executor([[maybe_unused]] const pending<Results...>& waiting) noexcept {
#if BOOST_VERSION >= 108200
  return waiting.immediate != nullptr;
#else
  return false;
#endif
}

/// Completes an operation within its initiating function, through the handler's immediate executor. The handler may be
/// called before this returns, so the caller must hold no lock, and must not use its object afterwards.
template <class... Results>
void complete_immediately([[maybe_unused]] pending<Results...>&& waiting, [[maybe_unused]] outcome ended,
                          [[maybe_unused]] Results... results) {
#if BOOST_VERSION >= 108200
  const auto through = std::move(waiting.immediate);
  auto arrive = [handler = std::move(waiting.handler), ended = std::move(ended),
                 ... results = std::move(results)]() mutable {
    std::move(handler)(std::move(ended), std::move(results)...);
  };
  if (through->own)
    asio::dispatch(through->immediate, asio::bind_executor(std::move(through->own), std::move(arrive)));
  else
    through->immediate.execute(std::move(arrive));
#endif
}

}  // namespace holdfast::detail
