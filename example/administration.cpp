// SPDX-FileCopyrightText: The holdfast authors
// SPDX-License-Identifier: BSL-1.0

// A small command line for operators. It carries out one command on a semaphore, which any number of processes may use.
// Without a command, it shows most commands, one after the other, on a semaphore of its own.

#include <unistd.h>

#include <boost/asio/awaitable.hpp>
#include <chrono>
#include <holdfast/holdfast.hpp>
#include <iostream>
#include <stdexcept>
#include <string>
#include <string_view>
#include <utility>

#include "common/agent.hpp"
#include "common/command_line.hpp"

namespace asio = boost::asio;

namespace {

struct command {
  std::string prefix, name, session;
  int limit = 0, within_seconds = 0;
  bool even_in_use = false;
};

void print(const holdfast::contender_status& each) {
  std::cout << (each.place == 0 ? "  holds   " : "  waits " + std::to_string(each.place) + " ") << each.session << "  "
            << to_string(each.kind) << "  \"" << each.description << "\"";
  if (each.age) std::cout << "  for " << each.age->count() << " s";
  if (each.token.grant != 0) std::cout << "  token " << each.token.to_string();
  if (each.revoked) std::cout << "  revoked";
  if (each.provisional) std::cout << "  granted, not taken yet";
  std::cout << std::endl;
}

asio::awaitable<void> inspect(holdfast::semaphore_administration& admin) {
  const holdfast::semaphore_status now = co_await admin.inspect();
  if (now.exists)
    std::cout << "limit " << now.limit << ", " << (now.closed ? "closed" : "open") << ", " << now.holders.size()
              << " in use, " << now.queue.size() << " waiting" << std::endl;
  else
    std::cout << "no semaphore" << std::endl;
  for (const holdfast::contender_status& each : now.holders) print(each);
  for (const holdfast::contender_status& each : now.queue) print(each);
  if (now.dead_holders + now.dead_entries != 0)
    std::cout << "  left by the dead: " << now.dead_holders << " holders, " << now.dead_entries << " entries"
              << std::endl;
}

asio::awaitable<void> carry_out(holdfast::semaphore_administration& admin, const command& given) {
  const auto limit = static_cast<std::uint32_t>(given.limit);
  if (given.name == "inspect") {
    co_await inspect(admin);
    co_return;
  }
  if (given.name == "create") {
    co_await admin.create(limit);
  } else if (given.name == "resize") {
    co_await admin.resize(limit);
  } else if (given.name == "close") {
    co_await admin.close();
  } else if (given.name == "open") {
    co_await admin.open();
  } else if (given.name == "revoke") {
    co_await admin.revoke(given.session);
  } else if (given.name == "evict") {
    co_await admin.evict(given.session);
  } else if (given.name == "drain") {
    co_await admin.close();
    co_await admin.wait_until_drained(std::chrono::seconds(given.within_seconds));
  } else if (given.name == "sweep") {
    const holdfast::swept what = co_await admin.sweep();
    std::cout << "removed " << what.holders << " dead holders, " << what.entries << " dead entries" << std::endl;
  } else if (given.even_in_use) {
    co_await admin.destroy_in_use();
  } else {
    co_await admin.destroy();
  }
  std::cout << given.name << ": done" << std::endl;
}

/// Shows what a process that uses the semaphore should do: release its slot when an operator revokes it.
asio::awaitable<void> until_wanted(holdfast::slot slot) {
  co_await slot.wait_revoked();
  std::cout << "the holder: my slot is wanted, and still mine: " << (slot.held() ? "yes" : "no") << std::endl;
  co_await slot.release();
}

asio::awaitable<void> show_all(holdfast::consul::client consul, const std::string& prefix) {
  holdfast::administration_options which;
  which.prefix = prefix;
  holdfast::semaphore_administration admin(consul, which);
  co_await admin.create(1);

  // With `use_recorded_limit`, the limit in the record counts, so that an operator can change it.
  holdfast::semaphore sem(consul,
                          {.prefix = prefix, .limit = 1, .use_recorded_limit = true, .description = "worker 7"});
  holdfast::slot first = co_await sem.acquire();
  co_await admin.resize(2);
  holdfast::slot second = co_await sem.acquire();
  std::cout << "resized to " << sem.limit() << ": two slots are held" << std::endl;
  co_await inspect(admin);

  co_await admin.close();
  const holdfast::semaphore_status now = co_await admin.inspect();
  co_await admin.revoke(now.holders.front().session);
  co_await admin.revoke(now.holders.back().session);
  co_await until_wanted(std::move(first));
  co_await until_wanted(std::move(second));
  co_await admin.wait_until_drained();
  holdfast::slot none = co_await sem.try_acquire();
  std::cout << "drained, and closed: " << (none ? "a slot" : "no slot") << " for the next caller" << std::endl;

  co_await admin.open();
  holdfast::slot third = co_await sem.acquire();
  const holdfast::semaphore_status then = co_await admin.inspect();
  co_await admin.evict(then.holders.front().session);
  const holdfast::loss_reason reason = co_await third.wait_lost();
  std::cout << "evicted: the holder is told " << reason << std::endl;

  co_await sem.close();
  co_await admin.destroy();
  co_await inspect(admin);
}

constexpr std::string_view help = R"(usage: administration [--prefix PREFIX COMMAND] [options]

What an operator can order while processes use a semaphore. Without a command: all of it, on a semaphore of its own.

