// SPDX-FileCopyrightText: The holdfast authors
// SPDX-License-Identifier: BSL-1.0

// A name server that does not answer: the system's resolver hangs, and nothing else may wait for it.

#include <dlfcn.h>
#include <netdb.h>

#include <boost/asio/detached.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/test/unit_test.hpp>
#include <chrono>
#include <condition_variable>
#include <holdfast/consul/client.hpp>
#include <holdfast/semaphore.hpp>
#include <holdfast/testing/server.hpp>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "net/resolve.hpp"
#include "support/async.hpp"

namespace {

/// Names that end like this are looked up here, and not by the system.
constexpr std::string_view hung_domain = ".dead-name-server.test";

/// A resolver that hangs until `answer` is called. Then it finds the loopback address.
class hanging_resolver {
public:
  void hang() {
    const std::lock_guard lock(mutex_);
    hangs_ = true;
    calls_ = 0;
  }
  /// Returns when all calls have ended.
  void answer() {
    std::unique_lock lock(mutex_);
    hangs_ = false;
    changed_.notify_all();
    changed_.wait(lock, [this] { return inside_ == 0; });
  }
  void call() {
    std::unique_lock lock(mutex_);
    ++calls_;
    ++inside_;
    changed_.notify_all();
    changed_.wait_for(lock, gives_up_after, [this] { return !hangs_; });
    --inside_;
    changed_.notify_all();
  }
  int inside() {
    const std::lock_guard lock(mutex_);
    return inside_;
  }
  int calls() {
    const std::lock_guard lock(mutex_);
    return calls_;
  }
  void wait_for_a_call() {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [this] { return inside_ != 0; });
  }

private:
  // As the system's resolver does. So what waits for it fails a test, and does not hang.
  static constexpr std::chrono::seconds gives_up_after{30};

  std::mutex mutex_;
  std::condition_variable changed_;
  bool hangs_ = false;
  int inside_ = 0;
  int calls_ = 0;
};

hanging_resolver resolver;

/// Answers in the end, so that no case leaves a thread behind.
struct while_it_hangs {
  while_it_hangs() { resolver.hang(); }
  ~while_it_hangs() { resolver.answer(); }
  while_it_hangs(const while_it_hangs&) = delete;
  while_it_hangs& operator=(const while_it_hangs&) = delete;
};

}  // namespace

// Stands before the C library's function of this name.
extern "C" int getaddrinfo(const char* host, const char* service, const addrinfo* hints, addrinfo** found) {
  using function = int (*)(const char*, const char*, const addrinfo*, addrinfo**);
  static const auto next = reinterpret_cast<function>(dlsym(RTLD_NEXT, "getaddrinfo"));
  if (host == nullptr || !std::string_view(host).ends_with(hung_domain)) return next(host, service, hints, found);
  resolver.call();
  return next("127.0.0.1", service, hints, found);
}

BOOST_AUTO_TEST_SUITE(dead_name_server)

namespace {

using namespace holdfast;
using namespace std::chrono_literals;
namespace asio = boost::asio;

std::string some_name() { return "consul" + std::string(hung_domain); }

consul::config settings_for(const std::string& host, unsigned port = 1) {
  consul::config settings;
  settings.address = "http://" + host + ':' + std::to_string(port);
  settings.connect_timeout = 100ms;
  settings.request_timeout = 300ms;
  return settings;
}

}  // namespace

BOOST_AUTO_TEST_CASE(nobody_waits_for_the_resolver) {
  const while_it_hangs scope;
  {
    asio::io_context io;
    error_code ended;
    {
      consul::client client(io, settings_for(some_name()));
      client.get("k", [&](error_code ec, auto) {
        ended = ec;
        client.close();
      });
      io.run();
    }
    BOOST_TEST(ended == error::unreachable);
    BOOST_TEST(resolver.inside() == 1, "run() has not waited for the resolver");
  }
  BOOST_TEST(resolver.inside() == 1, "and neither has the destructor of the context");
}

