// SPDX-FileCopyrightText: The holdfast authors
// SPDX-License-Identifier: BSL-1.0

// The examples that stand in the public headers. Each one is between marks. The program runs all of them.

#include <boost/asio/awaitable.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/this_coro.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <chrono>
#include <holdfast/holdfast.hpp>
#include <holdfast/local_store.hpp>
#include <holdfast/prometheus.hpp>
#include <holdfast/testing/server.hpp>
#include <iostream>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "common/agent.hpp"
#include "common/command_line.hpp"

namespace asio = boost::asio;

namespace {

void say(const std::string& line) { std::cout << line << std::endl; }

asio::awaitable<void> write_report() {
  asio::steady_timer work(co_await asio::this_coro::executor, std::chrono::milliseconds(10));
  co_await work.async_wait(asio::use_awaitable);
}

// readme semaphore {
asio::awaitable<void> limited(holdfast::consul::client consul) {
  holdfast::semaphore sem(consul, {.prefix = "service/reports", .limit = 3});
  holdfast::slot slot = co_await sem.acquire();  // waits while the cluster has three holders
  co_await write_report();
  co_await slot.release();
  const holdfast::slot other = co_await sem.try_acquire();  // empty if none is free at once
  if (other) say("there was a slot at once");
  co_await sem.close();
}
// } readme

// readme slot {
asio::awaitable<void> careful(holdfast::consul::client consul, holdfast::slot slot) {
  auto write = slot.fence_checks();  // Consul refuses the write if the slot is lost
  write.push_back(holdfast::consul::txn_operation::set("service/state", slot.fencing_token().to_string()));
  const auto reply = co_await consul.transact(std::move(write));
  if (!reply.applied) say("the slot was lost");
  const holdfast::loss_reason why = co_await slot.wait_lost();  // until an operator or an outage takes it
  say("lost: " + std::string(to_string(why)));
}
// } readme

// readme with_slot {
asio::awaitable<void> cancelled_by_a_loss(holdfast::semaphore& sem) {
  try {
    co_await holdfast::with_slot(sem, [](holdfast::slot&) { return write_report(); });
  } catch (const holdfast::slot_lost_error& lost) {  // the report was cancelled
    say("try again: " + std::string(to_string(lost.reason())));
  }
}
// } readme

// readme mutex {
asio::awaitable<void> alone(holdfast::consul::client consul) {
  holdfast::mutex mutex(consul, {.key = "service/migration"});
  holdfast::held_mutex lock = co_await mutex.lock();
  const holdfast::sequencer proof = co_await holdfast::sequencer_of(lock);  // for another process
  const bool is_held = co_await holdfast::verify(consul, proof);
  if (is_held) say("the lock is held");
  co_await lock.release();
  co_await mutex.close();
}
// } readme

// readme mutex_set {
asio::awaitable<void> one_of_each(holdfast::consul::client consul, std::vector<std::string> users) {
  holdfast::mutex_set locks(consul, {.prefix = "service/users"});
  for (const std::string& user : users) {
    holdfast::slot lock = co_await locks.try_lock(user);  // all locks share one session
    if (!lock) continue;                                  // another process does this user
    co_await write_report();
    co_await lock.release();
  }
  co_await locks.close();
}
// } readme

// readme election {
asio::awaitable<void> lead(holdfast::consul::client consul) {
  holdfast::election candidate(consul, {.key = "service/leader"});
  holdfast::leadership term = co_await candidate.campaign("10.0.0.7:8080");
  co_await term.proclaim("10.0.0.7:8081");  // what observers see from now on
  co_await write_report();
  co_await term.resign();
}
// } readme

// readme alive {
holdfast::election_options watched_leader(asio::any_io_executor work) {
  holdfast::election_options options{.key = "service/leader"};
  options.tuning.alive = holdfast::alive_check{.executor = std::move(work), .within = std::chrono::seconds(30)};
  return options;
}
// } readme

// readme observer {
asio::awaitable<void> follow(holdfast::consul::client consul) {
  holdfast::election_observer observer(consul, "service/leader");
  for (;;) {
    const std::optional<holdfast::leader> now = co_await observer.next();  // waits for a change
    say(now ? "leader: " + now->value : "no leader");
    if (now) co_return;
  }
}
// } readme

// readme administration {
asio::awaitable<void> drain(holdfast::consul::client consul) {
  holdfast::semaphore_administration admin(consul, {.prefix = "service/reports"});
  const holdfast::semaphore_status now = co_await admin.inspect();
  say(std::to_string(now.holders.size()) + " of " + std::to_string(now.limit) + " slots are held");
  co_await admin.close();  // nobody is granted a slot
  co_await admin.wait_until_drained();
  co_await admin.open();
}
// } readme

// readme client {
asio::awaitable<void> count(holdfast::consul::client consul) {
  using holdfast::consul::txn_operation;
  const auto read = co_await consul.get("service/visits");
  const int visits = read.value ? std::stoi(read.value->value) : 0;
  const std::uint64_t index = read.value ? read.value->modify_index : 0;  // 0: the key must not exist
  const std::vector all{txn_operation::cas("service/visits", std::to_string(visits + 1), index)};
  const auto reply = co_await consul.transact(all);
  say(reply.applied ? "counted" : "another process was faster");
}
// } readme

// readme local_store {
asio::awaitable<void> test_of_a_loss(holdfast::local_store store) {  // holdfast::local_store store(io);
  holdfast::mutex here(store, {.key = "k"}), there(store, {.key = "k"});
  holdfast::held_mutex lock = co_await here.lock();
  const holdfast::held_mutex none = co_await there.try_lock();
  if (!none) say("it is locked");
  store.end_sessions();
  const holdfast::loss_reason why = co_await lock.wait_lost();
  say("lost in the test: " + std::string(to_string(why)));
}
// } readme

// readme prometheus {
std::string metrics_of(const holdfast::consul::client& consul, const holdfast::semaphore& sem) {
  holdfast::prometheus_text metrics([](std::string_view prefix) {
    return std::string(prefix.substr(0, prefix.find('/')));  // "service" for "service/reports"
  });
  metrics.add(sem);
  metrics.add(consul, "consul");
  return metrics.text();  // the reply to GET /metrics
}
// } readme

asio::awaitable<void> run_all(holdfast::consul::client consul) {
  co_await test_of_a_loss(holdfast::local_store(consul.get_executor()));
  holdfast::semaphore kept(consul, {.prefix = "service/reports", .limit = 3});
  holdfast::slot slot = co_await kept.acquire();
  co_await limited(consul);
  co_await cancelled_by_a_loss(kept);
  co_await alone(consul);
  const std::vector<std::string> users{"ann", "bob"};
  co_await one_of_each(consul, users);
  co_await count(consul);
  holdfast::election candidate(consul, watched_leader(consul.get_executor()));
  {
    holdfast::leadership term = co_await candidate.campaign("me");
    co_await follow(consul);
    co_await term.resign();
  }
  co_await lead(consul);
  co_await slot.release();
  co_await drain(consul);
  slot = co_await kept.acquire();
  holdfast::semaphore_administration admin(consul, {.prefix = "service/reports"});
  const holdfast::semaphore_status now = co_await admin.inspect();
  co_await admin.evict(now.holders.front().session);
  co_await careful(consul, std::move(slot));
  say(metrics_of(consul, kept).substr(0, 6));
  co_await kept.close();
  co_await consul.remove_tree("service/");
}

constexpr std::string_view help = R"(usage: in_the_headers [options]

Runs the examples of the public headers one after the other.

)";

}  // namespace

int main(int argc, char** argv) {
  return example::run(argc, argv, help, [](example::arguments& given) {
    given.end();
    example::agent(given.consul()).run(run_all);
    return 0;
  });
}
