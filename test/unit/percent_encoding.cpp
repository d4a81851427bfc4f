// SPDX-FileCopyrightText: The holdfast authors
// SPDX-License-Identifier: BSL-1.0

#include "net/percent_encoding.hpp"

#include <boost/test/unit_test.hpp>
#include <string>

BOOST_AUTO_TEST_SUITE(percent_encoding)

namespace {

using holdfast::net::append_encoded;
using holdfast::net::percent_decoded;

BOOST_AUTO_TEST_CASE(all_but_the_unreserved_characters_are_encoded) {
  std::string text = "before";
  append_encoded(text, "/x y\r\n\xff%+~-._9");
  BOOST_TEST(text == "before%2Fx%20y%0D%0A%FF%25%2B~-._9");
}

BOOST_AUTO_TEST_CASE(a_caller_may_keep_characters) {
  std::string text;
  append_encoded(text, "a/b?c", "/");
  BOOST_TEST(text == "a/b%3Fc");
}

BOOST_AUTO_TEST_CASE(digits_of_both_cases_are_decoded) {
  BOOST_TEST(percent_decoded("%2f%2F%61%C3%a9").value() == "//a\u00e9");
  BOOST_TEST(percent_decoded("%00").value() == std::string(1, '\0'));
  BOOST_TEST(percent_decoded("").value().empty());
}

BOOST_AUTO_TEST_CASE(other_characters_stand_for_themselves) {
  BOOST_TEST(percent_decoded("a+b /?\xff").value() == "a+b /?\xff");
  BOOST_TEST(percent_decoded("%2541").value() == "%41");  // decoded once
}

BOOST_AUTO_TEST_CASE(a_percent_sign_needs_two_digits) {
  for (const char* const text : {"%", "%4", "a%", "a%4", "%zz", "%4z", "%z4", "%-1", "%+1", "% 1", "%0x41", "%%41"})
    BOOST_TEST(!percent_decoded(text), text);
}

BOOST_AUTO_TEST_CASE(what_is_encoded_is_decoded_to_the_same_bytes) {
  std::string all;
  for (int byte = 0; byte < 256; ++byte) all += static_cast<char>(byte);
  std::string text;
  append_encoded(text, all);
  BOOST_TEST(percent_decoded(text).value() == all);
}

}  // namespace

BOOST_AUTO_TEST_SUITE_END()
