// SPDX-FileCopyrightText: The holdfast authors
// SPDX-License-Identifier: BSL-1.0

#include "protocol/pool/wanted_watches.hpp"

#include <algorithm>
#include <cstddef>
#include <utility>

namespace holdfast::protocol {

namespace {

/// At most this many keys of our own slots are watched one by one. If a process has more, it watches everything
/// instead.
constexpr std::size_t own_keys_max = 8;

/// The member whose entry is watched even beside a watch of everything. Null if there is none.
const member* long_holder(moment& at, const facts& f, const watch_set& running) {
  for (const auto& [id, m] : f.parts.members) {
    if (!m.holds() || m.has_returned) continue;
    const bool is_long =
        at.has_come(std::max(m.granted_at + f.parts.options.own_entry_delay, running.own_entry_from()));
    return is_long && m.phase != phase::moving ? &m : nullptr;
  }
  return nullptr;
}

}  // namespace

std::vector<watch> wanted_watches(moment& at, const facts& f, const watch_set& running) {
  const snapshot& now = f.now();
  const pool_options& o = f.parts.options;
  const member* first = nullptr;  // of those that wait, the first in the queue
  const contender* first_entry = nullptr;
  std::vector<const member*> holders;
  for (const auto& [id, m] : f.parts.members) {
    if (m.phase == phase::moving || m.has_returned) continue;  // the reply to the write will show it
    if (m.holds() && at.has_come(m.granted_at + o.watch_delay)) holders.push_back(&m);
    if (!m.waits() || m.lost) continue;
    const contender* entry = now.find(m.session);
    if (first && first_entry < entry) continue;
    first = &m;
    first_entry = entry;
  }
  if (holders.empty() && !first) return {};

  // After a failure, the first watch has no index. It is answered at once, so the outage ends as soon as Consul
  // answers.
  std::vector<watch> everything;
  everything.reserve(2);
  everything.push_back({{}, running.failures().on() ? 0 : f.parts.view.listed_index(), o.watch_wait});
  const bool few = now.crowd() <= o.watch_all_max;
  if (running.failures().on()) return everything;
  if (const member* const one = long_holder(at, f, running))
    everything.push_back({f.parts.keys.entry(one->session), one->grant, o.watch_wait});
  const auto is_pause = [&] {
    return !running.has_everything() && !at.has_come(running.everything_seen_at() + f.everything_pause());
  };
  const auto all_in_time = [&] {
    if (!is_pause()) return std::move(everything);
    // During the pause, a waiter watches its own entry, so that it notices its grant.
    everything.erase(everything.begin());
    if (first_entry)
      everything.push_back({f.parts.keys.entry(first->session), first_entry->modify_index, o.watch_wait});
    return std::move(everything);
  };
  if (f.parts.view.state() == view::state::none) return everything;
  if (running.replaces_keys(f.time)) return is_pause() ? std::vector<watch>() : everything;
  const bool foreign = f.parts.situation.foreign;
  const bool stale = f.parts.view.state() == view::state::stale;
  const bool many = holders.size() * (o.numbered ? 2 : 1) > own_keys_max;
  if (!holders.empty() && (few || foreign || stale || many || must_know_who_comes(f))) return all_in_time();

  std::vector<watch> wanted;
  wanted.reserve(holders.size() + 2);
  for (const member* holder : holders)
    wanted.push_back({f.parts.keys.entry(holder->session), holder->grant, o.watch_wait});
  if (!holders.empty()) wanted.push_back({f.parts.keys.lock, now.lock_index, o.watch_wait});
  for (const member* holder : holders)
    if (const slot_number* const its = f.number_of(*holder))
      wanted.push_back({f.parts.keys.number(its->number), its->modify_index, o.watch_wait});
  if (!first) return wanted;
  const contender* before = nullptr;
  for (const contender& entry : now.contenders) {
    if (&entry == first_entry) break;
    if (is_waiting(now, entry)) before = &entry;
  }
  const bool knows_all_before = f.parts.view.current() || (first_entry && first_entry->create_index <= now.complete_to);
  const time_point long_since = first->waiting_since + f.own_watch(!before && knows_all_before);
  if (!foreign && !f.parts.is_wide() && first_entry && !at.has_come(long_since)) {
    wanted.push_back({f.parts.keys.entry(first->session), first_entry->modify_index, long_since - f.time});
    return wanted;
  }
  if (few || foreign || f.parts.is_wide() || !before || !f.parts.view.current()) return all_in_time();
  wanted.push_back({f.parts.keys.entry(before->session), before->modify_index, o.watch_wait});
  return wanted;
}

bool is_own_entry(moment& at, const facts& f, const watch_set& running, const std::string& key) {
  const member* const one = long_holder(at, f, running);
  return one && key == f.parts.keys.entry(one->session);
}

bool must_know_who_comes(const facts& f) {
  return !f.parts.situation.contested && (!f.parts.slots.spares().empty() || f.parts.waiters.size() != 0);
}

}  // namespace holdfast::protocol
