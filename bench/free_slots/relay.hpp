// SPDX-FileCopyrightText: The holdfast authors
// SPDX-License-Identifier: BSL-1.0

#pragma once

#include <atomic>
#include <boost/asio/as_tuple.hpp>
#include <boost/asio/awaitable.hpp>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/detached.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <boost/asio/write.hpp>
#include <chrono>
#include <cstdint>
#include <deque>
#include <memory>
#include <string>
#include <string_view>
#include <thread>
#include <utility>

namespace holdfast::bench {

namespace asio = boost::asio;

/// A TCP relay on loopback that passes all bytes on after a delay, in each direction. It runs on a thread of its own.
/// The handshake of a connection is not delayed. The relay counts requests, bytes, and the sessions that are created
/// through it.
class relay {
public:
  using clock = std::chrono::steady_clock;

  relay(const std::string& host, std::uint16_t port, clock::duration one_way)
      : target_(asio::ip::make_address(host), port),
        one_way_(one_way),
        acceptor_(io_, asio::ip::tcp::endpoint(asio::ip::make_address("127.0.0.1"), 0)) {
    asio::co_spawn(io_, accept(), asio::detached);
    thread_ = std::thread([this] { io_.run(); });
  }
  relay(const relay&) = delete;
  relay& operator=(const relay&) = delete;
  ~relay() {
    io_.stop();
    thread_.join();
  }

  std::string address() const { return "127.0.0.1:" + std::to_string(acceptor_.local_endpoint().port()); }
  std::uint64_t sessions_created() const { return sessions_created_; }
  std::uint64_t requests() const { return requests_; }
  /// In both directions.
  std::uint64_t bytes() const { return bytes_; }

private:
  using socket = asio::ip::tcp::socket;
  static constexpr auto as_result = asio::as_tuple(asio::use_awaitable);

  /// One direction of a connection: the bytes that are on their way. An empty piece is the end of the stream.
  struct direction {
    explicit direction(asio::io_context& io) : changed(io, clock::time_point::max()) {}
    std::deque<std::pair<clock::time_point, std::string>> pieces;
    asio::steady_timer changed;
  };

  struct connection {
    connection(asio::io_context& io, socket client) : near(std::move(client)), far(io), up(io), down(io) {}
    socket near, far;
    direction up, down;
    void close() {
      boost::system::error_code ignored;
      near.close(ignored);
      far.close(ignored);
    }
  };

  asio::awaitable<void> accept() {
    for (;;) {
      auto [ec, client] = co_await acceptor_.async_accept(as_result);
      if (ec) co_return;
      auto accepted = std::make_shared<connection>(io_, std::move(client));
      asio::co_spawn(io_, serve(std::move(accepted)), asio::detached);
    }
  }

  asio::awaitable<void> serve(std::shared_ptr<connection> c) {
    auto [ec] = co_await c->far.async_connect(target_, as_result);
    if (ec) {
      c->close();
      co_return;
    }
    c->near.set_option(asio::ip::tcp::no_delay(true));
    c->far.set_option(asio::ip::tcp::no_delay(true));
    asio::co_spawn(io_, read(c, c->near, c->up), asio::detached);
    asio::co_spawn(io_, write(c, c->far, c->up), asio::detached);
    asio::co_spawn(io_, read(c, c->far, c->down), asio::detached);
    asio::co_spawn(io_, write(c, c->near, c->down), asio::detached);
  }

  asio::awaitable<void> read(std::shared_ptr<connection> c, socket& from, direction& way) {
    std::string buffer(65536, '\0');
    for (;;) {
      auto [ec, size] = co_await from.async_read_some(asio::buffer(buffer), as_result);
      const std::string_view piece(buffer.data(), ec ? 0 : size);
      const bool is_request = &way == &c->up && (piece.starts_with("GET /v1/") || piece.starts_with("PUT /v1/"));
      if (is_request && piece.starts_with("PUT /v1/session/create")) ++sessions_created_;
      requests_ += is_request;
      bytes_ += piece.size();
      way.pieces.emplace_back(clock::now() + one_way_, piece);
      way.changed.cancel();
      if (ec) co_return;
    }
  }

  asio::awaitable<void> write(std::shared_ptr<connection> c, socket& to, direction& way) {
    for (;;) {
      while (way.pieces.empty()) {
        way.changed.expires_at(clock::time_point::max());
        co_await way.changed.async_wait(as_result);
      }
      auto [due, piece] = std::move(way.pieces.front());
      way.pieces.pop_front();
      while (clock::now() < due) {
        way.changed.expires_at(due);
        co_await way.changed.async_wait(as_result);
      }
      if (piece.empty()) {
        // Consul ends the blocking queries of a connection when it is closed, so the relay closes both sides.
        c->close();
        co_return;
      }
      auto [ec, size] = co_await asio::async_write(to, asio::buffer(piece), as_result);
      if (ec) {
        c->close();
        co_return;
      }
    }
  }

  asio::io_context io_{1};
  asio::ip::tcp::endpoint target_;
  clock::duration one_way_;
  asio::ip::tcp::acceptor acceptor_;
  std::atomic<std::uint64_t> sessions_created_ = 0, requests_ = 0, bytes_ = 0;
  std::thread thread_;
};

}  // namespace holdfast::bench
