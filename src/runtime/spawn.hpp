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

/// An operation of `spawn_for` under way, and who waits for it.
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

/// Its result, on the way to the handler, as whose it counts: executor and all. What is cancelled on this way, too, was
/// not told: a user's `||` drops a result that comes second.
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

/// Runs `body`, an `asio::awaitable<std::tuple<outcome, Results...>>`, on the strand, which is `home`'s, and
/// completes what waits for it with its result by way of `home`, outside of the initiating function. What it throws is
/// the error code. Whoever has `stop` may cancel it, on any thread: the signal goes on to the strand. `tell` is called
/// with what the handler gets, where it runs, just before it, and is destroyed in any case.
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
        // The only type that a coroutine hears of before it has begun.
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
