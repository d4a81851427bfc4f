// SPDX-FileCopyrightText: The holdfast authors
// SPDX-License-Identifier: BSL-1.0

#include "protocol/administration/command_run.hpp"

#include <boost/test/unit_test.hpp>
#include <string>
#include <vector>

using namespace holdfast;
using namespace holdfast::protocol;
using namespace std::chrono_literals;

BOOST_AUTO_TEST_SUITE(command_run)

namespace {

const std::string prefix = "service/s/";
const std::string lock_key = "service/s/.lock";
const std::string one = "11111111-0000-4000-8000-000000000000";

failure failed_with(error_code code, std::string text = "why") { return {code, {std::move(text), {}, {}, {}}}; }

event::prefix_listed record_of(lock_record record, std::uint64_t index, std::vector<std::string> live = {}) {
  event::prefix_listed seen{0, {{lock_key, format(record), semaphore_flags, {}, 5, index, 0}}, index};
  for (const std::string& each : live) seen.listing.push_back({prefix + each, "who", contender_magic, each, 6, 6, 1});
  return seen;
}
event::prefix_listed no_answer(error_code code) { return {0, {}, 0, failed_with(code)}; }

event::txn_done applied() { return {0, event::outcome::applied}; }
event::txn_done refused(event::refusal reason = event::refusal::conflict) {
  return {0, event::outcome::refused, {}, {{0, reason}}};
}
event::txn_done lost() { return {0, event::outcome::unknown, {}, {}, failed_with(error::timed_out)}; }
event::txn_done not_sent() { return {0, event::outcome::not_sent, {}, {}, failed_with(error::unreachable)}; }

/// A run on a clock of its own.
struct story {
  explicit story(command what) : run(complete(std::move(what)), 1, now), next(run.begin(now)) {}

  static command complete(command what) {
    what.prefix = prefix;
    what.lock_key = lock_key;
    if (what.time == duration()) what.time = 10s;
    return what;
  }
  template <class Step>
  Step& is() {
    BOOST_REQUIRE(std::holds_alternative<Step>(next));
    return std::get<Step>(next);
  }
  story& sees(event::prefix_listed seen) {
    is<command_step::read>();
    next = run.read_done(std::move(seen), now);
    return *this;
  }
  story& writes(event::txn_done outcome) {
    is<command_step::write>();
    next = run.written(std::move(outcome), now);
    return *this;
  }
  story& rests() {
    now += is<command_step::pause>().time;
    next = run.rested(now);
    return *this;
  }
  error_code ends_with() { return is<command_step::done>().why.code; }

  time_point now{};
  protocol::command_run run;
  next_step next;
};

command resize_to(std::uint32_t limit) {
  command what;
  what.next = [limit](const inspection& s, const command_history&) { return protocol::resize(s, limit); };
  return what;
}

command wait_for(duration longest) {
  command what;
  what.next = [](const inspection& s, const command_history& past) { return protocol::drain(s, past.is_first_read); };
  what.waits = longest;
  return what;
}

const lock_record two{record_form::map, 2, {}};
const lock_record three{record_form::map, 3, {}};
const lock_record held{record_form::map, 2, {one}};

}  // namespace

BOOST_AUTO_TEST_CASE(it_looks_writes_and_is_done) {
  story s(resize_to(3));
  BOOST_TEST(s.is<command_step::read>().index == 0u);
  BOOST_TEST((s.is<command_step::read>().within == 5s));
  s.sees(record_of(two, 7));
  BOOST_TEST(s.is<command_step::write>().operations.front().index == 7u);
  BOOST_TEST(!s.writes(applied()).ends_with());
}

