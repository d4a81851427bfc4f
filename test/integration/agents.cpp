// SPDX-FileCopyrightText: The holdfast authors
// SPDX-License-Identifier: BSL-1.0

// Shows that the real agents, on which the other integration tests rely, do what their header says.

#include "support/agent.hpp"

#include <boost/test/unit_test.hpp>
#include <chrono>
#include <cstdlib>
#include <memory>
#include <stdexcept>
#include <string>

using namespace std::chrono_literals;
using holdfast::test::agent;
using holdfast::test::agent_options;
using holdfast::test::shared_agent;
using holdfast::test::unique_prefix;

namespace {

// A development agent ends JSON with a newline, others do not.
bool accepted(const holdfast::test::agent_reply& reply) {
  return reply.status == 200 && (reply.body == "true" || reply.body == "true\n");
}

}  // namespace

BOOST_AUTO_TEST_SUITE(agents)

BOOST_AUTO_TEST_CASE(the_shared_agent_is_one_server_that_accepts_writes) {
  auto& a = shared_agent();
  BOOST_TEST(&a == &shared_agent());
  BOOST_TEST(a.address().rfind("127.0.1.", 0) == 0u);
  const auto key = "/v1/kv/" + unique_prefix("write");
  BOOST_TEST(accepted(a.put(key, "value")));
  BOOST_TEST(a.get(key + "?raw").body == "value");
  BOOST_TEST(a.get(key + "?raw").headers.at("x-consul-index") != "");
  BOOST_TEST(a.get("/v1/kv/holdfast-agent-ready/?keys").status == 404, "the ready test leaves keys behind");
  BOOST_TEST(unique_prefix("x") != unique_prefix("x"));
}

BOOST_AUTO_TEST_CASE(a_frozen_agent_is_silent_and_wakes) {
  agent a;
  const auto key = "/v1/kv/" + unique_prefix("frozen");
  a.freeze();
  BOOST_CHECK_THROW(a.request("PUT", key, "x", 200ms), std::runtime_error);
  a.thaw();
  a.wait_until_ready();
  // The abandoned write was applied all the same. The library must cope with that.
  BOOST_TEST(a.get(key + "?raw").body == "x");
}

BOOST_AUTO_TEST_CASE(a_killed_agent_comes_back_on_its_ports_without_its_state) {
  agent a;
  const auto key = "/v1/kv/" + unique_prefix("kill");
  const auto address = a.address();
  a.put(key, "x");
  a.kill();
  BOOST_TEST(!a.running());
  BOOST_CHECK_THROW(a.get(key), std::runtime_error);
  a.restart();
  BOOST_TEST(a.address() == address);
  BOOST_TEST(a.get(key).status == 404);
}

BOOST_AUTO_TEST_CASE(a_durable_server_keeps_its_state) {
  agent a(agent_options{.durable = true});
  const auto key = "/v1/kv/" + unique_prefix("durable");
  a.put(key, "x");
  a.stop();
  BOOST_TEST(!a.running());
  a.restart();
  BOOST_TEST(a.get(key + "?raw").body == "x");
}

BOOST_AUTO_TEST_CASE(a_bad_configuration_is_reported_with_the_agents_words) {
  BOOST_CHECK_EXCEPTION((void)std::make_unique<agent>(agent_options{.extra_config = R"({"no_such":1})"}),
                        std::runtime_error,
                        [](const auto& e) { return std::string(e.what()).find("no_such") != std::string::npos; });
}

BOOST_AUTO_TEST_CASE(without_consul_the_tests_fail) {
  const char* before = std::getenv("HOLDFAST_CONSUL");
  const std::string value = before ? before : "";
  setenv("HOLDFAST_CONSUL", "/nonexistent/consul", 1);
  BOOST_CHECK_EXCEPTION((void)std::make_unique<agent>(), std::runtime_error, [](const auto& e) {
    return std::string(e.what()).find("/nonexistent/consul") != std::string::npos;
  });
  before ? setenv("HOLDFAST_CONSUL", value.c_str(), 1) : unsetenv("HOLDFAST_CONSUL");
}

BOOST_AUTO_TEST_SUITE_END()
