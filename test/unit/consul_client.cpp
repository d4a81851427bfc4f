// SPDX-FileCopyrightText: The holdfast authors
// SPDX-License-Identifier: BSL-1.0

// The client against servers that do what the test says: each way in which a request can fail, and the order in which
// requests wait for each other.

#include <arpa/inet.h>
#include <sys/socket.h>

#include <boost/asio/bind_cancellation_slot.hpp>
#include <boost/asio/bind_executor.hpp>
#include <boost/asio/cancellation_signal.hpp>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/detached.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/redirect_error.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/strand.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <boost/test/unit_test.hpp>
#include <cstdio>
#include <filesystem>
#include <holdfast/consul/client.hpp>
#include <holdfast/testing/server.hpp>
#include <holdfast/version.hpp>
#include <new>

#include "consul/client_impl.hpp"
#include "consul/encoding/entries.hpp"
#include "platform/strand.hpp"
#include "support/async.hpp"
#include "support/maker_process.hpp"
#include "support/scripted_server.hpp"

using namespace std::chrono_literals;
using namespace holdfast::consul;
using holdfast::condition;
using holdfast::diagnostics;
using holdfast::error;
using holdfast::error_code;
using holdfast::test::pending;
using holdfast::test::scripted_peer;
using holdfast::test::scripted_server;
namespace asio = boost::asio;

namespace {

using entry_answer = answer<std::optional<kv_entry>>;
using entries_answer = answer<std::vector<kv_entry>>;
using keys_answer = answer<std::vector<std::string>>;

// Deadlines that no passing test reaches. They are longer than the deadline of a test case (also with sanitizers), so a
// request that waits for one of them fails its test.
constexpr std::chrono::milliseconds ample = 10min;
// A deadline that a test waits for.
constexpr std::chrono::milliseconds brief = 50ms;

config settings_for(const scripted_server& server) {
  config c;
  c.address = server.address();
  c.request_timeout = ample;
  c.connect_timeout = ample;
  c.backoff_min = 1ms;
  c.backoff_max = 1ms;
  return c;
}

request_options once(std::chrono::milliseconds timeout = ample, diagnostics* diag = nullptr) {
  return {.timeout = timeout, .retry = false, .diag = diag};
}

read_options read_once(diagnostics* diag = nullptr) {
  read_options options;
  options.request = once(ample, diag);
  return options;
}

read_options watching(std::uint64_t index) {
  read_options options;
  options.index = index;
  return options;
}

// Returns the wait that a blocking query asks for.
std::chrono::milliseconds wait_of(const std::string& request) {
  const auto at = request.find("&wait=");
  BOOST_TEST_REQUIRE(at != std::string::npos, "no wait in " << request);
  return std::chrono::milliseconds(std::stoi(request.substr(at + 6)));
}

// Returns the name that /proc gives this process's end of its connection to a local port.
std::string socket_to(std::uint16_t port) {
  for (const auto& entry : std::filesystem::directory_iterator("/proc/self/fd")) {
    sockaddr_in peer{};
    socklen_t size = sizeof(peer);
    const int fd = std::stoi(entry.path().filename());
    if (::getpeername(fd, reinterpret_cast<sockaddr*>(&peer), &size) != 0 || ntohs(peer.sin_port) != port) continue;
    return std::filesystem::read_symlink(entry.path());
  }
  BOOST_FAIL("there is no connection to port " << port);
  return {};
}

// Returns the open descriptors of a program that this process starts without closing any of them.
std::string descriptors_of_a_child() {
  // NOLINTNEXTLINE(bugprone-command-processor): what a shell starts is what this is about
  FILE* const child = ::popen("ls -l /proc/self/fd", "r");
  BOOST_TEST_REQUIRE((child != nullptr));
  std::string listing;
  char piece[4096];
  while (const std::size_t n = std::fread(piece, 1, sizeof(piece), child)) listing.append(piece, n);
  BOOST_TEST(::pclose(child) == 0);
  return listing;
}

// An operation that cannot allocate memory for its answer.
class starving final : public detail::operation {
public:
  starving(std::shared_ptr<detail::client_impl> owner, detail::call what, std::optional<error_code>& result,
           asio::steady_timer& done)
      : operation(std::move(owner), std::move(what)), result_(result), done_(done) {}
  std::optional<error_code> decode(const detail::http_reply&) override { throw std::bad_alloc(); }
  void complete(holdfast::consul::detail::outcome ended) override {
    result_ = ended.code();
    done_.cancel();
  }

private:
  std::optional<error_code>& result_;
  asio::steady_timer& done_;
};

// The reply to `keys`, which is decoded in 20 parts.
std::string reply_in_20_parts() {
  std::string names = "[";
  while (names.size() < 19 * detail::entries_reader::usual_part + 1) names += R"("some/key",)";
  names.back() = ']';
  return "HTTP/1.1 200 OK\r\nContent-Length: " + std::to_string(names.size()) + "\r\n\r\n" + names;
}

const std::string absent = "HTTP/1.1 404 Not Found\r\nX-Consul-Index: 3\r\nContent-Length: 0\r\n\r\n";
const std::string session_body =
    R"([{"ID":"i","Name":"","Node":"vm","LockDelay":0,"TTL":"10s","CreateIndex":1,"ModifyIndex":1}])";

}  // namespace

BOOST_AUTO_TEST_SUITE(consul_client)

ASYNC_TEST_CASE(an_answer_comes_back) {
  scripted_server server(ex);
  client consul(ex, settings_for(server));
  BOOST_TEST(consul.address() == server.address());
  pending<bool> put(ex, consul.put("k", "value"));
  auto [peer, request] = co_await server.accept_request();
  BOOST_TEST(request == "PUT /v1/kv/k HTTP/1.1\r\nHost: " + server.address() +
                            "\r\nUser-Agent: holdfast/" HOLDFAST_VERSION_STRING
                            "\r\nContent-Type: application/octet-stream\r\nContent-Length: 5\r\n\r\nvalue");
  co_await peer.reply("true\n");
  const error_code ec = co_await put.wait();
  BOOST_TEST(!ec);
  BOOST_TEST(put.value());
  const client_statistics counted = consul.statistics();
  BOOST_TEST(counted.requests == 1u);
  BOOST_TEST(counted.writes == 1u);
  BOOST_TEST(counted.bytes_sent == request.size());
  BOOST_TEST(counted.bytes_received == 43u);
  BOOST_TEST(counted.connections_opened == 1u);
  BOOST_TEST(counted.connections_open == 1u);
}

