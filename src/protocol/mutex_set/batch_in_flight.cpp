// SPDX-FileCopyrightText: The holdfast authors
// SPDX-License-Identifier: BSL-1.0

#include "protocol/mutex_set/batch_in_flight.hpp"

#include <algorithm>
#include <utility>

#include "protocol/record/entry_value.hpp"
#include "protocol/record/lock_record.hpp"

namespace holdfast::protocol {

// --- What is sent

bool batch_in_flight::resolve(context& ctx, const set_keys& keys) {
  switch (doubt_) {
    case doubt::none:
      return false;
    case doubt::unknown:
      send_barrier(ctx, keys);
      return true;
    case doubt::moved:
      send_read(ctx, keys);
      return true;
  }
  return false;
}

std::size_t batch_in_flight::room() const {
  // One operation is left free, because the read that finds out the outcome of this batch may have one more.
  return operations_max - 1 - (guard_.is_open() ? 1 : 3);
}

void batch_in_flight::send(context& ctx, const set_keys& keys, const std::vector<lock_names::part>& parts) {
  ++number_;
  barrier_sent_ = false;
  std::vector<kv_operation> ops = head(ctx.now(), keys);
  head_ = ops.size();
  parts_.clear();
  for (const lock_names::part& each : parts) {
    const std::string key = keys.of(each.place->first);
    parts_.push_back({each, ops.size()});
    if (each.locks) {
      ops.push_back(kv_operation::lock(key, keys.options.description, keys.session, mutex_flags));
    } else {
      ops.push_back(kv_operation::check_session(key, keys.session));
      ops.push_back(kv_operation::remove(key));
    }
  }
  send(ctx, guard_.is_open() ? request::batch : request::opening, std::move(ops));
}

/// The operations of a batch that precede its parts.
std::vector<kv_operation> batch_in_flight::head(time_point now, const set_keys& keys) const {
  if (guard_.is_open()) return {cas_guard(keys, number_)};
  const core_options& o = keys.options;
  const std::string text = o.wall_offset ? with_stamp(o.description, now.time_since_epoch() + *o.wall_offset,
                                                      entry_lease{o.ttl, o.lease_margin, o.node})
                                         : o.description;
  return {kv_operation::check_not_exists(keys.of_guard()),
          kv_operation::lock(keys.of_guard(), {}, keys.session, set_magic | number_),
          kv_operation::lock(keys.of_session(), text, keys.session, set_magic)};
}

void batch_in_flight::send_barrier(context& ctx, const set_keys& keys) {
  barrier_sent_ = true;
  send(ctx, request::barrier, {cas_guard(keys, number_ + 1)});
}

/// The transaction removes a key that does not exist. This makes it a write, so its reads are never stale.
void batch_in_flight::send_read(context& ctx, const set_keys& keys) {
  std::vector<kv_operation> ops{kv_operation::remove(keys.of_guard() + "/none"), kv_operation::get(keys.of_guard())};
  for (sent_part& each : parts_) {
    if (!each.locks || each.absent) continue;
    each.operation = ops.size();
    ops.push_back(kv_operation::get(keys.of(each.place->first)));
  }
  send(ctx, request::read, std::move(ops));
}

void batch_in_flight::send(context& ctx, request what, std::vector<kv_operation> operations) {
  sent_ = what;
  txn_ = ctx.new_request();
  sent_at_ = ctx.now();
  ctx.act(action::send_txn{txn_, std::move(operations)});
}

kv_operation batch_in_flight::cas_guard(const set_keys& keys, std::uint32_t number) const {
  return kv_operation::cas(keys.of_guard(), {}, guard_.index(), set_magic | number);
}

std::set<std::string, std::less<>> batch_in_flight::drop() {
  txn_ = 0;
  doubt_ = doubt::none;
  parts_.clear();
  return std::exchange(guard_, {}).names_of_copies();
}

// --- The meaning of an answer

batch_answer batch_in_flight::answer(context& ctx, const set_keys& keys, event::txn_done& e) {
  batch_answer result;
  result.id = std::exchange(txn_, 0);
  const bool applied = e.outcome == event::outcome::applied;
  if (!applied && e.outcome != event::outcome::refused) {
    not_done(ctx, e, result);
    return result;
  }
  switch (sent_) {
    case request::opening:
    case request::batch:
      if (applied)
        batch_applied(e.results, result);
      else
        batch_refused(ctx, keys, e, result);
      break;
    case request::barrier:
      if (applied)
        barrier_applied(e.results, result);
      else
        barrier_refused(ctx, keys, e);
      break;
    case request::read:
      if (applied)
        read_applied(keys, e.results, result);
      else
        read_refused(ctx, keys, e, result);
      break;
  }
  return result;
}

/// The transaction was not sent, or its outcome is unknown.
void batch_in_flight::not_done(context& ctx, event::txn_done& e, batch_answer& result) {
  if (sent_ == request::opening || sent_ == request::batch) {
    if (e.outcome == event::outcome::not_sent)
      give_back(result);
    else if (sent_ == request::opening)
      result.session_lost = loss_reason::none;  // there is no guard yet that could show the outcome
    else
      doubt_ = doubt::unknown;
  }
  if (is_final(e.error.code)) result.final_error = e.error;
  failed(ctx, std::move(e.error), sent_at_);
}

void batch_in_flight::refused_as_a_whole(context& ctx, const set_keys& keys) {
  failed(ctx, keys.failed(error::transaction_conflict, "a transaction was refused"));
}

void batch_in_flight::batch_applied(const std::vector<kv_entry>& results, batch_answer& result) {
  works();
  std::size_t next = sent_ == request::opening ? 2 : 1;  // after the results of the head
  if (results.size() != next + parts_.size()) {          // the answer cannot be used: read the guard instead
    if (sent_ == request::opening)
      result.session_lost = loss_reason::none;
    else
      doubt_ = doubt::moved;
    return;
  }
  guard_.is_at(results.front().modify_index);
  for (const sent_part& each : std::exchange(parts_, {}))
    result.applied.push_back({each.as_part(), results[next++].modify_index});
}

void batch_in_flight::batch_refused(context& ctx, const set_keys& keys, const event::txn_done& e,
                                    batch_answer& result) {
  bool any = false, by_head = false;
  for (const event::refused_operation& each : e.refusals) {
    if (!assess(keys, each, by_head, result)) return;
    any |= mark_refused(each);
  }
  if (any && !by_head)
    works();
  else  // leaving out the refused parts would not help the next batch
    refused_as_a_whole(ctx, keys);
  sequence_guard::effects effects;
  for (const sent_part& each : parts_) effects.push_back({each.place->first, each.locks});
  guard_.remember(set_magic | number_, std::move(effects));
  split_refused(keys, result);
}

/// Assesses the meaning of one refusal for the session. Returns false if the refusal decides about the whole batch.
/// Sets `by_head` if an operation is refused that precedes the parts.
bool batch_in_flight::assess(const set_keys& keys, const event::refused_operation& each, bool& by_head,
                             batch_answer& result) {
  if (each.reason == event::refusal::invalid_session) {
    result.session_lost = loss_reason::session_invalidated;
    return false;
  }
  if (each.operation >= head_) return true;
  if (each.reason == event::refusal::conflict) {
    if (sent_ == request::opening)
      result.session_lost = loss_reason::none;
    else
      doubt_ = doubt::moved;
    return false;
  }
  by_head = true;
  if (each.reason == event::refusal::permission_denied)
    result.denied = keys.failed(error::permission_denied, "the ACL token may not write below " + keys.options.prefix);
  return true;
}

/// Marks the part to which the refused operation belongs. Returns true if this is the first refusal of the part.
bool batch_in_flight::mark_refused(const event::refused_operation& each) {
  bool any = false;
  for (sent_part& its : parts_) {
    const std::size_t end = its.operation + its.operations();
    if (each.operation < its.operation || each.operation >= end || its.refused) continue;
    its.refused = each.reason;
    any = true;
  }
  return any;
}

/// Lists the parts that Consul refused, with their errors, and the other parts, which were not applied either.
void batch_in_flight::split_refused(const set_keys& keys, batch_answer& result) {
  result.is_rest = std::any_of(parts_.begin(), parts_.end(), [](const sent_part& p) { return p.locks; });
  for (const sent_part& each : std::exchange(parts_, {})) {
    if (!each.refused) {
      result.not_applied.push_back(each.as_part());
      continue;
    }
    batch_answer::refused_part told{each.as_part(), true};
    const std::string key = keys.of(each.place->first);
    if (*each.refused == event::refusal::permission_denied)
      told.why = keys.failed(error::permission_denied, "the ACL token may not write " + key);
    else if (*each.refused == event::refusal::other)
      told.why = keys.failed(error::transaction_conflict, keys.options.store + " refused to write " + key);
    else
      told.is_error = false;
    if (!told.is_error && !each.locks)  // our session has not locked the key any more
      told.why = keys.failed(error::slot_lost, "the key was not locked by its session");
    result.refused.push_back(std::move(told));
  }
}

void batch_in_flight::barrier_applied(const std::vector<kv_entry>& results, batch_answer& result) {
  retry_now();
  if (results.empty()) {  // the answer cannot be used: read the guard instead
    doubt_ = doubt::moved;
    return;
  }
  guard_.is_at(results.front().modify_index);
  ++number_;
  give_back(result);
}

void batch_in_flight::barrier_refused(context& ctx, const set_keys& keys, const event::txn_done& e) {
  if (e.refusals.empty() || e.refusals.front().reason != event::refusal::conflict) return refused_as_a_whole(ctx, keys);
  retry_now();
  doubt_ = doubt::moved;
}

void batch_in_flight::read_refused(context& ctx, const set_keys& keys, const event::txn_done& e, batch_answer& result) {
  bool any = false;
  for (const event::refused_operation& each : e.refusals) {
    if (each.reason != event::refusal::conflict) continue;
    if (each.operation == 1) {  // the guard does not exist
      result.session_lost = loss_reason::session_invalidated;
      return;
    }
    for (sent_part& its : parts_)
      if (its.locks && !its.absent && its.operation == each.operation) its.absent = any = true;
  }
  if (!any) failed(ctx, keys.failed(error::transaction_conflict, "a read was refused"));
}

namespace {

const kv_entry* result_in_read(const std::vector<kv_entry>& results, std::size_t operation) {
  return operation <= results.size() ? &results[operation - 1] : nullptr;  // a removal has none
}

}  // namespace

void batch_in_flight::read_applied(const set_keys& keys, const std::vector<kv_entry>& results, batch_answer& result) {
  retry_now();
  const kv_entry* const guard = result_in_read(results, 1);
  const auto batch = set_magic | number_, barrier = set_magic | (number_ + 1);
  const std::uint64_t flags = guard && guard->session == keys.session ? guard->flags : 0;
  auto copy = guard_.take_copy(flags);
  if (!copy && flags != batch && !(barrier_sent_ && flags == barrier)) {
    result.session_lost = loss_reason::removed;  // by somebody else, or by a forgotten batch: nothing is certain
    return;
  }
  guard_.is_at(guard->modify_index);
  if (copy) {
    // Consul refused a batch, and then applied a copy of it that the network delivered later. The copy gave the guard a
    // new index. The batch that we have sent meanwhile names the old index, so Consul will never apply it.
    result.of_copy = std::move(*copy);
    return give_back(result);
  }
  if (flags == barrier) {
    ++number_;
    return give_back(result);
  }
  batch_was_applied(keys, results, result);
}

/// The read has shown that the batch was applied. Since then, locks may have been taken away.
void batch_in_flight::batch_was_applied(const set_keys& keys, const std::vector<kv_entry>& results,
                                        batch_answer& result) {
  doubt_ = doubt::none;
  works();
  for (const sent_part& each : std::exchange(parts_, {})) {
    const kv_entry* const key = each.locks && !each.absent ? result_in_read(results, each.operation) : nullptr;
    const bool is_ours = key && key->session == keys.session;
    result.applied.push_back({each.as_part(), is_ours ? key->modify_index : 0, each.locks && !is_ours});
  }
}

/// The parts of the batch were not applied, and never will be.
void batch_in_flight::give_back(batch_answer& result) {
  result.not_applied.assign(parts_.begin(), parts_.end());
  parts_.clear();
  doubt_ = doubt::none;
}

}  // namespace holdfast::protocol
