// SPDX-FileCopyrightText: The holdfast authors
// SPDX-License-Identifier: BSL-1.0

// Which lookups of host names are made, and which addresses are used meanwhile.

#include "net/name_lookup.hpp"

#include <boost/asio/co_spawn.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/test/unit_test.hpp>
#include <stdexcept>
#include <utility>
#include <vector>

#include "consul/net_names.hpp"
#include "support/async.hpp"
#include "support/participant.hpp"

using namespace holdfast::consul::detail;
using namespace std::chrono_literals;
using holdfast::test::pause;

namespace {

/// A name server whose answers the test chooses, and the results of the lookups.
struct names_under_test : std::enable_shared_from_this<names_under_test> {
  explicit names_under_test(const asio::any_io_executor& ex)
      : strand(ex), names(strand, owner, [this](const holdfast::net::address&) { return begin(); }) {}

  std::shared_ptr<lookup> begin() {
    ++lookups;
    if (throws) throw std::runtime_error("no thread");
    if (next_job) return std::exchange(next_job, nullptr);
    const auto job = jobs.emplace_back(std::make_shared<lookup>());
    const auto timer = std::make_shared<timer_type>(strand, delay);
    timer->async_wait([this, job, timer](const auto&) { job->end(next); });
    return job;
  }

  void find(std::string host, clock::duration patience = 1min) {
    owner = weak_from_this();
    auto body = [](name_lookup& names, holdfast::net::address door, time_point deadline) -> awaitable<resolution> {
      resolution found = co_await names.find(door, deadline);
      co_return found;
    };
    asio::co_spawn(strand, body(names, holdfast::net::address{std::move(host), 8500}, clock::now() + patience),
                   [self = shared_from_this()](const std::exception_ptr& failure, resolution result) {
                     if (failure) std::rethrow_exception(failure);
                     self->found.push_back(std::move(result));
                   });
  }
  asio::awaitable<void> until(std::size_t results) {
    while (found.size() < results) co_await pause(1ms);
  }

  const strand_type strand;
  std::weak_ptr<void> owner;
  clock::duration delay = 5ms;
  bool throws = false;
  resolution next;
  int lookups = 0;
  std::vector<std::shared_ptr<lookup>> jobs;
  std::shared_ptr<lookup> next_job;
  std::vector<resolution> found;
  name_lookup names;
};

endpoint_list some_addresses(unsigned short port) {
  return {asio::ip::tcp::endpoint(asio::ip::address_v4::loopback(), port)};
}

}  // namespace

BOOST_AUTO_TEST_SUITE(consul_name_lookup)

BOOST_AUTO_TEST_CASE(an_ip_literal_or_a_path_is_no_name) {
  BOOST_TEST(has_a_name({"consul.example", 8500}));
  BOOST_TEST(!has_a_name({"127.0.0.1", 8500}));
  BOOST_TEST(!has_a_name({"::1", 8500}));
  holdfast::net::address path{"/run/consul.sock", 0};
  path.is_path = true;
  BOOST_TEST(!has_a_name(path));
}

ASYNC_TEST_CASE(all_who_need_a_name_share_a_lookup) {
  const auto t = std::make_shared<names_under_test>(ex);
  t->next.endpoints = some_addresses(1);
  for (int i = 0; i < 3; ++i) t->find("consul.example");
  co_await t->until(3);
  BOOST_TEST(t->lookups == 1);
  for (const resolution& each : t->found) BOOST_TEST((each.endpoints == some_addresses(1)));
  t->find("other.example");
  t->find("127.0.0.1");
  t->find("127.0.0.1");
  co_await t->until(6);
  BOOST_TEST(t->lookups == 2, "each name has a lookup of its own, and an IP address needs none");
}

