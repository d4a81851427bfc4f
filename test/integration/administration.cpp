// SPDX-FileCopyrightText: The holdfast authors
// SPDX-License-Identifier: BSL-1.0

// Semaphores under an operator's hands, on a real agent.

#include <boost/asio/bind_cancellation_slot.hpp>
#include <boost/asio/cancellation_signal.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/test/unit_test.hpp>

#include <holdfast/testing/server.hpp>
#include "protocol/record/lock_record.hpp"

#include "support/agent.hpp"
#include "support/async.hpp"
#include "support/participant.hpp"
#include "support/scripted_server.hpp"

namespace holdfast::test {
namespace {

administration_options of(const std::string& prefix) {
  administration_options options;
  options.prefix = prefix;
  return options;
}

/// In a new record, whatever was there: by a process that does nothing else.
void let_somebody_hold(testing::server& fake) {
  fake.with([](testing::store& consul, auto now) {
    consul::session_info session;
    session.id = "00000000-1111-2222-3333-444444444444";
    consul.create_session(session, now);
    consul.write(consul::txn_operation::remove("p/.lock"), now);
    consul.write(consul::txn_operation::lock("p/" + session.id, "new", session.id, protocol::semaphore_flags), now);
    const std::string record = R"({"Limit":1,"Holders":{")" + session.id + R"(":true}})";
    consul.write(consul::txn_operation::set("p/.lock", record, protocol::semaphore_flags), now);
  });
}

}  // namespace
}  // namespace holdfast::test

using namespace holdfast;
using namespace holdfast::test;

BOOST_AUTO_TEST_SUITE(administration)

ASYNC_TEST_CASE(the_wait_for_a_wish_ends_with_the_slot_and_can_be_cancelled, 30s) {
  agent& a = shared_agent();
  const std::string prefix = unique_prefix("revoke-ends");
  participant p(ex, a, calm(prefix, 2));
  slot one = co_await p.sem.acquire();
  slot two = co_await p.sem.acquire();
  slot empty;
  auto [nothing] = co_await empty.wait_revoked(as_result);
  BOOST_TEST(nothing == error::not_held);
  asio::cancellation_signal stop;
  error_code cancelled;
  bool done = false;
  two.wait_revoked(asio::bind_cancellation_slot(stop.slot(), [&](error_code ec) {
    cancelled = ec;
    done = true;
  }));
  pending<> released(ex, one.wait_revoked()), lost(ex, two.wait_revoked());
  stop.emit(asio::cancellation_type::total);
  co_await until("the cancelled wait is over", [&] { return done; });
  BOOST_TEST(cancelled == asio::error::operation_aborted);
  BOOST_TEST(two.held());
  co_await one.release();
  const error_code first = co_await released.wait();
  BOOST_TEST(first == error::not_held);
  pending<> closing(ex, p.sem.close());
  const error_code second = co_await lost.wait();
  BOOST_TEST(second == error::slot_lost);
  let_go(two);
  const error_code closed = co_await closing.wait();
  BOOST_TEST(!closed);
}

/// Each read shows something new at once, but never what the order waits for.
ASYNC_TEST_CASE(the_wait_for_the_last_holder_does_not_spin, 30s) {
  testing::server fake;
  consul::client client(ex, fake.client_config());
  let_somebody_hold(fake);
  semaphore_administration admin(client, of("p"));
  auto [negative] = co_await admin.wait_until_drained(std::chrono::nanoseconds::min(), as_result);
  BOOST_TEST(negative == error::in_use);
  pending<> drained(ex, admin.wait_until_drained(500ms));
  const std::uint64_t before = fake.statistics().requests;
  std::uint64_t changes = 0;
  while (!drained.ready()) {
    fake.with([&](testing::store& consul, auto now) {
      consul.write(consul::txn_operation::set("p/note", std::to_string(++changes)), now);
    });
    co_await pause(1ms);
  }
  const error_code ec = co_await drained.wait();
  BOOST_TEST(ec == error::in_use);
  BOOST_TEST(fake.statistics().requests - before < 60u, changes << " changes");
}

ASYNC_TEST_CASE(the_time_of_one_order_is_checked, 30s) {
  testing::server fake;
  consul::client client(ex, fake.client_config());
  semaphore_administration admin(client, of("p"));
  for (const std::chrono::milliseconds wrong : {-1ms, std::chrono::milliseconds(10min) + 1ms,
                                                std::chrono::milliseconds::min(), std::chrono::milliseconds::max()}) {
    diagnostics details;
    consul::request_options request;
    request.diag = &details;
    request.timeout = wrong;
    auto [created] = co_await admin.create(1, request, as_result);
    BOOST_TEST(created == error::invalid_option);
    BOOST_TEST(details.message.find("timeout") != std::string::npos, details.message);
    auto [drained] = co_await admin.wait_until_drained(1h, request, as_result);
    BOOST_TEST(drained == error::invalid_option);
    auto [sweeping, removed] = co_await admin.sweep(request, as_result);
    BOOST_TEST(sweeping == error::invalid_option);
    auto [inspected, nothing] = co_await admin.inspect(request, as_result);
    BOOST_TEST(inspected == error::invalid_option);
  }
  BOOST_TEST(fake.statistics().requests == 0u);
}

BOOST_AUTO_TEST_SUITE_END()
