// SPDX-FileCopyrightText: The holdfast authors
// SPDX-License-Identifier: BSL-1.0

#include <algorithm>
#include <utility>

#include "protocol/pool.hpp"

// Watches and their answers.

namespace holdfast::protocol {

void pool::check_watches() {
  if (parts_.watches.failures.on() && due_or_wake(parts_.watches.failures.since() + parts_.options.outage_grace))
    parts_.slots.lose_all(ctx_, parts_.members, loss_reason::watch_failed, parts_.watches.failures.last());
  const facts f = facts_now();
  const std::vector<watch> wanted = wanted_watches(ctx_, f, parts_.watches);
  if (wanted.empty()) {
    if (!any_holds(parts_.members)) parts_.watches.failures.over();
    return;
  }
  if (!due_or_wake(parts_.watches.failures.retry_at())) return;
  parts_.watches.want(ctx_, wanted, parts_.keys.prefix, parts_.options.watch_wait,
                      [&](const std::string& key) { return !is_own_entry(ctx_, f, parts_.watches, key); });
}

void pool::on_watch_failed(const watch& asked, failure why) {
  // A watch of a key beside a watch of everything is needed only for some deletions. It is not started again for a
  // while.
  const bool is_of_key = !asked.is_of_everything();
  if (parts_.watches.has_everything() && is_of_key) parts_.watches.own_entry_from = now() + parts_.options.watch_wait;
  // The failed watch is not wanted any more, or a watch of everything is running and shows the same.
  if (!watch_set::is_among(wanted_watches(ctx_, facts_now(), parts_.watches), asked.key) ||
      parts_.watches.has_everything())
    return;
  if (is_of_key) {
    parts_.watches.everything_until = now() + parts_.options.watch_wait;
    const bool is_record = asked.key == parts_.keys.lock;
    const member* m = is_record ? nullptr : parts_.members.find(parts_.keys.session_in(asked.key));
    const bool is_holders = is_record || (m && m->holds());
    if (!is_holders && any_holds(parts_.members)) return;  // no slot is in danger; a watch of everything is next
  }
  if (!parts_.watches.failures.on()) {
    act(action::note{"watch of " + (is_of_key ? asked.key : parts_.options.prefix) +
                     " failed: " + why.details.to_string()});
  }
  if (is_final(why.code)) parts_.waiters.fail_all(ctx_, why);
  parts_.watches.failures.failed(std::move(why), now(), ctx_.random());
}

void pool::watches_work() {
  if (parts_.watches.failures.on()) act(action::note{"watch of " + parts_.options.prefix + " works again"});
  parts_.watches.failures.over();
}

void pool::saw_record(std::optional<kv_entry> pair) {
  if (pair &&
      pair->modify_index == parts_.view.now().lock_index) {  // the wait has expired, or a read shows nothing new
    if (parts_.view.outrun()) parts_.view.mark_stale();
    return;
  }
  std::vector<kv_entry> listing;
  if (pair) listing.push_back(*pair);
  const auto seen = snapshot_of(std::move(listing), 0);
  // A newer record that concerns only others is taken as it is. Otherwise everything is listed, because the token of a
  // grant, for example, is in the entry.
  const bool is_grant = seen && grants_us(seen->record, parts_.members);
  const bool is_free = seen && !seen->record.closed &&
                       seen->record.holders.size() < limit_of(seen->record, parts_.options) &&
                       any_waits(parts_.members);
  if (!seen || is_grant || is_free || !pair || seen->lock_index < parts_.view.now().lock_index)
    return parts_.view.mark_stale();
  parts_.view.learned(seen->lock_index, ctx_.last_request(),
                      [&](snapshot& now) { now.take_record(seen->record, seen->lock_flags, seen->lock_index); });
  refresh();
  assess_limit();
}

void pool::saw_entry(const watch& asked, std::optional<kv_entry> pair, duration wait) {
  const std::string_view session = parts_.keys.session_in(asked.key);
  const contender* known = parts_.view.now().find(session);
  if (!known || known->modify_index != asked.index) return;  // the view is newer
  const member* m = parts_.members.find(session);
  if (pair && pair->modify_index == asked.index) {
    if (member* const own = parts_.members.find(session); own && own->waits()) own->had_no_grant(asked.asked_at);
    if (!waits_.is_over(now() - asked.asked_at, wait, ctx_.last_request())) return parts_.view.mark_stale();
    // The entry before ours has not moved. Our own is watched again for a while, in case we were granted out of turn.
    if (!m)
      for (auto& [id, each] : parts_.members) each.waiting_since = now();
    return;
  }
  if (m && m->has_returned) return parts_.view.mark_stale();
  if (!m) return parts_.view.mark_partial();  // the entry before ours has changed or is gone
  if (m->phase == phase::moving) return;
  if (!pair || pair->session != session) {
    parts_.view.learned(0, ctx_.last_request(), [&](snapshot& now) { now.contenders.erase(session); });
    refresh();
    if (any_holds(parts_.members)) parts_.read_everything(ctx_);  // what has become of the others?
    return;
  }
  if (pair->modify_index < asked.index || !is_grantable(pair->flags)) return parts_.view.mark_stale();
  // Only a grant increments the counter in the flags, and the same write puts us into the record. An entry that was
  // created again, by a write of unknown outcome, stands at the back of the queue, and its counter begins at 0.
  const bool is_new = pair->create_index != known->create_index;
  if (!is_new && pair->flags != known->flags) return saw_grant(*pair);
  parts_.view.learned(pair->modify_index, ctx_.last_request(), [&](snapshot& now) {
    now.contenders.erase(session);
    if (is_new) now.record.drop(std::string(session));
    now.contenders.insert({pair->session, pair->value, pair->flags, pair->create_index, pair->modify_index});
  });
  parts_.view.mark_stale();
  refresh();
}

/// Handles the answer to a watch of a number that one of our slots has. If the number has changed, somebody has taken
/// it from the session: an operator, or a process that has taken back a grant. Or Consul has ended the session.
void pool::saw_number(const watch& asked, std::optional<kv_entry> pair) {
  const auto& numbers = parts_.view.now().numbers;
  const auto known = std::find_if(numbers.begin(), numbers.end(), [&](const slot_number& each) {
    return each.number == number_in(asked.key, parts_.keys.entries);
  });
  if (known == numbers.end() || known->modify_index != asked.index) return;  // the view is newer
  if (pair && pair->modify_index == asked.index) return;  // the number is unchanged: the wait has expired
  parts_.view.mark_stale();
}

/// Our entry shows that we have been granted. If the granting process knew the queue, the entry also names the
/// contenders that come next.
void pool::saw_grant(const kv_entry& pair) {
  const std::uint64_t index = pair.modify_index;
  const auto who = succession_in(pair.value, parts_.members.find(pair.session)->text);
  parts_.view.learned(index, ctx_.last_request(), [&](snapshot& now) {
    contender& entry = *now.find(pair.session);
    entry.flags = pair.flags;
    entry.modify_index = index;
    if (now.lock_index == 0) now.record.limit = limit();
    now.record.add(pair.session);
    if (who && who->number) now.take_number({*who->number, pair.session, index});
  });
  parts_.view.mark_outrun(index - 1);
  const auto is_entry = [this](const contender& next) { return parts_.keys.entry(next.session) != parts_.keys.lock; };
  if (!who || who->next.empty() || who->limit != limit() ||
      !std::all_of(who->next.begin(), who->next.end(), is_entry)) {
    refresh();
    return parts_.read_everything(ctx_);  // while the slot is in use, because its release must know who waits
  }
  parts_.view.succeeded([&](snapshot& now) {
    if (limit() == 1 && now.lock_index < index)  // then the record names nobody else, and was not closed
      now.take_record({now.record.form, 1, {pair.session}}, now.lock_flags, index);
    now.contenders.erase_if([this](const contender& entry) { return !parts_.members.is_ours(entry.session); });
    for (const contender& next : who->next)
      if (!now.find(next.session)) now.contenders.insert(next);
    now.complete_to = who->next.back().create_index;
    now.unseen = who->behind;
  });
  parts_.view.listed(now());
  refresh();
  assess_limit();
}

}  // namespace holdfast::protocol
