// SPDX-FileCopyrightText: The holdfast authors
// SPDX-License-Identifier: BSL-1.0

// Each loss can be explained from the log alone: it says which slot was lost, why, and what went before.

#include <algorithm>
#include <boost/asio/detached.hpp>
#include <boost/asio/post.hpp>
#include <boost/test/unit_test.hpp>
#include <functional>
#include <holdfast/holdfast.hpp>
#include <holdfast/testing/server.hpp>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "support/async.hpp"

BOOST_AUTO_TEST_SUITE(log_losses)

namespace {

using namespace std::chrono_literals;
using namespace holdfast;
namespace asio = boost::asio;
using holdfast::testing::fault;
using holdfast::testing::fault_plan;
using holdfast::testing::server;

testing::server_options quick() {
  testing::server_options options;
  options.model.session_ttl_min = 1s;
  return options;
}

/// A process with a semaphore, and what its operator reads.
struct process {
  process(const asio::any_io_executor& ex, const server& at, std::function<void(semaphore_options&)> change = {})
      : client(ex, at.client_config()) {
    semaphore_options options;
    options.prefix = "s";
    options.limit = 1;
    options.session_ttl = 2s;
    options.session_node = "";
    options.log = [events = events](const holdfast::log_event& event) { events->push_back(event); };
    if (change) change(options);
    sem = semaphore(client, options);
  }

  /// The first loss. Other events may follow it at once.
  asio::awaitable<holdfast::log_event> loss() const {
    const auto is_loss = [](const holdfast::log_event& each) { return each.kind == log_kind::slot_lost; };
    for (;;) {
      const auto found = std::find_if(events->begin(), events->end(), is_loss);
      if (found != events->end()) co_return *found;
      co_await asio::post(asio::use_awaitable);
    }
  }

  std::shared_ptr<std::vector<holdfast::log_event>> events = std::make_shared<std::vector<holdfast::log_event>>();
  consul::client client;
  semaphore sem;
};

/// The session that the record names.
std::string holder(server& fake) {
  const auto record = fake.with([](auto& store, auto) { return store.get("s/.lock").value; });
  const std::string text = record ? record->value : std::string();
  const auto at = text.find("\"Holders\":{\"");
  return at == std::string::npos ? std::string() : text.substr(at + 12, 36);
}

void expect(const holdfast::log_event& event, loss_reason reason, const slot& held, const std::string& session) {
  BOOST_TEST(event.key == "s");
  BOOST_TEST(event.reason == reason);
  BOOST_TEST(held.lost_because() == reason);
  BOOST_TEST(event.session == session);
  BOOST_TEST((event.token == held.fencing_token()));
  const std::string text = event.text();
  BOOST_TEST(text.starts_with("slot of s lost: " + std::string(to_string(reason)) + " (session " + session +
                              ", fencing token " + held.fencing_token().to_string() + ')'),
             text);
}

void write(server& fake, consul::txn_operation what) {
  fake.with([&](auto& store, auto now) { store.write(what, now); });
}

}  // namespace

ASYNC_TEST_CASE(a_slot_that_is_removed, 30s) {
  server fake(quick());
  process p(ex, fake);
  slot held = co_await p.sem.acquire();
  const std::string session = holder(fake);
  write(fake, consul::txn_operation::set("s/.lock", R"({"Limit":1,"Holders":{}})", 0xe0f69a2baa414de0));
  const holdfast::log_event event = co_await p.loss();
  expect(event, loss_reason::removed, held, session);
}

ASYNC_TEST_CASE(a_session_that_is_invalidated, 30s) {
  server fake(quick());
  process p(ex, fake);
  slot held = co_await p.sem.acquire();
  const std::string session = holder(fake);
  write(fake, consul::txn_operation::remove_tree("s"));
  const holdfast::log_event event = co_await p.loss();
  expect(event, loss_reason::session_invalidated, held, session);
}

ASYNC_TEST_CASE(a_lease_that_expires, 30s) {
  server fake(quick());
  process p(ex, fake);
  slot held = co_await p.sem.acquire();
  const std::string session = holder(fake);
  fake.set_faults(fault_plan({{.what = fault::no_leader(), .times = 0}}));
  const holdfast::log_event event = co_await p.loss();
  expect(event, loss_reason::lease_expired, held, session);
  BOOST_TEST(event.cause.find("No cluster leader") != std::string::npos, event.cause);
  BOOST_TEST_REQUIRE(p.events->size() >= 2u);
  BOOST_TEST((p.events->front().kind == log_kind::watch_failed));
  BOOST_TEST(p.events->front().cause.find("No cluster leader") != std::string::npos);
}

ASYNC_TEST_CASE(a_watch_that_fails, 30s) {
  server fake(quick());
  process p(ex, fake, [](semaphore_options& options) { options.tuning.outage_grace = 0ms; });
  slot held = co_await p.sem.acquire();
  const std::string session = holder(fake);
  fake.set_faults(fault_plan({{.what = fault::no_leader(), .times = 0}}));
  fake.with([](auto& store, auto now) { store.write(consul::txn_operation::set("s/x", "y", 0), now); });
  const holdfast::log_event event = co_await p.loss();
  expect(event, loss_reason::watch_failed, held, session);
  BOOST_TEST(event.cause.find("No cluster leader") != std::string::npos, event.cause);
}

ASYNC_TEST_CASE(a_semaphore_that_is_closed, 30s) {
  server fake(quick());
  process p(ex, fake);
  slot held = co_await p.sem.acquire();
  const std::string session = holder(fake);
  p.sem.close(asio::detached);
  const holdfast::log_event event = co_await p.loss();
  expect(event, loss_reason::closed, held, session);
  BOOST_TEST((event.severity() == severity::info));
}

ASYNC_TEST_CASE(a_mutex_set_that_is_closed, 30s) {
  server fake;
  consul::client client(ex, fake.client_config());
  std::vector<holdfast::log_event> events;
  mutex_set_options options;
  options.prefix = "set";
  options.log = [&](const holdfast::log_event& event) { events.push_back(event); };
  mutex_set set(client, options);
  held_mutex held = co_await set.try_lock("a");
  const std::string session = fake.with([](auto& store, auto) { return store.get("set/a").value->session; });
  set.close(asio::detached);
  while (events.empty()) co_await asio::post(asio::use_awaitable);
  BOOST_TEST(events[0].text() == "slot of set/a lost: closed (session " + session + ", fencing token " +
                                     held.fencing_token().to_string() + ')');
}

/// Another process grants the slot, and this one cannot write that it accepts.
ASYNC_TEST_CASE(a_grant_that_is_not_accepted, 30s) {
  server fake(quick());
  process first(ex, fake), p(ex, fake);
  slot before = co_await first.sem.acquire();
  std::optional<slot> held;
  p.sem.acquire([&](error_code ec, slot got) {
    BOOST_TEST(!ec);
    held.emplace(std::move(got));
  });
  const auto waits = [&] { return fake.with([](auto& store, auto) { return store.list("s/").value.size(); }) >= 3; };
  while (!waits()) co_await asio::post(asio::use_awaitable);
  fake.set_faults(fault_plan({{.what = fault::no_leader(), .body = ".accepted", .times = 0}}));
  co_await before.release();
  while (!held) co_await asio::post(asio::use_awaitable);
  const std::string session = holder(fake);
  write(fake, consul::txn_operation::remove_tree("s"));
  const holdfast::log_event event = co_await p.loss();
  expect(event, loss_reason::not_accepted, *held, session);
}

BOOST_AUTO_TEST_SUITE_END()
