// SPDX-FileCopyrightText: The holdfast authors
// SPDX-License-Identifier: BSL-1.0

#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <holdfast/error.hpp>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "protocol/base/failure.hpp"
#include "rabbitmq/frame.hpp"
#include "rabbitmq/method.hpp"

namespace holdfast::rabbitmq::detail {

using protocol::failure;

/// A method that is sent, and the message behind it if it is a publish.
struct step {
  method what;
  message_properties properties{};
  std::string body{};
};
using steps = std::vector<step>;

/// The reason for which a broker has closed a channel, or a connection.
struct refusal {
  std::uint16_t code = 0;
  std::string text{};
};

/// The answer to a request. If `error` is set, the connection has ended first, and it is unknown what the broker has
/// done. If `refused` is set, the broker has done the steps in front of the refused one, and none behind it.
struct reply {
  failure error{};
  std::optional<refusal> refused{};
  std::size_t answered = 0;     ///< how many of the steps that have an answer have succeeded
  bool has_message = false;     ///< a basic.get has got a message
  std::uint32_t messages = 0;   ///< how many messages the last declared queue has
  std::vector<bool> missing{};  ///< on a channel with confirms, for each publish: there is no such queue
};

/// Receives what the broker sends on a channel without being asked.
struct channel_user {
  std::function<void(std::uint64_t delivery_tag, const std::string& body)> delivered{};
  /// The consumer is gone: its queue was deleted, or the broker has closed the channel, which is open again.
  std::function<void(const refusal&)> stopped{};
  /// In an alarm, the broker has stopped reading this connection, because something was published on it.
  std::function<void()> blocked{};
  std::function<void(const failure&)> ended{};  ///< the connection has ended; it is the last call
};

/// How a client logs in.
struct login {
  std::string mechanism{};
  std::string response{};  ///< has the password
};

/// The client's side of one AMQP connection, without I/O: bytes in, bytes out. All that a broker sends is refused
/// unless it is expected then. After a refusal, the dialogue has ended with error::malformed_reply.
///
/// A request is a number of steps on one channel, all in one write. On each channel, one request at a time is sent. If
/// the broker closes a channel, the dialogue opens it again.
///
/// Functions of users are called from within `receive`, `end` and `expire`. They may call any function of the dialogue,
/// but must not destroy it.
class dialogue {
public:
  using clock = std::chrono::steady_clock;
  using time_point = clock::time_point;
  using answer_function = std::function<void(reply&&)>;

  struct terms {
    login how{};
    std::string connection_name{};
    std::string virtual_host{};
    std::uint16_t heartbeat = 0;  ///< in seconds
  };
  struct listener {
    std::function<void()> opened{};
    std::function<void(bool)> blocked{};
    std::function<void(const failure&)> ended{};  ///< after all requests and users of channels were told
  };
  enum class phase { greeting, tuning, opening, open, closing, ended };

  explicit dialogue(terms how);

  void set_listener(listener to) { listener_ = std::move(to); }
  /// Appends the first bytes of the dialogue.
  void begin() { out_ += protocol_header; }

  /// Takes bytes that the broker has sent.
  void receive(std::string_view bytes);
  /// Bytes that are to be sent. The caller removes what it has taken.
  std::string& output() noexcept { return out_; }

  /// Opens a channel. Returns its number, or 0 if the connection has no more of them, or is not open.
  std::uint16_t open_channel(bool with_confirms, channel_user user = {});
  /// Replaces the user of a channel.
  void set_user(std::uint16_t channel, channel_user user);
  /// Sends a request on an open channel, behind those that are pending there. `then` is called once, unless the
  /// dialogue is destroyed first. One step at least must have an answer. The dialogue must be open.
  void ask(std::uint16_t channel, steps what, time_point deadline, answer_function then);
  /// Sends a step that has no answer.
  void tell(std::uint16_t channel, const step& what);
  /// Closes the connection as AMQP has it. The dialogue ends for this reason when the broker has answered.
  void close(failure why);
  /// The connection has ended for this reason. Everybody is told.
  void end(failure why);
  /// Ends the dialogue without telling anybody, and destroys all functions.
  void abandon() noexcept;

  phase current() const noexcept { return phase_; }
  bool is_open() const noexcept { return phase_ == phase::open; }
  bool is_blocked() const noexcept { return is_blocked_; }
  /// Returns true if a request is not yet answered.
  bool has_pending() const noexcept;
  /// The earliest deadline of the requests that were sent and are not answered.
  time_point deadline() const noexcept;
  const server_properties& broker() const noexcept { return broker_; }
  const failure& why() const noexcept { return why_; }

  static constexpr std::uint16_t channels_wanted = 2047;
  static constexpr std::uint32_t frame_bytes_wanted = 131'072;
  static constexpr std::size_t body_bytes_kept = 16;

private:
  struct request {
    steps what{};
    time_point deadline{};
    answer_function then{};
    reply so_far{};
    std::vector<std::size_t> expected{};  ///< the answers, as indexes of `method`; of a get, that of basic_get_ok
    std::uint64_t first_tag = 0;          ///< of the publishes, on a channel with confirms
    std::vector<std::string> queues{};    ///< the same: the queue of each publish
    std::vector<bool> confirmed{};        ///< the same
    std::size_t unconfirmed = 0;
  };
  struct message {
    std::optional<basic_deliver> delivery{};
    content_reader content{body_bytes_kept};
  };
  enum class stage { opening, selecting, open };
  struct channel {
    stage at = stage::opening;
    bool has_confirms = false;
    bool consumes = false;
    std::uint64_t last_tag = 0;
    std::deque<request> waiting{};
    std::optional<request> sent{};
    std::optional<message> incoming{};
    channel_user user{};
  };

  bool take(const frame& f);
  bool take_method(const frame& f);
  bool take_content(const frame& f);
  bool on_connection(method& m);
  void on_alarm(bool is_on);
  bool on_start(const connection_start& m);
  bool on_tune(const connection_tune& m);
  void on_close(const connection_close& m);
  bool on_channel(std::uint16_t number, channel& c, method& m);
  bool on_opening(std::uint16_t number, channel& c, const method& m);
  bool on_answer(channel& c, const method& m);
  bool on_return(channel& c, const basic_return& m);
  bool on_confirm(channel& c, std::uint64_t tag, bool multiple);
  void on_channel_close(std::uint16_t number, channel& c, const channel_close& m);
  void message_complete(channel& c);
  void send_opening(std::uint16_t number, channel& c);
  void send_next(std::uint16_t number, channel& c);
  void append(std::uint16_t number, const step& what);
  /// Appends a method whose texts are short enough in any case.
  void append_own(std::uint16_t number, const method& what);
  void complete_if_done(std::uint16_t number, channel& c);
  bool malformed(std::string_view cause);
  channel* find(std::uint16_t number);

  terms terms_;
  listener listener_{};
  phase phase_ = phase::greeting;
  frame_reader reader_{};
  connection_tune_ok tuned_{};
  server_properties broker_{};
  std::string out_{};
  std::map<std::uint16_t, channel> channels_{};
  bool is_blocked_ = false;
  failure why_{};
};

/// Describes the refusal of a request: the code as one of our errors, and the broker's text.
failure failure_of(const refusal& why, std::string message);
/// A failure that no answer of the broker explains.
inline failure failed(error code, std::string message) { return {code, {std::move(message), {}, {}, {}}}; }

}  // namespace holdfast::rabbitmq::detail
