// SPDX-FileCopyrightText: The holdfast authors
// SPDX-License-Identifier: BSL-1.0

#include <boost/test/unit_test.hpp>
#include <chrono>
#include <cstdlib>
#include <functional>
#include <holdfast/error.hpp>
#include <holdfast/rabbitmq/config.hpp>
#include <string>
#include <utility>
#include <vector>

#include "rabbitmq/config_check.hpp"
#include "rabbitmq/login_source.hpp"
#include "support/temporary_folder.hpp"

BOOST_AUTO_TEST_SUITE(rabbitmq_config)

namespace {

using namespace holdfast;
using namespace std::chrono_literals;
using namespace std::string_literals;
using rabbitmq::config;
using rabbitmq::detail::broker_address;
using rabbitmq::detail::login_source;

struct refusal_of {
  error_code code{};
  std::string text{};
};

refusal_of refused(const std::function<void(config&)>& change) {
  config c;
  change(c);
  try {
    rabbitmq::detail::check(c);
  } catch (const system_error& e) {
    return {e.code(), e.what()};
  }
  return {};
}

std::string response(const config& c, const broker_address& to = {}) {
  return login_source(c).get(to, [](const std::string&) {}).response;
}

/// Sets AMQP_URL for as long as it lives.
class amqp_url {
public:
  explicit amqp_url(const char* value) {
    if (const char* const before = std::getenv("AMQP_URL")) before_ = before;
    ::setenv("AMQP_URL", value, 1);
  }
  ~amqp_url() { ::setenv("AMQP_URL", before_.c_str(), 1); }
  amqp_url(const amqp_url&) = delete;
  amqp_url& operator=(const amqp_url&) = delete;

private:
  std::string before_{};
};

}  // namespace

BOOST_AUTO_TEST_CASE(the_defaults_are_accepted) {
  const auto addresses = rabbitmq::detail::check(config());
  BOOST_REQUIRE(addresses.size() == 1);
  BOOST_TEST(addresses[0].to_string() == "amqp://localhost:5672");
}

BOOST_AUTO_TEST_CASE(several_addresses_replace_the_one) {
  config c;
  c.address = "nonsense://";
  c.addresses = {"amqp://a", "amqps://b/v"};
  const auto addresses = rabbitmq::detail::check(c);
  BOOST_REQUIRE(addresses.size() == 2);
  BOOST_TEST(addresses[1].to_string() == "amqps://b:5671/v");
}

BOOST_AUTO_TEST_CASE(each_rule_that_is_broken_is_named) {
  const std::pair<std::function<void(config&)>, std::string> all[] = {
      {[](config& c) { c.addresses.assign(17, "a"); }, "addresses"},
      {[](config& c) { c.user = std::string(256, 'u'); }, "user"},
      {[](config& c) { c.user = "a\0b"s; }, "user"},
      {[](config& c) { c.password = std::string(1025, 'p'); }, "password"},
      {[](config& c) { c.password = "a\0b"s; }, "password"},
      {[](config& c) { c.password = c.password_file = "p"; }, "password_file"},
      {[](config& c) { c.tls.key_file = "k"; }, "tls.certificate_file"},
      {[](config& c) { c.tls.server_name = ".a"; }, "tls.server_name"},
      {[](config& c) { c.request_timeout = 0ms; }, "request_timeout"},
      {[](config& c) { c.request_timeout = 10min + 1ms; }, "request_timeout"},
      {[](config& c) { c.connect_timeout = 0ms; }, "connect_timeout"},
      {[](config& c) { c.backoff_min = 0ms; }, "backoff_min"},
      {[](config& c) { c.backoff_max = 10min + 1ms; }, "backoff_max"},
      {[](config& c) { c.backoff_min = 2s; }, "backoff_min must not be over backoff_max"},
  };
  for (const auto& [change, name] : all) {
    const refusal_of its = refused(change);
    BOOST_TEST(its.code == error::invalid_option, name);
    BOOST_TEST(its.text.find(name) != std::string::npos, its.text);
  }
}

