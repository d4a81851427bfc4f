// SPDX-FileCopyrightText: The holdfast authors
// SPDX-License-Identifier: BSL-1.0

#include "runtime/semaphore_status.hpp"

#include <boost/test/unit_test.hpp>

#include "protocol/record/entry_value.hpp"
#include "protocol/record/succession.hpp"

using namespace holdfast;
using namespace std::chrono_literals;

namespace {

protocol::contender entry(std::string session, std::string value, std::uint64_t flags, std::uint64_t index) {
  return {std::move(session), std::move(value), flags, index, index + 1};
}

constexpr std::chrono::seconds now = 1'763'752'400s;

}  // namespace

BOOST_AUTO_TEST_SUITE(semaphore_status)

BOOST_AUTO_TEST_CASE(nothing_is_no_semaphore) {
  BOOST_TEST((runtime::to_status({}, now) == holdfast::semaphore_status()));
}

BOOST_AUTO_TEST_CASE(all_that_stands_there_is_told) {
  protocol::inspection s;
  s.now.lock_index = 50;
  s.now.record.limit = 3;
  s.now.record.closed = true;
  for (const char* holder : {"ours", "go", "dead"}) s.now.record.add(holder);
  s.now.record.revoke("ours");
  s.now.record.revoke("go");
  const protocol::contender next = entry("next", "n", protocol::contender_magic, 40);
  const std::string stamped = protocol::with_stamp("host:7", 1'763'752'382s);
  const std::string granted = protocol::with_succession(stamped, {{&next}, 0, 3});
  s.now.contenders = {entry("ours", granted, protocol::contender_magic | 1, 10),
                      entry("go", "x\n@12", protocol::semaphore_flags, 20), entry("guide", "y", 0, 30), next,
                      entry("early", protocol::with_stamp("z", now + 5s), protocol::contender_magic, 41)};
  s.leftovers.resize(2);
  const holdfast::semaphore_status seen = runtime::to_status(s, now);
  BOOST_TEST(seen.exists);
  BOOST_TEST(seen.limit == 3u);
  BOOST_TEST(seen.closed);
  BOOST_TEST(seen.index == 50u);
  BOOST_TEST(seen.dead_holders == 1u);
  BOOST_TEST(seen.dead_entries == 2u);
  BOOST_REQUIRE(seen.holders.size() == 2u);
  BOOST_TEST(
      (seen.holders[0] ==
       contender_status{"ours", "host:7", contender_kind::holdfast, 0, {11, 0}, true, std::chrono::seconds(18)}));
  BOOST_TEST((seen.holders[1] == contender_status{"go", "x\n@12", contender_kind::go_client, 0, {}, true, {}}));
  BOOST_REQUIRE(seen.queue.size() == 3u);
  BOOST_TEST((seen.queue[0] == contender_status{"guide", "y", contender_kind::guide, 1, {}, false, {}}));
  BOOST_TEST((seen.queue[1] == contender_status{"next", "n", contender_kind::holdfast, 2, {}, false, {}}));
  BOOST_TEST((seen.queue[2] ==
              contender_status{"early", "z", contender_kind::holdfast, 3, {}, false, std::chrono::seconds(0)}));
}

BOOST_AUTO_TEST_CASE(a_grant_that_is_not_taken_yet_is_provisional) {
  protocol::inspection s;
  s.now.record.limit = 2;
  s.now.record.add("new");
  s.now.record.add("old");
  const std::uint64_t granted = protocol::next_grant_flags(protocol::contender_magic, true);
  s.now.contenders = {entry("new", "", granted, 10), entry("old", "", granted, 11)};
  s.now.contenders.find("old")->accepted = true;
  const holdfast::semaphore_status seen = runtime::to_status(s, now);
  BOOST_REQUIRE(seen.holders.size() == 2u);
  BOOST_TEST(seen.holders[0].provisional);
  BOOST_TEST(!seen.holders[1].provisional);
}

BOOST_AUTO_TEST_CASE(kinds_have_names) {
  BOOST_TEST(to_string(contender_kind::holdfast) == "holdfast");
  BOOST_TEST(to_string(contender_kind::go_client) == "go_client");
  BOOST_TEST(to_string(contender_kind::guide) == "guide");
}

BOOST_AUTO_TEST_SUITE_END()
