// SPDX-FileCopyrightText: The holdfast authors
// SPDX-License-Identifier: BSL-1.0

#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "protocol/administration/administration.hpp"
#include "protocol/base/random.hpp"
#include "protocol/core/events.hpp"
#include "protocol/core/outage.hpp"

namespace holdfast::protocol {

/// The past of a command, as far as the state in Consul does not show it.
struct command_history {
  bool is_first_read = true;
  std::uint64_t first_read = 0;  ///< the index of the first read; 0 during the first read
};

/// A command of an operator, and how long it may take.
struct command {
  /// Returns the next thing to do for this state in Consul.
  std::function<instruction(const inspection&, const command_history&)> next;
  std::string prefix;    ///< with its trailing slash
  std::string lock_key;  ///< the full name of the record's key
  duration time{};       ///< the time limit for the whole command; with `waits`, for an outage
  /// The largest number of successive attempts without progress.
  unsigned attempts_max = 100;
  /// If set, the command writes nothing. It waits for up to this long until there is nothing more to do, and `time` is
  /// how long an outage may last.
  std::optional<duration> waits{};
  /// The limit that the command sets, if any. A limit that no semaphore can have is refused before any request is sent.
  std::optional<std::uint32_t> limit{};
};

// The steps that the shell carries out. It reports the outcome of each step to the run. `within` is the
// timeout of the request, and a read has its `wait` in addition.
namespace command_step {
struct read {
  std::uint64_t index = 0;  ///< unless 0, the read is answered when the index exceeds this, or after `wait`
  duration wait{};
  duration within{};
};
struct end_session {
  std::string session;
  duration within{};
};
struct write {
  std::vector<kv_operation> operations;
  duration within{};
};
struct pause {
  duration time{};
};
/// The command is finished. It is carried out, or `why` tells why not.
struct done {
  failure why{};
};
}  // namespace command_step
using next_step = std::variant<command_step::read, command_step::end_session, command_step::write, command_step::pause,
                               command_step::done>;

/// The execution of a command. It reads the state, asks the command for the next step, has the shell carry it out, and
/// reads again until nothing is left to do. It also reads after a write of unknown outcome, so that a change that was
/// applied is not made again.
class command_run {
public:
  command_run(command what, std::uint64_t seed, time_point now);

  next_step begin(time_point now);
  next_step read_done(event::prefix_listed&& e, time_point now);
  next_step session_ended(failure why, time_point now);
  next_step written(event::txn_done&& e, time_point now);
  next_step rested(time_point now);
  /// The caller has cancelled the command during a pause. It ends with this error.
  next_step cancelled(error_code why) const { return command_step::done{{why, why_.details}}; }

  /// The state that the last successful read has shown.
  const inspection& seen() const { return seen_; }
  /// The traces of dead processes that the command has removed. After a write without an answer, those that are gone at
  /// the next read count as removed by that write.
  const leftovers_count& removed() const { return removed_; }

private:
  next_step again(failure why, time_point now);
  next_step rest(time_point now);
  next_step read(time_point now);
  next_step saw(time_point now);
  next_step wait(const instruction& next, time_point now);
  next_step attempted(failure why, time_point now);
  next_step read_beside(event::txn_done&& e, time_point now);
  next_step end(failure why) const;
  failure failed(error_code code, std::string text) const;
  duration within(time_point now) const;
  bool is_waiting() const { return what_.waits.has_value(); }

  command what_;
  random_source random_;
  time_point deadline_;
  time_point wait_ends_ = never;
  outage outage_{};
  unsigned conflicts_ = 0;
  unsigned in_vain_ = 0;
  failure doubt_{};  ///< the failure of a write, or of the end of a session, whose outcome is unknown
  failure why_{};    ///< the failure of the last attempt, if it failed; it is kept during the pause that follows
  command_history history_{};
  inspection seen_{};
  std::uint64_t watched_ = 0;  ///< the index to wait from
  /// The traces of dead processes that existed before a write without an answer.
  std::optional<leftovers_count> unanswered_{};
  leftovers_count there_{};
  leftovers_count removed_{};
  instruction asked_{};          ///< the current instruction
  bool is_carried_out_ = false;  ///< only grants are left to write, and other processes may write these as well
};

}  // namespace holdfast::protocol
