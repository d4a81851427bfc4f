// SPDX-FileCopyrightText: The holdfast authors
// SPDX-License-Identifier: BSL-1.0

#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "protocol/core/actions.hpp"
#include "protocol/core/context.hpp"
#include "protocol/core/core_trust.hpp"
#include "protocol/core/events.hpp"
#include "protocol/core/queue_state.hpp"

namespace holdfast::protocol {

/// The status of a core, which is available at any time.
struct core_status {
  std::size_t waiting = 0;  ///< acquires in the local queue
  std::size_t sessions = 0;
  std::uint32_t limit = 0;  ///< the configured limit, or the recorded one if it counts and was seen; 1 for a mutex set
  core_trust trust{};
};

/// A state machine that the shell hosts: events go in, actions come out. With the same seed, the same events at the
/// same times give the same actions.
class core {
public:
  virtual ~core() = default;

  /// Takes the event and appends the resulting actions to `out`, in order. If `now` is earlier than the core's time,
  /// the core's time stays.
  virtual void step(core_event&& e, time_point now, core_actions& out) = 0;
  /// The latest time at which the next `tick` is due: the earliest of the times for which the steps have set timers.
  /// Before it, time alone changes nothing.
  time_point wake() const { return ctx_.wake(); }
  time_point now() const { return ctx_.now(); }

  /// True if users of this process hold all slots, and nothing else is due. An acquire without a deadline then joins
  /// the local queue or is answered at once, and the current time does not matter to it.
  bool only_queues() const { return only_queues_; }
  virtual core_status status() const = 0;
  /// The measurements of the last step.
  const measurements& measured() const { return ctx_.measured(); }
  /// The queue, as far as it is known. Empty if nothing is known, or if the kind of lock has no queue. At most
  /// `holders_max` holders are listed.
  virtual std::optional<queue_state> queue(std::size_t holders_max) const {
    static_cast<void>(holders_max);
    return {};
  }
  /// The failure of the outage that this core knows of. Empty if requests are answered.
  virtual std::optional<failure> why_unavailable() const { return {}; }

  /// The proof in Consul that one slot is ours: the session has locked the key, and the grant was the key's last write.
  struct entry {
    std::string key;
    std::string session;
    std::uint64_t grant = 0;
  };
  /// One entry for each session that stands for the slot. Empty if no user holds the slot, or if the slot is lost.
  virtual std::vector<entry> entries_of(slot_id id) = 0;
  /// For a mutex, the key that its holder locks. For a semaphore, the key of its record. A mutex set returns an empty
  /// text if no user holds the slot, or if the slot is lost.
  virtual std::string lock_key(slot_id id) = 0;

protected:
  explicit core(std::uint64_t seed) : ctx_(seed) {}
  core(const core&) = default;
  core& operator=(const core&) = default;

  template <class Action>
  void act(Action a) {
    ctx_.act(std::move(a));
  }
  bool due_or_wake(time_point when) { return ctx_.due_or_wake(when); }

  context ctx_;
  bool only_queues_ = false;
};

}  // namespace holdfast::protocol