  inspect             the limit, who holds, who waits
  create --limit N    the record, with nobody in it
  resize --limit N    another limit; processes must follow it (semaphore_options::use_recorded_limit)
  close, open         nobody is granted; those who wait are granted again
  drain               close, and wait until nobody holds
  revoke --session S  asks a holder for its slot
  evict --session S   takes a slot, or a place in the queue, away
  sweep               removes what dead processes have left
  destroy             removes it, if nobody uses it

  --prefix PREFIX  the semaphore's
  --limit N        1 to 10000
  --session S      as `inspect` tells it
  --within N       seconds for drain (60)
  --in-use         destroys it all the same
)";

command read(example::arguments& given) {
  command c;
  c.prefix = given.text("--prefix", {});
  c.session = given.text("--session", {});
  c.limit = given.number("--limit", 0, 0, 10'000);
  c.within_seconds = given.number("--within", 60, 1, 86'400);
  c.even_in_use = given.flag("--in-use");
  for (const char* const name :
       {"inspect", "create", "resize", "close", "open", "drain", "revoke", "evict", "sweep", "destroy"})
    if (given.flag(name)) {
      if (!c.name.empty())
        throw std::invalid_argument("one command at a time, not " + c.name + " and " + name + "; see --help");
      c.name = name;
    }
  given.end();
  if (c.prefix.empty() != c.name.empty()) throw std::invalid_argument("a command wants --prefix; see --help");
  const bool sets_limit = c.name == "create" || c.name == "resize";
  if (sets_limit && c.limit == 0) throw std::invalid_argument(c.name + " wants --limit, from 1 to 10000; see --help");
  const bool means_one = c.name == "revoke" || c.name == "evict";
  if (means_one && c.session.empty()) throw std::invalid_argument(c.name + " wants --session; see --help");
  return c;
}

}  // namespace

int main(int argc, char** argv) {
  return example::run(argc, argv, help, [](example::arguments& given) {
    const command what = read(given);
    example::agent(given.consul()).run([&](holdfast::consul::client consul) -> asio::awaitable<void> {
      if (what.name.empty()) {
        const std::string prefix = "administration/" + std::to_string(::getpid());
        co_await show_all(consul, prefix);
        co_return;
      }
      holdfast::administration_options which;
      which.prefix = what.prefix;
      holdfast::semaphore_administration admin(consul, which);
      co_await carry_out(admin, what);
    });
    return 0;
  });
}
