// SPDX-FileCopyrightText: The holdfast authors
// SPDX-License-Identifier: BSL-1.0

// TLS against correct and against hostile servers: each fault has its error, and nothing is sent before the certificate
// is verified.

#include <openssl/ssl.h>

#include <boost/asio/experimental/awaitable_operators.hpp>
#include <boost/asio/ssl/context.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/test/unit_test.hpp>
#include <filesystem>
#include <fstream>
#include <holdfast/consul/client.hpp>

#include "support/async.hpp"
#include "support/secure_server.hpp"
#include "support/temporary_folder.hpp"

BOOST_AUTO_TEST_SUITE(consul_tls)

namespace {

using namespace std::chrono_literals;
using holdfast::condition;
using holdfast::diagnostics;
using holdfast::error;
using holdfast::error_code;
using holdfast::system_error;
using holdfast::consul::client;
using holdfast::consul::config;
using holdfast::test::as_result;
using holdfast::test::authority;
using holdfast::test::identity;
using holdfast::test::secure_server;
using holdfast::test::secure_server_options;
using holdfast::test::temporary_folder;
using manner = secure_server_options::manner;
namespace asio = boost::asio;
using namespace asio::experimental::awaitable_operators;
namespace fs = std::filesystem;

// An authority that clients trust, and a server whose certificate it has signed.
struct secured {
  explicit secured(asio::any_io_executor ex, std::vector<std::string> names = {"127.0.0.1"})
      : server(std::make_shared<secure_server>(ex, secure_server_options{ca.issue({std::move(names)})})) {
    server->start();
  }
  ~secured() { server->stop(); }

  config settings() const {
    config its;
    its.address = server->url();
    its.tls.ca_file = ca_file;
    its.token = "secret-token";
    its.connect_timeout = 10s;
    return its;
  }

