// SPDX-FileCopyrightText: The holdfast authors
// SPDX-License-Identifier: BSL-1.0

// When is a slot not ours any more? Each way to lose a slot, how soon the holder knows, and which failures lose none.

#include <atomic>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/thread_pool.hpp>
#include <boost/asio/use_future.hpp>
#include <boost/test/unit_test.hpp>
#include <future>
#include <holdfast/testing/proxy.hpp>
#include <stop_token>
#include <thread>

#include "protocol/record/lock_record.hpp"
#include "support/agent.hpp"
#include "support/async.hpp"
#include "support/participant.hpp"
#include "support/scripted_server.hpp"

namespace holdfast {

namespace test {
namespace {

using clock = std::chrono::steady_clock;
using protocol::semaphore_flags;

/// A holder that counts how often it is notified of the loss.
struct holder {
  holder(const asio::any_io_executor& ex, slot taken)
      : held(std::move(taken)), lost(ex, held.wait_lost()), on_stop(held.stop_token(), [this] { ++stops; }) {}

  slot held;
  pending<loss_reason> lost;
  int stops = 0;
  std::stop_callback<std::function<void()>> on_stop;
};

/// The bound of the issue: within a second.
asio::awaitable<loss_reason> noticed_within_a_second(holder& h) {
  const bool noticed = co_await happens_within(1s, [&] { return h.lost.ready(); });
  BOOST_REQUIRE_MESSAGE(noticed, "the holder has not noticed within a second");
  BOOST_TEST(!h.held.held());
  BOOST_TEST((h.held.state() == slot_state::lost));
  BOOST_TEST((h.held.valid_for() == 0ns));
  BOOST_TEST(h.held.lost_because() == h.lost.value());
  co_return h.lost.value();
}

/// A lost slot stays lost, and the loss is reported once.
asio::awaitable<void> expect_final(holder& h) {
  const loss_reason reason = h.held.lost_because();
  co_await until("the stop token has fired", [&] { return h.stops != 0; });
  co_await pause(50ms);
  BOOST_TEST(h.stops == 1);
  BOOST_TEST(!h.held.held());
  BOOST_TEST(h.held.stop_token().stop_requested());
  const loss_reason again = co_await h.held.wait_lost();
  BOOST_TEST(again == reason);
  BOOST_TEST(h.held.lost_because() == reason);
  auto [ec] = co_await h.held.release(as_result);
  BOOST_TEST(ec == error::slot_lost);
}

asio::awaitable<void> until_watched(const testing::proxy& proxy, std::size_t by = 1) {
  co_await until("the record is watched", [&] { return proxy.statistics().blocked >= by; });
}

const std::string agent_trouble = "rpc error making call: EOF";

/// From now on all requests are answered with 500, also pending queries.
void begin_500s(testing::proxy& proxy) {
  proxy.set_faults(testing::fault_plan({{.what = testing::fault::answer(500, agent_trouble), .times = 0}}));
  proxy.answer_blocked(500, agent_trouble);
}

void end_500s(testing::proxy& proxy) { proxy.set_faults({}); }

/// The next such request is applied, and its connection is cut instead of a reply.
void lose_reply_to(testing::proxy& proxy, std::string target) {
  proxy.set_faults(testing::fault_plan({{.what = testing::fault::drop_reply(), .target = std::move(target)}}));
}

asio::awaitable<void> expect_usable(participant& p) {
  slot again = co_await p.sem.acquire();
  BOOST_TEST(again.held());
  co_await again.release();
}

}  // namespace
}  // namespace test
}  // namespace holdfast

using namespace holdfast;
using namespace holdfast::test;

BOOST_AUTO_TEST_SUITE(loss)

ASYNC_TEST_CASE(a_destroyed_session_is_noticed_within_a_second, 30s) {
  agent& a = shared_agent();
  const std::string prefix = unique_prefix("destroyed");
  participant p(ex, a, calm(prefix, 1));
  slot h_slot = co_await p.sem.acquire();
  holder h(ex, std::move(h_slot));
  a.put("/v1/session/destroy/" + sessions(a, prefix).at(0));
  const loss_reason reason = co_await noticed_within_a_second(h);
  BOOST_TEST(reason == loss_reason::session_invalidated);
  co_await expect_final(h);
  let_go(h.held);
  co_await expect_usable(p);
}

