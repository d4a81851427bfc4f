// SPDX-FileCopyrightText: The holdfast authors
// SPDX-License-Identifier: BSL-1.0

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
  static constexpr const char* names[] = {"CONSUL_HTTP_ADDR",
                                          "CONSUL_HTTP_TOKEN",
                                          "CONSUL_DATACENTER",
                                          "CONSUL_HTTP_SSL",
                                          "CONSUL_HTTP_SSL_VERIFY",
                                          "CONSUL_CACERT",
                                          "CONSUL_CAPATH",
                                          "CONSUL_CLIENT_CERT",
                                          "CONSUL_CLIENT_KEY",
                                          "CONSUL_TLS_SERVER_NAME",
                                          "CONSUL_HTTP_TOKEN_FILE",
                                          "CONSUL_HTTP_AUTH",
                                          "CONSUL_NAMESPACE",
                                          "CONSUL_PARTITION",
                                          "HTTP_PROXY",
                                          "http_proxy",
                                          "HTTPS_PROXY",
                                          "https_proxy",
                                          "NO_PROXY",
                                          "no_proxy",
                                          "REQUEST_METHOD"};
  std::vector<std::string> saved_;
};

}  // namespace

BOOST_AUTO_TEST_SUITE(consul_config)

BOOST_AUTO_TEST_CASE(the_defaults_are_valid) {
  BOOST_TEST(holdfast::consul::detail::check(config()).front().to_string() == "127.0.0.1:8500");
}

// An agent accepts 200 connections from one address, and resets those above that. For renewals there is usually one
// connection.
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
  BOOST_TEST(check_of([](config& c) { c.address = "ftp://h"; }) == error::unsupported_scheme);
  BOOST_TEST(check_of([](config& c) { c.address = ""; }) == error::invalid_address);
}

BOOST_AUTO_TEST_CASE(the_environment_overrides_the_defaults) {
  environment env;
  BOOST_TEST(config::from_environment().address == config().address);
  env.set("CONSUL_HTTP_ADDR", "h:1");
  env.set("CONSUL_HTTP_TOKEN", "t");
  env.set("CONSUL_DATACENTER", "d");
  env.set("CONSUL_HTTP_TOKEN_FILE", "file");
  env.set("CONSUL_HTTP_AUTH", "user:password");
  env.set("CONSUL_NAMESPACE", "n");
  env.set("CONSUL_PARTITION", "p");
  const config c = config::from_environment();
  BOOST_TEST(c.token_file == "file");
  BOOST_TEST(c.http_auth == "user:password");
  BOOST_TEST(c.consul_namespace == "n");
  BOOST_TEST(c.partition == "p");
  BOOST_TEST(c.proxy == "");
  BOOST_TEST(c.address == "h:1");
  BOOST_TEST(c.token == "t");
  BOOST_TEST(c.datacenter == "d");
  env.set("CONSUL_HTTP_ADDR", "");
  BOOST_TEST(config::from_environment().address == config().address, "set but empty counts as not set");
}

BOOST_AUTO_TEST_CASE(an_address_has_the_scheme_and_the_port_that_consul_gives_it) {
  struct {
    const char* address;
    const char* ssl;
    const char* expected;
  } const rows[] = {
      {"", "", "127.0.0.1:8500"},
      {"", "true", "https://127.0.0.1:8500"},
      {"h", "", "h:80"},
      {"h", "1", "https://h:443"},
      {"h:1", "0", "h:1"},
      {"http://h:1/", "T", "https://h:1/"},
      {"http://h/below", "", "http://h:80/below"},
      {"https://[::1]/below", "", "https://[::1]:443/below"},
      {"https://h", "", "https://h:443"},
      {"https://h:1", "false", "https://h:1"},
      {"[::1]", "", "[::1]:80"},
      {"[::1]:1", "t", "https://[::1]:1"},
      {"unix:///run/consul.sock", "", "unix:///run/consul.sock"},
  };
  for (const auto& row : rows) {
    environment env;
    env.set("CONSUL_HTTP_ADDR", row.address);
    env.set("CONSUL_HTTP_SSL", row.ssl);
    BOOST_TEST(config::from_environment().address == row.expected);
  }
}

