// SPDX-FileCopyrightText: The holdfast authors
// SPDX-License-Identifier: BSL-1.0

// Hands slots from coroutine to coroutine, as often as the argument says, and ends at once. run.py counts what that
// costs.

#include <boost/asio/as_tuple.hpp>
#include <boost/asio/awaitable.hpp>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/deferred.hpp>
#include <boost/asio/detached.hpp>
#include <boost/asio/io_context.hpp>
#include <cstdlib>
#include <holdfast/local_store.hpp>
#include <holdfast/semaphore.hpp>
#include <iostream>

namespace asio = boost::asio;

namespace {

asio::awaitable<void> contend(holdfast::semaphore& shared, long& left) {
  while (left > 0) {
    auto [failure, slot] = co_await shared.acquire(asio::as_tuple(asio::deferred));
    if (failure) co_return;
    --left;
    auto [lost] = co_await slot.release(asio::as_tuple(asio::deferred));
    if (lost) co_return;
  }
}

}  // namespace

int main(int argc, char** argv) {
  long left = argc == 2 ? std::atol(argv[1]) : 0;
  if (left <= 0) {
    std::cerr << "usage: holdfast_handoff_cost NUMBER\n";
    return 2;
  }
  asio::io_context io(1);
  const holdfast::local_store store(io);
  holdfast::semaphore shared(store, {.prefix = "handoff-cost", .limit = 4});
  for (int i = 0; i < 16; ++i) asio::co_spawn(io, contend(shared, left), asio::detached);
  while (left > 0) {
    if (io.run_one() != 0) continue;
    std::cerr << "holdfast_handoff_cost: an acquire or a release has failed\n";
    return 1;
  }
  std::_Exit(0);  // a close would cost something, too
}
