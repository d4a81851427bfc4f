// SPDX-FileCopyrightText: The holdfast authors
// SPDX-License-Identifier: BSL-1.0

// All processes of a host share the connections that an agent accepts from one address.

#include <algorithm>
#include <boost/test/unit_test.hpp>
#include <holdfast/semaphore.hpp>
#include <iostream>
#include <memory>
#include <numeric>
#include <vector>

#include "support/agent.hpp"
#include "support/async.hpp"
#include "support/figures.hpp"
#include "support/participant.hpp"

using namespace holdfast;
using namespace holdfast::test;
using namespace std::chrono_literals;

namespace {

using steady = std::chrono::steady_clock;

double seconds_since(steady::time_point begin) { return std::chrono::duration<double>(steady::now() - begin).count(); }

// The semaphores for which all compete: when each was last released, and for how long it then stayed unused.
struct ground {
  std::string prefix = unique_prefix("many");
  std::vector<steady::time_point> given_back;
  std::vector<double> unused{};
  bool over = false;
};

// Acts as one process: a client with the defaults, and one handle for each of the semaphores.
class contender {
public:
  contender(const asio::any_io_executor& ex, const agent& a, ground& on) : on_(on), client_(ex, settings_for(a)) {
    for (std::size_t i = 0; i < on_.given_back.size(); ++i) {
      semaphore_options options = calm(on_.prefix + std::to_string(i), 1);
      options.session_ttl = 15s;
      // This test is about connections. An agent that gets no processor may answer after more than five seconds.
      options.tuning.give_up_after = 60s;
      all_.emplace_back(client_, options);
    }
    turns.resize(all_.size());
  }

  void compete(companions& running) {
    for (std::size_t i = 0; i < all_.size(); ++i) running.start(compete_for(i));
  }
  std::size_t fewest_turns() const { return *std::min_element(turns.begin(), turns.end()); }
  consul::client_statistics statistics() const { return client_.statistics(); }

  std::vector<std::size_t> turns;
  std::size_t failed = 0;

private:
  asio::awaitable<void> compete_for(std::size_t i) {
    while (!on_.over) {
      auto [ec, held] = co_await all_[i].acquire(as_result);
      if (ec) {
        ++failed;
        BOOST_TEST_MESSAGE("an acquire failed: " << ec.message());
        co_return;
      }
      ++turns[i];
      if (on_.given_back[i] != steady::time_point()) on_.unused.push_back(seconds_since(on_.given_back[i]));
      co_await pause(1ms);
      on_.given_back[i] = steady::now();
      co_await held.release(as_result);
    }
  }

  static consul::config settings_for(const agent& a) {
    consul::config settings;
    settings.address = a.address();
    settings.log = [](const holdfast::log_event& event) { std::cout << "many_processes: " << event.text() << '\n'; };
    return settings;
  }

  ground& on_;
  consul::client client_;
  std::vector<semaphore> all_;
};

void tell(const std::vector<std::unique_ptr<contender>>& all, std::vector<double> unused) {
  for (const auto& each : all) {
    const consul::client_statistics counted = each->statistics();
    std::cout << "many_processes: " << std::accumulate(each->turns.begin(), each->turns.end(), std::size_t{0})
              << " turns, at least " << each->fewest_turns() << " with each; " << counted.connections_opened
              << " connections opened, " << counted.connections_refused << " of them refused, "
              << counted.connections_open << " open now; " << counted.requests << " requests\n";
  }
  std::sort(unused.begin(), unused.end());
  std::cout << "many_processes: " << unused.size() << " grants, the next one's seen after " << unused[unused.size() / 2]
            << " s (median), " << unused[unused.size() * 99 / 100] << " s (99 %), " << unused.back()
            << " s (the longest)\n";
}

asio::awaitable<void> share_an_agent(asio::any_io_executor ex, agent_options options, std::size_t semaphores) {
  const agent own(options);
  ground on;
  on.given_back.resize(semaphores);
  std::vector<std::unique_ptr<contender>> all;
  companions running(ex);
  for (int i = 0; i < 4; ++i) {
    all.push_back(std::make_unique<contender>(ex, own, on));
    all.back()->compete(running);
  }
  const auto everybody_has_had = [&](std::size_t turns) {
    for (const auto& each : all) BOOST_REQUIRE(each->failed == 0u);  // its semaphore would have no more turns
    return std::all_of(all.begin(), all.end(), [turns](const auto& each) { return each->fewest_turns() >= turns; });
  };
  while (!everybody_has_had(1)) co_await pause(10ms);
  tell(all, on.unused);
  on.unused.clear();

  all.push_back(std::make_unique<contender>(ex, own, on));
  all.back()->compete(running);
  const auto came = steady::now();
  while (all.back()->statistics().bytes_received == 0) co_await pause(1ms);
  const double first_heard = seconds_since(came);
  while (!everybody_has_had(3)) co_await pause(10ms);
  std::cout << "many_processes: all had three turns with each semaphore " << seconds_since(came) << " s later\n";
  on.over = true;
  co_await running.join();
  tell(all, on.unused);
  std::sort(on.unused.begin(), on.unused.end());
  print_figures({{"processes", all.size()},
                 {"semaphores_of_each", semaphores},
                 {"connections_of_all", options.http_max_conns_per_client},
                 {"last_heard_after_s", first_heard},
                 {"grant_seen_after_s", on.unused[on.unused.size() / 2]},
                 {"longest_s", on.unused.back()}});
  for (const auto& each : all) BOOST_TEST(each->failed == 0u);
}

}  // namespace

BOOST_AUTO_TEST_SUITE(many_processes)

// A build with a sanitizer has a tenth of the semaphores. Then the agent's connections are enough for all of them, and
// only the other builds show that connections are shared.

ASYNC_TEST_CASE(five_with_two_hundred_semaphores_each_all_have_their_turns, 500s) {
  const std::size_t semaphores = is_slow_build() ? 20 : 200;
  co_await share_an_agent(ex, agent_options(), semaphores);
}

ASYNC_TEST_CASE(they_share_what_an_agent_does_not_have_for_all, 300s) {
  agent_options few;
  few.http_max_conns_per_client = 60;
  const std::size_t semaphores = is_slow_build() ? 5 : 50;
  co_await share_an_agent(ex, few, semaphores);
}

BOOST_AUTO_TEST_SUITE_END()
