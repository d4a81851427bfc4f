// SPDX-FileCopyrightText: The holdfast authors
// SPDX-License-Identifier: BSL-1.0

// amqps and logins by certificates on a real broker, as operators set them up. test/rabbitmq/tls_files/main.cpp has
// configured the broker. unit.rabbitmq_tls shows what hostile servers do.

#include <algorithm>
#include <boost/test/unit_test.hpp>
#include <chrono>
#include <cstdlib>
#include <fstream>
#include <holdfast/rabbitmq.hpp>
#include <memory>
#include <sstream>
#include <string>
#include <vector>

#include "rabbitmq/support/neighbours.hpp"
#include "support/async.hpp"
#include "support/certificates.hpp"
#include "support/temporary_folder.hpp"

BOOST_AUTO_TEST_SUITE(tls)

namespace {

using namespace holdfast;
using namespace std::chrono_literals;
using test::a_moment;
using test::as_result;
using test::authority;
using test::identity;
using test::output_of;
using test::unique_name;
namespace asio = boost::asio;

constexpr auto deadline = 60s;
const std::string password = "tls-secret";

std::string from_environment(const char* name) {
  const char* const value = std::getenv(name);
  BOOST_TEST_REQUIRE(value != nullptr, name << " is not set");
  return value;
}

std::string file_of_the_broker(const std::string& name) {
  return from_environment("HOLDFAST_BROKER_FOLDER") + "/tls/" + name;
}

void ctl(const std::string& words) {
  const std::string output = output_of("\"$HOLDFAST_BROKER\" ctl \"$HOLDFAST_BROKER_FOLDER\" " + words + " 2>&1");
  BOOST_TEST_MESSAGE("rabbitmqctl " << words << ": " << output);
}

/// How many lines of the broker's log contain this text.
std::ptrdiff_t logged(const std::string& text) {
  std::ifstream log(from_environment("HOLDFAST_BROKER_FOLDER") + "/log/rabbit@localhost.log");
  std::ptrdiff_t count = 0;
  for (std::string line; std::getline(log, line);) count += line.find(text) != std::string::npos;
  return count;
}

/// The broker logs this when the first byte of AMQP has arrived on a connection.
const std::string first_byte = "accepting AMQP connection";
/// The broker logs this when a handshake has failed. OpenSSL's alert is not encrypted, so Erlang reports it as a wrong
/// record.
const std::string failed_handshake = " ALERT: Fatal";

/// A configuration with TLS, and what a semaphore logs on it.
struct secured {
  explicit secured(const std::string& login = {}, const std::string& host = "127.0.0.1") {
    settings.address = "amqps://" + login + host + ':' + from_environment("HOLDFAST_BROKER_PORT");
    settings.tls.ca_file = file_of_the_broker("ca.pem");
    settings.connect_timeout = 10s;
    settings.log = [lines = lines](const holdfast::log_event& event) { lines->push_back(event.text()); };
  }
  secured& certificate(const std::string& name) {
    settings.tls.certificate_file = file_of_the_broker(name + ".pem");
    settings.tls.key_file = file_of_the_broker(name + ".key");
    return *this;
  }
  rabbitmq::semaphore_options options() const {
    rabbitmq::semaphore_options its;
    its.name = unique_name("tls");
    its.create_with = 1;
    its.lease = 3s;
    its.log = [lines = lines](const holdfast::log_event& event) { lines->push_back(event.text()); };
    return its;
  }

