#include <algorithm>
#include <utility>

#include "protocol/pool.hpp"

// What we want to hear of. A handoff should wake those whom it concerns, and send them what they need: so a waiter
// watches its own entry, for a grant touches it. That suffices as long as those who free a slot see to it that it goes
// to whoever waits (`owes_a_grant_`). If they die before, nothing may be touched at all, so who has waited for long
// looks after those before it: the head of the queue after everything, any other after the entry just before its own,
// which is touched when that contender is granted, leaves or dies.
//
// A watch of everything is not told when the folder itself is deleted, by its name without the slash, or one above it:
// Consul keeps the trace of that outside of the folder. Those who watch a key below it are told. So whoever holds
// for long watches an entry of its own, too.

namespace holdfast::protocol {

namespace {

/// So many keys of our own slots are watched one by one. More slots in one process share one watch of everything.
constexpr std::size_t own_keys_max = 8;
/// So many may run on that are not needed any more.
constexpr std::size_t unwanted_max = 2;

template <class Watches>
bool is_on(const Watches& list, const std::string& key) {
  return std::any_of(list.begin(), list.end(), [&](const auto& each) { return each.key == key; });
}

}  // namespace

void pool::check_watches() {
  if (watch_outage_.on() && due(watch_outage_.since() + options_.outage_grace))
    lose_all(loss_reason::watch_failed, watch_outage_.last());
  const std::vector<watch> wanted = wanted_watches();
  if (wanted.empty()) {
    if (!any_standing(standing::holding)) watch_outage_.over();
    return;
  }
  if (!due(watch_outage_.retry_at())) return;
  const bool are_covered = watches_everything() && !is_on(wanted, {});
  for (const watch& each : wanted) {
    if (is_on(watches_, each.key) || (are_covered && !is_own_entry(each.key))) continue;
    // An old one that still runs costs nothing until it ends; but they must not pile up.
    if (watches_.size() >= wanted.size() + unwanted_max) {
      const auto unwanted = std::find_if(watches_.begin(), watches_.end(),
                                         [&](const watch& running) { return !is_on(wanted, running.key); });
      act(action::stop_watch{unwanted->id});
      watches_.erase(unwanted);
    }
    start(each);
  }
}

std::vector<pool::watch> pool::wanted_watches() {
  const snapshot& now = view_.now();
  const member* first = nullptr;  // of those that wait, the first in the queue
  const contender* first_entry = nullptr;
  std::vector<const member*> holders;
  for (const auto& [id, m] : members_) {
    if (m.phase == phase::moving) continue;  // the write's reply will tell
    if (m.standing == standing::holding && due(m.granted_at + options_.watch_delay)) holders.push_back(&m);
    if (m.standing != standing::waiting || m.lost) continue;
    const contender* entry = now.find(m.session);
    if (first && first_entry < entry) continue;
    first = &m;
    first_entry = entry;
  }
  if (holders.empty() && !first) return {};

  // After a failure a plain look first: it answers at once, and so ends the outage as soon as there is an answer.
  std::vector<watch> everything{{{}, watch_outage_.on() ? 0 : view_.listed_index(), options_.watch_wait}};
  const bool few = now.crowd() <= options_.watch_all_max;
  if (watch_outage_.on()) return everything;
  if (const member* const one = long_holder())
    everything.push_back({entry_key(one->session), one->grant, options_.watch_wait});
  if (now_ < watch_all_until_ || view_.state() == view::state::none) return everything;
  const bool stale = view_.state() == view::state::stale;
  const bool many = holders.size() * (options_.numbered ? 2 : 1) > own_keys_max;
  if (!holders.empty() && (few || foreign_ || stale || many || must_know_who_comes())) return everything;

  std::vector<watch> wanted;
  wanted.reserve(holders.size() + 2);
  for (const member* holder : holders)
    wanted.push_back({entry_key(holder->session), holder->grant, options_.watch_wait});
  if (!holders.empty()) wanted.push_back({options_.lock_key, now.lock_index, options_.watch_wait});
  for (const member* holder : holders)
    if (const slot_number* const its = number_of(*holder))
      wanted.push_back({number_key(its->number), its->modify_index, options_.watch_wait});
  if (first) {
    const time_point long_since = first->waiting_since + own_watch();
    if (!foreign_ && !wide() && first_entry && !due(long_since)) {
      wanted.push_back({entry_key(first->session), first_entry->modify_index, long_since - now_});
    } else {
      const contender* before = nullptr;
      for (const contender& entry : now.contenders) {
        if (&entry == first_entry) break;
        if (is_waiting(now, entry)) before = &entry;
      }
      if (few || foreign_ || wide() || !before || !view_.current()) return everything;
      wanted.push_back({entry_key(before->session), before->modify_index, options_.watch_wait});
    }
  }
  return wanted;
}

/// One whose entry is watched whatever else is.
const pool::member* pool::long_holder() {
  for (const auto& [id, m] : members_) {
    if (m.standing != standing::holding) continue;
    const bool is_long = due(std::max(m.granted_at + options_.own_entry_delay, watch_own_entry_at_));
    return is_long && m.phase != phase::moving ? &m : nullptr;
  }
  return nullptr;
}

bool pool::is_own_entry(const std::string& key) {
  const member* const one = long_holder();
  return one && key == entry_key(one->session);
}

/// How long a waiter is content with its own entry.
duration pool::own_watch() const {
  const auto ahead = static_cast<duration::rep>(view_.now().crowd());
  return options_.own_watch + ahead * options_.own_watch_each;
}

/// What is kept here, or handed on here, is only while nobody waits elsewhere.
bool pool::must_know_who_comes() const { return !contested_ && (!spares_.empty() || !waiters_.empty()); }

bool pool::watches_everything() const { return is_on(watches_, {}); }

void pool::start(watch w) {
  w.id = ++last_request_;
  if (w.wait == options_.watch_wait) w.wait = random_.between(w.wait * 3 / 4, w.wait);
  w.due = now_ + w.wait * 9 / 10;  // by our own clock
  if (w.key.empty())
    act(action::list_prefix{w.id, w.index, w.wait});
  else
    act(action::watch_key{w.id, w.key, w.index, w.wait});
  watches_.push_back(std::move(w));
}

/// From above Consul's own index, as after a loss of its state, nothing is told before the wait is over.
void pool::stop_sleeping_watches() {
  std::erase_if(watches_, [this](const watch& each) {
    const bool sleeps = each.index > view_.listed_index();
    if (sleeps) act(action::stop_watch{each.id});
    return sleeps;
  });
}

std::optional<pool::watch> pool::take_watch(request_id id) {
  const auto at = std::find_if(watches_.begin(), watches_.end(), [&](const watch& each) { return each.id == id; });
  if (at == watches_.end()) return std::nullopt;
  watch found = std::move(*at);
  watches_.erase(at);
  return found;
}

void pool::on_watch_failed(const watch& asked, failure why) {
  // Only some deletions are told by it.
  if (watches_everything() && !asked.key.empty()) watch_own_entry_at_ = now_ + options_.watch_wait;
  // Nobody needs it any more, or what covers it runs.
  if (!is_on(wanted_watches(), asked.key) || watches_everything()) return;
  if (!asked.key.empty()) {
    watch_all_until_ = now_ + options_.watch_wait;
    const bool is_record = asked.key == options_.lock_key;
    const member* m = is_record ? nullptr : find(std::string_view(asked.key).substr(entries_.size()));
    const bool is_holders = is_record || (m && m->standing == standing::holding);
    if (!is_holders && any_standing(standing::holding)) return;  // no slot is in danger: everything is asked for next
  }
  act(action::note{"watch of " + (asked.key.empty() ? options_.prefix : asked.key) +
                   " failed: " + why.details.to_string()});
  if (is_final(why.code)) fail_waiters(why);
  watch_outage_.failed(std::move(why), now_, random_);
}

void pool::saw_record(std::optional<key_value> pair) {
  if (pair && pair->modify_index == view_.now().lock_index) {  // its wait is over
    if (view_.outrun()) view_.mark_stale();
    return;
  }
  std::vector<key_value> listing;
  if (pair) listing.push_back(*pair);
  const auto seen = snapshot_of(std::move(listing), 0);
  // Whatever is not just a newer record of others' doings, the whole tells better: a grant's token is in the entry.
  const bool is_grant = seen && grants_us(seen->record);
  const bool is_free = seen && !seen->record.closed && seen->record.holders.size() < limit_of(seen->record) &&
                       any_standing(standing::waiting);
  if (!seen || is_grant || is_free || !pair || seen->lock_index < view_.now().lock_index) return view_.mark_stale();
  view_.learned(seen->lock_index, last_request_,
                [&](snapshot& now) { now.take_record(seen->record, seen->lock_flags, seen->lock_index); });
  refresh();
  check_limit();
}

void pool::saw_entry(const watch& asked, std::optional<key_value> pair) {
  const std::string_view session = std::string_view(asked.key).substr(entries_.size());
  const contender* known = view_.now().find(session);
  if (!known || known->modify_index != asked.index) return;  // we know better by now
  const member* m = find(session);
  if (pair && pair->modify_index == asked.index) {
    if (now_ < asked.due) return view_.mark_stale();  // so Consul answers when all of its state was replaced
    // Should anybody have granted us out of turn, our own entry tells.
    if (!m)
      for (auto& [id, each] : members_) each.waiting_since = now_;
    return;
  }
  if (!m) return view_.mark_partial();  // whoever stood before us does not any more
  if (m->phase == phase::moving) return;
  if (!pair || pair->session != session) {
    view_.learned(0, last_request_, [&](snapshot& now) { now.contenders.erase(session); });
    refresh();
    if (any_standing(standing::holding)) read_prefix();  // what has become of the others?
    return;
  }
  if (pair->modify_index < asked.index || !is_grantable(pair->flags)) return view_.mark_stale();
  // Only a grant counts the flags up, and the record names us by the same write. An entry that was made anew, by a
  // write whose outcome was unknown, stands at the back, and counts from 0.
  const bool is_new = pair->create_index != known->create_index;
  if (!is_new && pair->flags != known->flags) return saw_grant(*pair);
  view_.learned(pair->modify_index, last_request_, [&](snapshot& now) {
    now.contenders.erase(session);
    if (is_new) now.record.drop(std::string(session));
    now.contenders.insert({pair->session, pair->value, pair->flags, pair->create_index, pair->modify_index});
  });
  view_.mark_stale();
  refresh();
}

/// Nobody but an operator takes a number from whoever has it.
void pool::saw_number(const watch& asked, std::optional<key_value> pair) {
  const auto& numbers = view_.now().numbers;
  const auto known = std::find_if(numbers.begin(), numbers.end(), [&](const slot_number& each) {
    return each.number == number_in(asked.key, entries_);
  });
  if (known == numbers.end() || known->modify_index != asked.index) return;  // we know better by now
  if (pair && pair->modify_index == asked.index) return;                     // its wait is over
  view_.mark_stale();
}

/// Our entry says that we have been granted; and, if whoever did that knew it, who comes next.
void pool::saw_grant(const key_value& pair) {
  const std::uint64_t index = pair.modify_index;
  const auto who = succession_in(pair.value, find(pair.session)->text);
  view_.learned(index, last_request_, [&](snapshot& now) {
    contender& entry = *now.find(pair.session);
    entry.flags = pair.flags;
    entry.modify_index = index;
    if (now.lock_index == 0) now.record.limit = limit_;
    now.record.add(pair.session);
    if (who && who->number) now.take_number({*who->number, pair.session, index});
  });
  view_.mark_outrun(index - 1);
  const auto is_entry = [this](const contender& next) { return entry_key(next.session) != options_.lock_key; };
  if (!who || who->next.empty() || who->limit != limit_ || !std::all_of(who->next.begin(), who->next.end(), is_entry)) {
    refresh();
    return read_prefix();  // while the slot is in use: whoever gives it back must know who waits
  }
  view_.succeeded([&](snapshot& now) {
    if (limit_ == 1 && now.lock_index < index)  // then the record names nobody else, and was not closed
      now.take_record({now.record.form, 1, {pair.session}}, now.lock_flags, index);
    now.contenders.erase_if([this](const contender& entry) { return !is_ours(entry.session); });
    for (const contender& next : who->next)
      if (!now.find(next.session)) now.contenders.insert(next);
    now.complete_to = who->next.back().create_index;
    now.unseen = who->behind;
  });
  listed_at_ = now_;
  refresh();
  check_limit();
}

}  // namespace holdfast::protocol
