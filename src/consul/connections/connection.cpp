// SPDX-FileCopyrightText: The holdfast authors
// SPDX-License-Identifier: BSL-1.0

#include "consul/connections/connection.hpp"

#include <algorithm>
#include <boost/asio/error.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/write.hpp>
#include <tuple>
#include <utility>

#include "consul/encoding/reply.hpp"
#include "platform/sockets.hpp"

namespace holdfast::consul::detail {

// Closes the socket at the deadline, which cancels the operation that is pending on it.
class connection::alarm {
public:
  alarm(connection& owner, time_point deadline) : owner_(owner) {
    owner.expired_ = false;
    owner.timer_.expires_at(deadline);
    owner.timer_.async_wait([weak = owner.weak_from_this(), turn = ++owner.turn_](const error_code& ec) {
      const auto self = weak.lock();
      if (ec || !self || self->turn_ != turn) return;
      self->expired_ = true;
      self->close();
    });
  }
  ~alarm() {
    ++owner_.turn_;
    owner_.timer_.cancel();
  }
  alarm(const alarm&) = delete;
  alarm& operator=(const alarm&) = delete;

private:
  connection& owner_;
};

connection::connection(const strand_type& strand, std::shared_ptr<counters> statistics, std::size_t reply_bytes_max,
                       tls_client* tls)
    : socket_(strand), tls_(tls), timer_(strand), parser_(reply_bytes_max), statistics_(std::move(statistics)) {}

connection::~connection() { close(); }

void connection::close() noexcept {
  error_code ignored;
  socket_.close(ignored);
  if (std::exchange(connected_, false)) counters::subtract(statistics_->connections_open);
}

awaitable<attempt_result> connection::connect(endpoints candidates, time_point deadline, const agent_address& to,
                                              std::string tunnel) {
  attempt_result last;
  last.error = error::unreachable;
  last.cause = asio::error::host_not_found;
  auto left = static_cast<clock::rep>(candidates.size());
  for (const auto& candidate : candidates) {
    const time_point now = clock::now();
    if (is_given_up_ || (last.cause == asio::error::timed_out && now >= deadline)) break;
    // An address that drops all packets must not use up the time that the addresses behind it need.
    const clock::duration part = std::max<clock::duration>((deadline - now) / left--, candidate_time_min);
    const alarm bell(*this, std::min(now + part, deadline));
    error_code ec = platform::open(socket_, candidate.protocol());
    if (!ec) std::tie(ec) = co_await socket_.async_connect(candidate, as_result);
    last = attempt_result();
    if (!ec && !expired_) {
      const alarm later(*this, std::min(deadline, std::max(now + part, deadline - left * candidate_time_min)));
      configure();
      connected_ = true;
      opened_at_ = clock::now();
      peer_ = candidate;
      counters::add(statistics_->connections_opened);
      counters::add(statistics_->connections_open);
      if (!tunnel.empty()) last = co_await ask_for_tunnel(tunnel);
      if (!last.error && tls_ != nullptr) {
        secure_ = tls_->open(socket_, to);
        tls_failure refused = co_await secure_->handshake();
        last.error = refused.error;
        last.message = std::move(refused.message);
        last.cause = refused.cause;
      }
      if (!last.error && !expired_) co_return last;
      ec = last.cause;
    }
    if (!last.error || expired_) last.error = error::unreachable;
    last.cause = expired_ ? error_code(asio::error::timed_out) : ec;
    if (expired_ && clock::now() - now >= candidate_time_min) unresponsive_.push_back(candidate);
    close();
    secure_.reset();
  }
  co_return last;
}

// Errors are ignored: the options for TCP only make requests faster and failures noticed sooner, and a UNIX socket does
// not have them.
void connection::configure() {
  error_code ignored;
  socket_.set_option(asio::ip::tcp::no_delay(true), ignored);
  socket_.non_blocking(true, ignored);  // for is_alive() and converse()
  // Otherwise nothing would notice during a long blocking query that the network drops all packets.
  platform::notice_dead_peer(socket_);
}

// Reads only the header of the proxy's reply: the bytes behind it come from the agent.
awaitable<attempt_result> connection::ask_for_tunnel(const std::string& tunnel) {
  constexpr std::size_t header_bytes_max = 16 * 1024;
  attempt_result result;
  auto [write_error, written] = co_await asio::async_write(socket_, asio::buffer(tunnel), as_result);
  counters::add(statistics_->bytes_sent, written);
  result.cause = write_error;
  std::string header;
  while (!result.cause && !header.ends_with("\r\n\r\n")) {
    // The header is read byte by byte, so that nothing behind it is consumed. It is short, and read once per
    // connection.
    char byte = 0;
    auto [read_error, size] = co_await socket_.async_read_some(asio::buffer(&byte, 1), as_result);
    counters::add(statistics_->bytes_received, size);
    result.cause = read_error;
    header.append(&byte, size);
    if (header.size() > header_bytes_max) result.cause = asio::error::message_size;
  }
  const std::string_view line = std::string_view(header).substr(0, header.find('\r'));
  const bool is_open = !result.cause && line.starts_with("HTTP/1.") &&
                       line.substr(std::min<std::size_t>(8, line.size())).starts_with(" 2");
  if (is_open) co_return attempt_result();
  result.error = error::unreachable;
  result.message =
      result.cause ? "the proxy: " + result.cause.message() : "the proxy answered: " + readable(line.substr(0, 100));
  co_return result;
}

awaitable<attempt_result> connection::converse(const std::string& request, bool is_write, time_point deadline) {
  const alarm bell(*this, deadline);
  parser_.restart();

  error_code failure;
  std::size_t sent = 0;
  while (sent < request.size() && !failure) {
    const asio::const_buffer rest = asio::buffer(request) + sent;
    transferred part;
    if (secure_) {
      part = co_await secure_->write(rest);
    } else {
      part.bytes = socket_.write_some(rest, part.error);
      if (part.error == asio::error::would_block) {
        std::tie(part.error, part.bytes) = co_await socket_.async_write_some(rest, as_result);
      }
    }
    if (sent == 0 && part.bytes > 0) {
      counters::add(statistics_->requests);
      if (is_write) counters::add(statistics_->writes);
    }
    counters::add(statistics_->bytes_sent, part.bytes);
    sent += part.bytes;
    failure = part.error;
  }
  if (sent == 0 && !secure_) {
    attempt_result nothing_sent;
    nothing_sent.error = error::unreachable;
    nothing_sent.cause = expired_ ? error_code(asio::error::timed_out) : failure;
    close();
    co_return nothing_sent;
  }

  attempt_result result;
  bool has_begun = false;
  while (!parser_.done() && !result.error) {
    transferred part;
    if (secure_) {
      part = co_await secure_->read_some(parser_.space());
    } else {
      std::tie(part.error, part.bytes) = co_await socket_.async_read_some(parser_.space(), as_result);
    }
    counters::add(statistics_->bytes_received, part.bytes);
    has_begun = has_begun || part.bytes > 0;
    has_answered_ = has_answered_ || has_begun;
    result.cause = part.error;
    if (!part.error) {
      result.error = parser_.commit(part.bytes);
    } else if (part.error == error::client_certificate_refused) {
      result.error = std::exchange(result.cause, {});
    } else {
      result.error = part.error == asio::error::eof ? parser_.finish() : error_code(error::connection_lost);
    }
  }
  if (!result.error) {
    result.cause = {};
    result.reply = parser_.take();
    if (secure_) secure_->keep_session();
    co_return result;
  }
  // A reply may arrive although the write has failed: Consul answers 413 and closes before it has read a large body.
  // Without a reply, the failed write is the cause.
  if (result.error == error::connection_lost && failure) result.cause = failure;
  result.is_cut = !has_begun && result.cause == asio::error::eof;
  if (expired_) {
    result.error = error::timed_out;
    result.cause = {};
  }
  close();
  co_return result;
}

bool connection::reusable() const noexcept {
  return socket_.is_open() && parser_.keep_alive() && (!secure_ || secure_->is_quiet());
}

bool connection::is_alive() noexcept {
  if (secure_ && !secure_->is_quiet()) return false;
  char byte = 0;
  error_code ec;
  socket_.receive(asio::buffer(&byte, 1), asio::socket_base::message_peek, ec);
  return ec == asio::error::would_block;
}

}  // namespace holdfast::consul::detail
