// SPDX-FileCopyrightText: The holdfast authors
// SPDX-License-Identifier: BSL-1.0

#include "protocol/pool/view.hpp"

#include <boost/test/unit_test.hpp>

namespace protocol = holdfast::protocol;
using protocol::contender;
using protocol::contender_magic;
using protocol::snapshot;
using state = enum protocol::view::state;

namespace {

snapshot listing(std::uint64_t index) {
  snapshot result;
  result.index = index;
  return result;
}

contender entry(const char* session, std::uint64_t created, std::uint64_t modified) {
  return {session, {}, contender_magic, created, modified};
}

/// A view that has listed at index 10, and has sent requests 1 to 5.
struct known : protocol::view {
  known() { accept(listing(10), 1, 5); }
};

const auto nothing = [](snapshot&) {};

}  // namespace

BOOST_AUTO_TEST_SUITE(view)

BOOST_AUTO_TEST_CASE(a_record_that_is_known_to_be_outdated_may_have_been_pieced_together) {
  known v;
  BOOST_TEST(v.knows_record());
  v.learned(12, 6, [](snapshot& now) { now.lock_index = 12; });
  BOOST_TEST(v.knows_record());
  v.mark_outrun(13);
  BOOST_TEST(!v.knows_record());
  v.mark_stale();
  BOOST_TEST(!v.knows_record());
  v.learned(14, 7, [](snapshot& now) { now.lock_index = 14; });
  BOOST_TEST(v.knows_record());
  v.mark_outrun(20);
  v.accept(listing(21), 8, 8);
  BOOST_TEST(v.knows_record());
}

BOOST_AUTO_TEST_CASE(an_older_listing_is_passed_over_unless_the_index_went_back) {
  known v;
  BOOST_TEST(!v.accept(listing(9), 5, 6));
  BOOST_TEST(v.listed_index() == 0u);
  BOOST_TEST(v.accept(listing(9), 6, 6));
  BOOST_TEST(v.listed_index() == 9u);
}

BOOST_AUTO_TEST_CASE(what_was_learned_of_one_key_makes_the_rest_uncertain) {
  known v;
  v.learned(12, 6, [](snapshot& now) { now.contenders.insert(entry("a", 12, 12)); });
  BOOST_TEST((v.state() == state::partial));
  BOOST_TEST((v.now().find("a") != nullptr));
}

BOOST_AUTO_TEST_CASE(a_listing_from_before_keeps_what_was_learned_since) {
  known v;
  v.learned(12, 6, [](snapshot& now) {
    now.contenders.insert(entry("a", 9, 12));
    now.lock_index = 12;
    now.record.add("a");
  });
  snapshot late = listing(11);
  late.contenders.insert(entry("a", 9, 9));
  late.contenders.insert(entry("b", 11, 11));
  late.lock_index = 8;
  BOOST_TEST(v.accept(late, 6, 7));
  BOOST_TEST((v.state() == state::partial));
  BOOST_TEST(v.now().holds("a"));
  BOOST_TEST(v.now().find("a")->modify_index == 12u);
  BOOST_TEST((v.now().find("b") != nullptr));
  BOOST_TEST(v.accept(listing(13), 8, 8));
  BOOST_TEST((v.state() == state::current));
}

BOOST_AUTO_TEST_CASE(our_own_write_does_not_make_certain_what_newer_news_made_uncertain) {
  known v;
  v.learned(14, 6, nothing);
  v.wrote(12, 6, 6, true, nothing);
  BOOST_TEST((v.state() == state::partial));
  v.mark_stale();
  v.wrote(15, 7, 7, true, nothing);
  BOOST_TEST((v.state() == state::stale));
}

BOOST_AUTO_TEST_CASE(only_a_guarded_write_tells_what_was_true_before_it) {
  known v;
  v.wrote(12, 6, 6, false, nothing);
  BOOST_TEST(v.as_of() == 1u);
  v.wrote(13, 7, 7, true, nothing);
  BOOST_TEST(v.as_of() == 7u);
}

BOOST_AUTO_TEST_SUITE_END()
