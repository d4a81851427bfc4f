// SPDX-FileCopyrightText: The holdfast authors
// SPDX-License-Identifier: BSL-1.0

// Reads do not show what was written. Consul 1.12.0 did that to keys with a '%': it changed their names in URLs, and
// not in transactions. Locks then try less and less often, and say so. When reads are right again, so are the locks.

#include <boost/asio/steady_timer.hpp>
#include <boost/test/unit_test.hpp>
#include <holdfast/testing/proxy.hpp>
#include <map>
#include <string>

#include "support/agent.hpp"
#include "support/async.hpp"
#include "support/participant.hpp"

namespace holdfast::test {
namespace {

using testing::fault;
using testing::fault_plan;
using testing::fault_rule;

/// A client whose reads of keys show other keys, and the log of a lock.
struct wrong_reads {
  wrong_reads(const asio::any_io_executor& ex, agent& consul)
      : between(ex, consul.address()), client(ex, between.client_config()) {
    between.set_faults(fault_plan({{.what = fault::other_key(), .target = "GET /v1/kv/", .times = 0}}));
  }
  log_function log() {
    return [this](const log_event& event) { ++lines[event.kind]; };
  }
  bool is_told() const { return lines.contains(log_kind::answers_contradict); }

  testing::proxy between;
  consul::client client;
  std::map<log_kind, std::size_t> lines{};
};

/// Takes the lock, until it is lost, again and again. `take` begins one attempt.
template <class Take>
asio::awaitable<void> use(Take take, const bool& is_over) {
  asio::steady_timer pause(co_await asio::this_coro::executor);
  while (!is_over) {
    bool is_refused = false;
    try {
      auto held = co_await take();
      if (!held.held()) continue;  // a set only tries
      co_await until("it is lost, or the test is over", [&] { return is_over || !held.held(); });
      held = {};
    } catch (const system_error& e) {  // a set takes no more locks then
      if (e.code() != error::not_consul) throw;
      is_refused = true;
    }
    if (!is_refused) continue;
    pause.expires_after(20ms);
    co_await pause.async_wait(asio::use_awaitable);
  }
}

/// A storm would send thousands of requests before the log says anything.
template <class Take>
asio::awaitable<void> play(asio::any_io_executor ex, wrong_reads& scene, Take take) {
  bool is_over = false;
  companions user(ex);
  user.start(use(take, is_over));
  constexpr std::uint64_t storm = 2000;
  co_await until("the log tells", [&] { return scene.is_told() || scene.between.statistics().requests > storm; });
  BOOST_TEST(scene.is_told());
  BOOST_TEST(scene.between.statistics().requests < 400u);
  scene.between.set_faults({});
  scene.between.cut();
  co_await until("they agree again", [&] { return scene.lines.contains(log_kind::answers_agree); });
  is_over = true;
  co_await user.join();
  auto held = co_await take();
  BOOST_TEST(held.held());
  held = {};
}

template <class Options>
Options logged(Options its, wrong_reads& scene) {
  its.log = scene.log();
  return its;
}

}  // namespace
}  // namespace holdfast::test

using namespace holdfast;
using namespace holdfast::test;

BOOST_AUTO_TEST_SUITE(contradictions)

ASYNC_TEST_CASE(a_semaphore_backs_off_and_tells, 60s) {
  agent consul;
  wrong_reads scene(ex, consul);
  semaphore sem(scene.client, logged(calm(unique_prefix("hidden"), 1), scene));
  co_await play(ex, scene, [&] { return sem.acquire(); });
  co_await sem.close();
}

ASYNC_TEST_CASE(a_semaphore_with_a_record_backs_off_and_tells, 60s) {
  agent consul;
  const std::string prefix = unique_prefix("hidden");
  participant direct(ex, consul, calm(prefix, 2));
  slot other = co_await direct.sem.acquire();
  wrong_reads scene(ex, consul);
  semaphore sem(scene.client, logged(calm(prefix, 2), scene));
  co_await play(ex, scene, [&] { return sem.acquire(); });
  BOOST_TEST(other.held());
  co_await sem.close();
  co_await other.release();
  co_await direct.sem.close();
}

ASYNC_TEST_CASE(a_mutex_backs_off_and_tells, 60s) {
  agent consul;
  wrong_reads scene(ex, consul);
  mutex lock(scene.client, logged(calm(unique_prefix("hidden")), scene));
  co_await play(ex, scene, [&] { return lock.lock(); });
  co_await lock.close();
}

/// Each campaign has a pool of its own, which goes on from the last one.
ASYNC_TEST_CASE(an_election_backs_off_and_tells, 60s) {
  agent consul;
  wrong_reads scene(ex, consul);
  election_options options;
  options.key = unique_prefix("hidden");
  election candidates(scene.client, logged(std::move(options), scene));
  co_await play(ex, scene, [&] { return candidates.campaign("me"); });
}

ASYNC_TEST_CASE(a_mutex_set_backs_off_and_tells, 60s) {
  agent consul;
  wrong_reads scene(ex, consul);
  mutex_set set(scene.client, logged(calm_set(unique_prefix("hidden")), scene));
  co_await play(ex, scene, [&] { return set.try_lock("one"); });
  co_await set.close();
}

BOOST_AUTO_TEST_SUITE_END()
