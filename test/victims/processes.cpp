// SPDX-FileCopyrightText: The holdfast authors
// SPDX-License-Identifier: BSL-1.0

// A parent for unit/processes.cpp to kill.

#include <boost/test/unit_test.hpp>
#include <chrono>
#include <iostream>
#include <thread>

#include "support/process.hpp"

BOOST_AUTO_TEST_SUITE(processes)

BOOST_AUTO_TEST_CASE(parent_waits_to_be_killed) {
  holdfast::test::process child({.command = {"sleep", "600"}});
  std::cout << "child " << child.pid() << std::endl;
  std::this_thread::sleep_for(std::chrono::minutes(5));
}

BOOST_AUTO_TEST_SUITE_END()
