// SPDX-FileCopyrightText: The holdfast authors
// SPDX-License-Identifier: BSL-1.0

// g++ 12 would destroy the captured values of a temporary body twice. So with_slot and its like refuse such a body, and
// this file does not compile. With TAKEN defined, it compiles: no other mistake is the reason.

#include <boost/asio/awaitable.hpp>
#include <holdfast/election.hpp>
#include <holdfast/mutex.hpp>
#include <holdfast/semaphore.hpp>
#include <holdfast/with_slot.hpp>
#include <string>

namespace asio = boost::asio;

void use(holdfast::semaphore& sem, holdfast::mutex& one, holdfast::election& candidates, const std::string& name) {
#ifdef TAKEN
  auto body = [name](holdfast::hold&) -> asio::awaitable<void> { co_return; };
  with_slot(sem, body);
  with_lock(one, body);
  with_leadership(candidates, name, body);
  with_slot(sem, [&name](holdfast::slot&) -> asio::awaitable<void> { co_return; });
#else
  with_slot(sem, [name](holdfast::slot&) -> asio::awaitable<void> { co_return; });
  with_lock(one, [name](holdfast::held_mutex&) -> asio::awaitable<void> { co_return; });
  with_leadership(candidates, name, [name](holdfast::leadership&) -> asio::awaitable<void> { co_return; });
#endif
}
