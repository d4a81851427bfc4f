// SPDX-FileCopyrightText: The holdfast authors
// SPDX-License-Identifier: BSL-1.0

#pragma once

#include <cstdint>
#include <string>
#include <variant>
#include <vector>

#include "protocol/base/failure.hpp"
#include "protocol/base/random.hpp"
#include "protocol/base/time.hpp"
#include "protocol/broker/broker_events.hpp"
#include "protocol/core/outage.hpp"

// The names N, A, B, F and N-F are those of the queues in src/rabbitmq/broker_link.hpp. The mark is the queue F of slot
// 0, which no semaphore has.

namespace holdfast::protocol {

/// One request of an administrator to the broker, about the slot `number` unless stated otherwise.
enum class broker_request {
  lock,            ///< declare N, which is exclusive: the mutex of administrators
  unlock,          ///< delete N
  find_mark,       ///< ask for the mark
  declare_mark,    ///< declare the mark; `number` is how many slots there will be
  delete_mark,     ///< delete the mark
  find_slot,       ///< ask for A
  declare_slot,    ///< declare A
  delete_slot,     ///< delete A
  find_holder,     ///< ask for B
  take,            ///< declare B
  give_back,       ///< delete B
  find_tokens,     ///< ask for F, and how many messages it has
  declare_tokens,  ///< declare F
  publish_token,   ///< publish a token, and ask for F
  delete_tokens,   ///< delete F
  delete_hints,    ///< delete N-F
};

/// The answer to a `broker_request`.
struct broker_answer {
  enum class kind {
    ok,
    missing,  ///< there is no such queue
    locked,   ///< the queue is exclusive to another connection
    differs,  ///< the queue has other arguments
    failed,   ///< anything else; if the connection has ended, it is unknown what the broker has done
  } what = kind::ok;
  std::uint32_t messages = 0;  ///< of `find_tokens`
  failure error{};             ///< unless the answer is `ok`
};

/// A command of an operator.
struct broker_command {
  enum class kind { create, grow, shrink, destroy, inspect, wait_until_released, wait_until_drained } what;
  std::string name{};  ///< of the semaphore
  /// How many slots to create, add or remove; of `destroy`, how many above the highest; of `wait_until_released`, which
  /// slot.
  std::uint32_t number = 0;
  /// The time limit of the whole command. For a wait it limits the length of an outage.
  duration time{};
  duration within = duration::max();  ///< the time limit of a wait
};

// The steps that the shell carries out. It reports the outcome of each step to the run.
namespace broker_step {
/// Open a connection, and close the one before. All requests up to the next `connect` are made on it.
struct connect {
  duration within{};
  bool operator==(const connect&) const = default;
};
struct ask {
  broker_request what;
  std::uint32_t number = 0;
  duration within{};
  bool operator==(const ask&) const = default;
};
struct pause {
  duration time{};
  bool operator==(const pause&) const = default;
};
/// The command is finished. It is carried out, or `why` tells why not.
struct done {
  failure why{};
  bool operator==(const done&) const = default;
};
}  // namespace broker_step
using broker_next_step = std::variant<broker_step::connect, broker_step::ask, broker_step::pause, broker_step::done>;

/// The execution of a command: which request is made next, and what each answer means. There is one request at a time.
/// A command that changes something first takes the mutex, on the connection of all its requests. So no request
/// outlives the mutex.
///
/// If the process ends in the middle, the slots that exist are 1 to n without a gap. The mark tells that a `create` has
/// begun and for how many slots. So the next `create` for this number goes on.
class broker_command_run {
public:
  broker_command_run(broker_command what, std::uint64_t seed, time_point now);

  broker_next_step begin(time_point now);
  broker_next_step connected(failure why, time_point now);
  broker_next_step answered(broker_answer a, time_point now);
  broker_next_step rested(time_point now);

  /// The result of the command, to be read when it is done.
  struct findings {
    std::uint32_t slots = 0;           ///< how many slots exist
    bool unfinished = false;           ///< there is a mark; of `inspect`
    std::vector<std::uint32_t> taken;  ///< the slots that somebody holds, also those that do not exist any more
    std::vector<std::uint32_t> kept;   ///< the slots whose F `destroy` has not deleted
  };
  const findings& seen() const { return seen_; }

private:
  enum class stage { counting, making, removing, looking_up, clearing, scanning };
  enum class pausing { outage, mutex, poll };

  bool is_wait() const;
  bool is_read_only() const { return is_wait() || what_.what == broker_command::kind::inspect; }
  bool is_limit_right() const;
  broker_next_step connect(time_point now);
  broker_next_step ask(broker_request what, std::uint32_t number, time_point now);
  broker_next_step locked_out(time_point now);
  broker_next_step counted(const broker_answer& a, time_point now);
  broker_next_step begin_create(time_point now);
  broker_next_step marked(broker_answer a, time_point now);
  broker_next_step limit_conflict(failure why = {}) const;
  broker_next_step unmarked(time_point now);
  broker_next_step took(broker_answer a, time_point now);
  broker_next_step found_tokens(broker_answer a, time_point now);
  broker_next_step given_back(time_point now);
  broker_next_step make(std::uint32_t number, time_point now);
  broker_next_step remove(std::uint32_t number, time_point now);
  broker_next_step clear(std::uint32_t number, time_point now);
  broker_next_step begin_scan(time_point now);
  broker_next_step saw_holder(broker_answer a, time_point now);
  broker_next_step scan(std::uint32_t number, time_point now);
  broker_next_step scanned(time_point now);
  broker_next_step poll(time_point now);
  broker_next_step failed(failure why, time_point now);
  broker_next_step end(failure why = {}) const { return broker_step::done{std::move(why)}; }
  failure described(error_code code, std::string text) const { return {code, {std::move(text), what_.name, {}, {}}}; }

  broker_command what_;
  random_source random_;
  time_point deadline_;
  time_point wait_ends_ = never;
  outage outage_{};
  broker_request asked_{};
  std::uint32_t number_ = 0;  ///< of the last request
  stage stage_ = stage::counting;
  pausing pause_ = pausing::outage;
  duration poll_pause_;
  bool has_changed_ = false;   ///< a request was sent after which not all commands may be repeated
  bool was_unmarked_ = false;  ///< the mark of another `create` was deleted
  bool is_taken_ = false;      ///< B of the present slot belongs to another
  bool is_beyond_ = false;     ///< the scan is above the slots that exist
  bool has_scanned_ = false;   ///< a scan has found slots
  std::uint32_t last_ = 0;     ///< the last slot that is to be made, or to be removed
  std::uint32_t top_ = 0;      ///< the highest number that is of interest
  findings seen_{};
};

}  // namespace holdfast::protocol