ASYNC_TEST_CASE(a_program_that_is_started_inherits_no_connection) {
  scripted_server server(ex);
  client consul(ex, settings_for(server));
  pending<bool> put(ex, consul.put("k", "1"));
  auto [peer, request] = co_await server.accept_request();
  const std::string ours = socket_to(server.endpoint().port());
  const std::string inherited = descriptors_of_a_child();
  BOOST_TEST(inherited.find("pipe:[") != std::string::npos, "a child has its output");
  BOOST_TEST(inherited.find(ours) == std::string::npos, ours << " is there in a child:\n" << inherited);
  co_await peer.reply("true");
  co_await put.wait();
}

ASYNC_TEST_CASE(bytes_that_nobody_asked_for_end_a_connection) {
  scripted_server server(ex);
  client consul(ex, settings_for(server));
  pending<bool> first(ex, consul.put("k", "1"));
  auto [peer, request] = co_await server.accept_request();
  co_await peer.send("HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\ntrueHTTP/1.1 200 OK\r\n");
  const error_code ec = co_await first.wait();
  BOOST_TEST(!ec);
  const bool closed = co_await peer.closed_by_client();
  BOOST_TEST(closed);

  pending<bool> second(ex, consul.put("k", "2"));
  auto [other, again] = co_await server.accept_request();
  co_await other.reply("true");
  co_await second.wait();
  co_await other.send("HTTP/1.1 408 Late\r\n\r\n");
  pending<bool> third(ex, consul.put("k", "3"));
  auto [last, once_more] = co_await server.accept_request();
  co_await last.reply("true");
  const error_code ec3 = co_await third.wait();
  BOOST_TEST(!ec3);
}

ASYNC_TEST_CASE(nobody_listens) {
  scripted_server server(ex);
  const config settings = settings_for(server);
  server.stop();
  client consul(ex, settings);
  diagnostics diag;
  pending<bool> put(ex, consul.put("some/key", "1", 0, once(ample, &diag)));
  const error_code ec = co_await put.wait();
  BOOST_TEST(ec == error::unreachable);
  BOOST_TEST((ec == condition::not_applied));
  BOOST_TEST(diag.message == "put: cannot connect to " + settings.address + ": Connection refused");
  BOOST_TEST(diag.key == "some/key");
  BOOST_TEST(diag.server_message.empty());
  BOOST_TEST(consul.statistics().requests == 0u);
}

ASYNC_TEST_CASE(a_name_that_does_not_resolve) {
  config settings;
  // A label has at most 63 letters, so no server of names is asked.
  settings.address = std::string(64, 'a') + ".invalid:1";
  settings.connect_timeout = ample;
  client consul(ex, settings);
  pending<entry_answer> get(ex, consul.get("k", read_once()));
  const error_code ec = co_await get.wait();
  BOOST_TEST(ec == error::unreachable);
}

ASYNC_TEST_CASE(a_name_that_resolves) {
  scripted_server server(ex);
  config settings = settings_for(server);
  settings.address = "localhost" + settings.address.substr(settings.address.find(':'));
  client consul(ex, settings);
  pending<bool> put(ex, consul.put("k", "1"));
  auto [peer, request] = co_await server.accept_request();
  co_await peer.reply("true");
  const error_code ec = co_await put.wait();
  BOOST_TEST(!ec);
}

ASYNC_TEST_CASE(what_was_not_sent_is_sent_again_even_a_write) {
  scripted_server server(ex);
  config settings = settings_for(server);
  const auto endpoint = server.endpoint();
  server.stop();
  client consul(ex, settings);
  pending<bool> put(ex, consul.put("k", "1"));
  // When a second connection attempt is seen, the first one has been refused. Then listening again accepts it.
  scripted_server reopened(ex, endpoint);
  auto [peer, request] = co_await reopened.accept_request();
  co_await peer.reply("true");
  const error_code ec = co_await put.wait();
  BOOST_TEST(!ec);
}

ASYNC_TEST_CASE(a_silent_server) {
  scripted_server server(ex);
  client consul(ex, settings_for(server));
  diagnostics diag;
  pending<bool> put(ex, consul.put("k", "1", 0, {.timeout = brief, .retry = true, .diag = &diag}));
  auto [peer, request] = co_await server.accept_request();
  const error_code ec = co_await put.wait();
  BOOST_TEST(ec == error::timed_out);
  BOOST_TEST((ec == condition::outcome_unknown));
  BOOST_TEST(diag.message == "put: no complete reply from " + server.address() + " within 50ms");
  const bool closed = co_await peer.closed_by_client();
  BOOST_TEST(closed, "a late reply must not be taken for the next one");
  BOOST_TEST(consul.statistics().requests == 1u);
  BOOST_TEST(consul.statistics().connections_open == 0u);
}

ASYNC_TEST_CASE(a_lost_connection_leaves_a_write_unknown_and_it_is_not_repeated) {
  scripted_server server(ex);
  client consul(ex, settings_for(server));
  for (const char* partial : {"", "HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\ntru"}) {
    for (const bool reset : {false, true}) {
      pending<bool> put(ex, consul.put("k", "1"));
      auto [peer, request] = co_await server.accept_request();
      co_await peer.send(partial);
      if (reset) {
        peer.reset();
      } else {
        peer.close();
      }
      const error_code ec = co_await put.wait();
      BOOST_TEST(ec == error::connection_lost);
      BOOST_TEST((ec == condition::outcome_unknown));
    }
  }
  BOOST_TEST(consul.statistics().requests == 4u);
}

