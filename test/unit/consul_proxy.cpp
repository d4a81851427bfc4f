// SPDX-FileCopyrightText: The holdfast authors
// SPDX-License-Identifier: BSL-1.0

#include "consul/connections/proxy.hpp"

#include <boost/test/unit_test.hpp>
#include <holdfast/consul/client.hpp>

#include "support/async.hpp"
#include "support/scripted_server.hpp"

BOOST_AUTO_TEST_SUITE(consul_proxy)

namespace {

using namespace std::chrono_literals;
using namespace holdfast::consul::detail;
using holdfast::diagnostics;
using holdfast::error;
using holdfast::error_code;
using holdfast::consul::client;
using holdfast::consul::config;
using holdfast::consul::read_options;
using holdfast::test::pending;
using holdfast::test::scripted_server;
using entry_answer = holdfast::consul::answer<std::optional<holdfast::consul::kv_entry>>;

const std::string nothing_there = "HTTP/1.1 404 Not Found\r\nX-Consul-Index: 3\r\nContent-Length: 0\r\n\r\n";

bool is_excepted(std::string_view host, std::uint16_t port, std::string_view list) {
  agent_address to;
  to.host = host;
  to.port = port;
  return holdfast::consul::detail::is_excepted(to, list);
}

BOOST_AUTO_TEST_CASE(a_proxy_has_a_host_and_may_have_a_port_and_a_user) {
  proxy_address proxy;
  BOOST_TEST(!parse_proxy("http://user:p%40ss@proxy.example:3128/", proxy));
  BOOST_TEST(proxy.at.to_string() == "proxy.example:3128");
  BOOST_TEST(proxy.credentials == "Basic dXNlcjpwQHNz");
  BOOST_TEST(!parse_proxy("proxy.example", proxy));
  BOOST_TEST(proxy.at.to_string() == "proxy.example:80");
  BOOST_TEST(proxy.credentials == "");
  BOOST_TEST(!parse_proxy("http://user@[::1]", proxy));
  BOOST_TEST(proxy.at.to_string() == "[::1]:80");
  BOOST_TEST(proxy.credentials == "Basic dXNlcjo=");
  BOOST_TEST(parse_proxy("socks5://h", proxy) == error::unsupported_scheme);
  BOOST_TEST(parse_proxy("https://h", proxy) == error::unsupported_scheme);
  for (const char* text : {"", "http://", "http://h/path", "http://a%4@h", "http://a%zz@h", "http://h:0"}) {
    BOOST_TEST(parse_proxy(text, proxy) == error::invalid_address);
  }
}

BOOST_AUTO_TEST_CASE(who_is_excepted_is_told_as_go_reads_it) {
  BOOST_TEST(is_excepted("consul.example", 8500, "*"));
  BOOST_TEST(is_excepted("consul.example", 8500, "a, Consul.Example ,b"));
  BOOST_TEST(is_excepted("consul.example", 8500, "example"));
  BOOST_TEST(is_excepted("consul.example", 8500, ".example"));
  BOOST_TEST(is_excepted("consul.example", 8500, "*.example"));
  BOOST_TEST(is_excepted("consul.example", 8500, "consul.example:8500"));
  BOOST_TEST(is_excepted("10.1.2.3", 8500, "10.1.2.3"));
  BOOST_TEST(is_excepted("10.1.2.3", 8500, "10.0.0.0/8"));
  BOOST_TEST(is_excepted("2001:db8::7", 8500, "2001:db8::/32"));
  BOOST_TEST(is_excepted("2001:db8::7", 8500, "[2001:db8::7]:8500"));
  BOOST_TEST(is_excepted("2001:db8::7", 8500, "2001:0db8::7"));

  BOOST_TEST(is_excepted("consul.example.", 8500, "consul.example"));
  BOOST_TEST(is_excepted("consul.example.", 8500, ".example"));
  BOOST_TEST(is_excepted("consul.example.", 8500, "*.example."));
  BOOST_TEST(is_excepted("consul.example", 8500, "example."));
  BOOST_TEST(is_excepted("consul.example", 8500, "consul.example.:8500"));
  BOOST_TEST(is_excepted("fe80::1%eth0", 8500, "fe80::1"));
  BOOST_TEST(is_excepted("fe80::1%eth0", 8500, "[fe80::1%eth0]:8500"));
  BOOST_TEST(is_excepted("fe80::1%eth0", 8500, "fe80::/10"));
  BOOST_TEST(!is_excepted("consul.example.", 8500, "."));
  BOOST_TEST(!is_excepted("consul.example..", 8500, "consul.example"));

  BOOST_TEST(!is_excepted("consul.example", 8500, ""));
  BOOST_TEST(!is_excepted("consul.example", 8500, ",,"));
  BOOST_TEST(!is_excepted("consul.example", 8500, "consul.example:8501"));
  BOOST_TEST(!is_excepted("consul.example", 8500, ".consul.example"));
  BOOST_TEST(!is_excepted("consulexample", 8500, "example"));
  BOOST_TEST(!is_excepted("10.1.2.3", 8500, "11.0.0.0/8"));
  BOOST_TEST(!is_excepted("10.1.2.3", 8500, "0.1.2.3"));
  BOOST_TEST(!is_excepted("10.1.2.3", 8500, "2.3"));
  BOOST_TEST(!is_excepted("consul.example", 8500, "10.0.0.0/8"));
}

ASYNC_TEST_CASE(requests_to_a_plain_address_are_passed_on) {
  scripted_server proxy(ex);
  config settings;
  settings.address = "http://consul.example/below";
  settings.proxy = "http://user:word@" + proxy.address();
  client through(ex, settings);
  pending<entry_answer> get(ex, through.get("k"));
  auto [peer, request] = co_await proxy.accept_request();
  BOOST_TEST(
      request.starts_with("GET http://consul.example:8500/below/v1/kv/k HTTP/1.1\r\nHost: consul.example:8500\r\n"));
  BOOST_TEST(request.find("\r\nProxy-Authorization: Basic dXNlcjp3b3Jk\r\n") != std::string::npos);
  co_await peer.send(nothing_there);
  const error_code ended = co_await get.wait();
  BOOST_TEST(!ended);
}

ASYNC_TEST_CASE(a_request_does_not_say_the_zone_of_its_address) {
  scripted_server proxy(ex);
  config settings;
  settings.proxy = proxy.address();
  for (const std::string scheme : {"http", "https"}) {
    settings.address = scheme + "://[fe80::1%25eth0]:8500";
    client through(ex, settings);
    pending<entry_answer> get(ex, through.get("k"));
    auto [peer, request] = co_await proxy.accept_request();
    BOOST_TEST(request.find("[fe80::1]:8500") != std::string::npos);
    BOOST_TEST(request.find("\r\nHost: [fe80::1]:8500\r\n") != std::string::npos);
    BOOST_TEST(request.find("eth0") == std::string::npos);
    peer.close();
    through.close();
    co_await get.wait();
  }
}

ASYNC_TEST_CASE(a_tls_address_is_reached_by_a_tunnel_and_the_proxy_sees_no_more) {
  scripted_server proxy(ex);
  config settings;
  settings.address = "https://consul.example";
  settings.token = "s3cret";
  settings.proxy = proxy.address();
  client through(ex, settings);
  pending<entry_answer> get(ex, through.get("k"));
  auto [peer, request] = co_await proxy.accept_request();
  BOOST_TEST(request.starts_with("CONNECT consul.example:8501 HTTP/1.1\r\nHost: consul.example:8501\r\n"));
  BOOST_TEST(request.find("s3cret") == std::string::npos);
  co_await peer.send("HTTP/1.1 200 Connection established\r\nX-Via: p\r\n\r\n");
  const bool ended = co_await peer.closed_by_client();
  BOOST_TEST(!ended);  // the handshake begins
}

ASYNC_TEST_CASE(what_a_proxy_refuses_is_told_in_its_words) {
  scripted_server proxy(ex);
  config settings;
  settings.address = "https://consul.example";
  settings.proxy = proxy.address();
  client through(ex, settings);
  diagnostics why;
  read_options options;
  options.request.diag = &why;
  options.request.retry = false;
  pending<entry_answer> get(ex, through.get("k", options));
  auto [peer, request] = co_await proxy.accept_request();
  co_await peer.refuse(407, "who are you?");
  const error_code ended = co_await get.wait();
  BOOST_TEST(ended == error::unreachable);
  BOOST_TEST(why.message.find("consul.example:8501") != std::string::npos, why.message);
  BOOST_TEST(why.message.find("the proxy answered: HTTP/1.1 407") != std::string::npos, why.message);
}

ASYNC_TEST_CASE(a_proxy_that_is_not_there_is_named) {
  config settings;
  settings.address = "consul.example";
  {
    const scripted_server gone(ex);
    settings.proxy = gone.address();
  }
  client through(ex, settings);
  diagnostics why;
  read_options options;
  options.request.diag = &why;
  options.request.retry = false;
  auto [ec, ignored] = co_await through.get("k", options, holdfast::test::as_result);
  BOOST_TEST(ec == error::unreachable);
  BOOST_TEST(why.message.find("the proxy " + settings.proxy) != std::string::npos, why.message);
}

}  // namespace

BOOST_AUTO_TEST_SUITE_END()
