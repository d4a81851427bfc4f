// SPDX-FileCopyrightText: The holdfast authors
// SPDX-License-Identifier: BSL-1.0

#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "protocol/core/context.hpp"
#include "protocol/pool/plan.hpp"
#include "protocol/pool/pool_options.hpp"

namespace holdfast::protocol {

/// Time limits for Go and guide contenders, which take the slots that are left free for them without a grant. A
/// contender that does not take its slot in time is passed over until its entry changes, or until it has a slot.
class claim_timeouts {
public:
  bool passed_over(std::string_view session) const;
  std::vector<std::string> passed_over() const;
  /// Forgets the contenders that have taken their slots or have left, and those whose entries have changed.
  void refresh(const snapshot& now);
  /// Gives each contender for which the plan leaves a slot free some time: between `claim_timeout` and one and a half
  /// times that. Returns true if the time of one of them has expired, so that another plan is needed.
  bool pass_over_the_late(context& ctx, const grant_plan& next, const pool_options& options);

private:
  struct claim {
    std::uint64_t modify_index = 0;
    time_point until{};
    bool passed_over = false;
  };
  std::map<std::string, claim, std::less<>> claims_;
};

}  // namespace holdfast::protocol
