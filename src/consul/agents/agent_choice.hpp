// SPDX-FileCopyrightText: The holdfast authors
// SPDX-License-Identifier: BSL-1.0

#pragma once

#include <chrono>
#include <cstddef>
#include <optional>
#include <vector>

#include "consul/net_names.hpp"
#include "net/asio.hpp"

namespace holdfast::consul::detail {

/// Chooses which of several agents of one cluster gets the requests: if possible, the first in their order. The choice
/// stays the same for as long as that agent works, except that it returns to an earlier agent that works again. Pure:
/// the transport reports events, and reads from `current` which agent to ask and from `evaluate` which agents to try.
///
/// A trial is an extra request, which asks an agent whether it knows a leader. A server answers it at once and without
/// the leader; a client agent forwards it to a server. An agent that accepts connections, but does not answer or
/// answers with errors, is left only after a trial. So the agent is kept when the whole cluster is slow, because then
/// it answers the trial as well as the others do.
///
/// The current agent is in one of these states. The diagram leaves out that `not_reached` has the same effect in the
/// other states, and that `erred` makes a silent agent erring. The table in unit.consul_agent_choice has a row for each
/// event in each state.
///
///              silent, cancelled          1 s                     another agent knows a leader
///     working -------------------> silent ----> doubted (trials) ------------------------------> another agent
///        |          erred                   ^                                                        ^
///        +-----------------------> erring --+                                                        |
///        +-------------------------------------------------------------------------------------------+ not_reached
///
/// `answered` makes it working again. So does a trial in which the agent knows a leader, if the agent was only silent.
/// If it was doubted, that takes effect at the next `evaluate`.
class agent_choice {
public:
  enum class trial { knows_leader, knows_none, failed };
  enum class state { working, silent, erring, doubted };

  explicit agent_choice(std::size_t agents) : agents_(agents) {}

  std::size_t current() const noexcept { return current_; }
  /// The state of the current agent.
  state current_state() const noexcept;

  // --- Events.
  /// The agent has answered a request, and neither with a server's error nor with something that is not Consul's.
  void answered(std::size_t agent, time_point now) noexcept;
  /// The agent has answered with a server's error or with something that is not Consul's, or has not served the first
  /// request on a new connection: it has closed the connection or answered 429.
  void erred(std::size_t agent, time_point now) noexcept;
  /// A request that the agent should answer at once has been pending since `since`, and no answer has arrived. The
  /// request may have ended meanwhile. The agent counts as silent from then on, or from its last answer if that is
  /// later.
  void silent(std::size_t agent, time_point since) noexcept;
  /// The user has cancelled such a request. The agent counts as silent as in `silent`.
  void cancelled(std::size_t agent, time_point since) noexcept { silent(agent, since); }
  /// No connection to the agent could be made, or one side has refused the other's certificate. The agent is avoided
  /// for a while. If it is the current one, another agent becomes current, unless all others are avoided for at least
  /// as long. `has_no_address` says that the agent does not exist for now, so it is avoided for longer.
  void not_reached(std::size_t agent, time_point now, bool has_no_address = false) noexcept;
  /// A trial has ended. Report `silent` again for each request that is still pending.
  void tried(std::size_t agent, trial result) noexcept;

  struct advice {
    std::vector<std::size_t> to_try{};                 ///< start a trial of each; report its result to `tried`
    bool has_left = false;                             ///< abort the requests at other agents than `current`
    time_point evaluate_again_at = time_point::max();  ///< call `evaluate` again at this time, or after the next event
  };
  /// Re-evaluates the choice at the time `now`. May change `current`.
  advice evaluate(time_point now);

  /// How long an agent may not answer, or answer with errors only, before trials begin. Also the least time between two
  /// trials of the same agent during the doubt.
  static constexpr std::chrono::milliseconds doubted_after{1'000};
  /// If another agent answers a trial sooner, the current agent still has this long from the start of its own trial.
  static constexpr std::chrono::milliseconds head_start{300};
  /// How long an agent that could not be reached is avoided: the first time, and at most. An agent that has no address
  /// is avoided for twice the latter.
  static constexpr std::chrono::milliseconds avoided_min{1'000};
  static constexpr std::chrono::milliseconds avoided_max{30'000};
  /// How often an agent that comes earlier in the order is tried again.
  static constexpr std::chrono::milliseconds returned_to_after{60'000};

private:
  struct agent {
    std::optional<time_point> answered{};  ///< the last call of `answered` or `erred` for this agent
    std::optional<time_point> errs_since{};
    std::optional<time_point> silent_since{};
    time_point avoided_until = time_point::min();
    clock::duration avoided_for{};
    bool is_tried = false;  ///< a trial is pending
    std::optional<time_point> tried{};
    /// The result of the last trial since the doubt began or `current` changed.
    std::optional<trial> result{};
  };

  void go_to(std::size_t agent, time_point now) noexcept;
  std::optional<time_point> doubted_at() const noexcept;
  void try_in(advice& into, std::size_t agent, time_point now, clock::duration every);
  std::optional<std::size_t> better_one(std::size_t end) const noexcept;
  void weigh(advice& into, time_point now);

  std::vector<agent> agents_;
  std::size_t current_ = 0;
  bool doubts_ = false;
  time_point return_at_ = time_point::max();
};

}  // namespace holdfast::consul::detail
