// SPDX-FileCopyrightText: The holdfast authors
// SPDX-License-Identifier: BSL-1.0

// A lease tells a holder when it must stop. It cannot stop a holder that is paused in the middle of a step. Such a
// holder writes late, when another process holds the slot. Consul can refuse the late write. This program keeps a
// counter in Consul that only the holder of a slot may change. It loses the slot without noticing, and tries to write.

#include <boost/asio/awaitable.hpp>
#include <holdfast/holdfast.hpp>
#include <iostream>
#include <string>
#include <utility>
#include <vector>

#include "common/agent.hpp"
#include "common/command_line.hpp"

namespace asio = boost::asio;
using holdfast::consul::txn_operation;

namespace {

const std::string prefix = "guarded_write/semaphore";
const std::string counter = "guarded_write/counter";

/// Sends the checks of the slot and the write in one transaction. Consul applies the write only if all checks hold.
asio::awaitable<void> write(holdfast::consul::client consul, std::vector<txn_operation> guard, std::string value) {
  guard.push_back(txn_operation::set(counter, value));
  const holdfast::consul::txn_reply reply = co_await consul.transact(std::move(guard));
  if (reply.applied)
    std::cout << "  the counter is " << value << std::endl;
  else
    std::cout << "  " << value << " is refused: " << reply.errors.front().text << std::endl;
}

asio::awaitable<void> tell(holdfast::consul::client consul) {
  holdfast::semaphore sem(consul, {.prefix = prefix, .limit = 1});
  holdfast::slot slot = co_await sem.acquire();
  const std::vector<txn_operation> guard = slot.fence_checks();
  std::cout << "The slot is held:" << std::endl;
  co_await write(consul, guard, "1");

  // The slot is lost: its session is destroyed. The fence checks name the session.
  co_await consul.destroy_session(guard.front().session);
  std::cout << "Its session was destroyed, and we have not looked since:" << std::endl;
  co_await write(consul, guard, "2");

  slot = co_await sem.acquire();
  std::cout << "A new slot:" << std::endl;
  co_await write(consul, slot.fence_checks(), "3");
  co_await slot.release();
  co_await sem.close();
  co_await consul.remove_tree("guarded_write/");
}

constexpr std::string_view help = R"(usage: guarded_write [options]

Lets Consul itself refuse what a holder writes that has lost its slot.

)";

}  // namespace

int main(int argc, char** argv) {
  return example::run(argc, argv, help, [](example::arguments& given) {
    given.end();
    example::agent(given.consul()).run(tell);
    return 0;
  });
}
