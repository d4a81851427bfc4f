// SPDX-FileCopyrightText: The holdfast authors
// SPDX-License-Identifier: BSL-1.0

#pragma once

#include <algorithm>
#include <iterator>
#include <optional>

#include "protocol/base/invariant.hpp"

namespace holdfast::protocol {

/// One row of the table beside an enum of states: a change that may happen. `outside` stands for the time before the
/// first state, and for the time after the last one. tools/rules/diagrams.py compares each table with the arrows of its
/// diagram in doc/explanation/how_it_works.md.
template <class State>
struct transition {
  std::optional<State> from;
  std::optional<State> to;
};
inline constexpr std::nullopt_t outside = std::nullopt;

/// A state that stays as it is does not change, so the table has no rows for that.
template <class Table, class From, class To>
constexpr bool allows(const Table& table, From from, To to) {
  return from == to || std::any_of(std::begin(table), std::end(table),
                                   [&](const auto& each) { return each.from == from && each.to == to; });
}

/// A state that changes only by `go_to`, and only as its table allows, which is checked in tests (`check_invariant`).
/// It begins with the state that the table has after `outside`.
template <class State, const auto& table>
class guarded_state {
public:
  operator State() const { return state_; }
  void go_to(State next) {
    // This text names the enum. A test that finds a broken invariant fails with it.
    check_invariant(__PRETTY_FUNCTION__, [&] { return allows(table, state_, next); });
    state_ = next;
  }
  /// The owner of this state is destroyed now.
  void end() const {
    check_invariant(__PRETTY_FUNCTION__,
                    [&] { return allows(table, std::optional<State>(state_), std::optional<State>()); });
  }

private:
  static constexpr bool is_first(const transition<State>& row) { return !row.from; }
  static_assert(std::count_if(std::begin(table), std::end(table), is_first) == 1);

  State state_ = *std::find_if(std::begin(table), std::end(table), is_first)->to;
};

}  // namespace holdfast::protocol
