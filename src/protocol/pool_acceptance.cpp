// SPDX-FileCopyrightText: The holdfast authors
// SPDX-License-Identifier: BSL-1.0

#include <utility>

#include "protocol/pool.hpp"

// Grants by other processes, and their acceptance: acceptance.hpp.

namespace holdfast::protocol {

namespace {

constexpr std::size_t accepted_at_once = operations_max / 2;

}  // namespace

/// A listing shows the record and the entries as of the same time. If it shows an entry of ours waiting, the entry had
/// no grant when the request was sent. If it shows that the record names us, the entry's flags tell whether the grant
/// must be accepted. A late copy of our join may have overwritten these flags. They count all the same, because other
/// processes go by them, too.
void pool::saw_entries(const snapshot& listing, time_point asked_at) {
  if (!accepts_grants(parts_.options)) return;
  for (auto& [id, m] : parts_.members) {
    const contender* const entry = listing.find(m.session);
    if (!entry) continue;
    if (is_waiting(listing, *entry)) {
      m.had_no_grant(asked_at);
    } else if (entry->modify_index == m.waiting_index) {
      m.waiting_index = 0;
      if (m.grant == entry->modify_index) was_granted(m, *entry);
    }
  }
}

void pool::was_granted(member& m, const contender& entry) {
  m.forget_acceptance();
  if (!accepts_grants(parts_.options)) return;
  if (m.grant == m.waiting_index) {  // only the record has shown the grant: the entry tells whether it must be accepted
    m.acceptance = acceptance_state::unaccepted;
    return;
  }
  if (!is_provisional(entry.flags)) return;
  const acceptance_times times = *acceptance_of(parts_.options.ttl);
  const bool is_fresh = m.ungranted_at != time_point::min() && now() <= m.ungranted_at + times.fresh;
  m.acceptance = is_fresh ? acceptance_state::provisional : acceptance_state::unaccepted;
  if (is_fresh) m.accept_by = m.ungranted_at + times.fresh + times.within;
}

/// If a provisional slot is in use and its time has expired, the slot is lost. A slot that is not in use must be
/// accepted before it is used, unless enough time is left for the acceptance.
void pool::check_acceptance(member& m) {
  if (m.lost || m.acceptance != acceptance_state::provisional) return;
  const bool is_used = m.slot != slot_id::none;
  if (!due_or_wake(is_used ? m.accept_by : m.accept_by - acceptance_of(parts_.options.ttl)->within * 3 / 4)) return;
  if (is_used)
    return lose(m.slot, loss_reason::not_accepted, failed(error::timed_out, "the grant was not accepted in time"));
  m.acceptance = acceptance_state::unaccepted;
  m.accept_by = never;
}

/// Sends acceptances. The pending write delays only the acceptances of the members that it moves. The write does not
/// wait for acceptances.
void pool::accept_grants() {
  std::vector<acceptances::grant> grants;
  last_.open = false;
  for (const auto& [id, m] : parts_.members) {
    const bool is_open = m.acceptance != acceptance_state::not_needed && m.holds() && m.is_ready() && !m.lost &&
                         !m.has_returned && m.grant != m.waiting_index;
    if (!is_open || accepting_.is_under_way(id)) continue;
    const bool is_late = m.acceptance == acceptance_state::unaccepted;
    if (!due_or_wake(is_late ? now() : m.granted_at + parts_.options.accept_delay)) continue;
    if (m.gives_back == slot_id::none && grants.size() != accepted_at_once)
      grants.push_back({id, m.grant});
    else
      last_.open = true;
  }
  if (grants.empty()) return;
  if (!accepting_.may_send(ctx_)) {
    last_.open = true;
    return;
  }
  std::vector<kv_operation> operations;
  for (const acceptances::grant& each : grants) {
    member& m = parts_.members[each.id];
    m.may_have_accepted = true;
    operations.push_back({kv_verb::check_index, parts_.keys.entry(m.session), {}, 0, each.index});
    operations.push_back(
        {kv_verb::lock, parts_.keys.acceptance(m.session), parts_.options.description, 0, 0, m.session});
  }
  accepting_.send(ctx_, std::move(grants), std::move(operations));
}

std::vector<const contender*> pool::gone() {
  return gone_.empty() || !waits_for_others() ? std::vector<const contender*>() : gone_.due(ctx_, parts_.view.now());
}

plan_rules pool::rules(const moves& what) {
  gone_.for_each_free(ctx_, [this](const std::string& session) { parts_.others.maker_is_gone(session); });
  plan_rules result = rules_for(ctx_, facts_now(), what, parts_.others, parts_.duty, overdue(), gone());
  result.doubted = doubtful_.sessions(now(), parts_.view.now(), result.taken_back);
  return result;
}

/// Only the answer "applied" to this very request says that the grants count. "Refused" may be the answer to its copy.
void pool::accepted(const std::vector<acceptances::grant>& grants, event::txn_done& e) {
  if (e.outcome != event::outcome::applied) {
    accepting_.failures.failed(std::move(e.error), now(), ctx_.random());
    if (e.outcome == event::outcome::refused) read_prefix();  // what has become of them?
    return;
  }
  accepting_.failures.over();
  for (const acceptances::grant& each : grants) {
    member* const m = parts_.members.find(each.id);
    if (!m || m->grant != each.index || m->lost || m->acceptance == acceptance_state::not_needed) continue;
    if (m->acceptance == acceptance_state::provisional && now() >= m->accept_by) continue;  // too late for its user
    m->acceptance = acceptance_state::not_needed;
    m->accept_by = never;
    if (m->slot != slot_id::none) report(*m);
  }
}

}  // namespace holdfast::protocol