BOOST_AUTO_TEST_CASE(a_refused_address_is_named_without_its_text) {
  const refusal_of its = refused([](config& c) { c.addresses = {"a", "amqp://user:secret@a?x=y"}; });
  BOOST_TEST(its.code == error::invalid_address);
  BOOST_TEST(its.text.find("addresses[1]: query parameters") != std::string::npos, its.text);
  BOOST_TEST(its.text.find("secret") == std::string::npos);
}

BOOST_AUTO_TEST_CASE(the_environment_names_the_address) {
  const amqp_url set("amqp://u:p@host/v");
  BOOST_TEST(config::from_environment().address == "amqp://u:p@host/v");
}

BOOST_AUTO_TEST_CASE(an_empty_variable_counts_as_missing) {
  const amqp_url set("");
  BOOST_TEST(config::from_environment().address == config().address);
}

BOOST_AUTO_TEST_CASE(a_wrong_variable_is_refused_without_its_text) {
  const amqp_url set("http://user:secret@host");
  BOOST_CHECK_EXCEPTION(config::from_environment(), system_error, [](const system_error& e) {
    return e.code() == error::unsupported_scheme && std::string(e.what()).find("AMQP_URL") != std::string::npos &&
           std::string(e.what()).find("secret") == std::string::npos;
  });
}

BOOST_AUTO_TEST_CASE(without_any_login_it_is_that_of_guest) { BOOST_TEST(response(config()) == "\0guest\0guest"s); }

BOOST_AUTO_TEST_CASE(the_address_overrides_user_and_password) {
  config c;
  c.user = "a";
  c.password = "b";
  BOOST_TEST(response(c) == "\0a\0b"s);
  broker_address to;
  to.user = "c";
  BOOST_TEST(response(c, to) == "\0c\0b"s);
  to.password = "";
  BOOST_TEST(response(c, to) == "\0c\0"s);
}

BOOST_AUTO_TEST_CASE(a_certificate_logs_in_if_nothing_else_does) {
  config c;
  c.tls.certificate_file = c.tls.key_file = "c";
  broker_address to;
  to.is_tls = true;
  BOOST_TEST(login_source(c).get(to, [](const std::string&) {}).mechanism == "EXTERNAL");
  to.is_tls = false;
  BOOST_TEST(login_source(c).get(to, [](const std::string&) {}).mechanism == "PLAIN");
  c.user = "a";
  to.is_tls = true;
  BOOST_TEST(login_source(c).get(to, [](const std::string&) {}).mechanism == "PLAIN");
}

BOOST_AUTO_TEST_CASE(the_file_of_the_password_is_read_for_each_connection) {
  const test::temporary_folder folder;
  config c;
  c.user = "a";
  c.password_file = folder.path() + "/password";
  BOOST_CHECK_THROW(response(c), system_error);
  folder.write("password", " one\n");
  login_source source(c);
  std::vector<std::string> complaints;
  const auto next = [&] { return source.get({}, [&](std::string why) { complaints.push_back(std::move(why)); }); };
  BOOST_TEST(next().response == "\0a\0one"s);
  folder.write("password", "two");
  BOOST_TEST(next().response == "\0a\0two"s);
  folder.write("password", "\n");
  BOOST_TEST(next().response == "\0a\0two"s);
  next();
  BOOST_REQUIRE(complaints.size() == 1);
  BOOST_TEST(complaints[0].find("is empty") != std::string::npos, complaints[0]);
  BOOST_TEST(complaints[0].find("two") == std::string::npos);
}

BOOST_AUTO_TEST_CASE(a_password_is_hidden_in_texts_of_the_broker) {
  config c;
  c.password = "secret";
  BOOST_TEST(login_source(c).without_secrets("no secret, no secret", {}) == "no (hidden), no (hidden)");
}

BOOST_AUTO_TEST_SUITE_END()
