// SPDX-FileCopyrightText: The holdfast authors
// SPDX-License-Identifier: BSL-1.0

// A token expires while it is in use, and the next one comes in time or does not.

#include <boost/test/unit_test.hpp>
#include <holdfast/consul/client.hpp>
#include <holdfast/semaphore.hpp>

#include "support/agent.hpp"
#include "support/async.hpp"
#include "support/participant.hpp"
#include "support/scripted_server.hpp"
#include "support/temporary_folder.hpp"

namespace holdfast::test {
namespace {

/// An agent on which requests without a token may do everything, and requests with a deleted token nothing.
class guarded_agent {
public:
  guarded_agent()
      : agent_(agent_options{
            .extra_config =
                R"({"acl":{"enabled":true,"default_policy":"deny","policy_ttl":"10ms","tokens":{"master":")" +
                std::string(master) + R"(","default":")" + master + R"("}}})"}) {}

  /// Creates a token. Returns an empty string until the agent has left its legacy mode.
  std::string make_token() {
    const std::string body = agent_.put("/v1/acl/token", R"({"Policies":[{"Name":"global-management"}]})").body;
    accessor_ = uuid(body, "AccessorID");
    return uuid(body, "SecretID");
  }
  /// Creates a token with this secret. It becomes the one that was created last.
  void make_token(const std::string& secret) {
    const std::string body =
        agent_.put("/v1/acl/token", R"({"SecretID":")" + secret + R"(","Policies":[{"Name":"global-management"}]})")
            .body;
    accessor_ = uuid(body, "AccessorID");
  }
  /// Creates a token with these rules, which `allow` can change.
  std::string make_limited_token(const std::string& rules) {
    if (policy_.empty()) policy_ = uuid(agent_.put("/v1/acl/policy", policy(rules)).body, "ID");
    if (policy_.empty()) return {};
    return uuid(agent_.put("/v1/acl/token", R"({"Policies":[{"Name":"limited"}]})").body, "SecretID");
  }
  void allow(const std::string& rules) {
    BOOST_TEST(agent_.put("/v1/acl/policy/" + policy_, policy(rules)).status == 200);
  }
  /// Deletes the token that was created last.
  void end_token() { BOOST_TEST(agent_.del("/v1/acl/token/" + accessor_).status == 200); }
  const agent& server() const { return agent_; }

private:
  static constexpr auto master = "11111111-1111-1111-1111-111111111111";
  /// Returns the UUID after this name, with any spacing of the JSON.
  static std::string uuid(const std::string& body, std::string_view name) {
    const auto at = body.find(name);
    return at == std::string::npos ? std::string() : body.substr(body.find('-', at) - 8, 36);
  }

  static std::string policy(const std::string& rules) { return R"({"Name":"limited","Rules":")" + rules + R"("})"; }

  agent agent_;
  std::string accessor_;
  std::string policy_;
};

}  // namespace
}  // namespace holdfast::test

using namespace holdfast;
using namespace holdfast::test;

BOOST_AUTO_TEST_SUITE(token_rotation)

ASYNC_TEST_CASE(a_new_token_in_the_file_keeps_the_slot, 60s) {
  guarded_agent own;
  const temporary_folder folder;
  std::string token;
  co_await until("the agent makes tokens", [&] { return !(token = own.make_token()).empty(); });
  consul::config settings;
  settings.address = own.server().address();
  settings.token_file = folder.write("token", token + "\n");
  const consul::client client(ex, settings);
  holdfast::semaphore sem(client, calm(unique_prefix("rotated"), 1));
  slot held = co_await sem.acquire();

  own.end_token();
  co_await until("a request is refused",
                 [&] { return client.health().last_failure.find("ACL not found") != std::string::npos; });
  BOOST_TEST(held.held());
  folder.write("token", own.make_token());
  // Watched and renewed again: beyond what was certain when the token ended.
  const auto certain = std::chrono::steady_clock::now() + held.valid_for();
  co_await until("the lease is extended", [&] {
    return std::chrono::steady_clock::now() + held.valid_for() > certain + 1s && held.state() == slot_state::held;
  });
  BOOST_TEST(held.held());
  co_await held.release();
  co_await sem.close();
}