BOOST_AUTO_TEST_CASE(a_close_ends_the_wait_for_a_name) {
  const while_it_hangs scope;
  asio::io_context io;
  consul::config settings = settings_for(some_name());
  settings.connect_timeout = settings.request_timeout = 1min;
  consul::client client(io, settings);
  error_code ended;
  client.get("k", [&](error_code ec, auto) { ended = ec; });
  while (resolver.inside() == 0) io.poll();
  client.close();
  io.run();
  BOOST_TEST(ended == error::closed);
  BOOST_TEST(resolver.inside() == 1);
}

BOOST_AUTO_TEST_CASE(a_lock_closes_while_the_resolver_hangs) {
  const while_it_hangs scope;
  asio::io_context io;
  consul::client client(io, settings_for(some_name()));
  semaphore sem(client, {.prefix = "k", .limit = 1});
  error_code ended;
  sem.acquire([&](error_code ec, auto) { ended = ec; });
  std::thread closer([&] {
    resolver.wait_for_a_call();
    sem.close(asio::detached);
  });
  io.run();
  closer.join();
  BOOST_TEST(ended == error::closed);
  BOOST_TEST(resolver.inside() == 1);
}

BOOST_AUTO_TEST_CASE(the_answer_comes_when_client_and_context_are_gone) {
  const while_it_hangs scope;
  {
    asio::io_context io;
    consul::client client(io, settings_for(some_name()));
    client.get("k", [](error_code, auto) { BOOST_ERROR("the context is gone"); });
    while (resolver.inside() == 0) io.poll();
  }
  BOOST_TEST(resolver.inside() == 1);
  resolver.answer();
}

BOOST_AUTO_TEST_CASE(clients_share_a_lookup_and_its_answer) {
  testing::server server;
  const while_it_hangs scope;
  asio::io_context io;
  std::vector<std::unique_ptr<consul::client>> clients;
  const std::string address = server.address();
  const auto port = static_cast<unsigned>(std::stoul(address.substr(address.rfind(':') + 1)));
  int answered = 0;
  consul::config settings = settings_for(some_name(), port);
  settings.connect_timeout = settings.request_timeout = 1min;
  for (int i = 0; i != 20; ++i) {
    clients.push_back(std::make_unique<consul::client>(io, settings));
    clients.back()->get("k", [&](error_code ec, auto) {
      BOOST_TEST(!ec);
      ++answered;
    });
  }
  io.run_for(50ms);
  BOOST_TEST(resolver.calls() == 1);
  resolver.answer();
  io.run();
  BOOST_TEST(answered == 20);
}

BOOST_AUTO_TEST_CASE(a_name_has_one_lookup_at_a_time) {
  const while_it_hangs scope;
  const holdfast::net::address name{some_name(), 1};
  const auto first = holdfast::net::look_up(name);
  BOOST_TEST((holdfast::net::look_up(name) == first));
  resolver.answer();
  while (!first->answer()) std::this_thread::yield();
  BOOST_TEST((holdfast::net::look_up(name) != first), "the next one asks again");
}

BOOST_AUTO_TEST_CASE(other_names_have_threads_of_their_own) {
  testing::server server;
  const while_it_hangs scope;
  asio::io_context io;
  consul::client dead(io, settings_for(some_name()));
  dead.get("k", [](error_code ec, auto) { BOOST_TEST(ec == error::unreachable); });
  while (resolver.inside() == 0) io.poll();
  const std::string address = server.address();
  consul::config settings =
      settings_for("localhost", static_cast<unsigned>(std::stoul(address.substr(address.rfind(':') + 1))));
  settings.connect_timeout = settings.request_timeout = 1min;
  consul::client alive(io, settings);
  bool is_answered = false;
  alive.get("k", [&](error_code ec, auto) { is_answered = !ec; });
  io.run();
  BOOST_TEST(is_answered);
  BOOST_TEST(resolver.inside() == 1);
}

BOOST_AUTO_TEST_SUITE_END()
