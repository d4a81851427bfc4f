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

/// Random operations on Consul, sent to a real agent and to the model, whose replies and wake-ups are compared.
///
/// A sequence is made from its seed alone, and says keys and sessions by their number: so that any part of it can be
/// run again by itself, which is how a disagreement is shrunk.
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
  /// How a check's index relates to the key's.
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

  /// Empty if they agree, else what the first disagreement is. A fresh model each time, with that defect.
  ///
  /// A change comes when every blocking query asked before it waits at the agent, and every one that an earlier change
  /// has woken has looked: the agent's threads sleep then (`support/idle.hpp`). So each disagreement counts.
  std::string run(const std::vector<operation_step>& sequence, testing::defect broken = {});
  /// The shortest part of the sequence that was found to disagree too, and its disagreement.
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
