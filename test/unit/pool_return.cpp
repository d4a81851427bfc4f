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
