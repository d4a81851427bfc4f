// SPDX-FileCopyrightText: The holdfast authors
// SPDX-License-Identifier: BSL-1.0

#include "protocol/pool/outage_rule.hpp"

#include <algorithm>
#include <utility>

namespace holdfast::protocol {

std::array<const outage*, 4> outage_rule::outages(const pool_parts& parts) {
  return {&parts.read.failures(), &parts.write.failures(), &parts.members.failures(), &parts.watches.failures()};
}

void outage_rule::lost_place(const pool_parts& parts) {
  for (const outage* o : outages(parts))
    if (o->on() && (!sat_out_ || o->since() < sat_out_->since())) sat_out_ = *o;
}

void outage_rule::check(context& ctx, pool_parts& parts, bool concerns_waiters) {
  const std::optional<outage> before = std::exchange(sat_out_, std::nullopt);
  if (!concerns_waiters) return;
  if (!ctx.due_or_wake(queued_until(parts))) return overdue_.over();
  waiter_queue& waiters = parts.waiters;
  const duration most = parts.options.give_up_after;
  if (before) waiters.fail_since(ctx, before->since(), most, before->last());
  for (const outage* o : outages(parts))
    if (o->on()) waiters.fail_since(ctx, o->since(), most, o->last());
  const time_point asked = first_unanswered(parts);
  if (asked == never || waiters.empty()) return overdue_.over();
  if (overdue_.check(ctx, std::max(asked, waiters.front().came) + most, most / 10))
    waiters.fail_since(ctx, asked, most, parts.failed(error::timed_out, parts.options.store + " does not answer"));
}

std::optional<failure> outage_rule::why_unavailable(const pool_parts& parts) {
  for (const outage* o : outages(parts))
    if (o->on() && !is_final(o->last().code)) return o->last();
  return {};
}

std::optional<failure> outage_rule::why_unknown(const pool_parts& parts, const waiter& w, time_point now) {
  if (std::optional<failure> why = why_unavailable(parts)) return why;
  const time_point asked = first_unanswered(parts);
  if (asked == never || !sign_of_life::is_unanswered(w, asked, now)) return {};
  return parts.failed(error::timed_out, parts.options.store + " had not answered by the deadline");
}

/// The time until which this process may believe that it has a place in the cluster's queue, or a slot that nobody uses
/// yet. An entry that no answer has shown for long may have been deleted, though its session is renewed. A slot
/// that was granted counts for `give_up_after`: in that time the pool accepts the grant, and an acquire gets the slot.
time_point outage_rule::queued_until(const pool_parts& parts) {
  time_point until = time_point::min();
  for (const auto& [id, m] : parts.members) {
    if (m.lost || !m.is_ready() || m.slot != slot_id::none) continue;
    if (m.holds()) until = std::max(until, std::min(m.lease.deadline(), m.granted_at + parts.options.give_up_after));
    if (m.waits()) until = std::max(until, std::min(m.lease.deadline(), shown_until(m, parts.options)));
  }
  return until;
}

/// The time until which the entry of a waiting member counts as existing. The pending blocking query of the entry may
/// have been sent `watch_wait` ago. The query before it, whose answer showed the entry, may have been sent twice that
/// time ago. The TTL is a margin for answers that take long.
time_point outage_rule::shown_until(const member& m, const pool_options& o) {
  if (m.ungranted_at == time_point::min()) return time_point::min();
  return m.ungranted_at + 2 * o.watch_wait + o.ttl;
}

/// The time at which the oldest pending request was sent that the waiters depend on. Blocking queries and acceptances
/// do not count. `never` if there is no such request.
time_point outage_rule::first_unanswered(const pool_parts& parts) {
  time_point first = parts.write.is_sent() ? parts.write.current().sent_at : never;
  if (parts.read.under_way()) first = std::min(first, parts.read.sent_at());
  for (const auto& [id, m] : parts.members)
    if (!m.is_created()) first = std::min(first, m.asked_at);
  return first;
}

}  // namespace holdfast::protocol
