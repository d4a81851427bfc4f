// SPDX-FileCopyrightText: The holdfast authors
// SPDX-License-Identifier: BSL-1.0

// The lock delay: for some time after a session's end, nobody gets the locks that it had.

#include <chrono>
#include <string>
#include <thread>

#include "conformance/support/fact.hpp"

using namespace std::chrono_literals;
using holdfast::test::op;
using holdfast::test::peer;
using clock_type = std::chrono::steady_clock;

namespace {

constexpr auto long_delay = "60s";  // it does not end within a test

// A session with this delay and this behavior takes the key and is destroyed.
void lose(peer& consul, const std::string& key, const boost::json::value& delay, const char* behavior = "release") {
  const auto id = consul.session({{"LockDelay", delay}, {"Behavior", behavior}});
  BOOST_REQUIRE(consul.put(key + "?acquire=" + id, "v").said() == "200 true");
  consul.destroy(id);
}

std::string acquired(peer& consul, const std::string& key) {
  return consul.put(key + "?acquire=" + consul.session(), "w").said();
}

// Nothing reports the end of a delay, so this asks until it is over.
void acquire_at_last(peer& consul, const std::string& key) {
  const auto id = consul.session();
  const auto end = clock_type::now() + 20s;
  while (consul.put(key + "?acquire=" + id, "w").said() == "200 false") {
    BOOST_REQUIRE(clock_type::now() < end);
    std::this_thread::sleep_for(2ms);
  }
  BOOST_TEST(consul.read(key).session == id);
}

}  // namespace

BOOST_AUTO_TEST_SUITE(lock_delay)

FACT(after_a_session_was_destroyed_its_key_cannot_be_acquired) {
  lose(consul, "a", long_delay);
  BOOST_TEST(acquired(consul, "a") == "200 false");
  BOOST_TEST(consul.read("a").session == "");
}

FACT(a_transaction_says_that_it_is_the_lock_delay) {
  lose(consul, "a", long_delay);
  const auto outcome = consul.txn({op("lock", "a").session(consul.session()).value("w")});
  BOOST_TEST(outcome.status == 409);
  BOOST_REQUIRE(outcome.errors.size() == 1u);
  BOOST_TEST(outcome.errors[0] == "0: failed to lock key \"" + consul.prefix() + "a\" due to lock delay");
}

FACT(the_delay_goes_before_all_other_errors_of_a_transaction) {
  lose(consul, "a", long_delay);
  const auto outcome =
      consul.txn({op("get", "none"), op("lock", "a").session(consul.session()), op("check-not-exists", "a")});
  BOOST_REQUIRE(outcome.errors.size() == 1u);
  BOOST_TEST(outcome.errors[0] == "1: failed to lock key \"" + consul.prefix() + "a\" due to lock delay");
}

FACT(puts_cas_and_deletions_do_not_care_for_the_delay) {
  lose(consul, "a", long_delay);
  BOOST_TEST(consul.put("a", "w").said() == "200 true");
  BOOST_TEST(consul.put("a?cas=" + std::to_string(consul.read("a").modified), "x").said() == "200 true");
  BOOST_TEST(consul.txn({op("set", "a").value("y")}).status == 200);
  BOOST_TEST(consul.del("a").said() == "200 true");
}

FACT(it_outlives_the_deletion_of_the_key) {
  lose(consul, "a", long_delay);
  consul.del("a");
  BOOST_TEST(acquired(consul, "a") == "200 false");
  BOOST_TEST(!consul.exists("a"));
  consul.put("a", "w");
  BOOST_TEST(acquired(consul, "a") == "200 false");
}

FACT(it_holds_for_sessions_of_behavior_delete_too) {
  lose(consul, "a", long_delay, "delete");
  BOOST_TEST(!consul.exists("a"));
  BOOST_TEST(acquired(consul, "a") == "200 false");
}

FACT(it_holds_for_the_keys_of_the_session_only) {
  lose(consul, "a", long_delay);
  BOOST_TEST(acquired(consul, "b") == "200 true");
  BOOST_TEST(acquired(consul, "a/b") == "200 true");
}

