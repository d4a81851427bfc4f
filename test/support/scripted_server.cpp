// SPDX-FileCopyrightText: The holdfast authors
// SPDX-License-Identifier: BSL-1.0

#include "support/scripted_server.hpp"

#include <boost/asio/deferred.hpp>
#include <boost/asio/read.hpp>
#include <boost/asio/read_until.hpp>
#include <boost/asio/write.hpp>

#include "support/async.hpp"

namespace holdfast::test {
namespace {

std::size_t body_size(const std::string& head) {
  constexpr std::string_view name = "Content-Length: ";
  const auto at = head.find(name);
  return at == std::string::npos ? 0 : std::stoul(head.substr(at + name.size()));
}

}  // namespace

asio::awaitable<std::string> scripted_peer::read_request() {
  auto [ec, head_size] =
      co_await asio::async_read_until(socket_, asio::dynamic_buffer(received_), "\r\n\r\n", as_result);
  if (ec) co_return std::string();
  const std::size_t size = head_size + body_size(received_.substr(0, head_size));
  if (received_.size() < size) {
    const std::size_t missing = size - received_.size();
    co_await asio::async_read(socket_, asio::dynamic_buffer(received_), asio::transfer_exactly(missing), as_result);
  }
  std::string request = received_.substr(0, size);
  received_.erase(0, size);
  co_return request;
}

asio::awaitable<void> scripted_peer::send(std::string bytes) {
  co_await asio::async_write(socket_, asio::buffer(bytes), as_result);
}

asio::awaitable<void> scripted_peer::reply(std::string body, std::string headers) {
  std::string bytes =
      "HTTP/1.1 200 OK\r\n" + headers + "Content-Length: " + std::to_string(body.size()) + "\r\n\r\n" + body;
  co_await send(std::move(bytes));
}

asio::awaitable<void> scripted_peer::refuse(int status, std::string body) {
  std::string bytes = "HTTP/1.1 " + std::to_string(status) +
                      " Refused\r\nContent-Length: " + std::to_string(body.size()) + "\r\n\r\n" + body;
  co_await send(std::move(bytes));
}

asio::awaitable<bool> scripted_peer::closed_by_client() {
  char byte = 0;
  auto [ec, size] = co_await socket_.async_read_some(asio::buffer(&byte, 1), as_result);
  co_return ec&& size == 0;
}

void scripted_peer::close() { socket_.close(); }

void scripted_peer::reset() {
  socket_.set_option(asio::socket_base::linger(true, 0));
  socket_.close();
}

scripted_server::scripted_server(asio::any_io_executor ex)
    : scripted_server(std::move(ex), {asio::ip::address_v4::loopback(), 0}) {}

scripted_server::scripted_server(asio::any_io_executor ex, asio::ip::tcp::endpoint endpoint)
    : acceptor_(std::move(ex), endpoint) {}

std::string scripted_server::address() const { return "127.0.0.1:" + std::to_string(endpoint().port()); }

asio::ip::tcp::endpoint scripted_server::endpoint() const { return acceptor_.local_endpoint(); }

asio::awaitable<scripted_peer> scripted_server::accept() {
  asio::ip::tcp::socket socket = co_await acceptor_.async_accept(asio::use_awaitable);
  co_return scripted_peer(std::move(socket));
}

asio::awaitable<std::pair<scripted_peer, std::string>> scripted_server::accept_request() {
  scripted_peer peer = co_await accept();
  std::string request = co_await peer.read_request();
  co_return std::pair(std::move(peer), std::move(request));
}

void scripted_server::stop() {
  const asio::ip::tcp::endpoint at = endpoint();
  acceptor_.close();
  acceptor_.open(at.protocol());
  acceptor_.set_option(asio::socket_base::reuse_address(true));
  acceptor_.bind(at);
}

}  // namespace holdfast::test
