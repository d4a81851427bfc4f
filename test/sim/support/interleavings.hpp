#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "sim/support/sabotage.hpp"
#include "support/guarantee.hpp"

namespace holdfast::test {

/// What an operator orders: of a resize, the limit.
struct given_order {
  enum class kind { resize, close, open, revoke, evict } what;
  std::uint32_t limit = 0;
};

struct interleaving_options {
  int contenders = 2;
  std::uint32_t limit = 1;
  bool mutex = false;      ///< instead of a semaphore of limit 1
  bool numbered = false;   ///< each slot has a number
  bool one_fault = false;  ///< besides the runs in which nothing goes wrong, all in which exactly one thing does
  std::size_t watch_all_max = 4;
  std::vector<given_order> orders{};  ///< of one operator, one after the other
  seeded_bug bug = seeded_bug::none;
  std::uint64_t states_max = 10'000'000;
};

struct interleaving_result {
  std::string violation{};  ///< empty: no run breaks a guarantee
  std::optional<guarantee> broken{};
  std::string story{};       ///< else one that does
  std::uint64_t states = 0;  ///< different ones
  std::uint64_t runs = 0;    ///< from the beginning to the end
  bool complete = false;     ///< every run was looked at
};

/// Each contender is a process that acquires one slot, releases it and closes its pool. Requests reach Consul, and
/// replies their senders, in every order that there is, and between them users release in every order. One fault is: a
/// request, or its reply, is lost, or not sent, or takes effect only after its sender was told that it failed; a
/// process crashes, and its session ends at any later time; a user cancels. Time passes when nothing else can happen.
///
/// An operator gives its orders at any time, as `semaphore_administration` does; once in a run others write between its
/// look and its write. A wish, or an eviction, is for the first that holds when it looks, or the first that waits.
///
/// Two runs that have told every process the same, and have left the same in Consul and on the way, are one from there
/// on. The rest is exhaustive.
interleaving_result explore(const interleaving_options& options);

}  // namespace holdfast::test
