// SPDX-FileCopyrightText: The holdfast authors
// SPDX-License-Identifier: BSL-1.0

// Mutex sets on a real agent, or its model: many locks by one session, in few requests.

#include <algorithm>
#include <boost/asio/bind_cancellation_slot.hpp>
#include <boost/asio/cancellation_signal.hpp>
#include <boost/test/unit_test.hpp>
#include <holdfast/testing/proxy.hpp>
#include <iostream>
#include <set>
#include <string>
#include <vector>

#include "protocol/record/lock_record.hpp"
#include "support/agent.hpp"
#include "support/async.hpp"
#include "support/participant.hpp"
#include "support/scripted_server.hpp"

namespace holdfast::test {
namespace {

constexpr auto set_result = asio::as_tuple(asio::use_awaitable);

std::string task(int i) { return "task-" + std::to_string(i); }

/// The key of a lock, as it stands in Consul.
asio::awaitable<std::optional<consul::kv_entry>> key_of(set_user& u, std::string name) {
  auto answer = co_await u.client.get(u.set.prefix() + "/" + name);
  co_return std::move(answer.value);
}

/// Returns the number of keys below the prefix.
asio::awaitable<std::size_t> count_keys(set_user& u) {
  auto answer = co_await u.client.list(u.set.prefix() + "/");
  co_return answer.value.size();
}

}  // namespace
}  // namespace holdfast::test

using namespace holdfast;
using namespace holdfast::test;

BOOST_AUTO_TEST_SUITE(mutex_set)

ASYNC_TEST_CASE(a_lock_is_had_denied_and_released, 30s) {
  agent& a = shared_agent();
  mutex_set_options options = calm_set(unique_prefix("set"));
  options.description = "me";
  set_user us(ex, a, options), others(ex, a, options);
  slot held = co_await us.set.try_lock("a");
  BOOST_REQUIRE(held.held());
  BOOST_TEST(held.count() == 1u);
  const auto key = co_await key_of(us, "a");
  BOOST_REQUIRE(key.has_value());
  BOOST_TEST(key->flags == protocol::mutex_flags);
  BOOST_TEST(key->value == "me");
  BOOST_TEST(held.fencing_token().grant == key->modify_index);
  BOOST_TEST(held.fence_checks().size() == 2u);
  slot none = co_await others.set.try_lock("a");
  BOOST_TEST(!none.valid());
  none = co_await us.set.try_lock("a");
  BOOST_TEST(!none.valid());
  slot other = co_await others.set.try_lock("b");
  BOOST_TEST(other.held());
  co_await held.release();
  const auto gone = co_await key_of(us, "a");
  BOOST_TEST(!gone.has_value());
  slot again = co_await others.set.try_lock("a");
  BOOST_TEST(again.held());
  BOOST_TEST((again.fencing_token() > held.fencing_token()));
  co_await us.set.close();
  pending<> closing(ex, others.set.close());
  const loss_reason reason = co_await again.wait_lost();
  BOOST_TEST((reason == loss_reason::closed));
  let_go(again, other);
  const error_code closed = co_await closing.wait();
  BOOST_TEST(!closed);
  const std::size_t left = co_await count_keys(us);
  BOOST_TEST(left == 0u);
  BOOST_TEST(sessions(a, options.prefix).empty());
}

ASYNC_TEST_CASE(it_is_the_same_lock_as_a_mutex, 30s) {
  agent& a = shared_agent();
  const std::string prefix = unique_prefix("set-mutex");
  set_user us(ex, a, calm_set(prefix));
  locker other(ex, a, calm(prefix + "/a"));
  slot held = co_await us.set.try_lock("a");
  BOOST_REQUIRE(held.held());
  slot none = co_await other.mutex.try_lock();
  BOOST_TEST(!none.valid());
  pending<slot> waiting(ex, other.mutex.lock());
  co_await until("it waits", [&] { return contenders(a, prefix + "/a").size() == 1; });
  co_await held.release();
  const error_code ec = co_await waiting.wait();
  BOOST_REQUIRE(!ec);
  slot theirs = waiting.take();
  BOOST_TEST(theirs.held());
  none = co_await us.set.try_lock("a");
  BOOST_TEST(!none.valid());
  co_await theirs.release();
  slot again = co_await us.set.try_lock("a");
  BOOST_TEST(again.held());
  BOOST_TEST((again.fencing_token() > theirs.fencing_token()));
  let_go(again);
  co_await us.set.close();
  co_await other.mutex.close();
}

