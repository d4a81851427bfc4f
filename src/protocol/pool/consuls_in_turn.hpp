// SPDX-FileCopyrightText: The holdfast authors
// SPDX-License-Identifier: BSL-1.0

#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>

#include "protocol/core/contradictions.hpp"
#include "protocol/pool/pool_options.hpp"

namespace holdfast::protocol {

/// Whether one address leads to several Consuls in turn, for example because a balancer has the agents of two clusters
/// behind it. Each Consul has a lock key of its own, with a CreateIndex of its own. So a key goes away, and then the
/// same key comes back. A restored snapshot brings a key back, too, but only once, and not again a moment later.
class consuls_in_turn {
public:
  /// A read was answered. `created`: the CreateIndex of the lock key; 0: there is no such key. `asked`: the request
  /// that was answered. Returns true if another Consul has answered than before.
  bool saw(context& ctx, contradiction_news& news, std::uint64_t created, request_id asked,
           const pool_options& options);
  /// No slot is taken until then, and until a read shows the same Consul again.
  time_point until() const { return until_; }
  bool stands() const { return until_ != none; }
  /// If one Consul only has answered for long enough, slots are taken again. Returns true if only a read can tell.
  bool check(context& ctx, contradiction_news& news);
  /// Takes over `until` of the pool before this one, if it is not over.
  void go_on(context& ctx, contradiction_news& news, time_point until);
  /// Why no slot is taken.
  failure why(const pool_options& options) const;

private:
  static constexpr time_point none = time_point::min();
  static constexpr unsigned returns_min = 3;
  static constexpr duration close_together = std::chrono::seconds(10);
  static constexpr duration read_again = std::chrono::seconds(1);

  bool is_known(std::uint64_t created) const;
  static std::string cause(std::uint64_t created);

  std::optional<std::uint64_t> current_{};
  std::array<std::uint64_t, 4> before_{};  ///< the last keys that have gone away; 0: none
  std::size_t next_ = 0;                   ///< the place in `before_` for the next one
  request_id changed_before_ = 0;          ///< later requests were sent after the last change was seen
  bool agrees_ = false;                    ///< a read after that has shown the same Consul
  bool is_told_ = false;
  unsigned returns_ = 0;
  time_point returned_at_{};
  time_point until_ = none;
};

}  // namespace holdfast::protocol