  rabbitmq::config settings;
  std::shared_ptr<std::vector<std::string>> lines = std::make_shared<std::vector<std::string>>();
};

std::chrono::steady_clock::time_point believed_until(const rabbitmq::slot& its) {
  return std::chrono::steady_clock::now() + its.valid_for();
}

/// Acquires a slot, holds it until it has been verified twice, and releases it.
asio::awaitable<void> use(asio::any_io_executor ex, secured with) {
  rabbitmq::client client(ex, with.settings);
  rabbitmq::semaphore sem(client, with.options());
  rabbitmq::slot held = co_await sem.acquire();
  BOOST_TEST(held.held());
  for (int verified = 0; verified < 2; ++verified) {
    const auto before = believed_until(held);
    while (held.held() && believed_until(held) - before < 100ms) co_await a_moment();
    BOOST_TEST_REQUIRE(held.held());
  }
  co_await held.release();
  BOOST_TEST((held.state() == slot_state::released));
  co_await sem.close();
  client.close();
}

/// Why a slot cannot be acquired. Neither the error nor a line of the log has the password.
asio::awaitable<error_with_diagnostics> why_not(asio::any_io_executor ex, secured with) {
  rabbitmq::client client(ex, with.settings);
  rabbitmq::semaphore_options options = with.options();
  options.tuning.give_up_after = 1s;
  rabbitmq::semaphore sem(client, options);
  error_with_diagnostics why(error_code{}, diagnostics{});
  try {
    co_await sem.acquire();
  } catch (const error_with_diagnostics& refused) {
    why = refused;
  }
  client.close();
  BOOST_TEST(std::string(why.what()).find(password) == std::string::npos);
  for (const std::string& line : *with.lines) BOOST_TEST(line.find(password) == std::string::npos, line);
  co_return why;
}

/// The same, for a certificate of the broker that the client refuses. The broker has got nothing from the client but
/// the alert that ends the handshake.
asio::awaitable<error_with_diagnostics> why_refused(asio::any_io_executor ex, secured with) {
  const auto connections = logged(first_byte), handshakes = logged(failed_handshake);
  error_with_diagnostics why = co_await why_not(ex, std::move(with));
  BOOST_TEST_REQUIRE(why.code() == error::certificate_refused, why.what());
  while (logged(failed_handshake) == handshakes) co_await a_moment();
  BOOST_TEST(logged(first_byte) == connections);
  co_return why;
}

bool contains(const std::exception& why, const std::string& text) {
  return std::string(why.what()).find(text) != std::string::npos;
}

/// Login mechanisms that the broker offers to new connections. The destructor restores those of its configuration.
class mechanisms {
public:
  explicit mechanisms(const std::string& list) { offer(list); }
  ~mechanisms() { offer("'PLAIN', 'EXTERNAL'"); }
  mechanisms(const mechanisms&) = delete;
  mechanisms& operator=(const mechanisms&) = delete;

private:
  static void offer(const std::string& list) {
    ctl("eval \"application:set_env(rabbit, auth_mechanisms, [" + list + "]).\"");
  }
};

}  // namespace

ASYNC_TEST_CASE(a_slot_is_held_over_amqps_with_a_password, deadline) {
  const auto connections = logged(first_byte);
  co_await use(ex, secured("guest:guest@"));
  BOOST_TEST(logged(first_byte) >= connections + 2);
}

ASYNC_TEST_CASE(a_broker_of_another_authority_gets_nothing, deadline) {
  const test::temporary_folder files;
  secured with("guest:" + password + '@');
  with.settings.tls.ca_file = files.write("ca.pem", authority().certificate());
  co_await why_refused(ex, with);
}

ASYNC_TEST_CASE(a_broker_with_another_name_gets_nothing, deadline) {
  error_with_diagnostics why = co_await why_refused(ex, secured("guest:" + password + '@', "localhost"));
  BOOST_TEST(contains(why, "hostname mismatch"), why.what());
}

ASYNC_TEST_CASE(a_slot_is_held_by_a_user_with_a_certificate, deadline) {
  ctl("add_user tls-worker " + password);
  ctl("set_permissions tls-worker '.*' '.*' '.*'");
  const std::string login = "user 'tls-worker' authenticated and granted access to vhost '/'";
  const auto before = logged(login);
  co_await use(ex, secured().certificate("worker"));
  BOOST_TEST(logged(login) >= before + 2);
  ctl("delete_user tls-worker");
}

ASYNC_TEST_CASE(a_certificate_without_a_user_has_no_permission, deadline) {
  error_with_diagnostics why = co_await why_not(ex, secured().certificate("nobody"));
  BOOST_TEST(why.code() == error::permission_denied, why.what());
  BOOST_TEST(contains(why, "ACCESS_REFUSED"), why.what());
}

ASYNC_TEST_CASE(a_certificate_of_a_foreign_authority_is_refused, deadline) {
  const test::temporary_folder files;
  const identity foreign = authority().issue({.common_name = "tls-worker"});
  secured with;
  with.settings.tls.certificate_file = files.write("foreign.pem", foreign.certificate);
  with.settings.tls.key_file = files.write("foreign.key", foreign.key);
  error_with_diagnostics why = co_await why_not(ex, with);
  BOOST_TEST(why.code() == error::client_certificate_refused, why.what());
}

ASYNC_TEST_CASE(a_client_without_a_certificate_has_no_permission_where_one_is_demanded, deadline) {
  const mechanisms only("'EXTERNAL'");
  for (const std::string& login : {std::string(), "guest:" + password + '@'}) {
    error_with_diagnostics why = co_await why_not(ex, secured(login));
    BOOST_TEST(why.code() == error::permission_denied, why.what());
    BOOST_TEST(contains(why, "the broker does not offer a login by PLAIN"), why.what());
  }
}

BOOST_AUTO_TEST_SUITE_END()
