// How large a value and a transaction may be.

#include <string>
#include <vector>

#include "conformance/support/fact.hpp"

using holdfast::test::op;
using holdfast::test::peer;

namespace {

constexpr std::size_t most = 512 * 1024;

std::vector<op> sets(std::size_t count) {
  std::vector<op> out;
  for (std::size_t i = 0; i < count; ++i) out.push_back(op("set", std::to_string(i)).value("v"));
  return out;
}

// Of exactly that size: blanks between two operations are allowed.
std::string body_of(const peer& consul, std::size_t size) {
  const std::string key = consul.prefix() + "a";
  std::string body = R"([{"KV":{"Verb":"set","Key":")" + key + R"(","Value":"dg=="}})";
  body.append(size - body.size() - 1, ' ');
  return body + ']';
}

}  // namespace

BOOST_AUTO_TEST_SUITE(limits)

FACT(a_value_may_have_512_kib) {
  const std::string value(most, 'v');
  BOOST_TEST(consul.put("a", value).said() == "200 true");
  BOOST_TEST((consul.get("a?raw").body == value));
}

FACT(a_larger_value_is_refused_with_413) {
  const auto reply = consul.put("a", std::string(most + 1, 'v'));
  BOOST_TEST(reply.said() ==
             "413 Request body(524289 bytes) too large, max size: 524288 bytes. See "
             "https://www.consul.io/docs/agent/options.html#kv_max_value_size.");
  BOOST_TEST(!consul.exists("a"));
}

FACT(the_limit_holds_for_every_kind_of_put) {
  const std::string value(most + 1, 'v');
  for (const auto* query : {"a?cas=0", "a?acquire=x", "a?release=x"})
    BOOST_TEST(consul.put(query, value).status == 413);
}

FACT(a_transaction_may_have_64_operations) {
  const auto outcome = consul.txn(sets(64));
  BOOST_TEST(outcome.status == 200);
  BOOST_TEST(outcome.results.size() == 64u);
}

FACT(a_transaction_of_65_operations_is_refused_with_413) {
  const auto outcome = consul.txn(sets(65));
  BOOST_TEST(outcome.reply.said() == "413 Transaction contains too many operations (65 > 64)");
  BOOST_TEST(consul.get("?keys").status == 404);
}

FACT(the_operations_of_no_kind_count_too) {
  std::string body = "[{}";
  for (int i = 1; i < 65; ++i) body += ",{}";
  BOOST_TEST(consul.request("PUT", "/v1/txn", body + ']').status == 413);
}

FACT(a_transactions_body_may_have_512_kib) {
  BOOST_TEST(consul.request("PUT", "/v1/txn", body_of(consul, most)).status == 200);
  BOOST_TEST(consul.exists("a"));
}

FACT(a_larger_body_is_refused_with_413) {
  const auto reply = consul.request("PUT", "/v1/txn", body_of(consul, most + 1));
  BOOST_TEST(reply.said() ==
             "413 Request body(524289 bytes) too large, max size: 524288 bytes. See "
             "https://www.consul.io/docs/agent/options.html#txn_max_req_len.");
  BOOST_TEST(!consul.exists("a"));
}

BOOST_AUTO_TEST_SUITE_END()
