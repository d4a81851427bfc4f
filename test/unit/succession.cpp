// SPDX-FileCopyrightText: The holdfast authors
// SPDX-License-Identifier: BSL-1.0

#include "protocol/record/succession.hpp"

#include <boost/test/unit_test.hpp>
#include <holdfast/session_defaults.hpp>

#include "protocol/record/entry_value.hpp"

using namespace holdfast::protocol;

namespace {

contender waiting(std::string session, std::uint64_t index, std::string description = "d") {
  return {std::move(session), std::move(description), contender_magic, index, index};
}

std::string written(const std::vector<contender>& next, std::size_t behind = 0, std::string_view description = "me") {
  succession_view view;
  for (const contender& each : next) view.next.push_back(&each);
  view.behind = behind;
  return with_succession(description, view);
}

void check_none(std::string_view text) {
  BOOST_TEST(!succession_in("me\n" + std::string(text), "me").has_value(), text);
}

}  // namespace

BOOST_AUTO_TEST_SUITE(succession)

BOOST_AUTO_TEST_CASE(it_comes_back_as_it_was) {
  const std::vector<contender> next{waiting("s1", 7), waiting("s2", 18446744073709551615u, "a \"b\"\n{\"c\"")};
  const std::string value = written(next, 3);
  const auto read = succession_in(value, "me");
  BOOST_REQUIRE(read.has_value());
  BOOST_TEST((read->next == next));
  BOOST_TEST(read->behind == 3u);
  BOOST_TEST(description_in(value) == "me");
}

BOOST_AUTO_TEST_CASE(people_can_read_it) {
  BOOST_TEST(written({waiting("s1", 7, "host 1")}, 2) ==
             "me\n{\"Limit\":1,\"Next\":[[\"s1\",7,\"host 1\"]],\"Behind\":2}");
}

BOOST_AUTO_TEST_CASE(a_number_goes_with_it_and_whoever_wants_one_is_known) {
  contender next = waiting("s1", 7);
  next.flags |= numbered_flag;
  const std::string value = with_succession("me", {{&next}, 2, 3, 9});
  BOOST_TEST(value == "me\n{\"Limit\":3,\"Next\":[[\"s1\",7,\"d\",true]],\"Behind\":2,\"Number\":9}");
  const auto read = succession_in(value, "me");
  BOOST_REQUIRE(read.has_value());
  BOOST_TEST((read->next == std::vector<contender>{next}));
  BOOST_TEST((read->number == 9u));
  const auto alone = succession_in(with_succession("me", {{}, 0, 3, 0}), "me");
  BOOST_REQUIRE(alone.has_value());
  BOOST_TEST(alone->next.empty());
  BOOST_TEST((alone->number == 0u));
}

BOOST_AUTO_TEST_CASE(nobody_next_leaves_the_description_alone) {
  BOOST_TEST(written({}) == "me");
  BOOST_TEST(description_in("me") == "me");
  BOOST_TEST(!succession_in("me", "me").has_value());
}

BOOST_AUTO_TEST_CASE(one_that_was_granted_before_is_named_without_its_own) {
  const auto read = succession_in(written({waiting("s1", 7, written({waiting("s2", 8)}, 0, "d"))}), "me");
  BOOST_REQUIRE(read.has_value());
  BOOST_TEST(read->next.front().value == "d");
}

BOOST_AUTO_TEST_CASE(long_descriptions_leave_room_for_fewer_names) {
  std::vector<contender> next;
  for (std::uint64_t i = 1; i <= 8; ++i) next.push_back(waiting("s" + std::to_string(i), i, std::string(500, 'x')));
  const std::string value = written(next, 5);
  BOOST_TEST(value.size() < succession_bytes_max + 50);
  const auto read = succession_in(value, "me");
  BOOST_REQUIRE(read.has_value());
  BOOST_TEST(read->next.size() == 3u);
  BOOST_TEST(read->behind == 10u);
  BOOST_TEST(written({waiting("s1", 1, std::string(3000, 'x'))}) == "me");
}

BOOST_AUTO_TEST_CASE(it_belongs_to_exactly_that_description) {
  const std::string value = written({waiting("s1", 7)});
  BOOST_TEST(!succession_in(value, "m").has_value());
  BOOST_TEST(!succession_in(value, "me\n").has_value());
  BOOST_TEST(!succession_in(value, "you").has_value());
}

