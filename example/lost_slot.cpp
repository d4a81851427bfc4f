// A slot can be lost while it is held: its session ended, or Consul could not be reached for too long. This program
// destroys its own session, as an operator might, and shows the three ways to notice: by a stop token, by `with_slot`,
// which cancels the work, and by asking `valid_for` before a step that cannot be undone.

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

/// The misfortune: ends every session that has an entry below the prefix. An entry's key is `<prefix>/<session>`.
asio::awaitable<void> destroy_our_session(holdfast::consul::client consul) {
  const auto entries = co_await consul.list(std::string(prefix) + "/");
  for (const holdfast::consul::kv_entry& entry : entries.value) {
    if (entry.session.empty()) continue;
    std::cout << "    (somebody destroys session " << entry.session << ")" << std::endl;
    co_await consul.destroy_session(entry.session);
  }
}

/// Work that is no coroutine, say on a thread of its own, looks at a stop token between its steps.
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

  // A coroutine can wait for the loss itself; the reason says what happened.
  const holdfast::loss_reason reason = co_await slot.wait_lost();
  worker.join();  // the token has stopped it: nobody works on without the slot
  std::cout << "    lost: " << reason << "; the thread stopped after " << steps << " steps" << std::endl;
}

/// Most work is a coroutine: `with_slot` acquires, runs it, releases, and cancels it if the slot is lost.
asio::awaitable<void> work_in_a_coroutine(holdfast::semaphore& sem, holdfast::consul::client consul) {
  std::cout << "2. Work in a coroutine, with with_slot" << std::endl;
  // The lambda captures by reference: with g++ 12, a temporary lambda that captures by value is destroyed twice.
  auto body = [&consul](holdfast::slot& slot) -> asio::awaitable<void> {
    std::cout << "    held, fencing token " << slot.fencing_token().to_string() << std::endl;
    co_await destroy_our_session(consul);
    co_await sleep_for(1h);  // ends early, with operation_aborted
    std::cout << "    never reached" << std::endl;
  };
  try {
    co_await holdfast::with_slot(sem, body);
  } catch (const holdfast::system_error& failed) {
    if (failed.code() != holdfast::error::slot_lost) throw;
    std::cout << "    the body was cancelled: " << failed.what() << std::endl;
  }
}

/// Before a step that cannot be undone, ask for how long the slot is certainly ours. And hand over the fencing token,
/// if the resource can check it: between question and step this process may be paused for any time.
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
  co_await work_in_a_coroutine(sem, consul);  // each loss was final; the next acquire takes a new slot
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
