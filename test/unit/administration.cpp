// SPDX-FileCopyrightText: The holdfast authors
// SPDX-License-Identifier: BSL-1.0

#include "protocol/administration/administration.hpp"

#include <boost/test/unit_test.hpp>

#include "protocol/pool/plan.hpp"

// The steps of each order, given the state of Consul. A step is written in one line:
//   cas @50 2 {a b} closed revoked {a} | grant c @12 | remove d @13 | destroy s | refused: why | more | nothing

using namespace holdfast;
using namespace holdfast::protocol;

BOOST_AUTO_TEST_SUITE(administration)

namespace {

using names = std::vector<std::string>;

const std::string prefix = "p/";
const std::string lock_key = "p/.lock";

std::string id(char c) { return std::string(8, c) + "-1111-2222-3333-444455556666"; }
std::string name_of(std::string_view key) {
  if (key.starts_with(prefix)) key.remove_prefix(prefix.size());
  return key.size() == 36 ? std::string(key.substr(0, 1)) : std::string(key);
}

std::string joined(const names& list) {
  std::string all;
  for (const std::string& each : list) all += (all.empty() ? "" : " ") + name_of(each);
  return "{" + all + "}";
}

std::string told(const instruction& next) {
  std::string all;
  const auto add = [&all](const std::string& one) { all += (all.empty() ? "" : " | ") + one; };
  if (next.refused) add("refused: " + next.refused.message());
  if (!next.session.empty()) add("destroy " + name_of(next.session));
  for (const kv_operation& op : next.operations) {
    const std::string at = " @" + std::to_string(op.index);
    if (op.verb == kv_verb::get_tree) {
      BOOST_TEST((next.reads && op.key == prefix && &op == &next.operations.back()));
    } else if (op.verb == kv_verb::remove_cas) {
      add("remove " + name_of(op.key) + at);
    } else if (op.key == lock_key) {
      const auto record = parse_lock_record(op.value);
      BOOST_REQUIRE(record.has_value());
      std::string one = "cas" + at + " " + std::to_string(record->limit) + " " + joined(record->holders);
      if (record->form == record_form::list) one += " as a list";
      if (record->closed) one += " closed";
      if (!record->revoked.empty()) one += " revoked " + joined(record->revoked);
      if (op.flags != semaphore_flags) one += " flags " + std::to_string(op.flags);
      add(one);
    } else {
      BOOST_TEST((op.verb == kv_verb::cas && is_grantable(op.flags)));
      add("grant " + name_of(op.key) + at);
    }
  }
  if (next.more) add("more");
  return all.empty() ? "nothing" : all;
}

/// A semaphore of two slots with these holders, dead or alive, and these live contenders, in queue order from index 10
/// on. A capital is a contender of HashiCorp's Go client.
inspection semaphore(std::string_view holders, std::string_view alive) {
  inspection s;
  s.prefix = prefix;
  s.lock_key = lock_key;
  s.now.index = 100;
  s.now.lock_index = 50;
  s.now.record.limit = 2;
  for (const char each : holders) s.now.record.add(id(each));
  std::uint64_t index = 10;
  for (const char each : alive) {
    const bool go = each >= 'A' && each <= 'Z';
    s.now.contenders.insert({id(each), "d", go ? semaphore_flags : contender_magic, index, index});
    ++index;
  }
  return s;
}
inspection none() {
  inspection s = semaphore("", "");
  s.now.lock_index = 0;
  s.now.record = {};
  return s;
}
inspection closed(inspection s) {
  s.now.record.closed = true;
  return s;
}

void check(const instruction& next, std::string_view expected, int line) {
  BOOST_TEST(told(next) == expected, "line " << line << ": " << told(next) << " instead of " << expected);
}
#define CHECK_STEP(next, expected) check(next, expected, __LINE__)

const std::string not_here = "refused: there is no semaphore here";

}  // namespace

BOOST_AUTO_TEST_CASE(create_writes_a_record_where_there_is_none) {
  CHECK_STEP(create(none(), 3), "cas @0 3 {}");
  CHECK_STEP(create(semaphore("a", "a"), 2), "nothing");
  CHECK_STEP(create(semaphore("a", "a"), 3), "refused: the semaphore is in use with another limit");
  CHECK_STEP(create(none(), 0), "refused: the limit is 0 or over the largest supported");
  CHECK_STEP(create(none(), limit_max + 1), "refused: the limit is 0 or over the largest supported");
}