/// Returns true if Consul accepts a holder's write after these checks.
asio::awaitable<bool> writes(participant& p, std::vector<consul::txn_operation> guard, std::string key) {
  guard.push_back(consul::txn_operation::set(std::move(key), "done"));
  const consul::txn_reply reply = co_await p.client.transact(std::move(guard));
  co_return reply.applied;
}

ASYNC_TEST_CASE(a_guarded_write_is_refused_from_the_moment_of_the_loss, 30s) {
  agent& a = shared_agent();
  const std::string prefix = unique_prefix("guarded");
  const std::string key = prefix + "-result";
  participant p(ex, a, calm(prefix, 2)), q(ex, a, calm(prefix, 2));
  slot both = co_await p.sem.acquire(2);
  const auto guard = both.fence_checks();
  BOOST_TEST(guard.size() == 4u);
  const bool while_held = co_await writes(p, guard, key);
  BOOST_TEST(while_held);
  // The write is refused before anybody can have noticed the loss, and even if only one of the two slots is gone.
  a.put("/v1/session/destroy/" + sessions(a, prefix).at(1));
  const bool after_the_loss = co_await writes(p, guard, key);
  BOOST_TEST(!after_the_loss);
  const loss_reason reason = co_await both.wait_lost();
  BOOST_TEST(reason == loss_reason::session_invalidated);
  BOOST_CHECK_EXCEPTION(both.fence_checks(), system_error, [](const auto& e) { return e.code() == error::slot_lost; });

  slot next = co_await q.sem.acquire();
  const bool of_the_next = co_await writes(q, next.fence_checks(), key);
  BOOST_TEST(of_the_next);
  const auto old = next.fence_checks();
  co_await next.release();
  BOOST_CHECK_EXCEPTION(next.fence_checks(), system_error, [](const auto& e) { return e.code() == error::not_held; });
  const bool after_the_release = co_await writes(q, old, key);
  BOOST_TEST(!after_the_release);
  BOOST_CHECK_EXCEPTION(slot().fence_checks(), system_error, [](const auto& e) { return e.code() == error::not_held; });
}

/// A session that joins again does not restore the old grant.
ASYNC_TEST_CASE(a_guard_is_of_one_grant, 30s) {
  agent& a = shared_agent();
  const std::string prefix = unique_prefix("one_grant");
  participant p(ex, a, calm(prefix, 1)), q(ex, a, calm(prefix, 1));
  slot first = co_await p.sem.acquire();
  const auto old = first.fence_checks();
  pending<slot> other(ex, q.sem.acquire());
  co_await until("the other one queues", [&] { return contenders(a, prefix).size() == 2; });
  co_await first.release();
  const error_code ec = co_await other.wait();
  BOOST_TEST(!ec);
  slot theirs = other.take();
  co_await theirs.release();
  slot again = co_await p.sem.acquire();
  const bool by_the_old = co_await writes(p, old, prefix + "-result");
  BOOST_TEST(!by_the_old);
  const bool by_the_new = co_await writes(p, again.fence_checks(), prefix + "-result");
  BOOST_TEST(by_the_new);
}

ASYNC_TEST_CASE(a_deleted_prefix_is_noticed_within_a_second, 30s) {
  agent& a = shared_agent();
  const std::string prefix = unique_prefix("deleted");
  participant p(ex, a, calm(prefix, 1));
  slot h_slot = co_await p.sem.acquire();
  holder h(ex, std::move(h_slot));
  a.del("/v1/kv/" + prefix + "/?recurse");
  const loss_reason reason = co_await noticed_within_a_second(h);
  BOOST_TEST(reason == loss_reason::session_invalidated);
  co_await expect_final(h);
  co_await expect_usable(p);
}

ASYNC_TEST_CASE(a_deleted_entry_is_noticed_within_a_second, 30s) {
  agent& a = shared_agent();
  const std::string prefix = unique_prefix("entry");
  participant p(ex, a, calm(prefix, 1));
  slot h_slot = co_await p.sem.acquire();
  holder h(ex, std::move(h_slot));
  a.del("/v1/kv/" + prefix + "/" + contenders(a, prefix).at(0));
  const loss_reason reason = co_await noticed_within_a_second(h);
  BOOST_TEST(reason == loss_reason::session_invalidated);
  let_go(h.held);
  co_await expect_usable(p);
}

