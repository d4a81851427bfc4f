// SPDX-FileCopyrightText: The holdfast authors
// SPDX-License-Identifier: BSL-1.0

// Transactions, in both directions.
//
// The input begins with a byte. If it is even, a byte for the status and one for the number of operations follow, and
// then a body as some server might send it. If it is odd, operations follow. The library writes them, the model of
// Consul executes them, and the library reads their outcome.

#include <algorithm>
#include <array>
#include <boost/json.hpp>
#include <string>
#include <vector>

#include "consul/encoding/json.hpp"
#include "consul/encoding/reply.hpp"
#include "fuzz.hpp"
#include "support/decode.hpp"
#include "testing/api.hpp"

using namespace holdfast;
using namespace holdfast::consul;
using holdfast::consul::detail::decode_txn;
using holdfast::fuzz::require;
using holdfast::testing::store;

namespace {

constexpr std::array<const char*, 4> sessions{"", "00000000-0000-0000-0000-000000000001",
                                              "00000000-0000-0000-0000-000000000002",
                                              "00000000-0000-0000-0000-00000000dead"};
constexpr std::array<const char*, 8> keys{"a", "a/b", "a/c", "a/b/d", "\"quoted\"\\\n\x01", "\xc3\xa9", "b", ""};
constexpr std::array<std::uint64_t, 4> flags{0, 1, std::uint64_t{1} << 63, ~std::uint64_t{0}};

void check_body(fuzz::input in) {
  constexpr std::array<unsigned, 4> statuses{200, 409, 404, 500};
  consul::detail::http_reply reply;
  reply.status = statuses[in.byte() % statuses.size()];
  const std::size_t operations = 1 + in.byte() % txn_operations_max;
  reply.body = in.rest();
  txn_reply read;
  if (decode_txn(reply, operations, read)) return;
  require(reply.status == (read.applied ? 200u : 409u), "status and body say the same thing");
  require(read.applied == read.errors.empty(), "a refused transaction says why");
  for (const txn_error& refusal : read.errors) {
    require(refusal.operation < operations, "an error is about an operation that was sent");
    require(refusal.reason == consul::detail::refusal_of(refusal.text), "and has the meaning of its text");
  }
  // A valid reply is also valid for any larger transaction. With the opposite status it is not valid.
  txn_reply again;
  require(!decode_txn(reply, txn_operations_max, again) && again.results == read.results &&
              again.errors == read.errors && again.applied == read.applied,
          "a larger transaction reads the same");
  reply.status = read.applied ? 409 : 200;
  require(decode_txn(reply, operations, again).failed(), "a server that contradicts itself is not believed");
}

// The corpus contains verbs as numbers. A new verb must be added at the end, because otherwise the names of the inputs
// become wrong.
static_assert(kv_verbs[0] == kv_verb::lock && kv_verbs[6] == kv_verb::remove && kv_verbs[11] == kv_verb::remove_tree);

txn_operation take_operation(fuzz::input& in) {
  txn_operation op;
  op.verb = kv_verbs[in.byte() % std::size(kv_verbs)];
  op.key = keys[in.byte() % keys.size()];
  op.session = sessions[in.byte() % sessions.size()];
  op.flags = flags[in.byte() % flags.size()];
  op.index = in.byte() % 32;
  op.value = in.text(in.byte() % 4);
  return op;
}

store make_store(store::time_point now) {
  store model;
  for (const std::size_t which : {1, 2}) {
    session_info session;
    session.id = sessions[which];
    require(!model.create_session(session, now), "the model takes a session");
  }
  model.write(txn_operation::set("a/b", "one"), now);
  model.write(txn_operation::lock("a/c", "two", sessions[1], 7), now);
  return model;
}

void check_operations(fuzz::input in) {
  const store::time_point now{};
  std::vector<txn_operation> operations;
  while (!in.empty() && operations.size() < txn_operations_max) operations.push_back(take_operation(in));

  store direct = make_store(now);
  store behind_http = make_store(now);
  testing::detail::api consul(behind_http, 1);
  const auto answer = consul.handle({"PUT", "/v1/txn", consul::detail::write_txn(operations)}, now);
  consul::detail::http_reply reply;
  reply.status = answer.reply.status;
  reply.body = answer.reply.body;
  txn_reply read;
  require(!decode_txn(reply, operations.size(), read), "we understand the answer to what we wrote");

  const txn_reply expected = direct.transact(operations, now);
  require(read.applied == expected.applied, "it was applied, or not");
  require(read.results == expected.results, "with these results");
  require(read.errors == expected.errors, "with these errors");
  require(behind_http.list("").value == direct.list("").value, "and to this end");
  if (!expected.applied) require(direct.list("").value == make_store(now).list("").value, "all or nothing");
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  fuzz::input in(data, size);
  if (in.byte() % 2 == 0) {
    check_body(in);
  } else {
    check_operations(in);
  }
  return 0;
}
