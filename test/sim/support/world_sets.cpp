// SPDX-FileCopyrightText: The holdfast authors
// SPDX-License-Identifier: BSL-1.0

#include <algorithm>

#include "protocol/mutex_set/mutex_set.hpp"
#include "sim/support/world_impl.hpp"

namespace holdfast::test {

std::unique_ptr<protocol::core> world::make_set(const pool_options& like) {
  if (lock_names_.empty())
    for (std::size_t i = 0; i != options_.locks; ++i) lock_names_.push_back("task-" + std::to_string(i));
  mutex_set_options o;
  o.prefix = world_prefix;
  o.description = like.description;
  o.ttl = like.ttl;
  o.lease_margin = like.lease_margin;
  o.outage_grace = like.outage_grace;
  o.give_up_after = like.give_up_after;
  o.alive_within = like.alive_within;
  o.session_idle_timeout = like.session_idle_timeout;
  o.watch_wait = like.watch_wait;
  o.wall_offset = like.wall_offset;
  o.node = like.node;
  sabotage_.bend(o, timeout_);
  return std::make_unique<protocol::mutex_set>(o, random_.below(1u << 30));
}

void world::ask_for_a_lock(process& p, int user) {
  const std::size_t lock = random_.below(options_.locks);
  event::acquire wish{ticket{++p.last_ticket}, {.once = true}};
  wish.name = lock_names_[lock];
  const ticket t = wish.ticket;
  say([&] { return name(p) + ": try " + number(t) + " " + lock_names_[lock]; });
  const bool in_use =
      std::any_of(p.requests.begin(), p.requests.end(), [&](const auto& each) { return each.second.lock == lock; }) ||
      std::any_of(p.locks.begin(), p.locks.end(), [&](const auto& each) { return each.second == lock; });
  p.requests[t] = {1, false, user, lock, now(), in_use};
  referee_.asked(p.number, t, lock);
  if (random_.chance(faults() ? 15 : 5))
    in(random_.between(0ms, 20ms), [this, &p, t] { when_running(p, [this, &p, t] { cancel(p, t); }); });
  deliver(p, wish);
}

/// Releases one lock before Consul can answer the batch that was just sent. So the next batch contains the release.
void world::release_one(process& p) {
  in(random_.between(0us, 50us), [this, &p] {
    when_running(p, [this, &p] {
      if (p.one_by_one.empty()) return;
      const auto [slot, user] = *p.one_by_one.begin();
      p.one_by_one.erase(slot);
      release(p, slot, user);
    });
  });
}

std::optional<std::size_t> world::lock_of(const std::string& key) const {
  const auto its = std::find(lock_names_.begin(), lock_names_.end(), key.substr(world_prefix.size()));
  if (its == lock_names_.end()) return std::nullopt;
  return static_cast<std::size_t>(its - lock_names_.begin());
}

/// Notes when Consul refuses a lock that somebody else has, or had until lately: such a lock may be denied. G3: a
/// process does not remove a key that somebody else has locked.
consul::txn_reply world::transact_of_a_set(const process* sender, const std::vector<kv_operation>& operations) {
  process& p = *processes_[static_cast<std::size_t>(sender->number)];
  const auto is_anothers = [&](const std::string& key) {
    const auto found = consul_.get(key);
    return found && !found->session.empty() && !p.sessions.contains(found->session);
  };
  const bool takes_away = std::any_of(operations.begin(), operations.end(), [&](const kv_operation& op) {
    return op.verb == kv_verb::remove && lock_of(op.key) && is_anothers(op.key);
  });
  consul::txn_reply reply = consul_.transact(operations, now());
  if (takes_away && reply.applied) object(guarantee::backing, name(p) + " removes a key that another has locked");
  for (const consul::txn_error& error : reply.errors) {
    const kv_operation& op = operations[error.operation];
    const auto lock = lock_of(op.key);
    if (op.verb != kv_verb::lock || !lock) continue;
    // A restored snapshot brings back sessions that this process ended long ago.
    const auto key = consul_.get(op.key);
    const bool was_ours = key && p.sessions.contains(key->session) && options_.operators;
    if (is_anothers(op.key) || was_ours || error.reason == consul::txn_refusal::lock_delay) p.denied[*lock] = now();
  }
  return reply;
}

/// G5: a lock is denied only if somebody has it: this process itself, or another one when Consul was asked.
void world::check_denied(const process& p, const process::request& wish) {
  const auto denied = p.denied.find(wish.lock);
  if (!wish.was_in_use && !may_be_silent(p) && (denied == p.denied.end() || denied->second < wish.asked_at))
    object(guarantee::progress, name(p) + " denies " + lock_names_[wish.lock] + ", which nobody has");
}

/// G3: a process that believes in a lock has locked its key. G9: a process that has lost its session notifies its user.
/// If only the key was removed, the holder learns that when it releases the lock.
void world::check_locks() {
  for (const auto& p : processes_) {
    bool untold = false;
    if (p->alive)
      for (const auto& [slot, deadline] : p->leases) {
        if (now() >= truly(*p, deadline)) continue;
        const std::string& lock = lock_names_[p->locks.at(slot)];
        const auto key = consul_.get(std::string(world_prefix) + lock);
        if (key && p->sessions.contains(key->session)) continue;
        if (!referee_.excused(now()) && !is_forgotten(*p, slot))
          object(guarantee::backing, name(*p) + " believes in " + lock + ", and has not locked its key");
        const auto entries = p->pool->entries_of(slot);
        untold = untold || entries.empty() || !consul_.has_session(entries.front().session);
      }
    if (!untold || is_disturbed(*p))
      p->unbacked_since = never;
    else if (p->unbacked_since == never)
      p->unbacked_since = now();
    else if (now() - p->unbacked_since > 1s)
      object(guarantee::losses, name(*p) + " is not told that its session is gone");
  }
}

/// G5: a request is answered after one request to Consul, so it does not take long. The exception: a lost session of
/// the process itself has to end first, while its users go on. Then the request fails in time.
void world::check_answered() {
  if (!calm()) return;
  for (const auto& p : processes_) {
    const duration longest = (p->lost.empty() ? 700ms : 1200ms) + 30 * options_.latency_max;
    if (p->alive && !p->requests.empty() &&
        now() - std::max({p->requests.begin()->second.asked_at, calm_, p->let_go_at}) > longest)
      object(guarantee::progress, name(*p) + " does not answer");
  }
}

/// G5: a set finds a lock that none of its users holds with one of the next renewals.
void world::check_forsaken() {
  forsaken_.resize(options_.locks);
  for (std::size_t lock = 0; lock != options_.locks; ++lock) {
    const auto key = consul_.get(std::string(world_prefix) + lock_names_[lock]);
    const bool lives_on = key && !unwanted_.contains(key->session);
    const auto owner = std::find_if(processes_.begin(), processes_.end(), [&](const auto& p) {
      return lives_on && p->alive && p->sessions.contains(key->session);
    });
    const auto has_it = [&](const auto& each) { return each.second == lock; };
    const auto asks_for_it = [&](const auto& each) { return each.second.lock == lock; };
    forsaken_lock& its = forsaken_[lock];
    if (owner == processes_.end() || std::any_of((*owner)->locks.begin(), (*owner)->locks.end(), has_it))
      its = {};
    else if (its.made_at != key->create_index)  // another lock
      its = {now(), key->create_index};
    else if (std::any_of((*owner)->requests.begin(), (*owner)->requests.end(), asks_for_it))
      continue;  // the request may be about to get it
    else if (now() - its.since > 2 * options_.ttl)
      object(guarantee::progress, lock_names_[lock] + " is locked, and nobody of " + name(**owner) + " has it");
  }
  in(options_.ttl / 4, [this] { check_forsaken(); });
}

/// G10: no key is left, neither of a lock nor one that a session brings with it.
void world::check_no_lock_left() {
  for (const kv_entry& each : consul_.list(world_prefix)) object(guarantee::leaks, each.key + " is left");
}

}  // namespace holdfast::test
