// SPDX-FileCopyrightText: The holdfast authors
// SPDX-License-Identifier: BSL-1.0

#include "protocol/pool/other_holders.hpp"

#include <algorithm>
#include <iterator>
#include <utility>

#include "protocol/record/entry_value.hpp"

namespace holdfast::protocol {

void other_holders::saw(context& ctx, const snapshot& now, const members& ours, const pool_options& o) {
  const bool is_mutex = o.form == record_form::session;
  std::string_view witness;
  // Our node has certainly stood since then: a living session of ours was created then.
  time_point node_stands_since = never;
  for (const auto& [id, m] : ours) {
    if (!now.find(m.session)) continue;
    if (witness.empty()) witness = m.session;
    node_stands_since = std::min(node_stands_since, m.created_at);
  }
  std::erase_if(former_,
                [&](const auto& session) { return !now.record.names(session) && !ours.ending().contains(session); });
  std::erase_if(given_back_, [&](const auto& each) { return each.second != now.lock_index; });
  for (const contender& each : now.given_back) given_back_.insert_or_assign(each.session, now.lock_index);
  const auto is_others = [&](const std::string& session) {
    return !ours.is_ours(session) && !former_.contains(session) && !given_back_.contains(session);
  };
  std::map<std::string_view, std::uint32_t> numbers;
  for (const slot_number& each : now.numbers)
    if (!each.session.empty()) numbers.emplace(each.session, each.number);
  for (const contender& entry : now.contenders) {
    if (!now.record.names(entry.session) || !is_others(entry.session)) continue;
    const auto its = numbers.find(entry.session);
    note(entry, witness, its == numbers.end() ? std::nullopt : std::optional(its->second), now);
  }
  if (o.lock_delay != duration::zero())
    for (const std::string& session : now.record.holders)
      if (is_others(session)) holders_.try_emplace(session);
  // A release of a mutex leaves its key in place. The end of the holder's session removes the key.
  std::erase_if(holders_, [&](const auto& each) {
    const bool is_named = is_mutex && !now.find(each.first) ? now.lock_index == 0 : now.record.names(each.first);
    return !is_named || given_back_.contains(each.first);
  });
  for (auto& [session, its] : holders_) {
    if (now.find(session))
      its.gone_since = never;
    else
      note_absent(ctx, its, now, node_stands_since, o);
  }
  // If sessions belong to the agents' own nodes, sessions of other processes may belong to another node than ours.
  if (node_stands_since == never || o.node.empty()) return;
  for (end_of_ours& each : ends_)
    each.unseen_believe_until = std::min(each.unseen_believe_until, node_stands_since + o.ttl);
}

void other_holders::note(const contender& entry, std::string_view beside, std::optional<std::uint32_t> number,
                         const snapshot& now) {
  const auto [at, is_new] = holders_.try_emplace(entry.session);
  holder& its = at->second;
  if (is_new) {
    const std::optional<entry_lease> lease = parse_entry_value(entry.value).lease;
    if (lease) its.lease = lease->ttl;  // it believes for less; the difference is for clocks
    if (lease) its.node = lease->node;
  }
  its.created = entry.create_index;
  if (number) its.number = number;
  const bool has_witness = !its.witness.empty() && now.find(its.witness);
  if (!has_witness) its.witness = beside;
}

/// `node_stands_since`: our own node has certainly stood since then.
void other_holders::note_absent(context& ctx, holder& its, const snapshot& now, time_point node_stands_since,
                                const pool_options& o) {
  const bool is_on_our_node = !its.node.empty() && its.node == o.node;
  if (its.gone_since == never) {
    its.gone_since = ctx.now();
    its.gone_as_of = ctx.last_request();
    const bool ended_alone = is_on_our_node && !its.witness.empty() && now.find(its.witness);
    its.believes_until = ended_alone ? time_point() : ctx.now() + its.lease;
    // A Consul whose index is lower than the entry's has lost its state: its catalog says nothing of the node before.
    its.node_was_read = now.index < its.created;
  }
  if (is_on_our_node && node_stands_since != never)
    its.believes_until = std::min(its.believes_until, node_stands_since + its.lease);
}

void other_holders::ours_ended(context& ctx, std::uint64_t entry, duration ttl) {
  std::erase_if(ends_, [&](const end_of_ours& each) { return each.unseen_believe_until <= ctx.now(); });
  ends_.push_back({entry, ctx.now() + ttl, ctx.last_request()});
}

bool other_holders::is_spared(moment& at, const holder& each, const pool_options& o) {
  if (each.gone_since == never) return false;
  const time_point believes_until = each.is_maker_gone ? time_point() : each.believes_until;
  return !at.has_come(std::max(believes_until, each.gone_since + o.lock_delay));
}

std::optional<std::string> other_holders::node_to_read(moment& at, const snapshot& now, const members& ours,
                                                       const pool_options& o) const {
  const auto is_open = [&](const auto& each) {
    const holder& its = each.second;
    const bool is_in_doubt = its.gone_since != never && !its.node_was_read && !its.node.empty();
    return is_in_doubt && !its.is_maker_gone && !at.has_come(its.believes_until);
  };
  const auto found = std::find_if(holders_.begin(), holders_.end(), is_open);
  std::optional<std::string> node;
  if (found != holders_.end()) {
    node = found->second.node;
  } else {
    const bool may_end_sooner = std::any_of(ends_.begin(), ends_.end(), [&](const end_of_ours& each) {
      return !each.node_was_read && !at.has_come(each.unseen_believe_until);
    });
    if (may_end_sooner && !o.node.empty() && names_unseen(now, ours, o)) node = o.node;
  }
  if (node && !at.has_come(node_reads_.retry_at())) return std::nullopt;
  return node;
}

void other_holders::saw_node(context& ctx, const std::string& node, const event::node_seen& seen,
                             const pool_options& o) {
  if (seen.error.code && !is_final(seen.error.code)) return node_reads_.failed(seen.error, ctx.now(), ctx.random());
  node_reads_.over();
  // Consul hides a node from a token without the right to read it, as if the node did not exist.
  const std::uint64_t created = seen.error.code ? 0 : seen.create_index;
  const auto has_stood_since = [&](std::uint64_t entry) { return created != 0 && created < entry; };
  const bool is_ours = node == o.node;
  if (is_ours && std::exchange(node_created_, created) != created) node_read_at_ = ctx.now();
  for (auto& [session, its] : holders_) {
    if (its.node != node || its.gone_since == never || seen.id <= its.gone_as_of || its.node_was_read) continue;
    its.node_was_read = true;
    if (has_stood_since(its.created)) its.believes_until = time_point();
    if (is_ours && created != 0) its.believes_until = std::min(its.believes_until, node_read_at_ + its.lease);
  }
  if (!is_ours) return;
  for (end_of_ours& each : ends_) {
    if (seen.id <= each.as_of || each.node_was_read) continue;
    each.node_was_read = true;
    if (has_stood_since(each.entry)) each.unseen_believe_until = time_point();
    if (created != 0) each.unseen_believe_until = std::min(each.unseen_believe_until, node_read_at_ + o.ttl);
  }
}

void other_holders::spare(moment& at, plan_rules& rules, const snapshot& now, const members& ours,
                          const pool_options& o) const {
  for (const auto& [session, its] : holders_) {
    if (!is_spared(at, its, o)) continue;
    if (o.form == record_form::session)
      ++rules.withheld;
    else
      rules.spared.push_back(session);
  }
  spare_the_unseen(at, rules, now, ours, o);
}

bool other_holders::is_unseen(const std::string& holder, const snapshot& now, const members& ours) const {
  const auto given_back = given_back_.find(holder);
  const bool has_given_back = given_back != given_back_.end() && given_back->second == now.lock_index;
  return !now.find(holder) && !ours.is_ours(holder) && !former_.contains(holder) && !has_given_back &&
         !holders_.contains(holder);
}

/// Whether there may be a holder that was never seen here, and whose session has ended.
bool other_holders::names_unseen(const snapshot& now, const members& ours, const pool_options& o) const {
  if (o.form == record_form::session) return now.lock_index == 0;
  return std::any_of(now.record.holders.begin(), now.record.holders.end(),
                     [&](const std::string& holder) { return is_unseen(holder, now, ours); });
}

void other_holders::spare_the_unseen(moment& at, plan_rules& rules, const snapshot& now, const members& ours,
                                     const pool_options& o) const {
  const bool may_believe = std::any_of(
      ends_.begin(), ends_.end(), [&](const end_of_ours& each) { return !at.has_come(each.unseen_believe_until); });
  if (!may_believe) return;
  if (o.form == record_form::session) {
    rules.withheld += now.lock_index == 0;
    return;
  }
  std::copy_if(now.record.holders.begin(), now.record.holders.end(), std::back_inserter(rules.spared),
               [&](const std::string& holder) { return is_unseen(holder, now, ours); });
}

std::vector<std::uint32_t> other_holders::spared_numbers(moment& at, std::uint32_t limit, const pool_options& o) const {
  std::vector<std::uint32_t> numbers;
  for (const auto& [session, its] : holders_)
    if (its.number && *its.number < limit && is_spared(at, its, o)) numbers.push_back(*its.number);
  return numbers;
}

}  // namespace holdfast::protocol
