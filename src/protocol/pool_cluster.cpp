#include <algorithm>
#include <utility>

#include "protocol/pool.hpp"

// What the cluster says, and what it means for us.

namespace holdfast::protocol {

void pool::adopt(boost::system::result<snapshot> listing, request_id id) {
  if (!listing) return refuse_listing(listing.error());
  const std::uint64_t index_before = view_.now().lock_index;
  if (!view_.accept(*std::move(listing), id, last_request_)) return refresh();  // what is known is newer
  listed_at_ = now_;
  if (view_.current()) stop_sleeping_watches();
  if (view_.now().lock_index != index_before) stalled_until_ = never;
  if (unresolved_ && id > unresolved_->looked_after) resolve();
  note_holders();
  refresh();
  check_limit();
}

/// The lock key belongs to something else, or cannot be read. Nothing may be written: what we have in there goes with
/// its sessions.
void pool::refuse_listing(const error_code& why) {
  view_.forget();
  const bool foreign = why != error::corrupt_record;
  fail_waiters(
      failed(why, foreign ? "the lock key's flags are another application's" : "the lock record cannot be read"));
  for (auto at = members_.begin(); at != members_.end();) {
    member& m = (at++)->second;
    if (m.slot != slot_id::none) {
      lose(m.slot, loss_reason::removed, failed(why, "left"));
      m.standing = standing::absent;  // there is nothing to be looked at any more
    } else if (m.standing != standing::absent || m.phase == phase::moving) {
      drop(m, loss_reason::none, failed(why, "left"));
    }
  }
  unresolved_.reset();
  owes_a_grant_ = false;
}

void pool::refresh() {
  for (auto at = members_.begin(); at != members_.end();) refresh((at++)->second);
  spares_.clear();
  contested_ = false;
  for (auto& [id, m] : members_)
    if (m.phase == phase::ready && m.standing == standing::holding && m.slot == slot_id::none) spares_.push_back(&m);
  std::erase_if(indulged_, [this](const auto& item) {
    const contender* entry = view_.now().find(item.first);
    return !entry || entry->modify_index != item.second.modify_index || !is_waiting(view_.now(), *entry);
  });
  // A mutex that is held without an entry is another client's, which lets it go without a word to us.
  const bool strange = options_.form == record_form::session && !view_.now().record.holders.empty() &&
                       !view_.now().find(view_.now().record.holders.front());
  if (view_.current()) foreign_holder_ = strange;
  foreign_ = foreign_holder_;
  const bool is_first = free_at_ == time_point();
  if (is_first || foreign_holder_ || view_.now().record.holders.empty()) free_at_ = now_;
  const snapshot::matches matches = view_.now().match();
  for (std::size_t i = 0; i != matches.named.size(); ++i) {
    const contender& entry = view_.now().contenders[i];
    if (!matches.named[i] && !passed_over(entry.session) && !is_ours(entry.session)) contested_ = true;
    if (!entry.grantable()) foreign_ = true;
  }
  check_revoked();
}

/// An operator's wish reaches whoever has the slot.
void pool::check_revoked() {
  for (const std::string& session : view_.now().record.revoked) {
    const member* const m = find(session);
    slot* const s = m ? find(m->slot) : nullptr;
    if (!s || !s->held || std::exchange(s->revoked, true)) continue;
    act(action::revoke{m->slot});
  }
}

void pool::refresh(member& m) {
  if (m.phase == phase::creating) return;
  const contender* entry = view_.now().find(m.session);
  const standing before = m.standing;
  m.standing = !entry                                     ? standing::absent
               : view_.now().record.names(entry->session) ? standing::holding
                                                          : standing::waiting;
  if (m.phase == phase::moving) return;  // the write that is under way explains any change
  if (before != standing::absent && m.standing == standing::absent) {
    m.standing = before;
    return drop(m, loss_reason::session_invalidated);  // not by us: the session ended, or somebody deleted the entry
  }
  const bool has_number = number_of(m) != nullptr;
  const bool holds = m.standing == standing::holding;
  if (m.lost) {
    if (entry) m.grant = entry->modify_index;
    return;
  }
  if (m.slot != slot_id::none && (!holds || has_number != options_.numbered)) lose(m.slot, loss_reason::removed);
  // Somebody has taken its slot away, and not the number, which nobody else can have until this session has ended.
  if (has_number && !holds) return drop(m, loss_reason::removed);
  // A write of ours may have hidden the moment, or may not have been applied: only a new index is a new grant.
  if (m.standing == standing::holding && m.grant != entry->modify_index) {
    free_of_slot(m.releasing);
    m.granted_at = m.idle_since = now_;
    m.grant = entry->modify_index;
    m.handoffs = 0;
    value_.reset();
    value_before_.reset();
  }
  if (m.standing != standing::holding) free_of_slot(m.releasing);
  if (m.standing == standing::waiting && before != standing::waiting) m.waiting_since = now_;
}

/// A record that nobody lives by is ours to write anew; otherwise all must agree on the limit. Who adopts it takes any
/// that it could have been configured with.
void pool::check_limit() {
  const snapshot& now = view_.now();
  if (view_.knows_record()) over_limit_ = now.lock_index != 0 && now.record.holders.size() > now.record.limit;
  if (options_.adopt) {
    if (now.lock_index == 0 && !view_.knows_record()) return;  // there is one that was not seen
    limit_disagrees_ = now.lock_index != 0 && now.record.limit > limit_max;
    limit_ = now.lock_index == 0 || limit_disagrees_ ? options_.limit : now.record.limit;
    return;
  }
  const bool in_use = std::any_of(now.contenders.begin(), now.contenders.end(), [&](const contender& entry) {
    return now.record.names(entry.session) || !is_ours(entry.session);
  });
  limit_disagrees_ = now.lock_index != 0 && now.record.limit != options_.limit && in_use;
}

/// Sessions can end before their TTL: with a health check, or with their node. Then whoever made them goes on to
/// believe until it hears of it, or its lease is over. So what is known of a holder is kept until that is.
void pool::note_holders() {
  const snapshot& now = view_.now();
  const bool is_mutex = options_.form == record_form::session;
  std::string_view ours;
  const auto present = std::find_if(members_.begin(), members_.end(),
                                    [&](const auto& each) { return now.find(each.second.session) != nullptr; });
  if (present != members_.end()) ours = present->second.session;
  std::erase_if(former_, [&](const auto& session) { return !now.record.names(session) && !doomed_.contains(session); });
  const auto is_others = [this](const std::string& session) { return !is_ours(session) && !former_.contains(session); };
  std::map<std::string_view, std::uint32_t> numbers;
  for (const slot_number& each : now.numbers)
    if (!each.session.empty()) numbers.emplace(each.session, each.number);
  for (const contender& entry : now.contenders) {
    if (!now.record.names(entry.session) || !is_others(entry.session)) continue;
    const auto its = numbers.find(entry.session);
    note_holder(entry, ours, its == numbers.end() ? std::nullopt : std::optional(its->second));
  }
  if (options_.lock_delay != duration::zero())
    for (const std::string& holder : now.record.holders)
      if (is_others(holder)) holders_.try_emplace(holder);
  // A mutex is let go by a write that leaves its key there; with a session it goes.
  std::erase_if(holders_, [&](const auto& each) {
    const bool is_named = is_mutex && !now.find(each.first) ? now.lock_index == 0 : now.record.names(each.first);
    return !is_named;
  });
  for (auto& [session, its] : holders_) {
    if (now.find(session)) {
      its.gone_since = never;
    } else if (its.gone_since == never) {
      its.gone_since = now_;
      its.ended_alone = its.on_our_node && !its.witness.empty() && now.find(its.witness);
    }
  }
}

void pool::note_holder(const contender& entry, std::string_view beside, std::optional<std::uint32_t> number) {
  const auto [at, is_new] = holders_.try_emplace(entry.session);
  other_holder& its = at->second;
  if (is_new) {
    const std::optional<entry_lease> lease = words_in(entry.value).lease;
    if (lease) its.lease = lease->ttl;  // it believes for less; what is left is for clocks
    its.on_our_node = lease && !lease->node.empty() && lease->node == options_.node;
  }
  if (number) its.number = number;
  const bool has_witness = !its.witness.empty() && view_.now().find(its.witness);
  if (!has_witness) its.witness = beside;
}

/// A session of ours has ended, and maybe not by our doing. If it held a mutex, nobody else did.
void pool::node_may_be_gone(standing of_ours) {
  if (options_.form == record_form::session && of_ours == standing::holding) return;
  unseen_believe_until_ = now_ + options_.ttl;
}

/// Whether its slot is nobody else's yet.
bool pool::is_spared(const other_holder& each) {
  if (each.gone_since == never) return false;
  const duration lease = each.ended_alone ? duration::zero() : each.lease;
  return !due(each.gone_since + std::max(lease, options_.lock_delay));
}

void pool::applied(pending_txn txn, std::vector<key_value> results) {
  std::size_t single = 0;
  std::uint64_t index = 0;
  for (const operation& op : txn.operations) {
    if (writes(op.verb) && single < results.size()) index = std::max(index, results[single].modify_index);
    single += results_of(op.verb);
  }
  settle_moves(txn, true);
  for (const slot_number& each : txn.numbers) {
    if (each.session.empty()) continue;
    number_delays_.erase(each.number);
    number_outage_.over();
  }
  if (txn.record_operations != 0) {
    owes_a_grant_ = txn.frees;
    grants_refused_ = 0;
  }
  if (txn.look != look::none && results.size() >= single) {
    results.erase(results.begin(), results.begin() + static_cast<std::ptrdiff_t>(single));
    auto seen = snapshot_of(std::move(results), index);
    if (!seen)
      for (member* m : txn.movers) m->standing = standing::waiting;  // they have joined: they go with the rest
    if (seen && txn.look == look::record) return saw_own_join(txn, *std::move(seen));
    return adopt(std::move(seen), txn.id);
  }
  const bool is_news = view_.now().index < index;  // not so if a listing has shown it
  view_.wrote(index, txn.id, last_request_, txn.guarded, [&](snapshot& now) { patch(now, txn, index); });
  // Others may stand before those that queue now.
  for (const auto& [session, text] : txn.inserted)
    if (is_news && !view_.now().record.names(session)) view_.mark_partial();
  stalled_until_ = never;
  refresh();
  check_limit();
}

/// Who joins the back of a full queue has no need of all that stands before it. If a slot is free, or anything is not
/// as it should be, the whole is needed after all.
void pool::saw_own_join(const pending_txn& txn, snapshot seen) {
  const bool is_news = view_.now().index < seen.index;
  const std::uint32_t limit = limit_of(seen.record);
  const bool full = seen.record.limit == limit && (seen.record.closed || seen.record.holders.size() >= limit);
  const bool is_grant = grants_us(seen.record);  // of which our entry tells more
  view_.wrote(seen.index, txn.id, last_request_, false, [&](snapshot& now) {
    patch(now, txn, seen.index);
    if (seen.lock_index > now.lock_index) now.take_record(seen.record, seen.lock_flags, seen.lock_index);
  });
  if (is_news) {
    if (full && !is_grant)
      view_.mark_partial();
    else
      view_.mark_stale();
  }
  refresh();
  check_limit();
}

/// What the transaction did at `index`, but for what has been seen of it that is newer. Without an index it only
/// removed.
void pool::patch(snapshot& now, const pending_txn& txn, std::uint64_t index) const {
  const auto is_newer = [&](const std::string& session) {
    const contender* entry = now.find(session);
    return index != 0 && entry && entry->modify_index > index;
  };
  for (slot_number each : txn.numbers) {
    each.modify_index = index;
    now.take_number(std::move(each));
  }
  if (txn.record_operations != 0 && index > now.lock_index) now.take_record(txn.record, now.lock_flags, index);
  for (const std::string& session : txn.granted) {
    contender* entry = now.find(session);
    if (!entry || is_newer(session)) continue;
    entry->flags = next_grant_flags(entry->flags);
    entry->modify_index = index;
  }
  if (contender* const entry = now.find(txn.woken); entry && !is_newer(txn.woken)) entry->modify_index = index;
  for (const std::string& session : txn.removed)
    if (!is_newer(session)) now.contenders.erase(session);
  for (const auto& [session, text] : txn.inserted) {
    if (is_newer(session)) continue;
    now.contenders.erase(session);  // a late listing may have brought it back
    now.contenders.insert({session, text, entry_flags(), index, index});
  }
}

void pool::refused(pending_txn txn, const std::vector<event::refused_operation>& refusals) {
  ++conflicts_;
  const bool seen_why = view_.current() && txn.guarded && view_.now().lock_index != txn.base;
  // Other slots have moved, and no more is known to be wrong: then what we give back can still be handed on.
  const bool gave = std::any_of(txn.movers.begin(), txn.movers.end(),
                                [](const member* m) { return m->standing == standing::holding; });
  const bool by_record = gave && !refusals.empty() &&
                         std::all_of(refusals.begin(), refusals.end(), [&](const event::refused_operation& each) {
                           return each.operation < txn.record_operations && each.reason == event::refusal::conflict;
                         });
  const bool by_grantee = std::any_of(refusals.begin(), refusals.end(), [&](const event::refused_operation& each) {
    return each.operation >= txn.record_operations && each.operation < txn.record_operations + txn.granted.size() &&
           each.reason == event::refusal::conflict;
  });
  grants_refused_ = gave && by_grantee ? grants_refused_ + 1 : 0;
  if (!seen_why && by_record && limit_ > 1)
    view_.mark_outrun(txn.base);
  else if (!seen_why)
    view_.mark_stale();
  std::vector<operation> operations = txn.operations;
  if (gave) {
    txn.refused = true;
    txn.by_record = by_record && view_.outrun() && contested_;
    txn.looked_after = last_request_;
    unresolved_ = std::move(txn);
  } else {
    settle_moves(txn, false);
  }
  refresh();
  if (!waiters_.empty() && waiters_.front().once) ++waiters_.front().conflicts;
  bool denied = false, broken = false, delayed = false;
  for (const event::refused_operation& each : refusals) {
    const operation what = each.operation < operations.size() ? operations[each.operation] : operation{};
    switch (each.reason) {
      case event::refusal::conflict:
        break;
      case event::refusal::lock_delay:
        if (const auto number = number_in(what.key, entries_))
          number_delays_[*number].failed({}, now_, random_);
        else
          delayed = true;
        break;
      case event::refusal::invalid_session:
        if (const member* m = find(what.session)) drop(members_.at(m->id), loss_reason::session_invalidated);
        break;
      case event::refusal::permission_denied:
        denied = true;
        break;
      case event::refusal::other:
        broken = true;
        break;
    }
  }
  if (denied) fail_waiters(failed(error::permission_denied, "the ACL token may not write below " + options_.prefix));
  if (denied || broken)
    write_outage_.failed(failed(error::transaction_conflict, "a transaction was refused"), now_, random_);
  else
    write_outage_.over();
  // Others were writing too; or Consul keeps the key from everybody for a while, and tells nobody when that ends.
  const duration first = delayed ? std::chrono::milliseconds(20) : std::chrono::milliseconds(1);
  const duration longest = delayed ? std::chrono::milliseconds(1000) : std::chrono::milliseconds(50);
  const duration pause = std::min(first * (1 << std::min(conflicts_, 6u)), longest);
  write_at_ = delayed          ? now_ + random_.between(pause / 2, pause)
              : conflicts_ > 1 ? now_ + random_.between({}, pause)
                               : now_;
}

/// The transaction is over. Where its members stand now, the next refresh tells: after a write that was applied, or may
/// have been, a member that holds does so by a new grant.
void pool::settle_moves(const pending_txn& txn, bool maybe_applied) {
  for (member* m : txn.movers) {
    m->phase = phase::ready;
    if (!maybe_applied) continue;
    m->standing = standing::absent;
    if (m->releasing == slot_id::none) m->idle_since = now_;
  }
}

/// A listing that was asked for after a write of unknown outcome: does it tell what became of that write? An index that
/// has moved does, for good: the write was applied, or never will be. Otherwise it may still be applied later, and the
/// sessions that it moves must end first.
void pool::resolve() {
  const pending_txn txn = *std::move(unresolved_);
  unresolved_.reset();
  if (txn.refused) return settle_moves(txn, false);  // what was seen is newer, and tells where they stand
  const snapshot& now = view_.now();
  const auto present = [&](const std::string& session) { return now.find(session) != nullptr; };
  const auto joined = [&](const auto& each) { return present(each.first); };
  const auto numbered = [&](const slot_number& each) {
    const slot_number* const its = now.number_of(each.session);
    return each.session.empty() || (its && its->number == each.number);
  };
  // No record is no guard for good: one may come and go again.
  const bool guarded = txn.guarded && txn.base != 0;
  const bool moved_on = guarded && now.lock_index != txn.base;
  const bool done = !(guarded && txn.record_operations != 0) &&
                    std::all_of(txn.inserted.begin(), txn.inserted.end(), joined) &&
                    std::all_of(txn.numbers.begin(), txn.numbers.end(), numbered) &&
                    (!txn.inserted.empty() || std::none_of(txn.removed.begin(), txn.removed.end(), present));
  if (moved_on || done) return settle_moves(txn, true);
  act(action::note{"a write below " + options_.prefix + " has an unknown outcome: its sessions end"});
  const std::vector<member*> movers = txn.movers;
  for (member* m : movers)
    if (m->slot != slot_id::none)
      m->phase = phase::ready;  // its user decides when it ends
    else
      drop(*m, loss_reason::none, txn.why);
}

/// A look at the record alone, after a write that gives slots back was refused for the record's index: whoever is still
/// named there, still holds.
void pool::resolve_by_record(std::uint64_t index) {
  const lock_record& record = view_.now().record;
  const bool holds = view_.now().lock_index == index &&
                     std::all_of(unresolved_->movers.begin(), unresolved_->movers.end(), [&](const member* m) {
                       return m->standing != standing::holding || record.names(m->session);
                     });
  if (!holds) {
    unresolved_->by_record = false;
    return view_.mark_stale();
  }
  const pending_txn txn = *std::move(unresolved_);
  unresolved_.reset();
  settle_moves(txn, false);
  refresh();
}

}  // namespace holdfast::protocol
