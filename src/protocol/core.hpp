#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "protocol/actions.hpp"
#include "protocol/context.hpp"
#include "protocol/events.hpp"
#include "protocol/overdue_answer.hpp"

namespace holdfast::protocol {

/// What can be told of a core at any time.
struct core_status {
  std::size_t waiting = 0;  ///< acquires
  std::size_t sessions = 0;
  std::uint32_t limit = 0;  ///< as configured, or as the record says, where that counts and one was seen
};

/// A machine that the shell hosts: events in, actions out; the same events give the same actions.
class core {
public:
  virtual ~core() = default;

  /// Takes the event and appends what must be done, in order. `now` never goes backwards.
  virtual void step(core_event&& e, time_point now, core_actions& out) = 0;
  /// When a `tick` is due, at the latest.
  time_point wake() const { return ctx_.wake(); }
  time_point now() const { return ctx_.now(); }

  /// Whether an acquire that sets no deadline only queues now, so that the time does not matter to it.
  bool only_queues() const { return only_queues_; }
  virtual core_status status() const = 0;

  /// Where Consul notes that one slot is ours: this key is locked by this session, and was last written by the grant.
  struct entry {
    std::string key;
    std::string session;
    std::uint64_t grant = 0;
  };
  /// One for each that the slot counts; none if it is not in use.
  virtual std::vector<entry> entries_of(slot_id id) = 0;
  /// The key that the holder of a mutex has locked.
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
  overdue_answer overdue_;
  bool only_queues_ = false;
};

}  // namespace holdfast::protocol
