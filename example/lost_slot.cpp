// SPDX-FileCopyrightText: The holdfast authors
// SPDX-License-Identifier: BSL-1.0

// A slot can be lost while it is held, for example because its session has ended, or because Consul could not be
// reached for too long. This program destroys its own session, as an operator might. It shows three ways to notice the
// loss:
//   1. a stop token;
//   2. `with_slot`, which cancels the work;
//   3. a call of `valid_for` before a step that cannot be undone.

#include <boost/asio/awaitable.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/this_coro.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <chrono>
#include <holdfast/holdfast.hpp>
#include <iostream>
#include <stop_token>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "common/agent.hpp"
#include "common/command_line.hpp"

namespace asio = boost::asio;
using namespace std::chrono_literals;

namespace {

constexpr std::string_view prefix = "lost_slot/example";

asio::awaitable<void> sleep_for(std::chrono::milliseconds time) {
  asio::steady_timer timer(co_await asio::this_coro::executor, time);
  co_await timer.async_wait(asio::use_awaitable);
}

/// Causes the loss: destroys every session that has an entry below the prefix.
asio::awaitable<void> destroy_our_session(holdfast::consul::client consul) {
  const auto entries = co_await consul.list(std::string(prefix) + "/");
  for (const holdfast::consul::kv_entry& entry : entries.value) {
    if (entry.session.empty()) continue;
    std::cout << "    (somebody destroys session " << entry.session << ")" << std::endl;
    co_await consul.destroy_session(entry.session);
  }
}

/// Work that is not a coroutine, for example on a thread of its own, checks a stop token between its steps.
asio::awaitable<void> work_on_a_thread(holdfast::semaphore& sem, holdfast::consul::client consul) {
  std::cout << "1. Work on a thread, with the slot's stop token" << std::endl;
  holdfast::slot slot = co_await sem.acquire();
  std::cout << "    held, fencing token " << slot.fencing_token().to_string() << std::endl;

  int steps = 0;
  std::jthread worker([stop = slot.stop_token(), &steps] {
    while (!stop.stop_requested()) {
      std::this_thread::sleep_for(10ms);
      ++steps;
    }
  });
  co_await sleep_for(100ms);
  co_await destroy_our_session(consul);

  // A coroutine can wait for the loss. The result is the reason.
  const holdfast::loss_reason reason = co_await slot.wait_lost();
  worker.join();  // the token has stopped it, so no work goes on without the slot
  std::cout << "    lost: " << reason << "; the thread stopped after " << steps << " steps" << std::endl;
}

/// Most work is a coroutine. `with_slot` acquires a slot, runs the coroutine and releases the slot. If the slot is
/// lost, it cancels the coroutine.
asio::awaitable<void> work_in_a_coroutine(holdfast::semaphore& sem, holdfast::consul::client consul) {
  std::cout << "2. Work in a coroutine, with with_slot" << std::endl;
  // The lambda captures by reference: with g++ 12, a temporary lambda that captures by value is destroyed twice.
  auto body = [&consul](holdfast::slot& slot) -> asio::awaitable<void> {
    std::cout << "    held, fencing token " << slot.fencing_token().to_string() << std::endl;
    co_await destroy_our_session(consul);
    co_await sleep_for(1h);  // is cancelled, and throws operation_aborted
    std::cout << "    never reached" << std::endl;
  };
  try {
    co_await holdfast::with_slot(sem, body);
  } catch (const holdfast::system_error& failed) {
    if (failed.code() != holdfast::error::slot_lost) throw;
    std::cout << "    the body was cancelled: " << failed.what() << std::endl;
  }
}

/// Before a step that cannot be undone, ask how long the slot is certainly held. If the resource can check the fencing
/// token, pass the token, too: this process may be paused for any time between the question and the step.
asio::awaitable<void> work_that_cannot_be_undone(holdfast::semaphore& sem, holdfast::consul::client consul) {
  std::cout << "3. A step that cannot be undone, with valid_for" << std::endl;
  holdfast::slot slot = co_await sem.acquire();
  constexpr auto step_takes = 1s;
  for (const char* const step : {"first", "second"}) {
    if (slot.valid_for() < step_takes) {
      std::cout << "    " << step << " step: not begun, the slot is lost (" << slot.lost_because() << ")" << std::endl;
      continue;
    }
    const auto left = std::chrono::duration_cast<std::chrono::milliseconds>(slot.valid_for());
    std::cout << "    " << step << " step: done, " << left.count() << " ms were left for it" << std::endl;
    co_await destroy_our_session(consul);
    co_await slot.wait_lost();
  }
}

asio::awaitable<void> tell(holdfast::consul::client consul) {
  holdfast::semaphore sem(consul, {.prefix = std::string(prefix), .limit = 1});
  co_await work_on_a_thread(sem, consul);
  co_await work_in_a_coroutine(sem, consul);  // a loss is final: acquire takes a new slot
  co_await work_that_cannot_be_undone(sem, consul);
  co_await sem.close();
  co_await consul.remove_tree(std::string(prefix) + "/");
}

constexpr std::string_view help = R"(usage: lost_slot [options]

Holds a slot, loses it three times, and shows how a program notices.

)";

}  // namespace

int main(int argc, char** argv) {
  return example::run(argc, argv, help, [](example::arguments& given) {
    given.end();
    example::agent(given.consul()).run(tell);
    return 0;
  });
}
