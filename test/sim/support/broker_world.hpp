// SPDX-FileCopyrightText: The holdfast authors
// SPDX-License-Identifier: BSL-1.0

#pragma once

#include <cstdint>
#include <iosfwd>
#include <optional>
#include <string>

#include "sim/support/broker_model.hpp"

namespace holdfast::test {

/// The contents of a world. They follow from its seed.
struct broker_world_options {
  std::uint64_t seed = 1;
  int processes = 2;
  std::uint32_t slots = 1;
  int users = 2;           ///< in each process
  int peers = 0;           ///< clients that follow the description, and know neither tokens nor leases
  bool harsh = true;       ///< connections end by other causes than the deed or death of their owners
  bool operators = false;  ///< an operator deletes B, and removes and makes A
  bool alarms = false;
  bool hangs = false;  ///< the applications of processes do not say that they are alive, some for longer than a lease
  static broker_world_options of(std::uint64_t seed);
};

struct broker_world_result {
  std::string violation{};  ///< empty if every check passed
  std::optional<promise> broken{};
  std::uint64_t steps = 0;
  std::uint64_t requests = 0;
  std::uint64_t grants = 0;
  std::uint64_t handoffs = 0;
  std::uint64_t losses = 0;
  std::uint64_t faults = 0;
  std::uint64_t trace = 0;  ///< a digest of all actions of the cores, in order
  void add(const broker_world_result& other);
};

/// Runs processes, each with a `broker_pool`, against a model of the broker with everything that can go wrong. The same
/// options give the same run. A run has faults at first, then a calm time, and then every process closes.
broker_world_result run_broker_world(const broker_world_options& options, broker_bug bug = broker_bug::none,
                                     std::ostream* story = nullptr);

}  // namespace holdfast::test