ASYNC_TEST_CASE(a_token_that_consul_does_not_know_yet_costs_nobody_anything, 60s) {
  guarded_agent own;
  const temporary_folder folder;
  std::string token;
  co_await until("the agent makes tokens", [&] { return !(token = own.make_token()).empty(); });
  consul::config settings;
  settings.address = own.server().address();
  settings.token_file = folder.write("token", token);
  std::size_t lines = 0;
  settings.log = [&](const holdfast::log_event& event) { lines += event.kind == log_kind::token_unknown ? 1 : 0; };
  const consul::client holds(ex, settings), waits(ex, settings);
  const std::string prefix = unique_prefix("early");
  semaphore_options options = hasty(prefix, 1, 2s);
  holdfast::semaphore first(holds, options), second(waits, options);
  slot held = co_await first.acquire();
  pending<slot> waiting(ex, second.acquire());
  co_await until("it waits", [&] { return second.statistics().place == 1u; });

  const std::string early = "22222222-2222-2222-2222-222222222222";
  folder.write("token", early);
  const auto tried = [&](std::uint64_t times) {
    return holds.statistics().tokens_unknown >= times && waits.statistics().tokens_unknown >= times;
  };
  co_await until("both have tried it for longer than a session lives", [&] { return tried(6); });
  BOOST_TEST(held.held());
  BOOST_TEST(!waiting.ready());
  BOOST_TEST(lines == 2u);
  own.make_token(early);
  const auto seen = holds.statistics().tokens_unknown;
  folder.write("token", early + "\n");
  co_await held.release();
  const error_code ec = co_await waiting.wait();
  BOOST_TEST(!ec);
  BOOST_TEST(holds.statistics().tokens_unknown <= seen + 1);
  co_await waiting.take().release();
  co_await first.close();
  co_await second.close();
}

const std::string sessions_only =
    R"(session_prefix \"\" { policy = \"write\" } node_prefix \"\" { policy = \"write\" })";
const std::string keys_only = R"(key_prefix \"\" { policy = \"write\" } node_prefix \"\" { policy = \"write\" })";
const std::string everything = R"(key_prefix \"\" { policy = \"write\" } )" + sessions_only;

asio::awaitable<consul::client> client_that_may_do_everything(asio::any_io_executor ex, guarded_agent& own) {
  consul::config settings;
  settings.address = own.server().address();
  co_await until("the agent makes tokens",
                 [&] { return !(settings.token = own.make_limited_token(everything)).empty(); });
  co_return consul::client(ex, settings);
}

// For a while, Consul 1.8.7 says that there are no keys at all. Later versions say that they have left some out.
ASYNC_TEST_CASE(a_hold_outlives_the_rights_to_its_keys, 60s) {
  guarded_agent own;
  const consul::client client = co_await client_that_may_do_everything(ex, own);
  bool fails = false;
  semaphore_options options = hasty(unique_prefix("keyless"), 1, 1s);
  options.log = [&](const holdfast::log_event& event) { fails = fails || event.kind == log_kind::watch_failed; };
  holdfast::semaphore sem(client, options);
  slot held = co_await sem.acquire();
  own.allow(sessions_only);
  write_key(own.server(), options.prefix + "/elsewhere", "wakes the watch");
  co_await until("the watch fails or the slot is lost", [&] { return fails || !held.held(); });
  const auto renewed = [&] {
    return client.statistics().of(consul::request_kind::session_renew).ended[consul::request_outcome::ok];
  };
  const auto before = renewed();
  co_await until("the session has been renewed for longer than it lives",
                 [&] { return renewed() >= before + 10 || !held.held(); });
  BOOST_TEST(held.held());
  own.allow(everything);
  co_await held.release();
  co_await sem.close();
}

ASYNC_TEST_CASE(without_the_rights_to_its_session_a_hold_ends_with_its_lease, 60s) {
  guarded_agent own;
  const consul::client client = co_await client_that_may_do_everything(ex, own);
  holdfast::semaphore sem(client, hasty(unique_prefix("sessionless"), 1, 1s));
  slot held = co_await sem.acquire();
  own.allow(keys_only);
  const loss_reason why = co_await held.wait_lost();
  BOOST_TEST(why == loss_reason::lease_expired);
  const std::string words = held.loss_details().to_string();
  BOOST_TEST(words.find("Permission denied") != std::string::npos, words);
  let_go(held);
  own.allow(everything);
  co_await sem.close();
}

ASYNC_TEST_CASE(without_a_new_token_the_loss_names_the_old_ones_end, 60s) {
  guarded_agent own;
  std::string token;
  co_await until("the agent makes tokens", [&] { return !(token = own.make_token()).empty(); });
  consul::config settings;
  settings.address = own.server().address();
  settings.token = token;
  const consul::client client(ex, settings);
  std::string log;
  semaphore_options options = hasty(unique_prefix("revoked"), 1, 1s);
  options.log = [&](const holdfast::log_event& event) { log += event.text() + '\n'; };
  holdfast::semaphore sem(client, options);
  slot held = co_await sem.acquire();
  own.end_token();
  const loss_reason why = co_await held.wait_lost();
  BOOST_TEST(why == loss_reason::lease_expired);
  const std::string words = held.loss_details().to_string();
  BOOST_TEST(words.find("ACL not found") != std::string::npos, words);
  BOOST_TEST(words.find(token) == std::string::npos);
  co_await until("it is logged", [&] { return log.find("ACL not found") != std::string::npos; });
  BOOST_TEST(log.find(token) == std::string::npos);
  auto [ec, none] = co_await sem.acquire(as_result);
  BOOST_TEST(ec == error::permission_denied);
}

BOOST_AUTO_TEST_SUITE_END()
