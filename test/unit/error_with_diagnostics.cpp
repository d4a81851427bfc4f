// SPDX-FileCopyrightText: The holdfast authors
// SPDX-License-Identifier: BSL-1.0

// An operation that was begun without a completion token throws an exception with diagnostics.

#include <boost/asio/as_tuple.hpp>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/detached.hpp>
#include <boost/asio/experimental/parallel_group.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/this_coro.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <boost/test/unit_test.hpp>
#include <exception>
#include <functional>
#include <holdfast/holdfast.hpp>
#include <holdfast/testing/server.hpp>
#include <stdexcept>

#include "support/async.hpp"
#include "support/scripted_server.hpp"

BOOST_AUTO_TEST_SUITE(error_with_diagnostics)

namespace {

using namespace std::chrono_literals;
using holdfast::diagnostics;
using holdfast::error;
using holdfast::error_code;
using holdfast::test::as_result;
using holdfast::test::scripted_server;
namespace asio = boost::asio;

struct caught {
  error_code code{};
  std::string what{};
  diagnostics why{};
};

// Runs `body`, a coroutine, and returns the exception that it throws.
template <class Body>
asio::awaitable<caught> thrown_by(Body body) {
  caught result;
  try {
    co_await body();
  } catch (const holdfast::error_with_diagnostics& e) {
    result = {e.code(), e.what(), e.get_diagnostics()};
  }
  co_return result;
}

bool contains(const std::string& text, const std::string& part) { return text.find(part) != std::string::npos; }

// An address at which nobody listens, as long as this object exists.
class nobody {
public:
  explicit nobody(asio::any_io_executor ex) : gone_(std::move(ex)) { gone_.stop(); }
  holdfast::consul::config settings() const {
    holdfast::consul::config its;
    its.address = gone_.address();
    its.request_timeout = 100ms;
    return its;
  }

private:
  scripted_server gone_;
};

// Asks for this many slots of a semaphore with 100 slots, which an operator has reduced to 40.
asio::awaitable<caught> acquire_of(asio::any_io_executor ex, std::uint32_t count) {
  const holdfast::testing::server fake;
  holdfast::consul::client client(ex, fake.client_config());
  holdfast::semaphore sem(client, {.prefix = "a/b", .limit = 100});
  auto body = [&]() -> asio::awaitable<void> { co_await sem.acquire(count); };
  caught got = co_await thrown_by(body);
  co_return got;
}

}  // namespace

ASYNC_TEST_CASE(a_client_says_which_address_key_and_cause, 10s) {
  const nobody gone(ex);
  holdfast::consul::client client(ex, gone.settings());
  auto body = [&]() -> asio::awaitable<void> { co_await client.get("a/b"); };
  const caught got = co_await thrown_by(body);
  BOOST_TEST(got.code == error::unreachable);
  BOOST_TEST(contains(got.what, client.address()), got.what);
  BOOST_TEST(contains(got.what, "a/b"), got.what);
  BOOST_TEST(contains(got.what, "Connection refused"), got.what);
  BOOST_TEST(got.why.key == "a/b");
  BOOST_TEST(contains(got.what, got.why.to_string()), got.what);
}

ASYNC_TEST_CASE(every_kind_of_lock_says_which_key_and_cause, 60s) {
  const nobody gone(ex);
  holdfast::consul::client client(ex, gone.settings());
  const holdfast::tuning quick{.give_up_after = 200ms};
  holdfast::semaphore semaphore(client, {.prefix = "sem", .limit = 1, .tuning = quick});
  holdfast::mutex mutex(client, {.key = "mutex", .tuning = quick});
  holdfast::mutex_set set(client, {.prefix = "set", .tuning = quick});
  holdfast::election election(client, {.key = "election", .tuning = quick});
  holdfast::semaphore_administration administration(client, {.prefix = "sem", .timeout = 200ms});
  auto acquire = [&]() -> asio::awaitable<void> { co_await semaphore.acquire(); };
  auto try_acquire = [&]() -> asio::awaitable<void> { co_await semaphore.try_acquire(); };
  auto lock = [&]() -> asio::awaitable<void> { co_await mutex.lock(); };
  auto try_lock = [&]() -> asio::awaitable<void> { co_await set.try_lock("name"); };
  auto campaign = [&]() -> asio::awaitable<void> { co_await election.campaign("value"); };
  auto close = [&]() -> asio::awaitable<void> { co_await administration.close(); };
  auto inspect = [&]() -> asio::awaitable<void> { co_await administration.inspect(); };
  auto verify_it = [&]() -> asio::awaitable<void> {
    holdfast::sequencer claimed;
    claimed.key = "claimed";
    co_await verify(client, std::move(claimed));
  };
  using body = std::function<asio::awaitable<void>()>;
  const std::pair<const char*, body> all[] = {{"acquire", acquire},   {"try_acquire", try_acquire}, {"lock", lock},
                                              {"try_lock", try_lock}, {"campaign", campaign},       {"close", close},
                                              {"inspect", inspect},   {"verify", verify_it}};
  for (const auto& [name, each] : all) {
    const caught got = co_await thrown_by(each);
    BOOST_TEST(got.code, name);
    BOOST_TEST(contains(got.what, client.address()), name << ": " << got.what);
    BOOST_TEST(contains(got.what, "refused"), name << ": " << got.what);
  }
}

