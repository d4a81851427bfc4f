// SPDX-FileCopyrightText: The holdfast authors
// SPDX-License-Identifier: BSL-1.0

#include "protocol/mutex_set/mutex_set.hpp"

// The transactions of a mutex set, and their outcomes.

namespace holdfast::protocol {

void mutex_set::write() {
  if (!due_or_wake(batch_.due_at())) return;
  if (session() && batch_.resolve(ctx_, keys())) return;
  names_.prepare(ctx_);
  if (session()) {
    if (!session()->is_created()) return;
    if (batch_.guard().take_copies_due()) return batch_.send(ctx_, keys(), {});
    if (names_.has_unlocks() || (names_.has_locks() && !due_or_wake(serves_until())))
      batch_.send(ctx_, keys(), names_.take_parts(ctx_, batch_.room(), !due_or_wake(serves_until())));
    return;
  }
  if (!names_.has_locks() || !due_or_wake(sessions_.failures().retry_at()) || !due_or_wake(lost_by_watch_.retry_at()) ||
      !due_or_wake(contradictions_.retry_at()))
    return;
  sessions_.create(ctx_);
}

void mutex_set::on(event::txn_done& e) {
  if (batch_.is_pending(e.id)) carry_out(batch_.answer(ctx_, keys(), e));
}

void mutex_set::carry_out(const batch_answer& a) {
  if (a.denied) names_.fail_all(ctx_, *a.denied);
  if (a.session_lost) drop_session(*a.session_lost);
  if (a.final_error) names_.fail_all(ctx_, *a.final_error);
  names_.put_back(a.not_applied, a.is_rest);
  names_.copy_applied(ctx_, a.of_copy);
  for (const auto& [part, index, absent] : a.applied) {
    if (!part.locks)
      names_.unlocked(ctx_, *part.place);
    else if (absent)
      names_.taken_away(ctx_, *part.place);
    else
      names_.locked(ctx_, *part.place, index, *session());
  }
  for (const auto& [part, is_error, why] : a.refused) names_.refused(ctx_, part, a.id, is_error, why);
}

}  // namespace holdfast::protocol