BOOST_AUTO_TEST_CASE(create_grants_those_who_wait_for_a_record) {
  inspection s = semaphore("", "cd");
  s.now.lock_index = 0;
  s.now.record = {};
  CHECK_STEP(create(s, 1), "cas @0 1 {c} | grant c @10");
}

BOOST_AUTO_TEST_CASE(a_higher_limit_is_granted_in_the_same_write) {
  CHECK_STEP(resize(semaphore("ab", "abcde"), 4), "cas @50 4 {a b c d} | grant c @12 | grant d @13");
  CHECK_STEP(resize(semaphore("ab", "ab"), 4), "cas @50 4 {a b}");
  CHECK_STEP(resize(semaphore("ab", "ab"), 2), "nothing");
  CHECK_STEP(resize(none(), 2), not_here);
  CHECK_STEP(resize(semaphore("", ""), 0), "refused: the limit is 0 or over the largest supported");
  CHECK_STEP(resize(semaphore("", ""), limit_max), "cas @50 4200 {}");
  CHECK_STEP(resize(semaphore("", ""), limit_max + 1), "refused: the limit is 0 or over the largest supported");
}

BOOST_AUTO_TEST_CASE(what_is_left_for_a_go_contender_it_takes_itself) {
  CHECK_STEP(resize(semaphore("ab", "abXc"), 3), "cas @50 3 {a b}");
  CHECK_STEP(resize(semaphore("ab", "abXc"), 4), "cas @50 4 {a b c} | grant c @13");
}

BOOST_AUTO_TEST_CASE(more_than_one_transaction_holds_takes_several) {
  inspection s = semaphore("", "");
  s.now.record.limit = 1;
  for (std::uint64_t i = 0; i < 70; ++i)
    s.now.contenders.insert({"s" + std::to_string(i), "d", contender_magic, 100 + i, 100 + i});
  const instruction first = resize(s, 100);
  BOOST_TEST(first.operations.size() == operations_max);
  BOOST_TEST(first.more);
  // The remaining grants come next, although the limit is already right.
  for (const kv_operation& op : first.operations)
    if (op.verb == kv_verb::cas && op.key != lock_key) s.now.record.add(op.key.substr(prefix.size()));
  s.now.record.limit = 100;
  const instruction second = resize(s, 100);
  BOOST_TEST(second.operations.size() == 10u);  // the record, eight grants, and a read
  BOOST_TEST(!second.more);
}

BOOST_AUTO_TEST_CASE(closed_and_open) {
  const inspection full = semaphore("ab", "abc");
  CHECK_STEP(set_closed(full, true), "cas @50 2 {a b} closed");
  CHECK_STEP(set_closed(full, false), "nothing");
  CHECK_STEP(set_closed(closed(full), true), "nothing");
  CHECK_STEP(set_closed(none(), true), not_here);
  CHECK_STEP(set_closed(none(), false), not_here);
}

BOOST_AUTO_TEST_CASE(revoke_marks_a_live_holder) {
  inspection s = semaphore("ab", "abc");
  CHECK_STEP(revoke(s, id('a'), true), "cas @50 2 {a b} revoked {a}");
  CHECK_STEP(revoke(s, id('c'), true), "refused: the slot is not held");
  CHECK_STEP(revoke(s, id('c'), false), "nothing");
  CHECK_STEP(revoke(s, id('z'), true), "refused: the slot is not held");
  CHECK_STEP(revoke(s, "", true), "refused: the slot is not held");
  CHECK_STEP(revoke(semaphore("ab", "b"), id('a'), true), "refused: the slot is not held");
  CHECK_STEP(revoke(none(), id('a'), true), not_here);
  CHECK_STEP(revoke(none(), id('a'), false), "nothing");
  s.now.record.revoke(id('a'));
  CHECK_STEP(revoke(s, id('a'), true), "nothing");
  CHECK_STEP(revoke(s, id('b'), true), "cas @50 2 {a b} revoked {a b}");
}

