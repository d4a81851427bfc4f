// SPDX-FileCopyrightText: The holdfast authors
// SPDX-License-Identifier: BSL-1.0

#include <algorithm>
#include <utility>

#include "sim/support/world_impl.hpp"

namespace holdfast::test {

void world::start_observer() {
  auto p = std::make_unique<process>();
  p->number = ++last_process_;
  const duration longest_wait = options_.watch_wait;
  p->watching = std::make_unique<spectator>(spectator{observer(longest_wait, random_.below(1u << 30))});
  in(random_.between(0s, 1s), [this, p = p.get()] { when_running(*p, [this, p] { ask_who_leads(*p); }); });
  processes_.push_back(std::move(p));
}

// ---- candidates and leaders

/// Closes the pool, as the driver does: a pool serves one acquire and closes when that is answered. The slot that it
/// has granted stays.
void world::campaign_is_over(process& p) {
  if (p.closing) return;
  p.closing = true;
  in(0s, [this, &p] { deliver(p, event::close{false}); });
}

/// Removes a candidate whose campaign is over. A new one replaces it, as one process may have several campaigns.
void world::retire(process& p) {
  if (!p.releasing.empty()) object(guarantee::answers, name(p) + " has a release that never ended");
  p.alive = false;
  referee_.crashed(p.number);
  const auto its =
      std::find_if(processes_.begin(), processes_.end(), [&](const auto& each) { return each.get() == &p; });
  retired_.push_back(std::move(*its));
  processes_.erase(its);
  if (now() < last_call_) start_process();
}

void world::proclaim_while(process& p, slot_id slot, duration held) {
  for (std::uint64_t i = random_.below(options_.long_terms ? 20 : held > 400ms ? 8 : 3); i != 0; --i)
    in(random_.between(0ms, held), [this, &p, slot] { when_running(p, [this, &p, slot] { proclaim(p, slot); }); });
}

/// Begins a second proclaim before the first one can have ended, or soon after.
void world::proclaim_beside(process& p, slot_id slot) {
  if (!options_.overlapping_proclaims || p.proclaiming != 1 || !random_.chance(50)) return;
  in(random_.between(0ms, 2 * options_.latency_max),
     [this, &p, slot] { when_running(p, [this, &p, slot] { proclaim(p, slot); }); });
}

void world::proclaim(process& p, slot_id slot) {
  if (p.proclaiming == (options_.overlapping_proclaims ? 2 : 1) || !referee_.holds(p.number, slot)) return;
  const int id = ++p.proclaims;
  auto wish = std::make_shared<proclamation>(id, name(p) + " says " + std::to_string(id));
  say([&] { return name(p) + ": proclaim \"" + wish->value() + "\""; });
  ++p.proclaiming;
  try_to_proclaim(p, slot, std::move(wish));
  proclaim_beside(p, slot);
}

/// Does what the runtime does: it reads the key, writes what the core decides, and reports the outcome to the core and
/// the pool.
void world::try_to_proclaim(process& p, slot_id slot, std::shared_ptr<proclamation> wish) {
  const auto tell_pool = [this, &p, slot](event::value_written what) {
    if (referee_.holds(p.number, slot)) step(p, std::move(what));
  };
  const auto end = [this, &p, wish, tell_pool](const char* how) {
    say([&] { return name(p) + ": \"" + wish->value() + "\" " + how; });
    --p.proclaiming;
    tell_pool(wish->ended());
  };
  const auto not_written = [this, &p, slot, wish, end] {
    if (wish->is_doubtful()) return end("may be proclaimed");
    // If the process has resigned meanwhile, it may have left the value all the same.
    if (referee_.holds(p.number, slot)) p.undecided.erase(wish->value());
    end("is not proclaimed");
  };
  const auto written = [this, &p, slot, wish, end] {
    ++result_.proclaims;
    end("is proclaimed");
    // If it is resigning, it may still leave the value from before.
    if (!referee_.holds(p.number, slot)) return;
    // If two writes were both applied, the one that was sent later was applied later, because the key's index guards
    // each of them. If a later write is known to be applied, this value was replaced.
    const auto its = p.undecided.find(wish->value());
    if (its == p.undecided.end()) return;
    p.proclaimed = wish->value();
    // No earlier write will be applied any more. A proclaim that is pending may write again, and then counts again.
    const int last = its->second;
    if (!p.was_granted_again) std::erase_if(p.undecided, [last](const auto& each) { return each.second <= last; });
  };
  const auto entries = p.pool->entries_of(slot);
  if (entries.empty()) return wish->is_doubtful() ? end("may be proclaimed") : not_written();
  look_at_key(p, [=, this, &p, session = entries.front().session](event::key_watched seen) {
    if (seen.error.code) return wish->is_doubtful() ? end("may be proclaimed") : not_written();
    sabotage_.bend(seen, session);
    auto write = wish->write(seen.pair, session);
    if (!write) return not_written();
    if (write->empty()) return written();
    sabotage_.bend(*write);
    p.undecided[wish->value()] = ++p.writes;
    tell_pool(wish->tried());
    // The agent may restart just now, so that neither of two proclaims that overlap is written.
    if (p.proclaiming == 2 && faults() && options_.request_faults != 0 && random_.chance(20))
      p.refused_until = std::max(p.refused_until, now() + 2 * options_.latency_max);
    send(p, 0, *std::move(write), [=, this, &p](const event::txn_done& done) {
      const auto ended = wish->replied(done);
      if (done.outcome == event::outcome::unknown) return end("may be proclaimed");
      if (!ended) return try_to_proclaim(p, slot, wish);
      if (*ended) return not_written();
      written();
    });
  });
}

// ---- observers

void world::ask_who_leads(process& p) {
  spectator& its = *p.watching;
  if (!p.alive || its.asks) return;
  note_office();
  its.asks = true;
  observer::question next = its.core.ask(p.clock.local(now()));
  its.index = next.index;
  testing::subject what{testing::subject::kind::key, std::string(world_lock_key)};
  if (next.session.empty()) {
    its.asked_at = terms_.size() - 1;
    sabotage_.bend(p.number, next, consul_.store.raft_index());
  } else {
    what = {testing::subject::kind::prefix, what.name + '/' + next.session};
  }
  query(p, ++its.last_question, std::move(what), next.index, next.wait);
  if (random_.chance(5))
    in(random_.between(0ms, 500ms), [this, &p, question = its.last_question] {
      when_running(p, [this, &p, question] {
        if (p.watching->asks && p.watching->last_question == question) cancel_question(p);
      });
    });
}

/// An observer that waits for news gives up, and asks again later. It must not miss anything by that.
void world::cancel_question(process& p) {
  say([&] { return name(p) + ": does not want to know"; });
  p.watching->asks = false;
  if (const auto found = find_watch(p, p.watching->last_question)) end_watch(*found);
  in(random_.between(0ms, 300ms), [this, &p] { when_running(p, [this, &p] { ask_who_leads(p); }); });
}

void world::step_of_an_observer(process& p, core_event&& e) {
  if (auto* const answer = std::get_if<event::key_watched>(&e)) {
    sabotage_.bend(p.number, *answer);
    hear_who_leads(p, std::move(*answer));
  } else if (auto* const listing = std::get_if<event::prefix_listed>(&e)) {
    hear_who_leads(p, std::move(*listing));
  }
}

template <class Answer>
void world::hear_who_leads(process& p, Answer&& answer) {
  spectator& its = *p.watching;
  if (!its.asks || answer.id != its.last_question) return;  // cancelled meanwhile
  its.asks = false;
  const bool knows_of_index = answer.id > its.late_question || answer.index < its.index;
  if (!answer.error.code && knows_of_index && its.in_touch_since == never) its.in_touch_since = now();
  observer::conclusion heard = its.core.hear(std::move(answer), p.clock.local(now()));
  duration pause = heard.pause;
  if (heard.error.code) {  // the user is told, and asks again
    say([&] { return name(p) + ": gives up: " + heard.error.code.message(); });
    if (calm() || (!options_.errors && options_.request_faults == 0))
      object(guarantee::elections, name(p) + " gives up: " + heard.error.code.message());
    pause = random_.between(0ms, 300ms);
  }
  if (heard.is_news) {
    its.core.told(heard.leader);
    if (sabotage_.tells(its.has_told)) check_news(p, heard.leader);
    pause = random_.chance(70) ? duration(0) : random_.between(0ms, 300ms);
  }
  in(pause, [this, &p] { when_running(p, [this, &p] { ask_who_leads(p); }); });
}

// ---- G12

/// Notes the state of the key. It is called after every step.
void world::note_office() {
  const std::uint64_t index = consul_.store.raft_index();
  if (index == std::exchange(key_index_, index)) return;
  const auto key = consul_.get(world_lock_key);
  term seen{leading_in(key)};
  if (seen.holder && seen.holder->session != in_office_) take_office(*seen.holder);
  if (key && !key_restored_) check_value(*key);
  if (seen.holder) {
    in_office_ = seen.holder->session;
    const std::string its = std::string(world_lock_key) + '/' + in_office_;
    const auto entry = consul_.get(its), acceptance = consul_.get(protocol::acceptance_of_entry(its));
    const bool has_accepted = acceptance && acceptance->session == in_office_;
    const std::optional<leading> before = terms_.back().leader();
    const bool was_sure = before && before->session == in_office_ && before->lock_index == seen.holder->lock_index;
    const bool is_provisional = entry && entry->session == in_office_ && protocol::is_provisional(entry->flags);
    seen.is_sure = was_sure || has_accepted || !is_provisional;
    seen.is_open = is_provisional && !has_accepted;
  }
  if (!key) in_office_.clear();
  if (seen == terms_.back()) return;
  const bool is_news = seen.leader() != terms_.back().leader();
  terms_.push_back(std::move(seen));
  if (is_news) term_since_ = now();
}

/// A new holder has taken the key, which now has the value of its campaign. A session may take the key twice: after an
/// operator has deleted the key, or if its process released the key and could not end the session at once.
void world::take_office(const leading& seen) {
  key_restored_ = false;
  const auto its = candidates_.find(seen.session);
  if (its == candidates_.end()) return;
  process& p = *its->second;
  p.was_granted_again = std::exchange(p.was_granted, true);
  if (p.was_granted_again) p.undecided.emplace(name(p), 0);
}

/// G12: the key has a value of the process that has locked it, or was the last to do so. The lock index, by which
/// others name the term, stays the same during the term.
void world::check_value(const kv_entry& key) {
  const std::string& session = key.session.empty() ? in_office_ : key.session;
  if (session.empty()) return;
  const auto its = candidates_.find(session);
  // A process that frees the key of a dead leader leaves the value of the leader's campaign in it.
  const bool is_freed = key.session.empty() && its != candidates_.end() && !its->second->alive &&
                        its->second->has_run_directory && key.value == name(*its->second);
  const bool right = its == candidates_.end() ? key.value == "go"
                                              : is_freed || key.value == its->second->proclaimed ||
                                                    its->second->undecided.contains(key.value);
  if (!right) object(guarantee::elections, "the key says \"" + key.value + "\", which its leader has not proclaimed");
  const std::optional<leading>& before = terms_.back().holder;
  if (before && before->session == key.session && before->lock_index != key.lock_index)
    object(guarantee::elections, "a term has changed its name");
}

/// G12: the reported state has been in the key since the observer asked, and is not older than the state that it
/// reported before. A reported leader has been sure since then.
void world::check_news(process& p, const std::optional<leading>& told) {
  spectator& its = *p.watching;
  ++result_.news;
  its.has_told = true;
  its.told_at = std::max(its.told_at, its.asked_at);
  its.told = told;
  const auto is_told = [&](const term& each) { return told ? each.holder == told : each.is_open || !each.leader(); };
  while (its.told_at != terms_.size() && !is_told(terms_[its.told_at])) ++its.told_at;
  say([&] { return name(p) + ": " + (told ? "\"" + told->value + "\" leads" : "nobody leads"); });
  if (its.told_at == terms_.size())
    object(guarantee::elections, name(p) + " tells what has not stood in the key since it asked");
  const auto is_sure = [&](const term& each) {
    const std::optional<leading> its_leader = each.leader();
    return its_leader && its_leader->session == told->session && its_leader->lock_index == told->lock_index;
  };
  if (told && !key_restored_ &&
      std::none_of(terms_.begin() + static_cast<std::ptrdiff_t>(its.asked_at), terms_.end(), is_sure))
    object(guarantee::elections, name(p) + " names a leader that has not accepted");
}

/// Consul's index has fallen. An observer that asks with an index from before gets an answer when its wait is over. It
/// is in touch again as soon as it knows of the lower index.
void world::let_index_fall() {
  key_index_ = seen_at_ = 0;
  observers_late_until_ = now() + options_.watch_wait;
  for (const auto& p : processes_) {
    if (!p->watching) continue;
    p->watching->late_question = p->watching->last_question;
    p->watching->in_touch_since = never;
  }
}

/// G12: an observer reports a state that lasts, if it has heard from Consul since the last disturbance. To hear from
/// Consul does not take long.
void world::check_observers() {
  note_office();
  for (const auto& p : processes_) {
    if (!p->watching) continue;
    spectator& its = *p->watching;
    if (!p->alive || is_disturbed(*p)) {
      p->clear_since = its.in_touch_since = never;
      continue;
    }
    if (p->clear_since == never) p->clear_since = now();
    // By then a request from before has timed out, and the pause after it is over.
    const bool should_be = now() > std::max(p->clear_since, observers_late_until_) + 3s;
    const bool is = its.in_touch_since != never && now() - its.in_touch_since > 1s;
    const bool knows = its.has_told && (its.told == terms_.back().leader() || (terms_.back().is_open && !its.told));
    if ((is || should_be) && !knows && now() - term_since_ > 1s)
      object(guarantee::elections, name(*p) + " does not tell who leads");
  }
}

}  // namespace holdfast::test
