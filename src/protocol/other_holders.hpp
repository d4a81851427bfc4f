#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "protocol/member.hpp"
#include "protocol/plan.hpp"
#include "protocol/pool_options.hpp"

namespace holdfast::protocol {

/// Holders elsewhere. A session can end before its TTL, with a health check or with its node. Then whoever made it goes
/// on to believe in its slot until it hears of that, or its lease is over. So what is known of a holder is kept until
/// then, and its slot is nobody else's before.
class other_holders {
public:
  /// A look at everything has shown this.
  void saw(context& ctx, const snapshot& now, const members& ours, const pool_options& o);
  /// A session of ours ends that the record may name.
  void left(const std::string& session) { former_.insert(session); }
  /// A session of ours has ended by itself. Somebody may have deregistered its node, which ends all sessions of that
  /// node at once. Holders by such sessions may still believe in their slots, and there may be some that we have never
  /// seen: for a TTL we give no slot away that may be one of theirs.
  void unseen_may_believe(context& ctx, duration ttl) { unseen_believe_until_ = ctx.now() + ttl; }

  /// What a plan must not give away yet.
  void spare(context& ctx, plan_rules& rules, const snapshot& now, const members& ours, const pool_options& o) const;
  /// The numbers, below the limit, of slots that are nobody else's yet.
  std::vector<std::uint32_t> spared_numbers(context& ctx, std::uint32_t limit, const pool_options& o) const;

private:
  struct holder {
    duration lease{};  ///< for so long it believes at most
    bool on_our_node = false;
    std::optional<std::uint32_t> number{};
    std::string witness{};  ///< a session of ours, of the same node, that stood beside it
    time_point gone_since = never;
    bool ended_alone = false;  ///< the witness has outlived it: the node is as it was
  };

  void note(const contender& entry, std::string_view beside, std::optional<std::uint32_t> number, const snapshot& now,
            const pool_options& o);
  static bool is_spared(context& ctx, const holder& each, const pool_options& o);
  void spare_the_unseen(context& ctx, plan_rules& rules, const snapshot& now, const members& ours,
                        const pool_options& o) const;

  std::map<std::string, holder, std::less<>> holders_;  ///< by their sessions
  std::set<std::string, std::less<>> former_;           ///< ours, gone, and maybe named by the record still
  time_point unseen_believe_until_{};
};

}  // namespace holdfast::protocol
