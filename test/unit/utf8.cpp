// SPDX-FileCopyrightText: The holdfast authors
// SPDX-License-Identifier: BSL-1.0

#include "net/utf8.hpp"

#include <boost/test/unit_test.hpp>

BOOST_AUTO_TEST_SUITE(utf8)

namespace {

using holdfast::net::is_plain_text;
using holdfast::net::is_utf8;

BOOST_AUTO_TEST_CASE(characters_of_all_sizes_are_plain_text) {
  for (const char* const text : {"", " ~", "\u00a0\u00e9", "\u65e5", "\U0001f600", "\U0010ffff"}) {
    BOOST_TEST(is_utf8(text), text);
    BOOST_TEST(is_plain_text(text), text);
  }
}

BOOST_AUTO_TEST_CASE(other_bytes_are_neither) {
  // A lone byte, cut off characters, an overlong slash, a surrogate, and a number beyond Unicode.
  for (const char* const text :
       {"a\xff", "\x80", "a\xc3", "\xe2\x82", "\xc0\xaf", "\xed\xa0\x80", "\xf4\x90\x80\x80"}) {
    BOOST_TEST(!is_utf8(text));
    BOOST_TEST(!is_plain_text(text));
  }
}

BOOST_AUTO_TEST_CASE(control_characters_are_not_plain_text) {
  for (const std::string_view text :
       {std::string_view("\0", 1), std::string_view("a\nb"), std::string_view("\x1f"), std::string_view("\x7f"),
        std::string_view("\u0080"), std::string_view("a\u009f")}) {
    BOOST_TEST(is_utf8(text));
    BOOST_TEST(!is_plain_text(text));
  }
}

}  // namespace

BOOST_AUTO_TEST_SUITE_END()