  temporary_folder files;
  authority ca;
  std::string ca_file = files.write("ca.pem", ca.certificate());
  std::shared_ptr<secure_server> server;
};

struct outcome {
  error_code error;
  std::string words;
};

asio::awaitable<outcome> ask(client& through) {
  diagnostics why;
  holdfast::consul::read_options once;
  once.request.retry = false;
  once.request.diag = &why;
  auto [ec, answer] = co_await through.get("secret-key", once, as_result);
  co_return outcome{ec, why.message};
}

asio::awaitable<outcome> ask(asio::any_io_executor ex, config settings) {
  client through(ex, std::move(settings));
  outcome result = co_await ask(through);
  co_return result;
}

bool contains(const std::string& text, const std::string& part) { return text.find(part) != std::string::npos; }

std::string refusal_of(const config& settings) {
  asio::io_context io;
  try {
    const client made(io, settings);
  } catch (const system_error& e) {
    BOOST_TEST(e.code() == error::invalid_option);
    return e.what();
  }
  return {};
}

ASYNC_TEST_CASE(an_agent_with_a_good_certificate_is_spoken_to, 30s) {
  const secured with(ex);
  outcome got = co_await ask(ex, with.settings());
  BOOST_TEST(!got.error, got.words);
  BOOST_TEST_REQUIRE(with.server->requests.size() == 1u);
  BOOST_TEST(contains(with.server->requests.front(), "X-Consul-Token: secret-token"));
}

ASYNC_TEST_CASE(the_name_is_sent_and_has_to_be_the_certificates, 30s) {
  const secured with(ex, {"localhost", "*.consul.example"});
  config settings = with.settings();
  settings.address = with.server->url("localhost");
  outcome by_host = co_await ask(ex, settings);
  BOOST_TEST(!by_host.error, by_host.words);
  settings.tls.server_name = "server.consul.example";
  outcome by_option = co_await ask(ex, settings);
  BOOST_TEST(!by_option.error, by_option.words);
  const std::vector<std::string> sent{"localhost", "server.consul.example"};
  BOOST_TEST(with.server->names == sent, boost::test_tools::per_element());
}

ASYNC_TEST_CASE(a_certificate_for_another_host_is_refused_with_both_names, 30s) {
  const secured with(ex, {"other.example", "10.0.0.1"});
  outcome got = co_await ask(ex, with.settings());
  BOOST_TEST(got.error == error::certificate_refused);
  BOOST_TEST((got.error == condition::not_applied));
  BOOST_TEST((got.error != condition::unavailable));
  const std::string expected = "get: not sent: the certificate of " + with.server->url().substr(8) +
                               " is not accepted: IP address mismatch; expected: 127.0.0.1; the certificate is for: "
                               "other.example, 10.0.0.1; tls.ca_file: " +
                               with.ca_file;
  BOOST_TEST(got.words == expected);
  BOOST_TEST(with.server->requests.empty());
}

ASYNC_TEST_CASE(what_is_not_valid_or_not_trusted_is_refused, 60s) {
  const secured with(ex);
  const authority stranger;
  const std::vector<std::string> names{"127.0.0.1"};
  const std::pair<identity, std::string> bad[] = {
      {with.ca.issue({names, -2h, -1h}), "certificate has expired"},
      {with.ca.issue({names, 1h, 2h}), "certificate is not yet valid"},
      {stranger.issue({names}), "unable to get local issuer certificate"},
      {authority::self_signed({names}), "self-signed certificate"},
      {with.ca.issue({}), "IP address mismatch"},
  };
  for (const auto& [own, words] : bad) {
    with.server->change({own});
    outcome got = co_await ask(ex, with.settings());
    BOOST_TEST(got.error == error::certificate_refused, words << ": " << got.error.message());
    BOOST_TEST(contains(got.words, words), got.words);
  }
  BOOST_TEST(with.server->requests.empty());
}

ASYNC_TEST_CASE(the_systems_authorities_do_not_know_a_tests, 30s) {
  const secured with(ex);
  config settings = with.settings();
  settings.tls.ca_file.clear();
  outcome got = co_await ask(ex, settings);
  BOOST_TEST(got.error == error::certificate_refused);
  BOOST_TEST(contains(got.words, "by the system's certificate authorities"), got.words);
}

ASYNC_TEST_CASE(an_old_version_of_tls_is_not_spoken, 30s) {
  const secured with(ex);
  with.server->change({.own = with.ca.issue({{"127.0.0.1"}}), .version_max = TLS1_1_VERSION});
  outcome got = co_await ask(ex, with.settings());
  BOOST_TEST(got.error == error::unreachable);
  BOOST_TEST(contains(got.words, "protocol"), got.words);
  BOOST_TEST(with.server->requests.empty());
}

ASYNC_TEST_CASE(version_1_2_is_spoken_and_resumed, 30s) {
  const secured with(ex);
  with.server->change({.own = with.ca.issue({{"127.0.0.1"}}), .version_max = TLS1_2_VERSION, .keeps_open = false});
  client through(ex, with.settings());
  for (int i = 0; i < 2; ++i) {
    outcome got = co_await ask(through);
    BOOST_TEST(!got.error, got.words);
  }
  BOOST_TEST(with.server->resumed == 1);
}

ASYNC_TEST_CASE(who_speaks_no_tls_is_sent_nothing, 30s) {
  const secured with(ex);
  with.server->change({.does = manner::is_plain});
  outcome got = co_await ask(ex, with.settings());
  BOOST_TEST(got.error == error::unreachable);
  BOOST_TEST(contains(got.words, "wrong version number"), got.words);
}

ASYNC_TEST_CASE(a_handshake_that_gets_no_answer_ends_with_the_connect_timeout, 30s) {
  const secured with(ex);
  with.server->change({.does = manner::is_silent});
  config settings = with.settings();
  settings.connect_timeout = 50ms;
  outcome got = co_await ask(ex, settings);
  BOOST_TEST(got.error == error::unreachable);
  BOOST_TEST(contains(got.words, "timed out"), got.words);
}

ASYNC_TEST_CASE(a_handshake_and_a_read_end_when_they_are_cancelled, 30s) {
  const secured with(ex);
  for (const manner does : {manner::is_silent, manner::never_replies}) {
    with.server->change({.own = with.ca.issue({{"127.0.0.1"}}), .does = does});
    client through(ex, with.settings());
    asio::steady_timer soon(ex, 20ms);
    auto ended = co_await (soon.async_wait(as_result) || through.get("k", as_result));
    BOOST_TEST(ended.index() == 0u);
  }
}

ASYNC_TEST_CASE(a_body_does_not_end_with_a_connection_that_breaks, 30s) {
  const secured with(ex);
  with.server->change({.own = with.ca.issue({{"127.0.0.1"}}), .does = manner::truncates});
  outcome got = co_await ask(ex, with.settings());
  BOOST_TEST(got.error == error::connection_lost);
}

ASYNC_TEST_CASE(an_agent_that_wants_our_certificate_says_so, 60s) {
  const secured with(ex);
  const identity ours = with.ca.issue({{"client.example"}});
  const identity foreign = authority().issue({{"client.example"}});
  for (const int version : {TLS1_2_VERSION, TLS1_3_VERSION}) {
    with.server->change(
        {.own = with.ca.issue({{"127.0.0.1"}}), .clients = with.ca.certificate(), .version_max = version});
    const std::size_t before = with.server->requests.size();
    outcome without = co_await ask(ex, with.settings());
    // The message of OpenSSL's own alert in TLS 1.2 is "handshake failure"; Consul's is not.
    BOOST_TEST(without.error == (version == TLS1_2_VERSION ? error::unreachable : error::client_certificate_refused),
               without.words);
    config settings = with.settings();
    settings.tls.certificate_file = with.files.write("foreign.pem", foreign.certificate);
    settings.tls.key_file = with.files.write("foreign.key", foreign.key);
    outcome with_another = co_await ask(ex, settings);
    BOOST_TEST(with_another.error == error::client_certificate_refused, with_another.words);
    BOOST_TEST(with.server->requests.size() == before);
    settings.tls.certificate_file = with.files.write("ours.pem", ours.certificate);
    settings.tls.key_file = with.files.write("ours.key", ours.key);
    outcome with_ours = co_await ask(ex, settings);
    BOOST_TEST(!with_ours.error, with_ours.words);
  }
}

ASYNC_TEST_CASE(the_next_connection_resumes, 30s) {
  const secured with(ex);
  with.server->change({.own = with.ca.issue({{"127.0.0.1"}}), .keeps_open = false});
  client through(ex, with.settings());
  for (int i = 0; i < 4; ++i) {
    outcome got = co_await ask(through);
    BOOST_TEST(!got.error, got.words);
  }
  BOOST_TEST(with.server->handshakes == 4);
  BOOST_TEST(with.server->resumed == 3);
}

ASYNC_TEST_CASE(certificates_that_change_on_disk_are_taken_up, 30s) {
  const secured with(ex);
  const authority next;
  with.server->change({.own = with.ca.issue({{"127.0.0.1"}}), .keeps_open = false});
  std::vector<std::string> log;
  config settings = with.settings();
  settings.log = [&log](const holdfast::log_event& event) { log.push_back(event.text()); };
  client through(ex, settings);
  outcome before = co_await ask(through);
  BOOST_TEST(!before.error, before.words);
  with.files.write("ca.pem", "half a file");
  outcome meanwhile = co_await ask(through);
  BOOST_TEST(!meanwhile.error, meanwhile.words);
  outcome again = co_await ask(through);
  BOOST_TEST(!again.error, again.words);
  BOOST_TEST(log.size() == 1u, "what cannot be used is told once");
  with.server->change({.own = next.issue({{"127.0.0.1"}}), .keeps_open = false});
  with.files.write("ca.pem", next.certificate());
  const int resumed = with.server->resumed;
  outcome after = co_await ask(through);
  BOOST_TEST(!after.error, after.words);
  BOOST_TEST(with.server->resumed == resumed, "no session outlives what it was verified by");
}

ASYNC_TEST_CASE(a_folder_of_authorities_is_read_whatever_the_files_are_called, 30s) {
  const secured with(ex);
  const temporary_folder authorities;
  authorities.write("b/c/any name", with.ca.certificate());
  authorities.write("a.txt", authority().certificate());
  config settings = with.settings();
  settings.tls.ca_file.clear();
  settings.tls.ca_path = authorities.path();
  outcome got = co_await ask(ex, settings);
  BOOST_TEST(!got.error, got.words);
}

ASYNC_TEST_CASE(whoever_verifies_nothing_is_told_so_once, 30s) {
  const secured with(ex, {"other.example"});
  with.server->change({.own = with.ca.issue({{"other.example"}}), .keeps_open = false});
  std::vector<std::string> log;
  config settings = with.settings();
  settings.tls.insecure_skip_verify = true;
  settings.log = [&log](const holdfast::log_event& event) { log.push_back(event.text()); };
  client through(ex, settings);
  for (int i = 0; i < 2; ++i) {
    outcome got = co_await ask(through);
    BOOST_TEST(!got.error, got.words);
  }
  BOOST_TEST_REQUIRE(log.size() == 1u);
  BOOST_TEST(log.front().starts_with("tls.insecure_skip_verify: "));
}

ASYNC_TEST_CASE(a_context_of_the_applications_own_is_used_and_names_are_verified, 30s) {
  const secured with(ex, {"other.example"});
  config settings = with.settings();
  settings.tls = {};
  settings.tls.context = std::make_shared<asio::ssl::context>(asio::ssl::context::tls_client);
  settings.tls.context->add_certificate_authority(asio::buffer(with.ca.certificate()));
  outcome wrong = co_await ask(ex, settings);
  BOOST_TEST(wrong.error == error::certificate_refused, wrong.words);
  settings.tls.server_name = "other.example";
  outcome right = co_await ask(ex, settings);
  BOOST_TEST(!right.error, right.words);
}

// The application's context may allow versions that this library does not speak. A version that it forbids stays
// forbidden.
ASYNC_TEST_CASE(a_context_of_the_applications_own_speaks_1_2_at_least, 30s) {
  const secured with(ex);
  config settings = with.settings();
  settings.tls = {};
  settings.tls.context = std::make_shared<asio::ssl::context>(asio::ssl::context::tls_client);
  settings.tls.context->add_certificate_authority(asio::buffer(with.ca.certificate()));
  SSL_CTX* const native = settings.tls.context->native_handle();
  SSL_CTX_set_security_level(native, 0);
  SSL_CTX_set_min_proto_version(native, TLS1_VERSION);
  with.server->change({.own = with.ca.issue({{"127.0.0.1"}}), .version_max = TLS1_1_VERSION});
  outcome old = co_await ask(ex, settings);
  BOOST_TEST(old.error == error::unreachable, old.words);
  with.server->change({.own = with.ca.issue({{"127.0.0.1"}}), .version_max = TLS1_2_VERSION});
  outcome good = co_await ask(ex, settings);
  BOOST_TEST(!good.error, good.words);
  SSL_CTX_set_min_proto_version(native, TLS1_3_VERSION);
  outcome forbidden = co_await ask(ex, settings);
  BOOST_TEST(forbidden.error == error::unreachable, forbidden.words);
  BOOST_TEST(SSL_CTX_get_min_proto_version(native) == TLS1_3_VERSION, "theirs is not changed");
}

// The sizes are below, at and above what Asio's BIO and its buffer take: 17 KiB each.
ASYNC_TEST_CASE(bytes_behind_a_reply_are_not_the_next_requests_reply, 60s) {
  for (const std::size_t body : {0, 100, 16'000, 17'000, 17'400, 18'000, 34'000, 35'000, 100'000}) {
    const secured with(ex);
    with.server->change({.own = with.ca.issue({{"127.0.0.1"}}), .body = body, .does = manner::says_more});
    client through(ex, with.settings());
    for (int i = 0; i < 3; ++i) {
      outcome got = co_await ask(through);
      BOOST_TEST(!got.error, body << " bytes: " << got.words);
    }
    BOOST_TEST(with.server->handshakes == 3);
  }
}

// RFC 8446, C.4: somebody who sees the connections could tell that they belong to the same client.
ASYNC_TEST_CASE(a_ticket_is_offered_once, 30s) {
  const secured with(ex);
  with.server->change({.own = with.ca.issue({{"127.0.0.1"}}), .keeps_open = false});
  client through(ex, with.settings());
  outcome first = co_await ask(through);
  BOOST_TEST(!first.error, first.words);
  auto [one, two] = co_await (ask(through) && ask(through));
  BOOST_TEST(!one.error, one.words);
  BOOST_TEST(!two.error, two.words);
  BOOST_TEST(with.server->handshakes == 3);
  BOOST_TEST(with.server->resumed == 1);
}

// RFC 5280, 4.1.2.5: the end of a certificate that never expires. In nanoseconds it would overflow a time point.
ASYNC_TEST_CASE(a_certificate_without_an_end_is_resumed, 30s) {
  const secured with(ex);
  const std::chrono::sys_seconds end =
      std::chrono::sys_days(std::chrono::year(9999) / 12 / 31) + std::chrono::hours(23) + 59min + 59s;
  const auto now = std::chrono::floor<std::chrono::seconds>(std::chrono::system_clock::now());
  with.server->change({.own = with.ca.issue({.names = {"127.0.0.1"}, .until = end - now}), .keeps_open = false});
  client through(ex, with.settings());
  for (int i = 0; i < 2; ++i) {
    outcome good = co_await ask(through);
    BOOST_TEST(!good.error, good.words);
  }
  BOOST_TEST(with.server->resumed == 1);
}

ASYNC_TEST_CASE(nothing_is_resumed_when_the_certificate_has_expired, 30s) {
  const secured with(ex);
  for (const int version : {TLS1_2_VERSION, TLS1_3_VERSION}) {
    const auto end = std::chrono::system_clock::now() + 2s;
    with.server->change(
        {.own = with.ca.issue({.names = {"127.0.0.1"}, .until = 2s}), .version_max = version, .keeps_open = false});
    client through(ex, with.settings());
    outcome good = co_await ask(through);
    BOOST_TEST(!good.error, good.words);
    while (std::chrono::system_clock::now() < end + 1s) {  // the time in a certificate has whole seconds
      asio::steady_timer timer(ex, 100ms);
      co_await timer.async_wait(asio::use_awaitable);
    }
    outcome late = co_await ask(through);
    BOOST_TEST(late.error == error::certificate_refused, late.words);
    BOOST_TEST(contains(late.words, "expired"), late.words);
  }
  BOOST_TEST(with.server->resumed == 0);
}

BOOST_AUTO_TEST_CASE(files_that_cannot_be_read_are_named) {
  const temporary_folder files;
  const identity own = authority().issue({});
  const std::string certificate = files.write("own.pem", own.certificate);
  const std::string key = files.write("own.key", own.key);
  const std::string other_key = files.write("other.key", authority().issue({}).key);
  const std::string rsa_key = files.write("rsa.key", authority().issue({.rsa = true}).key);
  const std::string no_pem = files.write("no/pem", "text");
  config settings;
  settings.address = "https://127.0.0.1:1";
  const auto refused = [&](auto&& change) {
    config its = settings;
    change(its.tls);
    return refusal_of(its);
  };
  BOOST_TEST(contains(refused([](auto& t) { t.ca_file = "/no/such/file"; }), "tls.ca_file \"/no/such/file\": "));
  BOOST_TEST(contains(refused([](auto& t) { t.ca_path = "/no/such/folder"; }), "tls.ca_path \"/no/such/folder\": "));
  BOOST_TEST(contains(refused([&](auto& t) { t.ca_path = files.path() + "/no"; }), no_pem));
  BOOST_TEST(contains(refused([&](auto& t) { t.ca_file = no_pem; }), "tls.ca_file"));
  BOOST_TEST(contains(refused([&](auto& t) { t.certificate_file = certificate; }), "go together"));
  for (const std::string& another : {other_key, rsa_key})
    BOOST_TEST(contains(refused([&](auto& t) {
                          t.certificate_file = certificate;
                          t.key_file = another;
                        }),
                        "tls.key_file"));
  const std::string of_another_type = refused([&](auto& t) {
    t.certificate_file = certificate;
    t.key_file = rsa_key;
  });
  BOOST_TEST(contains(of_another_type, "tls.key_file \"" + rsa_key +
                                           "\": the key does not fit tls.certificate_file \"" + certificate + "\": "),
             of_another_type);
  BOOST_TEST(refused([&](auto& t) {
               t.certificate_file = certificate;
               t.key_file = key;
             }) == "");
}

ASYNC_TEST_CASE(an_address_that_fails_verification_is_passed_over, 30s) {
  const secured good(ex);
  const secured bad(ex, {"other.example"});
  std::vector<std::string> log;
  config settings = good.settings();
  const std::string both = good.files.write("both.pem", good.ca.certificate() + bad.ca.certificate());
  settings.tls.ca_file = both;
  settings.addresses = {bad.server->url(), good.server->url()};
  settings.log = [&](const holdfast::log_event& event) { log.push_back(event.text()); };
  client through(ex, settings);
  outcome got = co_await ask(through);
  BOOST_TEST(!got.error, got.words);
  BOOST_TEST(bad.server->requests.empty());
  while (log.empty()) co_await asio::post(ex, asio::use_awaitable);
  BOOST_TEST(contains(log[0], "other.example"), log[0]);
  settings.addresses = {bad.server->url(), bad.server->url("localhost")};
  outcome none = co_await ask(ex, settings);
  BOOST_TEST(none.error == error::certificate_refused);
}

}  // namespace

BOOST_AUTO_TEST_SUITE_END()