BOOST_AUTO_TEST_CASE(every_holder_of_the_largest_semaphore_can_be_asked_for_its_slot_and_no_more) {
  inspection s = semaphore("", "");
  const auto hold = [&s](std::uint64_t i) {
    std::string session = "00000000-0000-0000-0000-" + std::to_string(100'000'000'000 + i);
    s.now.record.add(session);
    s.now.contenders.insert({session, "d", contender_magic, 100 + i, 100 + i});
    return session;
  };
  for (std::uint64_t i = 1; i != limit_max; ++i) s.now.record.revoke(hold(i));
  const std::string last = hold(0);
  BOOST_TEST(revoke(s, last, true).operations.size() == 1u);
  s.now.record.revoke(last);
  for (std::uint64_t i = limit_max; i != limit_max + 500; ++i) s.now.record.revoke(hold(i));  // another client's limit
  const std::string one_more = hold(limit_max + 500);
  BOOST_TEST(revoke(s, one_more, true).refused == error::too_large);
}

BOOST_AUTO_TEST_CASE(evict_ends_the_session_first_and_then_gives_its_slot_away) {
  CHECK_STEP(evict(semaphore("ab", "abc"), id('a'), true), "destroy a");
  CHECK_STEP(evict(semaphore("ab", "bc"), id('a'), false), "cas @50 2 {b c} | grant c @11");
  CHECK_STEP(evict(semaphore("ab", "bc"), id('a'), true), "cas @50 2 {b c} | grant c @11");
  CHECK_STEP(evict(semaphore("bc", "bc"), id('a'), false), "nothing");
  CHECK_STEP(evict(semaphore("bc", "bc"), id('a'), true), "refused: the slot is not held");
  // Somebody who waits.
  CHECK_STEP(evict(semaphore("ab", "abc"), id('c'), true), "destroy c");
  CHECK_STEP(evict(semaphore("ab", "ab"), id('c'), false), "nothing");
}

BOOST_AUTO_TEST_CASE(evict_takes_an_entry_that_stays_behind) {
  inspection s = semaphore("ab", "b");
  s.leftovers.push_back({id('a'), "d", 0, 7, 9});
  CHECK_STEP(evict(s, id('a'), false), "cas @50 2 {b} | remove a @9");
}

BOOST_AUTO_TEST_CASE(sweep_takes_what_nobody_lives_by) {
  inspection s = semaphore("abx", "bc");
  s.now.record.revoked = {id('x')};
  s.leftovers.push_back({id('e'), "d", 0, 7, 9});
  CHECK_STEP(sweep(s), "cas @50 2 {b c} | grant c @11 | remove e @9");
  CHECK_STEP(sweep(semaphore("ab", "ab")), "nothing");
  inspection no_record = none();
  no_record.leftovers.push_back({id('e'), "d", 0, 7, 9});
  CHECK_STEP(sweep(no_record), "remove e @9");
  BOOST_TEST((count_leftovers(s) == leftovers_count{2, 1}));
  BOOST_TEST((sweep(s).swept == leftovers_count{2, 1}));
}

BOOST_AUTO_TEST_CASE(sweep_of_many_takes_several_transactions) {
  inspection s = semaphore("a", "");
  for (std::uint64_t i = 0; i < 70; ++i) s.leftovers.push_back({"s" + std::to_string(i), "d", 0, 7, 100 + i});
  const instruction next = sweep(s);
  BOOST_TEST(next.operations.size() == operations_max);
  BOOST_TEST(next.more);
  BOOST_TEST((count_leftovers(s) == leftovers_count{1, 70}));
  BOOST_TEST((next.swept == leftovers_count{1, operations_max - 2}), "each is counted with its own transaction");
}

BOOST_AUTO_TEST_CASE(destroy_is_refused_while_anybody_holds_or_waits) {
  CHECK_STEP(destroy(semaphore("a", "a"), false), "refused: the semaphore is in use");
  CHECK_STEP(destroy(semaphore("", "a"), false), "refused: the semaphore is in use");
  CHECK_STEP(destroy(semaphore("", "X"), false), "refused: the semaphore is in use");
  CHECK_STEP(destroy(semaphore("", ""), false), "remove .lock @50");
  CHECK_STEP(destroy(semaphore("ab", ""), false), "remove .lock @50");
  CHECK_STEP(destroy(none(), false), "nothing");
}

BOOST_AUTO_TEST_CASE(destroy_takes_all_that_belongs_to_it) {
  inspection s = semaphore("a", "aX");
  s.leftovers.push_back({id('e'), "d", 0, 7, 9});
  CHECK_STEP(destroy(s, true), "remove .lock @50 | remove a @10 | remove X @11 | remove e @9");
  for (std::uint64_t i = 0; i < 70; ++i) s.leftovers.push_back({"s" + std::to_string(i), "d", 0, 7, 100 + i});
  BOOST_TEST(destroy(s, true).operations.size() == operations_max);
  BOOST_TEST(destroy(s, true).more);
}

/// One transaction was not enough. Meanwhile somebody has acquired a slot, and so created another record.
BOOST_AUTO_TEST_CASE(destroy_takes_the_acceptance_of_a_grant_along) {
  inspection s = semaphore("a", "a");
  s.now.contenders.find(id('a'))->accepted = true;
  const instruction next = destroy(s, true);
  BOOST_REQUIRE(next.operations.size() == 3u);
  BOOST_TEST((next.operations.back().verb == kv_verb::remove));
  BOOST_TEST(next.operations.back().key == acceptance_of_entry(next.operations[1].key));
}

BOOST_AUTO_TEST_CASE(destroy_leaves_alone_what_was_written_after_it_had_begun) {
  inspection s = semaphore("a", "aX");
  s.leftovers.push_back({id('e'), "d", 0, 7, 9});
  s.lock_created = 45;
  for (const bool even_in_use : {false, true}) {
    CHECK_STEP(destroy(s, even_in_use, 9), "remove e @9");  // a @10 and X @11 are later than the first read
    CHECK_STEP(destroy(s, even_in_use, 8), "nothing");
  }
}

/// The first transaction was refused or not applied.
BOOST_AUTO_TEST_CASE(destroy_begins_anew_while_the_record_of_its_first_read_is_there) {
  inspection s = semaphore("a", "a");
  s.lock_created = 5;
  CHECK_STEP(destroy(s, true, 9), "remove .lock @50 | remove a @10");
  CHECK_STEP(destroy(s, false, 9), "refused: the semaphore is in use");
}

BOOST_AUTO_TEST_CASE(what_others_wrote_is_kept) {
  inspection s = semaphore("ab", "ab");
  s.now.record.form = record_form::list;
  s.now.lock_flags = 0;
  CHECK_STEP(set_closed(s, true), "cas @50 2 {a b} as a list closed flags 0");
  CHECK_STEP(revoke(s, id('a'), true), "cas @50 2 {a b} as a list revoked {a} flags 0");
  CHECK_STEP(resize(s, 3), "cas @50 3 {a b} as a list flags 0");
  s.now.record.revoke(id('b'));
  s.now.record.closed = true;
  CHECK_STEP(resize(s, 3), "cas @50 3 {a b} as a list closed revoked {b} flags 0");
}

BOOST_AUTO_TEST_CASE(an_inspection_finds_what_no_session_holds) {
  const auto entry = [](std::string name, std::string session, std::uint64_t flags) {
    return kv_entry{prefix + name, "d", flags, std::move(session), 7, 9};
  };
  const auto seen = make_inspection(
      prefix, lock_key,
      {entry(".lock", "", semaphore_flags), entry(id('a'), id('a'), contender_magic),
       entry(id('b'), "", semaphore_flags), entry(id('c'), "", 0), entry(id('d'), "", 7), entry("readme", "", 0),
       entry(id('e') + "/x", "", 0), entry("zzzzzzzz-1111-2222-3333-444455556666", "", 0)},
      100);
  // The value of the key is no record.
  BOOST_REQUIRE(seen.has_error());
  BOOST_TEST(seen.error() == error::corrupt_record);
  kv_entry lock = entry(".lock", "", semaphore_flags);
  lock.value = R"({"Limit":2,"Holders":{}})";
  const auto good =
      make_inspection(prefix, lock_key,
                      {lock, entry(id('a'), id('a'), contender_magic), entry(id('b'), "", semaphore_flags),
                       entry(id('c'), "", 0), entry(id('d'), "", 7), entry("readme", "", 0),
                       entry(id('e') + "/x", "", 0), entry("zzzzzzzz-1111-2222-3333-444455556666", "", 0)},
                      100);
  BOOST_REQUIRE(good.has_value());
  names left;
  for (const contender& each : good->leftovers) left.push_back(each.session);
  BOOST_TEST(left == (names{id('b'), id('c')}), boost::test_tools::per_element());
  BOOST_TEST(good->now.contenders.size() == 1u);
  lock.flags = 0x2ddccbc058a50c18;
  BOOST_TEST(make_inspection(prefix, lock_key, {lock}, 100).error() == error::not_a_semaphore);
}

BOOST_AUTO_TEST_CASE(drained_is_where_no_holder_lives) {
  CHECK_STEP(drain(semaphore("ab", "bc"), true), "more");
  CHECK_STEP(drain(semaphore("ab", "bc"), false), "more");
  CHECK_STEP(drain(semaphore("ab", "c"), true), "nothing");
  CHECK_STEP(drain(none(), true), not_here);
  CHECK_STEP(drain(none(), false), "nothing");
}

BOOST_AUTO_TEST_SUITE_END()
