// SPDX-FileCopyrightText: The holdfast authors
// SPDX-License-Identifier: BSL-1.0

#include "net/secret_file.hpp"

#include <boost/test/unit_test.hpp>
#include <string>

#include "support/temporary_folder.hpp"

BOOST_AUTO_TEST_SUITE(secret_file)

namespace {

using holdfast::net::secret_in_file;
using holdfast::test::temporary_folder;

BOOST_AUTO_TEST_CASE(the_white_space_at_the_ends_is_left_out) {
  const temporary_folder folder;
  BOOST_TEST(secret_in_file(folder.write("line", "secret\n"), 100).value() == "secret");
  BOOST_TEST(secret_in_file(folder.write("around", " \t\r\n\v\fa secret \r\n"), 100).value() == "a secret");
  BOOST_TEST(secret_in_file(folder.write("nothing", " \n"), 100).value().empty());
  BOOST_TEST(secret_in_file(folder.write("empty", ""), 100).value().empty());
}

BOOST_AUTO_TEST_CASE(the_size_is_that_of_the_whole_file) {
  const temporary_folder folder;
  BOOST_TEST(secret_in_file(folder.write("most", "secret\n"), 7).value() == "secret");
  BOOST_TEST(!secret_in_file(folder.write("more", "secret \n"), 7));
}

BOOST_AUTO_TEST_CASE(a_file_that_cannot_be_read_has_no_secret) {
  const temporary_folder folder;
  BOOST_TEST(!secret_in_file(folder.path() + "/missing", 100));
  BOOST_TEST(!secret_in_file(folder.path(), 100));
}

}  // namespace

BOOST_AUTO_TEST_SUITE_END()
