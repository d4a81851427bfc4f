// SPDX-FileCopyrightText: The holdfast authors
// SPDX-License-Identifier: BSL-1.0

#include "sim/support/sabotage.hpp"

#include <algorithm>
#include <type_traits>

#include "protocol/record/entry_value.hpp"
#include "protocol/record/lock_record.hpp"
#include "protocol/record/snapshot.hpp"
#include "protocol/record/succession.hpp"
#include "testing/defect.hpp"

namespace holdfast::test {

using namespace protocol;
using namespace std::chrono_literals;

namespace {

bool is_record(const kv_entry& pair) { return pair.key.ends_with("/.lock"); }
bool is_record(const kv_operation& op) { return op.verb == kv_verb::cas && op.key.ends_with("/.lock"); }
bool is_number(const kv_operation& op) { return op.key.find("/.slot/") != std::string::npos; }

}  // namespace

std::string_view to_string(seeded_bug bug) {
  const auto* const found =
      std::find_if(std::begin(seeded_bugs), std::end(seeded_bugs), [&](const auto& each) { return each.bug == bug; });
  return found == std::end(seeded_bugs) ? "none" : found->name;
}

void sabotage::bend(pool_options& options, duration request_timeout) const {
  if (bug_ == seeded_bug::lease_counted_late) options.lease_margin = -request_timeout;
  if (bug_ == seeded_bug::clock_drift_ignored) options.lease_margin = 0s;
  if (bug_ == seeded_bug::one_slot_too_many) ++options.limit;
  if (bug_ == seeded_bug::request_bytes_not_counted) options.request_bytes = request_bytes_max;
}

void sabotage::bend(testing::store& store) const {
  if (bug_ == seeded_bug::watch_misses_deletions) store.break_rule(testing::defect::delete_moves_no_index);
  if (bug_ == seeded_bug::no_lock_delay) store.break_rule(testing::defect::no_lock_delay);
  if (bug_ == seeded_bug::unguarded_record || bug_ == seeded_bug::set_guard_ignored)
    store.break_rule(testing::defect::cas_ignores_index);
}

void sabotage::bend(mutex_set_options& options, duration request_timeout) const {
  if (bug_ == seeded_bug::set_lease_counted_late) options.lease_margin = -request_timeout;
}

bool sabotage::step(int process, core& pool, core_event&& e, time_point now, core_actions& out,
                    std::vector<core_event>& then) {
  if (!on()) {
    pool.step(std::move(e), now, out);
    return true;
  }
  if (!lets_in(process, e, out)) return false;
  core_actions done;
  pool.step(std::move(e), now, done);
  for (core_action& each : done)
    if (lets_out(process, each, then)) out.push_back(std::move(each));
  return true;
}

/// Hides commands of operators from the process, which then ignores them. `keep_orders` restores them in what the
/// process writes. Otherwise one bug would be two.
void sabotage::hide_orders(int process, core_event& e) {
  if (auto* const listed = std::get_if<event::prefix_listed>(&e))
    for (kv_entry& each : listed->listing) hide_orders(process, each);
  if (auto* const watched = std::get_if<event::key_watched>(&e); watched && watched->pair)
    hide_orders(process, *watched->pair);
  if (auto* const done = std::get_if<event::txn_done>(&e))
    for (kv_entry& each : done->results) hide_orders(process, each);
}

void sabotage::hide_orders(int process, kv_entry& pair) {
  if (!is_record(pair)) return;
  auto record = parse_lock_record(pair.value);
  if (!record) return;  // the result of a write has no value
  if (auto& newest = true_record_[process]; newest.first <= pair.modify_index) newest = {pair.modify_index, *record};
  if (bug_ == seeded_bug::closed_ignored) record->closed = false;
  if (bug_ == seeded_bug::revoke_lost) record->revoked.clear();
  std::uint32_t& highest = highest_limit_[process];
  highest = std::max(highest, record->limit);
  if (bug_ == seeded_bug::shrink_ignored) record->limit = highest;
  pair.value = format(*record);
}

void sabotage::keep_orders(int process, lock_record& record) {
  const lock_record& known = true_record_[process].second;
  if (bug_ == seeded_bug::closed_ignored) record.closed = known.closed;
  if (bug_ == seeded_bug::closed_dropped) record.closed = false;
  if (bug_ == seeded_bug::shrink_ignored && known.limit != 0) record.limit = known.limit;
  if (bug_ == seeded_bug::revoke_lost) {
    record.revoked = known.revoked;
    record.keep_marks_of_holders();
  }
}

bool sabotage::lets_in(int process, core_event& e, core_actions& instead) {
  hide_orders(process, e);
  if (std::holds_alternative<event::value_written>(e)) return bug_ != seeded_bug::proclaimed_value_forgotten;
  if (auto* const tick = std::get_if<event::tick>(&e)) return bug_ != seeded_bug::timers_never_fire;
  if (auto* const cancel = std::get_if<event::cancel>(&e);
      cancel && (bug_ == seeded_bug::grant_dropped_after_cancel || bug_ == seeded_bug::set_lock_kept_after_cancel)) {
    gone_.emplace(process, cancel->ticket);
    instead.push_back(action::fail{cancel->ticket, {make_error_code(boost::system::errc::operation_canceled), {}}});
    return false;
  }
  if (auto* const release = std::get_if<event::release>(&e); release && bug_ == seeded_bug::release_forgotten) {
    if (++releases_ % 16 == 0) {
      dropped_.emplace(process, release->slot);  // its user gets no answer any more
      return false;
    }
  }
  // The pool does not answer the release of a slot that it has lost. Without this answer the user would wait for ever,
  // and one bug would be two.
  if (auto* const release = std::get_if<event::release>(&e); release && untold_.erase({process, release->slot}) != 0)
    instead.push_back(action::released{release->slot, {}});
  if (auto* const release = std::get_if<event::release>(&e); release && bug_ == seeded_bug::answered_twice)
    instead.push_back(action::released{release->slot, {}});
  if (auto* const wish = std::get_if<event::acquire>(&e); wish && wish->terms.count == 1)
    waiting_[process].insert(wish->ticket);
  if (auto* const renewed = std::get_if<event::session_renewed>(&e);
      renewed && bug_ == seeded_bug::renewal_failures_ignored)
    renewed->outcome = event::renewal::renewed;
  if (auto* const created = std::get_if<event::session_created>(&e);
      created && bug_ == seeded_bug::session_used_twice && !created->session.empty()) {
    const std::string first = session_.emplace(process, created->session).first->second;
    session_[process] = created->session;
    created->session = first;
  }
  if (auto* const done = std::get_if<event::txn_done>(&e)) {
    const bool failed = done->outcome == event::outcome::unknown || done->outcome == event::outcome::not_sent;
    if (failed && bug_ == seeded_bug::failures_never_arrive) return false;
    if (failed && (bug_ == seeded_bug::unknown_taken_for_refused || bug_ == seeded_bug::set_unknown_taken_for_not_sent))
      done->outcome = event::outcome::not_sent;
    if (bug_ == seeded_bug::set_wrong_one_denied)
      for (event::refused_operation& each : done->refusals) ++each.operation;
  }
  if (auto* const listed = std::get_if<event::prefix_listed>(&e)) return lets_in(process, *listed);
  return true;
}

bool sabotage::lets_in(int process, event::prefix_listed& e) {
  if (e.error.code) return true;
  if (bug_ == seeded_bug::no_prune) {
    const auto lock =
        std::find_if(e.listing.begin(), e.listing.end(), [](const auto& each) { return is_record(each); });
    if (lock == e.listing.end()) return true;
    const std::string prefix = lock->key.substr(0, lock->key.size() - std::string_view(".lock").size());
    const lock_record named = *parse_lock_record(lock->value);
    for (const std::string& holder : named.holders) {
      const auto its = [&](const kv_entry& each) { return each.session == holder; };
      if (std::none_of(e.listing.begin(), e.listing.end(), its))
        e.listing.push_back({prefix + holder, {}, contender_magic, holder, 1, 1});
    }
  }
  if (bug_ == seeded_bug::prune_from_stale_read) {
    // Every second listing is replaced by the one before it.
    if (auto& old = old_[process]; old.empty()) {
      old = e.listing;
    } else {
      // The record stays new, so that a write that rests on the old entries is not refused.
      std::erase_if(old, [](const auto& each) { return is_record(each); });
      std::copy_if(e.listing.begin(), e.listing.end(), std::back_inserter(old),
                   [](const auto& each) { return is_record(each); });
      e.listing = std::exchange(old, {});
    }
  }
  if (bug_ == seeded_bug::queue_by_session) {
    for (kv_entry& each : e.listing)
      if (!each.session.empty()) each.create_index = 1'000'000 - each.create_index;
  }
  return true;
}

bool sabotage::lets_out(int process, core_action& a, std::vector<core_event>& then) {
  if (auto* const txn = std::get_if<action::send_txn>(&a)) return lets_out(process, *txn, then);
  if (auto* const granted = std::get_if<action::grant>(&a)) {
    if (gone_.contains({process, granted->ticket})) {
      dropped_.emplace(process, granted->slot);
      return false;
    }
    if (bug_ == seeded_bug::token_reused) granted->token.handoff = 0;
    if (bug_ == seeded_bug::set_token_reused)
      granted->token = first_token_.emplace(process, granted->token).first->second;
    if (bug_ == seeded_bug::number_of_another && !granted->numbers.empty()) granted->numbers.front() ^= 1;
    auto& others = waiting_[process];
    if (others.erase(granted->ticket) != 0 && !others.empty() && bug_ == seeded_bug::overtaking)
      granted->ticket = *others.rbegin();
  }
  if (auto* const denied = std::get_if<action::deny>(&a)) {
    waiting_[process].erase(denied->ticket);
    return !gone_.contains({process, denied->ticket});
  }
  if (auto* const failed = std::get_if<action::fail>(&a)) {
    waiting_[process].erase(failed->ticket);
    return !gone_.contains({process, failed->ticket});
  }
  if (auto* const lost = std::get_if<action::lose>(&a)) {
    if (bug_ != seeded_bug::loss_not_told && bug_ != seeded_bug::set_loss_not_told)
      return !dropped_.contains({process, lost->slot});
    untold_.emplace(process, lost->slot);
    return false;
  }
  if (auto* const news = std::get_if<action::update>(&a)) return !dropped_.contains({process, news->slot});
  if (auto* const end = std::get_if<action::destroy_session>(&a);
      end && (bug_ == seeded_bug::sessions_stay || bug_ == seeded_bug::set_session_stays)) {
    then.push_back(event::session_destroyed{end->session, true});
    return false;
  }
  if (auto* const list = std::get_if<action::list_prefix>(&a)) {
    if (list->index != 0 && (bug_ == seeded_bug::watch_never_answers || bug_ == seeded_bug::no_watch_of_the_head))
      return false;
    if (bug_ == seeded_bug::looks_without_waiting) list->index = 0;
    std::uint64_t& highest = highest_[{process, ""}];
    highest = std::max(highest, list->index);
    if (bug_ == seeded_bug::index_kept_after_reset && list->index != 0) list->index = highest;
  }
  if (auto* const watch = std::get_if<action::watch_key>(&a)) {
    if (watch->index != 0 && bug_ == seeded_bug::set_end_not_watched) return false;
    const bool record = watch->key.ends_with("/.lock");
    if (watch->index != 0 &&
        (bug_ == seeded_bug::watch_never_answers || (record && bug_ == seeded_bug::no_watch_of_the_record) ||
         (!record && bug_ == seeded_bug::no_watch_of_the_entry)))
      return false;
  }
  return true;
}

bool sabotage::lets_out(int process, action::send_txn& a, std::vector<core_event>& then) {
  auto& operations = a.operations;
  const auto record = std::find_if(operations.begin(), operations.end(), [](const auto& op) { return is_record(op); });
  if (bug_ == seeded_bug::closed_ignored || bug_ == seeded_bug::closed_dropped || bug_ == seeded_bug::shrink_ignored ||
      bug_ == seeded_bug::revoke_lost) {
    if (record != operations.end()) {
      auto named = *parse_lock_record(record->value);
      keep_orders(process, named);
      record->value = format(named);
    }
  }
  if (bug_ == seeded_bug::set_release_unchecked) {
    for (kv_operation& each : operations)
      if (each.verb == kv_verb::check_session) each = {kv_verb::get, operations.front().key};
  }
  if (bug_ == seeded_bug::set_barrier_forgotten) {
    if (operations.size() == 1 && operations.front().verb == kv_verb::cas) {
      const kv_operation& guard = operations.front();
      event::txn_done done{a.id, event::outcome::applied};
      done.results.push_back({guard.key, {}, guard.flags, {}, guard.index, guard.index});
      then.push_back(std::move(done));
      return false;
    }
  }
  if (bug_ == seeded_bug::key_not_handed_over) {
    if (std::any_of(operations.begin(), operations.end(), [](const auto& op) { return op.verb == kv_verb::cas; }))
      std::erase_if(operations, [](const auto& op) { return op.verb == kv_verb::lock && op.key.ends_with("/.lock"); });
  }
  if (bug_ == seeded_bug::key_not_let_go) {
    if (std::none_of(operations.begin(), operations.end(), [](const auto& op) { return op.verb == kv_verb::cas; }))
      for (kv_operation& op : operations)
        if (op.verb == kv_verb::unlock) op = {kv_verb::get, op.key};  // a read has a result, too
  }
  if (bug_ == seeded_bug::number_not_locked) {
    std::erase_if(operations, [](const auto& op) { return op.verb == kv_verb::lock && is_number(op); });
  }
  if (bug_ == seeded_bug::number_not_given_back) {
    for (kv_operation& op : operations)
      if (op.verb == kv_verb::unlock && is_number(op)) op = {kv_verb::get, op.key};
  }
  if (bug_ == seeded_bug::grant_leaves_the_entry) {
    if (record != operations.end())
      std::erase_if(operations, [](const auto& op) { return op.verb == kv_verb::cas && !is_record(op); });
  }
  if (bug_ == seeded_bug::release_keeps_the_entry) {
    if (record != operations.end())
      std::erase_if(operations, [](const auto& op) { return op.verb == kv_verb::remove; });
  }
  if (bug_ == seeded_bug::drops_another_holder) {
    if (record != operations.end()) {
      auto named = *parse_lock_record(record->value);
      const bool gives_back =
          std::any_of(operations.begin(), operations.end(), [](const auto& op) { return op.verb == kv_verb::remove; });
      if (gives_back && !named.holders.empty()) named.holders.erase(named.holders.begin());
      record->value = format(named);
    }
  }
  if (bug_ == seeded_bug::succession_with_a_gap) {
    for (kv_operation& op : operations) {
      const std::string description(description_in(op.value));
      auto next = succession_in(op.value, description);
      if (op.verb != kv_verb::cas || is_record(op) || !next || next->next.size() < 2) continue;
      next->next.erase(next->next.begin());
      succession_view view;
      for (const contender& each : next->next) view.next.push_back(&each);
      view.behind = next->behind;
      view.limit = next->limit;
      op.value = with_succession(description, view);
    }
  }
  return true;
}

void sabotage::bend(instruction& order, std::uint64_t lock_index) const {
  if (order.operations.empty() || !is_record(order.operations.front())) return;
  kv_operation& written = order.operations.front();
  if (bug_ == seeded_bug::order_unguarded) written.index = lock_index;
  if (bug_ == seeded_bug::shrink_takes_slots) {
    auto record = *parse_lock_record(written.value);
    while (record.holders.size() > record.limit) record.drop(record.holders.front());
    written.value = format(record);
  }
}

void sabotage::bend(event::key_watched& seen, const std::string& session) {
  deposed_ = seen.pair && seen.pair->session != session;
  if (bug_ == seeded_bug::proclaim_of_the_deposed && deposed_) seen.pair->session = session;
}

void sabotage::bend(std::vector<kv_operation>& proclaim) {
  if (bug_ == seeded_bug::proclaim_without_index)
    std::erase_if(proclaim, [](const auto& op) { return op.verb == kv_verb::check_index; });
  if (bug_ == seeded_bug::proclaim_of_the_deposed && deposed_) {
    const std::uint64_t index = proclaim[1].index;
    proclaim = {std::move(proclaim.back())};
    proclaim.front().verb = kv_verb::cas;
    proclaim.front().index = index;
  }
}

void sabotage::bend(int process, observer::question& asked, std::uint64_t newest) {
  if (asked.index == 0) return;
  if (bug_ == seeded_bug::observer_asks_from_now) asked.index = newest;
  if (bug_ == seeded_bug::observer_keeps_its_index) {
    std::uint64_t& highest = highest_[{process, "observer"}];
    asked.index = highest = std::max(highest, asked.index);
  }
}

void sabotage::bend(int process, event::key_watched& heard) {
  if (bug_ != seeded_bug::observer_hears_of_the_past || heard.error.code) return;
  const auto [before, first] = heard_.emplace(process, heard);
  if (!first) std::swap(before->second, heard);
}

}  // namespace holdfast::test
