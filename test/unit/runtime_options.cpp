// SPDX-FileCopyrightText: The holdfast authors
// SPDX-License-Identifier: BSL-1.0

#include "runtime/setup.hpp"

#include <boost/asio/system_executor.hpp>
#include <boost/test/unit_test.hpp>
#include <holdfast/error.hpp>
#include <holdfast/semaphore.hpp>

#include "runtime/terms_of.hpp"

using holdfast::runtime::checked;
using namespace std::chrono_literals;

namespace {

/// Does not compile when `tuning` gets another member. Then add below where its value arrives.
holdfast::tuning unusual() {
  holdfast::tuning tuned;
  auto& [lease_margin, lock_delay, outage_grace, give_up_after, request_timeout, alive, session_idle_timeout,
         waiters_max, local_handoff_time, slot_idle_timeout, claim_timeout, yield_interval, run_directory] = tuned;
  lease_margin = 101ms, lock_delay = 33s, outage_grace = 102ms, give_up_after = 103ms, request_timeout = 104ms;
  session_idle_timeout = 105ms, waiters_max = 106, local_handoff_time = 107ms, slot_idle_timeout = 108ms;
  alive = holdfast::alive_check{.executor = boost::asio::system_executor(), .within = 111ms};
  claim_timeout = 109ms, yield_interval = 110ms, run_directory = "/tmp";
  return tuned;
}

/// Where those arrive that all kinds have, and a kind that has more of them.
template <class Setup>
void check_common(const Setup& its) {
  BOOST_TEST((its.core.ttl == 31s && its.store.ttl == 31s));
  BOOST_TEST((its.core.node == "n" && its.store.node == "n"));
  BOOST_TEST(static_cast<bool>(its.driver.shell.log));
  BOOST_TEST(its.driver.shell.tracer);
  BOOST_TEST((its.core.lease_margin == 101ms));
  BOOST_TEST((its.store.lock_delay == 33s));
  BOOST_TEST((its.core.outage_grace == 102ms));
  BOOST_TEST((its.core.give_up_after == 103ms));
  BOOST_TEST((its.store.timeout == 104ms));
  BOOST_TEST((its.core.alive_within == 111ms));
  BOOST_TEST((its.driver.shell.alive && its.driver.shell.alive->within == 111ms));
}
template <class Setup>
void check_pooled(const Setup& its) {
  BOOST_TEST((its.core.session_idle_timeout == 105ms));
  BOOST_TEST(its.core.waiters_max == 106u);
}
void check_queue(const holdfast::runtime::pool_setup& its) {
  BOOST_TEST((its.core.local_handoff_time == 107ms));
  BOOST_TEST((its.core.slot_idle_timeout == 108ms));
  BOOST_REQUIRE(its.driver.directory);
  BOOST_TEST(its.driver.directory->path() == "/tmp");
  BOOST_TEST((its.core.watch_makers == 10s && its.core.gone_delay == 33s));
}
void log_nothing(const holdfast::log_event&) {}
class no_tracer final : public holdfast::tracer {
  std::shared_ptr<holdfast::trace_span> started(const holdfast::span_start&) noexcept override { return nullptr; }
};

}  // namespace

BOOST_AUTO_TEST_SUITE(runtime_options)

// `know_all_of` in setup.cpp does not compile when an option is added, so that it is checked there. These tests do not
// compile then either, so that its value is seen to arrive.

BOOST_AUTO_TEST_CASE(all_options_of_a_semaphore_arrive) {
  holdfast::semaphore_options options;
  auto& [prefix, limit, use_recorded_limit, numbered, lock_key, description, session_ttl, session_node,
         node_health_checks, log, tracer, tuned] = options;
  prefix = "p", limit = 7, use_recorded_limit = true, numbered = true, lock_key = "k", description = "d";
  session_ttl = 31s, session_node = "n", log = log_nothing, tuned = unusual();
  tracer = std::make_shared<no_tracer>();
  tuned.yield_interval.reset();  // of a mutex
  const auto its = checked(options);
  check_common(its);
  check_pooled(its);
  check_queue(its);
  BOOST_TEST((its.core.claim_timeout == 109ms));
  BOOST_TEST(its.core.prefix == "p/");
  BOOST_TEST(its.core.limit == 7u);
  BOOST_TEST(its.core.use_recorded_limit);
  BOOST_TEST(its.core.numbered);
  BOOST_TEST(its.core.lock_key == "p/k");
  BOOST_TEST(its.core.description == "d");
  session_node.clear(), node_health_checks = true;
  BOOST_TEST(checked(options).store.node_checks);
}

