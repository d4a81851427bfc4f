// SPDX-FileCopyrightText: The holdfast authors
// SPDX-License-Identifier: BSL-1.0

// Servers that accept a limited number of requests per second (`limits.request_limits`, Consul 1.16 and later).
// Sessions are renewed all the same.

#include <boost/test/unit_test.hpp>
#include <holdfast/testing/proxy.hpp>

#include "support/agent.hpp"
#include "support/async.hpp"
#include "support/participant.hpp"

using namespace holdfast;
using namespace holdfast::test;

BOOST_AUTO_TEST_SUITE(rate_limits)

ASYNC_TEST_CASE(a_slot_outlives_a_server_that_refuses_every_other_request, 90s) {
  constexpr int renewals_wanted = 20, refusals_wanted = 20;
  // Consul 1.22.7 usually refuses every other request of those that are too many. Sometimes it takes exactly as many as
  // are allowed. So it allows 40 a second of the hundreds that are sent here. At 1 a second, the other requests could
  // take all, so that a renewal was refused for 5 s. Older servers have no such limits: there a proxy refuses.
  const bool limits_itself = consul_programs_version() >= testing::consul_version{1, 16, 0};
  agent a({.extra_config = limits_itself ? R"({"limits":{"request_limits":
      {"mode":"enforcing","read_rate":40,"write_rate":40}}})"
                                         : "{}"});
  testing::proxy front(a.address());
  if (!limits_itself) {
    const testing::fault_rule refuse{.what = testing::fault::too_many_requests(), .times = 0, .probability = 0.5};
    front.set_faults(testing::fault_plan({refuse}));
  }
  consul::config settings;
  settings.address = limits_itself ? a.address() : front.address();
  consul::client client(ex, settings), flood(ex, settings), renewer(ex, settings);
  semaphore_options options = calm(unique_prefix("rate"), 1);
  options.session_ttl = 3s;
  semaphore sem(client, options);
  slot held = co_await sem.acquire();

  int refusals = 0;
  bool enough = false;
  companions running(ex);
  auto write = [&]() -> asio::awaitable<void> {
    consul::request_options once;
    once.retry = false;
    while (!enough) {
      pending<bool> put(ex, flood.put("flood", "1", 0, once));
      const error_code ec = co_await put.wait();
      if (ec == error::too_many_requests) ++refusals;
      co_await pause(10ms);
    }
  };
  for (int i = 0; i != 4; ++i) running.start(write());  // 400 a second at most
  consul::session_options short_lived;
  short_lived.ttl = 3s;
  // The client does not repeat a request that may have been applied.
  std::string session;
  while (session.empty()) {
    pending<std::string> created(ex, renewer.create_session(short_lived));
    const error_code ec = co_await created.wait();
    if (!ec) session = created.take();
  }
  for (int renewals = 0; renewals < renewals_wanted || refusals < refusals_wanted; ++renewals) {
    co_await renewer.renew_session(session);
    co_await pause(50ms);
  }
  enough = true;
  co_await running.join();
  BOOST_TEST(held.held());
  BOOST_TEST(refusals >= refusals_wanted);
  co_await sem.close();
}

BOOST_AUTO_TEST_SUITE_END()
