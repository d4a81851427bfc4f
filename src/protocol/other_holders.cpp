#include "protocol/other_holders.hpp"

#include <algorithm>
#include <iterator>
#include <utility>

namespace holdfast::protocol {

void other_holders::saw(context& ctx, const snapshot& now, const members& ours, const pool_options& o) {
  const bool is_mutex = o.form == record_form::session;
  std::string_view witness;
  const auto present =
      std::find_if(ours.begin(), ours.end(), [&](const auto& each) { return now.find(each.second.session); });
  if (present != ours.end()) witness = present->second.session;
  std::erase_if(former_,
                [&](const auto& session) { return !now.record.names(session) && !ours.ending().contains(session); });
  const auto is_others = [&](const std::string& session) {
    return !ours.is_ours(session) && !former_.contains(session);
  };
  std::map<std::string_view, std::uint32_t> numbers;
  for (const slot_number& each : now.numbers)
    if (!each.session.empty()) numbers.emplace(each.session, each.number);
  for (const contender& entry : now.contenders) {
    if (!now.record.names(entry.session) || !is_others(entry.session)) continue;
    const auto its = numbers.find(entry.session);
    note(entry, witness, its == numbers.end() ? std::nullopt : std::optional(its->second), now, o);
  }
  if (o.lock_delay != duration::zero())
    for (const std::string& session : now.record.holders)
      if (is_others(session)) holders_.try_emplace(session);
  // A mutex is let go by a write that leaves its key there; with a session it goes.
  std::erase_if(holders_, [&](const auto& each) {
    const bool is_named = is_mutex && !now.find(each.first) ? now.lock_index == 0 : now.record.names(each.first);
    return !is_named;
  });
  for (auto& [session, its] : holders_) {
    if (now.find(session)) {
      its.gone_since = never;
    } else if (its.gone_since == never) {
      its.gone_since = ctx.now();
      its.ended_alone = its.on_our_node && !its.witness.empty() && now.find(its.witness);
    }
  }
}

void other_holders::note(const contender& entry, std::string_view beside, std::optional<std::uint32_t> number,
                         const snapshot& now, const pool_options& o) {
  const auto [at, is_new] = holders_.try_emplace(entry.session);
  holder& its = at->second;
  if (is_new) {
    const std::optional<entry_lease> lease = words_in(entry.value).lease;
    if (lease) its.lease = lease->ttl;  // it believes for less; what is left is for clocks
    its.on_our_node = lease && !lease->node.empty() && lease->node == o.node;
  }
  if (number) its.number = number;
  const bool has_witness = !its.witness.empty() && now.find(its.witness);
  if (!has_witness) its.witness = beside;
}

/// Whether its slot is nobody else's yet.
bool other_holders::is_spared(context& ctx, const holder& each, const pool_options& o) {
  if (each.gone_since == never) return false;
  const duration lease = each.ended_alone ? duration::zero() : each.lease;
  return !ctx.due_or_wake(each.gone_since + std::max(lease, o.lock_delay));
}

void other_holders::spare(context& ctx, plan_rules& rules, const snapshot& now, const members& ours,
                          const pool_options& o) const {
  for (const auto& [session, its] : holders_) {
    if (!is_spared(ctx, its, o)) continue;
    if (o.form == record_form::session)
      ++rules.withheld;
    else
      rules.spared.push_back(session);
  }
  spare_the_unseen(ctx, rules, now, ours, o);
}

/// After a session of ours has ended by itself: whoever held by another one of its node, and was never seen here.
void other_holders::spare_the_unseen(context& ctx, plan_rules& rules, const snapshot& now, const members& ours,
                                     const pool_options& o) const {
  if (ctx.due_or_wake(unseen_believe_until_)) return;
  if (o.form == record_form::session) {
    rules.withheld += now.lock_index == 0;
    return;
  }
  const auto is_unseen = [&](const std::string& holder) {
    return !now.find(holder) && !ours.is_ours(holder) && !former_.contains(holder) && !holders_.contains(holder);
  };
  std::copy_if(now.record.holders.begin(), now.record.holders.end(), std::back_inserter(rules.spared), is_unseen);
}

std::vector<std::uint32_t> other_holders::spared_numbers(context& ctx, std::uint32_t limit,
                                                         const pool_options& o) const {
  std::vector<std::uint32_t> numbers;
  for (const auto& [session, its] : holders_)
    if (its.number && *its.number < limit && is_spared(ctx, its, o)) numbers.push_back(*its.number);
  return numbers;
}

}  // namespace holdfast::protocol
