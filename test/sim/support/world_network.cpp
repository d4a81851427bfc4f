// SPDX-FileCopyrightText: The holdfast authors
// SPDX-License-Identifier: BSL-1.0

#include <algorithm>
#include <utility>

#include "runtime/convert.hpp"
#include "sim/support/world_impl.hpp"

namespace holdfast::test {

namespace {

failure failed(const error_code& why) { return {why, {why.message(), {}, {}, {}}}; }

/// All errors that a request may end with, apart from time limits and failed connections.
constexpr error all_errors[] = {error::permission_denied, error::too_large,      error::too_many_requests,
                                error::too_busy,          error::bad_request,    error::server_error,
                                error::not_consul,        error::reply_too_large};

}  // namespace

error_code world::some_error() { return make_error_code(all_errors[random_.below(std::size(all_errors))]); }

/// All requests of a process fail: its token is revoked, Consul takes no more requests from it, or something other than
/// Consul answers.
void world::answer_with_errors() {
  again_later(&world::answer_with_errors);
  process* const p = some_process();
  if (!p || now() < p->errors_until) return;
  const duration length = std::min<duration>(random_.between(0s, 2 * options_.ttl), faults_end_ - now());
  p->answered_with = some_error();
  shade(*p, length, "is answered: " + p->answered_with.message());
  p->errors_until = now() + length;
  fail_watches(p, 20ms, p->answered_with);
}

world::fate world::draw_fate(const process& p) {
  fate f;
  f.there = random_.between(50us, latency_max(p));
  f.back = random_.between(50us, latency_max(p));
  const auto fails = [&](duration after) {
    ++result_.faults;
    f.answered = f.applied = false;
    f.why = make_error_code(error::timed_out);
    f.back = after;
  };
  const auto errs = [&](const error_code& why) {
    fails(f.back);
    f.why = why;
    f.not_sent = why == condition::not_applied;
    f.applied = !f.not_sent && random_.chance(50);
  };
  if (now() < p.cut_off_until) {
    fails(timeout_ - f.there);
    return f;
  }
  if (now() < p.refused_until) {
    fails(f.back);
    f.not_sent = random_.chance(70);
    if (f.not_sent) f.why = make_error_code(error::unreachable);
    return f;
  }
  if (now() < p.errors_until) {
    errs(p.answered_with);
    return f;
  }
  if (now() + f.there < no_leader_until_) {
    fails(f.back);
    if (random_.chance(30)) f.late = no_leader_until_ - now() + random_.between(0s, options_.ttl);
    return f;
  }
  if (!faults() || !random_.chance(options_.request_faults)) return f;
  fails(random_.chance(50) ? f.back : timeout_ - f.there);
  switch (random_.below(7)) {
    case 0:  // the reply is lost
      f.applied = true;
      break;
    case 1:
      break;
    case 2:
      f.late = f.there + f.back + random_.between(0s, 2 * options_.ttl);
      break;
    case 3:
      f.not_sent = true;
      f.why = make_error_code(error::unreachable);
      break;
    case 4:
      f.applied = f.answered = true;
      f.again = f.there + f.back / 2;
      f.answers_second = random_.chance(50);
      if (options_.locks != 0 && random_.chance(50)) f.again += random_.between(0s, 2 * options_.ttl);
      break;
    case 5:  // the reply comes just in time
      f.applied = f.answered = true;
      f.back = random_.between(f.back, timeout_ - f.there);
      break;
    case 6:
      errs(some_error());
      break;
  }
  return f;
}

std::string world::text(const fate& f) {
  return f.answers_second  ? " (twice, and the second is answered)"
         : f.again.count() ? " (twice)"
         : f.answered      ? ""
         : f.not_sent      ? " (" + f.why.message() + ")"
         : f.late.count()  ? " (late)"
         : f.applied       ? " (reply lost)"
                           : " (request lost)";
}

void world::perform(process& p, action::create_session& a) {
  note_request(p);
  const fate f = draw_fate(p);
  say([&] { return name(p) + ": create session" + text(f); });
  in(f.there, [this, &p, f, a] {
    const std::string id = f.applied ? create_session(p) : "";
    const auto refusal = make_error_code(options_.health_checks ? error::server_error : error::missing_node);
    in(f.back, [this, &p, f, a, id, refusal] {
      if (!is_answered(p, f)) return answer_create(p, a, {}, failed(why_not(f)));
      answer_create(p, a, id, id.empty() ? failure{refusal, {}} : failure{});
    });
  });
}

void world::answer_create(process& p, const action::create_session& a, const std::string& id, failure why) {
  say([&] { return name(p) + ": session " + (id.empty() ? why.code.message() : id); });
  if (!id.empty()) p.sessions.insert(id);
  if (!id.empty() && p.alive && p.has_run_directory) p.files.insert(id);
  if (!id.empty() && options_.election) candidates_.emplace(id, &p);
  deliver(p, event::session_created{a.member, id, std::move(why)});
}

void world::perform(process& p, action::register_node&) {
  note_request(p);
  const fate f = draw_fate(p);
  say([&] { return name(p) + ": register the node" + text(f); });
  in(f.there, [this, &p, f] {
    if (f.applied) consul_.register_node(default_session_node, now());
    in(f.back,
       [this, &p, f] { deliver(p, event::node_registered{is_answered(p, f) ? failure{} : failed(why_not(f))}); });
  });
}

void world::perform(process& p, action::renew_session& a) {
  // The clock of the process may be slow, and an answer gets a moment more.
  if (p.asked_at != never && now() - std::max(p.asked_at, p.runs_since) > options_.alive_within * 6 / 5 + 10ms)
    object(guarantee::losses, name(p) + " renews for an application that hangs");
  note_request(p);
  const fate f = draw_fate(p);
  in(f.there, [this, &p, f, a] {
    bool there = f.applied && renew_session(a.session);
    // The new leader has not caught up yet.
    if (there && now() < denies_until_ && random_.chance(30)) there = false;
    in(f.back, [this, &p, f, a, there] {
      error_code ec;
      if (!is_answered(p, f))
        ec = why_not(f);
      else if (!there)
        ec = error::invalid_session;
      if (ec) say([&] { return name(p) + ": renewal of " + a.session + " fails"; });
      when_running(p, [this, &p, a, ec] {
        if (!ec) p.just_renewed = a.session;
        step(p, event::session_renewed{a.member, runtime::renewal(ec)});
        p.just_renewed.clear();
      });
    });
  });
  // The reply waits until the previous lease is over. Its content is true, but it comes too late.
  if (options_.pauses && !p.paused && !p.deaf && now() < faults_end_ && random_.chance(3))
    pause(p, random_.between(options_.ttl / 2, options_.ttl));
}

void world::perform(process& p, action::destroy_session& a) {
  note_request(p);
  if (!p.sessions.contains(a.session)) {  // the session of a process that is gone
    in(draw_fate(p).there, [this, &p, a] {
      consul_.destroy_session(a.session, now());
      remove_file(a.session);
      deliver(p, event::session_destroyed{a.session, true});
    });
    return;
  }
  unwanted_.insert(a.session);
  // For all that the process knows, the node of the session may have ended it, unless the process can see that by the
  // node. If the session was renewed a moment ago, or the pool closes, the process does not care.
  const bool is_seen = p.may_read_nodes && p.entered.contains(a.session);
  if (p.just_renewed != a.session && !p.closing && !is_seen)
    bereft_until_ = std::max(bereft_until_, now() + options_.ttl + options_.ttl / 10);
  if (consul_.has_session(a.session)) given_up_.insert(a.session);
  const fate f = draw_fate(p);
  say([&] { return name(p) + ": destroy " + a.session + text(f); });
  in(f.there, [this, &p, f, a] {
    if (f.applied) consul_.destroy_session(a.session, now());
    in(f.back, [this, &p, f, a] {
      if (is_answered(p, f) && p.alive) p.files.erase(a.session);
      deliver(p, event::session_destroyed{a.session, is_answered(p, f)});
    });
  });
}

void world::perform(process& p, action::send_txn& a) {
  if (options_.one_by_one) release_one(p);
  send(p, a.id, std::move(a.operations), [this, &p](event::txn_done done) { step(p, std::move(done)); });
}

void world::send(process& p, request_id id, std::vector<kv_operation> operations,
                 std::function<void(event::txn_done)> then) {
  note_request(p);
  check_size(operations);
  p.written.push_back(now());
  const fate f = draw_fate(p);
  say([&] { return name(p) + ": txn " + std::to_string(id) + text(f) + describe(operations); });
  for (const duration extra : {f.late, f.answers_second ? duration(0) : f.again})
    if (extra != duration(0))
      in(extra, [this, &p, operations, id] {
        const bool applied = transact(&p, operations).applied;
        say([&] { return name(p) + ": txn " + std::to_string(id) + " again: " + (applied ? "applied" : "refused"); });
      });
  in(f.there, [this, &p, f, id, operations = std::move(operations), then = std::move(then)] {
    consul::txn_reply reply;
    if (f.applied) reply = transact(&p, operations);
    if (f.answers_second) reply = transact(&p, operations);
    in(f.back, [this, &p, f, id, reply = std::move(reply), operations, then] {
      const bool answered = is_answered(p, f);
      const failure why = answered ? failure() : failed(why_not(f));
      event::txn_done done = runtime::txn_done(id, why.code, answered ? reply : consul::txn_reply(), why.details);
      say([&] {
        static const char* const words[] = {"applied", "refused", "not sent", "unknown"};
        return name(p) + ": txn " + std::to_string(id) + ": " + words[static_cast<int>(done.outcome)] +
               describe(done.refusals);
      });
      if (answered && reply.applied)
        for (const kv_operation& op : operations)
          if (op.verb == kv_verb::lock) p.entered.insert(op.session);
      when_running(p, [done = std::move(done), then] { then(done); });
    });
  });
}

void world::look_at_key(process& p, std::function<void(event::key_watched)> then) {
  note_request(p);
  const fate f = draw_fate(p);
  in(f.there, [this, &p, f, then = std::move(then)] {
    core_event answer = consul_.key_seen(0, world_lock_key);
    hide(p, answer, world_lock_key);
    in(f.back, [this, &p, f, seen = std::get<event::key_watched>(answer), then] {
      const bool heard = f.applied && is_answered(p, f);
      when_running(p, [seen = heard ? seen : event::key_watched{0, {}, failed(why_not(f))}, then] { then(seen); });
    });
  });
}

consul::txn_reply world::transact(const process* sender, const std::vector<kv_operation>& operations) {
  if (operations.front().key != world_lock_key) {
    if (options_.locks != 0) return transact_of_a_set(sender, operations);
    return consul_.transact(operations, now());
  }
  look();
  const snapshot before = std::exchange(seen_, {});
  seen_at_ = 0;
  consul::txn_reply reply = consul_.transact(operations, now());
  if (reply.applied) {
    excuse_newcomer(sender, before);
    check_record(sender, before);
    check_order(sender, before);
  }
  return reply;
}

std::string world::describe(const std::vector<event::refused_operation>& refusals) {
  std::string text;
  for (const event::refused_operation& each : refusals) {
    static const char* const words[] = {"conflict", "lock delay", "invalid session", "permission denied", "other"};
    text += ", operation " + std::to_string(each.operation) + ": " + words[static_cast<int>(each.reason)];
  }
  return text;
}

std::string world::describe(const std::vector<kv_operation>& operations) {
  std::string text;
  for (const kv_operation& op : operations) {
    text += " " + std::string(to_string(op.verb)) + " " + op.key.substr(world_prefix.size());
    if (op.verb == kv_verb::cas || op.verb == kv_verb::check_index) text += "@" + std::to_string(op.index);
    if (op.key == world_lock_key) text += " " + (op.session.empty() ? op.value : op.session);
  }
  return text;
}

void world::perform(process& p, action::list_prefix& a) {
  const std::string_view prefix = options_.mutex ? world_lock_key : world_prefix;
  query(p, a.id, {testing::subject::kind::prefix, std::string(prefix)}, a.index, a.wait);
}

void world::perform(process& p, action::watch_key& a) {
  query(p, a.id, {testing::subject::kind::key, a.key}, a.index, a.wait);
}

void world::perform(process& p, action::read_node& a) {
  note_request(p);
  const fate f = draw_fate(p);
  say([&] { return name(p) + ": look " + std::to_string(a.id) + " at node " + a.node + text(f); });
  in(f.there, [this, &p, f, a] {
    event::node_seen seen = consul_.node_seen(a.id, a.node);
    if (!p.may_read_nodes) seen.create_index = 0;
    in(f.back, [this, &p, f, a, seen] {
      const bool heard = f.applied && is_answered(p, f);
      // The process does not repeat a read that was refused. So it cannot know whether its node has gone.
      if (!heard && is_final(why_not(f)))
        bereft_until_ = std::max(bereft_until_, now() + options_.ttl + options_.ttl / 10);
      deliver(p, heard ? seen : event::node_seen{a.id, 0, failed(why_not(f))});
    });
  });
}

/// The answer may be on its way. Otherwise the query ends as the client ends a cancelled query.
void world::perform(process& p, action::stop_watch& a) {
  const auto found = find_watch(p, a.id);
  if (!found) return;
  const failure cancelled{error_code(boost::system::errc::operation_canceled, boost::system::system_category()), {}};
  core_event e = failure_of(a.id, watches_[*found].what);
  if (auto* const listed = std::get_if<event::prefix_listed>(&e)) listed->error = cancelled;
  if (auto* const key = std::get_if<event::key_watched>(&e)) key->error = cancelled;
  end_watch(*found);
  in(0s, [this, &p, e = std::move(e)] { deliver(p, e); });
}

void world::query(process& p, request_id id, testing::subject what, std::uint64_t index, duration wait) {
  note_request(p);
  if (index == 0 && what.what == testing::subject::kind::prefix) note_read(p);
  fate f = draw_fate(p);
  f.back += std::chrono::microseconds(30) * options_.residents;  // a long listing takes its time
  const bool is_cut = index != 0 && options_.agent_wait_max != 0s && options_.agent_wait_max < wait;
  if (is_cut) wait = options_.agent_wait_max;
  say([&] {
    return name(p) + ": look " + std::to_string(id) + " at " + what.name + " from " + std::to_string(index) + text(f);
  });
  if (!f.applied) {
    in(f.there + f.back, [this, &p, id, what, why = why_not(f)] { deliver(p, failure_of(id, what, why)); });
    return;
  }
  const duration told = is_cut && options_.tells_wait != 0 ? wait : duration(0);
  in(f.there, [this, &p, f, id, what, index, wait, told] {
    watches_.push_back({&p, id, what, index, now() + wait, f.back, f.answered, why_not(f), told});
  });
  if (index == 0) return;
  in(f.there + wait, [] {});  // so that the watch is checked at that time
  if (faults() && random_.chance(options_.request_faults / 2))
    in(f.there + random_.between(0s, 1s), [this, &p, id, what] {
      const auto found = find_watch(p, id);
      if (!found) return;
      end_watch(*found);
      deliver(p, failure_of(id, what));
    });
}

/// Returns the error that the sender of the request gets.
error_code world::why_not(const fate& f) {
  return f.answered || !f.why ? make_error_code(error::timed_out)
                              : f.why;  // if it was answered, the network has failed meanwhile
}

core_event world::failure_of(request_id id, const testing::subject& what, const error_code& why) {
  if (what.what == testing::subject::kind::key) return event::key_watched{id, {}, failed(why)};
  return event::prefix_listed{id, {}, 0, failed(why)};
}

core_event world::answer_to(const watch& w) const {
  core_event answer = consul_.listed(w.id, w.what.name);
  if (w.what.what == testing::subject::kind::key) {
    event::key_watched seen = consul_.key_seen(w.id, w.what.name);
    seen.wait = w.wait;
    answer = std::move(seen);
  }
  hide(*w.owner, answer, w.what.name);
  return answer;
}

void world::hide(const process& from, core_event& answer, std::string_view name) const {
  if (now() >= from.hidden_until) return;
  if (from.by_turns && (from.turn = !from.turn)) return;
  if (auto* const key = std::get_if<event::key_watched>(&answer)) {
    const auto its =
        std::find_if(from.shown.begin(), from.shown.end(), [&](const kv_entry& each) { return each.key == name; });
    key->pair.reset();
    if (its != from.shown.end()) key->pair = *its;
  } else if (auto* const all = std::get_if<event::prefix_listed>(&answer)) {
    all->listing.clear();
    for (const kv_entry& each : from.shown)
      if (each.key.starts_with(name)) all->listing.push_back(each);
  }
}

void world::answer_watches() {
  for (const testing::store::watch_id fired : consul_.store.take_fired())
    for (watch& w : watches_)
      if (w.waits == fired) w.waits.reset();
  for (std::size_t i = 0; i < watches_.size();) {
    watch& w = watches_[i];
    // The watch is new or was woken. As in an agent, it waits again if the index is not past the requested one.
    if (!w.waits && w.index != 0 && consul_.store.index_of(w.what) <= w.index) w.waits = consul_.store.watch(w.what);
    if ((w.waits && now() < w.until) || now() < w.owner->cut_off_until) {
      ++i;
      continue;
    }
    answer_watch(i);
  }
}

void world::answer_watch(std::size_t i) {
  const watch& w = watches_[i];
  if (w.owner->watching) note_office();  // the current state, which may be gone after this step
  say([&] { return name(*w.owner) + ": look " + std::to_string(w.id) + " is answered"; });
  const bool answered = w.answered || !faults();  // it may have been sent long ago, when there were faults
  core_event e = answered ? answer_to(w) : failure_of(w.id, w.what, w.why);
  if (!w.owner->watching) note_answer(*w.owner, e);
  if (now() < w.owner->hidden_until) w.owner->misled_until = std::max(w.owner->misled_until, now() + w.back);
  in(w.back, [this, owner = w.owner, e = std::move(e)] { deliver(*owner, e); });
  end_watch(i);
}

std::optional<std::size_t> world::find_watch(const process& p, request_id id) const {
  const auto found =
      std::find_if(watches_.begin(), watches_.end(), [&](const watch& w) { return w.owner == &p && w.id == id; });
  if (found == watches_.end()) return std::nullopt;
  return static_cast<std::size_t>(found - watches_.begin());
}

void world::end_watch(std::size_t i) {
  if (watches_[i].waits) consul_.store.unwatch(*watches_[i].waits);
  watches_.erase(watches_.begin() + static_cast<std::ptrdiff_t>(i));
}

/// Makes the watches of one process, or of all processes, fail.
void world::fail_watches(const process* of, duration within, const error_code& why) {
  for (std::size_t i = watches_.size(); i-- != 0;) {
    const watch& w = watches_[i];
    if (of && w.owner != of) continue;
    in(random_.between(0s, within), [this, owner = w.owner, e = failure_of(w.id, w.what, why)] { deliver(*owner, e); });
    end_watch(i);
  }
}

/// Returns an empty string if Consul refuses the session: the node does not exist, or its health check fails.
std::string world::create_session(const process& p) {
  if (now() < p.ill_until) return {};
  if (options_.health_checks) consul_.register_node(node_of(p), now());  // the agent registers its own node
  std::string id = consul_.create_session(options_.ttl, now(), options_.lock_delay, node_of(p));
  if (id.empty()) return id;
  const duration patience = random_.chance(50) ? duration(0) : random_.between(0s, 2 * options_.ttl);
  const duration life = options_.ttl + patience;
  if (patience < options_.ttl) {
    leases_.emplace(id, lease{life, now() + life});
    next_end_ = std::min(next_end_, now() + life);
  }
  return id;
}

bool world::renew_session(const std::string& id) {
  if (!consul_.renew_session(id, now())) return false;
  if (const auto its = leases_.find(id); its != leases_.end()) its->second.ends = now() + its->second.life;
  return true;
}

void world::end_sessions() {
  consul_.advance(now());
  if (now() < next_end_) return;
  next_end_ = never;
  std::erase_if(leases_, [this](const auto& each) {
    const bool over = each.second.ends <= now();
    if (over) consul_.destroy_session(each.first, now());
    if (!over) next_end_ = std::min(next_end_, each.second.ends);
    return over;
  });
}

}  // namespace holdfast::test