BOOST_AUTO_TEST_CASE(a_stamp_says_since_when_and_is_a_part_of_the_description_for_whoever_grants) {
  using std::chrono::seconds;
  const std::string stamped = with_stamp("host:7", seconds(1'763'752'382));
  BOOST_TEST(stamped == "host:7\n@1763752382");
  for (const std::string& value : {stamped, written({waiting("s1", 7)}, 0, stamped)}) {
    BOOST_TEST(parse_entry_value(value).description == "host:7");
    BOOST_TEST((parse_entry_value(value).since_1970 == seconds(1'763'752'382)));
    BOOST_TEST(description_in(value) == stamped);
  }
  BOOST_TEST(succession_in(written({waiting("s1", 7)}, 0, stamped), stamped).has_value());
}

BOOST_AUTO_TEST_CASE(a_stamp_says_whether_grants_are_accepted) {
  using namespace std::chrono_literals;
  for (const std::string_view node : {holdfast::default_session_node, std::string_view("n1"), std::string_view()})
    for (const bool accepts : {false, true}) {
      const entry_lease lease{15s, 1500ms, node, accepts};
      const std::string stamped = with_stamp("host:7", 5s, lease);
      BOOST_TEST(stamped.starts_with(accepts ? "host:7\n~\n@5+15000-1500" : "host:7\n@5+15000-1500"), stamped);
      BOOST_TEST(parse_entry_value(stamped).description == "host:7");
      BOOST_TEST((parse_entry_value(stamped).lease == lease));
    }
  BOOST_TEST(parse_entry_value("host:7\n~\n@5").description == "host:7\n~");
}

BOOST_AUTO_TEST_CASE(who_has_no_stamp_has_no_age) {
  for (const std::string_view value : {"host:7", "", "\n@", "x\n@12a", "x\n@-5", "x\n@0", "x\n@9000000001", "x @12",
                                       "x\n@99999999999999999999", "x\n@12\n"}) {
    BOOST_TEST(parse_entry_value(value).description == value);
    BOOST_TEST(!parse_entry_value(value).since_1970.has_value(), value);
  }
  BOOST_TEST(with_stamp("d", std::chrono::seconds(0)) == "d");
  BOOST_TEST(with_stamp("d", -std::chrono::seconds(5)) == "d");
}

BOOST_AUTO_TEST_CASE(malformed_ones_are_none) {
  check_none(R"({"Limit":1,"Next":[["s1",7,"d"]]})");
  check_none(R"({"Limit":0,"Next":[["s1",7,"d"]],"Behind":1})");
  check_none(R"({"Limit":"1","Next":[["s1",7,"d"]],"Behind":1})");
  check_none(R"({"Next":[["s1",7,"d"]],"Behind":1})");
  check_none(R"({"Limit":1,"Next":[["s1",7,"d"]],"Behind":100001})");
  check_none(R"({"Limit":1,"Next":[["s1",7,"d"]],"Behind":-1})");
  check_none(R"({"Limit":1,"Next":[["s1",7,"d"]],"Behind":"1"})");
  check_none(R"({"Limit":1,"Next":[],"Behind":1})");
  check_none(R"({"Limit":1,"Next":[["s1",7]],"Behind":1})");
  check_none(R"({"Limit":1,"Next":[["s1",7,"d",false]],"Behind":1})");
  check_none(R"({"Limit":1,"Next":[["s1",7,"d",true,true]],"Behind":1})");
  check_none(R"({"Limit":1,"Next":[["s1",7,"d"]],"Behind":1,"Number":-1})");
  check_none(R"({"Limit":1,"Next":[["s1",7,"d"]],"Behind":1,"Number":"1"})");
  check_none(R"({"Limit":1,"Next":[],"Behind":1,"Number":10000})");
  check_none(R"({"Limit":1,"Next":[["s1",0,"d"]],"Behind":1})");
  check_none(R"({"Limit":1,"Next":[["s1",-7,"d"]],"Behind":1})");
  check_none(R"({"Limit":1,"Next":[["s1",1.5,"d"]],"Behind":1})");
  check_none(R"({"Limit":1,"Next":[[7,7,"d"]],"Behind":1})");
  check_none(R"({"Limit":1,"Next":[["",7,"d"]],"Behind":1})");
  check_none(R"({"Limit":1,"Next":[["a/b",7,"d"]],"Behind":1})");
  check_none(R"({"Limit":1,"Next":[["s1",7,"d"],["s2",6,"d"]],"Behind":1})");
  check_none(R"({"Limit":1,"Next":[["s1",7,"d"]],"Behind":1)");
  check_none(R"({"Limit":1,"Next":[["s1",7,[[[[]]]]]],"Behind":1})");
  std::string many = R"({"Limit":1,"Next":[["s1",7,"d"])";
  for (std::size_t i = 1; i <= succession_max; ++i) many += R"(,["s1",7,"d"])";
  check_none(many + R"(],"Behind":1})");
  check_none(R"({"Limit":1,"Next":[["s1",7,")" + std::string(8 * succession_bytes_max, 'x') + R"("]],"Behind":1})");
}

BOOST_AUTO_TEST_SUITE_END()
