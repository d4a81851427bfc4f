// SPDX-FileCopyrightText: The holdfast authors
// SPDX-License-Identifier: BSL-1.0

#include "connection.hpp"

#include <boost/asio/write.hpp>

namespace holdfast::testing::detail {
namespace {

// The time that a client has to receive the last reply. Closing a socket with unread bytes would destroy that reply.
constexpr std::chrono::milliseconds linger_time{500};

asio::ip::address address_of(const socket_type& socket) {
  boost::system::error_code ec;
  return socket.remote_endpoint(ec).address();
}

}  // namespace

connection::connection(socket_type accepted, std::size_t body_bytes_max, unsigned run_number)
    : run(run_number),
      requests(body_bytes_max),
      socket_(std::move(accepted)),
      timer_(socket_.get_executor()),
      peer_(address_of(socket_)) {
  boost::system::error_code ignored;
  socket_.set_option(asio::ip::tcp::no_delay(true), ignored);
}

awaitable<void> connection::changed(time_point until) {
  timer_.expires_at(until);
  co_await timer_.async_wait(as_result);
}

awaitable<bool> connection::send(std::string_view bytes) {
  auto [ec, size] = co_await asio::async_write(socket_, asio::buffer(bytes), as_result);
  co_return !ec;
}

awaitable<void> connection::finish() {
  boost::system::error_code ignored;
  socket_.shutdown(asio::socket_base::shutdown_send, ignored);
  discards_ = true;
  receive();
  const time_point end = clock::now() + linger_time;
  while (!gone && clock::now() < end) co_await changed(end);
  socket_.close(ignored);
}

void connection::reset() noexcept {
  boost::system::error_code ignored;
  socket_.set_option(asio::socket_base::linger(true, 0), ignored);
  socket_.close(ignored);
  lose();
}

void connection::drop() noexcept {
  dropped = true;
  if (behind) behind->abandon();
  reset();
}

void connection::lose() noexcept {
  gone = true;
  if (blocked && behind) behind->abandon();
  wake();
}

void connection::receive() {
  if (receiving_ || gone || (!discards_ && requests.full())) return;
  receiving_ = true;
  socket_.async_read_some(asio::buffer(incoming_),
                          [self = shared_from_this()](const auto& ec, std::size_t size) { self->received(ec, size); });
}

void connection::received(const boost::system::error_code& ec, std::size_t size) {
  receiving_ = false;
  if (!discards_) requests.append({incoming_.data(), size});
  if (ec) return lose();
  wake();
  receive();
}

}  // namespace holdfast::testing::detail
