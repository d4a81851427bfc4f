// SPDX-FileCopyrightText: The holdfast authors
// SPDX-License-Identifier: BSL-1.0

// The client against real agents.

#include <boost/asio/co_spawn.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <boost/test/unit_test.hpp>
#include <holdfast/consul/client.hpp>

#include "support/agent.hpp"
#include "support/async.hpp"
#include "support/scripted_server.hpp"

using namespace std::chrono_literals;
using namespace holdfast::consul;
using holdfast::diagnostics;
using holdfast::error;
using holdfast::error_code;
using holdfast::test::agent;
using holdfast::test::agent_options;
using holdfast::test::consul_programs_version;
using holdfast::test::pending;
using holdfast::test::shared_agent;
using holdfast::test::unique_prefix;
namespace asio = boost::asio;

namespace {

using entry_answer = answer<std::optional<kv_entry>>;
using entries_answer = answer<std::vector<kv_entry>>;

constexpr std::uint64_t go_semaphore_flags = 16210313421097356768u;

client client_of(const asio::any_io_executor& ex, const agent& a = shared_agent(), std::string token = {},
                 std::string datacenter = {}) {
  config c;
  c.address = a.address();
  c.token = std::move(token);
  c.datacenter = std::move(datacenter);
  return client(ex, std::move(c));
}

session_options short_session() {
  session_options options;
  options.name = "test";
  options.ttl = 30s;
  options.lock_delay = 0ms;
  options.node_checks = false;
  return options;
}

request_options with(diagnostics& diag, std::chrono::milliseconds timeout = 0ms) {
  return {.timeout = timeout, .retry = false, .diag = &diag};
}

// Checks that all errors of a refused transaction have this reason. Returns the operation of the first one.
void check_refused(const txn_reply& reply, txn_refusal reason, std::size_t operation = 0) {
  BOOST_TEST(!reply.applied);
  BOOST_TEST(reply.results.empty());
  BOOST_TEST_REQUIRE(!reply.errors.empty());
  BOOST_TEST((reply.errors[0].reason == reason), reply.errors[0].text);
  BOOST_TEST(reply.errors[0].operation == operation);
}

}  // namespace

BOOST_AUTO_TEST_SUITE(client)

ASYNC_TEST_CASE(values_and_flags_come_back_as_they_went) {
  auto consul = client_of(ex);
  const std::string prefix = unique_prefix("kv");
  std::string bytes;
  for (int i = 0; i < 1024; ++i) bytes += static_cast<char>(i);
  const std::string key = prefix + "a b/\xc3\xa9?&=%#\"\\";

  const bool put = co_await consul.put(key, bytes, go_semaphore_flags);
  BOOST_TEST(put);
  const entry_answer got = co_await consul.get(key);
  BOOST_TEST_REQUIRE(got.value.has_value());
  BOOST_TEST(got.value->key == key);
  BOOST_TEST((got.value->value == bytes));
  BOOST_TEST(got.value->flags == go_semaphore_flags);
  BOOST_TEST(got.value->session.empty());
  BOOST_TEST(got.value->create_index == got.value->modify_index);
  BOOST_TEST(got.meta.index == got.value->modify_index);
  BOOST_TEST(got.meta.known_leader);

  co_await consul.put(key, "", 18446744073709551615u);
  const entry_answer again = co_await consul.get(key);
  BOOST_TEST(again.value.value().value.empty());
  BOOST_TEST(again.value->flags == 18446744073709551615u);
  BOOST_TEST(again.value->create_index == got.value->create_index);
  BOOST_TEST(again.value->modify_index > got.value->modify_index);

  const bool removed = co_await consul.remove(key);
  BOOST_TEST(removed);
  const entry_answer gone = co_await consul.get(key);
  BOOST_TEST(!gone.value.has_value());
  BOOST_TEST(gone.meta.index > again.meta.index);
  const bool removed_again = co_await consul.remove(key);
  BOOST_TEST(removed_again);
}

