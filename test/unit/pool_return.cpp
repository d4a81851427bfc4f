// SPDX-FileCopyrightText: The holdfast authors
// SPDX-License-Identifier: BSL-1.0

#include <boost/test/unit_test.hpp>

#include "protocol/record/entry_value.hpp"
#include "support/pool_story.hpp"

// Slots that are released without a write of the record, because others change it faster than this process can.

namespace {

using namespace holdfast;
using namespace holdfast::protocol;
using namespace holdfast::test;
using namespace std::chrono_literals;

using lines = pool_story::lines;

/// There are three slots. Another process holds one with s1, and we hold slot A with s2. A third process keeps changing
/// the record.
struct outrun : pool_story {
  explicit outrun(pool_options o = usual(3)) : pool_story(std::move(o)) {
    record_becomes(others_join());
    come(1);
    BOOST_REQUIRE(record() == "{s1 s2}");
    rival_ = others_join();
    run();
  }
  void others_write() {
    is_in_ = !is_in_;
    const std::string all = record();
    std::string holders = all.substr(1, all.size() - 2);
    const auto at = holders.find(" " + rival_);
    if (at != std::string::npos)
      holders.erase(at, rival_.size() + 1);
    else
      holders += " " + rival_;
    record_becomes(holders);
  }
  /// Answers everything except the write. The others write first, so it is refused.
  lines is_refused() {
    run(false);
    BOOST_REQUIRE(txn_open());
    others_write();
    return done();
  }
  /// Makes the pool send the write that releases the slot without the record, and returns that write.
  std::string gives_back_alone() {
    release('A');
    is_refused();
    return last_of(is_refused());
  }
  bool is_marked(std::string_view session) const {
    const auto entry = consul.get("p/" + real(session));
    return entry && is_given_back(entry->flags);
  }

private:
  std::string rival_;
  bool is_in_ = false;
};

/// A write takes s2 out of the record, before the second acquire is granted.
bool is_taken_out_before_a_grant(const lines& all) {
  const auto out = std::find_if(all.begin(), all.end(), [](const std::string& each) {
    return each.starts_with("txn ") && each.find("remove s2") != std::string::npos;
  });
  const auto granted =
      std::find_if(all.begin(), all.end(), [](const std::string& each) { return each.starts_with("grant t2"); });
  return out < granted && granted != all.end();
}

}  // namespace

BOOST_FIXTURE_TEST_SUITE(pool_return, outrun)

BOOST_AUTO_TEST_CASE(a_release_that_was_refused_twice_for_the_record_needs_it_no_more) {
  const std::string write = gives_back_alone();
  BOOST_TEST(write.find(": return s2 @") != std::string::npos, write);
  BOOST_TEST(write.find("cas") == std::string::npos, write);
  BOOST_TEST(first_of(done()) == "released A");
  BOOST_TEST(is_marked("s2"));
  BOOST_TEST(standing().record.names(real("s2")));
  BOOST_TEST(!standing().holds(real("s2")));
}

/// The write would also remove the entry of another slot that was released. The other process is faster: it removes the
/// entry and queues again.
BOOST_AUTO_TEST_CASE(an_entry_that_was_removed_first_does_not_make_a_release_wait_for_the_record) {
  const std::string key = "p/" + real("s1");
  consul.put(key, "other", consul.get(key)->flags | given_back_flag, now);
  go_on(1s);
  const lines first = release('A');
  BOOST_TEST(last_of(first).find("remove s1 @") != std::string::npos, last_of(first));
  leaves("s1");
  others_join_again("s1");
  record_becomes("s2");
  done();
  const std::string write = last_of(is_refused());
  BOOST_TEST(write.find(": return s2 @") != std::string::npos, write);
}

BOOST_AUTO_TEST_CASE(what_was_released_first_is_given_back_first_and_the_rest_follows_at_once) {
  outrun s(usual(60));
  s.acquire(2, 15);
  s.run();
  s.acquire(3, 15);
  s.run();
  BOOST_REQUIRE(s.standing().record.holders.size() == 32u);
  s.release('C');
  s.after(1ms);
  s.release('B');
  s.is_refused();
  const std::string write = last_of(s.is_refused());
  BOOST_TEST(write.find(": return ") != std::string::npos, write);
  const lines first = s.done();
  BOOST_TEST(first_of(first) == "released C");
  BOOST_TEST(last_of(first).find(": return ") != std::string::npos, last_of(first));
  BOOST_TEST(first_of(s.done()) == "released B");
}

BOOST_AUTO_TEST_CASE(the_process_goes_on_until_the_record_does_not_name_it) {
  gives_back_alone();
  done();
  for (int i = 0; i != 3; ++i) {
    after(100ms);
    is_refused();
  }
  go_on(100ms);
  BOOST_TEST(!standing().record.names(real("s2")));
  BOOST_TEST(entries().find("s2") == std::string::npos);
}

BOOST_AUTO_TEST_CASE(its_session_serves_nobody_before_that) {
  gives_back_alone();
  done();
  lines all = acquire(2);
  append(all, run(false));
  BOOST_TEST(times(all, "create ") == 1u);
  BOOST_TEST(times(all, "grant ") == 0u);
  append(all, run());
  BOOST_TEST(is_taken_out_before_a_grant(all));
}

