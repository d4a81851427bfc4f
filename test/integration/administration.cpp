// SPDX-FileCopyrightText: The holdfast authors
// SPDX-License-Identifier: BSL-1.0

// Semaphores under an operator's hands, on a real agent.

#include <boost/asio/bind_cancellation_slot.hpp>
#include <boost/asio/cancellation_signal.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
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

/// An operator, with a client of its own.
struct operator_at {
  operator_at(const asio::any_io_executor& ex, const agent& a, const std::string& prefix)
      : client(ex, reach(a)), admin(client, of(prefix)) {}
  static consul::config reach(const agent& a) {
    consul::config c;
    c.address = a.address();
    return c;
  }
  consul::client client;
  semaphore_administration admin;
};

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

ASYNC_TEST_CASE(it_is_created_resized_and_destroyed, 30s) {
  agent& a = shared_agent();
  const std::string prefix = unique_prefix("administration");
  operator_at op(ex, a, prefix);
  auto [early] = co_await op.admin.resize(2, as_result);
  BOOST_TEST(early == error::no_semaphore);
  co_await op.admin.create(2);
  BOOST_TEST(record(a, prefix) == R"({"Limit":2,"Holders":{}})");
  co_await op.admin.create(2);
  diagnostics details;
  consul::request_options request;
  request.diag = &details;
  auto [conflict] = co_await op.admin.create(3, request, as_result);
  BOOST_TEST(conflict == error::limit_conflict);
  BOOST_REQUIRE(details.limit_conflict.has_value());
  BOOST_TEST(details.limit_conflict->recorded == 2u);
  BOOST_TEST(details.limit_conflict->ours == 3u);
  BOOST_TEST(details.key == prefix + "/.lock");
  co_await op.admin.resize(3);
  BOOST_TEST(record(a, prefix) == R"({"Limit":3,"Holders":{}})");
  auto [none] = co_await op.admin.resize(0, as_result);
  BOOST_TEST(none == error::invalid_limit);
  co_await op.admin.destroy();
  BOOST_TEST(listing(a, prefix) == "");
  co_await op.admin.destroy();
}

ASYNC_TEST_CASE(closed_grants_nobody_and_drains, 60s) {
  agent& a = shared_agent();
  const std::string prefix = unique_prefix("drain");
  operator_at op(ex, a, prefix);
  participant p(ex, a, calm(prefix, 2)), q(ex, a, calm(prefix, 2));
  slot one = co_await p.sem.acquire();
  slot two = co_await q.sem.acquire();
  co_await op.admin.close();
  BOOST_TEST(record(a, prefix).ends_with(R"("Closed":true})"));
  pending<slot> waiting(ex, p.sem.acquire());
  pending<> drained(ex, op.admin.wait_until_drained());
  auto [late] = co_await op.admin.wait_until_drained(50ms, as_result);
  BOOST_TEST(late == error::in_use);
  co_await one.release();
  BOOST_TEST(!drained.ready());
  co_await two.release();
  const error_code ec = co_await drained.wait();
  BOOST_TEST(!ec);
  slot none = co_await q.sem.try_acquire();
  BOOST_TEST(!none.valid());
  BOOST_TEST(!waiting.ready());
  BOOST_TEST(holders(a, prefix).empty());
  auto [in_use] = co_await op.admin.destroy(as_result);
  BOOST_TEST(in_use == error::in_use);
  co_await op.admin.open();
  const error_code granted = co_await waiting.wait();
  BOOST_TEST(!granted);
  BOOST_TEST(record(a, prefix).find("Closed") == std::string::npos);
}

ASYNC_TEST_CASE(a_holder_hears_that_its_slot_is_wanted, 60s) {
  agent& a = shared_agent();
  const std::string prefix = unique_prefix("revoke");
  operator_at op(ex, a, prefix);
  participant p(ex, a, calm(prefix, 1));
  slot held = co_await p.sem.acquire();
  BOOST_TEST(!held.revoked());
  pending<> revoked(ex, held.wait_revoked());
  const std::string session = holders(a, prefix).at(0);
  co_await op.admin.revoke(session);
  const error_code ec = co_await revoked.wait();
  BOOST_TEST(!ec);
  BOOST_TEST(held.revoked());
  BOOST_TEST(held.held());
  auto [again] = co_await held.wait_revoked(as_result);
  BOOST_TEST(!again);
  const std::string before = listing(a, prefix);
  co_await op.admin.revoke(session);
  BOOST_TEST(listing(a, prefix) == before);
  co_await held.release();
  BOOST_TEST(held.revoked());
  auto [over] = co_await held.wait_revoked(as_result);
  BOOST_TEST(over == error::not_held);
  BOOST_TEST(record(a, prefix) == R"({"Limit":1,"Holders":{}})");
  auto [gone] = co_await op.admin.revoke(session, as_result);
  BOOST_TEST(gone == error::not_held);
}

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

