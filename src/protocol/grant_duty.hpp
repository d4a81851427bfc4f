#pragma once

#include <algorithm>

#include "protocol/context.hpp"
#include "protocol/member.hpp"
#include "protocol/plan.hpp"

namespace holdfast::protocol {

/// Decides when this process writes a grant for others: when it frees a slot, when it owes a grant, or when the
/// responsible process has failed to grant in time.
class grant_duty {
public:
  /// A write of ours has left a slot free. Either it could not grant all contenders at once, or it may not have known
  /// all of them. Then they must be read.
  bool owes() const { return owes_; }
  void now_owes(bool something) { owes_ = something; }

  /// A release was refused. `by_grantee`: a contender that it grants had changed. `by_others`: others were faster.
  void refused(bool by_grantee, bool by_others) {
    refused_ = by_grantee ? refused_ + 1 : 0;
    if (by_others) outrun_ = std::min(outrun_ + 1, outrun_max + 1);
  }
  /// A write was applied. A process that was outrun and then wins once will be outrun again. So it tries its next
  /// release once, not twice.
  void applied() {
    refused_ = 0;
    if (outrun_ != 0) --outrun_;
  }
  /// Whether others change the record faster than a release of this process can be written.
  bool is_outrun() const { return outrun_ >= outrun_max; }
  /// Whether a release also grants the slot. If grantees change too often for that, the slot is released all the same,
  /// and the grant that is then owed is written later.
  bool grants_with_release() const { return refused_ < refusals_max; }

  /// Whether this process grants a free slot now. The process of the queue's head does so at once. The others wait a
  /// while before they do so in its place, so that a dead holder costs one write, not one for each waiter.
  bool may_grant(context& ctx, const grant_plan& next, const members& ours, duration backup);
  void moved_on() { stalled_until_ = never; }

private:
  static constexpr unsigned refusals_max = 2;
  static constexpr unsigned outrun_max = 2;

  bool owes_ = false;
  unsigned refused_ = 0;              ///< releases in a row that a grantee's change has refused
  unsigned outrun_ = 0;               ///< releases that lost to faster processes, minus the writes that were applied
  time_point stalled_until_ = never;  ///< how long a free slot waits for another process to write the grant
};

inline bool grant_duty::may_grant(context& ctx, const grant_plan& next, const members& ours, duration backup) {
  if (owes_) return true;
  if (next.granted.empty() || !any_waits(ours)) {
    moved_on();
    return false;
  }
  if (ours.find(next.granted.front()->session)) return true;
  if (stalled_until_ == never) stalled_until_ = ctx.now() + ctx.random().between(backup, 2 * backup);
  return ctx.due_or_wake(stalled_until_);
}

}  // namespace holdfast::protocol
