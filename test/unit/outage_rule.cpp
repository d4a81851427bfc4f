// SPDX-FileCopyrightText: The holdfast authors
// SPDX-License-Identifier: BSL-1.0

#include "protocol/pool/outage_rule.hpp"

#include <boost/test/unit_test.hpp>
#include <chrono>
#include <string>
#include <utility>
#include <variant>

// The rule for acquires during an outage: which acquires fail, and when.

using namespace holdfast;
using namespace holdfast::protocol;
using namespace std::chrono_literals;

BOOST_AUTO_TEST_SUITE(outage_rule)

namespace {

pool_options patient() {
  pool_options o;
  o.ttl = 15s;
  o.watch_wait = 60s;
  o.give_up_after = 10s;
  o.limit = 1;
  return o;
}

struct world {
  time_point now{1h};
  context ctx{1};
  core_actions out;
  pool_parts parts{patient()};
  protocol::outage_rule rule;
  std::uint64_t tickets = 0;

  void waiter_comes() { parts.waiters.push({ticket{++tickets}, {}, now, 0, 0}); }
  void reads_fail() {
    ctx.begin(now, out);
    parts.read.failed(ctx, {error::timed_out, {}});
  }
  /// How many acquires fail now.
  std::size_t fail(bool concerns_waiters = true) {
    out.clear();
    ctx.begin(now, out);
    ctx.forget_times();
    rule.check(ctx, parts, concerns_waiters);
    ctx.end();
    for (const core_action& each : out) BOOST_TEST(std::holds_alternative<action::fail>(each));
    return out.size();
  }
  /// A session of ours, which stands in the queue and was shown waiting just now.
  member& our_session() {
    ctx.begin(now, out);
    const member_id id = parts.members.create(ctx).id;
    event::session_created e{id, "s1", {}};
    parts.members.answered(ctx, e, false);
    ctx.end();
    member& m = parts.members[id];
    m.standing.go_to(standing::waiting);
    m.had_no_grant(now);
    return m;
  }
};

}  // namespace

BOOST_FIXTURE_TEST_CASE(an_acquire_fails_when_it_has_waited_for_long_during_the_outage, world) {
  waiter_comes();
  now += 5s;
  reads_fail();
  waiter_comes();
  BOOST_TEST(fail() == 0u);
  BOOST_TEST((ctx.wake() == now + 10s));
  now += 1s;
  waiter_comes();
  now += 9s;
  BOOST_TEST(fail() == 2u);
  BOOST_TEST((ctx.wake() == now + 1s));
  now += 1s;
  BOOST_TEST(fail() == 1u);
  BOOST_TEST(parts.waiters.empty());
}

BOOST_FIXTURE_TEST_CASE(no_acquire_fails_while_its_slot_can_come_from_here, world) {
  waiter_comes();
  reads_fail();
  now += 1min;
  BOOST_TEST(fail(false) == 0u);
  BOOST_TEST(fail() == 1u);
}

BOOST_FIXTURE_TEST_CASE(a_place_in_the_queue_protects_the_acquires_while_its_lease_lasts, world) {
  const member& ours = our_session();
  const time_point until = ours.lease.deadline();
  waiter_comes();
  reads_fail();
  now = until - 1ms;
  BOOST_TEST(fail() == 0u);
  BOOST_TEST((ctx.wake() == until));
  now = until;
  BOOST_TEST(fail() == 1u);
}

BOOST_FIXTURE_TEST_CASE(the_outage_counts_for_whoever_has_just_lost_the_place, world) {
  reads_fail();
  waiter_comes();
  now += 11s;
  rule.lost_place(parts);
  parts.read.works();  // Consul answers again, but the place is lost
  BOOST_TEST(fail() == 1u);
  waiter_comes();
  now += 1min;
  BOOST_TEST(fail() == 0u);  // the outage counts once
}

BOOST_FIXTURE_TEST_CASE(a_request_without_an_answer_counts_after_a_moment_more, world) {
  waiter_comes();
  ctx.begin(now, out);
  parts.read.everything(ctx, "p/", false);
  ctx.end();
  BOOST_TEST(fail() == 0u);
  now += 10s;
  BOOST_TEST(fail() == 0u);  // the answer may have arrived and not been read yet
  BOOST_TEST((ctx.wake() == now + 1s));
  now += 1s;
  BOOST_TEST(fail() == 1u);
}

BOOST_AUTO_TEST_SUITE_END()
