// SPDX-FileCopyrightText: The holdfast authors
// SPDX-License-Identifier: BSL-1.0

#include "rabbitmq/address.hpp"

#include <boost/test/unit_test.hpp>
#include <string>

using holdfast::error;
using holdfast::error_code;
using holdfast::rabbitmq::detail::broker_address;
using holdfast::rabbitmq::detail::parse_address;

BOOST_AUTO_TEST_SUITE(rabbitmq_address)

namespace {

broker_address parsed(std::string_view text) {
  broker_address address;
  std::string_view cause;
  BOOST_TEST_CONTEXT("address \"" << text << '"') { BOOST_TEST(!parse_address(text, address, cause), cause); }
  return address;
}

void check_refused(std::string_view text, std::string_view part, error expected = error::invalid_address) {
  const broker_address untouched{{"untouched", 1}};
  broker_address address = untouched;
  std::string_view cause;
  BOOST_TEST_CONTEXT("address \"" << text << '"') {
    BOOST_TEST(parse_address(text, address, cause) == expected);
    BOOST_TEST((address == untouched));
    BOOST_TEST(cause.find(part) != std::string_view::npos, cause);
  }
}

}  // namespace

BOOST_AUTO_TEST_CASE(an_address_may_leave_out_what_has_a_default) {
  BOOST_TEST((parsed("broker.example") == broker_address{{"broker.example", 5672}}));
  BOOST_TEST((parsed("broker.example:1") == broker_address{{"broker.example", 1}}));
  BOOST_TEST((parsed("AMQP://host") == broker_address{{"host", 5672}}));
  BOOST_TEST((parsed("amqps://host") == broker_address{{"host", 5671}, true}));
  BOOST_TEST((parsed("amqp://") == broker_address{{"localhost", 5672}}));
  BOOST_TEST((parsed("amqp://:10000") == broker_address{{"localhost", 10000}}));
  BOOST_TEST((parsed("amqp://user@") == broker_address{{"localhost", 5672}, false, "user"}));
}

BOOST_AUTO_TEST_CASE(all_parts_may_be_percent_encoded) {
  const broker_address all{{"hoast", 10000}, false, "usera", "apass", "v/host"};
  BOOST_TEST((parsed("amqp://user%61:%61pass@ho%61st:10000/v%2fhost") == all));
  BOOST_TEST((parsed("amqp://u:p%40ss%3a%2F@h") == broker_address{{"h", 5672}, false, "u", "p@ss:/"}));
  BOOST_TEST(parsed("amqp://u:a:b@h").password.value() == "a:b");
}

BOOST_AUTO_TEST_CASE(an_empty_part_is_not_a_missing_one) {
  BOOST_TEST((parsed("amqp://:@/") == broker_address{{"localhost", 5672}, false, "", "", ""}));
  BOOST_TEST(!parsed("amqp://user@h").password);
  BOOST_TEST(!parsed("amqp://h").user);
}

BOOST_AUTO_TEST_CASE(a_virtual_host_is_what_stands_behind_the_slash) {
  BOOST_TEST(parsed("amqp://h").virtual_host == "/");
  BOOST_TEST(parsed("amqp://h/").virtual_host == "");
  BOOST_TEST(parsed("amqp://h/%2F").virtual_host == "/");
  BOOST_TEST(parsed("amqp:///vhost").virtual_host == "vhost");
  BOOST_TEST(parsed("amqp://h/%00").virtual_host == std::string(1, '\0'));
}

BOOST_AUTO_TEST_CASE(ipv6_needs_brackets) {
  BOOST_TEST((parsed("amqp://[::1]") == broker_address{{"::1", 5672}}));
  BOOST_TEST((parsed("amqps://u:p@[2001:db8::7]:9/v") == broker_address{{"2001:db8::7", 9}, true, "u", "p", "v"}));
  BOOST_TEST((parsed("[::1]:9") == broker_address{{"::1", 9}}));
  BOOST_TEST(parsed("amqp://[fe80::1%eth0]").host == "fe80::1%eth0");
  check_refused("amqp://::1", "host");
  check_refused("amqp://[::1", "host");
  check_refused("amqp://[localhost]", "host");
}

BOOST_AUTO_TEST_CASE(the_error_names_the_part_that_is_wrong) {
  check_refused("http://h", "scheme", error::unsupported_scheme);
  check_refused("://h", "scheme", error::unsupported_scheme);
  check_refused("", "without a scheme");
  check_refused("user@h", "without a scheme");
  check_refused("amqp://h:0", "port");
  check_refused("amqp://h:65536", "port");
  check_refused("amqp://h:", "port");
  check_refused("amqp://h ost", "host");
  check_refused("amqp://h%3A80", "host");
  check_refused("amqp://h%5B", "host");
  check_refused("amqp://h/a/b", "virtual host");
  check_refused("amqp://h/%2", "virtual host");
  check_refused("amqp://h/%zz", "virtual host");
  check_refused("amqp://h/" + std::string(256, 'v'), "virtual host");
  check_refused("amqp://u%@h", "user name");
  check_refused("amqp://" + std::string(256, 'u') + "@h", "user name");
  check_refused("amqp://u%00@h", "user name");
  check_refused("amqp://u:%4@h", "password");
  check_refused("amqp://u:%00@h", "password");
  check_refused("amqp://u:" + std::string(1025, 'p') + "@h", "password");
  check_refused("amqp://h/v?heartbeat=10", "query");
  check_refused("amqp://h#v", "fragment");
}

BOOST_AUTO_TEST_CASE(no_message_has_the_password) {
  for (const auto* each : {"amqp://user:secret@h:x", "amqp://user:secret@word@h", "amqp://user:secret%@h",
                           "amqp://user:secret/x@h", "amqp://user:sec ret@h", "http://user:secret@h"}) {
    broker_address address;
    std::string_view cause;
    BOOST_TEST(parse_address(each, address, cause).failed(), each);
    BOOST_TEST(cause.find("sec") == std::string_view::npos, cause);
  }
  BOOST_TEST(parsed("amqps://user:secret@h/v").to_string() == "amqps://h:5671/v");
}

BOOST_AUTO_TEST_CASE(a_written_address_is_the_same_one) {
  for (const auto* each : {"amqp://h:5672", "amqps://[::1]:1/a%2Fb", "amqp://h:5672/", "amqp://h:5672/%C3%AD"})
    BOOST_TEST(parsed(each).to_string() == each);
}

BOOST_AUTO_TEST_SUITE_END()
