// SPDX-FileCopyrightText: The holdfast authors
// SPDX-License-Identifier: BSL-1.0

#pragma once

#include <cstddef>
#include <cstdint>
#include <holdfast/testing/store.hpp>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "support/agent.hpp"

namespace holdfast::test {

/// Random operations on Consul. They are sent to a real agent and to the model, and the replies and wake-ups are
/// compared.
///
/// A sequence is made from its seed alone, and names keys and sessions by numbers. So any part of it can be run again
/// by itself, which is how a disagreement is shrunk.
struct operation_step {
  enum class kind {
    put,
    cas,
    acquire,
    release,
    remove,
    remove_cas,
    remove_tree,
    get,
    raw,
    list,
    keys,
    txn,
    create_session,
    renew_session,
    destroy_session,
    session,
    sessions,
    watch_key,
    watch_list,
    watch_keys,
    watch_session,
    watch_sessions,
    register_node,
    deregister_node,
    node,
    nodes,
    node_sessions,
    watch_node,
    watch_nodes,
    watch_node_sessions,
  } what{};
  /// The relation of a check's index to the key's.
  enum class index { none, current, older, newer } index{};
  std::uint8_t key = 0;
  std::uint8_t value = 0;
  std::uint8_t flags = 0;
  std::uint8_t session = 0;
  std::uint8_t option = 0;
  std::vector<operation_step> parts{};  ///< of a transaction; `option` is its verb then
};

std::vector<operation_step> random_sequence(std::uint64_t seed, std::size_t length);
std::string to_string(const std::vector<operation_step>& sequence);

/// One sequence after another on one agent.
class comparison {
public:
  explicit comparison(const agent& with);
  ~comparison();

  /// Returns the first disagreement, or an empty text if the two agree. Each run has a fresh model with this defect.
  ///
  /// A change is made only when every blocking query that was sent before it waits at the agent, and when every query
  /// that an earlier change has woken has read. The agent's threads sleep then (`support/idle.hpp`). So each
  /// disagreement counts.
  std::string run(const std::vector<operation_step>& sequence, testing::defect broken = {});
  /// Returns the shortest part of the sequence that was found to disagree, too, and its disagreement.
  std::pair<std::vector<operation_step>, std::string> shrink(std::vector<operation_step> sequence,
                                                             testing::defect broken = {});

  std::size_t operations() const noexcept;  ///< requests compared
  std::size_t wakes() const noexcept;       ///< blocking queries that both answered after a change

  struct state;

private:
  std::string run(const std::vector<operation_step>& sequence, testing::defect broken, int patience_ms);
  std::unique_ptr<state> state_;
};

}  // namespace holdfast::test