/// A contender that joins between the read and the write sees a full record, and waits.
BOOST_AUTO_TEST_CASE(who_has_joined_unseen_is_granted_by_a_second_write_unless_others_have_written) {
  const std::string two = "22222222-0000-4000-8000-000000000000";
  for (const bool is_beaten : {false, true}) {
    story s(resize_to(2));
    s.sees(record_of({record_form::map, 1, {one}}, 7, {one}));
    BOOST_TEST((s.is<command_step::write>().operations.back() == kv_operation{kv_verb::get_tree, prefix}));
    event::txn_done done = applied();
    done.results.push_back({lock_key, {}, semaphore_flags, {}, 5, 9, 0});
    for (kv_entry& each : record_of({record_form::map, 2, {one}}, 9, {one, two}).listing)
      done.results.push_back(std::move(each));
    s.writes(std::move(done));
    const auto& operations = s.is<command_step::write>().operations;
    BOOST_REQUIRE(operations.size() == 3u);
    BOOST_TEST(operations[1].key == prefix + two);
    BOOST_TEST(!s.writes(is_beaten ? refused() : applied()).ends_with());
  }
}

BOOST_AUTO_TEST_CASE(what_cannot_be_done_anyhow_asks_nothing) {
  command what = resize_to(0);
  what.limit = 0;
  BOOST_TEST((story(what).ends_with() == error::invalid_limit));
}

BOOST_AUTO_TEST_CASE(what_is_cancelled_in_a_pause_says_what_was_wrong_before) {
  story s(resize_to(3));
  s.sees(no_answer(error::unreachable)).is<command_step::pause>();
  s.next = s.run.cancelled(make_error_code(error::timed_out));
  BOOST_TEST((s.ends_with() == error::timed_out));
  BOOST_TEST(s.is<command_step::done>().why.details.message == "why");
}

BOOST_AUTO_TEST_CASE(what_is_as_ordered_needs_no_write) {
  BOOST_TEST(!story(resize_to(3)).sees(record_of(three, 7)).ends_with());
}

BOOST_AUTO_TEST_CASE(whoever_was_beaten_looks_again_soon) {
  story s(resize_to(3));
  s.sees(record_of(two, 7)).writes(refused());
  BOOST_TEST((s.is<command_step::pause>().time <= 20ms));
  BOOST_TEST(!s.rests().sees(record_of(two, 9)).writes(applied()).ends_with());
}

BOOST_AUTO_TEST_CASE(it_gives_up_after_so_many_attempts_in_a_row) {
  command what = resize_to(3);
  what.attempts_max = 3;
  story s(what);
  for (std::uint64_t index : {7, 8}) s.sees(record_of(two, index)).writes(refused()).rests();
  s.sees(record_of(two, 9)).writes(refused());
  BOOST_TEST((s.ends_with() == error::transaction_conflict));
}

BOOST_AUTO_TEST_CASE(a_write_without_an_answer_is_looked_for) {
  story s(resize_to(3));
  s.sees(record_of(two, 7)).writes(lost()).rests();
  BOOST_TEST(!s.sees(record_of(three, 8)).ends_with());
}

/// A proxy may repeat a request. The reply is that to the second one, which the first one has made stale.
BOOST_AUTO_TEST_CASE(a_revocation_that_is_sent_twice_is_carried_out) {
  command what;
  what.next = [](const inspection& s, const command_history& past) {
    return protocol::revoke(s, one, past.is_first_read);
  };
  story s(what);
  s.sees(record_of(held, 7, {one})).writes(refused()).rests();
  BOOST_TEST(!s.sees(record_of(two, 9)).ends_with());
  BOOST_TEST((story(what).sees(record_of(two, 9)).ends_with() == error::not_held));
}

/// A failure must not say "not applied" where an earlier write may have been.
BOOST_AUTO_TEST_CASE(a_doubt_outlasts_a_later_failure) {
  command what = resize_to(3);
  what.attempts_max = 2;
  story s(what);
  s.sees(record_of(two, 7)).writes(lost()).rests().sees(record_of(two, 7)).writes(not_sent());
  BOOST_TEST((s.ends_with() == error::timed_out));

  story without_doubt(what);
  without_doubt.sees(record_of(two, 7)).writes(not_sent()).rests().sees(record_of(two, 7)).writes(not_sent());
  BOOST_TEST((without_doubt.ends_with() == error::unreachable));
}

