// SPDX-FileCopyrightText: The holdfast authors
// SPDX-License-Identifier: BSL-1.0

#include <array>
#include <boost/asio/as_tuple.hpp>
#include <boost/asio/bind_cancellation_slot.hpp>
#include <boost/asio/cancellation_signal.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <boost/test/unit_test.hpp>
#include <chrono>
#include <holdfast/holdfast.hpp>
#include <holdfast/local_store.hpp>
#include <holdfast/testing/server.hpp>
#include <optional>
#include <string>
#include <vector>

#include "lifetime/tally.hpp"
#include "protocol/core/queue_state.hpp"
#include "protocol/core/turn_deadline.hpp"
#include "support/async.hpp"
#include "support/participant.hpp"

// The statistics of locks, on the local store.

BOOST_AUTO_TEST_SUITE(statistics)

namespace {

using namespace holdfast;
namespace asio = boost::asio;
using namespace std::chrono_literals;

semaphore_options of(std::uint32_t limit) {
  semaphore_options options;
  options.prefix = "service/db";
  options.limit = limit;
  return options;
}

}  // namespace

BOOST_AUTO_TEST_CASE(a_histogram_counts_each_value_once) {
  lifetime::histogram_tally<duration_histogram> tally;
  tally.add(0ns);
  tally.add(100us);
  tally.add(100us + 1ns);
  tally.add(1h);
  const duration_histogram seen = tally.read();
  BOOST_TEST(seen.buckets[0] == 2u);
  BOOST_TEST(seen.buckets[1] == 1u);
  BOOST_TEST(seen.buckets.back() == 1u);
  BOOST_TEST(seen.count() == 4u);
  BOOST_TEST((seen.sum == 1h + 200us + 1ns));
  lifetime::histogram_tally<ratio_histogram> ratios;
  ratios.add(0.1);
  ratios.add(1);
  BOOST_TEST(ratios.read().buckets.front() == 1u);
  BOOST_TEST(ratios.read().buckets.back() == 1u);
  BOOST_TEST(ratios.read().sum == 1.1);
}

ASYNC_TEST_CASE(each_acquire_counts_once, 20s) {
  const local_store store(ex);
  semaphore sem(store, of(1));
  slot held = co_await sem.acquire();
  const slot none = co_await sem.try_acquire();
  BOOST_TEST(!none);
  std::optional<error_code> failed;
  acquire_options two;
  two.count = 2;
  sem.acquire(two, [&](error_code ec, slot) { failed = ec; });
  asio::cancellation_signal stop;
  std::optional<error_code> cancelled, handed;
  sem.acquire(asio::bind_cancellation_slot(stop.slot(), [&](error_code ec, slot) { cancelled = ec; }));
  slot next;
  sem.acquire([&](error_code ec, slot got) {
    handed = ec;
    next = std::move(got);
  });
  co_await test::until("the statistics show it", [&] { return failed.has_value() && sem.statistics().waiting == 2; });
  stop.emit(asio::cancellation_type::total);
  co_await test::until("the statistics show it", [&] { return cancelled.has_value(); });
  lock_statistics now = sem.statistics();
  BOOST_TEST(now.granted == 1u);
  BOOST_TEST(now.denied == 1u);
  BOOST_TEST(now.cancelled == 1u);
  BOOST_TEST(now.failed[error::too_many_slots] == 1u);
  BOOST_TEST(now.failed.total() == 1u);
  BOOST_TEST(now.waiting == 1u);
  BOOST_TEST(now.held == 1u);
  BOOST_TEST(now.limit == 1u);
  BOOST_TEST(now.sessions == 1u);
  BOOST_TEST(now.wait.count() == 1u);
  BOOST_TEST(now.hold.count() == 0u);
  co_await held.release();
  co_await test::until("the statistics show it", [&] { return handed.has_value(); });
  now = sem.statistics();
  BOOST_TEST(now.granted == 2u);
  BOOST_TEST(now.handoffs == 1u);
  BOOST_TEST(now.wait.count() == 2u);
  BOOST_TEST(now.hold.count() == 1u);
  BOOST_TEST((now.hold.sum > 0ns));
  BOOST_TEST(now.held == 1u);
}

ASYNC_TEST_CASE(losses_count_by_reason, 20s) {
  const local_store store(ex);
  semaphore sem(store, of(2));
  const slot first = co_await sem.acquire();
  const slot second = co_await sem.acquire();
  store.end_sessions();
  co_await test::until("the statistics show it", [&] { return sem.statistics().held == 0; });
  const lock_statistics now = sem.statistics();
  BOOST_TEST(now.lost[loss_reason::session_invalidated] == 2u);
  BOOST_TEST(now.lost.total() == 2u);
  BOOST_TEST(now.hold.count() == 2u);
}

