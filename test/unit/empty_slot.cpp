// SPDX-FileCopyrightText: The holdfast authors
// SPDX-License-Identifier: BSL-1.0

// The results of the functions of a handle without a slot.

#include <boost/asio/bind_executor.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/test/unit_test.hpp>
#include <holdfast/election.hpp>
#include <holdfast/mutex.hpp>
#include <holdfast/slot.hpp>

using holdfast::error_code;
namespace asio = boost::asio;

namespace {

/// The handler is ready as soon as the function is called. No other thread delivers it, and none holds its executor.
template <class Ask>
void check_answer(Ask ask) {
  asio::io_context io;
  error_code answer;
  const auto take = [&](error_code ec, const auto&...) { answer = ec; };
  ask(asio::bind_executor(io.get_executor(), take));
  BOOST_TEST(!answer);  // never inside of the call
  BOOST_TEST(io.poll() == 1u);
  BOOST_TEST(answer == make_error_code(holdfast::error::not_held));
}

}  // namespace

BOOST_AUTO_TEST_SUITE(empty_slot)

BOOST_AUTO_TEST_CASE(release) {
  check_answer([](auto handler) { holdfast::slot().release(handler); });
}
BOOST_AUTO_TEST_CASE(wait_lost) {
  check_answer([](auto handler) { holdfast::slot().wait_lost(handler); });
}
BOOST_AUTO_TEST_CASE(wait_revoked) {
  check_answer([](auto handler) { holdfast::slot().wait_revoked(handler); });
}
/// A slot of a semaphore has no sequencer, because it has no key of its own that others could verify.
template <class Held>
concept has_sequencer = requires(const Held& held) { holdfast::sequencer_of(held); };
static_assert(!has_sequencer<holdfast::slot> && has_sequencer<holdfast::held_mutex> &&
              has_sequencer<holdfast::leadership>);
static_assert(!std::is_constructible_v<holdfast::held_mutex, holdfast::slot>);
/// Every kind of slot is a hold. A hold has nothing of Consul.
static_assert(std::is_base_of_v<holdfast::hold, holdfast::slot> && std::is_move_constructible_v<holdfast::hold> &&
              !std::is_copy_constructible_v<holdfast::hold> && !std::is_polymorphic_v<holdfast::slot>);

BOOST_AUTO_TEST_CASE(sequencer) {
  check_answer([](auto handler) { holdfast::sequencer_of(holdfast::held_mutex(), handler); });
}
BOOST_AUTO_TEST_CASE(proclaim) {
  check_answer([](auto handler) { holdfast::leadership().proclaim("x", handler); });
}

BOOST_AUTO_TEST_SUITE_END()