ASYNC_TEST_CASE(what_stands_in_consul_can_be_inspected, 60s) {
  agent& a = shared_agent();
  const std::string prefix = unique_prefix("inspect");
  operator_at op(ex, a, prefix);
  const semaphore_status before = co_await op.admin.inspect();
  BOOST_TEST((before == semaphore_status()));
  semaphore_options named = calm(prefix, 1);
  named.description = "worker 7";
  participant p(ex, a, named), q(ex, a, calm(prefix, 1));
  slot held = co_await p.sem.acquire();
  pending<slot> waiting(ex, q.sem.acquire());
  co_await until("it stands in the queue", [&] { return contenders(a, prefix).size() == 2; });
  co_await op.admin.close();
  co_await op.admin.revoke(holders(a, prefix).at(0));
  const semaphore_status now = co_await op.admin.inspect();
  BOOST_TEST(now.exists);
  BOOST_TEST(now.closed);
  BOOST_TEST(now.limit == 1u);
  BOOST_REQUIRE(now.holders.size() == 1u);
  BOOST_TEST(now.holders[0].session == holders(a, prefix).at(0));
  BOOST_TEST(now.holders[0].description == "worker 7");
  BOOST_TEST(now.holders[0].revoked);
  BOOST_TEST((now.holders[0].kind == contender_kind::holdfast));
  BOOST_TEST((now.holders[0].token == held.fencing_token()));
  BOOST_REQUIRE(now.holders[0].age.has_value());
  BOOST_TEST((*now.holders[0].age < scaled(60s)));
  BOOST_REQUIRE(now.queue.size() == 1u);
  BOOST_TEST(now.queue[0].place == 1u);
  BOOST_TEST(now.queue[0].session == contenders(a, prefix).at(1));
  BOOST_TEST(now.queue[0].age.has_value());
  BOOST_TEST(now.dead_holders == 0u);
}

ASYNC_TEST_CASE(what_the_dead_have_left_is_swept, 30s) {
  agent& a = shared_agent();
  const std::string prefix = unique_prefix("sweep");
  operator_at op(ex, a, prefix);
  const std::string dead = "00000000-1111-2222-3333-444444444444", left = "00000000-1111-2222-3333-555555555555";
  write_key(a, prefix + "/.lock", R"({"Limit":2,"Holders":{")" + dead + R"(":true}})", protocol::semaphore_flags);
  write_key(a, prefix + "/" + left, "an old guide's");
  write_key(a, prefix + "/readme", "not ours");
  const semaphore_status before = co_await op.admin.inspect();
  BOOST_TEST(before.dead_holders == 1u);
  BOOST_TEST(before.dead_entries == 1u);
  BOOST_TEST(before.holders.empty());
  const swept what = co_await op.admin.sweep();
  BOOST_TEST((what == swept{1, 1}));
  BOOST_TEST(record(a, prefix) == R"({"Limit":2,"Holders":{}})");
  const swept again = co_await op.admin.sweep();
  BOOST_TEST((again == swept()));
  BOOST_TEST(a.get("/v1/kv/" + prefix + "/readme?raw").body == "not ours");
}

ASYNC_TEST_CASE(what_is_in_use_is_destroyed_only_if_one_insists, 60s) {
  agent& a = shared_agent();
  const std::string prefix = unique_prefix("destroy");
  operator_at op(ex, a, prefix);
  participant p(ex, a, calm(prefix, 1));
  slot held = co_await p.sem.acquire();
  const std::string before = listing(a, prefix);
  auto [ec] = co_await op.admin.destroy(as_result);
  BOOST_TEST(ec == error::in_use);
  BOOST_TEST(listing(a, prefix) == before);
  pending<loss_reason> lost(ex, held.wait_lost());
  co_await op.admin.destroy_in_use();
  const error_code told = co_await lost.wait();
  BOOST_TEST(!told);
  BOOST_TEST(listing(a, prefix) == "");
  slot again = co_await p.sem.acquire();
  BOOST_TEST(again.held());
}

