// SPDX-FileCopyrightText: The holdfast authors
// SPDX-License-Identifier: BSL-1.0

#pragma once

#include <atomic>
#include <boost/asio/any_completion_handler.hpp>
#include <boost/asio/any_io_executor.hpp>
#include <boost/asio/associator.hpp>
#include <boost/asio/awaitable.hpp>
#include <boost/asio/bind_cancellation_slot.hpp>
#include <boost/asio/cancellation_signal.hpp>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/error.hpp>
#include <boost/asio/post.hpp>
#include <exception>
#include <holdfast/slot.hpp>
#include <memory>
#include <optional>
#include <tuple>
#include <utility>

#include "runtime/outcome.hpp"

namespace holdfast::runtime {

namespace asio = boost::asio;

/// A pending operation of `spawn_for`, with its completion handler.
template <class Tell, class... Results>
struct running {
  running(asio::any_io_executor h, asio::any_io_executor s, detail::pending<Results...>&& w, Tell t)
      : home(std::move(h)), strand(std::move(s)), waiting(std::move(w)), tell(std::move(t)) {}

  asio::any_io_executor home, strand;
  detail::pending<Results...> waiting;
  std::optional<Tell> tell;
  asio::cancellation_signal stop{};
  std::atomic<bool> cancelled{false};
};

/// Carries the result of the operation to the handler, with the handler's executor and its other associations.
/// If the operation is cancelled before the handler is called, the handler and `tell` get `operation_aborted` instead
/// of a success, because a user's `||` would drop a result that comes second.
template <class Tell, class... Results>
struct arrival {
  std::shared_ptr<running<Tell, Results...>> op;
  outcome ended;
  std::tuple<Results...> results;

  void operator()() {
    if (!ended.code() && op->cancelled) {
      ended = outcome(asio::error::operation_aborted);
      results = {};
    }
    std::apply([this](auto&... each) { (*op->tell)(ended.code(), each...); }, results);
    op->tell.reset();
    std::apply([this](auto&... each) { std::move(op->waiting.handler)(std::move(ended), std::move(each)...); },
               results);
  }
};

/// Runs `body`, an `asio::awaitable<std::tuple<outcome, Results...>>`, on the strand, which belongs to `home`. The
/// result is posted to the handler through `home`, never from within the initiating function. If `body` throws a
/// `system_error`, that becomes the outcome. `stop` may be signalled on any thread; the signal is forwarded to the
/// strand. `tell` is called just before the handler, with the same results and on the same executor. It is destroyed in
/// any case.
template <class Awaitable, class Tell, class... Results>
void spawn_for(asio::any_io_executor home, asio::any_io_executor strand, asio::cancellation_slot stop, Awaitable body,
               detail::pending<Results...>&& waiting, Tell tell) {
  const auto op = std::make_shared<running<Tell, Results...>>(std::move(home), std::move(strand), std::move(waiting),
                                                              std::move(tell));
  if (stop.is_connected())
    stop.assign([weak = std::weak_ptr(op)](asio::cancellation_type) {
      const auto found = weak.lock();
      if (!found) return;
      found->cancelled = true;
      asio::post(found->strand, [weak] {
        // A coroutine that has not begun reacts only to this type.
        if (const auto still = weak.lock()) still->stop.emit(asio::cancellation_type::terminal);
      });
    });
  auto done = [op](std::exception_ptr thrown, std::tuple<outcome, Results...> ended) {
    arrival<Tell, Results...> news{op, thrown ? outcome_of(thrown) : std::move(std::get<0>(ended)), {}};
    std::apply([&](const outcome&, auto&... each) { news.results = std::tuple<Results...>(std::move(each)...); },
               ended);
    asio::post(op->home, std::move(news));
    op->waiting.elsewhere.reset();
  };
  asio::co_spawn(op->strand, std::move(body), asio::bind_cancellation_slot(op->stop.slot(), std::move(done)));
}

}  // namespace holdfast::runtime

template <template <class, class> class Associator, class Tell, class... Results, class Default>
struct boost::asio::associator<Associator, holdfast::runtime::arrival<Tell, Results...>, Default>
    : Associator<boost::asio::any_completion_handler<void(holdfast::detail::outcome, Results...)>, Default> {
  using handler = boost::asio::any_completion_handler<void(holdfast::detail::outcome, Results...)>;
  static auto get(const holdfast::runtime::arrival<Tell, Results...>& a) noexcept {
    return Associator<handler, Default>::get(a.op->waiting.handler);
  }
  static auto get(const holdfast::runtime::arrival<Tell, Results...>& a, const Default& otherwise) noexcept {
    return Associator<handler, Default>::get(a.op->waiting.handler, otherwise);
  }
};
