// SPDX-FileCopyrightText: The holdfast authors
// SPDX-License-Identifier: BSL-1.0

#include "cluster/support/relay.hpp"

#include <boost/asio/as_tuple.hpp>
#include <boost/asio/buffer.hpp>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/detached.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/socket_base.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <boost/asio/write.hpp>
#include <deque>
#include <future>
#include <utility>

namespace holdfast::test {
namespace {

namespace asio = boost::asio;
using asio::ip::tcp;
using relay_clock = std::chrono::steady_clock;

constexpr auto as_outcome = asio::as_tuple(asio::use_awaitable);

}  // namespace

/// One direction of a connection, and the bytes that are on their way. An empty piece is the end of the stream.
struct relay::direction {
  direction(tcp::socket& source, tcp::socket& target, bool is_reply)
      : from(source), to(target), is_reply(is_reply), changed(source.get_executor()) {}
  tcp::socket& from;
  tcp::socket& to;
  const bool is_reply;
  std::deque<std::pair<relay_clock::time_point, std::string>> pieces{};
  asio::steady_timer changed;
};

struct relay::connection {
  explicit connection(tcp::socket client)
      : near(std::move(client)), far(near.get_executor()), up(near, far, false), down(far, near, true) {}
  tcp::socket near, far;
  direction up, down;
  bool is_closed = false;
};

relay::relay(const std::string& host, std::uint16_t port, std::chrono::milliseconds late)
    : server_(asio::ip::make_address(host), port),
      late_(late),
      acceptor_(io_, tcp::endpoint(asio::ip::address_v4::loopback(), 0)) {
  asio::co_spawn(io_, accept(), asio::detached);
  thread_ = std::thread([this] { io_.run(); });
}

relay::~relay() {
  io_.stop();
  thread_.join();
}

void relay::become(manner next) {
  run([this, next] {
    const bool ends_open_ones = next == manner::resets || manner_ == manner::hangs;
    manner_ = next;
    if (ends_open_ones) reset_all();
  });
}

void relay::reset_connections() {
  run([this] { reset_all(); });
}

/// Runs the step on the relay's thread, and waits for its end.
void relay::run(std::function<void()> step) {
  std::promise<void> done;
  asio::post(io_, [&] {
    step();
    done.set_value();
  });
  done.get_future().wait();
}

void relay::reset_all() {
  const std::set<connection_ptr> all = open_;
  for (const connection_ptr& each : all) {
    reset(*each);
    close(each);
  }
}

/// With this option, closing the socket sends a reset.
void relay::reset(connection& c) {
  boost::system::error_code ignored;
  c.near.set_option(asio::socket_base::linger(true, 0), ignored);
}

void relay::close(const connection_ptr& c) {
  c->is_closed = true;
  boost::system::error_code ignored;
  c->near.close(ignored);
  c->far.close(ignored);
  c->up.changed.cancel();
  c->down.changed.cancel();
  open_.erase(c);
}

asio::awaitable<void> relay::accept() {
  for (;;) {
    auto [failure, client] = co_await acceptor_.async_accept(as_outcome);
    if (failure) co_return;
    ++accepted_;
    auto c = std::make_shared<connection>(std::move(client));
    open_.insert(c);
    if (manner_ == manner::resets) {
      reset(*c);
      close(c);
    } else if (manner_ != manner::hangs) {
      asio::co_spawn(io_, serve(std::move(c)), asio::detached);
    }
  }
}

asio::awaitable<void> relay::serve(connection_ptr c) {
  const auto [failure] = co_await c->far.async_connect(server_, as_outcome);
  if (c->is_closed) co_return;
  if (failure) {
    close(c);
    co_return;
  }
  for (direction* each : {&c->up, &c->down}) {
    each->from.set_option(tcp::no_delay(true));
    asio::co_spawn(io_, read(c, *each), asio::detached);
    asio::co_spawn(io_, write(c, *each), asio::detached);
  }
}

asio::awaitable<void> relay::read(connection_ptr c, direction& way) {
  std::string buffer(65536, '\0');
  for (;;) {
    const auto [failure, size] = co_await way.from.async_read_some(asio::buffer(buffer), as_outcome);
    if (c->is_closed) co_return;
    const bool is_late = way.is_reply && manner_ == manner::delays;
    const auto due = relay_clock::now() + (is_late ? late_ : std::chrono::milliseconds(0));
    way.pieces.emplace_back(due, failure ? std::string() : buffer.substr(0, size));
    way.changed.cancel();
    if (failure) co_return;
  }
}

/// While the relay hangs, a piece stays where it is. The connection is reset when the relay passes bytes on again.
asio::awaitable<void> relay::write(connection_ptr c, direction& way) {
  for (;;) {
    const auto next = way.pieces.empty() ? relay_clock::time_point::max() : way.pieces.front().first;
    if (relay_clock::now() < next) {
      way.changed.expires_at(next);
      co_await way.changed.async_wait(as_outcome);
      if (c->is_closed) co_return;
      continue;
    }
    if (manner_ == manner::hangs) co_return;
    const std::string piece = std::move(way.pieces.front().second);
    way.pieces.pop_front();
    if (piece.empty()) {
      // Consul ends the blocking queries of a connection when it is closed, so both sides are closed.
      close(c);
      co_return;
    }
    const auto [failure, size] = co_await asio::async_write(way.to, asio::buffer(piece), as_outcome);
    if (c->is_closed) co_return;
    if (failure) {
      close(c);
      co_return;
    }
  }
}

}  // namespace holdfast::test
