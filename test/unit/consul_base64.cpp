// SPDX-FileCopyrightText: The holdfast authors
// SPDX-License-Identifier: BSL-1.0

#include "consul/encoding/base64.hpp"

#include <boost/test/unit_test.hpp>

using holdfast::consul::detail::append_base64;
using holdfast::consul::detail::decode_base64;

namespace {

std::string encoded(std::string_view bytes) {
  std::string out;
  append_base64(out, bytes);
  return out;
}

}  // namespace

BOOST_AUTO_TEST_SUITE(consul_base64)

BOOST_AUTO_TEST_CASE(rfc_4648_vectors_both_ways) {
  constexpr std::pair<std::string_view, std::string_view> vectors[] = {{"", ""},
                                                                       {"f", "Zg=="},
                                                                       {"fo", "Zm8="},
                                                                       {"foo", "Zm9v"},
                                                                       {"foob", "Zm9vYg=="},
                                                                       {"fooba", "Zm9vYmE="},
                                                                       {"foobar", "Zm9vYmFy"}};
  for (const auto& [bytes, text] : vectors) {
    BOOST_TEST(encoded(bytes) == text);
    std::string decoded = "left over";
    BOOST_TEST(decode_base64(text, decoded));
    BOOST_TEST(decoded == bytes);
  }
}

BOOST_AUTO_TEST_CASE(all_bytes_survive_at_every_length) {
  std::string bytes;
  for (int i = 0; i < 600; ++i) {
    std::string decoded;
    BOOST_TEST_REQUIRE(decode_base64(encoded(bytes), decoded));
    BOOST_TEST_REQUIRE(decoded == bytes);
    bytes += static_cast<char>(i * 7);
  }
}

BOOST_AUTO_TEST_CASE(decoding_is_strict) {
  std::string out;
  for (const std::string_view text : {"Z", "Zg", "Zg=", "Zg===", "=", "==", "====", "Z===", "Zm9v=", "Z=9v", "Zm=v",
                                      "Zm9v\n", "Zm 9", "Zm-_", "Zg==Zg==", "Zh==", "Zm9=", "\xff\xff\xff\xff"}) {
    BOOST_TEST(!decode_base64(text, out), "accepted \"" << text << '"');
  }
  BOOST_TEST(!decode_base64(std::string_view("Zm\0v", 4), out));
  for (const std::string text : {"Zm9vYmFy", "Zm9vYmE=", "Zm9vYg=="}) {
    for (std::size_t i = 0; i < text.size(); ++i) {
      std::string damaged = text;
      damaged[i] = '-';
      BOOST_TEST(!decode_base64(damaged, out), "accepted " << damaged);
    }
  }
}

BOOST_AUTO_TEST_SUITE_END()
