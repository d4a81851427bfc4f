// SPDX-FileCopyrightText: The holdfast authors
// SPDX-License-Identifier: BSL-1.0

#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "sim/support/broker_model.hpp"

namespace holdfast::test {

struct broker_interleaving_options {
  int processes = 2;
  int acquires = 2;          ///< each process acquires the slot so often; 0: without a bound
  int accidents = 1;         ///< so many connections end, restarts happen, or queues are deleted in a run
  bool operators = false;    ///< an accident may be that an operator deletes B
  bool begins_clean = true;  ///< F has a token at first
  int time_steps = 0;        ///< each is a third of the lease; 0: without a bound
  broker_bug bug = broker_bug::none;
  std::uint64_t states_max = 20'000'000;
};

struct broker_interleaving_result {
  std::string violation{};  ///< empty if no run lets two processes believe
  std::string story{};
  std::uint64_t states = 0;
  bool complete = false;  ///< every run was explored
};

/// Several processes, each with a `broker_pool`, contend for one slot. The broker carries out frames, processes hear
/// answers and are woken, users release, and time passes, in every possible order. So a process may stand still at any
/// time. A token of a connection that has ended may arrive at any time within a lease, or never. The broker carries out
/// the frames of a release without a pause.
///
/// Two states count as one if they decide about the same future (`broker_pool::add_state`), apart from random numbers.
/// In this search those decide only about pauses that are shorter than a step of time. Apart from that the search is
/// exhaustive.
broker_interleaving_result explore(const broker_interleaving_options& options);

}  // namespace holdfast::test
