// SPDX-FileCopyrightText: The holdfast authors
// SPDX-License-Identifier: BSL-1.0

#include "session.hpp"

#include <boost/asio/write.hpp>

namespace holdfast::testing::detail {
namespace {

constexpr std::size_t body_bytes_max = 16 * 1024 * 1024;
constexpr std::size_t unsent_bytes_max = 64 * 1024 * 1024;
constexpr std::size_t parsed_bytes_kept = 64 * 1024;
constexpr std::chrono::milliseconds linger_time{500};

}  // namespace

// --- Parsing.

bool request_parser::take_protocol_header(bool& is_amqp) {
  const std::string_view expected = amqp::protocol_header;
  is_amqp = expected.starts_with(std::string_view(buffered_).substr(0, expected.size()));
  if (is_amqp && buffered_.size() < expected.size()) return false;
  if (is_amqp) parsed_ = expected.size();
  return true;
}

void request_parser::set_limits(std::uint32_t frame_max, std::uint16_t channel_max) {
  frames_.set_limits({frame_max, amqp::frame_max_least, frame_max});
  channel_max_ = channel_max;
}

bool request_parser::parse(std::optional<client_request>& out, std::optional<client_error>& problem) {
  if (parsed_ > parsed_bytes_kept) buffered_.erase(0, std::exchange(parsed_, 0));
  std::string_view rest = std::string_view(buffered_).substr(parsed_);
  std::optional<amqp::frame> read;
  const auto ec = frames_.read(rest, read);
  parsed_ = buffered_.size() - rest.size();
  if (ec) {
    problem = client_error{501, std::string(frames_.cause())};
    return true;
  }
  if (!read) {
    buffered_.clear();
    parsed_ = 0;
    return false;
  }
  take_frame(*read, out, problem);
  return true;
}

void request_parser::take_frame(const amqp::frame& from, std::optional<client_request>& out,
                                std::optional<client_error>& problem) {
  if (from.type == amqp::frame_type::heartbeat) return;
  if (channel_max_ != 0 && from.channel > channel_max_) {
    problem = client_error{504, "the channel is above channel_max"};
    return;
  }
  if (open_contents_.contains(from.channel)) return take_content(from, out, problem);
  client_request request{from.channel, {}, {}};
  std::string_view cause;
  if (amqp::decode_method(from, amqp::decoder::server, request.what, cause)) {
    problem =
        client_error{static_cast<std::uint16_t>(from.type == amqp::frame_type::method ? 503 : 505), std::string(cause)};
  } else if (amqp::has_content(request.what)) {
    open_contents_.emplace(from.channel,
                           open_content{std::move(request.what), amqp::content_reader(body_bytes_max), {}});
  } else {
    out = std::move(request);
  }
}

void request_parser::take_content(const amqp::frame& from, std::optional<client_request>& out,
                                  std::optional<client_error>& problem) {
  open_content& open = open_contents_.at(from.channel);
  std::string_view cause;
  auto ec = open.reader.take(from, cause);
  if (!ec && from.type == amqp::frame_type::header) ec = decode_properties(from, open.content.properties, cause);
  if (ec) {
    problem = client_error{505, std::string(cause)};
  } else if (open.reader.body_bytes() > body_bytes_max) {
    problem = client_error{501, "the message is too large"};
  } else if (open.reader.is_complete()) {
    open.content.body = open.reader.body();
    out = client_request{from.channel, std::move(open.what), std::move(open.content)};
    open_contents_.erase(from.channel);
  }
}

// --- The connection.

session::session(broker_socket accepted, unsigned run_number)
    : run(run_number),
      beat_timer(accepted.get_executor()),
      socket_(std::move(accepted)),
      timer_(socket_.get_executor()),
      limit_(socket_.get_executor()) {
  boost::system::error_code ignored;
  socket_.set_option(asio::ip::tcp::no_delay(true), ignored);
}

std::string session::peer() const {
  boost::system::error_code ec;
  const auto endpoint = socket_.remote_endpoint(ec);
  return endpoint.address().to_string() + ':' + std::to_string(endpoint.port());
}

awaitable<void> session::changed(time_point until) {
  timer_.expires_at(until);
  co_await timer_.async_wait(as_result);
}

awaitable<bool> session::receive() {
  auto [ec, size] = co_await socket_.async_read_some(asio::buffer(incoming_), as_result);
  if (ec) co_return false;
  bytes_received += size;
  requests.append({incoming_.data(), size});
  co_return true;
}

void session::say(std::uint16_t channel, const amqp::method& what, const broker_message& content) {
  if (append_method(outgoing_, channel, what)) return reset();
  if (has_content(what) && append_content(outgoing_, channel, content.properties, content.body, frame_max_)) reset();
}

void session::refuse_protocol() {
  outgoing_ += amqp::protocol_header;
  is_over = is_graceful = true;
}

void session::begin_cut_reply(kept part) {
  reply_kept = part;
  reply_at_ = outgoing_.size();
}

void session::cut_reply() {
  const std::size_t reply = outgoing_.size() - reply_at_;
  outgoing_.resize(reply_at_ + (reply_kept == kept::half ? reply / 2 : 0));
  is_over = is_graceful = true;
}

void session::beat() {
  amqp::append_heartbeat(outgoing_);
  flush();
}

void session::flush() {
  if (outgoing_.size() > unsent_bytes_max) return reset();
  if (is_sending_ || outgoing_.empty() || holds_writes) return;
  is_sending_ = true;
  sending_ = std::exchange(outgoing_, {});
  asio::async_write(socket_, asio::buffer(sending_),
                    [self = shared_from_this()](const auto& ec, std::size_t) { self->written(ec); });
}

void session::written(const boost::system::error_code& ec) {
  is_sending_ = false;
  if (ec) return reset();
  flush();
  if (!is_sending_) wake();
}

awaitable<void> session::finish() {
  boost::system::error_code ignored;
  flush();
  const time_point end = clock::now() + linger_time;
  while (is_sending_ && clock::now() < end) co_await changed(end);
  limit(end);
  socket_.shutdown(asio::socket_base::shutdown_send, ignored);
  for (;;) {
    auto [ec, size] = co_await socket_.async_read_some(asio::buffer(incoming_), as_result);
    if (ec) break;
  }
  socket_.close(ignored);
}

void session::reset() noexcept {
  boost::system::error_code ignored;
  socket_.set_option(asio::socket_base::linger(true, 0), ignored);
  socket_.close(ignored);
  is_over = true;
  is_graceful = false;
  outgoing_.clear();
  stop_timers();
  wake();
}

void session::limit(time_point end) {
  limit_.expires_at(end);
  limit_.async_wait([self = shared_from_this()](const boost::system::error_code& ec) {
    if (!ec) self->reset();
  });
}

void session::stop_timers() {
  limit_.cancel();
  beat_timer.cancel();
}

}  // namespace holdfast::testing::detail
