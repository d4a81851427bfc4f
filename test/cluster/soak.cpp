// SPDX-FileCopyrightText: The holdfast authors
// SPDX-License-Identifier: BSL-1.0

// Long ordinary use: nothing may grow, neither here nor in Consul's agent. $HOLDFAST_SOAK_SECONDS sets the time in
// seconds (30). In `scripts/test --long` it is an hour.

#include <unistd.h>
#include <algorithm>
#include <boost/json/array.hpp>
#include <boost/json/parse.hpp>
#include <boost/json/value.hpp>
#include <boost/test/unit_test.hpp>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iostream>
#include <iterator>
#include <random>
#include <string>
#include <string_view>
#include <vector>

#include "support/agent.hpp"
#include "support/async.hpp"
#include "support/figures.hpp"
#include "support/participant.hpp"

namespace holdfast::test {
namespace {

namespace json = boost::json;
using clock = std::chrono::steady_clock;

std::chrono::seconds length() {
  const char* const seconds = std::getenv("HOLDFAST_SOAK_SECONDS");
  return std::chrono::seconds(seconds ? std::strtol(seconds, nullptr, 10) : 30);
}

/// The figures that must not grow.
struct levels {
  double resident = 0;  ///< of this process, in MiB
  double files = 0;     ///< open files of this process
  double connections = 0;
  double sessions = 0;    ///< in Consul
  double goroutines = 0;  ///< of the agent
};
struct level {
  const char* name;
  double levels::*which;
  double slack;  ///< may grow by this much, in its own unit, and by a tenth
};
constexpr level all_levels[] = {{"resident_mib", &levels::resident, 2},
                                {"open_files", &levels::files, 8},
                                {"connections", &levels::connections, 8},
                                {"sessions", &levels::sessions, 12},
                                {"goroutines_of_the_agent", &levels::goroutines, 40}};

double resident() {
  std::ifstream in("/proc/self/statm");
  double pages = 0;
  in >> pages >> pages;
  return pages * static_cast<double>(::sysconf(_SC_PAGESIZE)) / (1 << 20);
}

double open_files() {
  const std::filesystem::directory_iterator all("/proc/self/fd");
  return static_cast<double>(std::distance(begin(all), end(all)));
}

double sessions_of(const agent& a) {
  return static_cast<double>(json::parse(a.get("/v1/session/list").body).as_array().size());
}

double goroutines_of(const agent& a) {
  const json::value parsed = json::parse(a.get("/v1/agent/metrics").body);
  for (const json::value& each : parsed.at("Gauges").as_array())
    if (std::string_view(each.at("Name").as_string()).ends_with("runtime.num_goroutines"))
      return each.at("Value").to_number<double>();
  return 0;
}

/// Locks of all kinds. Several coroutines use each of them.
class users {
public:
  users(const asio::any_io_executor& ex, const agent& a, const std::string& prefix, unsigned seed)
      : random_(seed),
        sem_(ex, a, calm(prefix + "/sem", 3)),
        lock_(ex, a, calm(prefix + "/lock")),
        set_(ex, a, calm_set(prefix + "/set")),
        consul_(a) {}

  asio::awaitable<void> acquire_and_release(clock::time_point end) {
    while (clock::now() < end) {
      acquire_options wish;
      wish.count = static_cast<std::uint32_t>(1 + random_() % 3);
      auto [ec, held] = co_await sem_.sem.try_acquire_for(1s, wish, as_result);
      if (!ec && held && random_() % 100 == 0) end_a_session();
      co_await pause(std::chrono::microseconds(random_() % 20'000));
      co_await held.release(as_result);
      ++turns_;
    }
  }
  asio::awaitable<void> lock_and_release(clock::time_point end) {
    while (clock::now() < end) {
      auto [ec, held] = co_await lock_.mutex.try_lock_for(1s, as_result);
      co_await pause(std::chrono::microseconds(random_() % 20'000));
      co_await held.release(as_result);
      ++turns_;
    }
  }
  asio::awaitable<void> lock_many(clock::time_point end) {
    while (clock::now() < end) {
      auto [ec, held] = co_await set_.set.try_lock("task-" + std::to_string(random_() % 500), as_result);
      co_await pause(std::chrono::microseconds(random_() % 20'000));
      if (held) co_await held.release(as_result);
      ++turns_;
    }
  }
  asio::awaitable<void> close() {
    co_await sem_.sem.close(as_result);
    co_await lock_.mutex.close(as_result);
    co_await set_.set.close(as_result);
  }
  double connections() const {
    double sum = 0;
    for (const consul::client* each : {&sem_.client, &lock_.client, &set_.client})
      sum += static_cast<double>(each->statistics().connections_open);
    return sum;
  }
  std::uint64_t turns() const { return turns_; }

private:
  /// Destroys a holder's session, as an operator may.
  void end_a_session() {
    const auto holding = holders(consul_, sem_.sem.prefix());
    if (!holding.empty()) consul_.put("/v1/session/destroy/" + holding.front());
  }

  std::minstd_rand random_;
  participant sem_;
  locker lock_;
  set_user set_;
  const agent& consul_;
  std::uint64_t turns_ = 0;
};

double highest(std::vector<levels>::const_iterator from, std::vector<levels>::const_iterator to,
               double levels::*which) {
  double most = 0;
  for (; from != to; ++from) most = std::max(most, (*from).*which);
  return most;
}

}  // namespace
}  // namespace holdfast::test

using namespace holdfast;
using namespace holdfast::test;

BOOST_AUTO_TEST_SUITE(soak)

ASYNC_TEST_CASE(nothing_grows, 5000s) {
  constexpr int samples = 60;
  agent own;
  const std::string prefix = unique_prefix("soak");
  const auto begun = clock::now();
  const auto end = begun + length();
  std::vector<std::unique_ptr<users>> everybody;
  companions working(ex);
  for (unsigned i = 0; i != 4; ++i) {
    everybody.push_back(std::make_unique<users>(ex, own, prefix, i + 1));
    for (int each = 0; each != 2; ++each) {
      working.start(everybody.back()->acquire_and_release(end));
      working.start(everybody.back()->lock_and_release(end));
      working.start(everybody.back()->lock_many(end));
    }
  }
  std::vector<levels> seen;
  for (int i = 1; i <= samples; ++i) {
    co_await pause(
        std::chrono::duration_cast<std::chrono::microseconds>(begun + length() * i / (samples + 1) - clock::now()));
    levels now{resident(), open_files(), 0, sessions_of(own), goroutines_of(own)};
    for (const auto& each : everybody) now.connections += each->connections();
    seen.push_back(now);
  }
  co_await working.join();
  for (const auto& each : everybody) co_await each->close();

  std::uint64_t turns = 0;
  for (const auto& each : everybody) turns += each->turns();
  json::object figures{{"seconds", length().count()}, {"turns", turns}};
  const auto half = seen.begin() + samples / 2;
  for (const level& each : all_levels) {
    // The first tenth of the samples does not count.
    const double before = highest(seen.begin() + samples / 10, half, each.which);
    const double after = highest(half, seen.end(), each.which);
    figures[each.name] = {before, after};
    BOOST_TEST(before > 0, each.name << " was not measured");
    BOOST_TEST(after <= before * 1.1 + each.slack, each.name << " grows from " << before << " to " << after);
  }
  print_figures(figures);
}

BOOST_AUTO_TEST_SUITE_END()
