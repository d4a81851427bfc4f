// SPDX-FileCopyrightText: The holdfast authors
// SPDX-License-Identifier: BSL-1.0

// The TTL of a session: its bounds, its expiry, and what postpones that. The agents of these tests allow 10 ms.

#include <algorithm>
#include <chrono>
#include <string>

#include "conformance/support/fact.hpp"

using namespace std::chrono_literals;
using holdfast::test::peer;
using clock_type = std::chrono::steady_clock;

namespace {

std::string refused(peer& consul, const char* ttl) {
  return consul.create_session("{\"TTL\":\"" + std::string(ttl) + "\"}").said();
}

std::string ttl_of(peer& consul, const char* given) {
  return std::string(consul.session_info(consul.session({{"TTL", given}})).at("TTL").as_string());
}

}  // namespace

BOOST_AUTO_TEST_SUITE(ttl)

FACT(a_ttl_below_the_minimum_is_refused) {
  BOOST_TEST(refused(consul, "9ms") == "500 Invalid Session TTL '9000000', must be between [10ms=24h0m0s]");
}

FACT(a_ttl_above_a_day_is_refused) {
  BOOST_TEST(refused(consul, "24h0m1s") == "500 Invalid Session TTL '86401000000000', must be between [10ms=24h0m0s]");
}

FACT(a_negative_ttl_is_refused) {
  BOOST_TEST(refused(consul, "-1s") == "500 Invalid Session TTL '-1000000000', must be between [10ms=24h0m0s]");
}

FACT(the_bounds_themselves_are_accepted) {
  BOOST_TEST(consul.create_session(R"({"TTL":"24h"})").status == 200);
  BOOST_TEST(consul.create_session(R"({"TTL":"10ms"})").status == 200);
}

FACT(a_ttl_that_is_no_duration_is_refused) {
  BOOST_TEST(refused(consul, "abc") == "500 Session TTL 'abc' invalid: time: invalid duration \"abc\"");
  BOOST_TEST(refused(consul, "30") == "500 Session TTL '30' invalid: time: missing unit in duration \"30\"");
  BOOST_TEST(refused(consul, "3x") == "500 Session TTL '3x' invalid: time: unknown unit \"x\" in duration \"3x\"");
}

// Consul shows a TTL as it was written, for example "30000ms". The model always shows this form.
FACT(a_ttl_is_shown_in_hours_minutes_and_seconds) {
  for (const auto* given : {"", "30s", "1h0m0s", "1m30s", "50ms"}) BOOST_TEST(ttl_of(consul, given) == given);
}

FACT(a_ttl_of_0_is_none) {
  for (const auto* none : {"0s", "0", "-0s"}) {
    const auto reply = consul.create_session(R"({"TTL":")" + std::string(none) + R"("})");
    BOOST_TEST(reply.status == 200);
  }
}

FACT(a_session_that_nobody_renews_ends_and_not_before_its_ttl) {
  const auto before = clock_type::now();
  const auto id = consul.session({{"TTL", "100ms"}});
  consul.wait_for_end(id);
  BOOST_TEST((clock_type::now() - before >= 100ms));
}

FACT(a_session_lives_for_twice_its_ttl) {
  const auto before = clock_type::now();
  const auto id = consul.session({{"TTL", "100ms"}});
  consul.wait_for_end(id);
  BOOST_TEST((clock_type::now() - before >= 200ms));
}

FACT(renewing_puts_the_end_off) {
  for (;;) {
    const auto begin = clock_type::now();
    const auto id = consul.session({{"TTL", "250ms"}});
    auto renewed = begin;
    clock_type::duration longest{};
    bool lives = true;
    while (lives && clock_type::now() < begin + 600ms) {
      lives = consul.renew(id).status == 200;
      longest = std::max(longest, clock_type::now() - renewed);
      renewed = clock_type::now();
    }
    lives = lives && consul.info(id).size() > 0u;
    longest = std::max(longest, clock_type::now() - renewed);
    if (!lives && longest >= 500ms) continue;  // a busy machine came too late with a renewal: the session had to end
    BOOST_TEST(lives);
    return;
  }
}

FACT(renewing_gives_the_full_time_again) {
  const auto id = consul.session({{"TTL", "100ms"}});
  const auto renewed = clock_type::now();
  consul.renew(id);
  consul.wait_for_end(id);
  BOOST_TEST((clock_type::now() - renewed >= 200ms));
}

FACT(using_a_session_does_not_renew_it) {
  const auto id = consul.session({{"TTL", "100ms"}});
  const auto end = clock_type::now() + 20s;
  auto reply = consul.put("a?acquire=" + id, "v");
  while (reply.said() == "200 true" && clock_type::now() < end) {
    consul.info(id);
    reply = consul.put("a?acquire=" + id, "v");
  }
  BOOST_TEST(reply.said() == consul.write_failed() + "invalid session \"" + id + '"');
}

FACT(an_expired_session_cannot_be_renewed) {
  const auto id = consul.session({{"TTL", "20ms"}});
  consul.wait_for_end(id);
  BOOST_TEST(consul.renew(id).said() == "404 Session id '" + id + "' not found");
}

FACT(an_expired_session_releases_its_keys_and_wakes_who_watches_them) {
  consul.put("a", "");
  const auto before = consul.index("a");
  const auto id = consul.brief_session_with("a");
  const auto woken = consul.follow(consul.target("a"), before, [&](const auto& reply) {
    const auto a = reply.first();
    return a.locked == 1u && a.session != id;
  });
  BOOST_TEST(woken.first().session == "");
  BOOST_TEST(consul.info(id).said() == "200 []");
}

FACT(an_expired_session_of_behavior_delete_deletes_its_keys_and_wakes_who_watches_them) {
  consul.put("a", "");
  const auto before = consul.index("a");
  consul.brief_session_with("a", {{"Behavior", "delete"}});
  const auto woken = consul.follow(consul.target("a"), before, [](const auto& reply) { return reply.status != 200; });
  BOOST_TEST(woken.said() == "404 ");
}

FACT(an_expiry_wakes_who_watches_the_prefix) {
  consul.put("b", "v");
  const auto before = consul.index("?recurse");
  consul.brief_session_with("a", {{"Behavior", "delete"}});
  // Only the expiry leaves one key at a later index.
  const auto woken =
      consul.follow(consul.target("?recurse"), before, [](const auto& reply) { return reply.size() == 1u; });
  BOOST_TEST(woken.index() > before);
}

FACT(sessions_expire_each_by_itself) {
  const auto brief = consul.session({{"TTL", "50ms"}}), lasting = consul.session({{"TTL", "60s"}});
  consul.wait_for_end(brief);
  BOOST_TEST(consul.renew(lasting).status == 200);
}

BOOST_AUTO_TEST_SUITE_END()