ASYNC_TEST_CASE(a_repeated_request_that_is_refused_may_have_been_applied_by_the_attempt_before) {
  scripted_server server(ex);
  client consul(ex, settings_for(server));
  diagnostics diag;
  pending<> destroyed(ex, consul.destroy_session("s", {.timeout = 5s, .retry = true, .diag = &diag}));
  auto [first, request] = co_await server.accept_request();
  first.close();
  auto [second, again] = co_await server.accept_request();
  co_await second.refuse(403, "Permission denied");
  const error_code ec = co_await destroyed.wait();
  BOOST_TEST(ec == error::connection_lost);
  BOOST_TEST((ec == condition::outcome_unknown));
  BOOST_TEST(diag.server_message == "Permission denied");
  second.close();

  pending<> renewed(ex, consul.renew_session("s"));
  auto third = co_await server.accept_request();
  third.first.close();
  auto fourth = co_await server.accept_request();
  co_await fourth.first.refuse(404, "Session id 's' not found");
  const error_code gone = co_await renewed.wait();
  BOOST_TEST(gone == error::invalid_session);
}

// The transport itself sends it again, because another connection is open.
ASYNC_TEST_CASE(a_request_that_is_turned_away_may_have_been_applied) {
  scripted_server server(ex);
  client consul(ex, settings_for(server));
  pending<entry_answer> watch(ex, consul.get("k", watching(1)));
  auto [watched, waits] = co_await server.accept_request();
  pending<> destroyed(ex, consul.destroy_session("s", once(ample)));
  auto [first, request] = co_await server.accept_request();
  first.reset();
  auto [second, again] = co_await server.accept_request();
  co_await second.refuse(403, "Permission denied");
  const error_code ec = co_await destroyed.wait();
  BOOST_TEST(ec == error::connection_lost);
}

ASYNC_TEST_CASE(reads_renewals_and_destroys_are_repeated) {
  scripted_server server(ex);
  client consul(ex, settings_for(server));
  for (const int failure : {0, 429, 500}) {
    const auto fail_once = [&server](int how) -> asio::awaitable<void> {
      auto [peer, request] = co_await server.accept_request();
      if (how == 0) {
        peer.reset();
      } else {
        co_await peer.send("HTTP/1.1 " + std::to_string(how) +
                           " Fails\r\nConnection: close\r\nContent-Length: 9\r\n\r\nNo leader");
      }
    };
    pending<entry_answer> get(ex, consul.get("k"));
    co_await fail_once(failure);
    auto [read_peer, read] = co_await server.accept_request();
    co_await read_peer.send(absent);
    const error_code read_error = co_await get.wait();
    BOOST_TEST(!read_error);
    read_peer.close();

    pending<> renew(ex, consul.renew_session("i"));
    co_await fail_once(failure);
    auto [renew_peer, renewal] = co_await server.accept_request();
    co_await renew_peer.reply(session_body);
    const error_code renew_error = co_await renew.wait();
    BOOST_TEST(!renew_error);
    renew_peer.close();

    pending<> destroy(ex, consul.destroy_session("i"));
    co_await fail_once(failure);
    auto [destroy_peer, destruction] = co_await server.accept_request();
    co_await destroy_peer.reply("true");
    const error_code destroy_error = co_await destroy.wait();
    BOOST_TEST(!destroy_error);
    destroy_peer.close();
  }
}

ASYNC_TEST_CASE(a_repeated_write_that_ends_unsent_is_still_unknown) {
  scripted_server server(ex);
  client consul(ex, settings_for(server));
  pending<> destroy(ex, consul.destroy_session("i", {.timeout = brief, .retry = true, .diag = nullptr}));
  auto [peer, request] = co_await server.accept_request();
  server.stop();
  peer.reset();
  const error_code ec = co_await destroy.wait();
  BOOST_TEST(ec == error::connection_lost);
}

ASYNC_TEST_CASE(definite_refusals_are_final_and_keep_the_connection) {
  scripted_server server(ex);
  client consul(ex, settings_for(server));
  diagnostics diag;
  pending<entry_answer> get(ex, consul.get("k", [&diag] {
    read_options options;
    options.request.diag = &diag;
    return options;
  }()));
  auto [peer, request] = co_await server.accept_request();
  co_await peer.refuse(403, "Permission denied:\tk\n");
  const error_code ec = co_await get.wait();
  BOOST_TEST(ec == error::permission_denied);
  BOOST_TEST(diag.server_message == "Permission denied: k");
  BOOST_TEST(diag.message == "get: " + server.address() + " answered 403: " + ec.message());

  pending<bool> acquire(ex, consul.acquire("k", "v", "i"));
  co_await peer.read_request();
  co_await peer.refuse(500, R"(invalid session "i")");
  const error_code acquired = co_await acquire.wait();
  BOOST_TEST(acquired == error::invalid_session);
  BOOST_TEST(consul.statistics().connections_opened == 1u);
}

ASYNC_TEST_CASE(what_the_token_may_not_read_is_told_from_what_is_not_there) {
  scripted_server server(ex);
  client consul(ex, settings_for(server));
  diagnostics diag;
  pending<entries_answer> blind(ex, consul.list("p/", read_once(&diag)));
  auto [peer, request] = co_await server.accept_request();
  co_await peer.send(
      "HTTP/1.1 404 Not Found\r\nX-Consul-Index: 3\r\nX-Consul-Results-Filtered-By-Acls: true\r\n"
      "Content-Length: 0\r\n\r\n");
  const error_code ec = co_await blind.wait();
  BOOST_TEST(!ec);
  BOOST_TEST(blind.value().value.empty());
  BOOST_TEST(blind.value().meta.filtered_by_acls);
  BOOST_TEST(diag.message == "list: " + server.address() + " left out what the ACL token may not read");
  BOOST_TEST(diag.key == "p/");
  BOOST_TEST(diag.server_message.empty());

  diag = diagnostics();
  pending<entries_answer> empty(ex, consul.list("p/", read_once(&diag)));
  co_await peer.read_request();
  co_await peer.send(absent);
  co_await empty.wait();
  BOOST_TEST(!empty.value().meta.filtered_by_acls);
  BOOST_TEST((diag == diagnostics()));
}

