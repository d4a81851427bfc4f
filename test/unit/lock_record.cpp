// SPDX-FileCopyrightText: The holdfast authors
// SPDX-License-Identifier: BSL-1.0

#include "protocol/record/lock_record.hpp"

#include <boost/test/unit_test.hpp>
#include <holdfast/error.hpp>

#include "protocol/base/operation.hpp"

using namespace holdfast;
using namespace holdfast::protocol;

namespace {

lock_record parsed(std::string_view value) {
  const auto record = parse_lock_record(value);
  BOOST_REQUIRE_MESSAGE(record.has_value(), value);
  return *record;
}

void check_corrupt(std::string_view value) {
  const auto record = parse_lock_record(value);
  BOOST_REQUIRE_MESSAGE(record.has_error(), value << " was read");
  BOOST_TEST(record.error() == error::corrupt_record);
}

}  // namespace

BOOST_AUTO_TEST_SUITE(lock_record)

BOOST_AUTO_TEST_CASE(reads_the_form_of_the_go_client) {
  const auto record = parsed(R"({"Limit":2,"Holders":{"b":true,"a":true}})");
  BOOST_TEST((record == holdfast::protocol::lock_record{record_form::map, 2, {"a", "b"}}));
}

BOOST_AUTO_TEST_CASE(reads_the_form_of_the_guide) {
  const auto record = parsed(R"({"Limit": 3, "Holders": ["c", "a", "b"]})");
  BOOST_TEST((record == holdfast::protocol::lock_record{record_form::list, 3, {"a", "b", "c"}}));
}

BOOST_AUTO_TEST_CASE(reads_a_holder_that_is_named_twice_once) {
  BOOST_TEST(parsed(R"({"Limit":2,"Holders":["a","b","a"]})").holders == (std::vector<std::string>{"a", "b"}),
             boost::test_tools::per_element());
}

BOOST_AUTO_TEST_CASE(reads_a_record_without_holders) {
  for (const char* value : {R"({"Limit":1})", R"({"Limit":1,"Holders":null})", R"({"Limit":1,"Holders":{}})",
                            R"( {"Holders":[],"Other":[1,{"x":2}],"Limit":1} )"})
    BOOST_TEST(parsed(value).holders.empty(), value);
}

BOOST_AUTO_TEST_CASE(reads_the_limit_at_its_edges) {
  BOOST_TEST(parsed(R"({"Limit":1})").limit == 1u);
  BOOST_TEST(parsed(R"({"Limit":2147483648})").limit == 2147483648u);
}

BOOST_AUTO_TEST_CASE(refuses_what_is_no_record) {
  for (const char* value : {"",
                            " ",
                            "null",
                            "2",
                            "\"x\"",
                            "[]",
                            "[{\"Limit\":1}]",
                            "{}",
                            R"({"limit":1})",
                            R"({"Limit":null})",
                            R"({"Limit":0})",
                            R"({"Limit":-1})",
                            R"({"Limit":2147483649})",
                            R"({"Limit":18446744073709551615})",
                            R"({"Limit":18446744073709551616})",
                            R"({"Limit":1.5})",
                            R"({"Limit":1.0})",
                            R"({"Limit":"1"})",
                            R"({"Limit":true})",
                            R"({"Limit":1,"Holders":1})",
                            R"({"Limit":1,"Holders":"a"})",
                            R"({"Limit":1,"Holders":false})",
                            R"({"Limit":1,"Holders":[1]})",
                            R"({"Limit":1,"Holders":["a",null]})",
                            R"({"Limit":1,"Holders":[["a"]]})",
                            R"({"Limit":1}x)",
                            R"({"Limit":1}{"Limit":1})",
                            R"({"Limit":1,})",
                            R"({'Limit':1})",
                            "\xff\xfe",
                            R"({"Limit":1,"X":[[[[[[1]]]]]]})",
                            R"({"Limit":1,"Closed":1})",
                            R"({"Limit":1,"Closed":"true"})",
                            R"({"Limit":1,"Closed":{}})",
                            R"({"Limit":1,"Revoked":true})",
                            R"({"Limit":1,"Revoked":"a"})",
                            R"({"Limit":1,"Revoked":["a"]})"})
    check_corrupt(value);
}

BOOST_AUTO_TEST_CASE(refuses_a_record_cut_off_after_any_byte) {
  for (const std::string_view value :
       {R"({"Limit":2,"Holders":{"a":true,"b":true}})", R"({"Limit":2,"Holders":["a","b"]})",
        R"({"Limit":2,"Holders":{"a":true},"Closed":true,"Revoked":{"a":true}})"})
    for (std::size_t length = 0; length < value.size(); ++length) check_corrupt(value.substr(0, length));
}

BOOST_AUTO_TEST_CASE(refuses_a_zero_byte_in_it) {
  check_corrupt(std::string_view("{\"Limit\":1}\0", 12));
  check_corrupt(std::string_view("{\"Limit\"\0:1}", 12));
}

