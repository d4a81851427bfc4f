// SPDX-FileCopyrightText: The holdfast authors
// SPDX-License-Identifier: BSL-1.0

// A token expires while it is in use, and the next one comes in time or does not.

#include <boost/test/unit_test.hpp>
#include <holdfast/consul/client.hpp>
#include <holdfast/semaphore.hpp>

#include "support/agent.hpp"
#include "support/async.hpp"
#include "support/participant.hpp"
#include "support/temporary_folder.hpp"

namespace holdfast::test {
namespace {

/// An agent on which requests without a token may do everything, and requests with a deleted token nothing.
class guarded_agent {
public:
  guarded_agent()
      : agent_(agent_options{.extra_config = R"({"acl":{"enabled":true,"default_policy":"deny","tokens":{"master":")" +
                                             std::string(master) + R"(","default":")" + master + R"("}}})"}) {}

  /// Creates a token. Returns an empty string until the agent has left its legacy mode.
  std::string make_token() {
    const std::string body = agent_.put("/v1/acl/token", R"({"Policies":[{"Name":"global-management"}]})").body;
    accessor_ = uuid(body, "AccessorID");
    return uuid(body, "SecretID");
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

  agent agent_;
  std::string accessor_;
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