ASYNC_TEST_CASE(replies_that_are_none) {
  scripted_server server(ex);
  config settings = settings_for(server);
  settings.reply_bytes_max = 1024;
  client consul(ex, settings);
  const std::pair<std::string, error> replies[] = {
      {"SSH-2.0-OpenSSH_9.2\r\n", error::not_consul},
      {std::string("\x15\x03\x01\x00\x02\x02\x28", 7), error::not_consul},
      {"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{}", error::not_consul},
      {"HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\n[{\"Key\":1}", error::not_consul},
      {"HTTP/1.1 200 OK\r\nContent-Length: 1025\r\n\r\n", error::reply_too_large},
      {"HTTP/1.1 400 Bad Request\r\nContent-Length: 48\r\n\r\nClient sent an HTTP request to an HTTPS server.\n",
       error::plain_http_refused},
  };
  for (const auto& [bytes, expected] : replies) {
    pending<entry_answer> get(ex, consul.get("k", read_once(nullptr)));
    auto [peer, request] = co_await server.accept_request();
    co_await peer.send(bytes);
    const error_code ec = co_await get.wait();
    BOOST_TEST(ec == expected);
    peer.close();
  }
}

ASYNC_TEST_CASE(a_long_listing_is_decoded_in_parts) {
  scripted_server server(ex);
  client consul(ex, settings_for(server));
  const std::string bytes = reply_in_20_parts();
  pending<keys_answer> keys(ex, consul.keys("some/"));
  auto [peer, request] = co_await server.accept_request();
  bool is_sent = false;
  int turns = 0;  // of other work on the strand, after the last byte
  const auto others = [&]() -> asio::awaitable<void> {
    while (!keys.ready()) {
      if (is_sent && consul.statistics().bytes_received == bytes.size()) ++turns;
      co_await asio::post(consul.strand(), asio::use_awaitable);
    }
  };
  asio::co_spawn(consul.strand(), others(), asio::detached);
  co_await peer.send(bytes);
  is_sent = true;
  const error_code ended = co_await keys.wait();
  BOOST_TEST(!ended);
  BOOST_TEST(turns > 10);
}

ASYNC_TEST_CASE(a_reply_that_has_arrived_is_not_cancelled) {
  scripted_server server(ex);
  client consul(ex, settings_for(server));
  const std::string bytes = reply_in_20_parts();
  pending<keys_answer> keys(ex, consul.keys("some/"));
  auto [peer, request] = co_await server.accept_request();
  const auto close = [&]() -> asio::awaitable<void> {
    while (consul.statistics().bytes_received != bytes.size())
      co_await asio::post(consul.strand(), asio::use_awaitable);
    BOOST_TEST(!keys.ready());
    consul.close();
  };
  asio::co_spawn(consul.strand(), close(), asio::detached);
  co_await peer.send(bytes);
  const error_code ended = co_await keys.wait();
  BOOST_TEST(!ended);
}

ASYNC_TEST_CASE(the_result_of_a_read_may_take_twice_the_size_of_a_reply) {
  scripted_server server(ex);
  config settings = settings_for(server);
  settings.reply_bytes_max = 1024;
  client consul(ex, settings);
  std::string names = "[";
  while (names.size() < 1000) names += R"("",)";
  names.back() = ']';
  pending<keys_answer> keys(ex, consul.keys("some/"));
  auto [peer, request] = co_await server.accept_request();
  co_await peer.reply(names);
  const error_code ec = co_await keys.wait();
  BOOST_TEST(ec == error::reply_too_large);
  BOOST_TEST(keys.value().value.empty());
}

ASYNC_TEST_CASE(an_answer_that_takes_more_memory_than_there_is_fails_its_operation_only) {
  scripted_server server(ex);
  const auto impl = std::make_shared<detail::client_impl>(ex, settings_for(server));
  diagnostics diag;
  std::optional<error_code> result;
  asio::steady_timer done(ex, asio::steady_timer::time_point::max());
  const detail::get_request get{"k", read_once(&diag)};
  impl->start(std::make_shared<starving>(impl, detail::make_call(impl->calls(), get), result, done));
  auto [peer, request] = co_await server.accept_request();
  co_await peer.reply("[]");
  error_code ignored;
  co_await done.async_wait(asio::redirect_error(asio::use_awaitable, ignored));
  BOOST_REQUIRE(result.has_value());
  BOOST_TEST(*result == error::reply_too_large);
  BOOST_TEST(!diag.message.empty());
}

ASYNC_TEST_CASE(a_refusal_that_comes_before_the_whole_request_was_taken, 30s) {
  scripted_server server(ex);
  client consul(ex, settings_for(server));
  pending<bool> put(ex, consul.put("k", std::string(32u << 20, 'x')));
  scripted_peer peer = co_await server.accept();
  co_await peer.refuse(413, "Request body(33554432 bytes) too large");
  peer.close();  // with most of the request unread, so the client gets a reset behind the reply
  const error_code ec = co_await put.wait();
  BOOST_TEST(ec == error::too_large);
}

ASYNC_TEST_CASE(a_request_that_the_socket_does_not_take_at_once_arrives_whole, 30s) {
  scripted_server server(ex);
  client consul(ex, settings_for(server));
  const std::string value(16u << 20, 'x');
  pending<bool> put(ex, consul.put("k", value));
  auto [peer, request] = co_await server.accept_request();
  BOOST_TEST(request.ends_with("\r\n\r\n" + value));
  co_await peer.reply("true");
  const error_code ec = co_await put.wait();
  BOOST_TEST(!ec);
  BOOST_TEST(consul.statistics().bytes_sent == request.size());
}

ASYNC_TEST_CASE(a_full_queue_and_a_deadline_in_the_queue_say_too_busy) {
  scripted_server server(ex);
  config settings = settings_for(server);
  settings.connections_max = 1;
  settings.queue_max = 1;
  client consul(ex, settings);
  pending<bool> running(ex, consul.put("k", "1"));
  auto [peer, request] = co_await server.accept_request();
  pending<bool> queued(ex, consul.put("k", "2", 0, {.timeout = brief, .retry = true, .diag = nullptr}));
  pending<bool> refused(ex, consul.put("k", "3"));
  const error_code at_once = co_await refused.wait();
  BOOST_TEST(at_once == error::too_busy);
  const error_code late = co_await queued.wait();
  BOOST_TEST(late == error::too_busy);
  BOOST_TEST((late == condition::not_applied));
  co_await peer.reply("true");
  const error_code ec = co_await running.wait();
  BOOST_TEST(!ec);
  BOOST_TEST(consul.statistics().requests == 1u);
}

