// SPDX-FileCopyrightText: The holdfast authors
// SPDX-License-Identifier: BSL-1.0

#include <boost/test/unit_test.hpp>
#include <iostream>
#include <sstream>
#include <string>

#include "cli/command_line.hpp"
#include "cli/operate.hpp"

BOOST_AUTO_TEST_SUITE(commands)

BOOST_AUTO_TEST_CASE(each_kind_is_a_command_of_the_program) {
  std::ostringstream described;
  std::streambuf* const before = std::cout.rdbuf(described.rdbuf());
  const int status = holdfast::cli::main({"describe"});
  std::cout.rdbuf(before);
  BOOST_TEST(status == 0);
  for (const auto each : holdfast::cli::operator_commands) {
    const std::string name(to_string(each));
    BOOST_TEST(described.str().find("\"name\":\"" + name + '"') != std::string::npos, "no command: " << name);
  }
}

BOOST_AUTO_TEST_CASE(what_needs_rabbitmq_fails_without_it) {
  for (const auto each : {holdfast::cli::operator_command::kind::grow, holdfast::cli::operator_command::kind::shrink,
                          holdfast::cli::operator_command::kind::wait}) {
    holdfast::cli::operator_command command;
    command.what = each;
    command.prefix = "p";
    BOOST_TEST(holdfast::cli::operate(command) == holdfast::cli::status_refused);
  }
}

BOOST_AUTO_TEST_SUITE_END()
