// SPDX-FileCopyrightText: The holdfast authors
// SPDX-License-Identifier: BSL-1.0

#pragma once

#include <algorithm>

#include "protocol/core/context.hpp"
#include "protocol/pool/member.hpp"
#include "protocol/pool/plan.hpp"

namespace holdfast::protocol {

/// Decides when this process writes grants: when it frees a slot, owes a grant, or is itself next in the queue. It also
/// does so when the responsible process has failed to grant in time.
class grant_duty {
public:
  /// A write of ours has left a slot free. Either it could not grant all contenders at once, or it may not have known
  /// all of them. Then they must be read.
  bool owes() const { return owes_; }
  void now_owes(bool something) { owes_ = something; }

  /// A write was refused. `by_grantee`: it was a release, and a contender that it grants had changed. `by_others`: it
  /// was a release, and others were faster.
  void refused(bool by_grantee, bool by_others) {
    refused_ = by_grantee ? refused_ + 1 : 0;
    if (by_others) outrun_ = std::min(outrun_ + 1, outrun_max + 1);
  }
  /// A write of the record was applied. A process that was outrun and then wins once will be outrun again. So it tries
  /// its next release once, not twice.
  void applied() {
    refused_ = 0;
    if (outrun_ != 0) --outrun_;
  }
  /// Whether others change the record faster than a release of this process can be written.
  bool is_outrun() const { return outrun_ >= outrun_max; }
  /// Whether a release also grants the slot. If grantees change too often for that, the slot is released all the same,
  /// and the grant that is then owed is written later.
  bool grants_with_release() const { return refused_ < refusals_max; }

  /// Returns true if it is this process's turn to grant a free slot. Otherwise it waits for its turn. A process that
  /// owes a grant, or whose own session is to be granted first, does so at once. Other processes in the queue wait a
  /// while before they do so in its place. So a dead holder costs one write, not one for each waiter. For a process
  /// that does not wait in the queue, the result is true only if it owes a grant.
  bool takes_turn(context& ctx, const grant_plan& next, const members& ours, duration backup);
  void moved_on() { stalled_until_ = never; }

private:
  static constexpr unsigned refusals_max = 2;
  static constexpr unsigned outrun_max = 2;

  bool owes_ = false;
  unsigned refused_ = 0;  ///< releases in a row that a grantee's change has refused
  /// Releases that lost to faster processes, minus the writes of the record that were applied. It stays between 0 and
  /// one more than `outrun_max`.
  unsigned outrun_ = 0;
  time_point stalled_until_ = never;  ///< how long a free slot waits for another process to write the grant
};

inline bool grant_duty::takes_turn(context& ctx, const grant_plan& next, const members& ours, duration backup) {
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
