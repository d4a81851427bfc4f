// SPDX-FileCopyrightText: The holdfast authors
// SPDX-License-Identifier: BSL-1.0

#include "protocol/pool/session_care.hpp"

#include <algorithm>
#include <utility>

namespace holdfast::protocol {

void session_care::check(context& ctx, pool_parts& parts, outage_rule& outages, own_grants& grants) {
  is_any_suspect_ = parts.has_lost = false;
  for (auto at = parts.members.begin(); at != parts.members.end();) {
    member& m = (at++)->second;
    if (!m.is_created()) continue;
    if (!m.lost && ctx.due_or_wake(m.lease.deadline())) {
      node_may_be_gone(ctx, parts, m);
      if (m.slot == slot_id::none) {
        if (m.waits()) outages.lost_place(parts);
        drop(ctx, parts, m, loss_reason::none,
             parts.failed(error::timed_out, "the session could not be renewed in time"));
        continue;
      }
      if (parts.application.is_silent())
        parts.slots.lose(ctx, m.slot, parts.members, loss_reason::application_silent, parts.application.why_silent());
      else
        parts.slots.lose(ctx, m.slot, parts.members, loss_reason::lease_expired, m.why_expired(parts.options.store));
    }
    grants.check(ctx, parts, m);
    if (m.lost) {
      parts.has_lost = true;
      const bool is_left_over = m.slot == slot_id::none && ctx.due_or_wake(m.idle_since + giving_back_max(parts));
      if (is_left_over || ctx.due_or_wake(m.lease.over_at())) drop(ctx, parts, m, loss_reason::none);
      continue;
    }
    if (ctx.due_or_wake(stuck_at(parts, m))) {
      drop(ctx, parts, m, loss_reason::none,
           parts.failed(error::timed_out, "the slot could not be released: its session is destroyed instead"));
      continue;
    }
    if (m.keep_alive(ctx, parts.watches.failures().on(), !parts.application.is_silent()) && m.slot != slot_id::none)
      parts.slots.report(ctx, m, parts.members);
    is_any_suspect_ = is_any_suspect_ || m.is_suspect();
  }
}

/// How long the pool tries to release a slot by a write. After that it ends the session instead. A closing pool needs
/// the other half of its time for that. While writes fail, ending a session would fail, too, so the write gets all of
/// the time.
duration session_care::giving_back_max(const pool_parts& parts) {
  return parts.closing.has_begun() && !parts.write.failures().on() ? parts.options.give_up_after / 2
                                                                   : parts.options.give_up_after;
}

/// From when on this member's slot or entry should have been released long ago. `never` if it may keep them.
time_point session_care::stuck_at(const pool_parts& parts, const member& m) {
  if (m.gives_back != slot_id::none) return m.idle_since + giving_back_max(parts);
  const bool unwanted = m.slot == slot_id::none && m.standing != standing::absent && parts.waiters.empty();
  if (unwanted && parts.closing.has_begun()) return m.idle_since + giving_back_max(parts);
  const outage& o = parts.write.failures();
  return unwanted && o.on() ? std::max(m.idle_since, o.since()) + parts.options.give_up_after : never;
}

/// A session of ours is given up. Consul may have ended it already, maybe together with its node. Then holders that
/// this process has never seen may still believe in their slots. If our session held a mutex, there is no such holder.
void session_care::node_may_be_gone(context& ctx, pool_parts& parts, const member& ours) {
  if (parts.options.form == record_form::session && ours.holds()) return;
  parts.others.ours_ended(ctx, ours.entry_created, parts.options.ttl);
}

void session_care::drop(context& ctx, pool_parts& parts, member& m, loss_reason reason, failure why) {
  node_may_be_gone(ctx, parts, m);
  end(ctx, parts, m, reason, std::move(why));
}

void session_care::end(context& ctx, pool_parts& parts, member& m, loss_reason reason, failure why) {
  if (m.slot != slot_id::none) parts.slots.lose(ctx, m.slot, parts.members, reason, why);
  parts.slots.drop(m);
  parts.write.drop(m.id);
  if (m.standing != standing::absent || m.phase == phase::moving) parts.others.left(m.session);
  m.phase.end();
  const slot_id gives_back = m.gives_back;
  const time_point answer_by = m.lease.deadline();
  ending_member& e = parts.members.retire(m.id);
  e.until = ctx.now() + 2 * parts.options.ttl;
  e.gives_back = gives_back;
  e.answer_by = answer_by;
  e.why = std::move(why);
  if (!e.why.code) parts.slots.free_member(ctx, e.gives_back);
}

time_point session_care::idle_until(const pool_options& o, const member& m) {
  return m.idle_since + o.session_idle_timeout;
}

/// Whether a session that is not needed can be ended at once. Consul may have ended it already, together with its node,
/// without notifying us. Then holders that this process has never seen may have lost their sessions, too, and may still
/// believe in their slots. If the node can be read, and the session has had an entry, a later read shows whether the
/// node still stands. Otherwise the session is renewed first, and is ended when the answer arrives. A lost session is
/// not renewed any more. A closing pool acquires nothing any more, so it does not need to know.
bool session_care::may_retire_or_renew(context& ctx, const pool_parts& parts, member& m) {
  if (parts.closing.has_begun() || m.lost || (parts.others.may_read_node() && m.entry_created != 0)) return true;
  if (parts.application.is_silent()) return false;
  if (m.asked_at < idle_until(parts.options, m)) {
    m.lease.renew_by(ctx.now());
    m.renew_when_due(ctx);
  }
  return false;
}

/// Ends the sessions without an entry that are lost or have been idle for too long, and all of them when the pool
/// closes. A lost session stays until its user has released the slot. While sessions are being created, a request for
/// several slots may still be collecting its sessions, so idle sessions are kept. Then the function goes on with the
/// sessions that must end, also those of makers that are gone. It asks Consul to destroy them, and answers the releases
/// that have waited for them for too long.
void session_care::retire(context& ctx, pool_parts& parts, taking& takes) {
  const bool collects = parts.members.creating() != 0;
  for (auto at = parts.members.begin(); at != parts.members.end();) {
    member& m = (at++)->second;
    if (!m.is_ready() || m.standing != standing::absent) continue;
    if (m.lost && m.slot != slot_id::none) continue;
    const bool is_over =
        parts.closing.has_begun() || m.lost || (!collects && ctx.due_or_wake(idle_until(parts.options, m)));
    if (is_over && may_retire_or_renew(ctx, parts, m)) drop(ctx, parts, m, loss_reason::none);
  }
  takes.pursue_all(ctx, parts.view);
  for (auto& [session, e] : parts.members.ending())
    if (e.gives_back != slot_id::none && ctx.due_or_wake(e.answer_by))
      parts.slots.free_member(ctx, e.gives_back, &e.why);
  for (auto at = parts.members.let_expire(ctx); at != parts.members.ending().end(); at = parts.members.let_expire(ctx))
    parts.members.remove(at);
  parts.members.destroy(ctx, [](const ending_member&) { return true; });
}

}  // namespace holdfast::protocol