ASYNC_TEST_CASE(a_deleted_record_is_noticed_within_a_second, 30s) {
  agent& a = shared_agent();
  const std::string prefix = unique_prefix("record");
  participant p(ex, a, calm(prefix, 1));
  slot h_slot = co_await p.sem.acquire();
  holder h(ex, std::move(h_slot));
  a.del("/v1/kv/" + prefix + "/.lock");
  const loss_reason reason = co_await noticed_within_a_second(h);
  BOOST_TEST(reason == loss_reason::removed);
  let_go(h.held);
  co_await expect_usable(p);
}

ASYNC_TEST_CASE(an_edited_record_is_noticed_within_a_second, 30s) {
  agent& a = shared_agent();
  const std::string prefix = unique_prefix("edited");
  participant p(ex, a, calm(prefix, 2));
  slot gone_slot = co_await p.sem.acquire();
  holder gone(ex, std::move(gone_slot));
  const std::string first = holders(a, prefix).at(0);
  slot stays_slot = co_await p.sem.acquire();
  holder stays(ex, std::move(stays_slot));
  std::vector<std::string> both = holders(a, prefix);
  std::erase(both, first);
  write_key(a, prefix + "/.lock", R"({"Limit":2,"Holders":{")" + both.at(0) + R"(":true}})", semaphore_flags);
  const loss_reason reason = co_await noticed_within_a_second(gone);
  BOOST_TEST(reason == loss_reason::removed);
  co_await expect_final(gone);
  BOOST_TEST(stays.held.held());
  BOOST_TEST(!stays.lost.ready());
  BOOST_TEST(stays.stops == 0);
  co_await expect_usable(p);
}

ASYNC_TEST_CASE(an_edit_that_keeps_the_holder_costs_nothing, 30s) {
  agent& a = shared_agent();
  const std::string prefix = unique_prefix("harmless");
  participant p(ex, a, calm(prefix, 1));
  slot h_slot = co_await p.sem.acquire();
  holder h(ex, std::move(h_slot));
  const std::string value = record(a, prefix);
  for (int i = 0; i < 5; ++i) {
    write_key(a, prefix + "/.lock", value + std::string(static_cast<std::size_t>(i), ' '), semaphore_flags);
    co_await pause(5ms);
  }
  const auto seen = p.client.statistics().requests;
  write_key(a, prefix + "/other", "x");
  co_await until("the watch has looked", [&] { return p.client.statistics().requests > seen; });
  BOOST_TEST(h.held.held());
  BOOST_TEST(!h.lost.ready());
  co_await h.held.release();
  BOOST_TEST(h.stops == 0);  // released, not lost
  const error_code ec = co_await h.lost.wait();
  BOOST_TEST(ec == error::not_held);
}

ASYNC_TEST_CASE(one_of_several_slots_lost_is_all_of_them_lost, 30s) {
  agent& a = shared_agent();
  const std::string prefix = unique_prefix("wide");
  participant p(ex, a, calm(prefix, 3));
  slot wide_slot = co_await p.sem.acquire(2);
  holder wide(ex, std::move(wide_slot));
  const std::string one = holders(a, prefix).at(1);
  slot single_slot = co_await p.sem.acquire();
  holder single(ex, std::move(single_slot));
  a.put("/v1/session/destroy/" + one);
  const loss_reason reason = co_await noticed_within_a_second(wide);
  BOOST_TEST(reason == loss_reason::session_invalidated);
  BOOST_TEST(single.held.held());
  let_go(wide.held);
  slot rest = co_await p.sem.acquire(2);  // the other slot of the lost pair can be used again
  BOOST_TEST(rest.held());
}

ASYNC_TEST_CASE(short_500s_are_ridden_out_when_outage_grace_says_so, 30s) {
  agent& a = shared_agent();
  const std::string prefix = unique_prefix("500s-grace");
  testing::proxy proxy(ex, a.address());
  semaphore_options options = calm(prefix, 1);
  options.tuning.outage_grace = scaled(8s);
  participant p(ex, proxy.address(), options);
  slot h_slot = co_await p.sem.acquire();
  holder h(ex, std::move(h_slot));
  co_await until_watched(proxy);
  for (int outages = 1; outages <= 2; ++outages) {
    const auto before = proxy.statistics().faults;
    begin_500s(proxy);
    co_await until("the watch has failed several times", [&] { return proxy.statistics().faults >= before + 4; });
    BOOST_TEST((h.held.state() == slot_state::suspect));
    BOOST_TEST(h.held.held());
    end_500s(proxy);
    co_await until("the slot is out of doubt", [&] { return h.held.state() != slot_state::suspect; });
    BOOST_TEST((h.held.state() == slot_state::held));
  }
  BOOST_TEST(!h.lost.ready());
  BOOST_TEST(h.stops == 0);
  BOOST_TEST(holders(a, prefix).size() == 1u);

  // The watch works again: what happens now is seen.
  a.put("/v1/session/destroy/" + sessions(a, prefix).at(0));
  const loss_reason reason = co_await noticed_within_a_second(h);
  BOOST_TEST(reason == loss_reason::session_invalidated);
}