/// Three connections: one for transactions, one for renewals, one for the watch.
ASYNC_TEST_CASE(two_thousand_locks_take_one_session_and_few_requests, 60s) {
  constexpr int tasks = 2000;
  agent& a = shared_agent();
  const std::string prefix = unique_prefix("set-thousands");
  set_user us(ex, a, calm_set(prefix));
  std::vector<slot> held(tasks);
  auto take = [&](int i) -> asio::awaitable<void> {
    held[static_cast<std::size_t>(i)] = co_await us.set.try_lock(task(i));
  };
  auto give = [&](int i) -> asio::awaitable<void> { co_await held[static_cast<std::size_t>(i)].release(); };
  const auto all = [&](auto& what) -> asio::awaitable<void> {
    companions running(ex);
    for (int i = 0; i < tasks; ++i) running.start(what(i));
    co_await running.join();
  };
  co_await all(take);
  BOOST_TEST(std::all_of(held.begin(), held.end(), [](const slot& s) { return s.held(); }));
  std::set<std::uint64_t> grants;
  for (const slot& s : held) grants.insert(s.fencing_token().grant);
  BOOST_TEST(grants.size() < 50u);  // one for each transaction
  BOOST_TEST(sessions(a, prefix).size() == 1u);
  const auto locked = us.client.statistics();
  const std::size_t keys = co_await count_keys(us);
  BOOST_TEST(keys == tasks + 2u);
  co_await all(give);
  const auto used = us.client.statistics();
  const std::size_t left = co_await count_keys(us);
  BOOST_TEST(left == 2u);
  // 62 locks, or 31 releases, are one request.
  BOOST_TEST(locked.writes < tasks / 62 + 10u);
  BOOST_TEST(used.requests < tasks / 62 + tasks / 31 + 20u);
  BOOST_TEST(used.connections_opened <= 3u);
  co_await us.set.close();
  const std::size_t none = co_await count_keys(us);
  BOOST_TEST(none == 0u);
  std::cout << "mutex_set: " << tasks << " locks in " << locked.requests << " requests, released in "
            << used.requests - locked.requests - 1 << ", over " << used.connections_opened << " connections\n";
}

ASYNC_TEST_CASE(a_cancelled_try_lock_leaves_nothing, 30s) {
  agent& a = shared_agent();
  testing::proxy proxy(ex, a.address());
  const std::string prefix = unique_prefix("set-cancelled");
  set_user us(ex, proxy.address(), calm_set(prefix)), others(ex, a, calm_set(prefix));
  slot warm = co_await us.set.try_lock("warm");
  proxy.set_faults(testing::fault_plan({{.what = testing::fault::delay(200ms), .target = "PUT /v1/txn"}}));
  asio::cancellation_signal stop;
  std::optional<error_code> ended;
  us.set.try_lock("a", asio::bind_cancellation_slot(stop.slot(), [&](error_code ec, slot) { ended = ec; }));
  co_await until("it is on its way", [&] { return proxy.statistics().faults == 1; });
  stop.emit(asio::cancellation_type::total);
  co_await until("it has ended", [&] { return ended.has_value(); });
  BOOST_TEST(*ended == asio::error::operation_aborted);
  slot theirs;
  while (!theirs) theirs = co_await others.set.try_lock("a");  // as soon as it is released
  BOOST_TEST(theirs.held());
  let_go(warm, theirs);
  co_await us.set.close();
  co_await others.set.close();
}

ASYNC_TEST_CASE(bad_names_are_refused, 30s) {
  set_user us(ex, shared_agent(), calm_set(unique_prefix("set-names")));
  for (const char* name : {"", "/a", "a/", "a//b", "a/../b", "a\n", ".writes", ".a"}) {
    diagnostics words;
    const operation_options with_words{&words};
    const auto [ec, none] = co_await us.set.try_lock(name, with_words, set_result);
    BOOST_TEST(ec == error::invalid_prefix, name);
    BOOST_TEST(!words.to_string().empty());
  }
  BOOST_TEST(us.client.statistics().requests == 0u);
}

BOOST_AUTO_TEST_SUITE_END()
