// SPDX-FileCopyrightText: The holdfast authors
// SPDX-License-Identifier: BSL-1.0

// An agent on a UNIX socket, and what goes wrong with those.

#include <sys/un.h>
#include <unistd.h>

#include <boost/asio/local/stream_protocol.hpp>
#include <boost/test/unit_test.hpp>
#include <filesystem>
#include <fstream>
#include <holdfast/consul/client.hpp>
#include <holdfast/semaphore.hpp>

#include "support/agent.hpp"
#include "support/async.hpp"
#include "support/participant.hpp"
#include "support/temporary_folder.hpp"

namespace holdfast::test {
namespace {

namespace fs = std::filesystem;

asio::awaitable<std::string> failure_at(const asio::any_io_executor ex, const fs::path& socket) {
  consul::config settings;
  settings.address = "unix://" + socket.string();
  consul::client client(ex, settings);
  diagnostics why;
  consul::read_options once;
  once.request.retry = false;
  once.request.diag = &why;
  auto [ec, answer] = co_await client.get("k", once, as_result);
  BOOST_TEST(ec == error::unreachable);
  BOOST_TEST((ec == condition::unavailable));
  co_return why.message;
}

}  // namespace

BOOST_AUTO_TEST_SUITE(unix_sockets)

ASYNC_TEST_CASE(a_semaphore_lives_on_one, 60s) {
  agent_options options;
  options.unix_socket = true;
  const agent own(options);
  consul::config settings;
  settings.address = own.unix_url();
  const consul::client client(ex, settings);
  BOOST_TEST(client.address() == own.unix_url());
  semaphore first(client, calm("unix", 1));
  semaphore second(client, calm("unix", 1));
  slot held = co_await first.acquire(asio::use_awaitable);
  slot none = co_await second.try_acquire(asio::use_awaitable);
  BOOST_TEST(!none.held());
  co_await held.release(asio::use_awaitable);
  slot next = co_await second.acquire(asio::use_awaitable);
  BOOST_TEST(next.held());
  BOOST_TEST(own.get("/v1/kv/unix/.lock").status == 200);
}

ASYNC_TEST_CASE(one_that_is_missing_is_named, 30s) {
  const temporary_folder here;
  const std::string words = co_await failure_at(ex, fs::path(here.path()) / "none.sock");
  BOOST_TEST(words == "get: cannot connect to unix://" + (fs::path(here.path()) / "none.sock").string() +
                          ": No such file or directory");
}

ASYNC_TEST_CASE(one_that_nobody_listens_on_is_refused, 30s) {
  const temporary_folder here;
  const fs::path left = fs::path(here.path()) / "left.sock";
  { const asio::local::stream_protocol::acceptor gone(ex, asio::local::stream_protocol::endpoint(left.string())); }
  const std::string words = co_await failure_at(ex, left);
  BOOST_TEST(words.ends_with(": Connection refused"));
}

ASYNC_TEST_CASE(one_that_is_not_allowed_says_so, 30s) {
  const temporary_folder here;
  const fs::path closed = fs::path(here.path()) / "closed.sock";
  const asio::local::stream_protocol::acceptor listens(ex, asio::local::stream_protocol::endpoint(closed.string()));
  fs::permissions(closed, fs::perms::none);
  fs::permissions(here.path(), fs::perms::all);
  // Root may do everything, so this thread is another user meanwhile.
  const uid_t before = ::geteuid();
  if (before == 0) BOOST_REQUIRE(::seteuid(65534) == 0);
  const std::string words = co_await failure_at(ex, closed);
  if (before == 0) BOOST_REQUIRE(::seteuid(before) == 0);
  BOOST_TEST(words.ends_with(": Permission denied"));
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace holdfast::test
