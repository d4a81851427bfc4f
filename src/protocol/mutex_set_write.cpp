// SPDX-FileCopyrightText: The holdfast authors
// SPDX-License-Identifier: BSL-1.0

#include <algorithm>
#include <utility>

#include "protocol/lock_record.hpp"
#include "protocol/mutex_set.hpp"
#include "protocol/succession.hpp"

// The transactions of a mutex set, and their outcomes.

namespace holdfast::protocol {

void mutex_set::write() {
  if (txn_ != 0 || !due_or_wake(write_outage_.retry_at())) return;
  if (doubt_ == doubt::unknown) return send_barrier();
  if (doubt_ == doubt::moved) return send_read();
  names_.prepare(ctx_);
  if (session()) {
    if (!session()->is_created()) return;
    if (std::exchange(session()->copies_due, false)) return send_batch(true);
    if (names_.has_unlocks() || (names_.has_locks() && serving())) send_batch();
    return;
  }
  if (!names_.has_locks() || !due_or_wake(sessions_.failures().retry_at()) || !due_or_wake(lost_by_watch_.retry_at()))
    return;
  sessions_.create(ctx_);
}

kv_operation mutex_set::cas_guard(std::uint32_t number) {
  return {kv_verb::cas, keys().of_guard(), {}, set_magic | number, session()->guard_index};
}

void mutex_set::send_batch(bool empty) {
  std::vector<kv_operation> ops;
  ++number_;
  barrier_sent_ = false;
  const std::string& id = session()->session;
  if (session()->open) {
    ops.push_back(cas_guard(number_));
  } else {
    const std::string text =
        options_.wall_offset ? with_stamp(options_.description, ctx_.now().time_since_epoch() + *options_.wall_offset,
                                          entry_lease{options_.ttl, options_.lease_margin, options_.node})
                             : options_.description;
    ops.push_back({kv_verb::check_not_exists, keys().of_guard()});
    ops.push_back({kv_verb::lock, keys().of_guard(), {}, set_magic | number_, 0, id});
    ops.push_back({kv_verb::lock, keys().of_session(), text, set_magic, 0, id});
  }
  head_ = ops.size();
  parts_.clear();
  // One operation is left free, because the read that finds out the outcome of this batch may have one more.
  if (!empty) add_parts(ops, names_.take_parts(ctx_, operations_max - 1 - head_, serving()));
  send(session()->open ? request::batch : request::opening, std::move(ops));
}

void mutex_set::add_parts(std::vector<kv_operation>& ops, const std::vector<lock_names::part>& parts) {
  const std::string& id = session()->session;
  for (const lock_names::part& each : parts) {
    const std::string key = keys().of(each.place->first);
    parts_.push_back({each, ops.size()});
    if (each.locks) {
      ops.push_back({kv_verb::lock, key, options_.description, mutex_flags, 0, id});
    } else {
      ops.push_back({kv_verb::check_session, key, {}, 0, 0, id});
      ops.push_back({kv_verb::remove, key});
    }
  }
}

void mutex_set::send_barrier() {
  barrier_sent_ = true;
  send(request::barrier, {cas_guard(number_ + 1)});
}

/// The transaction removes a key that does not exist. This makes it a write, so its reads are never stale.
void mutex_set::send_read() {
  std::vector<kv_operation> ops{{kv_verb::remove, keys().of_guard() + "/none"}, {kv_verb::get, keys().of_guard()}};
  for (part& each : parts_) {
    if (!each.locks || each.absent) continue;
    each.operation = ops.size();
    ops.push_back({kv_verb::get, keys().of(each.place->first)});
  }
  send(request::read, std::move(ops));
}

void mutex_set::send(request what, std::vector<kv_operation> operations) {
  sent_ = what;
  txn_ = ctx_.new_request();
  sent_at_ = ctx_.now();
  act(action::send_txn{txn_, std::move(operations)});
}

void mutex_set::on(event::txn_done& e) {
  if (e.id != txn_) return;
  switch (sent_) {
    case request::opening:
    case request::batch:
      batch_done(e);
      break;
    case request::barrier:
      barrier_done(e);
      break;
    case request::read:
      read_done(e);
      break;
  }
  txn_ = 0;
}

void mutex_set::not_done(event::txn_done& e) {
  if (is_final(e.error.code)) names_.fail_all(ctx_, e.error);
  write_outage_.failed(std::move(e.error), ctx_.now(), ctx_.random(), sent_at_);
}
void mutex_set::refused_as_a_whole() {
  write_outage_.failed(failed(error::transaction_conflict, "a transaction was refused"), ctx_.now(), ctx_.random());
}

void mutex_set::batch_done(event::txn_done& e) {
  switch (e.outcome) {
    case event::outcome::applied:
      write_outage_.over();
      return batch_applied(e.results);
    case event::outcome::refused:
      return batch_refused(e.refusals);
    case event::outcome::not_sent:
      put_back();
      return not_done(e);
    case event::outcome::unknown:
      if (sent_ == request::opening)
        drop_session(loss_reason::none);  // there is no guard yet that could show the outcome
      else
        doubt_ = doubt::unknown;
      return not_done(e);
  }
}

void mutex_set::batch_applied(const std::vector<kv_entry>& results) {
  std::size_t next = sent_ == request::opening ? 2 : 1;  // after the results of the head
  if (results.size() != next + parts_.size()) {          // the answer cannot be used: read the guard instead
    if (sent_ == request::opening) return drop_session(loss_reason::none);
    doubt_ = doubt::moved;
    return;
  }
  session()->open = true;
  session()->guard_is_at(results.front().modify_index);
  for (const part& each : std::exchange(parts_, {})) {
    const kv_entry& result = results[next++];
    if (each.locks)
      names_.locked(ctx_, *each.place, result.modify_index, *session());
    else
      names_.unlocked(ctx_, *each.place);
  }
}

void mutex_set::batch_refused(const std::vector<event::refused_operation>& refusals) {
  bool any = false, by_head = false;
  for (const event::refused_operation& each : refusals) {
    if (each.reason == event::refusal::invalid_session) return drop_session(loss_reason::session_invalidated);
    if (each.operation < head_) {
      if (each.reason == event::refusal::conflict) {
        if (sent_ == request::opening) return drop_session(loss_reason::none);
        doubt_ = doubt::moved;
        return;
      }
      by_head = true;
      if (each.reason == event::refusal::permission_denied)
        names_.fail_all(ctx_, failed(error::permission_denied, "the ACL token may not write below " + options_.prefix));
    }
    for (part& its : parts_) {
      const std::size_t end = its.operation + its.operations();
      if (each.operation < its.operation || each.operation >= end || its.refused) continue;
      its.refused = each.reason;
      any = true;
    }
  }
  if (any && !by_head)
    write_outage_.over();
  else  // leaving out the refused parts would not help the next batch
    refused_as_a_whole();
  auto& effects = session()->refused[set_magic | number_];
  for (const part& each : parts_) effects.push_back({each.place->first, each.locks});
  if (session()->refused.size() > set_refused_max) session()->refused.erase(session()->refused.begin());
  const bool had_locks = std::any_of(parts_.begin(), parts_.end(), [](const part& p) { return p.locks; });
  const auto refused = std::stable_partition(parts_.begin(), parts_.end(), [](const part& p) { return !p.refused; });
  const std::vector<part> told(refused, parts_.end());
  parts_.erase(refused, parts_.end());
  put_back(had_locks);
  for (const part& each : told) part_refused(each);
}

void mutex_set::part_refused(const part& each) {
  const std::string key = keys().of(each.place->first);
  const bool is_error = *each.refused == event::refusal::permission_denied || *each.refused == event::refusal::other;
  const failure why = *each.refused == event::refusal::permission_denied
                          ? failed(error::permission_denied, "the ACL token may not write " + key)
                      : is_error ? failed(error::transaction_conflict, "Consul refused to write " + key)
                                 // our session has not locked the key any more
                                 : failed(error::slot_lost, "the key was not locked by its session");
  names_.refused(ctx_, each, txn_, is_error, why);
}

/// The parts that are left were not applied.
void mutex_set::put_back(bool as_rest) {
  names_.put_back({parts_.begin(), parts_.end()}, as_rest);
  parts_.clear();
  doubt_ = doubt::none;
}

void mutex_set::barrier_done(event::txn_done& e) {
  switch (e.outcome) {
    case event::outcome::applied:
      write_outage_.retry_now();
      if (e.results.empty()) break;  // the answer cannot be used: read the guard instead
      session()->guard_is_at(e.results.front().modify_index);
      ++number_;
      return put_back();
    case event::outcome::refused:
      if (e.refusals.empty() || e.refusals.front().reason != event::refusal::conflict) return refused_as_a_whole();
      write_outage_.retry_now();
      break;
    case event::outcome::not_sent:
    case event::outcome::unknown:
      return not_done(e);
  }
  doubt_ = doubt::moved;
}

void mutex_set::read_done(event::txn_done& e) {
  if (e.outcome == event::outcome::refused) {
    bool any = false;
    for (const event::refused_operation& each : e.refusals) {
      if (each.reason != event::refusal::conflict) continue;
      if (each.operation == 1) return drop_session(loss_reason::session_invalidated);  // the guard does not exist
      for (part& its : parts_)
        if (its.locks && !its.absent && its.operation == each.operation) its.absent = any = true;
    }
    if (!any)
      write_outage_.failed(failed(error::transaction_conflict, "a read was refused"), ctx_.now(), ctx_.random());
    return;
  }
  if (e.outcome != event::outcome::applied) return not_done(e);
  write_outage_.retry_now();
  const auto its_result = [&](std::size_t operation) -> const kv_entry* {
    return operation <= e.results.size() ? &e.results[operation - 1] : nullptr;  // a removal has none
  };
  const kv_entry* const guard = its_result(1);
  const auto batch = set_magic | number_, barrier = set_magic | (number_ + 1);
  const std::uint64_t flags = guard && guard->session == session()->session ? guard->flags : 0;
  const auto copy = session()->refused.extract(flags);
  if (!copy && flags != batch && !(barrier_sent_ && flags == barrier))
    return drop_session(loss_reason::removed);  // by somebody else, or by a forgotten batch: nothing is certain
  session()->guard_is_at(guard->modify_index);
  if (copy) {
    // Consul refused a batch, and then applied a copy of it that the network delivered later. The copy gave the guard a
    // new index. The batch that we have sent meanwhile names the old index, so Consul will never apply it.
    put_back();
    return names_.copy_applied(ctx_, copy.mapped());
  }
  if (flags == barrier) {
    ++number_;
    return put_back();
  }
  doubt_ = doubt::none;
  write_outage_.over();
  for (part& each : std::exchange(parts_, {})) {
    if (!each.locks) {
      names_.unlocked(ctx_, *each.place);
      continue;
    }
    const kv_entry* const key = each.absent ? nullptr : its_result(each.operation);
    if (key && key->session == session()->session)
      names_.locked(ctx_, *each.place, key->modify_index, *session());
    else
      names_.taken_away(ctx_, *each.place);
  }
}

}  // namespace holdfast::protocol
