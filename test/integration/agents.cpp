// SPDX-FileCopyrightText: The holdfast authors
// SPDX-License-Identifier: BSL-1.0

// A test whose agent cannot start fails, and names the reason.

#include "support/agent.hpp"

#include <boost/test/unit_test.hpp>
#include <cstdlib>
#include <memory>
#include <stdexcept>
#include <string>

using holdfast::test::agent;
using holdfast::test::agent_options;

BOOST_AUTO_TEST_SUITE(agents)

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
