// SPDX-FileCopyrightText: The holdfast authors
// SPDX-License-Identifier: BSL-1.0

#include "protocol/election/election.hpp"

#include <algorithm>
#include <boost/test/unit_test.hpp>
#include <chrono>
#include <holdfast/error.hpp>
#include <optional>
#include <string>
#include <vector>

using namespace holdfast::protocol;
using namespace std::chrono_literals;
using holdfast::error;
using holdfast::error_code;
using holdfast::kv_entry;
using holdfast::kv_operation;
using holdfast::kv_verb;
using holdfast::make_error_code;

namespace {

constexpr duration election_wait = 10s;

kv_entry key_of_leader(std::string value, std::string session, std::uint64_t index) {
  return {"leader", std::move(value), mutex_flags, std::move(session), 5, index, 2};
}

event::txn_done refused_because(std::vector<event::refusal> reasons) {
  event::txn_done reply{1, event::outcome::refused};
  for (const event::refusal each : reasons) reply.refusals.push_back({0, each});
  return reply;
}

/// The entry of a candidate: as its own process has made it, or as another process has granted it.
kv_entry entry_of(const std::string& session, std::uint64_t index, bool is_provisional) {
  return {"leader/" + session, "v", next_grant_flags(contender_magic, is_provisional), session, 5, index, 1};
}

/// An observer with a clock of its own, whose questions the test answers.
struct watching {
  observer who{election_wait, 1};
  time_point now{};

  /// The answer to a question about the key. If the observer asks about the holder's entry, it sees that the holder has
  /// taken the key itself.
  observer::conclusion sees(std::optional<kv_entry> key, std::uint64_t index) {
    observer::conclusion heard = sees_key(std::move(key), index);
    const observer::question next = who.ask(now);
    return next.session.empty() ? heard : sees_entry({entry_of(next.session, index, false)}, index);
  }
  observer::conclusion sees_key(std::optional<kv_entry> key, std::uint64_t index) {
    return who.hear(event::key_watched{0, std::move(key), {}, index}, now);
  }
  observer::conclusion sees_entry(std::vector<kv_entry> listing, std::uint64_t index) {
    return who.hear(event::prefix_listed{0, std::move(listing), index}, now);
  }
  observer::conclusion fails(error_code why) { return who.hear(event::key_watched{0, {}, {why, {}}}, now); }
  /// Gives the observer an answer, and tells it that its user knows, if that is news. Returns true for news.
  bool tells(std::optional<kv_entry> key, std::uint64_t index) {
    const observer::conclusion heard = sees(std::move(key), index);
    if (heard.is_news) who.told(heard.leader);
    return heard.is_news;
  }
};

}  // namespace

BOOST_AUTO_TEST_SUITE(election)

BOOST_AUTO_TEST_CASE(a_proclaim_writes_under_the_hold_what_it_found) {
  kv_entry key = key_of_leader("old", "s1", 9);
  key.flags = 0;
  const auto write = proclamation(1, "new").write(key, "s1");
  BOOST_REQUIRE(write.has_value());
  const std::vector<kv_operation> expected{{kv_verb::check_session, "leader", {}, 0, 0, "s1"},
                                           {kv_verb::check_index, "leader", {}, 0, 9},
                                           {kv_verb::lock, "leader", "new", 0, 0, "s1"}};
  BOOST_TEST((*write == expected));
}

BOOST_AUTO_TEST_CASE(a_key_that_is_not_held_is_not_proclaimed_in) {
  proclamation wish(1, "new");
  for (const auto& key : {std::optional<kv_entry>(), std::optional(key_of_leader("their", "s2", 9)),
                          std::optional(key_of_leader("nobody's", "", 9))})
    BOOST_TEST((wish.write(key, "s1").error() == error::slot_lost));
}

BOOST_AUTO_TEST_CASE(a_proclaim_begins_anew_three_times) {
  proclamation wish(1, "new");
  for (std::uint64_t index = 9; index != 13; ++index) {
    BOOST_TEST(wish.write(key_of_leader("old", "s1", index), "s1").has_value());
    BOOST_TEST(!wish.replied(refused_because({event::refusal::conflict})).has_value());
  }
  const auto end = wish.write(key_of_leader("old", "s1", 13), "s1");
  BOOST_TEST((end.error() == error::transaction_conflict));
  BOOST_TEST(wish.is_withdrawn());
}

