#pragma once

#include <boost/asio/any_io_executor.hpp>
#include <boost/asio/append.hpp>
#include <boost/asio/awaitable.hpp>
#include <boost/asio/bind_cancellation_slot.hpp>
#include <boost/asio/cancellation_signal.hpp>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/post.hpp>
#include <exception>
#include <holdfast/consul/client.hpp>
#include <holdfast/slot.hpp>
#include <memory>
#include <utility>

namespace holdfast::runtime {

namespace asio = boost::asio;

/// What a coroutine of ours has thrown: a `system_error`, or it is thrown on.
error_code code_of(const std::exception_ptr& thrown);

/// An operation of `spawn_for` under way, and who waits for it.
template <class... Results>
struct running {
  running(const consul::client& client, detail::pending<error_code, Results...>&& w)
      : home(client.get_executor()), strand(client.strand()), waiting(std::move(w)) {}

  asio::any_io_executor home, strand;
  detail::pending<error_code, Results...> waiting;
  asio::cancellation_signal stop{};
};

/// Runs `body`, an `asio::awaitable`, on the client's strand, and completes what waits for it with its result, outside
/// of the initiating function. What it throws is the error code. Whoever has `stop` may cancel it, on any thread: the
/// signal goes on to the strand.
template <class Awaitable, class... Results>
void spawn_for(const consul::client& client, asio::cancellation_slot stop, Awaitable body,
               detail::pending<error_code, Results...>&& waiting) {
  const auto op = std::make_shared<running<Results...>>(client, std::move(waiting));
  if (stop.is_connected())
    stop.assign([weak = std::weak_ptr(op)](asio::cancellation_type) {
      if (const auto found = weak.lock())
        asio::post(found->strand, [weak] {
          // The only type that a coroutine hears of before it has begun.
          if (const auto still = weak.lock()) still->stop.emit(asio::cancellation_type::terminal);
        });
    });
  auto done = [op](std::exception_ptr thrown, Results... results) {
    const error_code ec = code_of(thrown);
    asio::post(op->home, asio::append(std::move(op->waiting.handler), ec, std::move(results)...));
    op->waiting.elsewhere.reset();
  };
  asio::co_spawn(op->strand, std::move(body), asio::bind_cancellation_slot(op->stop.slot(), std::move(done)));
}

}  // namespace holdfast::runtime
