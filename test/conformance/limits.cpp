// SPDX-FileCopyrightText: The holdfast authors
// SPDX-License-Identifier: BSL-1.0

// How large a value and a transaction may be.

#include <string>
#include <vector>

#include "conformance/support/fact.hpp"

using holdfast::test::base64;
using holdfast::test::op;
using holdfast::test::peer;
using holdfast::test::peer_reply;

namespace {

constexpr std::size_t most = 512 * 1024;

std::vector<op> sets(std::size_t count) {
  std::vector<op> out;
  out.reserve(count);
  for (std::size_t i = 0; i < count; ++i) out.push_back(op("set", std::to_string(i)).value("v"));
  return out;
}

// Returns the begin of a body: one operation with a value of this many bytes. The rest of a body is blanks and a
// bracket.
std::string begin_of_body(const peer& consul, std::size_t value_size = 1, std::string_view verb = "set") {
  return R"([{"KV":{"Verb":")" + std::string(verb) + R"(","Key":")" + consul.prefix() + R"(a","Value":")" +
         base64(std::string(value_size, 'v')) + R"("}})";
}

// Returns a body of exactly this size. Consul allows blanks between two operations.
std::string body_of(const peer& consul, std::size_t size) {
  std::string body = begin_of_body(consul);
  body.append(size - body.size() - 1, ' ');
  return body + ']';
}

// Returns the size of the largest value that fits into a body of this size. Base64 makes four bytes of three.
std::size_t value_that_fits(const peer& consul, std::size_t size) {
  return (size - begin_of_body(consul, 0).size() - 1) / 4 * 3;
}

peer_reply txn(const peer& consul, std::string_view body) { return consul.request("PUT", "/v1/txn", body); }

// The reply has a link at the end of this text, which differs between versions.
std::string too_large(std::size_t size, std::size_t limit, const char* option = "txn_max_req_len") {
  return "413 Request body(" + std::to_string(size) + " bytes) too large, max size: " + std::to_string(limit) +
         " bytes. See #" + option + ".";
}

std::string without_link(std::string said) {
  const auto link = said.find("https://");
  if (link != std::string::npos) said.erase(link, said.find('#') - link);
  return said;
}

std::size_t operations_max(const peer& consul) { return consul.is_from(14) ? 128 : 64; }

std::string too_many(const peer& consul) {
  const std::size_t most_operations = operations_max(consul);
  return "413 Transaction contains too many operations (" + std::to_string(most_operations + 1) + " > " +
         std::to_string(most_operations) + ")";
}

std::string value_too_large(const peer& consul, const char* sizes) {
  return "413 Value for key \"" + consul.prefix() + "a\" is too large (" + sizes + " bytes)";
}

}  // namespace

BOOST_AUTO_TEST_SUITE(limits)

FACT(a_value_may_have_512_kib) {
  const std::string value(most, 'v');
  BOOST_TEST(consul.put("a", value).said() == "200 true");
  BOOST_TEST((consul.get("a?raw").body == value));
}

FACT(a_larger_value_is_refused_with_413) {
  BOOST_TEST(without_link(consul.put("a", std::string(most + 1, 'v')).said()) ==
             too_large(most + 1, most, "kv_max_value_size"));
  BOOST_TEST(!consul.exists("a"));
}

FACT(the_limit_holds_for_every_kind_of_put) {
  const std::string value(most + 1, 'v');
  for (const auto* query : {"a?cas=0", "a?acquire=x", "a?release=x"})
    BOOST_TEST(consul.put(query, value).status == 413);
}

FACT(a_transaction_may_have_64_operations_and_from_1_14_on_128) {
  const auto outcome = consul.txn(sets(operations_max(consul)));
  BOOST_TEST(outcome.status == 200);
  BOOST_TEST(outcome.results.size() == operations_max(consul));
}

FACT(a_transaction_of_more_operations_is_refused_with_413) {
  const auto outcome = consul.txn(sets(operations_max(consul) + 1));
  BOOST_TEST(outcome.reply.said() == too_many(consul));
  BOOST_TEST(consul.get("?keys").status == 404);
}

FACT(the_operations_of_no_kind_count_too) {
  std::string body = "[{}";
  for (std::size_t i = 1; i <= operations_max(consul); ++i) body += ",{}";
  BOOST_TEST(txn(consul, body + ']').status == 413);
}

FACT(a_transactions_body_may_have_512_kib) {
  BOOST_TEST(txn(consul, body_of(consul, most)).status == 200);
  BOOST_TEST(consul.exists("a"));
}

