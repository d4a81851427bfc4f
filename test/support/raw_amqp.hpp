// SPDX-FileCopyrightText: The holdfast authors
// SPDX-License-Identifier: BSL-1.0

#pragma once

#include <cstdint>
#include <map>
#include <set>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

#include "rabbitmq/frame.hpp"
#include "rabbitmq/method.hpp"

// A raw AMQP connection for tests: the test decides which methods are in one write, and sees each answer.
namespace holdfast::test {

namespace amqp = holdfast::rabbitmq::detail;

/// A method, and the message that it carries.
struct amqp_request {
  amqp::method what;
  std::string body{};
  std::string expiration{};
};

amqp_request declare(std::string queue, amqp::queue_arguments arguments = {});            ///< a durable queue
amqp_request declare_exclusive(std::string queue, amqp::queue_arguments arguments = {});  ///< not durable
amqp_request passive(std::string queue);
amqp_request get(std::string queue);  ///< without acknowledgement
amqp_request purge(std::string queue);
amqp_request remove(std::string queue);
amqp_request message(std::string queue, std::string body = "clean");

/// The arguments of the queues of slots and of tokens.
amqp::queue_arguments length_0();
amqp::queue_arguments token_queue(std::int64_t lease_ms);

/// The broker has closed the connection. `code` is 0 if it gave no reason.
struct amqp_closed : std::runtime_error {
  amqp_closed(std::uint16_t reply_code, const std::string& text) : std::runtime_error(text), code(reply_code) {}
  std::uint16_t code;
};

struct amqp_login {
  std::string user = "guest";
  std::string password = "guest";
  std::string virtual_host = "/";
  std::uint16_t heartbeat = 0;
  std::string name{};
};

/// Its socket blocks. If an answer takes longer than a minute, an exception fails the test.
class raw_amqp {
public:
  /// Opens the connection to 127.0.0.1, and channel 1. Throws `amqp_closed` if the broker refuses it.
  explicit raw_amqp(std::uint16_t port, const amqp_login& login = {});
  raw_amqp(const raw_amqp&) = delete;
  raw_amqp& operator=(const raw_amqp&) = delete;
  ~raw_amqp() { close(); }

  void open_channel(std::uint16_t channel);
  /// Sends all in one write.
  void send(const std::vector<amqp_request>& requests, std::uint16_t channel = 1);
  void send_bytes(std::string_view bytes);
  /// Sends all in one write. Returns the answers: "ok", "empty", the body of a message, or the code of an error. No
  /// answer follows an error, because it closes the channel. The channel is opened again then.
  std::vector<std::string> ask(const std::vector<amqp_request>& requests, std::uint16_t channel = 1);
  /// Returns which of these queues exist: a mandatory message that expires at once to each, in one write, with
  /// confirms.
  std::vector<bool> probe(const std::vector<std::string>& queues);

  /// The next answer. `body` has its message.
  amqp::method read();
  template <class Method>
  Method expect() {
    amqp::method found = read();
    if (auto* right = std::get_if<Method>(&found)) return std::move(*right);
    throw std::runtime_error("an unexpected answer: " + std::string(name_of(found)));
  }
  /// Waits until the broker says that it takes no messages. Answers that come before are dropped.
  void await_blocked();
  /// Waits for the end of the connection. Returns the code with which the broker closes it.
  std::uint16_t code_of_end();
  /// Closes the socket. The broker is told nothing.
  void close() noexcept;

  std::uint16_t local_port() const;
  amqp::connection_tune offer{};
  std::string text{};                            ///< of the last error
  std::string body{};                            ///< of the last message
  std::map<std::string, std::uint32_t> count{};  ///< of the messages in each queue, as declares have told it
  bool is_blocked = false;

private:
  void handshake(const amqp_login& login);
  void receive();
  bool next_frame(amqp::frame& out);
  void read_content();
  std::string answer_to(amqp::method&& found, std::uint16_t channel);

  int socket_ = -1;
  amqp::frame_reader frames_;
  std::string received_;  // and not yet parsed
  bool has_confirms_ = false;
  std::uint64_t published_ = 0;
};

}  // namespace holdfast::test
