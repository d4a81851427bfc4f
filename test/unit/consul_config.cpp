#include "consul/config_check.hpp"

#include <boost/test/unit_test.hpp>
#include <cstdlib>
#include <functional>
#include <holdfast/consul/config.hpp>

using holdfast::error;
using holdfast::error_code;
using holdfast::consul::config;
using namespace std::chrono_literals;

namespace {

error_code check_of(const std::function<void(config&)>& change) {
  config c;
  change(c);
  try {
    holdfast::consul::detail::check(c);
    return {};
  } catch (const holdfast::system_error& e) {
    return e.code();
  }
}

template <class T>
void check_range(T config::*field, T least, T most) {
  BOOST_TEST(!check_of([&](config& c) { c.*field = least; }));
  BOOST_TEST(!check_of([&](config& c) { c.*field = most; }));
  BOOST_TEST(check_of([&](config& c) { c.*field = least - T{1}; }) == error::invalid_option);
  BOOST_TEST(check_of([&](config& c) { c.*field = most + T{1}; }) == error::invalid_option);
}

// Sets variables for as long as it lives; the tests of one program share the environment.
class environment {
public:
  environment() {
    for (const char* name : names) {
      const char* const value = std::getenv(name);
      saved_.emplace_back(value == nullptr ? std::string() : value);
      ::unsetenv(name);
    }
  }
  ~environment() {
    for (std::size_t i = 0; i < saved_.size(); ++i) {
      if (saved_[i].empty()) {
        ::unsetenv(names[i]);
      } else {
        ::setenv(names[i], saved_[i].c_str(), 1);
      }
    }
  }
  environment(const environment&) = delete;
  environment& operator=(const environment&) = delete;

  void set(const char* name, const char* value) { ::setenv(name, value, 1); }

private:
  static constexpr const char* names[] = {"CONSUL_HTTP_ADDR", "CONSUL_HTTP_TOKEN", "CONSUL_DATACENTER",
                                          "CONSUL_HTTP_SSL"};
  std::vector<std::string> saved_;
};

}  // namespace

BOOST_AUTO_TEST_SUITE(consul_config)

BOOST_AUTO_TEST_CASE(the_defaults_are_valid) {
  BOOST_TEST(holdfast::consul::detail::check(config()).to_string() == "127.0.0.1:8500");
}

// An agent accepts 200 connections from one address; those over it are reset. Of renewals' there is usually one.
BOOST_AUTO_TEST_CASE(five_processes_with_the_defaults_stay_below_what_an_agent_accepts) {
  const config c;
  BOOST_TEST(5 * (c.connections_max + 1 + c.blocking_max) < 200u);
  BOOST_TEST(c.connections_max + c.renewals_max + c.blocking_max < 100u);
}

BOOST_AUTO_TEST_CASE(each_range_is_checked_at_its_edges) {
  check_range(&config::request_timeout, 1ms, std::chrono::milliseconds(10min));
  check_range(&config::connect_timeout, 1ms, std::chrono::milliseconds(10min));
  check_range<std::size_t>(&config::connections_max, 1, 1000);
  check_range<std::size_t>(&config::renewals_max, 1, 1000);
  check_range<std::size_t>(&config::blocking_max, 1, 1000);
  check_range<std::size_t>(&config::queue_max, 1, 1'000'000);
  check_range<std::size_t>(&config::reply_bytes_max, 1024, std::size_t{1} << 30);
}

BOOST_AUTO_TEST_CASE(pauses_are_checked_together) {
  const auto with = [](std::chrono::milliseconds least, std::chrono::milliseconds most) {
    return check_of([&](config& c) {
      c.backoff_min = least;
      c.backoff_max = most;
    });
  };
  BOOST_TEST(!with(1ms, 1ms));
  BOOST_TEST(!with(1ms, 10min));
  BOOST_TEST(with(0ms, 1ms) == error::invalid_option);
  BOOST_TEST(with(2ms, 1ms) == error::invalid_option);
  BOOST_TEST(with(1ms, 10min + 1ms) == error::invalid_option);
}

BOOST_AUTO_TEST_CASE(a_token_cannot_smuggle_headers) {
  for (const std::string& token : {std::string("a\r\nX: y"), std::string("a b"), std::string("\x7f"),
                                   std::string("\xc3\xb6"), std::string("a\0b", 3)}) {
    BOOST_TEST(check_of([&](config& c) { c.token = token; }) == error::invalid_option);
  }
}

BOOST_AUTO_TEST_CASE(addresses_keep_their_own_errors) {
  BOOST_TEST(check_of([](config& c) { c.address = "https://h"; }) == error::unsupported_scheme);
  BOOST_TEST(check_of([](config& c) { c.address = ""; }) == error::invalid_address);
}

BOOST_AUTO_TEST_CASE(the_environment_overrides_the_defaults) {
  environment env;
  BOOST_TEST(config::from_environment().address == config().address);
  env.set("CONSUL_HTTP_ADDR", "h:1");
  env.set("CONSUL_HTTP_TOKEN", "t");
  env.set("CONSUL_DATACENTER", "d");
  const config c = config::from_environment();
  BOOST_TEST(c.address == "h:1");
  BOOST_TEST(c.token == "t");
  BOOST_TEST(c.datacenter == "d");
  env.set("CONSUL_HTTP_ADDR", "");
  BOOST_TEST(config::from_environment().address == config().address, "set but empty counts as not set");
}

BOOST_AUTO_TEST_CASE(who_asks_for_tls_does_not_get_plain_http) {
  environment env;
  env.set("CONSUL_HTTP_SSL", "true");
  BOOST_TEST(config::from_environment().address == "https://127.0.0.1:8500");
  env.set("CONSUL_HTTP_ADDR", "http://h:1");
  BOOST_TEST(config::from_environment().address == "https://h:1");
  env.set("CONSUL_HTTP_SSL", "false");
  BOOST_TEST(config::from_environment().address == "http://h:1");
}

BOOST_AUTO_TEST_SUITE_END()