ASYNC_TEST_CASE(what_happened_during_an_outage_is_seen_after_it, 30s) {
  agent& a = shared_agent();
  const std::string prefix = unique_prefix("500s-hide");
  testing::proxy proxy(ex, a.address());
  semaphore_options options = calm(prefix, 1);
  options.tuning.outage_grace = scaled(8s);
  participant p(ex, proxy.address(), options);
  slot h_slot = co_await p.sem.acquire();
  holder h(ex, std::move(h_slot));
  co_await until_watched(proxy);
  begin_500s(proxy);
  co_await until("the watch has failed", [&] { return proxy.statistics().faults >= 2; });
  a.put("/v1/session/destroy/" + sessions(a, prefix).at(0));
  co_await pause(20ms);
  BOOST_TEST(h.held.held());  // it cannot know
  end_500s(proxy);
  const bool noticed = co_await happens_within(3s, [&] { return h.lost.ready(); });
  BOOST_REQUIRE(noticed);
  BOOST_TEST(h.lost.value() == loss_reason::session_invalidated);
}

ASYNC_TEST_CASE(short_500s_lose_the_slot_when_there_is_no_grace, 30s) {
  agent& a = shared_agent();
  const std::string prefix = unique_prefix("500s");
  testing::proxy proxy(ex, a.address());
  semaphore_options options = calm(prefix, 1);
  options.tuning.outage_grace = 0ms;
  participant p(ex, proxy.address(), options);
  slot h_slot = co_await p.sem.acquire();
  holder h(ex, std::move(h_slot));
  co_await until_watched(proxy);
  begin_500s(proxy);
  const loss_reason reason = co_await noticed_within_a_second(h);
  BOOST_TEST(reason == loss_reason::watch_failed);
  end_500s(proxy);
  co_await expect_final(h);
  // The process runs, so it releases the slot: by a write of the record, or with its session.
  co_await until("the slot is given back", [&] { return contenders(a, prefix).empty(); });
  co_await expect_usable(p);
}

ASYNC_TEST_CASE(an_outage_longer_than_the_grace_loses_the_slot, 30s) {
  agent& a = shared_agent();
  const std::string prefix = unique_prefix("500s-long");
  testing::proxy proxy(ex, a.address());
  semaphore_options options = calm(prefix, 1);
  options.tuning.outage_grace = 300ms;
  participant p(ex, proxy.address(), options);
  slot h_slot = co_await p.sem.acquire();
  holder h(ex, std::move(h_slot));
  co_await until_watched(proxy);
  const auto begun = clock::now();
  begin_500s(proxy);
  co_await until("it is lost", [&] { return h.lost.ready(); });
  BOOST_TEST((clock::now() - begun >= 300ms));
  BOOST_TEST(h.lost.value() == loss_reason::watch_failed);
  co_await expect_final(h);
}

ASYNC_TEST_CASE(a_cut_connection_is_a_failure_of_the_watch, 30s) {
  agent& a = shared_agent();
  const std::string prefix = unique_prefix("cut");
  testing::proxy proxy(ex, a.address());
  semaphore_options options = calm(prefix, 2);
  options.tuning.outage_grace = 0ms;
  participant brittle(ex, proxy.address(), options);
  options.tuning.outage_grace = scaled(8s);
  participant patient(ex, proxy.address(), options);
  slot one_slot = co_await brittle.sem.acquire();
  holder one(ex, std::move(one_slot));
  slot two_slot = co_await patient.sem.acquire();
  holder two(ex, std::move(two_slot));
  co_await until_watched(proxy, 2);
  proxy.cut();
  const loss_reason reason = co_await noticed_within_a_second(one);
  BOOST_TEST(reason == loss_reason::watch_failed);
  co_await until("the other is out of doubt", [&] { return two.held.state() == slot_state::held; });
  BOOST_TEST(!two.lost.ready());
}

