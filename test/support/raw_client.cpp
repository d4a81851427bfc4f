// SPDX-FileCopyrightText: The holdfast authors
// SPDX-License-Identifier: BSL-1.0

#include "support/raw_client.hpp"

#include <array>
#include <boost/asio/error.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <boost/asio/write.hpp>
#include <charconv>

#include "support/async.hpp"

namespace holdfast::test {
namespace {

using asio::ip::tcp;
using boost::system::error_code;

tcp::endpoint endpoint_of(const std::string& address) {
  const auto colon = address.rfind(':');
  const auto port = static_cast<std::uint16_t>(std::stoi(address.substr(colon + 1)));
  return {asio::ip::make_address(address.substr(0, colon)), port};
}

std::size_t number(std::string_view text) {
  std::size_t out = 0;
  std::from_chars(text.data(), text.data() + text.size(), out);
  return out;
}

}  // namespace

bool received::was_reset() const { return end == asio::error::connection_reset; }

int received::status() const {
  constexpr std::string_view start = "HTTP/1.1 ";
  return bytes.starts_with(start) ? static_cast<int>(number(std::string_view(bytes).substr(start.size(), 3))) : 0;
}

std::string_view received::body() const {
  const auto at = bytes.find("\r\n\r\n");
  return at == std::string::npos ? std::string_view() : std::string_view(bytes).substr(at + 4);
}

std::string_view received::header(std::string_view name) const {
  const std::string start = "\r\n" + std::string(name) + ": ";
  const auto at = bytes.find(start);
  if (at == std::string::npos || at > bytes.find("\r\n\r\n")) return {};
  const std::string_view rest = std::string_view(bytes).substr(at + start.size());
  return rest.substr(0, rest.find("\r\n"));
}

raw_client::raw_client(const asio::any_io_executor& ex, const std::string& address)
    : socket_(ex), server_(endpoint_of(address)) {}

asio::awaitable<error_code> raw_client::connect() {
  buffered_.clear();
  auto [ec] = co_await socket_.async_connect(server_, as_result);
  co_return ec;
}

asio::awaitable<void> raw_client::send(std::string bytes) {
  if (!socket_.is_open()) co_await connect();
  co_await asio::async_write(socket_, asio::buffer(bytes), as_result);
}

asio::awaitable<error_code> raw_client::read_more() {
  std::array<char, 4096> bytes;
  auto [ec, size] = co_await socket_.async_read_some(asio::buffer(bytes), as_result);
  buffered_.append(bytes.data(), size);
  co_return ec;
}

asio::awaitable<received> raw_client::receive() {
  received out;
  for (;;) {
    const auto head = buffered_.find("\r\n\r\n");
    if (head != std::string::npos) {
      out.bytes = buffered_.substr(0, head + 4);
      const std::size_t size = head + 4 + number(out.header("Content-Length"));
      if (buffered_.size() >= size) {
        out.bytes = buffered_.substr(0, size);
        buffered_.erase(0, size);
        co_return out;
      }
    }
    out.end = co_await read_more();
    if (out.end) break;
  }
  out.bytes = std::move(buffered_);
  co_return out;
}

asio::awaitable<received> raw_client::receive_some() {
  received out;
  if (buffered_.empty()) out.end = co_await read_more();
  out.bytes = std::exchange(buffered_, {});
  co_return out;
}

asio::awaitable<received> raw_client::receive_all() {
  received out;
  while (!out.end) out.end = co_await read_more();
  out.bytes = std::exchange(buffered_, {});
  co_return out;
}

asio::awaitable<received> raw_client::ask(std::string_view method, std::string_view target, std::string_view body) {
  std::string bytes = request(method, target, body);
  co_await send(std::move(bytes));
  received out = co_await receive();
  co_return out;
}

void raw_client::close() {
  error_code ignored;
  socket_.close(ignored);
}

void raw_client::reset() {
  error_code ignored;
  socket_.set_option(asio::socket_base::linger(true, 0), ignored);
  socket_.close(ignored);
}

std::string request(std::string_view method, std::string_view target, std::string_view body) {
  std::string out;
  out.append(method).append(" ").append(target).append(" HTTP/1.1\r\nHost: test\r\n");
  if (!body.empty() || method == "PUT") out.append("Content-Length: " + std::to_string(body.size()) + "\r\n");
  return out.append("\r\n").append(body);
}

}  // namespace holdfast::test
