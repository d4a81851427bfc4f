#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "protocol/context.hpp"
#include "protocol/plan.hpp"

namespace holdfast::protocol {

/// Go and guide contenders take a slot that is left free for them by themselves. Each has some time for that; then it
/// is passed over until its entry changes.
class claim_timeouts {
public:
  bool passed_over(std::string_view session) const;
  std::vector<std::string> passed_over() const;
  /// Forgets those that have taken their slot, gone, or come anew.
  void refresh(const snapshot& now);
  /// Those that the plan leaves a slot free for get `claim_timeout`. True if the time of one is over: another plan is
  /// needed.
  bool wait(context& ctx, const grant_plan& next, duration claim_timeout);

private:
  struct claim {
    std::uint64_t modify_index = 0;
    time_point until{};
    bool passed_over = false;
  };
  std::map<std::string, claim, std::less<>> claims_;
};

}  // namespace holdfast::protocol