ASYNC_TEST_CASE(code_that_catches_a_system_error_goes_on_doing_so, 10s) {
  const nobody gone(ex);
  holdfast::consul::client client(ex, gone.settings());
  error_code seen;
  try {
    co_await client.put("a/b", "c");
  } catch (const holdfast::system_error& e) {
    seen = e.code();
  }
  BOOST_TEST(seen == error::unreachable);
}

ASYNC_TEST_CASE(a_named_token_gets_the_code, 10s) {
  const nobody gone(ex);
  holdfast::consul::client client(ex, gone.settings());
  error_code seen;
  try {
    co_await client.put("a/b", "c", asio::deferred);
  } catch (const holdfast::error_with_diagnostics&) {
    BOOST_ERROR("asio::deferred knows the code only");
  } catch (const holdfast::system_error& e) {
    seen = e.code();
  }
  BOOST_TEST(seen == error::unreachable);
  auto [ec, done] = co_await client.put("a/b", "c", as_result);
  BOOST_TEST(ec == error::unreachable);
  BOOST_TEST(!done);
}

ASYNC_TEST_CASE(diag_and_the_exception_say_the_same, 10s) {
  const nobody gone(ex);
  holdfast::consul::client client(ex, gone.settings());
  diagnostics why;
  holdfast::consul::request_options options;
  options.diag = &why;
  auto body = [&]() -> asio::awaitable<void> { co_await client.remove("a/b", options); };
  const caught got = co_await thrown_by(body);
  BOOST_TEST((got.why == why));
  BOOST_TEST(!why.message.empty());
}

ASYNC_TEST_CASE(a_handle_without_a_slot_says_only_the_code, 10s) {
  holdfast::slot empty;
  auto body = [&]() -> asio::awaitable<void> { co_await empty.release(); };
  const caught got = co_await thrown_by(body);
  BOOST_TEST(got.code == error::not_held);
  BOOST_TEST((got.why == diagnostics()));
  BOOST_TEST(contains(got.what, got.code.message()), got.what);
}

// By hand, an exception takes the place of the code.
ASYNC_TEST_CASE(a_group_gets_the_exception, 10s) {
  const nobody gone(ex);
  holdfast::consul::client client(ex, gone.settings());
  auto [order, failure, one, ec, two] =
      co_await asio::experimental::make_parallel_group(client.put("a", "b"), client.put("c", "d", asio::deferred))
          .async_wait(asio::experimental::wait_for_all(), asio::use_awaitable);
  BOOST_TEST(!!failure);
  BOOST_TEST(ec == error::unreachable);
}

ASYNC_TEST_CASE(more_slots_than_fit_one_request_are_named, 10s) {
  const caught got = co_await acquire_of(ex, 61);
  BOOST_TEST(got.code == error::too_many_slots);
  BOOST_TEST(contains(got.what, "60"), got.what);
  BOOST_TEST(contains(got.what, "61"), got.what);
  const caught over = co_await acquire_of(ex, 101);
  BOOST_TEST(over.code == error::too_many_slots);
  BOOST_TEST(contains(over.what, "101"), over.what);
}

namespace {

// The end of `with_slot` when the slot is lost while the body runs: its exception, and the text of the nested one.
struct lost_end {
  caught lost{};
  holdfast::loss_reason reason = holdfast::loss_reason::none;
  std::string nested{};
};

template <class Body>
asio::awaitable<lost_end> lose_in(asio::any_io_executor ex, Body body) {
  holdfast::testing::server fake;
  holdfast::consul::client client(ex, fake.client_config());
  holdfast::semaphore sem(client, {.prefix = "s", .limit = 1});
  lost_end end;
  const auto losing = [&](holdfast::slot& held) -> asio::awaitable<void> {
    fake.with([](auto& store, auto now) { store.write(holdfast::consul::txn_operation::remove_tree("s/"), now); });
    co_await body(held);
  };
  try {
    co_await with_slot(sem, losing);
  } catch (const holdfast::slot_lost_error& e) {
    end.lost = {e.code(), e.what(), e.get_diagnostics()};
    end.reason = e.reason();
    try {
      std::rethrow_if_nested(e);
    } catch (const std::exception& inner) {
      end.nested = inner.what();
    }
  }
  co_return end;
}

}  // namespace

ASYNC_TEST_CASE(with_slot_says_why_the_slot_was_lost, 20s) {
  const auto waits = [](holdfast::slot& held) -> asio::awaitable<void> {
    asio::steady_timer timer(co_await asio::this_coro::executor, 1min);
    co_await timer.async_wait(asio::use_awaitable);
    BOOST_TEST(held.valid());
  };
  const lost_end end = co_await lose_in(ex, waits);
  BOOST_TEST(end.lost.code == error::slot_lost);
  BOOST_TEST((end.reason != holdfast::loss_reason::none));
  BOOST_TEST(contains(end.lost.what, std::string(to_string(end.reason))), end.lost.what);
  BOOST_TEST(end.nested == "", "the cancellation that came with the loss");
}

ASYNC_TEST_CASE(with_slot_keeps_the_bodys_own_exception, 20s) {
  const auto fails = [](holdfast::slot& held) -> asio::awaitable<void> {
    co_await held.wait_lost(asio::use_awaitable);
    throw std::runtime_error("half of the work is done");
  };
  const lost_end end = co_await lose_in(ex, fails);
  BOOST_TEST(end.lost.code == error::slot_lost);
  BOOST_TEST(end.nested == "half of the work is done");
}

BOOST_AUTO_TEST_SUITE_END()
