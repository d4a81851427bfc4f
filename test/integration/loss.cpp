// SPDX-FileCopyrightText: The holdfast authors
// SPDX-License-Identifier: BSL-1.0

// When is a slot not ours any more? Ways to lose a slot, and how soon the holder knows.

#include <boost/test/unit_test.hpp>
#include <stop_token>

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

ASYNC_TEST_CASE(the_lease_runs_out_when_the_agent_is_silent, 30s) {
  agent own;
  const std::string prefix = unique_prefix("frozen");
  semaphore_options options = hasty(prefix, 1, 600ms);
  options.tuning.outage_grace = 1h;  // only the lease counts
  std::string log;
  options.log = [&](const holdfast::log_event& event) { log += event.text() + '\n'; };
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

BOOST_AUTO_TEST_SUITE_END()
