// SPDX-FileCopyrightText: The holdfast authors
// SPDX-License-Identifier: BSL-1.0

#include "rabbitmq/connection.hpp"

#include <algorithm>
#include <array>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/detached.hpp>
#include <boost/asio/error.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/write.hpp>
#include <tuple>

#include "platform/sockets.hpp"
#include "rabbitmq/reply_codes.hpp"
#include "rabbitmq/rethrow.hpp"

namespace holdfast::rabbitmq::detail {
namespace {

using net::as_result;
using net::clock;
using net::transferred;

// Answers are small. Each connection has a buffer of this size.
constexpr std::size_t read_bytes_max = 4096;

// How long a deadline that has passed waits for bytes that have arrived and are not yet read.
constexpr std::chrono::milliseconds spare_time{100};

/// The queue of a request.
std::string_view queue_of(const steps& request) {
  const auto queue = [](const auto& what) -> std::string_view {
    if constexpr (requires { what.queue; }) return what.queue;
    if constexpr (requires { what.routing_key; }) return what.routing_key;
    return {};
  };
  for (const step& each : request)
    if (const std::string_view found = std::visit(queue, each.what); !found.empty()) return found;
  return {};
}

}  // namespace

connection::connection(const strand_type& strand, dialogue::terms terms, std::shared_ptr<counters> statistics)
    : strand_(strand),
      statistics_(std::move(statistics)),
      heartbeat_(std::chrono::seconds(terms.heartbeat)),
      socket_(strand),
      dialogue_(std::move(terms)),
      timer_(strand) {}

// --- Open and close.

awaitable<failure> connection::connect(endpoint at, net::address to, net::tls_client* tls) {
  error_code ec = platform::open(socket_, at.protocol());
  if (!ec) std::tie(ec) = co_await socket_.async_connect(at, as_result);
  if (ec) co_return failed(error::unreachable, ec.message());
  configure();
  if (tls == nullptr) co_return failure();
  secure_ = tls->open(socket_, to);
  net::tls_failure refused = co_await secure_->handshake();
  if (!refused.error) co_return failure();
  std::string message = refused.message.empty() ? refused.cause.message() : std::move(refused.message);
  failure why{refused.error, {std::move(message), {}, {}, {}}};
  co_return why;
}

// Without these options, requests are only slower.
void connection::configure() {
  error_code ignored;
  socket_.set_option(asio::ip::tcp::no_delay(true), ignored);
  socket_.non_blocking(true, ignored);  // for write_now()
}

awaitable<failure> connection::open(std::shared_ptr<void> owner, endpoint at, net::address to, net::tls_client* tls,
                                    time_point deadline, dialogue::listener told) {
  const std::shared_ptr<connection> self = shared_from_this();
  open_deadline_ = deadline;
  arm();
  failure refused = co_await connect(at, std::move(to), tls);
  if (dialogue_.current() == dialogue::phase::ended) co_return dialogue_.why();  // the timer or abort() was faster
  if (refused.code) {
    abort(refused);
    co_return refused;
  }
  told.opened = [this] { wake_opener(); };
  told.blocked = [this, then = std::move(told.blocked)](bool on) {
    unblocked_at_ = clock::now();
    if (then) then(on);
  };
  dialogue_.set_listener(std::move(told));
  dialogue_.begin();
  received_at_ = sent_at_ = clock::now();
  asio::co_spawn(strand_, read_all(self, std::move(owner)), rethrow);
  flush();
  if (dialogue_.current() < dialogue::phase::open) {
    net::waiter one(strand_, time_point::max());
    opener_.push_back(one);
    co_await one.timer.async_wait(as_result);
  }
  if (!dialogue_.is_open()) co_return dialogue_.why();
  is_opening_ = false;
  if (secure_) secure_->keep_session();
  dialogue_.open_channel(false);
  flush();
  arm();
  co_return failure();
}

void connection::wake_opener() { net::wake_all(opener_); }

void connection::keep_until(time_point when) {
  idle_deadline_ = when;
  arm();
}

void connection::close(failure why) {
  if (!is_open() || has_pending()) return abort(std::move(why));
  close_deadline_ = clock::now() + close_time;
  dialogue_.close(std::move(why));
  flush();
  arm();
}

void connection::abort(failure why) {
  dialogue_.end(std::move(why));
  wake_opener();
  close_socket();
  timer_.cancel();
}

void connection::release() noexcept {
  timer_.close();
  close_socket();
}

void connection::close_socket() noexcept {
  error_code ignored;
  socket_.close(ignored);
}

// The reason for which the socket has failed is that of the connection, unless the connection has ended before.
void connection::lost(error_code cause) {
  if (cause == error::client_certificate_refused) return abort({cause, {}});
  const bool is_early = dialogue_.current() < dialogue::phase::open;
  const std::string reason = cause == asio::error::eof ? "the broker has closed it" : cause.message();
  if (is_early) return abort(failed(error::unreachable, "the connection has ended before the login: " + reason));
  abort(failed(error::connection_lost, "the connection has ended: " + reason));
}

// --- Requests.

std::uint16_t connection::open_channel(bool with_confirms, channel_user user) {
  const std::uint16_t number = dialogue_.open_channel(with_confirms, std::move(user));
  flush();
  return number;
}

void connection::ask(std::uint16_t channel, steps what, time_point deadline, dialogue::answer_function then) {
  if (!is_open()) {
    reply refused;
    refused.error = failed(error::connection_lost, "the connection has ended");
    asio::post(strand_, [then = std::move(then), refused = std::move(refused)]() mutable { then(std::move(refused)); });
    return;
  }
  std::shared_ptr<trace_span> span;
  if (statistics_->tracer)
    span = statistics_->tracer->started({.kind = span_kind::request,
                                         .name = name_of(what.front().what),
                                         .key = queue_of(what),
                                         .at = std::chrono::system_clock::now(),
                                         .parent = no_parent});
  auto answered = [to = statistics_, span = std::move(span), then = std::move(then)](reply&& answer) {
    lifetime::tally& ended = answer.error.code ? to->requests_failed
                             : answer.refused  ? to->requests_refused
                                               : to->requests_ok;
    ended.add();
    if (span) {
      // A queue that is missing or in use is a normal answer.
      const bool is_plain =
          answer.refused && (answer.refused->code == not_found || answer.refused->code == resource_locked);
      const error_code ec = answer.refused && !is_plain ? failure_of(*answer.refused, {}).code : answer.error.code;
      span->ended({.at = std::chrono::system_clock::now(), .error = ec});
    }
    then(std::move(answer));
  };
  dialogue_.ask(channel, std::move(what), deadline, std::move(answered));
  flush();
  arm();
}

void connection::tell(std::uint16_t channel, const step& what) {
  dialogue_.tell(channel, what);
  flush();
}

// --- Bytes.

awaitable<void> connection::read_all(std::shared_ptr<connection> self, [[maybe_unused]] std::shared_ptr<void> owner) {
  std::array<char, read_bytes_max> space;
  while (self->dialogue_.current() != dialogue::phase::ended) {
    transferred part;
    if (self->secure_) {
      part = co_await self->secure_->read_some(asio::buffer(space));
    } else {
      std::tie(part.error, part.bytes) = co_await self->socket_.async_read_some(asio::buffer(space), as_result);
    }
    if (part.error) {
      self->lost(part.error);
      break;
    }
    self->received_at_ = clock::now();
    self->was_spared_ = false;
    self->dialogue_.receive(std::string_view(space.data(), part.bytes));
    self->flush();
    self->arm();
  }
  // The last bytes answer the broker's close. They are sent if that is possible at once.
  if (!self->secure_ && !self->is_writing_) self->write_now();
  self->wake_opener();
  self->close_socket();
  self->timer_.cancel();
}

/// Sends what can be sent without waiting.
void connection::write_now() {
  std::string& output = dialogue_.output();
  if (output.empty() || !socket_.is_open()) return;
  error_code ec;
  const std::size_t sent = socket_.write_some(asio::buffer(output), ec);
  if (ec && ec != asio::error::would_block) return;  // the pending read tells
  output.erase(0, sent);
  if (output.empty()) sent_at_ = clock::now();
}

void connection::flush() {
  if (is_writing_ || dialogue_.output().empty() || dialogue_.current() == dialogue::phase::ended) return;
  if (!secure_) write_now();
  if (dialogue_.output().empty()) return;
  is_writing_ = true;
  asio::co_spawn(strand_, write_all(shared_from_this()), rethrow);
}

awaitable<void> connection::write_all(std::shared_ptr<connection> self) {
  error_code failed;
  while (!self->dialogue_.output().empty() && !failed) {
    self->writing_ = std::exchange(self->dialogue_.output(), {});
    if (self->secure_) {
      const transferred part = co_await self->secure_->write(asio::buffer(self->writing_));
      failed = part.error;
    } else {
      auto [ec, sent] = co_await asio::async_write(self->socket_, asio::buffer(self->writing_), as_result);
      failed = ec;
    }
    self->sent_at_ = clock::now();
  }
  self->is_writing_ = false;
  if (failed) self->lost(failed);
}

// --- Time.

void connection::arm() {
  time_point next = time_point::max();
  switch (dialogue_.current()) {
    case dialogue::phase::greeting:
    case dialogue::phase::tuning:
    case dialogue::phase::opening:
      next = open_deadline_;
      break;
    case dialogue::phase::open:
      next = std::min({received_at_ + 2 * heartbeat_, sent_at_ + heartbeat_ / 2, late_at(), idle_deadline_});
      if (is_opening_) next = std::min(next, open_deadline_);
      break;
    case dialogue::phase::closing:
      next = close_deadline_;
      break;
    case dialogue::phase::ended:
      return;
  }
  timer_.set_by(next, weak_from_this(), [this] { on_timer(); });
}

/// The time at which a pending request is too late. In an alarm, a broker does not read from a connection that has
/// published.
time_point connection::late_at() const noexcept {
  const time_point deadline = dialogue_.deadline();
  if (is_blocked() || deadline == time_point::max()) return time_point::max();
  return std::max(deadline, unblocked_at_ == time_point() ? deadline : unblocked_at_ + after_alarm);
}

/// If this process has stood still, a deadline may have passed although the broker has answered. So what has arrived is
/// read first.
bool connection::may_wait_once_more() {
  error_code ec;
  const bool has_bytes = socket_.available(ec) != 0 && !ec;
  if (!has_bytes || std::exchange(was_spared_, true)) return false;
  timer_.set_by(clock::now() + spare_time, weak_from_this(), [this] { on_timer(); });
  return true;
}

void connection::append_heartbeat_if_due(time_point now) {
  if (now < sent_at_ + heartbeat_ / 2) return;
  if (!is_writing_ && dialogue_.output().empty()) append_heartbeat(dialogue_.output());
  sent_at_ = now;
  flush();
}

void connection::on_timer() {
  const time_point now = clock::now();
  const dialogue::phase its = dialogue_.current();
  if (its == dialogue::phase::ended) return;
  if (its == dialogue::phase::closing && now >= close_deadline_) return abort(dialogue_.why());
  if (its < dialogue::phase::open && now >= open_deadline_)
    return abort(failed(error::unreachable, "the broker has not answered in time"));
  if (its == dialogue::phase::open) {
    append_heartbeat_if_due(now);
    const bool is_silent = now >= received_at_ + 2 * heartbeat_;
    const bool is_late = now >= late_at();
    if ((is_silent || is_late) && may_wait_once_more()) return;
    if (is_silent) return abort(failed(error::connection_lost, "the broker has not sent anything for two heartbeats"));
    if (is_late) return abort(failed(error::timed_out, "the broker has not answered a request in time"));
    if (now >= idle_deadline_) {
      idle_deadline_ = time_point::max();
      if (!has_pending()) return close();
    }
  }
  arm();
}

}  // namespace holdfast::rabbitmq::detail
