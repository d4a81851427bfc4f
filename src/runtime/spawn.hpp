// SPDX-FileCopyrightText: The holdfast authors
// SPDX-License-Identifier: BSL-1.0

#pragma once

#include <atomic>
#include <boost/asio/any_io_executor.hpp>
#include <boost/asio/awaitable.hpp>
#include <boost/asio/bind_cancellation_slot.hpp>
#include <boost/asio/cancellation_signal.hpp>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/error.hpp>
#include <boost/asio/post.hpp>
#include <boost/system/errc.hpp>
#include <exception>
#include <memory>
#include <mutex>
#include <optional>
#include <tuple>
#include <utility>

#include "lifetime/completion.hpp"
#include "runtime/outcome.hpp"

namespace holdfast::runtime {

namespace asio = boost::asio;

/// A pending operation of `spawn_for`. Its handler may run on another context, when the strand's context has already
/// been destroyed. So the operation releases everything of the strand's context before its handler is posted.
template <class Strand, class Tell, class... Results>
class running {
public:
  running(Strand strand, detail::pending<Results...>&& waiting, Tell tell)
      : strand_(std::move(strand)), waiting_(std::move(waiting)), tell_(std::move(tell)) {}

  asio::cancellation_slot slot() noexcept { return stop_.slot(); }

  /// Cancels the coroutine. `self` owns this object. May be called on any thread.
  void cancel(const std::shared_ptr<running>& self) {
    const std::lock_guard lock(mutex_);
    cancelled_ = true;
    if (!strand_) return;
    asio::post(*strand_, [weak = std::weak_ptr(self)] {
      // A coroutine that has not begun reacts only to this type.
      if (const auto still = weak.lock()) still->stop_.emit(asio::cancellation_type::terminal);
    });
  }
  /// Releases the strand. To be called on the strand, or while its context is being destroyed.
  void leave() noexcept {
    stop_.slot().clear();  // the handler in this slot has a copy of the strand
    const std::lock_guard lock(mutex_);
    strand_.reset();
  }
  /// Calls the handler. If the operation was cancelled before, a success becomes operation_aborted, because a user's
  /// `||` would drop a result that comes second.
  void deliver(outcome ended, Results... results) {
    if (!ended.code() && cancelled_) {
      ended = error_code(asio::error::operation_aborted);
      ((results = Results()), ...);
    }
    (*tell_)(ended.code(), results...);
    tell_.reset();
    waiting_->set_result(std::move(ended), std::move(results)...);
    detail::call_handler(waiting_.take());
  }

  /// To be called when the initiating function is about to return.
  void begun() noexcept { begun_.store(true, std::memory_order_relaxed); }
  bool has_begun() const noexcept { return begun_.load(std::memory_order_relaxed); }

private:
  std::atomic<bool> begun_{false};
  std::mutex mutex_;  ///< guards `strand_`
  std::optional<Strand> strand_;
  detail::pending<Results...> waiting_;
  std::optional<Tell> tell_;
  asio::cancellation_signal stop_{};  ///< used on the strand
  std::atomic<bool> cancelled_{false};
};

/// The completion handler of the coroutine. If Asio destroys it without calling it, because it had no memory to resume
/// the coroutine, the operation ends with errc::not_enough_memory.
template <class Running, class Home, class... Results>
class ending {
public:
  ending(std::shared_ptr<Running> which, Home home, detail::pending<Results...>&& delivered)
      : which_(std::move(which)), home_(std::move(home)), delivered_(std::move(delivered)) {}
  ending(ending&&) noexcept = default;
  ending& operator=(ending&&) = delete;
  ~ending() {
    if (!which_) return;
    if (!which_->has_begun()) {  // the initiating function throws
      which_->leave();
      return;
    }
    try {
      end(make_error_code(boost::system::errc::not_enough_memory), Results()...);
      // NOLINTNEXTLINE(bugprone-empty-catch): there is no memory for this, either
    } catch (...) {
    }
  }
  void operator()(const std::exception_ptr& thrown, std::tuple<outcome, Results...> ended) {
    if (thrown) std::get<outcome>(ended) = outcome_of(thrown);
    std::apply([this](auto&... each) { end(std::move(each)...); }, ended);
  }

private:
  void end(outcome&& how, Results... results) {
    std::exchange(which_, nullptr)->leave();
    const asio::any_io_executor to = (*home_)();
    home_.reset();
    if (!to) return;  // the context is being destroyed
    delivered_->set_result(std::move(how), std::move(results)...);
    detail::posting_executor(to).post(delivered_.take());
  }

  std::shared_ptr<Running> which_;  ///< null once the operation has ended
  std::optional<Home> home_;
  detail::pending<Results...> delivered_;
};

struct tell_nobody {
  void operator()(const auto&...) const noexcept {}
};

/// Whether the handler's cancellation slot can cancel the operation.
enum class cancels { operation, nothing };

/// Runs `body`, an `asio::awaitable<std::tuple<outcome, Results...>>` of the strand's type or of a type-erased
/// executor, on the strand. The result is posted to the handler through the executor that `home()` returns then, never
/// from within the initiating function. `home()` returns an empty executor once the strand's context is being
/// destroyed. If `body` throws a `system_error` or `bad_alloc`, that becomes the outcome. The operation may be
/// cancelled on any thread. `tell` is called just before the handler, with the same results and on the same executor.
/// It is destroyed in any case.
template <cancels What = cancels::operation, class Home, class Strand, class Awaitable, class Tell = tell_nobody,
          class... Results>
void spawn_for(Home home, Strand strand, Awaitable body, detail::pending<Results...>&& waiting, Tell tell = {}) {
  using own = running<Strand, Tell, Results...>;
  asio::cancellation_slot stop = waiting->cancellation_slot();
  auto elsewhere = std::move(waiting->elsewhere);
  const auto op = std::make_shared<own>(strand, std::move(waiting), std::move(tell));
  auto deliver = [op](outcome ended, Results... results) { op->deliver(std::move(ended), std::move(results)...); };
  detail::pending<Results...> delivered(std::move(deliver), std::move(elsewhere));
  if (What == cancels::operation && stop.is_connected())
    stop.assign([weak = std::weak_ptr(op)](asio::cancellation_type) {
      if (const auto found = weak.lock()) found->cancel(found);
    });
  ending<own, Home, Results...> done(op, std::move(home), std::move(delivered));
  asio::co_spawn(std::move(strand), std::move(body), asio::bind_cancellation_slot(op->slot(), std::move(done)));
  op->begun();
}

}  // namespace holdfast::runtime
