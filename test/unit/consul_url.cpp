// SPDX-FileCopyrightText: The holdfast authors
// SPDX-License-Identifier: BSL-1.0

#include "consul/encoding/url.hpp"

#include <boost/test/unit_test.hpp>

using holdfast::error;
using holdfast::consul::detail::agent_address;
using holdfast::consul::detail::append_encoded_key;
using holdfast::consul::detail::parse_address;
using holdfast::consul::detail::scheme;

BOOST_AUTO_TEST_SUITE(consul_url)

namespace {

std::string parsed(std::string_view text) {
  agent_address a;
  const auto ec = parse_address(text, a);
  return ec ? ec.message() : a.to_string();
}

void check_error(std::string_view text, error expected) {
  agent_address a{{"untouched", 1}};
  BOOST_TEST_CONTEXT("address \"" << text << '"') {
    BOOST_TEST(parse_address(text, a) == expected);
    BOOST_TEST(a.host == "untouched");
  }
}

}  // namespace

BOOST_AUTO_TEST_CASE(an_address_may_leave_out_what_has_a_default) {
  BOOST_TEST(parsed("localhost") == "localhost:8500");
  BOOST_TEST(parsed("127.0.0.1:1") == "127.0.0.1:1");
  BOOST_TEST(parsed("http://consul.example:65535") == "consul.example:65535");
  BOOST_TEST(parsed("HTTP://consul_1.example-x/") == "consul_1.example-x:8500");
}

BOOST_AUTO_TEST_CASE(a_path_is_what_requests_stand_below) {
  agent_address a;
  BOOST_TEST(!parse_address("https://h:1/consul/dc%201//", a));
  BOOST_TEST(a.path == "/consul/dc%201");
  BOOST_TEST(a.authority() == "h:1");
  BOOST_TEST(parsed("http://[::1]/x") == "[::1]:8500/x");
  BOOST_TEST(parsed("http://host:1//") == "host:1");
  check_error("http://h/" + std::string(1024, 'x'), error::invalid_address);
}

BOOST_AUTO_TEST_CASE(ipv6_needs_brackets) {
  BOOST_TEST(parsed("[::1]:8501") == "[::1]:8501");
  BOOST_TEST(parsed("http://[2001:db8::7]/") == "[2001:db8::7]:8500");
  agent_address a;
  BOOST_TEST(!parse_address("[::1]", a));
  BOOST_TEST(a.host == "::1");
  check_error("::1", error::invalid_address);
  check_error("[::1", error::invalid_address);
  check_error("[]", error::invalid_address);
  check_error("[localhost]", error::invalid_address);
  check_error("[::1]8500", error::invalid_address);
  check_error("[::1]:", error::invalid_address);
}

BOOST_AUTO_TEST_CASE(a_zone_is_no_place_for_anything) {
  BOOST_TEST(parsed("[fe80::1%eth0.1]:8501") == "[fe80::1%eth0.1]:8501");
  BOOST_TEST(parsed("http://[fe80::1%25eth0]:8501") == "[fe80::1%eth0]:8501");
  BOOST_TEST(parsed("[fe80::1%2525]") == "[fe80::1%25]:8500");
  BOOST_TEST(parsed("[fe80::1%25]") == "[fe80::1%25]:8500");
  check_error("[fe80::1%]", error::invalid_address);
  check_error("[fe80::1%eth0\r\nX-Other: 1]", error::invalid_address);
  check_error("[fe80::1%eth 0]", error::invalid_address);
  check_error(std::string_view("[::1\0x]", 7), error::invalid_address);
  check_error("[fe80::1%" + std::string(253, 'e') + ']', error::invalid_address);
}

BOOST_AUTO_TEST_CASE(a_request_does_not_say_the_zone) {
  agent_address a;
  BOOST_TEST(!parse_address("[fe80::1%eth0]:8501", a));
  BOOST_TEST(a.authority_without_zone() == "[fe80::1]:8501");
  BOOST_TEST(!parse_address("consul.example", a));
  BOOST_TEST(a.authority_without_zone() == "consul.example:8500");
  BOOST_TEST(!parse_address("unix:///run/a%b", a));
  BOOST_TEST(a.authority_without_zone() == "localhost");
}

BOOST_AUTO_TEST_CASE(a_scheme_has_its_default_port) {
  BOOST_TEST(parsed("https://consul.example") == "consul.example:8501");
  BOOST_TEST(parsed("HTTPS://[::1]:443/") == "[::1]:443");
  agent_address a;
  BOOST_TEST(!parse_address("https://h", a));
  BOOST_TEST((a.scheme == scheme::https));
}

BOOST_AUTO_TEST_CASE(a_unix_socket_has_a_path) {
  agent_address a;
  BOOST_TEST(!parse_address("unix:///run/consul.sock", a));
  BOOST_TEST(a.host == "/run/consul.sock");
  BOOST_TEST(a.authority() == "localhost");
  BOOST_TEST(parsed("unix:///run/consul.sock") == "unix:///run/consul.sock");
  BOOST_TEST(parsed("unix://relative.sock") == "unix://relative.sock");
  check_error("unix://", error::invalid_address);
  check_error("unix:///" + std::string(107, 'x'), error::invalid_address);
  check_error(std::string_view("unix:///a\0b", 11), error::invalid_address);
  check_error("unix:///a\nb", error::invalid_address);
}

BOOST_AUTO_TEST_CASE(other_schemes_are_refused_by_name) {
  check_error("://localhost", error::unsupported_scheme);
  check_error("httpx://localhost", error::unsupported_scheme);
}

BOOST_AUTO_TEST_CASE(what_is_not_an_address_is_refused) {
  for (const std::string_view text : {"",
                                      "http://",
                                      "/",
                                      ":8500",
                                      "host:",
                                      "host:0",
                                      "host:65536",
                                      "host:-1",
                                      "host:8500x",
                                      "host:80:80",
                                      "host/",
                                      "http://host/v1?x",
                                      "http://host/a b",
                                      "http://host/a#b",
                                      "http://host/a\r\nX: y",
                                      "user@host",
                                      "ho st",
                                      "host\r\nX: y",
                                      "host?x",
                                      "h\xc3\xb6st"}) {
    check_error(text, error::invalid_address);
  }
  check_error(std::string(254, 'a'), error::invalid_address);
}

BOOST_AUTO_TEST_CASE(keys_keep_their_slashes) {
  std::string key;
  append_encoded_key(key, "a/b c?&=#%+\r\n\xff~-._9");
  BOOST_TEST(key == "a/b%20c%3F%26%3D%23%25%2B%0D%0A%FF~-._9");
}

BOOST_AUTO_TEST_CASE(the_name_of_a_certificate_is_a_name_or_an_address) {
  using holdfast::net::certificate_name;
  BOOST_TEST(certificate_name("server.dc1.consul.") == "server.dc1.consul");
  BOOST_TEST(certificate_name("[::1]") == "::1");
  BOOST_TEST(certificate_name("fe80::1%eth0") == "fe80::1");
  BOOST_TEST(certificate_name("127.0.0.1") == "127.0.0.1");
  for (const char* const none : {"", ".", "%x", ".x", "..", "[]", "[a]"})
    BOOST_TEST(certificate_name(none) == "", none);
}

BOOST_AUTO_TEST_SUITE_END()