BOOST_AUTO_TEST_CASE(tls_is_what_the_environment_says) {
  environment env;
  BOOST_TEST(!config::from_environment().tls.insecure_skip_verify);
  env.set("CONSUL_CACERT", "ca");
  env.set("CONSUL_CAPATH", "path");
  env.set("CONSUL_CLIENT_CERT", "certificate");
  env.set("CONSUL_CLIENT_KEY", "key");
  env.set("CONSUL_TLS_SERVER_NAME", "name");
  env.set("CONSUL_HTTP_SSL_VERIFY", "false");
  const holdfast::tls_options tls = config::from_environment().tls;
  BOOST_TEST(tls.ca_file == "ca");
  BOOST_TEST(tls.ca_path == "path");
  BOOST_TEST(tls.certificate_file == "certificate");
  BOOST_TEST(tls.key_file == "key");
  BOOST_TEST(tls.server_name == "name");
  BOOST_TEST(tls.insecure_skip_verify);
}

// With no name OpenSSL verifies none, and a name that begins with a dot allows any subdomain.
BOOST_AUTO_TEST_CASE(a_server_name_is_a_name_or_an_address) {
  const auto of = [](const char* name) { return check_of([name](config& c) { c.tls.server_name = name; }); };
  for (const char* const bad : {".", "%x", ".x", "a..b", "a b", "*", "[::1", "a/b", "[a]"}) {
    BOOST_TEST(of(bad) == error::invalid_option, bad);
  }
  for (const char* const good : {"a", "a.", "server.dc1.consul", "127.0.0.1", "::1", "[::1]", "fe80::1%eth0"}) {
    BOOST_TEST(!of(good), good);
  }
}

BOOST_AUTO_TEST_CASE(a_server_name_has_no_port) {
  environment env;
  env.set("CONSUL_TLS_SERVER_NAME", "server.dc1.consul:8501");
  BOOST_TEST(config::from_environment().tls.server_name == "server.dc1.consul");
}

BOOST_AUTO_TEST_CASE(a_proxy_is_what_the_environment_says_for_the_address) {
  struct {
    const char* address;
    const char* excepted;
    const char* expected;
  } const rows[] = {
      {"h:8500", "", "plain:1"},
      {"https://h:8501", "", "http://secure:2"},
      {"h:8500", "g,h", ""},
      {"127.0.0.1:8500", "", ""},
      {"http://localhost:8500", "", ""},
      {"[::1]:8500", "", ""},
      {"unix:///run/consul.sock", "", ""},
      {"LocalHost.:8500", "", ""},
      {"h.:8500", "h", ""},
  };
  for (const auto& row : rows) {
    environment env;
    env.set("http_proxy", "plain:1");
    env.set("HTTPS_PROXY", "http://secure:2");
    env.set("https_proxy", "http://other:3");
    env.set("NO_PROXY", row.excepted);
    env.set("CONSUL_HTTP_ADDR", row.address);
    BOOST_TEST(config::from_environment().proxy == row.expected);
  }
  environment env;
  env.set("CONSUL_HTTP_ADDR", "h:8500");
  env.set("HTTP_PROXY", "plain:1");
  env.set("REQUEST_METHOD", "GET");
  BOOST_CHECK_EXCEPTION(config::from_environment(), holdfast::system_error,
                        [](const auto& e) { return e.code() == error::invalid_option; });
}

BOOST_AUTO_TEST_CASE(a_proxy_is_checked_and_its_password_is_not_told) {
  BOOST_TEST(!check_of([](config& c) { c.proxy = "http://user:password@h:1"; }));
  BOOST_TEST(check_of([](config& c) { c.proxy = "socks5://h"; }) == error::unsupported_scheme);
  config c;
  c.proxy = "http://user:password@h:0";
  BOOST_CHECK_EXCEPTION(holdfast::consul::detail::check(c), holdfast::system_error, [](const auto& e) {
    return e.code() == error::invalid_address && std::string(e.what()).find("password") == std::string::npos;
  });
}

BOOST_AUTO_TEST_CASE(a_flag_that_is_no_flag_is_refused_by_name) {
  for (const char* name : {"CONSUL_HTTP_SSL", "CONSUL_HTTP_SSL_VERIFY"}) {
    environment env;
    env.set(name, "yes");
    BOOST_CHECK_EXCEPTION(config::from_environment(), holdfast::system_error, [&](const holdfast::system_error& e) {
      return e.code() == error::invalid_option && std::string(e.what()).find(name) != std::string::npos;
    });
  }
}

BOOST_AUTO_TEST_SUITE_END()