ASYNC_TEST_CASE(renewals_and_late_ones_show, 30s) {
  testing::server_options settings;
  settings.model.session_ttl_min = 1s;
  testing::server fake(settings);
  const consul::client consul(ex, fake.client_config());
  semaphore_options options = of(1);
  options.session_ttl = 1s;
  semaphore sem(consul, options);
  const slot held = co_await sem.acquire();
  co_await test::until("a renewal", [&] { return sem.statistics().renewal.count() != 0; });
  lock_statistics now = sem.statistics();
  BOOST_TEST(now.lease_left.count() == now.renewal.count());
  BOOST_TEST(now.lease_left.sum > 0.0);
  BOOST_TEST(now.suspect == 0u);
  fake.freeze();
  co_await test::until("it is suspect", [&] { return sem.statistics().suspect == 1; });
  co_await test::until("it is lost", [&] { return sem.statistics().held == 0; });
  now = sem.statistics();
  BOOST_TEST(now.renewals_failed > 0u);
  BOOST_TEST(now.suspect == 0u);
  BOOST_TEST(now.lost[loss_reason::lease_expired] == 1u);
  const consul::client_statistics counted = consul.statistics();
  BOOST_TEST(counted.of(consul::request_kind::session_create).ended[consul::request_outcome::ok] == 1u);
  BOOST_TEST(counted.of(consul::request_kind::session_renew).ended[consul::request_outcome::ok] > 0u);
  BOOST_TEST(counted.of(consul::request_kind::session_renew).ended[consul::request_outcome::failed] > 0u);
  BOOST_TEST(counted.of(consul::request_kind::transact).took.count() > 0u);
}

ASYNC_TEST_CASE(a_waiter_knows_its_place, 20s) {
  const local_store store(ex);
  semaphore first(store, of(1)), second(store, of(1)), third(store, of(1));
  const slot held = co_await first.acquire();
  BOOST_TEST(!first.statistics().place.has_value());
  second.acquire([](error_code, slot) {});
  co_await test::until("the statistics show it", [&] { return second.statistics().place == 1u; });
  third.acquire([](error_code, slot) {});
  co_await test::until("the statistics show it", [&] { return third.statistics().place == 2u; });
  BOOST_TEST(second.statistics().place.value_or(0) == 1u);
  co_await second.close();
  co_await third.close();
  BOOST_TEST(!third.statistics().place.has_value());
}

ASYNC_TEST_CASE(an_election_counts_all_its_candidates, 20s) {
  const local_store store(ex);
  election candidates(store, {.key = "service/leader"});
  leadership won = co_await candidates.campaign("me");
  asio::cancellation_signal stop;
  std::optional<error_code> ended;
  candidates.campaign("you", asio::bind_cancellation_slot(stop.slot(), [&](error_code ec, leadership) { ended = ec; }));
  co_await test::until("the statistics show it", [&] { return candidates.statistics().place == 1u; });
  BOOST_TEST(candidates.statistics().held == 1u);
  BOOST_TEST(candidates.statistics().waiting == 1u);
  stop.emit(asio::cancellation_type::total);
  co_await test::until("the statistics show it", [&] { return ended.has_value(); });
  co_await won.resign();
  won = leadership();
  co_await test::until("the statistics show it", [&] { return candidates.statistics().sessions == 0; });
  const lock_statistics now = candidates.statistics();
  BOOST_TEST(now.granted == 1u);
  BOOST_TEST(now.cancelled == 1u);
  BOOST_TEST(now.hold.count() == 1u);
  BOOST_TEST(now.held == 0u);
}

// --- The queue in the diagnostics, and deadlines