ASYNC_TEST_CASE(the_lease_runs_out_when_the_agent_is_silent, 30s) {
  agent own;
  const std::string prefix = unique_prefix("frozen");
  semaphore_options options = hasty(prefix, 1, 600ms);
  options.tuning.outage_grace = 1h;  // only the lease counts
  std::string log;
  options.log = [&](const std::string& line) { log += line + '\n'; };
  participant p(ex, own, options);
  slot h_slot = co_await p.sem.acquire();
  holder h(ex, std::move(h_slot));
  own.freeze();
  const auto frozen = clock::now();
  co_await until("the renewal is overdue", [&] { return h.held.state() == slot_state::suspect; });
  BOOST_TEST(h.held.held());
  BOOST_TEST(!h.lost.ready());
  co_await until("it is lost", [&] { return h.lost.ready(); });
  BOOST_TEST((clock::now() - frozen < scaled(600ms + 1s)));
  BOOST_TEST(h.lost.value() == loss_reason::lease_expired);
  BOOST_TEST(!h.held.held());
  co_await until("it is logged", [&] { return !log.empty(); });
  BOOST_TEST(log.find("lost: lease_expired") != std::string::npos, log);
  BOOST_TEST(log.find("session_ttl") == std::string::npos, log);

  // Everything that was held back arrives now, renewals included, and revives nothing.
  own.thaw();
  own.wait_until_ready();
  co_await expect_final(h);
  co_await expect_usable(p);
}

ASYNC_TEST_CASE(nobody_believes_past_the_deadline_though_the_context_is_blocked, 30s) {
  agent own;
  const std::string prefix = unique_prefix("blocked");
  semaphore_options options = hasty(prefix, 1, 600ms);
  options.tuning.outage_grace = 1h;
  participant p(ex, own, options);
  slot h_slot = co_await p.sem.acquire();
  holder h(ex, std::move(h_slot));
  own.freeze();
  const auto left = h.held.valid_for();
  BOOST_TEST((left > 0ns));
  BOOST_TEST(h.held.held());
  const auto deadline = clock::now() + left;
  while (clock::now() < deadline) std::this_thread::sleep_until(deadline);  // nothing of ours runs meanwhile
  BOOST_TEST(!h.held.held());
  BOOST_TEST((h.held.valid_for() == 0ns));
  BOOST_TEST((h.held.state() == slot_state::lost));
  BOOST_TEST(!h.lost.ready());  // nobody could tell yet
  own.thaw();
  co_await until("it is told", [&] { return h.lost.ready(); });
  BOOST_TEST(h.lost.value() == loss_reason::lease_expired);
  co_await expect_final(h);
}

/// The process was stopped for longer than its lease, and needs a moment to end. Consul keeps its session for two TTLs,
/// so the slot can be kept from others for that long.
ASYNC_TEST_CASE(a_process_that_was_stopped_ends_before_the_next_one_begins, 30s) {
  agent& a = shared_agent();
  const std::string prefix = unique_prefix("stopped");
  const semaphore_options options = hasty(prefix, 1, 1s);
  const auto ttl = options.session_ttl;
  asio::thread_pool own(1);
  std::atomic<bool> inside = false;
  participant stopped(own.get_executor(), a, options), other(ex, a, options);
  const auto use_slowly = [&]() -> asio::awaitable<bool> {
    slot held = co_await stopped.sem.acquire();
    inside = true;
    std::this_thread::sleep_for(ttl * 12 / 10);  // as SIGSTOP would: nothing of it runs
    const bool was_lost = !held.held();
    co_await pause(ttl * 3 / 10);
    inside = false;
    co_await held.release(as_result);
    co_return was_lost;
  };
  std::future<bool> was_lost = asio::co_spawn(own, use_slowly(), asio::use_future);
  co_await until("it holds", [&] { return inside.load(); });
  slot next = co_await other.sem.acquire();
  BOOST_TEST(!inside);
  BOOST_TEST(next.held());
  let_go(next);
  co_await until("it has ended", [&] { return was_lost.wait_for(0s) == std::future_status::ready; });
  BOOST_TEST(was_lost.get());
  co_await stopped.sem.close();
  own.join();
}