ASYNC_TEST_CASE(the_key_of_something_else_is_left_alone, 30s) {
  agent& a = shared_agent();
  const std::string prefix = unique_prefix("not-ours");
  operator_at op(ex, a, prefix);
  for (const auto& [value, flags, expected] :
       {std::tuple<const char*, std::uint64_t, error>("mine", 0x2ddccbc058a50c18, error::not_a_semaphore),
        std::tuple<const char*, std::uint64_t, error>("{", 0, error::corrupt_record)}) {
    write_key(a, prefix + "/.lock", value, flags);
    const std::string before = listing(a, prefix);
    diagnostics details;
    consul::request_options request;
    request.diag = &details;
    auto [resized] = co_await op.admin.resize(2, request, as_result);
    BOOST_TEST(resized == expected);
    BOOST_TEST(details.key == prefix + "/.lock");
    auto [destroyed] = co_await op.admin.destroy_in_use(as_result);
    BOOST_TEST(destroyed == expected);
    auto [inspected, nothing] = co_await op.admin.inspect(as_result);
    BOOST_TEST(inspected == expected);
    BOOST_TEST(listing(a, prefix) == before);
  }
}

ASYNC_TEST_CASE(an_agent_that_is_not_there_is_given_up_in_time, 30s) {
  consul::config c;
  c.address = "127.0.1.1:1";
  consul::client client(ex, c);
  semaphore_administration admin(client, of("p"));
  consul::request_options request;
  request.timeout = 200ms;
  diagnostics details;
  request.diag = &details;
  auto [ec] = co_await admin.close(request, as_result);
  BOOST_TEST(ec == error::unreachable);
  BOOST_TEST(details.message != "");
  auto [drained] = co_await admin.wait_until_drained(1h, request, as_result);
  BOOST_TEST(drained == error::unreachable);
  auto [inspected, nothing] = co_await admin.inspect(request, as_result);
  BOOST_TEST(inspected == error::unreachable);
}

/// An order that may have been carried out is not reported as certainly not done, whatever fails after that.
ASYNC_TEST_CASE(an_order_that_may_have_been_carried_out_says_so, 30s) {
  testing::server fake;
  consul::client client(ex, fake.client_config());
  semaphore_administration admin(client, of("p"));
  co_await admin.create(2);
  testing::fault_rule lost, refused;
  lost.what = testing::fault::cut_reply();
  lost.target = "PUT /v1/txn";
  refused.what = testing::fault::forbidden();
  refused.target = "GET /v1/kv";
  refused.skip = 1;
  refused.times = 0;
  fake.set_faults(testing::fault_plan({lost, refused}));
  auto [ec] = co_await admin.resize(5, as_result);
  BOOST_TEST((ec == condition::outcome_unknown), ec.message());
  BOOST_TEST((ec != condition::not_applied));
  fake.set_faults({});
  const semaphore_status now = co_await admin.inspect();
  BOOST_TEST(now.limit == 5u);
}

/// The first write gets no answer. It takes effect only after a read has found everything as before. Then somebody
/// creates the semaphore anew. The destroy has removed the old one, and spares the new one.
ASYNC_TEST_CASE(a_destroy_that_may_have_been_done_spares_what_came_later, 30s) {
  testing::server fake;
  consul::client client(ex, fake.client_config());
  semaphore_administration admin(client, of("p"));
  co_await admin.create(1);
  testing::fault_rule lost, held_up;
  lost.what = testing::fault::drop_request();
  lost.target = "PUT /v1/txn";
  held_up.what = testing::fault::freeze();
  held_up.target = "PUT /v1/txn";
  fake.set_faults(testing::fault_plan({lost, held_up}));
  pending<> destroyed(ex, admin.destroy());
  co_await until("it is given again", [&] { return fake.statistics().frozen != 0; });
  let_somebody_hold(fake);
  fake.thaw();
  const error_code ec = co_await destroyed.wait();
  BOOST_TEST(!ec, ec.message());
  const semaphore_status now = co_await admin.inspect();
  BOOST_TEST(now.holders.size() == 1u);
}

