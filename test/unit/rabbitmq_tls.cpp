// SPDX-FileCopyrightText: The holdfast authors
// SPDX-License-Identifier: BSL-1.0

// Servers that a client must not log in to, over amqps.

#include <openssl/ssl.h>

#include <boost/asio/co_spawn.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <boost/test/unit_test.hpp>
#include <chrono>
#include <holdfast/error.hpp>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "rabbitmq/client_impl.hpp"
#include "support/async.hpp"
#include "support/secure_server.hpp"
#include "support/temporary_folder.hpp"

BOOST_AUTO_TEST_SUITE(rabbitmq_tls)

namespace {

using namespace holdfast;
using namespace rabbitmq::detail;
using namespace std::chrono_literals;
using test::authority;
using test::identity;
using test::secure_server;
using test::secure_server_options;
using manner = secure_server_options::manner;
namespace asio = boost::asio;

const std::vector<std::string> here{"127.0.0.1"};

/// An authority that clients trust, and a server whose certificate it has signed. The server speaks TLS, but not AMQP.
struct secured {
  explicit secured(const asio::any_io_executor& ex)
      : server(std::make_shared<secure_server>(ex, secure_server_options{ca.issue({here})})) {
    server->start();
  }
  ~secured() { server->stop(); }

  rabbitmq::config settings() const {
    rabbitmq::config its;
    its.address = "amqps://user:secret@" + server->url().substr(std::string("https://").size());
    its.tls.ca_file = ca_file;
    its.connect_timeout = 10s;
    return its;
  }

  test::temporary_folder files;
  authority ca;
  std::string ca_file = files.write("ca.pem", ca.certificate());
  std::shared_ptr<secure_server> server;
};

/// Tries to connect. Returns why that was not possible.
asio::awaitable<failure> why_not(asio::any_io_executor ex, rabbitmq::config settings) {
  const auto client = client_impl::make(ex, settings);
  const auto strand = *client->strand();
  auto attempt = client->connect(1, std::string());
  opened made = co_await asio::co_spawn(strand, std::move(attempt), asio::use_awaitable);
  client->close();
  BOOST_TEST(!made.link);
  BOOST_TEST(made.error.details.to_string().find("secret") == std::string::npos);
  co_return std::move(made.error);
}

bool contains(const failure& why, const std::string& words) {
  return why.details.to_string().find(words) != std::string::npos;
}

}  // namespace

ASYNC_TEST_CASE(a_server_with_a_good_certificate_is_spoken_to, 30s) {
  const secured with(ex);
  rabbitmq::config settings = with.settings();
  settings.connect_timeout = 1s;  // the server waits for more than AMQP's first bytes
  failure why = co_await why_not(ex, settings);
  BOOST_TEST(why.code != error::certificate_refused, why.details.to_string());
  BOOST_TEST(with.server->handshakes == 1);
}

ASYNC_TEST_CASE(what_is_not_valid_or_not_trusted_is_refused, 60s) {
  const secured with(ex);
  const authority stranger;
  const std::pair<identity, std::string> bad[] = {
      {with.ca.issue({here, -2h, -1h}), "certificate has expired"},
      {with.ca.issue({here, 1h, 2h}), "certificate is not yet valid"},
      {stranger.issue({here}), "unable to get local issuer certificate"},
      {authority::self_signed({here}), "self-signed certificate"},
      {with.ca.issue({{"other.example"}}), "IP address mismatch"},
  };
  for (const auto& [own, words] : bad) {
    with.server->change({own});
    failure why = co_await why_not(ex, with.settings());
    BOOST_TEST(why.code == error::certificate_refused, words << ": " << why.code.message());
    BOOST_TEST(contains(why, words), why.details.to_string());
  }
  BOOST_TEST(with.server->handshakes == 0);
}

ASYNC_TEST_CASE(an_old_version_of_tls_is_not_spoken, 30s) {
  const secured with(ex);
  with.server->change({.own = with.ca.issue({here}), .version_max = TLS1_1_VERSION});
  failure why = co_await why_not(ex, with.settings());
  BOOST_TEST(why.code == error::unreachable);
  BOOST_TEST(contains(why, "protocol"), why.details.to_string());
  BOOST_TEST(with.server->handshakes == 0);
}

ASYNC_TEST_CASE(a_handshake_that_gets_no_answer_ends_with_the_connect_timeout, 30s) {
  const secured with(ex);
  with.server->change({.does = manner::is_silent});
  rabbitmq::config settings = with.settings();
  settings.connect_timeout = 50ms;
  failure why = co_await why_not(ex, settings);
  BOOST_TEST(why.code == error::unreachable);
  BOOST_TEST(contains(why, "has not answered in time"), why.details.to_string());
}

ASYNC_TEST_CASE(a_server_that_trusts_another_authority_refuses_our_certificate, 30s) {
  const secured with(ex);
  const identity foreign = authority().issue({{"client.example"}});
  with.server->change({.own = with.ca.issue({here}), .clients = with.ca.certificate()});
  rabbitmq::config settings = with.settings();
  settings.tls.certificate_file = with.files.write("foreign.pem", foreign.certificate);
  settings.tls.key_file = with.files.write("foreign.key", foreign.key);
  failure why = co_await why_not(ex, settings);
  BOOST_TEST(why.code == error::client_certificate_refused, why.details.to_string());
}

BOOST_AUTO_TEST_SUITE_END()