BOOST_AUTO_TEST_CASE(if_its_outcome_is_unknown_its_session_serves_nobody_either) {
  for (const bool is_applied : {false, true}) {
    outrun s;
    s.gives_back_alone();
    lines all = is_applied ? s.applied_but_unknown() : s.unknown();
    BOOST_TEST(!says(all, "released"));
    append(all, s.acquire(2));
    append(all, s.go_on(100ms));
    append(all, s.go_on(1s));
    BOOST_TEST(says(all, "released A"));
    BOOST_TEST(is_taken_out_before_a_grant(all));
    if (!is_applied) BOOST_TEST(!s.applied_late());
  }
}

/// All slots are taken and another process waits. The index of the record moves all the same.
struct outrun_while_another_waits : outrun {
  outrun_while_another_waits() {
    record_becomes("s1 s2 s3");
    waiter = others_join();
    run();
    release('A');
    for (int i = 0; i != 2; ++i) {
      run(false);
      BOOST_REQUIRE(txn_open());
      consul.put("p/.lock", value() + std::string(static_cast<std::size_t>(i) + 1, ' '), semaphore_flags, now);
      refusal = done();
    }
  }
  kv_entry waiting() const { return *consul.get("p/" + real(waiter)); }
  std::string waiter;
  lines refusal;
};

BOOST_AUTO_TEST_CASE(whoever_waits_first_is_woken) {
  outrun_while_another_waits s;
  BOOST_TEST(last_of(s.refusal).find("return s2") != std::string::npos);
  const kv_entry before = s.waiting();
  s.done();
  BOOST_TEST(s.waiting().modify_index > before.modify_index);
  BOOST_TEST(s.waiting().flags == before.flags);
}

BOOST_AUTO_TEST_CASE(if_that_one_has_moved_on_nobody_is_woken) {
  outrun_while_another_waits s;
  s.leaves(s.waiter);
  const lines again = s.done();
  BOOST_TEST(last_of(again).find("return s2") != std::string::npos);
  BOOST_TEST(last_of(again).find(s.waiter) == std::string::npos);
  BOOST_TEST(first_of(s.done()) == "released A");
}

BOOST_AUTO_TEST_CASE(a_number_is_given_back_with_its_slot) {
  outrun s(with(usual(3), [](pool_options& o) { o.numbered = true; }));
  const snapshot before = s.standing();
  BOOST_REQUIRE(before.number_of(s.real("s2")) != nullptr);
  const std::uint32_t number = before.number_of(s.real("s2"))->number;
  const std::string write = s.gives_back_alone();
  BOOST_TEST(write.find("unnumber " + std::to_string(number) + " s2") != std::string::npos, write);
  s.done();
  BOOST_TEST(s.standing().number_of(s.real("s2")) == nullptr);
}

/// The mark belongs to a record that has gone. The session has joined again and holds, and then its node goes with all
/// its sessions.
BOOST_FIXTURE_TEST_CASE(who_has_come_anew_since_its_mark_was_seen_is_spared, pool_story) {
  pool_story s(with(usual(), [](pool_options& o) { o.wall_offset = 0s; }));
  const std::string id = s.consul.create_session(1h, s.now);
  const std::string text = with_stamp("other", s.now.time_since_epoch(), entry_lease{20s, 2s, default_session_node});
  s.consul.transact({{kv_verb::lock, "p/" + id, text, contender_magic, 0, id}}, s.now);
  s.record_becomes("s1");
  s.come(1);
  s.consul.put("p/" + id, text, s.consul.get("p/" + id)->flags | given_back_flag, s.now);
  s.run(false);
  BOOST_REQUIRE(s.txn_open());
  s.leaves("s1");
  s.record_becomes("");
  s.consul.transact({{kv_verb::lock, "p/" + id, text, contender_magic, 0, id}}, s.now);
  s.record_becomes("s1");
  s.consul.destroy_session(id, s.now);
  s.consul.destroy_session(s.real("s2"), s.now);
  s.done();
  BOOST_TEST(!says(s.run(), "grant t1"));
  BOOST_TEST(!says(s.go_on(5s), "grant t1"));
}

/// Another process sees the mark.
BOOST_FIXTURE_TEST_CASE(a_slot_that_was_given_back_is_free_and_its_entry_goes_with_the_next_write, pool_story) {
  for (const bool session_ends : {false, true}) {
    pool_story s(with(usual(), [](pool_options& o) { o.wall_offset = 0s; }));
    const std::string id = s.consul.create_session(1h, s.now);
    const std::string text = with_stamp("other", s.now.time_since_epoch(), entry_lease{20s, 2s, default_session_node});
    s.consul.transact({{kv_verb::lock, "p/" + id, text, contender_magic, 0, id}}, s.now);
    s.record_becomes("s1");
    s.come(1);
    BOOST_TEST(s.entries() == "s1 s2");
    const auto entry = *s.consul.get("p/" + id);
    s.consul.put("p/" + id, text, entry.flags | given_back_flag, s.now);
    if (!session_ends) {
      BOOST_TEST(says(s.run(), "grant t1"));
      BOOST_TEST(!s.consul.get("p/" + id));
      continue;
    }
    // The entry shows that its slot was released, and its session dies before anybody writes. It is not spared.
    s.run(false);
    BOOST_REQUIRE(s.txn_open());
    s.consul.destroy_session(id, s.now);
    lines all = s.done();
    append(all, s.run());
    BOOST_TEST(says(all, "grant t1"));
  }
}

BOOST_AUTO_TEST_SUITE_END()
