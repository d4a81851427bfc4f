// SPDX-FileCopyrightText: The holdfast authors
// SPDX-License-Identifier: BSL-1.0

#pragma once

#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

#include "protocol/broker/broker_pool.hpp"

namespace holdfast::test {

/// The promises R1 to R8 of the semaphore on RabbitMQ. R1: two processes of ours never believe in one slot. R2: nor do
/// one of ours and a client of another kind. R3: progress. R4: the order of acquires in a process. R5: each acquire is
/// answered once. R6: each loss has a cause. R7: nothing is left behind. R8: requests are bounded.
enum class promise { exclusion = 1, peers = 2, progress = 3, order = 4, answers = 5, losses = 6, leaks = 7, cost = 8 };

/// A bug that is planted on purpose, to show that the checkers find it.
enum class broker_bug {
  none,
  no_purge,
  lease_from_the_answer,
  wait_from_the_send,
  no_question_before_the_token,
  token_after_an_unclean_end,
  no_wait,
  token_while_believing,
  token_got_before_b,
  token_before_the_user_lets_go,
  token_after_the_delete,
  token_on_another_connection,
  grant_without_verification,
  second_declare_wins,
  handoff_after_revoked,
};

struct broker_bug_info {
  broker_bug bug;
  const char* name;
  std::vector<promise> breaks;
};
extern const std::vector<broker_bug_info> broker_bugs;
std::string_view to_string(broker_bug bug);

/// One method that a client sends, as far as it concerns one slot.
enum class broker_frame : std::uint8_t { declare_b, get_f, ask_a, ask_b, purge_f, put_token, delete_b, put_hint };

/// The queues of one semaphore at a broker. Connections are numbers; 0 is none. A value: a copy goes on by itself.
struct broker_queues {
  struct slot {
    bool exists = false;  ///< A
    int owner = 0;        ///< the connection that has B
    bool token = false;   ///< in F
  };
  std::vector<slot> slots{};
  std::vector<std::uint32_t> hints{};

  slot& of(std::uint32_t number) { return slots[number - 1]; }
  /// Carries the frame out. Returns false if the broker refuses it and closes the channel.
  bool carry_out(broker_frame frame, std::uint32_t number, int connection, bool& got_token);
  /// The broker deletes what belongs to the connection.
  void end_connection(int connection);
  void restart();
};

/// One write of a client, which the broker carries out frame by frame. A refused frame ends it.
struct broker_write {
  protocol::seat_id seat{};
  protocol::request_id id = 0;
  std::vector<broker_frame> frames{};
  std::size_t next = 0;
  std::optional<broker_frame> refused{};
  bool got_token = false;
  enum class kind : std::uint8_t { seize, verify, cleanse, vacate } what = kind::seize;

  bool is_done() const { return refused || next == frames.size(); }
  std::uint32_t number() const { return protocol::number_of(seat); }
  /// The event that the link reports once the write is done.
  protocol::broker_event answer() const;
};
broker_write write_of(const protocol::action::seize& a, broker_bug bug);
broker_write write_of(const protocol::action::verify& a);
broker_write write_of(const protocol::action::cleanse& a, broker_bug bug);
broker_write write_of(const protocol::action::vacate& a, broker_bug bug);

/// Changes the options of a core as the bug has it.
void bend(protocol::broker_options& options, broker_bug bug);

}  // namespace holdfast::test
