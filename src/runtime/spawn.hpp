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
#include <exception>
#include <holdfast/slot.hpp>
#include <memory>
#include <optional>
#include <tuple>
#include <utility>

#include "lifetime/completion.hpp"
#include "runtime/outcome.hpp"

namespace holdfast::runtime {

namespace asio = boost::asio;

/// A pending operation of `spawn_for`, with its completion handler.
template <class Strand, class Tell, class... Results>
struct running {
  running(asio::any_io_executor h, Strand s, detail::pending<Results...>&& w, Tell t)
      : home(std::move(h)), strand(std::move(s)), waiting(std::move(w)), tell(std::move(t)) {}

  asio::any_io_executor home;
  Strand strand;
  detail::pending<Results...> waiting;
  std::optional<Tell> tell;
  asio::cancellation_signal stop{};
  std::atomic<bool> cancelled{false};
};

/// Runs `body`, an `asio::awaitable<std::tuple<outcome, Results...>>` of the strand's type or of a type-erased
/// executor, on the strand, which belongs to `home`. The result is posted to the handler through `home`, never from
/// within the initiating function. If `body` throws a `system_error`, that becomes the outcome. `stop` may be signalled
/// on any thread; the signal is forwarded to the strand. `tell` is called just before the handler, with the same
/// results and on the same executor. It is destroyed in any case.
template <class Strand, class Awaitable, class Tell, class... Results>
void spawn_for(asio::any_io_executor home, Strand strand, asio::cancellation_slot stop, Awaitable body,
               detail::pending<Results...>&& waiting, Tell tell) {
  const auto op = std::make_shared<running<Strand, Tell, Results...>>(std::move(home), std::move(strand),
                                                                      std::move(waiting), std::move(tell));
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
  // A cancellation before the handler is called replaces a success, because a user's `||` would drop a result that
  // comes second.
  auto done = [op](std::exception_ptr thrown, std::tuple<outcome, Results...> ended) {
    if (thrown) std::get<outcome>(ended) = outcome_of(thrown);
    auto deliver = [op, ended = std::move(ended)](auto handler) mutable {
      if (!std::get<outcome>(ended).code() && op->cancelled)
        ended = std::tuple<outcome, Results...>(asio::error::operation_aborted, Results()...);
      std::apply([&op](const outcome& result, auto&... each) { (*op->tell)(result.code(), each...); }, ended);
      op->tell.reset();
      std::apply([&handler](auto&... each) { std::move(handler)(std::move(each)...); }, ended);
    };
    detail::post_delivery(op->home, std::move(op->waiting), std::move(deliver));
  };
  asio::co_spawn(op->strand, std::move(body), asio::bind_cancellation_slot(op->stop.slot(), std::move(done)));
}

}  // namespace holdfast::runtime
