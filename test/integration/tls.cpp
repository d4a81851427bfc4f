// SPDX-FileCopyrightText: The holdfast authors
// SPDX-License-Identifier: BSL-1.0

// TLS with a real agent, as operators set it up: what unit.consul_tls shows of hostile servers is not repeated here.

#include <boost/test/unit_test.hpp>
#include <holdfast/consul/client.hpp>
#include <holdfast/election.hpp>
#include <holdfast/mutex_set.hpp>
#include <holdfast/semaphore.hpp>

#include "support/agent.hpp"
#include "support/async.hpp"
#include "support/certificates.hpp"
#include "support/participant.hpp"
#include "support/temporary_folder.hpp"

namespace holdfast::test {
namespace {

/// An authority, an agent that it knows, and the files of both.
class secured {
public:
  explicit secured(bool wants_to_know_clients) {
    const identity own = ca_.issue({{"server.dc1.consul", "localhost"}});
    agent_options options;
    options.tls_config = "{\"cert_file\":\"" + files_.write("agent.pem", own.certificate) + "\",\"key_file\":\"" +
                         files_.write("agent.key", own.key) + "\",\"ca_file\":\"" +
                         files_.write("ca.pem", ca_.certificate()) + "\"" +
                         (wants_to_know_clients ? ",\"verify_incoming_https\":true}" : "}");
    agent_ = std::make_unique<agent>(options);
  }

  consul::config settings() const {
    consul::config its;
    its.address = agent_->tls_url();
    its.tls.ca_file = files_.path() + "/ca.pem";
    its.tls.server_name = "server.dc1.consul";
    return its;
  }
  void add_certificate(consul::config& to) {
    const identity ours = ca_.issue({{"client.dc1.consul"}});
    to.tls.certificate_file = files_.write("client.pem", ours.certificate);
    to.tls.key_file = files_.write("client.key", ours.key);
  }
  agent& server() { return *agent_; }

private:
  const temporary_folder files_;
  const authority ca_;
  std::unique_ptr<agent> agent_;
};

}  // namespace

BOOST_AUTO_TEST_SUITE(tls)

ASYNC_TEST_CASE(locks_of_all_kinds_live_on_it, 60s) {
  secured with(true);
  consul::config settings = with.settings();
  with.add_certificate(settings);
  const consul::client client(ex, settings);
  semaphore first(client, calm("tls", 1));
  semaphore second(client, calm("tls", 1));
  slot held = co_await first.acquire(asio::use_awaitable);
  slot none = co_await second.try_acquire(asio::use_awaitable);
  BOOST_TEST(!none.held());
  co_await held.release(asio::use_awaitable);
  slot next = co_await second.acquire(asio::use_awaitable);
  BOOST_TEST(next.held());

  election_options standing;
  standing.key = "tls-leader";
  election candidate(client, standing);
  leadership won = co_await candidate.campaign("here", asio::use_awaitable);
  election_observer observer = candidate.observe();
  auto leads = co_await observer.next(asio::use_awaitable);
  BOOST_TEST_REQUIRE(leads.has_value());
  BOOST_TEST(leads->value == "here");

  mutex_set_options folder;
  folder.prefix = "tls-set";
  mutex_set set(client, folder);
  held_mutex name = co_await set.try_lock("a", asio::use_awaitable);
  BOOST_TEST(name.held());
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace holdfast::test
