// SPDX-FileCopyrightText: The holdfast authors
// SPDX-License-Identifier: BSL-1.0

// The text that a newcomer reads after each of twelve mistakes, in a program that catches `std::exception` and prints
// `what()`. Each line names the cause, and the address or the key. No line has a secret.

#include <boost/asio/co_spawn.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/test/unit_test.hpp>
#include <functional>
#include <holdfast/holdfast.hpp>
#include <holdfast/testing/server.hpp>
#include <string>
#include <utility>

#include "support/async.hpp"
#include "support/scripted_server.hpp"
#include "support/secure_server.hpp"
#include "support/temporary_folder.hpp"

BOOST_AUTO_TEST_SUITE(mistakes)

namespace {

using namespace std::chrono_literals;
using namespace holdfast;
using holdfast::test::authority;
using holdfast::test::secure_server;
using holdfast::test::secure_server_options;
using holdfast::test::temporary_folder;
using testing::fault;
using testing::fault_plan;
namespace asio = boost::asio;

const std::string token = "s3cret-t0ken";

semaphore_options small() {
  semaphore_options options;
  options.prefix = "service/db";
  options.limit = 2;
  options.session_node = "";
  options.tuning.give_up_after = 300ms;
  return options;
}

// Returns the line of a program that acquires one slot, without the address.
asio::awaitable<std::string> line_of(asio::any_io_executor ex, consul::config settings,
                                     semaphore_options options = small(), std::uint32_t count = 1) {
  settings.token = token;
  settings.request_timeout = 300ms;
  std::string line = "(no exception)";
  std::string address;
  try {
    consul::client client(ex, settings);
    address = client.address();
    semaphore sem(client, options);
    slot held = co_await sem.acquire(count);
  } catch (const std::exception& e) {
    line = e.what();
  }
  BOOST_TEST(line.find(token) == std::string::npos, line);
  for (auto at = line.find(address); !address.empty() && at != std::string::npos; at = line.find(address)) {
    line.replace(at, address.size(), "AGENT");
  }
  BOOST_TEST_MESSAGE(line);
  co_return line;
}

asio::awaitable<std::string> line_of(asio::any_io_executor ex, const fault& what) {
  testing::server fake;
  fake.set_faults(fault_plan({{.what = what, .times = 0}}));
  std::string line = co_await line_of(ex, fake.client_config());
  co_return line;
}

struct secured {
  explicit secured(asio::any_io_executor ex, std::vector<std::string> names = {"127.0.0.1"}, std::string clients = {})
      : server(std::make_shared<secure_server>(
            ex, secure_server_options{.own = ca.issue({std::move(names)}), .clients = std::move(clients)})) {
    server->start();
  }
  ~secured() { server->stop(); }
  consul::config settings(const authority& trusted) const {
    consul::config its;
    its.address = server->url();
    its.tls.ca_file = files.write("ca.pem", trusted.certificate());
    return its;
  }

  temporary_folder files;
  authority ca;
  std::shared_ptr<secure_server> server;
};

bool contains(const std::string& text, const std::string& part) { return text.find(part) != std::string::npos; }

}  // namespace

ASYNC_TEST_CASE(the_port_is_closed, 10s) {
  test::scripted_server gone(ex);
  consul::config settings;
  settings.address = gone.address();
  gone.stop();
  const std::string line = co_await line_of(ex, settings);
  BOOST_TEST(contains(line, "cannot connect to AGENT: Connection refused"), line);
}

ASYNC_TEST_CASE(the_agent_speaks_tls_and_the_address_is_plain, 10s) {
  const secured with(ex);
  consul::config settings;
  settings.address = with.server->url().substr(std::string("https://").size());
  const std::string line = co_await line_of(ex, settings);
  BOOST_TEST(contains(line, "AGENT"), line);
}

ASYNC_TEST_CASE(the_authority_is_another_one, 10s) {
  const secured with(ex);
  const authority other;
  const std::string line = co_await line_of(ex, with.settings(other));
  BOOST_TEST(contains(line, "the certificate of AGENT is not accepted: "), line);
}

ASYNC_TEST_CASE(the_certificate_is_for_another_name, 10s) {
  const secured with(ex, {"other.example"});
  const std::string line = co_await line_of(ex, with.settings(with.ca));
  BOOST_TEST(contains(line, "expected: 127.0.0.1"), line);
  BOOST_TEST(contains(line, "other.example"), line);
}

ASYNC_TEST_CASE(the_agent_wants_our_certificate, 10s) {
  const authority clients;
  const secured with(ex, {"127.0.0.1"}, clients.certificate());
  const std::string line = co_await line_of(ex, with.settings(with.ca));
  BOOST_TEST(contains(line, "tls.certificate_file"), line);
}

ASYNC_TEST_CASE(the_token_lacks_a_right, 10s) {
  const std::string line = co_await line_of(ex, fault::forbidden());
  BOOST_TEST(contains(line, "the server said: Permission denied"), line);
  BOOST_TEST(contains(line, "AGENT answered 403"), line);
}

ASYNC_TEST_CASE(the_token_is_unknown, 10s) {
  const std::string line = co_await line_of(ex, fault::answer(403, "ACL not found"));
  BOOST_TEST(contains(line, "the server said: ACL not found"), line);
}

ASYNC_TEST_CASE(the_limit_is_another_one, 10s) {
  testing::server fake;
  consul::client client(ex, fake.client_config());
  semaphore_options first = small();
  first.limit = 5;
  semaphore sem(client, first);
  slot held = co_await sem.acquire();
  const std::string line = co_await line_of(ex, fake.client_config());
  BOOST_TEST(contains(line, "limit recorded 5, ours 2"), line);
  BOOST_TEST(contains(line, "service/db/.lock"), line);
  co_await held.release();
}

ASYNC_TEST_CASE(too_many_slots_at_once, 10s) {
  testing::server fake;
  const std::string line = co_await line_of(ex, fake.client_config(), small(), 3);
  BOOST_TEST(contains(line, "cannot acquire 3 slots at once from a limit of 2"), line);
}

ASYNC_TEST_CASE(the_ttl_is_out_of_range, 10s) {
  testing::server fake;
  semaphore_options options = small();
  options.session_ttl = 5s;
  const std::string line = co_await line_of(ex, fake.client_config(), options);
  BOOST_TEST(contains(line, "Invalid Session TTL"), line);
}

ASYNC_TEST_CASE(the_prefix_is_none, 10s) {
  testing::server fake;
  semaphore_options options = small();
  options.prefix = "/service/db";
  const std::string line = co_await line_of(ex, fake.client_config(), options);
  BOOST_TEST(contains(line, "prefix"), line);
}

ASYNC_TEST_CASE(the_agent_is_frozen, 10s) {
  testing::server fake;
  fake.freeze();
  consul::config settings = fake.client_config();
  settings.connect_timeout = 10min;
  // The user is told after the timeouts of the options, which are 300 ms. The defaults are 5 s, so four acquires would
  // take 20 s.
  const auto begun = std::chrono::steady_clock::now();
  for (int i = 0; i != 4; ++i) {
    const std::string line = co_await line_of(ex, settings);
    BOOST_TEST(contains(line, "Consul at AGENT does not answer"), line);
  }
  BOOST_TEST((std::chrono::steady_clock::now() - begun < 10s));
}

BOOST_AUTO_TEST_SUITE_END()
