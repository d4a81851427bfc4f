// SPDX-FileCopyrightText: The holdfast authors
// SPDX-License-Identifier: BSL-1.0

// Tests of a service that uses Consul, without Consul. They run offline and in milliseconds. They cause the failures on
// demand that a real agent has once a year.
//
// Each test has a fake Consul of its own on a free port of this machine, so tests can run in parallel. A test sets up
// the faults of the fake before the service sends requests (`set_faults`, `stop`). To take the service's slot away, it
// changes the fake's store from inside the work. Therefore no result depends on timing, and no test sleeps.

#define BOOST_TEST_MODULE report_service
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/detached.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/this_coro.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <boost/asio/use_future.hpp>
#include <boost/test/unit_test.hpp>
#include <chrono>
#include <functional>
#include <future>
#include <holdfast/holdfast.hpp>
#include <holdfast/testing/server.hpp>
#include <string>
#include <vector>

#include "report_service.hpp"

namespace asio = boost::asio;
using namespace std::chrono_literals;
using holdfast::testing::fault;
using holdfast::testing::fault_plan;
using holdfast::testing::fault_rule;
using outcome = report_service::outcome;

namespace {

/// The test's own report store. It is fast, and records the calls.
class fake_store : public report_store {
public:
  asio::awaitable<std::string> chapter(int number) override {
    ++chapters_begun;
    if (number == 2 && in_chapter_2) {
      in_chapter_2();
      // From here on this chapter takes forever. Only cancellation ends it.
      asio::steady_timer forever(co_await asio::this_coro::executor, asio::steady_timer::time_point::max());
      co_await forever.async_wait(asio::use_awaitable);
    }
    co_return "chapter " + std::to_string(number) + "\n";
  }

  bool publish(std::string report, holdfast::fencing_token) override {
    published.push_back(std::move(report));
    return true;
  }

  std::function<void()> in_chapter_2;
  int chapters_begun = 0;
  std::vector<std::string> published;
};

constexpr auto patient = 10s;  // longer than any operation here takes, even on a busy machine
constexpr auto hasty = 50ms;   // for operations that the test expects to time out

/// The fixture of each test.
struct world {
  holdfast::testing::server consul;  // on a thread of its own
  asio::io_context io;
  fake_store store;
  report_service service = make_service();

  report_service make_service() { return report_service(holdfast::consul::client(io, consul.client_config()), store); }

  /// Runs the context until `what` has completed. If that takes too long, the test fails.
  template <class T>
  T run(asio::awaitable<T> what) {
    std::future<T> result = asio::co_spawn(io, std::move(what), asio::use_future);
    const auto end = std::chrono::steady_clock::now() + 20s;
    io.restart();  // because it stops when it runs out of work
    while (result.wait_for(0s) != std::future_status::ready) BOOST_REQUIRE_MESSAGE(io.run_one_until(end) == 1, "hangs");
    return result.get();
  }

  /// Ends all sessions, as Consul does if they are not renewed in time, or as an operator might.
  void end_all_sessions() {
    consul.with([](holdfast::testing::store& contents, auto now) { contents.expire_sessions(now); });
  }
  std::size_t sessions() {
    return consul.with([](holdfast::testing::store& contents, auto) { return contents.sessions().value.size(); });
  }
};

}  // namespace

BOOST_FIXTURE_TEST_SUITE(a_report_service, world)

BOOST_AUTO_TEST_CASE(makes_a_report_and_leaves_nothing_behind) {
  BOOST_TEST((run(service.make_report(patient)) == outcome::published));
  BOOST_TEST(store.published == std::vector<std::string>{"chapter 1\nchapter 2\nchapter 3\n"});
  BOOST_TEST(sessions() == 1u);  // kept warm for the next report
  run(service.close());
  BOOST_TEST(sessions() == 0u);
}

BOOST_AUTO_TEST_CASE(is_busy_while_another_process_is_at_it) {
  // To Consul, two services with a client each are two processes.
  report_service other = make_service();
  store.in_chapter_2 = [] {};
  asio::co_spawn(io, other.make_report(patient), asio::detached);
  while (store.chapters_begun < 2) io.run_one();

  BOOST_TEST((run(service.make_report(hasty)) == outcome::busy));
  BOOST_TEST(store.chapters_begun == 2);
}

// readme {
BOOST_AUTO_TEST_CASE(stops_at_once_when_the_slot_is_lost) {
  store.in_chapter_2 = [this] { end_all_sessions(); };  // midway through the work, the slot is lost

  BOOST_TEST((run(service.make_report(patient)) == outcome::interrupted));
  BOOST_TEST(store.chapters_begun == 2);  // the second was cancelled, the third never begun
  BOOST_TEST(store.published.empty());

  store.in_chapter_2 = nullptr;  // the next report uses a new slot
  BOOST_TEST((run(service.make_report(patient)) == outcome::published));
}
// } readme

BOOST_AUTO_TEST_CASE(starts_while_consul_is_down) {
  consul.stop();  // from now on, connections are refused
  report_service early = make_service();
  BOOST_TEST((run(early.make_report(hasty)) == outcome::busy));

  consul.start();
  BOOST_TEST((run(early.make_report(patient)) == outcome::published));
}

BOOST_AUTO_TEST_CASE(waits_for_a_slow_consul) {
  consul.set_faults(fault_plan({fault_rule{.what = fault::delay(20ms), .times = 0}}));  // 0: every request
  BOOST_TEST((run(service.make_report(patient)) == outcome::published));
}

BOOST_AUTO_TEST_CASE(is_busy_when_consul_is_too_slow_and_gives_back_what_comes_late) {
  // Consul grants the slot at once, but the reply arrives byte by byte. The service gives up before the reply ends.
  consul.set_faults(fault_plan({fault_rule{.what = fault::trickle(1ms), .target = "PUT /v1/txn"}}));
  BOOST_TEST((run(service.make_report(hasty)) == outcome::busy));
  BOOST_TEST(store.chapters_begun == 0);

  // The late slot was released. If it were kept, the other service could not get it.
  report_service other = make_service();
  BOOST_TEST((run(other.make_report(patient)) == outcome::published));
  BOOST_TEST(consul.statistics().faults == 1u);  // otherwise this test would show nothing
}

BOOST_AUTO_TEST_CASE(does_the_work_once_when_a_write_is_not_answered) {
  // Consul grants the slot, but the reply is lost. The client must read the record to learn the outcome.
  consul.set_faults(fault_plan({fault_rule{.what = fault::drop_reply(), .target = "PUT /v1/txn"}}));
  BOOST_TEST((run(service.make_report(patient)) == outcome::published));
  BOOST_TEST(store.published.size() == 1u);
  BOOST_TEST(consul.statistics().faults == 1u);
}

BOOST_AUTO_TEST_SUITE_END()