ASYNC_TEST_CASE(renewals_wait_for_nobody_else) {
  scripted_server server(ex);
  config settings = settings_for(server);
  settings.renewals_max = 1;
  settings.connections_max = 1;
  settings.blocking_max = 1;
  client consul(ex, settings);
  pending<bool> put(ex, consul.put("k", "1"));
  auto [put_peer, put_request] = co_await server.accept_request();
  pending<entry_answer> watch(ex, consul.get("k", watching(7)));
  auto [watch_peer, watch_request] = co_await server.accept_request();
  pending<> renew(ex, consul.renew_session("i"));
  auto [renew_peer, renew_request] = co_await server.accept_request();
  BOOST_TEST(renew_request.starts_with("PUT /v1/session/renew/i "));
  pending<> second_renew(ex, consul.renew_session("j"));
  co_await renew_peer.reply(session_body);
  const std::string second_request = co_await renew_peer.read_request();
  BOOST_TEST(second_request.starts_with("PUT /v1/session/renew/j "));
  co_await renew_peer.reply(session_body);
  co_await second_renew.wait();

  // The reserved connection stays reserved: an ordinary request does not take it while it is idle.
  pending<bool> queued(ex, consul.put("k", "2"));
  pending<> third_renew(ex, consul.renew_session("i"));
  const std::string third_request = co_await renew_peer.read_request();
  BOOST_TEST(third_request.starts_with("PUT /v1/session/renew/i "));
  BOOST_TEST(!queued.ready());
  BOOST_TEST(consul.statistics().connections_opened == 3u);
}

ASYNC_TEST_CASE(a_renewal_that_hangs_delays_no_other) {
  scripted_server server(ex);
  client consul(ex, settings_for(server));
  pending<> hanging(ex, consul.renew_session("h"));
  auto [silent, request] = co_await server.accept_request();
  std::vector<pending<>> renewals;
  for (int i = 0; i < 20; ++i) renewals.emplace_back(ex, consul.renew_session("i"));
  auto [peer, other] = co_await server.accept_request();
  for (int i = 0; i < 20; ++i) {
    co_await peer.reply(session_body);
    if (i < 19) co_await peer.read_request();
  }
  for (auto& renewal : renewals) {
    const error_code ec = co_await renewal.wait();
    BOOST_TEST(!ec);
  }
  BOOST_TEST(!hanging.ready());
}

ASYNC_TEST_CASE(many_sessions_live_on_over_a_slow_network, 30s) {
  // Like a session of 10 s with a round trip of 0.4 s.
  constexpr std::size_t sessions = 300;
  holdfast::testing::server_options options;
  options.model.session_ttl_min = 1s;
  holdfast::testing::server agent(options);
  config settings = agent.client_config();
  settings.request_timeout = ample;
  client consul(ex, settings);
  session_options session;
  session.ttl = 2s;
  session.node_checks = false;
  std::vector<std::string> ids;
  for (std::size_t i = 0; i < sessions; ++i) {
    std::string id = co_await consul.create_session(session);
    ids.push_back(std::move(id));
  }
  agent.set_faults(holdfast::testing::fault_plan(
      {{.what = holdfast::testing::fault::delay(80ms), .target = "/v1/session/renew", .times = 0}}));

  std::size_t running = sessions;
  asio::steady_timer all_done(ex, asio::steady_timer::time_point::max());
  // Longer than Consul keeps a session that is not renewed.
  const auto end = asio::steady_timer::clock_type::now() + 3 * session.ttl;
  const auto keep_alive = [&](std::string id) -> asio::awaitable<void> {
    while (asio::steady_timer::clock_type::now() < end) {
      error_code ec;
      co_await consul.renew_session(id, asio::redirect_error(asio::use_awaitable, ec));
      BOOST_TEST(!ec);
      if (ec) break;
      asio::steady_timer until_due(ex, session.ttl / 3);
      co_await until_due.async_wait(asio::use_awaitable);
    }
    if (--running == 0) all_done.cancel();
  };
  for (const std::string& id : ids) asio::co_spawn(ex, keep_alive(id), asio::detached);
  error_code ignored;
  co_await all_done.async_wait(asio::redirect_error(asio::use_awaitable, ignored));
  const client_statistics counted = consul.statistics();
  BOOST_TEST(counted.connections_opened <= settings.renewals_max + settings.connections_max);
}

ASYNC_TEST_CASE(a_full_queue_refuses_no_renewal_and_no_other_kind) {
  scripted_server server(ex);
  config settings = settings_for(server);
  settings.renewals_max = 1;
  settings.connections_max = 1;
  settings.blocking_max = 1;
  settings.queue_max = 1;
  client consul(ex, settings);
  pending<bool> put(ex, consul.put("k", "1"));
  auto [put_peer, put_request] = co_await server.accept_request();
  pending<bool> queued(ex, consul.put("k", "2"));
  pending<bool> refused(ex, consul.put("k", "3"));
  const error_code full = co_await refused.wait();
  BOOST_TEST(full == error::too_busy);

  std::vector<pending<>> renewals;
  for (int i = 0; i < 4; ++i) renewals.emplace_back(ex, consul.renew_session("i"));
  auto [renew_peer, first] = co_await server.accept_request();
  co_await renew_peer.reply(session_body);
  for (int i = 1; i < 4; ++i) {
    co_await renew_peer.read_request();
    co_await renew_peer.reply(session_body);
  }
  for (auto& renewal : renewals) {
    const error_code ec = co_await renewal.wait();
    BOOST_TEST(!ec);
  }

  pending<entry_answer> watch(ex, consul.get("a", watching(7)));
  auto [watch_peer, watch_request] = co_await server.accept_request();
  pending<entry_answer> waiting(ex, consul.get("b", watching(7)));
  pending<entry_answer> one_too_many(ex, consul.get("c", watching(7)));
  const error_code also_full = co_await one_too_many.wait();
  BOOST_TEST(also_full == error::too_busy);
  BOOST_TEST(!queued.ready());
  BOOST_TEST(!waiting.ready());
}

