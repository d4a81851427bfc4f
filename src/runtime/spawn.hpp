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
#include <utility>

namespace holdfast::runtime {

namespace asio = boost::asio;

/// What a coroutine of ours has thrown: a `system_error`, or it is thrown on.
error_code code_of(const std::exception_ptr& thrown);

/// Runs `body`, an `asio::awaitable`, on the client's strand, and completes what waits for it with its result, outside
/// of the initiating function. What it throws is the error code. Whoever has `stop` may cancel it.
template <class Awaitable, class... Results>
void spawn_for(const consul::client& client, asio::cancellation_slot stop, Awaitable body,
               detail::pending<error_code, Results...>&& waiting) {
  auto done = [executor = client.get_executor(), waiting = std::move(waiting)](std::exception_ptr thrown,
                                                                               Results... results) mutable {
    const error_code ec = code_of(thrown);
    asio::post(executor, asio::append(std::move(waiting.handler), ec, std::move(results)...));
  };
  asio::co_spawn(client.strand(), std::move(body), asio::bind_cancellation_slot(stop, std::move(done)));
}

}  // namespace holdfast::runtime
