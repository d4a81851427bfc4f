// SPDX-FileCopyrightText: The holdfast authors
// SPDX-License-Identifier: BSL-1.0

#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "sim/support/sabotage.hpp"
#include "support/guarantee.hpp"

namespace holdfast::test {

/// A command of an operator. `limit` belongs to a resize.
struct given_order {
  enum class kind { resize, close, open, revoke, evict } what;
  std::uint32_t limit = 0;
};

struct interleaving_options {
  int contenders = 2;
  std::uint32_t limit = 1;
  bool mutex = false;      ///< a mutex instead of a semaphore of limit 1
  bool numbered = false;   ///< each slot has a number
  bool one_fault = false;  ///< also explores all runs in which exactly one thing goes wrong
  std::size_t watch_all_max = 4;
  std::vector<given_order> orders{};  ///< the commands of one operator, one after the other
  seeded_bug bug = seeded_bug::none;
  std::uint64_t states_max = 10'000'000;
};

struct interleaving_result {
  std::string violation{};  ///< empty if no run breaks a guarantee
  std::optional<guarantee> broken{};
  std::string story{};       ///< what happened in the run that breaks a guarantee
  std::uint64_t states = 0;  ///< the number of different states
  std::uint64_t runs = 0;    ///< the number of runs from the beginning to the end
  bool complete = false;     ///< every run was explored
};

/// Each contender is a process that acquires one slot, releases it and closes its pool. Requests reach Consul and
/// replies reach their senders in every possible order, and users release in every order between them. Time passes when
/// nothing else can happen.
///
/// A fault is one of these:
/// - A request or its reply is lost, or the request is not sent.
/// - A request takes effect only after its sender was told that it failed.
/// - A process crashes, and its session ends at any later time.
/// - A user cancels.
///
/// An operator gives its commands at any time, as `semaphore_administration` does. Once in a run, others may write
/// between the operator's read and its write. The target of a revocation or an eviction is the first live holder that
/// the operator sees; if there is none, it is the first that waits.
///
/// Two runs count as one from the moment at which every process has been told the same and the states of Consul and of
/// the pending requests are equal. Apart from that the search is exhaustive.
interleaving_result explore(const interleaving_options& options);

}  // namespace holdfast::test