ASYNC_TEST_CASE(sessions) {
  auto consul = client_of(ex);
  session_options options = short_session();
  options.ttl = 1500ms;
  options.lock_delay = 1ms;
  options.behavior = session_behavior::remove;
  const std::string id = co_await consul.create_session(options);
  const auto info = co_await consul.session(id);
  BOOST_TEST_REQUIRE(info.value.has_value());
  BOOST_TEST(info.value->id == id);
  BOOST_TEST(info.value->name == "test");
  BOOST_TEST(info.value->node == shared_agent().node_name());
  BOOST_TEST((info.value->ttl == 1500ms));
  BOOST_TEST((info.value->lock_delay == 1ms));
  BOOST_TEST((info.value->behavior == session_behavior::remove));
  BOOST_TEST(info.value->node_checks.empty());
  co_await consul.renew_session(id);

  const std::string key = unique_prefix("session") + "k";
  co_await consul.acquire(key, "", id);
  co_await consul.destroy_session(id);
  co_await consul.destroy_session(id);
  const entry_answer gone = co_await consul.get(key);
  BOOST_TEST(!gone.value.has_value(), "the session's keys went with it");
  const auto no_info = co_await consul.session(id);
  BOOST_TEST(!no_info.value.has_value());

  diagnostics diag;
  pending<> renew(ex, consul.renew_session(id, with(diag)));
  const error_code ec = co_await renew.wait();
  BOOST_TEST(ec == error::invalid_session);
  BOOST_TEST(diag.server_message == "Session id '" + id + "' not found");
}

ASYNC_TEST_CASE(transactions_apply_whole) {
  auto consul = client_of(ex);
  const std::string prefix = unique_prefix("txn");
  const std::string session = co_await consul.create_session(short_session());
  const std::string bytes("\0\xff\"", 3);
  std::vector<txn_operation> writes{
      txn_operation::set(prefix + "set", bytes, go_semaphore_flags),
      txn_operation::cas(prefix + "cas", "1", 0),
      txn_operation::lock(prefix + "lock", "1", session),
      txn_operation::get(prefix + "set"),
      txn_operation::get_tree(prefix),
      txn_operation::check_session(prefix + "lock", session),
      txn_operation::check_not_exists(prefix + "none"),
  };
  const txn_reply written = co_await consul.transact(std::move(writes));
  BOOST_TEST_REQUIRE(written.applied);
  BOOST_TEST(written.errors.empty());
  BOOST_TEST_REQUIRE(written.results.size() == 8u);  // 3 writes, 1 get, 3 of the tree, 1 check
  BOOST_TEST(written.results[0].value.empty(), "what was written is not echoed");
  BOOST_TEST(written.results[0].flags == go_semaphore_flags);
  BOOST_TEST(written.results[2].session == session);
  BOOST_TEST(written.results[3].value == bytes);
  const std::uint64_t index = written.results[0].modify_index;
  BOOST_TEST(written.results[6].modify_index == index, "one transaction, one index");

  std::vector<txn_operation> more{
      txn_operation::check_index(prefix + "set", index), txn_operation::unlock(prefix + "lock", "2", session),
      txn_operation::remove_cas(prefix + "cas", index),  txn_operation::remove(prefix + "set"),
      txn_operation::remove_tree(prefix + "lock"),
  };
  const txn_reply removed = co_await consul.transact(std::move(more));
  BOOST_TEST(removed.applied);
  const entries_answer rest = co_await consul.list(prefix);
  BOOST_TEST(rest.value.empty());
}

ASYNC_TEST_CASE(sizes_have_limits) {
  auto consul = client_of(ex);
  const std::string key = unique_prefix("sizes") + "k";
  const bool put = co_await consul.put(key, std::string(512 * 1024, 'x'));
  BOOST_TEST(put);
  diagnostics diag;
  pending<bool> over(ex, consul.put(key, std::string(512 * 1024 + 1, 'x'), 0, with(diag)));
  const error_code ec = co_await over.wait();
  BOOST_TEST(ec == error::too_large);
  BOOST_TEST(diag.server_message.starts_with("Request body"));
  std::vector<txn_operation> most(txn_operations_max, txn_operation::get_tree(key + "/"));
  std::vector<txn_operation> fewer = most;
  fewer.resize(64);
  pending<txn_reply> largest(ex, consul.transact(std::move(most), with(diag)));
  const error_code of_largest = co_await largest.wait();
  if (consul_programs_version() >= holdfast::testing::consul_version{1, 14, 0}) {
    BOOST_TEST(!of_largest);
  } else {
    BOOST_TEST(of_largest == error::too_large);
    BOOST_TEST(diag.server_message == "Transaction contains too many operations (128 > 64)");
    const std::uint64_t sent = consul.statistics().requests;
    pending<txn_reply> larger(ex, consul.transact(std::vector<txn_operation>(65, fewer.front())));
    const error_code not_sent = co_await larger.wait();
    BOOST_TEST(not_sent == error::too_large);
    BOOST_TEST(consul.statistics().requests == sent, "the client has learnt it");
  }
  const txn_reply reply = co_await consul.transact(std::move(fewer));
  BOOST_TEST(reply.applied);
  pending<bool> path(ex, consul.put("//x", "1", 0, with(diag)));
  const error_code path_error = co_await path.wait();
  BOOST_TEST(path_error == error::bad_request);
  pending<bool> unnamed(ex, consul.put("", "1", 0, with(diag)));
  const error_code unnamed_error = co_await unnamed.wait();
  BOOST_TEST(unnamed_error == error::bad_request);
  BOOST_TEST(diag.server_message.ends_with("Missing key name"));
}

