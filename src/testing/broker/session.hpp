// SPDX-FileCopyrightText: The holdfast authors
// SPDX-License-Identifier: BSL-1.0

#pragma once

#include <array>
#include <boost/asio/basic_stream_socket.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "net/asio.hpp"
#include "rabbitmq/frame.hpp"
#include "testing/broker/model.hpp"

namespace holdfast::testing::detail {

namespace asio = boost::asio;
using net::as_result;
using net::awaitable;
using net::clock;
using net::strand_type;
using net::time_point;
using net::timer_type;
using broker_socket = asio::basic_stream_socket<asio::ip::tcp, strand_type>;

/// A method of a client, with its message.
struct client_request {
  std::uint16_t channel = 0;
  amqp::method what{};
  broker_message content{};
};

/// Why a client's bytes are refused: connection.close with this code.
struct client_error {
  std::uint16_t code = 0;
  std::string text{};
};

/// Makes requests of a client's bytes. It knows nothing of their order.
class request_parser {
public:
  void append(std::string_view bytes) { buffered_ += bytes; }
  /// Returns false if bytes are missing. Must be called first.
  bool take_protocol_header(bool& is_amqp);
  /// Reads one frame. Returns false if bytes are missing. `out` is set if the frame completes a request, and `problem`
  /// if the parser must not be used any more.
  bool parse(std::optional<client_request>& out, std::optional<client_error>& problem);
  /// Sets the limits for the frames after connection.tune-ok.
  void set_limits(std::uint32_t frame_max, std::uint16_t channel_max);

private:
  struct open_content {
    amqp::method what;
    amqp::content_reader reader;
    broker_message content;
  };

  void take_frame(const amqp::frame& from, std::optional<client_request>& out, std::optional<client_error>& problem);
  void take_content(const amqp::frame& from, std::optional<client_request>& out, std::optional<client_error>& problem);

  std::string buffered_;
  std::size_t parsed_ = 0;  // of these bytes
  amqp::frame_reader frames_;
  std::uint16_t channel_max_ = 0;
  std::map<std::uint16_t, open_content> open_contents_;
};

/// A client's connection, used on a strand. One coroutine serves it, and waits by `changed()` in a loop that checks a
/// condition.
class session final : public std::enable_shared_from_this<session> {
public:
  enum class kept { all, half, none };
  enum class stage { header, start, tune, open, running, closing };

  session(broker_socket accepted, unsigned run);

  /// Completes after `wake`, at `until`, or earlier.
  awaitable<void> changed(time_point until = time_point::max());
  void wake() { timer_.cancel(); }
  /// Returns false if the connection has ended.
  awaitable<bool> receive();
  /// Appends a method to the bytes that are to be sent.
  void say(std::uint16_t channel, const amqp::method& what, const broker_message& content = {});
  void beat();
  /// Sends what `say` has appended, unless that is being done.
  void flush();
  /// Sends the rest, and waits for the client to close the connection. It has half a second for that.
  awaitable<void> finish();
  /// Closes the connection with a TCP reset.
  void reset() noexcept;
  /// Closes the connection at that time, unless another time is set.
  void limit(time_point end);
  void unlimit() { limit_.cancel(); }
  /// Tells a client that does not speak AMQP which protocol is expected, and ends the connection.
  void refuse_protocol();
  /// Begins a reply of which only a part is sent.
  void begin_cut_reply(kept part);
  /// Drops the other part of the reply, and ends the connection.
  void cut_reply();
  void set_frame_max(std::uint32_t frame_max) noexcept { frame_max_ = frame_max; }
  /// Stops the timers that belong to the connection.
  void stop_timers();

  std::string peer() const;

  const unsigned run;  ///< of the broker: changes when that restarts
  request_parser requests;
  stage at = stage::header;
  std::string user;
  std::string name;
  broker_model::connection_id id = 0;  ///< after connection.open
  std::uint16_t heartbeat = 0;         ///< in seconds
  std::uint64_t bytes_received = 0;
  timer_type beat_timer;

  bool is_over = false;       ///< nothing more is read or carried out
  bool is_graceful = false;   ///< what was said is still sent when it is over
  bool is_held = false;       ///< by a fault
  bool holds_writes = false;  ///< while the broker is frozen
  time_point resumes_at{};    ///< nothing is carried out before
  std::optional<client_request> delayed{};
  kept reply_kept = kept::all;  ///< of the reply to the request that is being carried out

private:
  void written(const boost::system::error_code& ec);

  broker_socket socket_;
  timer_type timer_;
  timer_type limit_;
  std::uint32_t frame_max_ = amqp::frame_max_least;
  std::array<char, 8192> incoming_;
  std::string outgoing_;
  std::size_t reply_at_ = 0;  // in `outgoing_`
  std::string sending_;
  bool is_sending_ = false;
};

}  // namespace holdfast::testing::detail
