// SPDX-FileCopyrightText: The holdfast authors
// SPDX-License-Identifier: BSL-1.0

#include "protocol/pool/own_grants.hpp"

#include <utility>
#include <vector>

namespace holdfast::protocol {

namespace {

constexpr std::size_t accepted_at_once = operations_max / 2;

}  // namespace

/// A listing shows the record and the entries as of the same time. If it shows an entry of ours waiting, the entry had
/// no grant when the request was sent. If it shows that the record names us, the entry's flags tell whether the grant
/// must be accepted. A late copy of our join may have overwritten these flags. They count all the same, because other
/// processes go by them, too.
void own_grants::listed(context& ctx, pool_parts& parts, const snapshot& listing, time_point asked_at) {
  if (!accepts_grants(parts.options)) return;
  for (auto& [id, m] : parts.members) {
    const contender* const entry = listing.find(m.session);
    if (!entry) continue;
    if (is_waiting(listing, *entry)) {
      m.had_no_grant(asked_at);
    } else if (entry->modify_index == m.waiting_index) {
      m.waiting_index = 0;
      if (m.grant == entry->modify_index) granted(ctx, m, *entry, parts.options);
    }
  }
}

void own_grants::granted(context& ctx, member& m, const contender& entry, const pool_options& o) {
  m.acceptance = {};
  if (!accepts_grants(o)) return;
  if (m.grant == m.waiting_index) {  // only the record has shown the grant: the entry tells whether it must be accepted
    m.acceptance.await();
    return;
  }
  if (!is_provisional(entry.flags)) return;
  const acceptance_times times = *acceptance_of(o.ttl);
  const bool is_fresh = m.ungranted_at != time_point::min() && ctx.now() <= m.ungranted_at + times.fresh;
  if (is_fresh)
    m.acceptance.count_until(m.ungranted_at + times.fresh + times.within);
  else
    m.acceptance.await();
}

/// If a provisional slot is in use and its time has expired, the slot is lost. A slot that is not in use must be
/// accepted before it is used, unless enough time is left for the acceptance.
void own_grants::check(context& ctx, pool_parts& parts, member& m) {
  if (m.lost || !m.acceptance.is_provisional()) return;
  const bool is_used = m.slot != slot_id::none;
  const time_point by = m.acceptance.deadline();
  if (!ctx.due_or_wake(is_used ? by : by - acceptance_of(parts.options.ttl)->within * 3 / 4)) return;
  if (is_used)
    return parts.slots.lose(ctx, m.slot, parts.members, loss_reason::not_accepted,
                            parts.failed(error::timed_out, "the grant was not accepted in time"));
  m.acceptance.await();
}

/// Sends acceptances. The pending write delays only the acceptances of the members that it moves. The write does not
/// wait for acceptances.
void own_grants::accept(context& ctx, pool_parts& parts) {
  std::vector<acceptances::grant> grants;
  is_any_open_ = false;
  for (const auto& [id, m] : parts.members) {
    const bool is_open =
        m.acceptance.is_open() && m.holds() && m.is_ready() && !m.lost && !m.has_returned && m.grant != m.waiting_index;
    if (!is_open || sent_.is_under_way(id)) continue;
    const bool is_late = m.acceptance.is_awaited();
    if (!ctx.due_or_wake(is_late ? ctx.now() : m.granted_at + parts.options.accept_delay)) continue;
    if (m.gives_back == slot_id::none && grants.size() != accepted_at_once)
      grants.push_back({id, m.grant});
    else
      is_any_open_ = true;
  }
  if (grants.empty()) return;
  if (!ctx.due_or_wake(sent_.due_at())) {
    is_any_open_ = true;
    return;
  }
  std::vector<kv_operation> operations;
  for (const acceptances::grant& each : grants) {
    member& m = parts.members[each.id];
    m.acceptance.sent();
    operations.push_back(kv_operation::check_index(parts.keys.entry(m.session), each.index));
    operations.push_back(kv_operation::lock(parts.keys.acceptance(m.session), parts.options.description, m.session));
  }
  sent_.send(ctx, std::move(grants), std::move(operations));
}

/// Only the answer "applied" to this very request says that the grants count. "Refused" may be the answer to its copy.
bool own_grants::answered(context& ctx, pool_parts& parts, event::txn_done& e) {
  const auto grants = sent_.done(e.id);
  if (!grants) return false;
  if (e.outcome != event::outcome::applied) {
    sent_.failed(ctx, std::move(e.error));
    if (e.outcome == event::outcome::refused) parts.read_everything(ctx);  // what has become of them?
    return true;
  }
  sent_.works();
  for (const acceptances::grant& each : *grants) {
    member* const m = parts.members.find(each.id);
    if (!m || m->grant != each.index || m->lost || !m->acceptance.is_open()) continue;
    if (m->acceptance.is_provisional() && ctx.now() >= m->acceptance.deadline()) continue;  // too late for its user
    m->acceptance.accepted();
    if (m->slot != slot_id::none) parts.slots.report(ctx, *m, parts.members);
  }
  return true;
}

}  // namespace holdfast::protocol
