// One client of several agents, each of which fails in its way. They are models of Consul that know nothing of each
// other: what a client does is all that these tests are about. Clusters of real ones are cluster/failover.cpp's.

#include <boost/asio/steady_timer.hpp>
#include <boost/test/unit_test.hpp>
#include <holdfast/consul/client.hpp>
#include <holdfast/testing/server.hpp>

#include "support/async.hpp"
#include "support/scripted_server.hpp"

BOOST_AUTO_TEST_SUITE(consul_failover)

namespace {

using namespace std::chrono_literals;
using holdfast::diagnostics;
using holdfast::error;
using holdfast::consul::client;
using holdfast::consul::client_health;
using holdfast::consul::config;
using holdfast::test::pending;
using holdfast::testing::fault_plan;
using holdfast::testing::server;
namespace asio = boost::asio;
using entry_answer = holdfast::consul::answer<std::optional<holdfast::consul::kv_entry>>;

// Each has the key "k", whose value is its own name.
struct agents {
  agents() {
    int number = 0;
    for (server* each : {&first, &second, &third}) {
      each->with([&](auto& store, auto now) {
        store.write(holdfast::consul::txn_operation::set("k", std::to_string(++number)), now);
      });
    }
  }
  config settings() const {
    config its;
    its.addresses = {first.address(), second.address(), third.address()};
    its.request_timeout = 20s;
    return its;
  }

  server first, second, third;
};

asio::awaitable<std::string> ask(client& through) {
  auto [ec, answer] = co_await through.get("k", holdfast::test::as_result);
  co_return ec ? ec.message() : answer.value->value;
}

ASYNC_TEST_CASE(the_first_is_asked_as_long_as_it_works, 30s) {
  const agents with;
  client through(ex, with.settings());
  for (int i = 0; i < 3; ++i) {
    const std::string who = co_await ask(through);
    BOOST_TEST(who == "1");
  }
  BOOST_TEST(with.second.statistics().accepted == 0u);
}

ASYNC_TEST_CASE(one_that_is_gone_is_left_at_once_and_for_good, 30s) {
  agents with;
  std::vector<std::string> log;
  config settings = with.settings();
  settings.log = [&](std::string_view line) { log.emplace_back(line); };
  client through(ex, settings);
  BOOST_TEST(through.health().address == with.first.address());
  BOOST_TEST(through.health().last_failure == "");
  with.first.stop();
  for (int i = 0; i < 3; ++i) {
    const std::string who = co_await ask(through);
    BOOST_TEST(who == "2");
  }
  const client_health now = through.health();
  BOOST_TEST(now.address == with.second.address());
  BOOST_TEST(now.last_failure.starts_with(with.first.address() + ": "), now.last_failure);
  BOOST_TEST((now.last_failure_at <= now.since));
  BOOST_TEST_REQUIRE(log.size() == 1u);
  BOOST_TEST(log[0] == "requests go to " + with.second.address() + " now, no longer to " + with.first.address() +
                           "; the last failure: " + now.last_failure);
  with.first.start();
  const std::string sticky = co_await ask(through);
  BOOST_TEST(sticky == "2");
  with.second.stop();
  const std::string third = co_await ask(through);
  BOOST_TEST(third == "3");
}

ASYNC_TEST_CASE(one_that_says_nothing_is_left_for_one_that_does, 30s) {
  agents with;
  client through(ex, with.settings());
  const std::string before = co_await ask(through);
  BOOST_TEST(before == "1");
  with.first.freeze();
  const std::string after = co_await ask(through);
  BOOST_TEST(after == "2");
}

ASYNC_TEST_CASE(what_is_under_way_at_one_that_is_left_goes_on_elsewhere_or_ends, 30s) {
  agents with;
  client through(ex, with.settings());
  holdfast::consul::read_options watch;
  watch.index = 1'000'000;
  watch.wait = 20s;
  pending<entry_answer> watches(ex, through.get("k", watch));
  while (with.first.statistics().blocked == 0) {
    const std::string who = co_await ask(through);
    BOOST_TEST(who == "1");
  }
  with.first.freeze();
  pending<bool> write(ex, through.put("k", "x"));
  const auto ec = co_await write.wait();
  BOOST_TEST(ec == error::connection_lost, "nobody knows whether it will be done");
  while (with.second.statistics().blocked == 0) {
    const std::string who = co_await ask(through);
    BOOST_TEST(who == "2");
  }
  BOOST_TEST(!watches.ready());
}

ASYNC_TEST_CASE(all_are_named_by_the_last_that_failed, 30s) {
  agents with;
  config settings = with.settings();
  settings.request_timeout = 200ms;
  client through(ex, settings);
  for (server* each : {&with.first, &with.second, &with.third}) each->stop();
  diagnostics why;
  holdfast::consul::read_options once;
  once.request.diag = &why;
  once.request.retry = false;
  auto [ec, answer] = co_await through.get("k", once, holdfast::test::as_result);
  BOOST_TEST(ec == error::unreachable);
  BOOST_TEST(why.message == "get: cannot connect to " + with.third.address() + ": Connection refused");
  with.second.start();
  const std::string who = co_await ask(through);
  BOOST_TEST(who == "2");
}

ASYNC_TEST_CASE(a_cluster_that_has_no_leader_is_no_reason_to_leave, 30s) {
  agents with;
  client through(ex, with.settings());
  with.first.freeze();
  with.second.freeze();
  with.third.freeze();
  pending<entry_answer> asked(ex, through.get("k"));
  asio::steady_timer timer(ex, 1500ms);
  co_await timer.async_wait(asio::use_awaitable);
  with.first.thaw();
  const auto ec = co_await asked.wait();
  BOOST_TEST(!ec);
  BOOST_TEST(asked.value().value->value == "1");
}

}  // namespace

BOOST_AUTO_TEST_SUITE_END()
