#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "protocol/administration.hpp"
#include "protocol/events.hpp"
#include "protocol/outage.hpp"
#include "protocol/random.hpp"

namespace holdfast::protocol {

/// What an order knows of its own past, besides what stands in Consul.
struct command_history {
  bool is_first_read = true;
  bool in_doubt = false;         ///< an earlier write of it may have been applied, or may be later
  std::uint64_t first_read = 0;  ///< the index of the first one, at the later ones
};

/// An operator's order, and how long it may take.
struct command {
  /// What has to be done next, where this stands in Consul.
  std::function<instruction(const inspection&, const command_history&)> next;
  std::string prefix;    ///< with its trailing slash
  std::string lock_key;  ///< whole
  duration time{};       ///< for all of it
  /// How often in a row it looks and writes in vain.
  unsigned attempts_max = 100;
  /// It writes nothing, but waits for so long until there is no more to be done. Then `time` is how long an outage may
  /// last.
  std::optional<duration> waits{};
  /// The limit that it sets, if it sets one. One that no semaphore can have is refused before anything is asked.
  std::optional<std::uint32_t> limit{};
};

// What the shell has to do next, and to tell the run what became of it. `within`: how long that request may take.
namespace command_step {
struct read {
  std::uint64_t index = 0;  ///< other than 0: when the index goes past it, or when `wait` is over
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
/// It is over: carried out, or why not.
struct done {
  failure why{};
};
}  // namespace command_step
using next_step = std::variant<command_step::read, command_step::end_session, command_step::write, command_step::pause,
                               command_step::done>;

/// An order on its way: looks, asks what comes next, lets that be done, and looks again until nothing is left to do.
/// After a write of unknown outcome it looks, too: what is done already is not done again.
class command_run {
public:
  command_run(command what, std::uint64_t seed, time_point now);

  next_step begin(time_point now);
  next_step read_done(event::prefix_listed&& e, time_point now);
  next_step session_ended(failure why, time_point now);
  next_step written(event::txn_done&& e, time_point now);
  next_step rested(time_point now);
  /// The pause was cut short for good.
  next_step cancelled(error_code why) const { return command_step::done{{why, why_.details}}; }

  /// What the last look that succeeded has shown.
  const inspection& seen() const { return seen_; }
  /// What its writes have removed. If one got no answer, what is gone at the next look is taken for its work.
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
  failure doubt_{};  ///< what a write of unknown outcome failed with
  failure why_{};    ///< the latest failure
  command_history history_{};
  inspection seen_{};
  std::uint64_t watched_ = 0;  ///< the index to wait from
  /// What there was when a write got no answer.
  std::optional<leftovers_count> unanswered_{};
  leftovers_count there_{};
  leftovers_count removed_{};
  instruction asked_{};          ///< under way
  bool is_carried_out_ = false;  ///< what is still to be done are grants only, which others may write as well
};

}  // namespace holdfast::protocol