BOOST_AUTO_TEST_CASE(the_expected_wait_is_that_of_a_queue) {
  protocol::hold_times times;
  protocol::queue_state queue;
  queue.limit = 2;
  for (int i = 0; i < 19; ++i) times.add(1s);
  BOOST_TEST(!times.expected_wait(queue).has_value());
  times.add(1s);
  const auto wait = [&] { return std::chrono::duration<double>(times.expected_wait(queue).value()).count(); };
  BOOST_TEST(wait() == 0.25, boost::test_tools::tolerance(1e-6));  // half a hold, and two slots
  queue.before = 4;
  BOOST_TEST(wait() == 2.25, boost::test_tools::tolerance(1e-6));
  queue.free = 5;
  BOOST_TEST(wait() == 0.0);
  queue.free = 0;
  for (int i = 0; i < 1'000; ++i) times.add(10ms);  // later holds count more
  BOOST_TEST(wait() < 0.03);
}

BOOST_AUTO_TEST_CASE(a_deadline_is_compared_with_the_expected_wait) {
  const protocol::time_point now{1h};
  const protocol::turn_deadline none, soon(now, 2s), past(now, -1s), far(now, protocol::duration::max());
  BOOST_TEST(!soon.will_pass_first(now, {}));
  BOOST_TEST(!soon.will_pass_first(now, 2s));
  BOOST_TEST(soon.will_pass_first(now, 2s + 1ns));
  BOOST_TEST(soon.will_pass_first(now, protocol::duration::max()));
  BOOST_TEST(!none.will_pass_first(now, protocol::duration::max()));
  BOOST_TEST(!past.will_pass_first(now, 0ns));  // a slot that is free is taken
  BOOST_TEST(past.will_pass_first(now, 1ns));
  BOOST_TEST(!soon.has_passed(now + 2s - 1ns));
  BOOST_TEST(soon.has_passed(now + 2s));
  BOOST_TEST(past.has_passed(now));
  BOOST_TEST((far.at() == protocol::never));
}

ASYNC_TEST_CASE(a_denied_acquire_tells_who_holds, 20s) {
  const local_store store(ex);
  semaphore_options options = of(1);
  options.description = "the other one";
  semaphore other(store, options), sem(store, of(1));
  const slot held = co_await other.acquire();
  diagnostics why;
  const acquire_options explained{.diag = &why};
  const slot none = co_await sem.try_acquire_for(50ms, explained);
  BOOST_TEST(!none);
  BOOST_REQUIRE(why.queue.has_value());
  BOOST_TEST(why.queue->place.value_or(0) == 1u);
  BOOST_TEST(why.queue->held == 1u);
  BOOST_REQUIRE(why.queue->holders.size() == 1u);
  BOOST_TEST(why.queue->holders[0].description == "the other one");
  BOOST_TEST(why.queue->holders[0].age.has_value());
  BOOST_TEST(!why.queue->expected_wait.has_value());
  BOOST_TEST(why.to_string().find("(the other one)") != std::string::npos, why.to_string());
}

ASYNC_TEST_CASE(a_holder_that_waits_for_itself_is_told_so, 20s) {
  const local_store store(ex);
  semaphore sem(store, of(1)), other(store, of(1));
  const slot held = co_await sem.acquire();
  diagnostics why;
  const acquire_options explained{.diag = &why};
  const slot none = co_await sem.try_acquire_for(50ms, explained);
  BOOST_TEST(!none);
  BOOST_REQUIRE(why.queue.has_value());
  BOOST_TEST(why.queue->held_here == 1u);
  BOOST_TEST(why.to_string().find("1 of them by this object itself") != std::string::npos, why.to_string());
  const slot nothing = co_await other.try_acquire_for(50ms, explained);
  BOOST_TEST(!nothing);
  BOOST_REQUIRE(why.queue.has_value());
  BOOST_TEST(why.queue->held_here == 0u);
}

ASYNC_TEST_CASE(an_acquire_that_would_be_late_fails_at_once, 20s) {
  const local_store store(ex);
  semaphore sem(store, of(1));
  const auto soon = [] { return std::chrono::steady_clock::now() + 20ms; };
  for (int i = 0; i < 20; ++i) {
    slot each = co_await sem.acquire();
    co_await test::pause(10ms);
    co_await each.release();
  }
  const acquire_options in_time{.deadline = soon()};
  slot held = co_await sem.acquire(in_time);  // it is free, so nothing is late
  std::vector<slot> granted;
  for (int i = 0; i < 10; ++i) sem.acquire([&](error_code, slot got) { granted.push_back(std::move(got)); });
  diagnostics why;
  acquire_options options{.diag = &why, .deadline = soon()};
  const auto [failed, none] = co_await sem.acquire(options, asio::as_tuple(asio::use_awaitable));
  BOOST_TEST(failed == error::would_be_late);
  BOOST_REQUIRE(why.queue.has_value());
  BOOST_TEST(why.queue->before == 10u);
  BOOST_REQUIRE(why.queue->expected_wait.has_value());
  BOOST_TEST((*why.queue->expected_wait >= 100ms));
  BOOST_TEST(sem.statistics().failed[error::would_be_late] == 1u);
  BOOST_TEST(sem.statistics().waiting == 10u);
  diagnostics later;
  std::optional<error_code> last;
  slot got;
  sem.acquire({.diag = &later, .deadline = std::chrono::steady_clock::now() + 1h}, [&](error_code ec, slot it) {
    last = ec;
    got = std::move(it);
  });
  co_await held.release();
  for (std::size_t i = 0; i < 10; ++i) {
    co_await test::until("the next one holds", [&] { return granted.size() > i; });
    granted[i] = slot();
  }
  co_await test::until("the last one holds", [&] { return last.has_value(); });
  BOOST_TEST(!*last);
  BOOST_REQUIRE(later.queue.has_value());
  BOOST_TEST(later.queue->before == 10u);
  BOOST_TEST(later.queue->expected_wait.has_value());
}

ASYNC_TEST_CASE(an_acquire_fails_at_its_deadline, 20s) {
  const local_store store(ex);
  semaphore sem(store, of(1));
  const slot held = co_await sem.acquire();
  const auto begun = std::chrono::steady_clock::now();
  const acquire_options options{.deadline = begun + 30ms};
  const auto [failed, none] = co_await sem.acquire(options, asio::as_tuple(asio::use_awaitable));
  BOOST_TEST(failed == error::would_be_late);
  BOOST_TEST((std::chrono::steady_clock::now() - begun < 10s));
  BOOST_TEST(!none);
  const acquire_options much_later{.deadline = std::chrono::steady_clock::now() + 1h};
  const slot denied = co_await sem.try_acquire(much_later);
  BOOST_TEST(!denied);  // an answer in time is no failure
}

ASYNC_TEST_CASE(a_deadline_that_has_passed_fails_unsent, 20s) {
  testing::server fake;
  fake.freeze();  // a request would take its whole timeout
  const consul::client consul(ex, fake.client_config());
  semaphore sem(consul, of(1));
  mutex alone(consul, {.key = "m"});
  diagnostics why;
  const acquire_options over{.diag = &why, .deadline = std::chrono::steady_clock::now() - 1s};
  const auto [failed, none] = co_await sem.acquire(over, asio::as_tuple(asio::use_awaitable));
  BOOST_TEST(failed == error::would_be_late);
  BOOST_TEST(why.to_string().find("already passed") != std::string::npos, why.to_string());
  const auto [again, nothing] = co_await sem.try_acquire_for(50ms, over, asio::as_tuple(asio::use_awaitable));
  BOOST_TEST(again == error::would_be_late);
  const auto [once, still_none] = co_await sem.try_acquire(over, asio::as_tuple(asio::use_awaitable));
  BOOST_TEST(once == error::would_be_late);
  BOOST_TEST(consul.statistics().requests == 0u);
  BOOST_TEST(sem.statistics().sessions == 0u);
}

/// A caller with little time learns why it has no slot.
ASYNC_TEST_CASE(an_outage_is_not_contention, 60s) {
  testing::server fake;
  const consul::client consul(ex, fake.client_config());
  semaphore other(consul, of(1)), sem(consul, of(1));
  const auto in_a_moment = [] { return acquire_options{.deadline = std::chrono::steady_clock::now() + 300ms}; };
  slot held = co_await other.acquire();
  const slot none = co_await sem.try_acquire_for(300ms);
  BOOST_TEST(!none);
  const auto [late, nothing] = co_await sem.acquire(in_a_moment(), asio::as_tuple(asio::use_awaitable));
  BOOST_TEST(late == error::would_be_late);

  std::optional<error_code> waited;
  sem.acquire([&](error_code ec, slot) { waited = ec; });
  co_await test::until("it waits", [&] { return sem.statistics().place == 1u; });
  fake.freeze();
  for (int i = 0; i != 2; ++i) {  // the first one follows on answers, the second one on silence
    const auto [failed, empty] = co_await sem.acquire(in_a_moment(), asio::as_tuple(asio::use_awaitable));
    BOOST_TEST((failed == condition::unavailable), failed.message());
    const auto [in_vain, no_slot] = co_await sem.try_acquire_for(300ms, asio::as_tuple(asio::use_awaitable));
    BOOST_TEST((in_vain == condition::unavailable), in_vain.message());
  }
  BOOST_TEST(!waited.has_value());
  const lock_statistics now = sem.statistics();
  BOOST_TEST(now.denied == 1u);
  BOOST_TEST(now.failed[error::would_be_late] == 1u);
  BOOST_TEST(now.failed[error::timed_out] == 4u);
  fake.thaw();
  co_await held.release();
  co_await test::until("the one that waits has the slot", [&] { return waited.has_value(); });
  BOOST_TEST(!*waited);
}

BOOST_AUTO_TEST_SUITE_END()
