// SPDX-FileCopyrightText: The holdfast authors
// SPDX-License-Identifier: BSL-1.0

#include "protocol/record/snapshot.hpp"

#include <algorithm>
#include <boost/test/unit_test.hpp>
#include <holdfast/error.hpp>

using namespace holdfast;
using namespace holdfast::protocol;

namespace {

constexpr const char* record_of_a = R"({"Limit":2,"Holders":{"a":true}})";

kv_entry lock(std::string value, std::uint64_t flags = semaphore_flags, std::uint64_t index = 7) {
  return {"p/.lock", std::move(value), flags, {}, 3, index};
}
kv_entry entry(const std::string& session, std::uint64_t create_index, std::uint64_t flags = contender_magic) {
  return {"p/" + session, "host:1", flags, session, create_index, create_index + 1};
}
auto read(std::vector<kv_entry> listing) { return make_snapshot("p/", "p/.lock", std::move(listing), 42); }

std::vector<std::string> queue(const holdfast::protocol::snapshot& s) {
  std::vector<std::string> sessions;
  for (const contender& each : s.contenders) sessions.push_back(each.session);
  return sessions;
}

}  // namespace

BOOST_AUTO_TEST_SUITE(snapshot)

BOOST_AUTO_TEST_CASE(an_empty_prefix_is_a_semaphore_that_nobody_uses) {
  holdfast::protocol::snapshot expected;
  expected.index = 42;
  BOOST_TEST((*read({}) == expected));
  BOOST_TEST(expected.lock_index == 0u);
}

BOOST_AUTO_TEST_CASE(reads_the_record_and_the_live_contenders) {
  const auto s = *read({entry("a", 5), lock(record_of_a), entry("b", 9)});
  BOOST_TEST(s.lock_index == 7u);
  BOOST_TEST(s.lock_flags == semaphore_flags);
  BOOST_TEST((s.record == lock_record{record_form::map, 2, {"a"}}));
  BOOST_TEST((s.contenders ==
              contender_queue{{"a", "host:1", contender_magic, 5, 6}, {"b", "host:1", contender_magic, 9, 10}}));
  BOOST_TEST(s.holds("a"));
  BOOST_TEST(!s.holds("b"));
}

BOOST_AUTO_TEST_CASE(the_queue_is_ordered_by_create_index_then_by_key) {
  const auto s = *read({entry("z", 5), entry("y", 20), entry("c", 9), entry("b", 9), entry("x", 8)});
  BOOST_TEST(queue(s) == (std::vector<std::string>{"z", "x", "b", "c", "y"}), boost::test_tools::per_element());
}

BOOST_AUTO_TEST_CASE(passes_over_what_is_no_live_contender) {
  kv_entry unlocked = entry("a", 5);
  unlocked.session.clear();
  kv_entry locked_by_another = entry("b", 6);
  locked_by_another.session = "c";
  kv_entry deeper = entry("d", 7);
  deeper.key = "p/d/e";
  kv_entry deeper_of_itself = entry("f", 7);
  deeper_of_itself.key = "p/x/f";
  kv_entry beside = entry("g", 8);
  beside.key = "q/g";
  kv_entry folder = {"p/", {}, 0, {}, 1, 1};
  BOOST_TEST(read({unlocked, locked_by_another, deeper, deeper_of_itself, beside, folder, lock(record_of_a)})
                 ->contenders.empty());
}

BOOST_AUTO_TEST_CASE(a_holder_without_its_entry_is_dead) {
  const auto s = *read({lock(record_of_a), entry("b", 9)});
  BOOST_TEST(s.record.names("a"));
  BOOST_TEST(!s.holds("a"));
}

BOOST_AUTO_TEST_CASE(takes_the_flags_of_the_guide_and_keeps_them) {
  BOOST_TEST(read({lock(R"({"Limit":2,"Holders":[]})", 0)})->lock_flags == 0u);
}

BOOST_AUTO_TEST_CASE(foreign_flags_are_not_a_semaphore) {
  for (const std::uint64_t flags : {std::uint64_t{0x2ddccbc058a50c18}, std::uint64_t{1}, ~std::uint64_t{0},
                                    semaphore_flags & 0x7fffffffffffffff, semaphore_flags + 1})
    BOOST_TEST(read({lock(record_of_a, flags)}).error() == error::not_a_semaphore);
  BOOST_TEST(read({lock("not even a record", 1)}).error() == error::not_a_semaphore);
}

