#pragma once

#include <cstddef>
#include <optional>
#include <vector>

#include "net.hpp"

namespace holdfast::consul::detail {

/// Which of several agents of one cluster requests go to: the first in their order that works, and the same one for as
/// long as it does. Pure: it is told what becomes of requests, and says whom to ask, and whom to try.
///
/// A trial is a request beside the others, which an agent answers by itself and at once: whether it knows a leader.
/// Only by trials does it leave an agent that has taken connections and says nothing, or has lost the others: one that
/// is merely slow, because the cluster is, answers them as well as the others do.
class agent_choice {
public:
  enum class trial { knows_leader, knows_none, failed };

  explicit agent_choice(std::size_t agents) : agents_(agents) {}

  std::size_t current() const noexcept { return current_; }

  // --- What became of requests.
  /// A reply, but for a server's error.
  void answered(std::size_t agent, time_point now) noexcept;
  /// A server's error: an agent without a leader gives no other replies.
  void erred(std::size_t agent, time_point now) noexcept;
  /// No connection could be made. The next agent is asked from now on. `is_nobody`: there is no such agent, for now.
  void not_reached(std::size_t agent, time_point now, bool is_nobody = false) noexcept;

  // --- Trials.
  struct advice {
    std::vector<std::size_t> to_try{};          ///< each is to be told to `tried`
    bool has_left = false;                      ///< what is under way at other agents than `current` is to be given up
    time_point look_again = time_point::max();  ///< unless something happens before
  };
  /// `waits_since`: when the oldest of those requests to the current agent was sent that are to be answered at once.
  advice look(time_point now, std::optional<time_point> waits_since);
  void tried(std::size_t agent, trial result) noexcept;

  /// How long an agent may say nothing, or only err, before it is tried; and how often it is tried then.
  static constexpr std::chrono::milliseconds doubted_after{1'000};
  /// How much longer than another agent it may take to answer a trial.
  static constexpr std::chrono::milliseconds head_start{300};
  /// How long an agent that could not be reached is not asked, at first and at most.
  static constexpr std::chrono::milliseconds avoided_min{1'000};
  static constexpr std::chrono::milliseconds avoided_max{30'000};
  /// How often an agent that comes earlier in the order is tried again.
  static constexpr std::chrono::milliseconds returned_to_after{60'000};

private:
  struct state {
    time_point answered = time_point::min();
    std::optional<time_point> errs_since{};
    time_point avoided_until = time_point::min();
    clock::duration avoided_for{};
    bool is_tried = false;  ///< a trial is under way
    time_point tried = time_point::min();
    std::optional<trial> result{};  ///< of the last one, if that was since the doubt
  };

  void go_to(std::size_t agent, time_point now) noexcept;
  std::optional<time_point> doubted_at(std::optional<time_point> waits_since) const noexcept;
  void try_in(advice& into, std::size_t agent, time_point now, clock::duration every);
  std::optional<std::size_t> better_one(std::size_t end) const noexcept;
  void weigh(advice& into, time_point now);

  std::vector<state> agents_;
  std::size_t current_ = 0;
  bool doubts_ = false;
  time_point return_at_ = time_point::max();
};

}  // namespace holdfast::consul::detail
