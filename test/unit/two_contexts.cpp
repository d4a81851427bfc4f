// SPDX-FileCopyrightText: The holdfast authors
// SPDX-License-Identifier: BSL-1.0

// A client on one context, and handlers on another. doc/reference/contexts.md says in which order two contexts may be
// destroyed.

#include <boost/asio/cancellation_signal.hpp>
#include <boost/test/data/test_case.hpp>
#include <boost/test/unit_test.hpp>

#include "support/async.hpp"
#include "support/every_operation.hpp"

BOOST_AUTO_TEST_SUITE(two_contexts)

namespace {

using namespace holdfast::test::every;
namespace test = holdfast::test;
using namespace std::chrono_literals;

/// Begins the operation, and calls `then` when the handler has been passed on to its context.
template <class Then>
void when_passed_on(const scene& of, Then then) {
  world w(of.on_consul);
  (w.*of.what.needs)();
  of.what.begin(w);
  w.run_until_passed_on();
  then(w);
}

namespace data = boost::unit_test::data;

}  // namespace

BOOST_DATA_TEST_CASE(the_context_of_the_client_goes_before_the_handler_runs, data::make(scenes(false)), of) {
  when_passed_on(of, [](world& w) {
    w.own.reset();
    BOOST_TEST(w.called == 0);
    w.app->run_for(test::scaled(60s));
    BOOST_TEST(w.called == 1);
  });
}

BOOST_DATA_TEST_CASE(and_the_operation_is_cancelled_after_that, data::make(scenes(false)), of) {
  when_passed_on(of, [](world& w) {
    w.own.reset();
    w.stop.emit(asio::cancellation_type::terminal);
    w.app->run_for(test::scaled(60s));
    BOOST_TEST(w.called == 1);
  });
}

BOOST_DATA_TEST_CASE(the_context_of_the_handler_goes_first, data::make(scenes(false)), of) {
  when_passed_on(of, [](world& w) {
    w.app.reset();
    BOOST_TEST(w.called == 0);
    w.own->poll();
    w.own.reset();
  });
}

BOOST_DATA_TEST_CASE(the_context_of_the_client_goes_while_the_operation_is_pending, data::make(scenes(true)), of) {
  world w(of.on_consul);
  (w.*of.what.needs)();
  of.what.begin(w);
  w.own.reset();
  w.stop.emit(asio::cancellation_type::terminal);
  w.app->poll();
  BOOST_TEST(w.called == 0);
}

BOOST_AUTO_TEST_SUITE_END()