BOOST_AUTO_TEST_CASE(a_mutex_is_held_by_the_session_that_has_locked_its_key) {
  const auto read_mutex = [](std::vector<kv_entry> listing) {
    return make_snapshot("m/key/", "m/key", std::move(listing), 42, record_form::session);
  };
  const kv_entry key{"m/key", "words", mutex_flags, "a", 3, 8};
  const auto held = *read_mutex({key, {"m/key/b", "b", contender_magic, "b", 5, 5}, {"m/key2", "x", 1, "c", 6, 6}});
  BOOST_TEST(held.record.holders == std::vector<std::string>{"a"}, boost::test_tools::per_element());
  BOOST_TEST(held.lock_index == 8u);
  BOOST_TEST(queue(held) == std::vector<std::string>{"b"}, boost::test_tools::per_element());
  kv_entry free = key;
  free.session = "";
  BOOST_TEST(read_mutex({free})->record.holders.empty());
  kv_entry by_hand = key;
  by_hand.flags = 0;
  BOOST_TEST(read_mutex({by_hand})->lock_flags == 0u);
  kv_entry foreign = key;
  foreign.flags = semaphore_flags;
  BOOST_TEST(read_mutex({foreign}).error() == error::not_a_mutex);
  BOOST_TEST(read_mutex({})->lock_flags == mutex_flags);
}

BOOST_AUTO_TEST_CASE(a_record_that_cannot_be_read_is_corrupt) {
  BOOST_TEST(read({entry("a", 5), lock("{")}).error() == error::corrupt_record);
}

BOOST_AUTO_TEST_CASE(flags_of_contenders_are_exact_to_the_last_bit) {
  const auto s = *read({entry("go", 5, semaphore_flags), entry("guide", 6, 0), entry("ours", 7, contender_magic | 5),
                        entry("all", 8, ~std::uint64_t{0})});
  BOOST_TEST(s.find("go")->flags == 16210313421097356768u);
  BOOST_TEST(!s.find("go")->grantable());
  BOOST_TEST(!s.find("guide")->grantable());
  BOOST_TEST(s.find("ours")->grantable());
  BOOST_TEST(!s.find("all")->grantable());
  BOOST_TEST(s.find("none") == nullptr);
}

BOOST_AUTO_TEST_CASE(each_grant_changes_the_flags_and_keeps_them_ours) {
  BOOST_TEST(next_grant_flags(contender_magic) == contender_magic + 1);
  BOOST_TEST(next_grant_flags(contender_magic | 0x3fffffff) == contender_magic);
  const std::uint64_t numbered = contender_magic | numbered_flag;
  BOOST_TEST(next_grant_flags(numbered | 0x3fffffff) == numbered);
  BOOST_TEST(is_given_back(numbered | given_back_flag));
  BOOST_TEST(!is_given_back(numbered | 0x3fffffff));
  BOOST_TEST(!is_given_back(semaphore_flags));
  BOOST_TEST(is_grantable(numbered));
  BOOST_TEST(is_numbered(numbered));
  BOOST_TEST(!is_numbered(contender_magic | 0x7fffffff));
  BOOST_TEST(grants_in(numbered | 7) == 7u);
}

BOOST_AUTO_TEST_CASE(insert_keeps_the_order_and_erase_takes_one_out) {
  auto s = *read({entry("a", 5), entry("c", 9)});
  s.contenders.insert({"b", {}, contender_magic, 9, 9});
  s.contenders.insert({"d", {}, contender_magic, 4, 4});
  BOOST_TEST(queue(s) == (std::vector<std::string>{"d", "a", "b", "c"}), boost::test_tools::per_element());
  s.contenders.erase("a");
  s.contenders.erase("nobody");
  BOOST_TEST(queue(s) == (std::vector<std::string>{"d", "b", "c"}), boost::test_tools::per_element());
}

BOOST_AUTO_TEST_SUITE_END()