ASYNC_TEST_CASE(without_rights, 30s) {
  // Requests without a token have all rights, which shows when the agent is ready. The anonymous token has none.
  const agent secured(agent_options{.extra_config = R"({"acl":{"enabled":true,"default_policy":"deny",
      "tokens":{"master":"11111111-2222-3333-4444-555555555555","default":"11111111-2222-3333-4444-555555555555"}}})"});
  auto owner = client_of(ex, secured);
  auto consul = client_of(ex, secured, "anonymous");
  co_await owner.put("p/k", "1");
  const std::string session = co_await owner.create_session(short_session());

  diagnostics diag;
  pending<bool> put(ex, consul.put("p/k", "2", 0, with(diag)));
  const error_code put_error = co_await put.wait();
  BOOST_TEST(put_error == error::permission_denied);
  // From 1.12 on, Consul also names the token whose right is missing. Here that name is also the token's secret.
  BOOST_TEST(diag.server_message.starts_with("Permission denied"));
  std::string ours = diag.to_string();
  const auto theirs = ours.find(diag.server_message);
  BOOST_REQUIRE(theirs != std::string::npos);
  ours.erase(theirs, diag.server_message.size());
  BOOST_TEST(ours.find("anonymous") == std::string::npos, "the token is not told");
  pending<entry_answer> get(ex, consul.get("p/k"));
  const error_code get_error = co_await get.wait();
  BOOST_TEST(get_error == error::permission_denied);
  pending<std::string> create(ex, consul.create_session(short_session()));
  const error_code create_error = co_await create.wait();
  BOOST_TEST(create_error == error::permission_denied);
  pending<> renew(ex, consul.renew_session(session));
  const error_code renew_error = co_await renew.wait();
  BOOST_TEST(renew_error == error::permission_denied);
  const node_registration node{.name = "no-agent", .address = "127.0.0.1"};
  pending<> registration(ex, consul.register_node(node));
  const error_code registration_error = co_await registration.wait();
  BOOST_TEST(registration_error == error::permission_denied);

  std::vector<txn_operation> operations{txn_operation::set("p/k", "2")};
  const txn_reply refused = co_await consul.transact(std::move(operations));
  check_refused(refused, txn_refusal::permission_denied);

  // Consul before 1.12 does not tell these from absence, and later ones do not tell everybody who has no token.
  const entries_answer list = co_await consul.list("p/");
  BOOST_TEST(list.value.empty());
  const auto info = co_await consul.session(session);
  BOOST_TEST(!info.value.has_value());
  const std::string powerless = "22222222-2222-3333-4444-555555555555";
  secured.put("/v1/acl/token", R"({"SecretID":")" + powerless + R"("})");
  auto known = client_of(ex, secured, powerless);
  const bool tells = consul_programs_version() >= holdfast::testing::consul_version{1, 12, 0};
  const entries_answer hidden = co_await known.list("p/");
  BOOST_TEST(hidden.value.empty());
  BOOST_TEST(hidden.meta.filtered_by_acls == tells);
  const auto hidden_session = co_await known.session(session);
  BOOST_TEST(!hidden_session.value.has_value());
  BOOST_TEST(hidden_session.meta.filtered_by_acls == tells);

  auto unknown = client_of(ex, secured, "99999999-2222-3333-4444-555555555555");
  pending<entries_answer> unknown_list(ex, unknown.list("p/"));
  const error_code unknown_error = co_await unknown_list.wait();
  BOOST_TEST(unknown_error == error::permission_denied);
}

BOOST_AUTO_TEST_SUITE_END()
