// SPDX-FileCopyrightText: The holdfast authors
// SPDX-License-Identifier: BSL-1.0

// Which requests enter the limiter at once, and which wait.

#include <boost/asio/co_spawn.hpp>
#include <boost/asio/post.hpp>
#include <boost/test/unit_test.hpp>
#include <optional>

#include "consul/connections/limiter.hpp"
#include "support/async.hpp"
#include "support/participant.hpp"

using namespace holdfast::consul::detail;
using namespace holdfast::test;
using namespace std::chrono_literals;

namespace {

/// A request that asks to enter and, once inside, stays until it is told to leave.
struct visitor {
  bool back = false;  ///< `enter` has returned, with a permit or without
  std::optional<limiter::permit> permit{};

  bool inside() const { return permit && *permit; }
};

void ask(const strand_type& strand, limiter& g, visitor& v, std::size_t spare, clock::duration patience = 1h) {
  auto body = [](limiter& entrance, visitor& who, std::size_t lying_about, time_point deadline) -> awaitable<void> {
    limiter::permit permit = co_await entrance.enter(deadline, lying_about);
    who.permit.emplace(std::move(permit));
    who.back = true;
  };
  asio::co_spawn(strand, body(g, v, spare, clock::now() + patience), [](std::exception_ptr failure) {
    if (failure) std::rethrow_exception(failure);
  });
}

/// Long enough for everything that is ready to run.
asio::awaitable<void> settle() {
  const asio::any_io_executor ex = co_await asio::this_coro::executor;
  for (int i = 0; i < 20; ++i) co_await asio::post(ex, asio::use_awaitable);
}

asio::awaitable<void> until_back(const visitor& v) {
  while (!v.back) co_await pause(1ms);
}

}  // namespace

BOOST_AUTO_TEST_SUITE(consul_limiter)

ASYNC_TEST_CASE(who_finds_nothing_spare_waits_for_somebody_to_leave) {
  const strand_type strand(ex);
  limiter g(strand, 3, 10min);
  visitor first, second, third;
  ask(strand, g, first, 0);
  ask(strand, g, second, 0);
  co_await settle();
  BOOST_TEST(first.inside());
  BOOST_TEST(!second.back);
  BOOST_TEST(g.waiting() == 1u);
  first.permit.reset();
  ask(strand, g, third, 1);  // what the first left is promised to the second
  co_await settle();
  BOOST_TEST(second.inside());
  BOOST_TEST(!third.back);
  second.permit.reset();
  co_await settle();
  BOOST_TEST(third.inside());
}

ASYNC_TEST_CASE(who_finds_something_spare_goes_in_at_once) {
  const strand_type strand(ex);
  limiter g(strand, 3, 10min);
  visitor first, second, third;
  ask(strand, g, first, 0);
  ask(strand, g, second, 1);
  ask(strand, g, third, SIZE_MAX);
  co_await settle();
  BOOST_TEST(second.inside());
  BOOST_TEST(third.inside());
  BOOST_TEST(!g.is_open());
}

ASYNC_TEST_CASE(nobody_waits_longer_than_a_moment_while_it_is_open) {
  const strand_type strand(ex);
  limiter g(strand, 2, 1ms);
  visitor first, second, third, last;
  ask(strand, g, first, 0);
  ask(strand, g, second, 0);
  co_await until_back(second);
  BOOST_TEST(second.inside());
  ask(strand, g, third, 0);  // it is full: this is another wait
  ask(strand, g, last, 0, 20ms);
  co_await until_back(last);
  BOOST_TEST(!last.inside());
  BOOST_TEST(!third.back);
  first.permit.reset();
  co_await until_back(third);
  BOOST_TEST(third.inside());
}

ASYNC_TEST_CASE(whose_moment_ends_at_a_full_gate_waits_on_in_its_place) {
  const strand_type strand(ex);
  limiter g(strand, 2, 1ms);
  visitor first, second, third;
  ask(strand, g, first, 0);
  ask(strand, g, second, 0);
  ask(strand, g, third, SIZE_MAX);  // takes the last place while the second waits
  co_await pause(5ms);
  BOOST_TEST(third.inside());
  BOOST_TEST(!second.back);
  third.permit.reset();
  co_await until_back(second);
  BOOST_TEST(second.inside());
}

ASYNC_TEST_CASE(whose_deadline_is_first_may_go_in_first) {
  const strand_type strand(ex);
  limiter g(strand, 1, 1ms, limiter::order::deadline);
  visitor first, late, early, as_late;
  ask(strand, g, first, SIZE_MAX);
  ask(strand, g, late, SIZE_MAX, 2h);
  ask(strand, g, early, SIZE_MAX, 1h);
  ask(strand, g, as_late, SIZE_MAX, 2h);
  co_await settle();
  visitor* const turns[] = {&first, &early, &late, &as_late};
  for (visitor* const v : turns) {
    co_await settle();
    BOOST_TEST(v->inside());
    v->permit.reset();
  }
}

ASYNC_TEST_CASE(a_limit_may_change) {
  const strand_type strand(ex);
  limiter g(strand, 2);
  visitor first, second, third, fourth;
  for (visitor* const v : {&first, &second, &third, &fourth}) ask(strand, g, *v, SIZE_MAX);
  co_await settle();
  BOOST_TEST(g.inside() == 2u);
  g.set_limit(1);
  first.permit.reset();
  co_await settle();
  BOOST_TEST(g.inside() == 1u);
  BOOST_TEST(!third.back, "there was one too many");
  second.permit.reset();
  co_await settle();
  BOOST_TEST(third.inside());
  BOOST_TEST(!fourth.back);
  g.set_limit(2);
  co_await settle();
  BOOST_TEST(fourth.inside());
}

BOOST_AUTO_TEST_SUITE_END()