BOOST_AUTO_TEST_CASE(a_proclaim_ends_when_it_is_done_or_not_allowed) {
  const auto done = proclamation(1, "new").replied({1, event::outcome::applied});
  BOOST_REQUIRE(done.has_value());
  BOOST_TEST(!*done);
  const auto denied =
      proclamation(1, "new").replied(refused_because({event::refusal::conflict, event::refusal::permission_denied}));
  BOOST_TEST((denied == make_error_code(error::permission_denied)));
}

/// The network repeated the request, and the refusal of the second came back.
BOOST_AUTO_TEST_CASE(a_proclaim_whose_copy_is_refused_is_found_written) {
  proclamation wish(1, "new");
  BOOST_TEST(!wish.write(key_of_leader("old", "s1", 9), "s1")->empty());
  BOOST_TEST(!wish.replied(refused_because({event::refusal::conflict})).has_value());
  BOOST_TEST(wish.is_doubtful());
  BOOST_TEST(wish.write(key_of_leader("new", "s1", 10), "s1")->empty());

  proclamation last(1, "new");
  for (std::uint64_t index = 9; index != 13; ++index) {
    BOOST_TEST(last.write(key_of_leader("old", "s1", index), "s1").has_value());
    last.replied(refused_because({event::refusal::conflict}));
  }
  BOOST_TEST(last.write(key_of_leader("new", "s1", 13), "s1")->empty());  // the last try's, whose copy was refused

  proclamation late(1, "new");
  BOOST_TEST(!late.write(key_of_leader("new", "s1", 9), "s1")->empty());
  late.replied(refused_because({event::refusal::conflict}));
  BOOST_TEST(!late.write(key_of_leader("new", "s1", 9), "s1")->empty());  // it stood there before
}

BOOST_AUTO_TEST_CASE(a_look_that_fails_leaves_a_refused_proclaim_in_doubt) {
  const error_code unreachable = error::unreachable, lost = error::timed_out;
  proclamation wish(1, "new");
  BOOST_TEST(wish.reported(unreachable) == unreachable);
  wish.replied(refused_because({event::refusal::conflict}));
  BOOST_TEST((wish.reported(unreachable) == holdfast::condition::outcome_unknown));
  BOOST_TEST(wish.reported(lost) == lost);
}

/// Consul refused it, and not because of the index: a copy may still be applied.
BOOST_AUTO_TEST_CASE(a_refused_proclaim_stays_in_doubt_as_long_as_the_index_stands) {
  const event::txn_done odd = refused_because({event::refusal::other});
  proclamation wish(1, "new");
  for (int i = 0; i != 4; ++i) {
    BOOST_TEST(wish.write(key_of_leader("old", "s1", 9), "s1").has_value());
    wish.replied(odd);
  }
  BOOST_TEST((wish.write(key_of_leader("old", "s1", 9), "s1").error() == holdfast::condition::outcome_unknown));
  BOOST_TEST(!wish.is_withdrawn());

  proclamation other(1, "new");
  other.write(key_of_leader("old", "s1", 9), "s1");
  other.replied(odd);
  other.write(key_of_leader("old", "s1", 9), "s1");
  const auto end = other.replied({1, event::outcome::not_sent, {}, {}, {make_error_code(error::unreachable), {}}});
  BOOST_TEST((end == holdfast::condition::outcome_unknown));
  BOOST_TEST(!other.is_withdrawn());
}

