// SPDX-FileCopyrightText: The holdfast authors
// SPDX-License-Identifier: BSL-1.0

#include "rabbitmq/connection.hpp"

#include <array>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/read.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <boost/asio/write.hpp>
#include <boost/test/unit_test.hpp>
#include <chrono>
#include <holdfast/error.hpp>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "rabbitmq/client_impl.hpp"
#include "rabbitmq/frame.hpp"
#include "rabbitmq/method.hpp"
#include "support/async.hpp"
#include "support/scripted_server.hpp"

BOOST_AUTO_TEST_SUITE(rabbitmq_connection)

namespace {

using namespace holdfast;
using namespace rabbitmq::detail;
using namespace std::chrono_literals;
using test::as_result;
namespace asio = boost::asio;
using asio::ip::tcp;
using clock = std::chrono::steady_clock;

/// The broker's side of one connection.
class server {
public:
  explicit server(const asio::any_io_executor& ex)
      : acceptor_(ex, {asio::ip::address_v4::loopback(), 0}), socket_(ex) {}

  rabbitmq::config config() const {
    rabbitmq::config settings;
    settings.address = "amqp://user:secret@127.0.0.1:" + std::to_string(acceptor_.local_endpoint().port());
    settings.connect_timeout = 500ms;
    return settings;
  }
  asio::awaitable<void> accept() { socket_ = co_await acceptor_.async_accept(asio::use_awaitable); }
  asio::awaitable<void> send(std::string bytes) {
    co_await asio::async_write(socket_, asio::buffer(bytes), asio::use_awaitable);
  }
  asio::awaitable<void> say(std::uint16_t channel, method what) {
    std::string bytes;
    BOOST_REQUIRE(!append_method(bytes, channel, what));
    return send(std::move(bytes));
  }
  /// Reads up to the end of one frame. Empty if the client has closed the connection.
  asio::awaitable<std::optional<frame_type>> read() {
    while (true) {
      std::optional<frame> found;
      std::string_view rest = received_;
      const bool is_good = !reader_.read(rest, found);
      BOOST_REQUIRE(is_good);
      received_.erase(0, received_.size() - rest.size());
      if (found) co_return found->type;
      std::array<char, 1024> space;
      auto [ec, size] = co_await socket_.async_read_some(asio::buffer(space), as_result);
      if (ec) co_return std::nullopt;
      received_.append(space.data(), size);
    }
  }
  /// Accepts a connection, and lets it log in and open a channel.
  asio::awaitable<void> let_in(std::uint16_t channel_max = 2047, std::uint16_t heartbeat = 60) {
    co_await accept();
    co_await read_header();
    connection_start start;
    start.mechanisms = "PLAIN";
    co_await say(0, start);
    co_await read();  // start-ok
    const connection_tune tune{channel_max, 131'072, heartbeat};
    co_await say(0, tune);
    co_await read();  // tune-ok
    co_await read();  // open
    co_await say(0, connection_open_ok());
    co_await read();  // channel.open
    co_await say(1, channel_open_ok());
  }
  asio::awaitable<void> read_header() {
    std::array<char, 8> header;
    co_await asio::async_read(socket_, asio::buffer(header), asio::use_awaitable);
    BOOST_TEST(std::string_view(header.data(), header.size()) == protocol_header);
  }

private:
  tcp::acceptor acceptor_;
  tcp::socket socket_;
  std::string received_;
  frame_reader reader_{{131'072, content_header_least, 0}};
};

/// An attempt to connect, and its result.
struct attempt {
  attempt(const asio::any_io_executor& ex, const rabbitmq::config& settings, std::uint16_t heartbeat = 1)
      : client(client_impl::make(ex, settings)), news(ex, clock::time_point::max()) {
    asio::co_spawn(*client->strand(), run(*this, heartbeat), [](const std::exception_ptr&) {});
  }
  ~attempt() { client->close(); }
  attempt(const attempt&) = delete;
  attempt& operator=(const attempt&) = delete;

  static net::awaitable<void> run(attempt& self, std::uint16_t heartbeat) {
    opened made = co_await self.client->connect(heartbeat, std::string());
    if (made.link) {
      channel_user user;
      user.ended = [&self](const failure& why) {
        self.ended = why;
        self.news.cancel();
      };
      made.link->set_user(connection::first_channel, std::move(user));
    }
    self.result = std::move(made);
    self.news.cancel();
  }
  asio::awaitable<void> until_done() {
    while (!result) co_await wait();
  }
  asio::awaitable<void> until_ended() {
    while (!ended) co_await wait();
  }
  asio::awaitable<void> wait() {
    co_await news.async_wait(as_result);
    news.expires_at(clock::time_point::max());
  }

  std::shared_ptr<client_impl> client;
  asio::steady_timer news;
  std::optional<opened> result{};
  std::optional<failure> ended{};
};

}  // namespace

ASYNC_TEST_CASE(a_silent_broker_ends_a_connection_after_two_heartbeats) {
  server broker(ex);
  attempt client(ex, broker.config());
  const auto begun = clock::now();
  co_await broker.let_in();
  co_await client.until_done();
  BOOST_REQUIRE(client.result->link);
  int heartbeats = 0;
  for (std::optional<frame_type> each = frame_type::heartbeat; each;) {
    each = co_await broker.read();
    if (each == frame_type::heartbeat) ++heartbeats;
  }
  co_await client.until_ended();
  BOOST_TEST(client.ended->code == error::connection_lost);
  BOOST_TEST(client.ended->details.message.find("two heartbeats") != std::string::npos);
  BOOST_TEST(heartbeats >= 2);
  // One is sent each half second at most, however slow the machine is. Two heartbeats are 2 s, and the time before a
  // broker that has gone silent is given up must not be a multiple of them.
  BOOST_TEST(heartbeats <= 6);
  BOOST_TEST((clock::now() - begun < 20s));
}

ASYNC_TEST_CASE(a_request_that_is_not_answered_ends_its_connection) {
  server broker(ex);
  rabbitmq::config settings = broker.config();
  settings.request_timeout = 10min;  // the deadline of the request counts, not this
  attempt client(ex, settings, 600);
  co_await broker.let_in(2047, 600);
  co_await client.until_done();
  steps what;
  what.push_back({basic_get{"q", true}, {}, {}});
  std::optional<reply> answer;
  client.result->link->ask(1, std::move(what), clock::now() + 20ms, [&](reply&& its) { answer = std::move(its); });
  co_await client.until_ended();
  BOOST_TEST(client.ended->code == error::timed_out);
  BOOST_REQUIRE(answer);
  BOOST_TEST(answer->error.code == error::timed_out);
}

ASYNC_TEST_CASE(a_broker_that_does_not_answer_the_login_is_given_up) {
  server broker(ex);
  attempt client(ex, broker.config());
  co_await broker.accept();
  co_await client.until_done();
  BOOST_TEST(!client.result->link);
  BOOST_TEST(client.result->error.code == error::unreachable);
}

ASYNC_TEST_CASE(a_server_of_another_protocol_is_malformed) {
  server broker(ex);
  attempt client(ex, broker.config());
  co_await broker.accept();
  co_await broker.send("HTTP/1.1 400 Bad Request\r\n\r\n");
  co_await client.until_done();
  BOOST_TEST(client.result->error.code == error::malformed_reply);
}

ASYNC_TEST_CASE(too_low_limits_are_malformed) {
  server broker(ex);
  attempt client(ex, broker.config());
  co_await broker.accept();
  co_await broker.read_header();
  connection_start start;
  start.mechanisms = "PLAIN";
  co_await broker.say(0, start);
  const connection_tune tune{2, 131'072, 60};
  co_await broker.say(0, tune);
  co_await client.until_done();
  BOOST_TEST(client.result->error.code == error::malformed_reply);
}

ASYNC_TEST_CASE(nothing_is_sent_before_the_certificate_is_verified) {
  server broker(ex);
  rabbitmq::config settings = broker.config();
  settings.address.replace(0, 4, "amqps");
  attempt client(ex, settings);
  co_await broker.accept();
  co_await broker.send("not TLS, and no certificate");
  co_await client.until_done();
  BOOST_TEST(!client.result->link);
  BOOST_TEST(client.result->error.code == error::unreachable, client.result->error.details.to_string());
  BOOST_TEST(client.result->error.details.to_string().find("secret") == std::string::npos);
}

ASYNC_TEST_CASE(the_second_address_is_tried_if_the_first_one_is_dead) {
  server dead(ex);
  server broker(ex);
  rabbitmq::config settings = broker.config();
  settings.addresses = {dead.config().address, settings.address};
  attempt client(ex, settings);
  co_await broker.let_in();
  co_await client.until_done();
  BOOST_TEST((client.result->link != nullptr));
}

BOOST_AUTO_TEST_SUITE_END()
