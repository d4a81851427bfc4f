// SPDX-FileCopyrightText: The holdfast authors
// SPDX-License-Identifier: BSL-1.0

#pragma once

#include <cstdint>
#include <memory>

#include "protocol/broker/broker_command.hpp"
#include "rabbitmq/broker_link.hpp"
#include "rabbitmq/client_impl.hpp"
#include "rabbitmq/queues.hpp"

namespace holdfast::rabbitmq::detail {

/// The I/O of a `broker_command_run`: makes its requests, on one connection that nothing else uses. A request is made
/// when the one before is answered. Lives on the client's strand.
class command_runner {
public:
  command_runner(std::shared_ptr<client_impl> client, const link_terms& terms);
  ~command_runner() { leave(); }
  command_runner(const command_runner&) = delete;
  command_runner& operator=(const command_runner&) = delete;

  /// The time for a run that this class carries out.
  static protocol::time_point now() { return protocol::time_point(net::clock::now().time_since_epoch()); }

  /// Completes when the command is done. If the coroutine is cancelled, the connection is closed, and the failure is
  /// asio::error::operation_aborted.
  awaitable<failure> run(protocol::broker_command_run& its);

private:
  awaitable<protocol::broker_next_step> take(protocol::broker_command_run& its, protocol::broker_next_step step);
  awaitable<protocol::broker_next_step> connect(protocol::broker_command_run& its, protocol::broker_step::connect step);
  awaitable<protocol::broker_next_step> ask(protocol::broker_command_run& its, protocol::broker_step::ask step);
  steps request_of(const protocol::broker_step::ask& step) const;
  protocol::broker_answer answer_of(const protocol::broker_step::ask& step, reply&& its) const;
  void leave() noexcept;

  const std::shared_ptr<client_impl> client_;
  const queues queues_;
  const std::uint16_t heartbeat_;
  std::shared_ptr<connection> link_{};
};

}  // namespace holdfast::rabbitmq::detail
