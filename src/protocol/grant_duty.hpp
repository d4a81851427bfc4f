#pragma once

#include <algorithm>

#include "protocol/context.hpp"
#include "protocol/member.hpp"
#include "protocol/plan.hpp"

namespace holdfast::protocol {

/// When this process writes a grant for others: as it frees a slot, when it owes one, and in the place of a process
/// that should and does not.
class grant_duty {
public:
  /// A write of ours has left a slot free. Either it could not grant all at once, or it did not know of everybody who
  /// waits: then they have to be looked for.
  bool owes() const { return owes_; }
  void now_owes(bool something) { owes_ = something; }

  /// A release was refused by those to whom it grants the slot; or by others; or it was applied.
  void refused(bool by_grantee, bool by_others) {
    refused_ = by_grantee ? refused_ + 1 : 0;
    if (by_others) outrun_ = std::min(outrun_ + 1, outrun_max + 1);
  }
  /// A process that was outrun and then wins once will be outrun again: it tries its next release once, not twice.
  void applied() {
    refused_ = 0;
    if (outrun_ != 0) --outrun_;
  }
  /// Whether others change the record faster than a release of this process can be written.
  bool is_outrun() const { return outrun_ >= outrun_max; }
  /// Whether a release grants the slot in the same write. If nobody is seen to wait for long enough, it goes back all
  /// the same: what is owed then can be granted later.
  bool grants_with_release() const { return refused_ < refusals_max; }

  /// A free slot is written to the head of the queue by the head's own process. The others wait a while before they do
  /// it in its place, so that a dead holder costs one write, not one for each who waits.
  bool may_grant(context& ctx, const grant_plan& next, const members& ours, duration backup);
  void moved_on() { stalled_until_ = never; }

private:
  static constexpr unsigned refusals_max = 2;
  static constexpr unsigned outrun_max = 2;

  bool owes_ = false;
  unsigned refused_ = 0;              ///< releases in a row
  unsigned outrun_ = 0;               ///< releases that lost to faster processes, less the writes that did not
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