FACT(a_larger_body_is_refused_with_413) {
  BOOST_TEST(without_link(txn(consul, body_of(consul, most + 1)).said()) == too_large(most + 1, most));
  BOOST_TEST(!consul.exists("a"));
}

FACT(a_body_that_is_too_large_is_not_looked_into) {
  BOOST_TEST(without_link(txn(consul, std::string(most + 1, 'x')).said()) == too_large(most + 1, most));
  const std::string many =
      begin_of_body(consul) + std::string(most, ' ') + std::string(2 * operations_max(consul), ',') + ']';
  BOOST_TEST(without_link(txn(consul, many).said()) == too_large(many.size(), most));
}

// In this case the model has a text of its own.
FACT(what_is_far_too_large_is_refused_with_413_too) {
  const std::string body(4 * most, 'x');
  BOOST_TEST(txn(consul, body).status == 413);
  BOOST_TEST(consul.put("a", body).status == 413);
  BOOST_TEST(!consul.exists("a"));
}

// The limit applies to the whole body: the value in base64, the key, and everything around them.
FACT(a_transactions_value_may_have_three_quarters_of_what_the_body_may_have) {
  const std::size_t size = value_that_fits(consul, most);
  BOOST_TEST(size > most / 4 * 3 - 200);
  BOOST_TEST(txn(consul, begin_of_body(consul, size) + ']').status == 200);
  BOOST_TEST((consul.get("a?raw").body == std::string(size, 'v')));
  const std::string larger = begin_of_body(consul, size + 3) + ']';
  BOOST_TEST(larger.size() - most <= 4u);
  BOOST_TEST(without_link(txn(consul, larger).said()) == too_large(larger.size(), most));
}

FACT(operations_that_only_read_count_as_well) {
  std::vector<op> gets(operations_max(consul) + 1, op("get-tree", "a"));
  BOOST_TEST(consul.txn(gets).reply.said() == too_many(consul));
  gets.pop_back();
  BOOST_TEST(consul.txn(gets).status == 200);
}

FACT(what_cannot_be_read_is_told_before_the_number_of_operations) {
  std::vector<op> operations = sets(operations_max(consul) + 1);
  operations.back().with("Value", "!!");
  BOOST_TEST(consul.txn(operations).reply.complaint() ==
             "400 Failed to parse body: illegal base64 data at input byte 0");
}

// --- With other limits than the usual ones

LONELY_FACT(the_limits_can_be_set, .value_bytes = 1000, .txn_bytes = 2000) {
  BOOST_TEST(consul.put("a", std::string(1000, 'v')).said() == "200 true");
  BOOST_TEST(without_link(consul.put("a", std::string(1001, 'v')).said()) ==
             too_large(1001, 1000, "kv_max_value_size"));
  BOOST_TEST(txn(consul, body_of(consul, 2000)).status == 200);
  BOOST_TEST(without_link(txn(consul, body_of(consul, 2001)).said()) == too_large(2001, 2000));
}

LONELY_FACT(a_value_in_a_transaction_is_measured_as_it_is_not_in_base64, .value_bytes = 1000) {
  BOOST_TEST(txn(consul, begin_of_body(consul, 1000) + ']').status == 200);
  BOOST_TEST(txn(consul, begin_of_body(consul, 1001) + ']').said() == value_too_large(consul, "1001 > 1000"));
  BOOST_TEST((consul.get("a?raw").body == std::string(1000, 'v')));
}

LONELY_FACT(a_value_counts_also_where_it_is_for_nothing, .value_bytes = 1000) {
  for (const auto* verb : {"get", "delete", "none"})
    BOOST_TEST(txn(consul, begin_of_body(consul, 1001, verb) + ']').said() == value_too_large(consul, "1001 > 1000"));
}

LONELY_FACT(the_number_of_operations_is_told_before_the_size_of_a_value, .value_bytes = 1000) {
  std::vector<op> operations = sets(operations_max(consul));
  operations[7].value(std::string(1001, 'v'));
  operations[8].value(std::string(1002, 'v'));
  const auto said = [&] { return consul.txn(operations).reply.said(); };
  BOOST_TEST(said() == "413 Value for key \"" + consul.prefix() + "7\" is too large (1001 > 1000 bytes)");
  operations.push_back(op("set", "a"));
  BOOST_TEST(said() == too_many(consul));
}

LONELY_FACT(a_body_may_always_have_as_much_as_a_value, .value_bytes = 2000, .txn_bytes = 1000) {
  BOOST_TEST(txn(consul, body_of(consul, 2000)).status == 200);
  BOOST_TEST(without_link(txn(consul, body_of(consul, 2001)).said()) == too_large(2001, 2000));
}

BOOST_AUTO_TEST_SUITE_END()
