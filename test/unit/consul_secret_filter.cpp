// SPDX-FileCopyrightText: The holdfast authors
// SPDX-License-Identifier: BSL-1.0

// Which parts of a text are hidden.

#include "consul/connections/secret_filter.hpp"

#include <boost/test/unit_test.hpp>

#include "consul/connections/proxy.hpp"

using namespace holdfast::consul::detail;

BOOST_AUTO_TEST_SUITE(consul_secret_filter)

BOOST_AUTO_TEST_CASE(the_token_is_hidden_wherever_it_stands) {
  const secret_filter filter;
  const std::string token = "abc";
  BOOST_TEST(filter.without_secrets("abc and abcabc", &token) == "(hidden) and (hidden)(hidden)");
  BOOST_TEST(filter.without_secrets("abc", nullptr) == "abc");
  const std::string none;
  BOOST_TEST(filter.without_secrets("abc", &none) == "abc");
}

BOOST_AUTO_TEST_CASE(a_secret_that_is_in_its_replacement_is_hidden_once) {
  const secret_filter filter;
  const std::string token = "hidden";
  BOOST_TEST(filter.without_secrets("hidden", &token) == "(hidden)");
}

BOOST_AUTO_TEST_CASE(a_login_is_hidden_in_all_its_forms) {
  secret_filter filter;
  filter.add_login("me:s3cret");
  const std::string sent = basic_credentials("me:s3cret");
  BOOST_TEST(filter.without_secrets("Authorization: " + sent, nullptr) == "Authorization: (hidden)");
  BOOST_TEST(filter.without_secrets(sent.substr(6) + "!", nullptr) == "(hidden)!");
  BOOST_TEST(filter.without_secrets("me:s3cret", nullptr) == "(hidden)");
  BOOST_TEST(filter.without_secrets("s3cret of me", nullptr) == "(hidden) of me");
}

BOOST_AUTO_TEST_CASE(several_logins_and_one_without_a_password) {
  secret_filter filter;
  filter.add_login("");
  filter.add_login("me:one");
  filter.add_login("you");
  filter.add_login("they:");
  BOOST_TEST(filter.without_secrets("one, you, they, they:", nullptr) == "(hidden), (hidden), they, (hidden)");
}

BOOST_AUTO_TEST_CASE(a_long_text_is_cut) {
  const secret_filter filter;
  const std::string token = "abc";
  const std::string text(secret_filter::scanned_max + 1, '-');
  BOOST_TEST(filter.without_secrets(text, &token) == text.substr(1));
}

BOOST_AUTO_TEST_SUITE_END()
