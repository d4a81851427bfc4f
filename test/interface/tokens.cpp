// SPDX-FileCopyrightText: The holdfast authors
// SPDX-License-Identifier: BSL-1.0

// Each operation takes its token after its required arguments, or takes no token and can be awaited directly. That this
// file compiles shows it. tools/rules/tokens.py checks that no operation of the headers is missing here.

#include <boost/asio/as_tuple.hpp>
#include <boost/asio/awaitable.hpp>
#include <boost/asio/deferred.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <boost/asio/use_future.hpp>
#include <boost/test/unit_test.hpp>
#include <boost/version.hpp>
#include <chrono>
#include <holdfast/holdfast.hpp>
#include <holdfast/testing/server.hpp>
#if BOOST_VERSION >= 108600
#include <boost/asio/bind_cancellation_slot.hpp>
#include <boost/asio/cancel_after.hpp>
#include <boost/asio/cancellation_signal.hpp>
#include <boost/asio/redirect_error.hpp>
#endif

#include "support/async.hpp"

namespace asio = boost::asio;

BOOST_AUTO_TEST_SUITE(tokens)

namespace {

/// One of each class with operations, by its name.
struct one_of_each {
  holdfast::consul::client& client;
  holdfast::election& election;
  holdfast::election_observer& election_observer;
  holdfast::held_mutex& held_mutex;
  holdfast::leadership& leadership;
  holdfast::mutex& mutex;
  holdfast::mutex_set& mutex_set;
  holdfast::semaphore& semaphore;
  holdfast::semaphore_administration& semaphore_administration;
  holdfast::hold& hold;
  holdfast::slot_source& slot_source;
};

#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wunused-result"
#pragma GCC diagnostic ignored "-Wunused-value"  // what clang calls it

/// `token` is one token or none.
template <class... Token>
void begin_each(one_of_each of, Token... token) {
  of.client.get("key", token...);
  of.client.list("prefix", token...);
  of.client.keys("prefix", token...);
  of.client.put("key", "value", token...);
  of.client.cas("key", "value", 1, token...);
  of.client.acquire("key", "value", "session", token...);
  of.client.release("key", "value", "session", token...);
  of.client.remove("key", token...);
  of.client.remove_tree("prefix", token...);
  of.client.remove_cas("key", 1, token...);
  of.client.create_session({.name = "name"}, token...);
  of.client.renew_session("session", token...);
  of.client.destroy_session("session", token...);
  of.client.session("session", token...);
  of.client.node("name", token...);
  of.client.register_node({.name = "name", .address = "127.0.0.1"}, token...);
  of.client.transact({holdfast::consul::txn_operation::get("key")}, token...);

  of.slot_source.close(token...);
  of.semaphore.acquire(token...);
  of.semaphore.try_acquire(token...);
  of.semaphore.try_acquire_for(std::chrono::seconds(1), token...);
  of.hold.wait_lost(token...);
  of.hold.wait_revoked(token...);
  of.hold.release(token...);

  of.mutex.lock(token...);
  of.mutex.try_lock(token...);
  of.mutex.try_lock_for(std::chrono::seconds(1), token...);
  sequencer_of(of.held_mutex, token...);
  verify(of.client, holdfast::sequencer(), token...);
  of.mutex_set.try_lock("name", token...);

  of.election.campaign(token...);
  of.election_observer.next(token...);
  of.leadership.proclaim("value", token...);
  of.leadership.resign(token...);

  of.semaphore_administration.create(1, token...);
  of.semaphore_administration.resize(1, token...);
  of.semaphore_administration.close(token...);
  of.semaphore_administration.open(token...);
  of.semaphore_administration.revoke("session", token...);
  of.semaphore_administration.evict("session", token...);
  of.semaphore_administration.destroy(token...);
  of.semaphore_administration.destroy_in_use(token...);
  of.semaphore_administration.sweep(token...);
  of.semaphore_administration.inspect(token...);
  of.semaphore_administration.wait_until_drained(token...);
}

/// The same with the arguments that may stand before the token.
template <class... Token>
void begin_with_options(one_of_each of, Token... token) {
  of.client.get("key", {}, token...);
  of.client.list("prefix", {.index = 1}, token...);
  of.client.keys("prefix", "/", token...);
  of.client.keys("prefix", "/", {}, token...);
  of.client.put("key", "value", 1, token...);
  of.client.put("key", "value", 1, {}, token...);
  of.client.cas("key", "value", 1, 0, token...);
  of.client.acquire("key", "value", "session", 0, {}, token...);
  of.client.release("key", "value", "session", 0, token...);
  of.client.remove("key", {.retry = false}, token...);
  of.client.create_session({.name = "name"}, {}, token...);
  of.client.transact({}, {}, token...);

  of.semaphore.acquire(2, token...);
  of.semaphore.try_acquire({.count = 2}, token...);
  of.semaphore.try_acquire_for(std::chrono::seconds(1), {.count = 2}, token...);
  of.election.campaign({}, token...);
  of.election.campaign("value", token...);

  of.semaphore_administration.create(1, {}, token...);
  of.semaphore_administration.close({.retry = false}, token...);
  of.semaphore_administration.evict("session", {}, token...);
  of.semaphore_administration.wait_until_drained(std::chrono::seconds(1), token...);
  of.semaphore_administration.wait_until_drained(std::chrono::seconds(1), {}, token...);
}

#pragma GCC diagnostic pop

struct any_results {
  void operator()(auto&&...) const {}
};

/// Any coroutine of Asio's awaits an operation without a token, whatever its executor.
template <class Executor>
asio::awaitable<void, Executor> await_some(one_of_each of) {
  holdfast::slot held = co_await of.semaphore.acquire();
  co_await held.release();
  co_await of.client.put("key", "value");
  co_await of.semaphore_administration.close();
}

#if BOOST_VERSION >= 108600
/// The newer tokens of doc/reference/compatibility.md.
[[maybe_unused]] void begin_with_newer_tokens(one_of_each of, asio::cancellation_slot cancelled,
                                              holdfast::error_code& ec) {
  begin_each(of, asio::cancel_after(std::chrono::seconds(1)));
  begin_each(of, asio::cancel_after(std::chrono::seconds(1), asio::use_awaitable));
  begin_each(of, asio::as_tuple);
  begin_each(of, asio::as_tuple(asio::use_future));
  begin_each(of, asio::bind_cancellation_slot(cancelled, asio::deferred));
  begin_each(of, asio::redirect_error(ec));
}
#endif

[[maybe_unused]] void begin_all(one_of_each of) {
  begin_each(of);
  begin_each(of, any_results());
  begin_each(of, holdfast::throwing);
  begin_each(of, asio::deferred);
  begin_each(of, asio::use_awaitable);
  begin_each(of, asio::as_tuple(asio::use_awaitable));
  begin_each(of, asio::use_future);
  begin_with_options(of);
  begin_with_options(of, any_results());
  static_cast<void>(await_some<asio::any_io_executor>(of));
  static_cast<void>(await_some<asio::io_context::executor_type>(of));
}

}  // namespace

BOOST_AUTO_TEST_CASE(nobody_names_a_default_to_reach_the_token) {
  BOOST_TEST(&begin_all != nullptr);  // that it compiles is the test
}

#if BOOST_VERSION >= 108600
ASYNC_TEST_CASE(an_acquire_is_cancelled_after_a_time, 10s) {
  const holdfast::testing::server fake;
  const holdfast::consul::client client(ex, fake.client_config());
  holdfast::semaphore sem(client, {.prefix = "tokens", .limit = 1});
  const holdfast::slot held = co_await sem.acquire();
  const auto [ec, none] = co_await sem.acquire(asio::cancel_after(std::chrono::milliseconds(1), asio::as_tuple));
  BOOST_TEST(ec == asio::error::operation_aborted);
  BOOST_TEST(!none.held());
}
#endif

BOOST_AUTO_TEST_SUITE_END()