BOOST_AUTO_TEST_CASE(all_options_of_a_mutex_arrive) {
  holdfast::mutex_options options;
  auto& [key, description, session_ttl, session_node, node_health_checks, log, tracer, tuned] = options;
  key = "k", description = "d", session_ttl = 31s, session_node = "n", log = log_nothing, tuned = unusual();
  tracer = std::make_shared<no_tracer>();
  tuned.claim_timeout.reset();  // of a semaphore
  const auto its = checked(options);
  check_common(its);
  check_pooled(its);
  check_queue(its);
  BOOST_TEST((its.core.yield_interval == 110ms));
  BOOST_TEST(its.core.lock_key == "k");
  BOOST_TEST(its.core.description == "d");
  session_node.clear(), node_health_checks = true;
  BOOST_TEST(checked(options).store.node_checks);
}

BOOST_AUTO_TEST_CASE(all_options_of_a_set_arrive) {
  holdfast::mutex_set_options options;
  auto& [prefix, description, session_ttl, session_node, node_health_checks, log, tracer, tuned] = options;
  prefix = "p", description = "d", session_ttl = 31s, session_node = "n", log = log_nothing, tuned = unusual();
  tracer = std::make_shared<no_tracer>();
  for (auto* const of_others :
       {&tuned.local_handoff_time, &tuned.slot_idle_timeout, &tuned.claim_timeout, &tuned.yield_interval})
    of_others->reset();
  tuned.run_directory.reset();
  const auto its = checked(options);
  check_common(its);
  check_pooled(its);
  BOOST_TEST(its.core.prefix == "p/");
  BOOST_TEST(its.core.description == "d");
  session_node.clear(), node_health_checks = true;
  BOOST_TEST(checked(options).store.node_checks);
}

BOOST_AUTO_TEST_CASE(all_options_of_an_election_arrive) {
  holdfast::election_options options;
  auto& [key, session_ttl, session_node, node_health_checks, log, tracer, tuned] = options;
  key = "k", session_ttl = 31s, session_node = "n", log = log_nothing, tuned = unusual();
  tracer = std::make_shared<no_tracer>();
  for (auto* const of_others : {&tuned.session_idle_timeout, &tuned.local_handoff_time, &tuned.slot_idle_timeout,
                                &tuned.claim_timeout, &tuned.yield_interval})
    of_others->reset();
  tuned.waiters_max.reset();
  const auto its = checked(options);
  check_common(its);
  BOOST_TEST(its.core.lock_key == "k");
  session_node.clear(), node_health_checks = true;
  BOOST_TEST(checked(options).store.node_checks);
}

BOOST_AUTO_TEST_CASE(all_options_of_an_acquire_arrive) {
  holdfast::diagnostics words;
  holdfast::acquire_options options;
  auto& [count, diag, deadline, trace_parent] = options;
  count = 3, diag = &words, deadline = std::chrono::steady_clock::time_point(7s), trace_parent = &words;
  const auto request = holdfast::detail::within(5s, holdfast::detail::once(options));
  BOOST_TEST(request.options.diag == &words);
  BOOST_TEST((request.options.deadline == std::chrono::steady_clock::time_point(7s)));
  BOOST_TEST(request.options.trace_parent == &words);
  const holdfast::protocol::time_point now(1h);
  const auto terms = holdfast::runtime::terms_of(request, now);
  const auto& [terms_count, once, terms_deadline] = terms;
  BOOST_TEST(terms_count == 3u);
  BOOST_TEST(once);
  BOOST_TEST((terms_deadline == now + 5s));
}

BOOST_AUTO_TEST_CASE(all_options_of_an_operation_arrive) {
  holdfast::diagnostics words;
  holdfast::operation_options options;
  auto& [diag, trace_parent] = options;
  diag = &words, trace_parent = &options;
  const holdfast::detail::acquire_request request(options);
  BOOST_TEST(request.options.diag == &words);
  BOOST_TEST(request.options.trace_parent == &options);
  const auto terms = holdfast::runtime::terms_of(request, {});
  BOOST_TEST((terms == holdfast::protocol::acquire_terms()));
}

/// A holder whose session has ended before its time believes for TTL minus margin by its own clock, which may be slow.
BOOST_AUTO_TEST_CASE(a_lock_delay_covers_what_a_holder_with_a_slow_clock_believes) {
  BOOST_TEST((checked(holdfast::mutex_options{.key = "a", .session_node = ""}).store.lock_delay == 15s));
  BOOST_TEST((checked(holdfast::mutex_set_options{.prefix = "a", .session_node = ""}).store.lock_delay == 15s));
  BOOST_TEST((checked(holdfast::mutex_options{.key = "a", .session_ttl = 66s, .session_node = ""}).store.lock_delay ==
              60s));  // Consul takes no more
  const auto checks =
      checked(holdfast::semaphore_options{.prefix = "a", .limit = 1, .session_node = "", .node_health_checks = true});
  BOOST_TEST((checks.core.lock_delay == 15s));
  BOOST_TEST((checks.store.lock_delay == 15s));
  const auto numbered =
      checked(holdfast::semaphore_options{.prefix = "a", .limit = 1, .numbered = true, .session_ttl = 30s});
  BOOST_TEST((numbered.store.lock_delay == 30s));
}

BOOST_AUTO_TEST_SUITE_END()
