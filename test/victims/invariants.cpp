// SPDX-FileCopyrightText: The holdfast authors
// SPDX-License-Identifier: BSL-1.0

// A mistake that only an invariant notices, for unit/invariants.cpp.

#include <boost/test/unit_test.hpp>

#include "protocol/core/waiter_queue.hpp"

BOOST_AUTO_TEST_SUITE(invariants)

BOOST_AUTO_TEST_CASE(tickets_go_backwards) {
  holdfast::protocol::waiter_queue queue;
  for (const std::uint64_t number : {2, 1}) queue.push({.ticket = holdfast::protocol::ticket{number}});
  BOOST_TEST(queue.size() == 2u);
}

BOOST_AUTO_TEST_SUITE_END()