/// The same, when the next holder is a coroutine of the same process.
ASYNC_TEST_CASE(who_has_lost_a_mutex_ends_before_the_next_one_here_begins, 30s) {
  agent& a = shared_agent();
  testing::proxy proxy(ex, a.address());
  mutex_options options = calm(unique_prefix("lost-mutex"));
  options.tuning.outage_grace = 300ms;
  consul::config through;
  through.address = proxy.address();
  const consul::client client(ex, through);
  mutex lock(client, options);
  slot held = co_await lock.lock();
  pending<slot> next(ex, lock.lock());
  co_await until_watched(proxy);
  begin_500s(proxy);
  const loss_reason reason = co_await held.wait_lost();
  BOOST_TEST((reason == loss_reason::watch_failed));
  end_500s(proxy);
  const bool granted = co_await happens_within(1s, [&] { return next.ready(); });
  BOOST_TEST(!granted);
  let_go(held);
  const error_code ec = co_await next.wait();
  BOOST_TEST(!ec);
  BOOST_TEST(next.value().held());
  let_go(next.take());
}

ASYNC_TEST_CASE(a_late_renewal_revives_nothing, 30s) {
  agent& a = shared_agent();
  const std::string prefix = unique_prefix("late-renewal");
  testing::proxy proxy(ex, a.address());
  semaphore_options options = hasty(prefix, 1, 800ms);
  options.tuning.outage_grace = 1h;
  options.tuning.request_timeout = 5s;  // far longer than the lease: the reply will be accepted
  options.tuning.lease_margin = options.session_ttl / 2;
  participant p(ex, proxy.address(), options);
  slot h_slot = co_await p.sem.acquire();
  holder h(ex, std::move(h_slot));
  co_await until_watched(proxy);
  proxy.freeze();
  co_await until("a renewal is under way", [&] { return proxy.statistics().frozen >= 1; });
  co_await until("it is lost", [&] { return h.lost.ready(); });
  BOOST_TEST(h.lost.value() == loss_reason::lease_expired);
  const auto before = proxy.statistics().requests;
  proxy.thaw();
  co_await until("the requests that were kept back are through", [&] { return proxy.statistics().frozen == 0; });
  co_await until("its session is destroyed", [&] { return sessions(a, prefix).empty(); });
  BOOST_TEST(proxy.statistics().requests >= before);
  BOOST_TEST(!h.held.held());
  BOOST_TEST((h.held.state() == slot_state::lost));
  co_await expect_final(h);
  co_await expect_usable(p);
}

ASYNC_TEST_CASE(renewals_keep_a_slot_far_longer_than_the_ttl, 30s) {
  agent& a = shared_agent();
  const std::string prefix = unique_prefix("renewed");
  participant p(ex, a, hasty(prefix, 1, 500ms));
  participant q(ex, a, hasty(prefix, 1, 500ms));
  slot h_slot = co_await p.sem.acquire();
  holder h(ex, std::move(h_slot));
  const auto begun = clock::now();
  slot none = co_await q.sem.try_acquire_for(scaled(2500ms));
  BOOST_TEST(!none.valid());
  BOOST_TEST((clock::now() - begun >= scaled(2500ms)));
  BOOST_TEST(h.held.held());
  BOOST_TEST(!h.lost.ready());
}

ASYNC_TEST_CASE(who_waits_survives_an_outage_and_is_served_after_it, 30s) {
  agent& a = shared_agent();
  const std::string prefix = unique_prefix("waiter-500s");
  testing::proxy proxy(ex, a.address());
  semaphore_options options = calm(prefix, 1);
  options.tuning.give_up_after = scaled(20s);
  participant p(ex, proxy.address(), options);
  participant q(ex, a, calm(prefix, 1));
  slot held = co_await q.sem.acquire();
  pending<slot> waiting(ex, p.sem.acquire());
  co_await until("it waits", [&] { return contenders(a, prefix).size() == 2; });
  begin_500s(proxy);
  co_await until("the watch has failed", [&] { return proxy.statistics().faults >= 3; });
  BOOST_TEST(!waiting.ready());
  co_await held.release();  // grants it, while it cannot see
  BOOST_TEST(holders(a, prefix).size() == 1u);
  end_500s(proxy);
  const error_code ec = co_await waiting.wait();
  BOOST_TEST(!ec);
  BOOST_TEST(waiting.value().held());
}

