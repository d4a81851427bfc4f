// SPDX-FileCopyrightText: The holdfast authors
// SPDX-License-Identifier: BSL-1.0

#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <vector>

#include "protocol/base/transitions.hpp"
#include "protocol/broker/broker_actions.hpp"
#include "protocol/broker/broker_options.hpp"

namespace holdfast::protocol {

/// Chooses the slots that this process tries to have. A search is a series of rounds. A round tries the slot that this
/// process had last, then asks the broker which slots are free, and tries those in random order. Then it pauses.
class slot_search {
public:
  enum class phase {
    resting,   ///< nobody here waits for a slot
    asking,    ///< the broker must be asked which slots are free
    probing,   ///< the broker is being asked
    choosing,  ///< the free slots are known
    waiting,   ///< no slot was free, or others were faster
  };
  struct choice {
    std::uint32_t number = 0;
    bool raced = false;  ///< the broker has reported the slot as free
  };

  phase current() const { return state_; }
  bool is(phase p) const { return state_ == p; }
  /// How many slots there are, as far as is known. 0: unknown.
  std::uint32_t count() const { return count_; }
  bool awaits(request_id id) const { return request_ == id && id != 0; }
  bool has_request() const { return request_ != 0; }
  time_point asked_at() const { return asked_at_; }
  /// All requests before this one are older than the last round's result.
  request_id sought() const { return sought_; }

  /// Begins a round. `tries_last`: with the slot that this process had last.
  void begin(bool tries_last);
  void rest();
  /// The next slot to try, apart from those that are `ours`. Empty if no slot is known to try now.
  std::optional<choice> choose(broker_context& ctx, const std::vector<bool>& ours);
  /// No candidate is left.
  void exhausted(broker_context& ctx, const broker_options& options);

  /// Asks the broker which slots are free.
  void probe(broker_context& ctx);
  /// Asks the link to create the semaphore.
  void create(broker_context& ctx, std::uint32_t count);
  /// The pending request has failed, is overdue, or must not be waited for.
  void forget_request();
  /// In an alarm of the broker: takes all slots for free, in place of a probe.
  void guess();
  /// The answer to a probe.
  void probed(broker_context& ctx, const event::probed& e, const std::vector<bool>& ours,
              const broker_options& options);
  void created();

  /// Slot `number` was seized, or is locked: it exists.
  void saw(std::uint32_t number);
  void saw_none(std::uint32_t number);
  void had(std::uint32_t number) { last_ = number; }
  /// Another was faster. `most`: how often that may happen in a round.
  void lost_race(broker_context& ctx, unsigned most, const broker_options& options);
  /// This process has released the slot, and does not try it again before `when`.
  void yielded(std::uint32_t number, time_point when) { again_[number] = when; }
  void found_none(broker_context& ctx, request_id sought, const broker_options& options);
  template <class Digest>
  void add_state(Digest& d, time_point now) const {
    d << current() << count_ << asked_count_ << last_ << tries_last_ << guessed_ << lost_races_ << (poll_at_ <= now);
    for (const std::uint32_t each : candidates_) d << each;
    for (const auto& [number, when] : again_) d << number << (when <= now);
  }
  time_point poll_at() const { return poll_at_; }

private:
  static constexpr transition<phase> transitions[] = {
      {outside, phase::resting},         {phase::resting, phase::asking},   {phase::asking, phase::probing},
      {phase::asking, phase::choosing},  {phase::asking, phase::waiting},   {phase::asking, phase::resting},
      {phase::probing, phase::asking},   {phase::probing, phase::choosing}, {phase::probing, phase::waiting},
      {phase::probing, phase::resting},  {phase::choosing, phase::asking},  {phase::choosing, phase::waiting},
      {phase::choosing, phase::resting}, {phase::waiting, phase::asking},   {phase::waiting, phase::resting},
  };

  std::optional<std::uint32_t> due_again(broker_context& ctx, const std::vector<bool>& ours);
  bool is_left_to_others(std::uint32_t number) const { return again_.contains(number); }
  request_id ask(broker_context& ctx);

  guarded_state<phase, transitions> state_{};
  std::uint32_t count_ = 0;
  std::uint32_t asked_count_ = 0;  ///< how many slots the last probe was for
  std::uint32_t last_ = 0;
  bool tries_last_ = false;
  bool guessed_ = false;  ///< the candidates are guessed
  unsigned lost_races_ = 0;
  std::vector<std::uint32_t> candidates_;
  std::map<std::uint32_t, time_point> again_;
  request_id request_ = 0;
  request_id sought_ = 0;
  time_point asked_at_{};
  time_point poll_at_ = never;
};

}  // namespace holdfast::protocol