BOOST_AUTO_TEST_CASE(what_the_token_may_not_write_is_not_tried_again) {
  story s(resize_to(3));
  s.sees(record_of(two, 7)).writes(refused(event::refusal::permission_denied));
  BOOST_TEST((s.ends_with() == error::permission_denied));
}

BOOST_AUTO_TEST_CASE(an_outage_lasts_as_long_as_the_order_at_most) {
  command what = resize_to(3);
  what.time = 1s;
  what.attempts_max = 1000;
  story s(what);
  while (std::holds_alternative<command_step::read>(s.next)) {
    BOOST_TEST((s.is<command_step::read>().within <= 1s));
    s.sees(no_answer(error::unreachable));
    if (std::holds_alternative<command_step::pause>(s.next)) s.rests();
  }
  BOOST_TEST((s.ends_with() == error::unreachable));
  BOOST_TEST((s.now - time_point() < 1s));
}

BOOST_AUTO_TEST_CASE(what_is_gone_after_a_write_without_an_answer_is_counted_as_removed) {
  command what;
  what.next = [](const inspection& s, const command_history&) { return protocol::sweep(s); };
  story s(what);
  s.sees(record_of(held, 7)).writes(lost()).rests();
  BOOST_TEST(!s.sees(record_of(two, 8)).ends_with());
  BOOST_TEST(s.run.removed().holders == 1u);
}

BOOST_AUTO_TEST_CASE(an_eviction_ends_the_session_and_then_takes_it_out) {
  command what;
  what.next = [](const inspection& s, const command_history& past) {
    return protocol::evict(s, one, past.is_first_read);
  };
  story s(what);
  s.sees(record_of(held, 7, {one}));
  BOOST_TEST(s.is<command_step::end_session>().session == one);
  s.next = s.run.session_ended({}, s.now);
  BOOST_TEST(!s.sees(record_of(held, 8)).writes(applied()).ends_with());
}

BOOST_AUTO_TEST_CASE(a_wait_asks_for_news_and_ends_when_nobody_holds) {
  story s(wait_for(60s));
  s.sees(record_of(held, 7, {one}));
  BOOST_TEST((s.is<command_step::pause>().time <= 100ms));
  s.rests();
  BOOST_TEST(s.is<command_step::read>().index == 7u);
  BOOST_TEST((s.is<command_step::read>().wait == 10s));
  BOOST_TEST(!s.sees(record_of(two, 8)).ends_with());
}

BOOST_AUTO_TEST_CASE(a_wait_that_is_over_says_who_is_in_the_way) {
  story s(wait_for(0s));
  BOOST_TEST((s.sees(record_of(held, 7, {one})).ends_with() == error::in_use));
  BOOST_TEST(s.is<command_step::done>().why.details.key == lock_key);
}

/// The time limit of an order bounds each outage, but not the wait.
BOOST_AUTO_TEST_CASE(a_wait_rides_out_an_agent_that_cannot_answer) {
  command what = wait_for(600s);
  what.time = 1s;
  story s(what);
  s.sees(record_of(held, 7, {one})).rests();
  s.now += 30s;
  s.sees(no_answer(error::unreachable)).rests();
  BOOST_TEST(s.is<command_step::read>().index == 0u);
  s.sees(record_of(held, 9, {one})).rests();
  s.now += 30s;
  while (!std::holds_alternative<command_step::done>(s.next)) {
    s.sees(no_answer(error::unreachable));
    if (std::holds_alternative<command_step::pause>(s.next)) s.rests();
  }
  BOOST_TEST((s.ends_with() == error::unreachable));
}

BOOST_AUTO_TEST_SUITE_END()