ASYNC_TEST_CASE(blocking_queries_wait_for_blocking_queries_only) {
  scripted_server server(ex);
  config settings = settings_for(server);
  settings.blocking_max = 1;
  client consul(ex, settings);
  pending<entry_answer> first(ex, consul.get("a", watching(7)));
  auto [peer, request] = co_await server.accept_request();
  BOOST_TEST(request.starts_with("GET /v1/kv/a?index=7&wait="));
  pending<entry_answer> second(ex, consul.get("b", watching(7)));
  pending<bool> put(ex, consul.put("k", "1"));
  auto [other, put_request] = co_await server.accept_request();
  BOOST_TEST(put_request.starts_with("PUT "));
  co_await other.reply("true");
  co_await put.wait();
  BOOST_TEST(!second.ready());
  co_await peer.send(absent);
  const error_code ec = co_await first.wait();
  BOOST_TEST(!ec);
  BOOST_TEST(first.value().meta.index == 3u);

  // The second request takes any idle connection, and opens none.
  co_await asio::post(ex, asio::use_awaitable);
  const std::string next = co_await peer.read_request();
  BOOST_TEST(next.starts_with("GET /v1/kv/b?index=7"));
  BOOST_TEST(consul.statistics().connections_opened == 2u);
}

ASYNC_TEST_CASE(what_a_blocking_query_waits_for_its_place_is_a_part_of_its_wait) {
  scripted_server server(ex);
  config settings = settings_for(server);
  settings.blocking_max = 1;
  client consul(ex, settings);
  pending<entry_answer> first(ex, consul.get("a", watching(7)));
  auto [peer, request] = co_await server.accept_request();
  BOOST_TEST((wait_of(request) > 59s));
  pending<entry_answer> second(ex, consul.get("b&wait=1ms", watching(7)));
  read_options shorter = watching(7);
  shorter.wait = 20ms;
  pending<entry_answer> third(ex, consul.get("c", shorter));
  asio::steady_timer pause(ex, 50ms);
  co_await pause.async_wait(asio::use_awaitable);
  co_await peer.send(absent);
  const std::string second_request = co_await peer.read_request();
  BOOST_TEST(second_request.starts_with("GET /v1/kv/b%26wait%3D1ms?index=7&wait="));
  BOOST_TEST((wait_of(second_request) <= 60s - 50ms));
  BOOST_TEST((wait_of(second_request) > 30s));
  co_await peer.send(absent);
  const std::string third_request = co_await peer.read_request();
  BOOST_TEST(third_request.starts_with("GET /v1/kv/c?index=7&wait=1ms HTTP/1.1\r\nHost: "));  // 0 would be 5 minutes
  co_await peer.send(absent);
  const error_code ec = co_await third.wait();
  BOOST_TEST(!ec);
}

ASYNC_TEST_CASE(a_blocking_query_is_not_late_for_having_waited_for_its_place, 10s) {
  scripted_server server(ex);
  config settings = settings_for(server);
  settings.blocking_max = 1;
  client consul(ex, settings);
  pending<entry_answer> first(ex, consul.get("a", watching(7)));
  auto [peer, request] = co_await server.accept_request();
  read_options options = watching(7);
  options.wait = 1s;
  options.request.timeout = 500ms;
  pending<entry_answer> second(ex, consul.get("b", options));
  asio::steady_timer pause(ex, 2s);  // past its own 1 s + 1/16 s + 500 ms, within the one wait more that it has here
  co_await pause.async_wait(asio::use_awaitable);
  BOOST_TEST(!second.ready());
  co_await peer.send(absent);
  const std::string next = co_await peer.read_request();
  BOOST_TEST(next.starts_with("GET /v1/kv/b?index=7&wait=1ms "));
  co_await peer.send(absent);
  const error_code ec = co_await second.wait();
  BOOST_TEST(!ec);
}

ASYNC_TEST_CASE(a_blocking_query_without_a_place_names_the_option) {
  scripted_server server(ex);
  config settings = settings_for(server);
  settings.blocking_max = 1;
  client consul(ex, settings);
  pending<entry_answer> first(ex, consul.get("a", watching(7)));
  auto [peer, request] = co_await server.accept_request();
  diagnostics diag;
  read_options options = watching(7);
  options.wait = 20ms;
  options.request = once(brief, &diag);
  pending<entry_answer> second(ex, consul.get("b", options));
  const error_code ec = co_await second.wait();
  BOOST_TEST(ec == error::too_busy);
  BOOST_TEST(diag.message == "get: not sent: all places for blocking queries to " + server.address() +
                                 " were taken (config::blocking_max)");
  BOOST_TEST(consul.statistics().requests == 1u);
}

ASYNC_TEST_CASE(a_blocking_query_is_not_repeated_once_it_was_sent) {
  scripted_server server(ex);
  client consul(ex, settings_for(server));
  pending<entry_answer> watch(ex, consul.get("k", watching(7)));
  auto [peer, request] = co_await server.accept_request();
  co_await peer.refuse(500, "rpc error making call: EOF");
  const error_code ec = co_await watch.wait();
  BOOST_TEST(ec == error::server_error);
  BOOST_TEST(consul.statistics().requests == 1u);
}

ASYNC_TEST_CASE(a_cancelled_request_closes_its_connection) {
  scripted_server server(ex);
  client consul(ex, settings_for(server));
  for (const auto type :
       {asio::cancellation_type::terminal, asio::cancellation_type::partial, asio::cancellation_type::total}) {
    asio::cancellation_signal signal;
    pending<bool> put(ex, [&](auto handler) {
      consul.put("k", "1", asio::bind_cancellation_slot(signal.slot(), std::move(handler)));
    });
    auto [peer, request] = co_await server.accept_request();
    signal.emit(type);
    const error_code result = co_await put.wait();
    BOOST_TEST(result == asio::error::operation_aborted);
    const bool closed = co_await peer.closed_by_client();
    BOOST_TEST(closed);
    signal.emit(type);  // a late signal finds nothing
  }
  BOOST_TEST(consul.statistics().connections_open == 0u);
}

/// The agent has not answered on that connection, but other connections work.
ASYNC_TEST_CASE(a_query_that_was_cancelled_is_none_that_the_agent_refused) {
  scripted_server server(ex);
  client consul(ex, settings_for(server));
  read_options waits;
  waits.index = 1;
  waits.wait = 60s;
  asio::cancellation_signal signal;
  pending<entry_answer> stays(ex, consul.get("k", waits));
  pending<entry_answer> goes(ex, [&](auto handler) {
    consul.get("k", waits, asio::bind_cancellation_slot(signal.slot(), std::move(handler)));
  });
  auto [peer, request] = co_await server.accept_request();
  auto [other_peer, other_request] = co_await server.accept_request();
  signal.emit(asio::cancellation_type::terminal);
  co_await goes.wait();
  BOOST_TEST(consul.statistics().connections_refused == 0u);
}