ASYNC_TEST_CASE(who_waits_gives_up_when_the_agent_stays_away, 30s) {
  agent& a = shared_agent();
  const std::string prefix = unique_prefix("waiter-gives-up");
  testing::proxy proxy(ex, a.address());
  semaphore_options options = calm(prefix, 1);
  options.tuning.give_up_after = 400ms;
  participant p(ex, proxy.address(), options);
  begin_500s(proxy);
  diagnostics words;
  const acquire_options asked{.diag = &words};
  auto [ec, none] = co_await p.sem.acquire(asked, as_result);
  BOOST_TEST(ec == error::server_error);
  BOOST_TEST((ec == condition::unavailable));
  BOOST_TEST(words.server_message == agent_trouble);
  BOOST_TEST(words.message.find("500") != std::string::npos);
  end_500s(proxy);
  co_await expect_usable(p);
  co_await p.sem.close();
  BOOST_TEST(is_clean(a, prefix));
}

// ---- writes of which nobody knows whether they were applied

ASYNC_TEST_CASE(an_acquire_whose_reply_is_lost_gets_its_slot_and_leaks_none, 60s) {
  agent& a = shared_agent();
  const std::string prefix = unique_prefix("lost-acquire");
  testing::proxy proxy(ex, a.address());
  participant p(ex, proxy.address(), calm(prefix, 1));
  for (int i = 0; i < 5; ++i) {
    lose_reply_to(proxy, "/v1/txn");
    slot held = co_await p.sem.acquire();
    BOOST_TEST(held.held());
    BOOST_TEST(proxy.statistics().faults == static_cast<std::uint64_t>(i + 1));
    co_await until("one holder is left", [&] { return holders(a, prefix).size() == 1; });
    co_await until("one entry is left", [&] { return contenders(a, prefix).size() == 1; });
    co_await until("its session is there", [&] { return holders(a, prefix) == sessions(a, prefix); });
    co_await held.release();
  }
  co_await p.sem.close();
  BOOST_TEST(is_clean(a, prefix));
}

ASYNC_TEST_CASE(a_release_whose_reply_is_lost_gives_the_slot_back, 60s) {
  agent& a = shared_agent();
  const std::string prefix = unique_prefix("lost-release");
  testing::proxy proxy(ex, a.address());
  participant p(ex, proxy.address(), calm(prefix, 1));
  for (int i = 0; i < 5; ++i) {
    slot held = co_await p.sem.acquire();
    lose_reply_to(proxy, "/v1/txn");
    auto [ec] = co_await held.release(as_result);
    BOOST_TEST((!ec || ec == condition::outcome_unknown));
    BOOST_TEST(proxy.statistics().faults == static_cast<std::uint64_t>(i + 1));
    co_await until("nobody holds", [&] { return holders(a, prefix).empty() && contenders(a, prefix).empty(); });
  }
  co_await p.sem.close();
  BOOST_TEST(is_clean(a, prefix));
}

ASYNC_TEST_CASE(a_session_whose_creation_is_in_doubt_does_not_stop_an_acquire, 60s) {
  agent& a = shared_agent();
  const std::string prefix = unique_prefix("lost-session");
  testing::proxy proxy(ex, a.address());
  participant p(ex, proxy.address(), calm(prefix, 1));
  lose_reply_to(proxy, "/v1/session/create");
  slot held = co_await p.sem.acquire();
  BOOST_TEST(held.held());
  BOOST_TEST(proxy.statistics().faults == 1u);
  BOOST_TEST(holders(a, prefix).size() == 1u);
}

ASYNC_TEST_CASE(closing_while_the_agent_is_silent_ends_in_its_time, 30s) {
  agent& a = shared_agent();
  const std::string prefix = unique_prefix("close-silent");
  testing::proxy proxy(ex, a.address());
  semaphore_options options = hasty(prefix, 1, 1s);
  options.tuning.give_up_after = 500ms;
  participant p(ex, proxy.address(), options);
  slot h_slot = co_await p.sem.acquire();
  holder h(ex, std::move(h_slot));
  proxy.freeze();
  auto [ec] = co_await p.sem.close(as_result);
  BOOST_TEST(ec == error::timed_out);
  const error_code told = co_await h.lost.wait();
  BOOST_TEST(!told);
  BOOST_TEST(h.lost.value() == loss_reason::closed);
  proxy.cut();
  co_await until("the session has expired", [&] { return sessions(a, prefix).empty(); });
}

BOOST_AUTO_TEST_SUITE_END()