BOOST_AUTO_TEST_CASE(what_certainly_was_not_written_is_withdrawn) {
  using event::outcome;
  const auto is_withdrawn = [](outcome what) {
    proclamation wish(1, "new");
    wish.replied({1, what, {}, {}, {make_error_code(error::timed_out), {}}});
    return wish.is_withdrawn();
  };
  BOOST_TEST(!is_withdrawn(outcome::applied));
  BOOST_TEST(!is_withdrawn(outcome::unknown));
  BOOST_TEST(!is_withdrawn(outcome::refused));  // it may be a copy that was
  BOOST_TEST(is_withdrawn(outcome::not_sent));
  proclamation wish(1, "new");
  wish.replied(refused_because({event::refusal::conflict}));
  BOOST_TEST(wish.write(key_of_leader("old", "s1", 9), "s1").has_value());
  BOOST_TEST(!wish.is_withdrawn());
  BOOST_TEST((proclamation(1, "new").replied({1, outcome::unknown, {}, {}, {make_error_code(error::timed_out), {}}}) ==
              make_error_code(error::timed_out)));
}

BOOST_AUTO_TEST_CASE(whoever_has_locked_the_key_leads) {
  BOOST_TEST(
      (leading_in(key_of_leader("v", "s1", 9)) == leading{"v", "s1", 2, 9, key_of_leader("v", "s1", 9).create_index}));
  BOOST_TEST(!leading_in(key_of_leader("v", "", 9)).has_value());
  BOOST_TEST(!leading_in(std::nullopt).has_value());
}

BOOST_AUTO_TEST_CASE(the_first_answer_is_news_and_later_ones_are_if_they_differ) {
  watching w;
  BOOST_TEST(w.tells(key_of_leader("v", "s1", 9), 9));
  BOOST_TEST(!w.tells(key_of_leader("v", "s1", 9), 9));
  BOOST_TEST(w.tells(key_of_leader("w", "s1", 10), 10));
  BOOST_TEST(w.tells(key_of_leader("w", "", 11), 11));
  BOOST_TEST(!w.tells(std::nullopt, 12));  // nobody, as before
  BOOST_TEST(w.tells(key_of_leader("w", "s1", 13), 13));
}

BOOST_AUTO_TEST_CASE(that_nobody_leads_is_news_too) { BOOST_TEST(watching().tells(std::nullopt, 9)); }

BOOST_AUTO_TEST_CASE(it_asks_from_where_it_has_heard) {
  watching w;
  BOOST_TEST(w.who.ask(w.now).index == 0u);
  w.sees(key_of_leader("v", "s1", 9), 9);
  BOOST_TEST(w.who.ask(w.now).index == 0u);  // it was not told: so it is answered again at once
  w.tells(key_of_leader("v", "s1", 9), 9);
  for (int i = 0; i != 20; ++i) {
    const observer::question next = w.who.ask(w.now);
    BOOST_TEST(next.index == 9u);
    BOOST_TEST((next.wait >= election_wait * 3 / 4 && next.wait <= election_wait));
  }
}

/// Other programs write all the time. Before Consul 1.10.9, each write of a neighbouring key answers a question about a
/// key that does not exist.
BOOST_AUTO_TEST_CASE(an_observer_of_a_missing_key_asks_twice_a_second_at_most) {
  watching w;
  w.tells(std::nullopt, 9);
  const time_point begin = w.now;
  std::uint64_t index = 10;
  int asked = 0, at_once = 0;
  for (; w.now < begin + 60s; w.now += 1ms, ++asked) {
    const observer::question next = w.who.ask(w.now);
    BOOST_TEST(next.index == index - 1);
    const observer::conclusion heard = w.sees_key(std::nullopt, index++);
    BOOST_TEST(!heard.is_news);
    BOOST_TEST((heard.pause <= 700ms));  // so news is reported within a second
    at_once += heard.pause == 0ms;
    w.now += heard.pause;
  }
  BOOST_TEST(asked <= 120);
  BOOST_TEST(at_once >= 10);
}

BOOST_AUTO_TEST_CASE(a_late_answer_and_news_end_the_pauses) {
  watching w;
  w.tells(std::nullopt, 9);
  std::uint64_t index = 10;
  const auto asks_in_vain = [&](duration time) {
    w.who.ask(w.now);
    w.now += time;
    return w.sees_key(std::nullopt, index++).pause;
  };
  for (int i = 0; i != 6; ++i) asks_in_vain(1ms);
  BOOST_TEST((asks_in_vain(1ms) >= 100ms));
  BOOST_TEST((asks_in_vain(10s) == 0ms));
  BOOST_TEST((asks_in_vain(10s) == 0ms));
  for (int i = 0; i != 6; ++i) asks_in_vain(1ms);
  BOOST_TEST(w.tells(key_of_leader("v", "s1", index), index));
  BOOST_TEST(w.tells(std::nullopt, ++index));
  ++index;
  BOOST_TEST((asks_in_vain(1ms) == 0ms));
}