ASYNC_TEST_CASE(the_last_addresses_stay_in_use_while_a_lookup_fails_or_hangs) {
  const auto t = std::make_shared<names_under_test>(ex);
  t->next.endpoints = some_addresses(1);
  t->find("consul.example");
  co_await t->until(1);
  t->next = {asio::error::host_not_found, {}};
  t->find("consul.example");
  co_await t->until(2);
  t->next = {};
  t->find("consul.example");
  co_await t->until(3);
  t->throws = true;
  t->find("consul.example");
  co_await t->until(4);
  BOOST_TEST(t->lookups == 4);
  for (const resolution& each : t->found) {
    BOOST_TEST(!each.error);
    BOOST_TEST((each.endpoints == some_addresses(1)));
  }
  t->throws = false;
  t->delay = name_lookup::wait_max * 3 / 2;
  t->next.endpoints = some_addresses(2);
  const time_point begun = clock::now();
  t->find("consul.example");
  co_await t->until(5);
  BOOST_TEST((clock::now() - begun >= name_lookup::wait_max));
  BOOST_TEST((t->found[4].endpoints == some_addresses(1)));
  t->find("consul.example");
  co_await t->until(6);
  BOOST_TEST(t->lookups == 5, "the slow lookup goes on, and the next caller waits for it");
  BOOST_TEST((t->found[5].endpoints == some_addresses(2)));
}

ASYNC_TEST_CASE(without_known_addresses_the_error_is_returned) {
  const auto t = std::make_shared<names_under_test>(ex);
  t->next.error = asio::error::host_not_found;
  t->find("consul.example");
  co_await t->until(1);
  BOOST_TEST(t->found[0].error == asio::error::host_not_found);
  t->throws = true;
  t->find("consul.example");
  co_await t->until(2);
  BOOST_TEST(t->found[1].error == asio::error::no_recovery);
  t->throws = false;
  t->delay = 200ms;
  t->find("consul.example", 20ms);
  co_await t->until(3);
  BOOST_TEST(t->found[2].error == asio::error::timed_out);
  BOOST_TEST(t->found[2].endpoints.empty());
}

ASYNC_TEST_CASE(an_answer_for_which_nobody_waited_is_used_later) {
  const auto t = std::make_shared<names_under_test>(ex);
  t->next.endpoints = some_addresses(1);
  t->delay = 50ms;
  t->find("consul.example", 5ms);
  co_await t->until(1);
  BOOST_TEST(t->found[0].error == asio::error::timed_out);
  while (!t->jobs.back()->answer()) co_await pause(1ms);
  t->delay = 1min;
  t->find("consul.example");
  co_await t->until(2);
  BOOST_TEST(t->lookups == 2, "that answer may be old, so another lookup begins");
  BOOST_TEST((t->found[1].endpoints == some_addresses(1)));
}

ASYNC_TEST_CASE(the_addresses_of_a_later_lookup_are_used, 20s) {
  const auto t = std::make_shared<names_under_test>(ex);
  const auto old = std::make_shared<lookup>(clock::now() - lookup_max + 20ms);
  t->next_job = old;
  t->find("consul.example");
  while (t->lookups == 0) co_await pause(1ms);
  while (clock::now() - old->begun() < lookup_max) co_await pause(1ms);
  t->next.endpoints = some_addresses(1);
  t->find("consul.example");
  co_await t->until(2);
  BOOST_TEST(t->lookups == 2);
  for (const resolution& each : t->found) BOOST_TEST((each.endpoints == some_addresses(1)));
}

ASYNC_TEST_CASE(after_close_nobody_waits_and_no_lookup_begins) {
  const auto t = std::make_shared<names_under_test>(ex);
  t->delay = 1min;
  t->find("consul.example");
  while (t->lookups == 0) co_await pause(1ms);
  t->names.close();
  co_await t->until(1);
  BOOST_TEST(t->found[0].error == asio::error::timed_out);
  t->find("consul.example");
  co_await t->until(2);
  BOOST_TEST(t->found[1].error.failed());
  BOOST_TEST(t->lookups == 1);
}

BOOST_AUTO_TEST_SUITE_END()