ASYNC_TEST_CASE(a_cancelled_queued_request_leaves_the_others_alone) {
  scripted_server server(ex);
  config settings = settings_for(server);
  settings.connections_max = 1;
  client consul(ex, settings);
  pending<bool> running(ex, consul.put("running", ""));
  auto [peer, request] = co_await server.accept_request();
  asio::cancellation_signal signal;
  pending<bool> cancelled(ex, [&](auto handler) {
    consul.put("cancelled", "", asio::bind_cancellation_slot(signal.slot(), std::move(handler)));
  });
  pending<bool> next(ex, consul.put("next", ""));
  signal.emit(asio::cancellation_type::total);
  co_await peer.reply("true");
  const std::string next_request = co_await peer.read_request();
  BOOST_TEST(next_request.starts_with("PUT /v1/kv/next "));
  const error_code result = co_await cancelled.wait();
  BOOST_TEST(result == asio::error::operation_aborted);
}

ASYNC_TEST_CASE(close_ends_everything) {
  scripted_server server(ex);
  config settings = settings_for(server);
  settings.connections_max = 1;
  client consul(ex, settings);
  pending<bool> idle(ex, consul.put("k", ""));
  auto [idle_peer, idle_request] = co_await server.accept_request();
  pending<> renew(ex, consul.renew_session("i"));
  auto [renew_peer, renew_request] = co_await server.accept_request();
  co_await renew_peer.reply(session_body);
  co_await renew.wait();
  pending<bool> queued(ex, consul.put("queued", ""));
  consul.close();
  const error_code running_error = co_await idle.wait();
  const error_code queued_error = co_await queued.wait();
  BOOST_TEST(running_error == error::closed);
  BOOST_TEST(queued_error == error::closed);
  const bool running_closed = co_await idle_peer.closed_by_client();
  const bool idle_closed = co_await renew_peer.closed_by_client();
  BOOST_TEST(running_closed);
  BOOST_TEST(idle_closed);
  pending<bool> later(ex, consul.put("later", ""));
  const error_code later_error = co_await later.wait();
  BOOST_TEST(later_error == error::closed);
  BOOST_TEST(consul.statistics().connections_open == 0u);
  consul.close();
}

ASYNC_TEST_CASE(invalid_arguments_are_told_and_not_sent) {
  scripted_server server(ex);
  client consul(ex, settings_for(server));
  diagnostics diag;
  pending<txn_reply> txn(ex,
                         consul.transact(std::vector<txn_operation>(129, txn_operation::get("k")), once(ample, &diag)));
  const error_code ec = co_await txn.wait();
  BOOST_TEST(ec == error::too_large);
  BOOST_TEST(diag.message == "transact: not sent: more operations than Consul takes in one transaction");
  BOOST_TEST(consul.statistics().connections_opened == 0u);
}

ASYNC_TEST_CASE(what_a_consul_takes_in_a_transaction_is_learnt_from_its_refusal) {
  scripted_server server(ex);
  client consul(ex, settings_for(server));
  const auto transact = [&](std::size_t operations) {
    return consul.transact(std::vector<txn_operation>(operations, txn_operation::get("k")), once(ample));
  };
  // Consul never accepts so little. So the client believes this for the one request only.
  pending<txn_reply> doubtful(ex, transact(65));
  auto [peer, request] = co_await server.accept_request();
  co_await peer.refuse(413, "Transaction contains too many operations (65 > 3)");
  const error_code doubted = co_await doubtful.wait();
  BOOST_TEST(doubted == error::too_large);
  pending<txn_reply> first(ex, transact(128));
  co_await peer.read_request();
  co_await peer.refuse(413, "Transaction contains too many operations (128 > 64)");
  const error_code refused = co_await first.wait();
  BOOST_TEST(refused == error::too_large);
  const std::uint64_t sent = consul.statistics().requests;
  pending<txn_reply> larger(ex, transact(65));
  const error_code not_sent = co_await larger.wait();
  BOOST_TEST(not_sent == error::too_large);
  BOOST_TEST(consul.statistics().requests == sent);
  pending<txn_reply> small(ex, transact(64));
  co_await peer.read_request();
  co_await peer.refuse(409, R"({"Results":null,"Errors":[{"OpIndex":0,"What":"no"}]})");
  const error_code answered = co_await small.wait();
  BOOST_TEST(!answered);
}

ASYNC_TEST_CASE(handlers_run_on_their_executor_and_never_in_the_strand) {
  scripted_server server(ex);
  client consul(ex, settings_for(server));
  using strand_type = holdfast::platform::strand_type;
  const strand_type own(ex);
  const auto inside = *consul.strand().target<strand_type>();
  asio::steady_timer done(ex, asio::steady_timer::time_point::max());
  bool in_own = false;
  bool in_clients = true;
  consul.put("k", "1", asio::bind_executor(own, [&](error_code, bool) {
               in_own = own.running_in_this_thread();
               in_clients = inside.running_in_this_thread();
               done.cancel();
             }));
  auto [peer, request] = co_await server.accept_request();
  co_await peer.reply("true");
  error_code ignored;
  co_await done.async_wait(asio::redirect_error(asio::use_awaitable, ignored));
  BOOST_TEST(in_own);
  BOOST_TEST(!in_clients);
}