FACT(release_leaves_no_delay) {
  const auto id = consul.session({{"LockDelay", long_delay}});
  consul.put("a?acquire=" + id, "v");
  consul.put("a?release=" + id, "v");
  BOOST_TEST(acquired(consul, "a") == "200 true");
}

FACT(a_key_that_was_released_before_the_session_ended_has_no_delay) {
  const auto id = consul.session({{"LockDelay", long_delay}});
  consul.put("a?acquire=" + id, "v");
  consul.put("a?release=" + id, "v");
  consul.destroy(id);
  BOOST_TEST(acquired(consul, "a") == "200 true");
}

FACT(a_key_that_was_deleted_before_the_session_ended_has_no_delay) {
  const auto id = consul.session({{"LockDelay", long_delay}});
  consul.put("a?acquire=" + id, "v");
  consul.del("a");
  consul.destroy(id);
  BOOST_TEST(acquired(consul, "a") == "200 true");
}

FACT(a_delay_of_0_is_none) {
  for (const boost::json::value& none : {boost::json::value("0s"), boost::json::value(0)}) {
    lose(consul, "a", none);
    BOOST_TEST(acquired(consul, "a") == "200 true");
    consul.del("a");
  }
}

FACT(it_is_over_after_its_time_and_not_before) {
  const auto id = consul.session({{"LockDelay", "150ms"}});
  consul.put("a?acquire=" + id, "v");
  const auto before = clock_type::now();
  consul.destroy(id);
  acquire_at_last(consul, "a");
  BOOST_TEST((clock_type::now() - before >= 150ms));
}

FACT(it_begins_when_a_session_expires) {
  const auto before = clock_type::now();
  const auto id = consul.brief_session_with("a", {{"LockDelay", "100ms"}});
  consul.wait_for_end(id);
  acquire_at_last(consul, "a");
  BOOST_TEST((clock_type::now() - before >= 200ms));  // twice the TTL, and the delay
}

FACT(a_session_that_expired_leaves_its_delay) {
  const auto id = consul.brief_session_with("a", {{"LockDelay", long_delay}, {"Behavior", "delete"}});
  consul.wait_for_end(id);
  BOOST_TEST(!consul.exists("a"));
  BOOST_TEST(acquired(consul, "a") == "200 false");
}

FACT(the_delay_is_15_seconds_unless_given) {
  const auto made = consul.create_session(R"({"Checks":[]})");
  const std::string id(made.json().at("ID").as_string());
  BOOST_TEST(consul.session_info(id).at("LockDelay") == 15'000'000'000);
  consul.put("a?acquire=" + id, "v");
  consul.destroy(id);
  BOOST_TEST(acquired(consul, "a") == "200 false");
}

FACT(a_number_below_1000_means_seconds_and_another_one_nanoseconds) {
  const auto delay_of = [&](const boost::json::value& given) {
    return consul.session_info(consul.session({{"LockDelay", given}})).at("LockDelay");
  };
  BOOST_TEST(delay_of(5) == 5'000'000'000);
  BOOST_TEST(delay_of(999) == 999'000'000'000);
  BOOST_TEST(delay_of(1000) == 1000);
  BOOST_TEST(delay_of(20'000'000) == 20'000'000);
}

FACT(a_delay_may_be_a_fraction_or_have_several_units) {
  const auto delay_of = [&](const char* given) {
    return consul.session_info(consul.session({{"LockDelay", given}})).at("LockDelay");
  };
  BOOST_TEST(delay_of("1.5s") == 1'500'000'000);
  BOOST_TEST(delay_of("1m1s") == 61'000'000'000);
  BOOST_TEST(delay_of("2000us") == 2'000'000);
  BOOST_TEST(delay_of("5ns") == 5'000'000'000);
}

FACT(a_delay_that_is_no_duration_is_refused) {
  BOOST_TEST(consul.create_session(R"({"LockDelay":"abc"})").complaint() ==
             "400 Request decode failed: time: invalid duration \"abc\"");
}

BOOST_AUTO_TEST_SUITE_END()