/// A proxy answers from a cache. So it answers at once, and shows an entry whose grant is not accepted.
BOOST_AUTO_TEST_CASE(an_observer_that_is_answered_from_a_cache_asks_twice_a_second_at_most) {
  watching w;
  int asked = 0;
  for (; w.now < time_point() + 60s; w.now += 1ms, ++asked) {
    const bool asks_key = w.who.ask(w.now).session.empty();
    const observer::conclusion heard =
        asks_key ? w.sees_key(key_of_leader("w", "s2", 20), 20) : w.sees_entry({entry_of("s2", 21, true)}, 21);
    if (heard.is_news) w.who.told(heard.leader);
    w.now += heard.pause;
  }
  BOOST_TEST(asked <= 120);
}

BOOST_AUTO_TEST_CASE(while_consul_does_not_answer_it_pauses_longer_and_longer_and_then_looks) {
  watching w;
  w.tells(key_of_leader("v", "s1", 9), 9);
  duration longest{};
  for (int i = 0; i != 50; ++i) {
    const observer::conclusion heard = w.fails(error::timed_out);
    BOOST_TEST(!heard.is_news);
    BOOST_TEST(!heard.error.code);
    BOOST_TEST((heard.pause >= 10ms && heard.pause <= 1s));
    longest = std::max(longest, heard.pause);
    w.now += heard.pause;
  }
  BOOST_TEST((longest > 500ms));
  BOOST_TEST(w.who.ask(w.now).index == 0u);
  BOOST_TEST(!w.tells(key_of_leader("v", "s1", 9), 9));
  BOOST_TEST((w.fails(error::timed_out).pause <= 20ms));  // it begins anew
}

/// It has left and joined again meanwhile.
BOOST_AUTO_TEST_CASE(an_entry_that_is_newer_than_the_key_says_nothing_of_its_holder) {
  watching w;
  w.tells(std::nullopt, 9);
  w.sees_key(key_of_leader("w", "s2", 20), 20);
  BOOST_TEST(!w.sees_entry({entry_of("s2", 21, false)}, 21).is_news);
  BOOST_TEST(w.who.ask(w.now).session.empty());
  BOOST_TEST(w.who.ask(w.now).index == 0u);
  BOOST_TEST(!w.tells(std::nullopt, 21));
}

BOOST_AUTO_TEST_CASE(a_refused_read_of_an_entry_is_told_and_names_nobody) {
  watching w;
  w.tells(std::nullopt, 9);
  w.sees_key(key_of_leader("w", "s2", 20), 20);
  const observer::conclusion heard =
      w.who.hear(event::prefix_listed{.id = 0, .error = {make_error_code(error::permission_denied), {}}}, w.now);
  BOOST_TEST((!heard.is_news && heard.error.code == error::permission_denied));
  BOOST_TEST(w.who.ask(w.now).session == "s2");
}

BOOST_AUTO_TEST_CASE(what_no_repetition_will_mend_is_told_and_loses_nothing) {
  watching w;
  w.tells(key_of_leader("v", "s1", 9), 9);
  BOOST_TEST((w.fails(error::permission_denied).error.code == error::permission_denied));
  kv_entry theirs = key_of_leader("{}", "s1", 10);
  theirs.flags = 7;
  const observer::conclusion heard = w.sees(theirs, 10);
  BOOST_TEST((heard.error.code == error::not_a_mutex));
  BOOST_TEST(heard.error.details.key == "leader");
  BOOST_TEST(w.who.ask(w.now).index == 9u);
  BOOST_TEST(w.tells(key_of_leader("w", "s1", 11), 11));
}

BOOST_AUTO_TEST_SUITE_END()