/// An order that makes progress is not given up, however many transactions it takes. Each dead entry counts once.
ASYNC_TEST_CASE(attempts_are_those_that_were_in_vain, 30s) {
  testing::server fake;
  consul::client client(ex, fake.client_config());
  administration_options once = of("p");
  once.attempts_max = 1;
  semaphore_administration admin(client, once);
  constexpr std::size_t many = 200;
  const auto leave_entries = [&] {
    for (std::size_t i = 0; i < many; ++i)
      fake.with([i](testing::store& consul, auto now) {
        const std::string session = "00000000-1111-2222-3333-" + std::to_string(400'000'000'000 + i);
        consul.write(consul::txn_operation::set("p/" + session, "dead"), now);
      });
  };
  co_await admin.create(2);
  leave_entries();
  const swept what = co_await admin.sweep();
  BOOST_TEST((what == swept{0, many}), what.entries << " entries");
  const swept again = co_await admin.sweep();
  BOOST_TEST((again == swept()));
  leave_entries();
  testing::fault_rule lost;
  lost.what = testing::fault::cut_reply();
  lost.target = "PUT /v1/txn";
  fake.set_faults(testing::fault_plan({lost}));
  semaphore_administration patient(client, of("p"));
  const swept unanswered = co_await patient.sweep();
  BOOST_TEST((unanswered == swept{0, many}), unanswered.entries << " entries");
  leave_entries();
  co_await admin.destroy();
  const semaphore_status now = co_await admin.inspect();
  BOOST_TEST((now == semaphore_status()));
}

ASYNC_TEST_CASE(where_there_is_no_semaphore_nothing_is_waited_for, 30s) {
  agent& a = shared_agent();
  const std::string prefix = unique_prefix("drain-nothing");
  operator_at op(ex, a, prefix);
  diagnostics details;
  consul::request_options request;
  request.diag = &details;
  auto [mistyped] = co_await op.admin.wait_until_drained(1h, request, as_result);
  BOOST_TEST(mistyped == error::no_semaphore);
  BOOST_TEST(details.key == prefix + "/.lock");
  participant p(ex, a, calm(prefix, 1));
  slot held = co_await p.sem.acquire();
  auto [negative] = co_await op.admin.wait_until_drained(std::chrono::nanoseconds::min(), as_result);
  BOOST_TEST(negative == error::in_use);
  // The record is deleted during the wait. Then nobody holds a slot.
  pending<> drained(ex, op.admin.wait_until_drained());
  co_await op.admin.destroy_in_use();
  const error_code ec = co_await drained.wait();
  BOOST_TEST(!ec);
}

/// Each read shows something new at once, but never what the order waits for.
ASYNC_TEST_CASE(the_wait_for_the_last_holder_does_not_spin, 30s) {
  testing::server fake;
  consul::client client(ex, fake.client_config());
  let_somebody_hold(fake);
  semaphore_administration admin(client, of("p"));
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

ASYNC_TEST_CASE(an_order_can_be_cancelled, 30s) {
  agent& a = shared_agent();
  const std::string prefix = unique_prefix("cancel-order");
  operator_at op(ex, a, prefix);
  participant p(ex, a, calm(prefix, 1));
  slot held = co_await p.sem.acquire();
  for (const auto type :
       {asio::cancellation_type::total, asio::cancellation_type::partial, asio::cancellation_type::terminal}) {
    asio::cancellation_signal stop;
    error_code result;
    bool done = false;
    op.admin.wait_until_drained(1h, asio::bind_cancellation_slot(stop.slot(), [&](error_code ec) {
                                  result = ec;
                                  done = true;
                                }));
    co_await pause(20ms);
    stop.emit(type);
    co_await until("the cancelled wait is over", [&] { return done; });
    BOOST_TEST(result == asio::error::operation_aborted);
  }
  BOOST_TEST(held.held());
}

BOOST_AUTO_TEST_CASE(what_cannot_be_is_refused_at_once) {
  asio::io_context io;
  consul::client client(io, {.address = "127.0.1.1:1"});
  const auto refused = [&](administration_options options, error why) {
    BOOST_CHECK_EXCEPTION(semaphore_administration(client, options), system_error,
                          [&](const auto& e) { return e.code() == why; });
  };
  refused(of(""), error::invalid_prefix);
  refused(of("/p"), error::invalid_prefix);
  refused({.prefix = "p", .lock_key = "a/b"}, error::invalid_option);
  refused({.prefix = "p", .timeout = 0ms}, error::invalid_option);
  refused({.prefix = "p", .timeout = -1ms}, error::invalid_option);
  refused({.prefix = "p", .timeout = 11min}, error::invalid_option);
  refused({.prefix = "p", .attempts_max = 0}, error::invalid_option);
  BOOST_TEST(!semaphore_administration().valid());
  BOOST_TEST(semaphore_administration(client, of("p")).valid());
}

BOOST_AUTO_TEST_CASE(a_context_that_goes_takes_its_orders_along) {
  // An agent that never answers.
  asio::io_context other;
  asio::ip::tcp::acceptor silent(other, {asio::ip::make_address("127.0.1.1"), 0});
  consul::client client;
  bool called = false;
  {
    asio::io_context io;
    client = consul::client(io, {.address = "127.0.1.1:" + std::to_string(silent.local_endpoint().port())});
    semaphore_administration admin(client, of("p"));
    admin.wait_until_drained(1h, [&](error_code) { called = true; });
    admin.close([&](error_code) { called = true; });
    io.run_for(10ms);
  }
  BOOST_TEST(!called);
}

BOOST_AUTO_TEST_SUITE_END()