BOOST_AUTO_TEST_CASE(refuses_too_many_holders) {
  std::string value = R"({"Limit":1,"Holders":[)";
  for (int i = 0; i <= 100'000; ++i) value += (i == 0 ? "\"" : ",\"") + std::to_string(i) + "\"";
  check_corrupt(value + "]}");
}

BOOST_AUTO_TEST_CASE(writes_what_it_reads) {
  for (const char* value : {R"({"Limit":2,"Holders":{"a":true,"b":true}})", R"({"Limit":2,"Holders":["a","b"]})",
                            R"({"Limit":1,"Holders":{}})", R"({"Limit":1,"Holders":[]})",
                            R"({"Limit":2,"Holders":{"a":true},"Closed":true})",
                            R"({"Limit":2,"Holders":["a","b"],"Revoked":{"a":true,"b":true}})",
                            R"({"Limit":2,"Holders":{"a":true},"Closed":true,"Revoked":{"a":true}})",
                            R"({"Limit":2147483648,"Holders":{"with \"quotes\"":true}})"})
    BOOST_TEST(format(parsed(value)) == value);
}

BOOST_AUTO_TEST_CASE(writes_the_form_of_the_go_client_where_there_was_none) {
  BOOST_TEST(format({{}, 4, {"s"}}) == R"({"Limit":4,"Holders":{"s":true}})");
}

BOOST_AUTO_TEST_CASE(reads_what_an_operator_has_ordered) {
  const auto record =
      parsed(R"({"Limit":2,"Holders":{"a":true,"b":true},"Closed":true,"Revoked":{"b":true,"z":false}})");
  BOOST_TEST(record.closed);
  BOOST_TEST(record.revokes("b"));
  BOOST_TEST(record.revokes("z"));
  BOOST_TEST(!record.revokes("a"));
  for (const char* value : {R"({"Limit":1})", R"({"Limit":1,"Closed":false,"Revoked":{}})",
                            R"({"Limit":1,"Closed":null,"Revoked":null})", R"({"Limit":1,"closed":true})"}) {
    BOOST_TEST(!parsed(value).closed, value);
    BOOST_TEST(parsed(value).revoked.empty(), value);
  }
}

BOOST_AUTO_TEST_CASE(what_nobody_has_ordered_is_not_written) {
  BOOST_TEST(format(parsed(R"({"Limit":1,"Holders":{},"Closed":false,"Revoked":{}})")) ==
             R"({"Limit":1,"Holders":{}})");
}

BOOST_AUTO_TEST_CASE(a_mark_goes_with_its_holder) {
  auto record = parsed(R"({"Limit":2,"Holders":{"a":true,"b":true},"Revoked":{"a":true,"b":true,"z":true}})");
  record.drop("a");
  BOOST_TEST(!record.revokes("a"));
  record.keep_marks_of_holders();
  BOOST_TEST(record.revoked == (std::vector<std::string>{"b"}), boost::test_tools::per_element());
  record.revoke("b");
  BOOST_TEST(record.revoked.size() == 1u);
}

BOOST_AUTO_TEST_CASE(refuses_too_many_marks) {
  std::string value = R"({"Limit":1,"Revoked":{)";
  for (int i = 0; i <= 100'000; ++i) value += (i == 0 ? "\"" : ",\"") + std::to_string(i) + "\":true";
  check_corrupt(value + "}}");
}

BOOST_AUTO_TEST_CASE(keeps_its_holders_sorted_and_each_once) {
  holdfast::protocol::lock_record record;
  for (const char* holder : {"b", "c", "a", "b"}) record.add(holder);
  BOOST_TEST(record.holders == (std::vector<std::string>{"a", "b", "c"}), boost::test_tools::per_element());
  BOOST_TEST(record.names("b"));
  record.drop("b");
  record.drop("b");
  record.drop("x");
  BOOST_TEST(!record.names("b"));
  BOOST_TEST(!record.names(""));
  BOOST_TEST(record.holders == (std::vector<std::string>{"a", "c"}), boost::test_tools::per_element());
}

BOOST_AUTO_TEST_CASE(the_largest_limit_that_we_take_fits_a_transaction_with_every_holder_marked) {
  holdfast::protocol::lock_record record{record_form::map, limit_max, {}};
  for (std::uint32_t i = 0; i < limit_max; ++i) {
    std::string id = std::to_string(i);
    record.holders.push_back("00000000-0000-0000-0000-" + std::string(12 - id.size(), '0') + id);
  }
  record.closed = true;
  record.revoked = record.holders;
  const std::string value = format(record);
  BOOST_TEST(value.size() <= size_of(record));
  BOOST_TEST(bytes_of_operation(400, value.size()) < request_bytes_max - 20'000);
}

BOOST_AUTO_TEST_SUITE_END()
