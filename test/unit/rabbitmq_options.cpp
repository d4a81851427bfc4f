// SPDX-FileCopyrightText: The holdfast authors
// SPDX-License-Identifier: BSL-1.0

#include <boost/asio/system_executor.hpp>
#include <boost/test/unit_test.hpp>
#include <chrono>
#include <holdfast/error.hpp>
#include <holdfast/rabbitmq/options.hpp>
#include <string>

#include "rabbitmq_runtime/broker_setup.hpp"

BOOST_AUTO_TEST_SUITE(rabbitmq_options)

namespace {

using namespace holdfast;
using namespace std::chrono_literals;
using rabbitmq::detail::broker_setup;
using rabbitmq::detail::checked;

rabbitmq::semaphore_options usual() {
  rabbitmq::semaphore_options its;
  its.name = "jobs";
  return its;
}

/// Returns the code with which the options are refused, after a change.
template <class Change>
error_code refusal(Change change) {
  rabbitmq::semaphore_options its = usual();
  change(its);
  try {
    checked(its);
  } catch (const system_error& e) {
    return e.code();
  }
  return {};
}

}  // namespace

BOOST_AUTO_TEST_CASE(each_value_arrives) {
  rabbitmq::semaphore_options its;
  std::string logged;
  its.name = "jobs";
  its.create_with = 3;
  its.lease = 4s;
  its.log = [&](const holdfast::log_event& event) { logged = event.text(); };
  its.letter_first = true;
  its.tuning = {.give_up_after = 1s,
                .waiters_max = 2,
                .session_idle_timeout = 3s,
                .local_handoff_time = 5s,
                .poll_interval = 6s,
                .lease_extra = 7s,
                .alive = alive_check{.executor = boost::asio::system_executor(), .within = 80ms}};
  const broker_setup result = checked(its);
  result.shell.log({.kind = log_kind::broker_alarm});
  BOOST_TEST(logged.starts_with("the broker has an alarm"));
  BOOST_TEST(result.shell.name == "jobs");
  BOOST_TEST(result.link.name == "jobs");
  BOOST_TEST(result.link.letter_first);
  BOOST_TEST((result.link.lease == 4s));
  BOOST_TEST((result.link.session_idle_timeout == 3s));
  BOOST_TEST(result.core.name == "jobs");
  BOOST_TEST(result.core.create_with == 3);
  BOOST_TEST((result.core.lease == 4s));
  BOOST_TEST((result.core.lease_margin == 400ms));
  BOOST_TEST((result.core.lease_extra == 7s));
  BOOST_TEST((result.core.give_up_after == 1s));
  BOOST_TEST(result.core.waiters_max == 2);
  BOOST_TEST((result.core.local_handoff_time == 5s));
  BOOST_TEST((result.core.poll_interval == 6s));
  BOOST_TEST((result.core.alive_within == 80ms));
  BOOST_TEST((result.shell.alive && result.shell.alive->within == 80ms));
}

BOOST_AUTO_TEST_CASE(the_defaults_are_those_of_the_core) {
  const broker_setup result = checked(usual());
  const protocol::broker_options core;
  BOOST_TEST((result.core.lease == core.lease));
  BOOST_TEST((result.core.lease_margin == core.lease_margin));
  BOOST_TEST((result.core.lease_extra == core.lease_extra));
  BOOST_TEST((result.core.give_up_after == core.give_up_after));
  BOOST_TEST(result.core.waiters_max == core.waiters_max);
  BOOST_TEST((result.core.local_handoff_time == core.local_handoff_time));
  BOOST_TEST((result.core.poll_interval == core.poll_interval));
  BOOST_TEST((result.link.session_idle_timeout == rabbitmq::detail::link_terms().session_idle_timeout));
}

BOOST_AUTO_TEST_CASE(the_limits_are_accepted) {
  BOOST_TEST(refusal([](auto&) {}) == error_code());
  BOOST_TEST(refusal([](auto& o) { o.create_with = 1000; }) == error_code());
  BOOST_TEST(refusal([](auto& o) { o.lease = 2s; }) == error_code());
  BOOST_TEST(refusal([](auto& o) { o.lease = 10min; }) == error_code());
  BOOST_TEST(refusal([](auto& o) { o.tuning.poll_interval = 10ms; }) == error_code());
  BOOST_TEST(refusal([](auto& o) { o.tuning.waiters_max = 1; }) == error_code());
  BOOST_TEST(refusal([](auto& o) { o.tuning.give_up_after = 24h; }) == error_code());
}

BOOST_AUTO_TEST_CASE(what_is_out_of_range_is_refused_by_name) {
  BOOST_TEST(refusal([](auto& o) { o.name = ""; }) == error::invalid_name);
  BOOST_TEST(refusal([](auto& o) { o.name = "jobs-1-A"; }) == error::invalid_name);
  BOOST_TEST(refusal([](auto& o) { o.lease = 1999ms; }) == error::invalid_ttl);
  BOOST_TEST(refusal([](auto& o) { o.lease = 10min + 1ms; }) == error::invalid_ttl);
  BOOST_TEST(refusal([](auto& o) { o.create_with = 1001; }) == error::invalid_option);
  BOOST_TEST(refusal([](auto& o) { o.tuning.waiters_max = 0; }) == error::invalid_option);
  BOOST_TEST(refusal([](auto& o) { o.tuning.poll_interval = 9ms; }) == error::invalid_option);
  BOOST_TEST(refusal([](auto& o) { o.tuning.poll_interval = 24h + 1ms; }) == error::invalid_option);
  BOOST_TEST(refusal([](auto& o) { o.tuning.give_up_after = -1ms; }) == error::invalid_option);
  BOOST_TEST(refusal([](auto& o) { o.tuning.session_idle_timeout = 24h + 1ms; }) == error::invalid_option);
  BOOST_TEST(refusal([](auto& o) { o.tuning.local_handoff_time = -1ms; }) == error::invalid_option);
  BOOST_TEST(refusal([](auto& o) { o.tuning.lease_extra = -1ms; }) == error::invalid_option);
  BOOST_TEST(refusal([](auto& o) { o.tuning.alive = alive_check{}; }) == error::invalid_option);
}

BOOST_AUTO_TEST_SUITE_END()
