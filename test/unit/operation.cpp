// SPDX-FileCopyrightText: The holdfast authors
// SPDX-License-Identifier: BSL-1.0

#include "protocol/base/operation.hpp"

#include <boost/test/unit_test.hpp>
#include <holdfast/testing/store.hpp>
#include <string>

using namespace holdfast;
using namespace holdfast::protocol;

namespace {

const std::string session = "11111111-0000-4000-8000-000000000000";

/// A transaction that is applied if the session has locked "a" and the value of "a" is "v".
kv_operation example_of(kv_verb verb, std::uint64_t index) {
  const bool is_new = verb == kv_verb::check_not_exists || verb == kv_verb::lock;
  return {verb, is_new ? "b" : "a", "v", 0, index, session};
}

}  // namespace

BOOST_AUTO_TEST_SUITE(operation)

BOOST_AUTO_TEST_CASE(what_consul_returns_for_each_verb_is_known) {
  for (const kv_verb verb : kv_verbs) {
    testing::store store;
    const testing::store::time_point now{};
    consul::session_info info;
    info.id = session;
    BOOST_REQUIRE(!store.create_session(info, now));
    store.write(kv_operation::lock("a", "v", session), now);
    const std::uint64_t before = store.get("a").value->modify_index;
    const consul::txn_reply reply = store.transact({example_of(verb, before)}, now);
    BOOST_TEST_CONTEXT("verb " << to_string(verb)) {
      BOOST_TEST_REQUIRE(reply.applied);
      const result_kind kind = result_of(verb);
      BOOST_TEST(reply.results.size() == (kind == result_kind::none ? 0u : 1u));
      if (kind == result_kind::none) continue;
      BOOST_TEST((reply.results.front().modify_index > before) == (kind == result_kind::written));
      BOOST_TEST((reply.results.front().value == "v") == (kind == result_kind::read));
    }
  }
}

BOOST_AUTO_TEST_SUITE_END()