// It may be a part that is in the middle of something, and has called the client for it.
ASYNC_TEST_CASE(the_strands_own_handlers_run_in_it_and_not_before_the_call_has_returned) {
  scripted_server server(ex);
  config settings = settings_for(server);
  settings.connections_max = 1;
  settings.queue_max = 1;
  client consul(ex, settings);
  const auto inside = *consul.strand().target<holdfast::platform::strand_type>();
  asio::steady_timer done(ex, asio::steady_timer::time_point::max());
  std::vector<error_code> results;
  bool returned = false;
  const auto handler = [&](error_code ec, bool) {
    BOOST_TEST(returned);
    BOOST_TEST(inside.running_in_this_thread());
    results.push_back(ec);
    if (results.size() == 4) done.cancel();
  };
  asio::post(inside, [&] {
    consul.put("answered", "1", asio::bind_executor(consul.strand(), handler));
    consul.put("queued", "1", asio::bind_executor(consul.strand(), handler));
    consul.put("too busy", "1", asio::bind_executor(consul.strand(), handler));
    consul.put("invalid", "1", 0, once(-1ms), asio::bind_executor(consul.strand(), handler));
    returned = true;
  });
  auto [peer, request] = co_await server.accept_request();
  co_await peer.reply("true");
  co_await peer.read_request();
  co_await peer.reply("true");
  error_code ignored;
  co_await done.async_wait(asio::redirect_error(asio::use_awaitable, ignored));
  const std::vector<error_code> expected{error::too_busy, error::invalid_option, {}, {}};
  BOOST_TEST(results == expected, boost::test_tools::per_element());
}

// A thread of the context enters the strand at once if the strand is free.
ASYNC_TEST_CASE(the_strands_own_handlers_are_not_called_by_who_starts_outside_of_it_either) {
  client consul(ex, config());
  consul.close();
  pending<bool> closed(ex, consul.put("k", ""));
  co_await closed.wait();
  bool returned = false;
  asio::steady_timer done(ex, asio::steady_timer::time_point::max());
  consul.put("k", "", asio::bind_executor(consul.strand(), [&](error_code ec, bool) {
               BOOST_TEST(returned);
               BOOST_TEST(ec == error::closed);
               done.cancel();
             }));
  returned = true;
  error_code ignored;
  co_await done.async_wait(asio::redirect_error(asio::use_awaitable, ignored));
}

ASYNC_TEST_CASE(a_copy_is_the_same_client) {
  client consul(ex, config());
  // NOLINTNEXTLINE(performance-unnecessary-copy-initialization): the copy is under test
  client copy(consul);  // of what is not const: an executor of its own makes it look like a context
  BOOST_TEST((copy.strand() == consul.strand()));
  co_return;
}

BOOST_AUTO_TEST_CASE(run_does_not_return_before_a_handler_of_another_context_was_called) {
  asio::io_context clients_context;
  scripted_server server(clients_context.get_executor());
  client consul(clients_context, settings_for(server));
  asio::io_context users_context;
  bool called = false;
  consul.put("k", "1", asio::bind_executor(users_context.get_executor(), [&](error_code, bool) { called = true; }));
  BOOST_TEST(users_context.poll() == 0u);
  BOOST_TEST(!users_context.stopped(), "the operation is work of the handler's context");
  server.stop();
  consul.close();
  clients_context.run();
  users_context.run();
  BOOST_TEST(called);
}

BOOST_AUTO_TEST_CASE(the_context_may_go_with_requests_in_every_state) {
  int called = 0;
  asio::cancellation_signal signals[4];
  client survivor;
  {
    asio::io_context context;
    scripted_server server(context.get_executor());
    config settings = settings_for(server);
    settings.connections_max = 1;
    survivor = client(context, settings);
    config unresolved = settings;
    unresolved.address = "localhost:1";
    client resolving(context, unresolved);

    // Handlers that own a client, as the frame of a coroutine may.
    const auto handler = [&](int n, client owned) {
      auto shared = std::make_shared<client>(std::move(owned));
      return asio::bind_cancellation_slot(signals[n].slot(),
                                          [&called, shared = std::move(shared)](error_code, auto&&...) { ++called; });
    };
    survivor.renew_session("i", handler(0, survivor));  // answered: leaves an idle connection
    bool sent = false;
    std::vector<scripted_peer> peers;
    asio::co_spawn(
        context,
        [&]() -> asio::awaitable<void> {
          for (int i = 0; i < 3; ++i) {
            auto [peer, request] = co_await server.accept_request();
            if (request.starts_with("PUT /v1/session")) co_await peer.reply(session_body);
            peers.push_back(std::move(peer));
          }
          sent = true;
        },
        asio::detached);
    survivor.put("running", "1", handler(1, survivor));
    survivor.put("queued", "1", handler(2, survivor));
    survivor.get("watched", watching(7), handler(3, survivor));
    while (!sent || called == 0) context.run_one();
    resolving.put("k", "1", [&called](error_code, bool) { ++called; });
    context.poll();
    survivor.put("posted", "1", [&called](error_code, bool) { ++called; });
    BOOST_TEST(called == 1);
  }
  BOOST_TEST(called == 1, "destroyed handlers are not called");
  BOOST_TEST(survivor.statistics().connections_open == 0u);
  for (auto& signal : signals) signal.emit(asio::cancellation_type::all);
  survivor.close();
  BOOST_TEST(survivor.valid());
}

// As some servers do with every request that lasts for 30 s.
ASYNC_TEST_CASE(a_blocking_query_that_is_cut_while_it_waits_is_asked_again, 30s) {
  scripted_server server(ex);
  client consul(ex, settings_for(server));
  holdfast::consul::read_options options;
  options.index = 7;
  options.wait = 60s;
  pending<entry_answer> get(ex, consul.get("k", options));
  auto [peer, request] = co_await server.accept_request();
  BOOST_TEST(request.find("wait=60000ms") != std::string::npos);
  asio::steady_timer timer(ex, 1'100ms);
  co_await timer.async_wait(asio::use_awaitable);
  peer.close();
  auto [next, again] = co_await server.accept_request();
  BOOST_TEST(again.starts_with("GET /v1/kv/k?index=7&wait=5"));
  next.close();  // at once: that is no such server
  const error_code ended = co_await get.wait();
  BOOST_TEST(ended == error::connection_lost);
}

ASYNC_TEST_CASE(a_renewal_uses_any_connection_if_no_other_can_be_opened) {
  const holdfast::testing::server fake;
  client consul(ex, fake.client_config());
  const session_options session;
  const std::string id = co_await consul.create_session(session);
  const holdfast::test::few_descriptors none(3);
  const auto [ec] = co_await consul.renew_session(id, holdfast::test::as_result);
  BOOST_TEST(!ec);
}

BOOST_AUTO_TEST_SUITE_END()
