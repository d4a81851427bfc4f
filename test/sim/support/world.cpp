#include "sim/support/world.hpp"

#include <algorithm>
#include <deque>
#include <functional>
#include <iostream>
#include <map>
#include <memory>
#include <optional>
#include <random>
#include <set>
#include <vector>

#include "protocol/lock_record.hpp"
#include "protocol/pool.hpp"
#include "runtime/convert.hpp"
#include "support/core_consul.hpp"
#include "testing/defect.hpp"

namespace holdfast::test {

using namespace protocol;
using namespace std::chrono_literals;

namespace {

constexpr std::string_view world_prefix = "service/world/";
constexpr std::string_view world_lock_key = "service/world/.lock";

class dice {
public:
  explicit dice(std::uint64_t seed) : engine_(seed * 0x9e3779b97f4a7c15 + 1) {}
  std::uint64_t below(std::uint64_t n) { return engine_() % n; }
  bool chance(unsigned percent) { return below(100) < percent; }
  duration between(duration low, duration high) {
    return low + duration(static_cast<duration::rep>(below(static_cast<std::uint64_t>((high - low).count()) + 1)));
  }

private:
  std::mt19937_64 engine_;
};

/// What kind of world a seed makes.
struct world_options {
  std::uint32_t limit;
  int processes;
  int users;  ///< in each process
  duration ttl = 2s;
  duration latency_max;
  unsigned request_faults;  ///< percent
  bool crashes;
  bool pauses;
  bool operators;
  int go_contenders;
  duration tenure;
  duration idle;
  duration watch_wait;
  std::size_t watch_all_max;
  duration own_watch;
  duration linger;

  explicit world_options(dice& random)
      : limit(static_cast<std::uint32_t>(1 + random.below(3))),
        processes(static_cast<int>(random.chance(75) ? 1 + random.below(3) : 4 + random.below(5))),
        users(static_cast<int>(1 + random.below(3))),
        latency_max(random.chance(70) ? 4ms : 60ms),
        request_faults(random.chance(40) ? 0 : static_cast<unsigned>(random.below(25))),
        crashes(random.chance(35)),
        pauses(random.chance(35)),
        operators(random.chance(15)),
        go_contenders(random.chance(25) ? static_cast<int>(1 + random.below(2)) : 0),
        tenure(random.chance(50) ? 100ms : 0ms),
        idle(random.chance(70) ? 0ms : 200ms),
        // A watch that lasts hides no lost wake-up; a short one is the usual safety net.
        watch_wait(random.chance(60) ? 600s : 1s),
        watch_all_max(random.chance(50) ? 0 : 4),
        own_watch(random.chance(70) ? 100ms : 0ms),
        linger(random.chance(70) ? 5ms : 50ms) {}

  /// Where a seeded bug shows soonest.
  void provoke(seeded_bug bug) {
    processes = 3;
    users = 2;
    operators = false;
    go_contenders = 0;
    watch_wait = 600s;
    limit = 1;
    const bool needs_losses = bug == seeded_bug::lease_counted_late || bug == seeded_bug::unknown_taken_for_refused;
    request_faults = needs_losses ? 35 : 0;
    crashes = bug == seeded_bug::no_prune || bug == seeded_bug::watch_misses_deletions;
    pauses = bug == seeded_bug::lease_counted_late;
  }
};

/// Checks what the users see, and nothing else: written apart from everything that makes it happen.
class referee {
public:
  explicit referee(const world_options& options) : options_(options) {}

  const std::string& violation() const { return violation_; }
  void object(const std::string& what) {
    if (violation_.empty()) violation_ = what;
  }

  void asked(int process, ticket t) {
    if (!waiting_[process].insert(t).second) object("a ticket is used twice");
  }
  void answered(int process, ticket t) {
    if (waiting_[process].erase(t) == 0) object("an acquire was answered that does not wait");
  }
  void granted(int process, ticket t, slot_id slot, std::uint32_t count, fencing_token token, time_point deadline) {
    const auto& queue = waiting_[process];
    if (!queue.empty() && *queue.begin() < t) object("a later waiter of the same process overtook an earlier one");
    answered(process, t);
    if (!held_[process].emplace(slot, holding{count, deadline}).second) object("a slot id was granted twice");
    std::uint32_t here = 0;
    for (const auto& [id, each] : held_[process]) here += each.count;
    if (here > options_.limit) object("one process has more slots than there are");
    if (options_.limit == 1 && !options_.operators) {
      if (token <= last_token_) object("the fencing token did not grow: " + token.to_string());
      last_token_ = token;
    }
  }
  void updated(int process, slot_id slot, time_point deadline) {
    const auto at = held_[process].find(slot);
    if (at == held_[process].end()) return object("news of a slot that nobody holds");
    if (deadline < at->second.deadline) object("a lease became shorter");
    at->second.deadline = deadline;
  }
  /// `by_user`: a release may cross the loss of its slot.
  void gone(int process, slot_id slot, bool by_user) {
    if (held_[process].erase(slot) == 0 && !by_user) object("a slot was lost that nobody holds");
  }
  void go_holds(int contender, bool holds) { holds ? (void)go_.insert(contender) : (void)go_.erase(contender); }
  void crashed(int process) {
    waiting_.erase(process);
    held_.erase(process);
  }

  void check_believers(time_point now) {
    if (options_.operators) return;  // whoever takes a holder out of the record does not wait for its users
    std::size_t believers = go_.size();
    for (const auto& [process, slots] : held_)
      for (const auto& [id, each] : slots)
        if (now < each.deadline) believers += each.count;
    if (believers > options_.limit)
      object(std::to_string(believers) + " believe that they hold, of " + std::to_string(options_.limit));
  }
  bool anyone_waits(int process) const {
    const auto at = waiting_.find(process);
    return at != waiting_.end() && !at->second.empty();
  }
  bool holds(int process, slot_id slot) { return held_[process].contains(slot); }
  bool holds_any(int process) { return !held_[process].empty(); }

private:
  struct holding {
    std::uint32_t count;
    time_point deadline;
  };
  const world_options& options_;
  std::string violation_;
  std::map<int, std::set<ticket>> waiting_;
  std::map<int, std::map<slot_id, holding>> held_;
  std::set<int> go_;
  fencing_token last_token_;
};

struct sim_process {
  int number = 0;
  std::unique_ptr<protocol::pool> pool;
  bool alive = true;
  bool paused = false;
  bool closing = false;
  std::optional<action::closed> closed;
  std::deque<std::function<void()>> inbox;  ///< what comes during a pause, for the pool and for its users
  std::set<std::string> sessions;           ///< all that it was ever told of
  time_point tick_at = never;
  std::uint64_t last_ticket = 0;
  struct request {
    std::uint32_t count;
    bool patient;
    int user;
  };
  std::map<ticket, request> requests;
  std::set<slot_id> releasing;
  std::deque<time_point> sent;  ///< of the last second
  std::deque<time_point> events;
};

/// HashiCorp's client, in short: one contender, which writes the record itself and never looks for itself in it.
struct go_contender {
  int number = 0;
  std::string session;
  enum { outside, waiting, holding, leaving } state = outside;
  bool abandoned = false;  ///< it queues, and never takes its slot
};

class world {
public:
  world(std::uint64_t seed, seeded_bug bug, bool trace)
      : random_(seed), options_(random_), bug_(bug), trace_(trace), referee_(options_) {
    if (bug != seeded_bug::none) options_.provoke(bug);
    if (bug == seeded_bug::watch_misses_deletions) consul_.store.break_rule(testing::defect::delete_moves_no_index);
    if (bug == seeded_bug::unguarded_record) consul_.store.break_rule(testing::defect::cas_ignores_index);
    say([&] {
      return "limit " + std::to_string(options_.limit) + ", processes " + std::to_string(options_.processes) +
             ", users " + std::to_string(options_.users) + ", faults " + std::to_string(options_.request_faults) + "%" +
             (options_.crashes ? ", crashes" : "") + (options_.pauses ? ", pauses" : "") +
             (options_.operators ? ", operators" : "") + ", go " + std::to_string(options_.go_contenders);
    });
  }

  world_result run() {
    for (int i = 0; i < options_.processes; ++i) start_process();
    for (int i = 0; i < options_.go_contenders; ++i) start_go(i);
    if (options_.crashes) at(random_.between(500ms, 3s), [this] { crash(); });
    if (options_.pauses) at(random_.between(500ms, 3s), [this] { pause(); });
    if (options_.operators) at(random_.between(500ms, 3s), [this] { meddle(); });

    run_until(faults_end_);
    say([] { return "-- faults end"; });
    run_until(calm_);
    say([] { return "-- calm"; });
    run_until(last_call_);
    say([] { return "-- nobody asks for more"; });
    run_until(drained_);
    if (referee_.violation().empty()) check_drained();
    if (referee_.violation().empty()) {
      for (auto& p : processes_) {
        p->closing = true;
        deliver(*p, event::close{random_.chance(50)});
      }
      run_until(drained_ + 1s);
      check_closed();
    }
    result_.violation = referee_.violation();
    if (!result_.violation.empty()) result_.violation += ", at " + clock_text();
    return result_;
  }

private:
  // --- time

  using job = std::function<void()>;

  time_point now() const { return now_; }
  void at(duration delay, job what) { jobs_.emplace(std::make_pair(now_ + delay, ++last_job_), std::move(what)); }
  void run_until(time_point end) {
    while (referee_.violation().empty() && !jobs_.empty() && jobs_.begin()->first.first <= end) {
      const auto first = jobs_.begin();
      now_ = first->first.first;
      const job next = std::move(first->second);
      jobs_.erase(first);
      next();
      renew_go_contenders();
      end_sessions();
      answer_watches();
      referee_.check_believers(now_);
      check_use();
    }
    if (referee_.violation().empty()) now_ = std::max(now_, end);
  }
  std::string clock_text() const { return std::to_string((now_ - time_point{}) / 1us) + " us"; }
  template <class Text>
  void say(Text text) const {
    if (!trace_) return;
    std::string line = text();
    for (std::size_t at; (at = line.find(core_consul::session_tail)) != std::string::npos;)
      line.erase(at, core_consul::session_tail.size());
    std::cout << clock_text() << "  " << line << "\n";
  }
  bool faults() const { return now_ < faults_end_; }

  // --- processes and their users

  void start_process() {
    auto p = std::make_unique<sim_process>();
    p->number = static_cast<int>(processes_.size());
    pool_options o;
    o.prefix = world_prefix;
    o.lock_key = world_lock_key;
    o.description = "process " + std::to_string(p->number);
    o.limit = options_.limit;
    o.ttl = options_.ttl;
    o.lease_margin = bug_ == seeded_bug::lease_counted_late ? -timeout_ : options_.ttl / 10;
    o.tenure = options_.tenure;
    o.idle = options_.idle;
    o.outage_grace = options_.request_faults != 0 && random_.chance(50) ? options_.ttl : 0s;
    o.give_up_after = 1s + 20 * options_.latency_max;
    o.patience = 100ms;
    o.session_idle = 4s;
    o.watch_wait = options_.watch_wait;
    o.watch_all_max = options_.watch_all_max;
    o.own_watch = options_.own_watch;
    o.linger = options_.linger;
    p->pool = std::make_unique<protocol::pool>(o, random_.below(1u << 30));
    for (int user = 0; user < options_.users; ++user) again(*p, user);
    processes_.push_back(std::move(p));
  }

  void again(sim_process& p, int user) {
    at(random_.chance(30) ? duration(0) : random_.between(0s, 1s),
       [this, &p, user] { when_running(p, [this, &p, user] { ask(p, user); }); });
  }

  void ask(sim_process& p, int user) {
    if (!p.alive || now_ >= last_call_) return;
    event::acquire wish{ticket{++p.last_ticket}};
    if (random_.chance(20)) wish.count = static_cast<std::uint32_t>(1 + random_.below(options_.limit));
    if (random_.chance(10)) wish.once = true;
    if (!wish.once && random_.chance(15)) wish.deadline = now_ + random_.between(0ms, 500ms);
    const bool patient = !wish.once && wish.deadline == never;
    say([&] {
      return name(p) + "acquire " + number(wish.ticket) + " x" + std::to_string(wish.count) +
             (wish.once ? " once" : "") + (wish.deadline != never ? " with a deadline" : "");
    });
    p.requests[wish.ticket] = {wish.count, patient, user};
    referee_.asked(p.number, wish.ticket);
    if (random_.chance(faults() ? 15 : 5))
      at(random_.between(0ms, 200ms),
         [this, &p, t = wish.ticket] { when_running(p, [this, &p, t] { cancel(p, t); }); });
    deliver(p, wish);
  }

  void cancel(sim_process& p, ticket t) {
    const auto wish = p.requests.find(t);
    if (wish == p.requests.end()) return;
    say([&] { return name(p) + "cancel " + number(t); });
    if (bug_ == seeded_bug::grant_dropped_after_cancel) {
      // The user is gone at once; what the pool answers goes nowhere.
      const int user = wish->second.user;
      p.requests.erase(wish);
      referee_.answered(p.number, t);
      at(random_.between(0ms, 5ms), [this, &p, t] { deliver(p, event::cancel{t}); });
      return again(p, user);
    }
    deliver(p, event::cancel{t});
  }

  void release(sim_process& p, slot_id slot, int user) {
    if (referee_.holds(p.number, slot)) {
      say([&] { return name(p) + "release " + number(slot); });
      referee_.gone(p.number, slot, true);
      p.releasing.insert(slot);
      at(options_.ttl + 4s, [this, &p, slot] {
        when_running(p, [this, &p, slot] {
          if (p.releasing.contains(slot)) referee_.object("a release was never answered");
        });
      });
      deliver(p, event::release{slot});
    }
    again(p, user);
  }

  void when_running(sim_process& p, job what) {
    if (!p.alive) return;
    if (p.paused) return p.inbox.push_back(std::move(what));
    what();
  }

  void deliver(sim_process& p, pool_event e) {
    when_running(p, [this, &p, e = std::move(e)] { step(p, e); });
  }

  void step(sim_process& p, pool_event e) {
    ++result_.steps;
    pool_actions out;
    if (!std::holds_alternative<event::tick>(e)) note_event(p);
    p.pool->step(std::move(e), now_, out);
    for (pool_action& each : out) std::visit([&](auto& concrete) { perform(p, concrete); }, each);
    if (p.pool->wake() <= now_) referee_.object("the pool asks to be woken in the past");
    if (p.pool->wake() != never && p.pool->wake() < p.tick_at) {
      p.tick_at = p.pool->wake();
      at(p.tick_at - now_, [this, &p, due = p.tick_at] {
        if (!p.alive || p.paused || p.tick_at != due) return;
        p.tick_at = never;
        step(p, event::tick{});
      });
    }
  }

  // --- what pools want done

  void perform(sim_process& p, action::grant& a) {
    ++result_.grants;
    if (bug_ == seeded_bug::overtaking && p.requests.contains(a.ticket))
      for (const auto& [later, wish] : p.requests)
        if (later > a.ticket && wish.count == p.requests.at(a.ticket).count) a.ticket = later;
    say([&] {
      return name(p) + "grant " + number(a.ticket) + " slot " + number(a.slot) + " token " + a.token.to_string();
    });
    const auto wish = p.requests.find(a.ticket);
    if (wish == p.requests.end()) {
      if (bug_ != seeded_bug::grant_dropped_after_cancel) referee_.object("a grant that nobody asked for");
      dropped_.insert({p.number, a.slot});
      return;
    }
    const sim_process::request asked = wish->second;
    p.requests.erase(wish);
    referee_.granted(p.number, a.ticket, a.slot, asked.count, a.token, a.deadline);
    if (a.deadline <= now_) referee_.object("granted with a lease that is over");
    const duration hold = random_.chance(80)   ? random_.between(0ms, 60ms)
                          : random_.chance(80) ? random_.between(0ms, 400ms)
                                               : random_.between(0ms, hold_max_);
    at(hold, [this, &p, slot = a.slot, user = asked.user] {
      when_running(p, [this, &p, slot, user] { release(p, slot, user); });
    });
  }
  void perform(sim_process& p, action::deny& a) {
    say([&] { return name(p) + "deny " + number(a.ticket); });
    if (const auto wish = p.requests.find(a.ticket); wish != p.requests.end() && wish->second.patient)
      referee_.object("a patient waiter was denied");
    answer(p, a.ticket);
  }
  void perform(sim_process& p, action::fail& a) {
    say([&] { return name(p) + "fail " + number(a.ticket) + " " + a.error.code.message(); });
    const bool cancelled = a.error.code == boost::system::errc::operation_canceled;
    if (!cancelled && !options_.operators && (calm() || options_.request_faults == 0))
      referee_.object("an acquire failed though nothing was wrong: " + a.error.details.to_string());
    answer(p, a.ticket);
  }
  void answer(sim_process& p, ticket t) {
    const auto wish = p.requests.find(t);
    if (wish == p.requests.end() && bug_ == seeded_bug::grant_dropped_after_cancel) return;
    referee_.answered(p.number, t);
    if (wish == p.requests.end()) return;
    const int user = wish->second.user;
    p.requests.erase(wish);
    again(p, user);
  }
  void perform(sim_process& p, action::released& a) {
    say([&] { return name(p) + "released " + number(a.slot) + " " + a.error.details.to_string(); });
    if (p.releasing.erase(a.slot) == 0) referee_.object("a release was answered twice, or nobody asked for it");
    if (a.error.code && calm() && !options_.operators) referee_.object("a release failed though nothing was wrong");
  }
  void perform(sim_process& p, action::lose& a) {
    if (dropped_.contains({p.number, a.slot})) return;
    ++result_.losses;
    say([&] { return name(p) + "lose " + number(a.slot) + " " + std::string(to_string(a.reason)); });
    const bool cause = !calm() && (options_.request_faults != 0 || options_.pauses);
    if (a.reason != loss_reason::closed && !options_.operators && !cause)
      referee_.object("a slot was lost without a cause: " + std::string(to_string(a.reason)));
    referee_.gone(p.number, a.slot, false);
  }
  void perform(sim_process& p, action::update& a) {
    if (!dropped_.contains({p.number, a.slot})) referee_.updated(p.number, a.slot, a.deadline);
  }
  void perform(sim_process& p, action::closed& a) {
    say([&] { return name(p) + "closed " + a.error.details.to_string(); });
    if (!p.closing || p.closed) referee_.object("closed twice, or without being asked to");
    p.closed = a;
  }
  void perform(sim_process& p, action::note& a) {
    say([&] { return name(p) + "note: " + a.text; });
  }

  void perform(sim_process& p, action::create_session& a) {
    note_request(p);
    const fate f = draw_fate();
    say([&] { return name(p) + "create session" + text(f); });
    at(f.there, [this, &p, f, a] {
      const std::string id = f.applied ? create_session() : "";
      at(f.back, [this, &p, f, a, id] {
        if (f.answered) p.sessions.insert(id);
        say([&] { return name(p) + "session " + (f.answered ? id : "failed"); });
        deliver(p, event::session_created{a.member, f.answered ? id : "", f.answered ? failure{} : timed_out()});
      });
    });
  }
  void perform(sim_process& p, action::renew_session& a) {
    note_request(p);
    const fate f = draw_fate();
    at(f.there, [this, &p, f, a] {
      const bool there = f.applied && renew_session(a.session);
      at(f.back, [this, &p, f, a, there] {
        error_code ec;
        if (!f.answered)
          ec = error::timed_out;
        else if (!there)
          ec = error::invalid_session;
        if (ec) say([&] { return name(p) + "renewal of " + a.session + " fails"; });
        deliver(p, event::session_renewed{a.member, runtime::renewal(ec)});
      });
    });
  }
  void perform(sim_process& p, action::destroy_session& a) {
    note_request(p);
    unwanted_.insert(a.session);
    const fate f = draw_fate();
    say([&] { return name(p) + "destroy " + a.session + text(f); });
    at(f.there, [this, &p, f, a] {
      if (f.applied && bug_ != seeded_bug::sessions_stay) consul_.destroy_session(a.session, now_);
      at(f.back, [this, &p, f, a] { deliver(p, event::session_destroyed{a.session, f.answered}); });
    });
  }

  void perform(sim_process& p, action::send_txn& a) {
    note_request(p);
    std::vector<operation> operations = std::move(a.operations);
    if (operations.size() > operations_max) referee_.object("a transaction is too long");
    break_on_purpose(operations);
    const fate f = draw_fate();
    say([&] { return name(p) + "txn " + std::to_string(a.id) + text(f) + describe(operations); });
    if (f.late != duration(0))
      at(f.late, [this, &p, operations, id = a.id] {
        const bool applied = transact(p, operations).applied;
        say([&] { return name(p) + "txn " + std::to_string(id) + " late: " + (applied ? "applied" : "refused"); });
      });
    at(f.there, [this, &p, f, id = a.id, operations = std::move(operations)] {
      consul::txn_reply reply;
      if (f.applied) {
        reply = transact(p, operations);
      }
      at(f.back, [this, &p, f, id, reply = std::move(reply)] {
        const failure why = f.answered ? failure() : f.not_sent ? unreachable() : timed_out();
        event::txn_done done = runtime::txn_done(id, why.code, f.answered ? reply : consul::txn_reply(), why.details);
        using event::outcome;
        if (done.outcome == outcome::unknown && bug_ == seeded_bug::unknown_taken_for_refused)
          done.outcome = outcome::not_sent;
        say([&] {
          static const char* const words[] = {"applied", "refused", "not sent", "unknown"};
          return name(p) + "txn " + std::to_string(id) + ": " + words[static_cast<int>(done.outcome)];
        });
        deliver(p, std::move(done));
      });
    });
  }

  consul::txn_reply transact(const sim_process& p, const std::vector<operation>& operations) {
    if (operations.front().key != world_lock_key) return consul_.transact(operations, now_);
    const snapshot before = look();
    consul::txn_reply reply = consul_.transact(operations, now_);
    if (reply.applied) {
      check_record();
      check_order(p, before);
    }
    return reply;
  }

  void perform(sim_process& p, action::list_prefix& a) {
    query(p, a.id, {testing::subject::kind::prefix, std::string(world_prefix)}, a.index, a.wait);
  }
  void perform(sim_process& p, action::watch_key& a) {
    query(p, a.id, {testing::subject::kind::key, a.key}, a.index, a.wait);
  }
  /// Its answer may be on the way.
  void perform(sim_process& p, action::stop_watch& a) {
    if (const auto found = find_watch(p, a.id)) end_watch(*found);
  }
  void query(sim_process& p, request_id id, testing::subject what, std::uint64_t index, duration wait) {
    note_request(p);
    if (index != 0 && bug_ == seeded_bug::watch_never_answers) return;
    const fate f = draw_fate();
    say([&] {
      return name(p) + "look " + std::to_string(id) + " at " + what.name + " from " + std::to_string(index) + text(f);
    });
    if (!f.applied) {
      at(f.there + f.back, [this, &p, id, what] { deliver_failure(p, id, what); });
      return;
    }
    at(f.there, [this, &p, f, id, what, index, wait] {
      watches_.push_back({&p, id, what, index, now_ + wait, f.back, f.answered, {}});
    });
    if (index != 0) {
      at(f.there + wait, [] {});  // so that somebody looks at it then
      if (faults() && random_.chance(options_.request_faults / 2))
        at(f.there + random_.between(0s, 1s), [this, &p, id, what] {
          const auto found = find_watch(p, id);
          if (!found) return;
          end_watch(*found);
          deliver_failure(p, id, what);
        });
    }
  }
  static pool_event failure_of(request_id id, const testing::subject& what) {
    if (what.what == testing::subject::kind::key) return event::key_watched{id, {}, timed_out()};
    return event::prefix_listed{id, {}, 0, timed_out()};
  }
  void deliver_failure(sim_process& p, request_id id, const testing::subject& what) {
    deliver(p, failure_of(id, what));
  }

  // --- Consul, and the way there

  struct watch {
    sim_process* owner;
    request_id id;
    testing::subject what;
    std::uint64_t index;
    time_point until;
    duration back;
    bool answered;
    std::optional<testing::store::watch_id> waits;  ///< none: to be looked at
  };

  /// The store ends a session after twice its TTL, as Consul does; what Consul promises is the TTL. So half of the
  /// sessions end after that, a quarter some time later, and the store ends the rest.
  struct lease {
    duration life;
    time_point ends;
  };
  std::string create_session() {
    std::string id = consul_.create_session(options_.ttl, now_);
    const duration patience = random_.chance(50) ? duration(0) : random_.between(0s, 2 * options_.ttl);
    const duration life = options_.ttl + patience;
    if (patience < options_.ttl) leases_.emplace(id, lease{life, now_ + life});
    return id;
  }
  bool renew_session(const std::string& id) {
    if (!consul_.renew_session(id, now_)) return false;
    if (const auto its = leases_.find(id); its != leases_.end()) its->second.ends = now_ + its->second.life;
    return true;
  }
  void end_sessions() {
    std::erase_if(leases_, [this](const auto& each) {
      const bool over = each.second.ends <= now_;
      if (over) consul_.destroy_session(each.first, now_);
      return over;
    });
    consul_.advance(now_);
  }

  /// What becomes of one request.
  struct fate {
    duration there{}, back{};
    bool applied = true, answered = true, not_sent = false;
    duration late{};  ///< applied only then, long after its sender gave up
  };

  fate draw_fate() {
    fate f;
    f.there = random_.between(50us, options_.latency_max);
    f.back = random_.between(50us, options_.latency_max);
    if (!faults() || !random_.chance(options_.request_faults)) return f;
    ++result_.faults;
    f.answered = false;
    f.back = random_.chance(50) ? f.back : timeout_ - f.there;
    switch (random_.below(4)) {
      case 0:  // the reply is lost
        break;
      case 1:
        f.applied = false;
        break;
      case 2:
        f.applied = false;
        f.late = f.there + f.back + random_.between(0s, 2 * options_.ttl);
        break;
      case 3:
        f.applied = false;
        f.not_sent = true;
        break;
    }
    return f;
  }
  static std::string text(const fate& f) {
    return f.answered       ? ""
           : f.not_sent     ? " (not sent)"
           : f.late.count() ? " (late)"
           : f.applied      ? " (reply lost)"
                            : " (request lost)";
  }
  static failure timed_out() { return {make_error_code(error::timed_out), {"timed out", {}, {}, {}}}; }
  static failure unreachable() { return {make_error_code(error::unreachable), {"unreachable", {}, {}, {}}}; }

  void renew_go_contenders() {
    for (go_contender& g : go_)
      if (!g.session.empty()) consul_.renew_session(g.session, now_);
  }

  void answer_watches() {
    for (const testing::store::watch_id fired : consul_.store.take_fired())
      for (watch& w : watches_)
        if (w.waits == fired) w.waits.reset();
    for (std::size_t i = 0; i < watches_.size();) {
      watch& w = watches_[i];
      // Woken, or new: as an agent does it, which waits again if the index is not past the one asked with.
      if (!w.waits && w.index != 0 && consul_.store.index_of(w.what) <= w.index) w.waits = consul_.store.watch(w.what);
      if (w.waits && now_ < w.until) {
        ++i;
        continue;
      }
      say([&] { return name(*w.owner) + "look " + std::to_string(w.id) + " is answered"; });
      at(w.back,
         [this, owner = w.owner, e = w.answered ? answer_to(w) : failure_of(w.id, w.what)] { deliver(*owner, e); });
      end_watch(i);
    }
  }
  pool_event answer_to(const watch& w) {
    if (w.what.what == testing::subject::kind::key) return consul_.key_seen(w.id, w.what.name);
    return listing_for_pool(w.id);
  }
  std::optional<std::size_t> find_watch(const sim_process& p, request_id id) const {
    const auto found =
        std::find_if(watches_.begin(), watches_.end(), [&](const watch& w) { return w.owner == &p && w.id == id; });
    if (found == watches_.end()) return std::nullopt;
    return static_cast<std::size_t>(found - watches_.begin());
  }
  void end_watch(std::size_t i) {
    if (watches_[i].waits) consul_.store.unwatch(*watches_[i].waits);
    watches_.erase(watches_.begin() + static_cast<std::ptrdiff_t>(i));
  }

  event::prefix_listed listing_for_pool(request_id id) {
    event::prefix_listed e = consul_.listed(id, world_prefix);
    if (bug_ != seeded_bug::no_prune) return e;
    const snapshot& seen = look();
    for (const std::string& holder : seen.record.holders)
      if (!seen.find(holder))
        e.listing.push_back({std::string(world_prefix) + holder, {}, contender_magic, holder, 1, 1});
    return e;
  }

  void break_on_purpose(std::vector<operation>& operations) {
    if (bug_ == seeded_bug::grant_leaves_the_entry)
      std::erase_if(operations, [](const operation& op) { return op.verb == verb::cas && op.key != world_lock_key; });
    if (bug_ == seeded_bug::release_keeps_the_entry && operations.front().verb == verb::cas)
      std::erase_if(operations, [](const operation& op) { return op.verb == verb::remove; });
  }

  // --- what goes wrong

  void crash() {
    if (!faults()) return;
    sim_process& p = *processes_[random_.below(processes_.size())];
    if (!p.alive || processes_.size() < 2) return;
    say([&] { return name(p) + "crashes"; });
    p.alive = false;
    p.inbox.clear();
    referee_.crashed(p.number);
    if (random_.chance(50)) at(random_.between(0s, 1s), [this] { start_process(); });
  }
  void pause() {
    if (!faults()) return;
    sim_process& p = *processes_[random_.below(processes_.size())];
    if (p.alive && !p.paused) {
      say([&] { return name(p) + "is paused"; });
      p.paused = true;
      const duration length = std::min<duration>(random_.between(0s, 3 * options_.ttl), faults_end_ - now_);
      at(length, [this, &p] {
        if (!p.alive) return;
        say([&] { return name(p) + "goes on"; });
        p.paused = false;
        p.tick_at = never;
        // What piled up meanwhile comes in some order, its clock only after or among it.
        if (random_.chance(50)) deliver(p, event::tick{});
        while (!p.inbox.empty()) {
          const job next = std::move(p.inbox.front());
          p.inbox.pop_front();
          next();
        }
        deliver(p, event::tick{});
      });
    }
    at(random_.between(100ms, 2s), [this] { pause(); });
  }
  void meddle() {
    if (!faults()) return;
    const auto listing = consul_.list(world_prefix);
    if (!listing.empty()) {
      const key_value& victim = listing[random_.below(listing.size())];
      switch (random_.below(5)) {
        case 0:
          say([&] { return "operator destroys " + victim.session; });
          consul_.destroy_session(victim.session, now_);
          break;
        case 1:
          say([&] { return "operator deletes " + victim.key; });
          consul_.remove(victim.key, now_);
          break;
        case 2:
          say([] { return "operator deletes the prefix"; });
          consul_.remove_tree(std::string(world_prefix), now_);
          break;
        case 3:
          if (const auto lock = consul_.get(world_lock_key)) {
            say([] { return "operator empties the record"; });
            auto record = parse_lock_record(lock->value);
            record->holders.clear();
            consul_.put(std::string(world_lock_key), format(*record), lock->flags, now_);
          }
          break;
        case 4:
          consul_.store.collect_tombstones();
          break;
      }
    }
    at(random_.between(100ms, 2s), [this] { meddle(); });
  }

  // --- Go contenders

  void start_go(int number) {
    go_.push_back({number, {}, go_contender::outside, random_.chance(30)});
    at(random_.between(0s, 2s), [this, i = go_.size() - 1] { go_step(i); });
  }
  void go_step(std::size_t i) {
    go_contender& g = go_[i];
    const std::string entry = std::string(world_prefix) + g.session;
    duration next = random_.between(1ms, 30ms);
    switch (g.state) {
      case go_contender::outside:
        if (now_ >= last_call_) return;
        g.session = consul_.create_session(options_.ttl, now_);
        consul_.transact({{verb::lock, std::string(world_prefix) + g.session, "go", semaphore_flags, 0, g.session}},
                         now_);
        g.state = go_contender::waiting;
        break;
      case go_contender::waiting: {
        if (now_ >= last_call_ || (g.abandoned && random_.chance(2))) {
          g.state = go_contender::leaving;
          break;
        }
        if (g.abandoned) break;
        const auto seen = make_snapshot(world_prefix, world_lock_key, consul_.list(world_prefix), 0);
        lock_record record = seen->record;
        if (!seen->find(g.session)) {  // an operator was here
          g.state = go_contender::leaving;
          break;
        }
        record.limit = options_.limit;
        std::erase_if(record.holders, [&](const std::string& holder) { return !seen->find(holder); });
        if (record.holders.size() >= options_.limit) break;
        record.add(g.session);
        // The write takes effect now; between the look and the write nothing happens here, so it always fits.
        if (!write_record(record, seen->lock_index)) break;
        say([&] { return "go " + g.session + " takes a slot"; });
        g.state = go_contender::holding;
        referee_.go_holds(g.number, true);
        next = random_.between(0ms, 200ms);
        break;
      }
      case go_contender::holding: {
        say([&] { return "go " + g.session + " gives its slot back"; });
        referee_.go_holds(g.number, false);
        const auto seen = make_snapshot(world_prefix, world_lock_key, consul_.list(world_prefix), 0);
        lock_record record = seen->record;
        record.drop(g.session);
        if (seen->lock_index != 0) write_record(record, seen->lock_index);
        g.state = go_contender::leaving;  // for a moment it looks like a waiting contender
        break;
      }
      case go_contender::leaving: {
        consul_.destroy_session(std::exchange(g.session, {}), now_);
        g.state = go_contender::outside;
        const auto seen = make_snapshot(world_prefix, world_lock_key, consul_.list(world_prefix), 0);
        if (seen->lock_index != 0 && seen->record.holders.empty() && random_.chance(50))
          consul_.remove(std::string(world_lock_key), now_);
        next = random_.between(0ms, 1s);
        break;
      }
    }
    at(next, [this, i] { go_step(i); });
  }

  bool write_record(const lock_record& record, std::uint64_t index) {
    return consul_.transact({{verb::cas, std::string(world_lock_key), format(record), semaphore_flags, index}}, now_)
        .applied;
  }

  // --- checks of what stands in Consul, and of what it costs

  bool calm() const { return now_ >= calm_; }

  /// What stands in Consul. Somebody looks after every step, and most steps write nothing.
  const snapshot& look() {
    const std::uint64_t index = consul_.store.raft_index();
    if (seen_at_ != index) seen_ = *make_snapshot(world_prefix, world_lock_key, consul_.list(world_prefix), 0);
    seen_at_ = index;
    return seen_;
  }

  void check_record() {
    const snapshot& seen = look();
    const auto alive = std::count_if(seen.record.holders.begin(), seen.record.holders.end(),
                                     [&](const std::string& holder) { return seen.find(holder) != nullptr; });
    if (static_cast<std::uint32_t>(alive) > options_.limit) referee_.object("the record names more than the limit");
  }

  /// Whoever was granted had waited longest, of those that their process still wants. Who takes a free slot as it comes
  /// may not have seen who came just before.
  void check_order(const sim_process& p, const snapshot& before) {
    const snapshot& after = look();
    for (const std::string& holder : after.record.holders) {
      const contender* const granted = before.find(holder);
      if (!granted || before.record.names(holder)) continue;
      const contender* const now = after.find(holder);
      if (!now || now->create_index != granted->create_index) continue;
      for (const contender& each : before.contenders) {
        if (each.create_index >= granted->create_index) break;
        const contender* const still = after.find(each.session);
        const bool waits = !before.record.names(each.session) && !after.record.names(each.session) && still &&
                           still->create_index == each.create_index && each.grantable();
        if (waits && !unwanted_.contains(each.session) &&
            description_in(each.value) != description_in(granted->value) &&
            description_in(each.value) != "process " + std::to_string(p.number))
          referee_.object(each.session + " was overtaken by " + holder);
      }
    }
  }

  /// No slot stays free for long while somebody waits who could have it.
  void check_use() {
    const bool quiet = now_ >= calm_ && now_ < last_call_;
    bool idle = false;
    if (quiet) {
      const snapshot& seen = look();
      const auto holders = static_cast<std::size_t>(std::count_if(
          seen.contenders.begin(), seen.contenders.end(), [&](const contender& c) { return seen.holds(c.session); }));
      for (const auto& p : processes_) {
        if (!p->alive || p->requests.empty()) continue;
        const sim_process::request& first = p->requests.begin()->second;
        idle = idle || (first.patient && holders + first.count <= options_.limit);
      }
    }
    if (!idle) free_since_ = never;
    if (idle && free_since_ == never) free_since_ = now_;
    if (idle && now_ - free_since_ > 700ms + 30 * options_.latency_max)
      referee_.object("a slot stays free while somebody waits");
  }

  void check_drained() {
    for (const auto& p : processes_) {
      if (!p->alive) continue;
      if (referee_.anyone_waits(p->number)) referee_.object(name(*p) + "has a waiter that never got a slot");
      if (referee_.holds_any(p->number)) referee_.object(name(*p) + "has a slot that was never released");
      if (!p->releasing.empty()) referee_.object(name(*p) + "has a release that never ended");
    }
    const snapshot& left = look();
    for (const auto& p : processes_)
      for (const std::string& session : p->sessions) {
        if (left.find(session)) referee_.object(name(*p) + "has left its entry " + session);
        if (p->alive && left.record.names(session) && consul_.has_session(session))
          referee_.object(name(*p) + "is still named in the record: " + session);
      }
  }
  void check_closed() {
    for (const auto& p : processes_) {
      if (!p->alive) continue;
      if (!p->closed) referee_.object(name(*p) + "does not close");
      if (p->closed && p->closed->error.code) referee_.object(name(*p) + "could not close cleanly");
      if (p->pool->sessions() != 0) referee_.object(name(*p) + "keeps sessions");
      for (const std::string& session : p->sessions)
        if (consul_.has_session(session)) referee_.object(name(*p) + "has left its session " + session);
    }
  }

  void forget_old(std::deque<time_point>& list) const {
    while (!list.empty() && list.front() < now_ - 1s) list.pop_front();
  }
  void note_event(sim_process& p) {
    for (auto& each : processes_) each->events.push_back(now_);
    forget_old(p.events);
  }
  /// Nobody turns in circles: what one pool asks of Consul is bounded by what happens in the whole world.
  void note_request(sim_process& p) {
    p.sent.push_back(now_);
    forget_old(p.sent);
    forget_old(p.events);
    if (p.sent.size() > 100 + p.events.size() / 2) referee_.object(name(p) + "sends requests in a circle");
  }

  static std::string name(const sim_process& p) { return "process " + std::to_string(p.number) + ": "; }
  template <class Number>
  static std::string number(Number n) {
    return std::to_string(static_cast<std::uint64_t>(n));
  }
  static std::string describe(const std::vector<operation>& operations) {
    static const char* const verbs[] = {"lock", "cas", "remove", "remove-cas", "tree"};
    std::string text;
    for (const operation& op : operations) {
      text += std::string(" ") + verbs[static_cast<int>(op.verb)] + " " + op.key.substr(world_prefix.size());
      if (op.verb == verb::cas) text += "@" + std::to_string(op.index);
      if (op.key == world_lock_key) text += " " + op.value;
    }
    return text;
  }

  static constexpr duration hold_max_ = 1s;
  static constexpr duration timeout_ = 400ms;

  dice random_;
  world_options options_;
  const seeded_bug bug_;
  const bool trace_;
  referee referee_;
  core_consul consul_;
  world_result result_;

  time_point now_{};
  std::map<std::pair<time_point, std::uint64_t>, job> jobs_;
  std::uint64_t last_job_ = 0;
  std::vector<std::unique_ptr<sim_process>> processes_;
  std::deque<go_contender> go_;
  std::vector<watch> watches_;
  std::map<std::string, lease> leases_;  ///< of sessions that end before the store ends them
  std::set<std::string> unwanted_;       ///< sessions that their process wants to end
  snapshot seen_;                        ///< at this Raft index:
  std::uint64_t seen_at_ = 0;
  time_point free_since_ = never;
  std::set<std::pair<int, slot_id>> dropped_;  ///< seeded_bug::grant_dropped_after_cancel

  const time_point faults_end_ = time_point{} + 4s;
  /// All that died before is over by then: the longest lease, and late writes.
  const time_point calm_ = faults_end_ + 2 * options_.ttl + 1s;
  const time_point last_call_ = calm_ + 2s;
  const time_point drained_ = last_call_ + 10s;
};

}  // namespace

std::string_view to_string(seeded_bug bug) {
  switch (bug) {
    case seeded_bug::none:
      return "none";
    case seeded_bug::lease_counted_late:
      return "lease_counted_late";
    case seeded_bug::unknown_taken_for_refused:
      return "unknown_taken_for_refused";
    case seeded_bug::no_prune:
      return "no_prune";
    case seeded_bug::grant_dropped_after_cancel:
      return "grant_dropped_after_cancel";
    case seeded_bug::watch_misses_deletions:
      return "watch_misses_deletions";
    case seeded_bug::watch_never_answers:
      return "watch_never_answers";
    case seeded_bug::unguarded_record:
      return "unguarded_record";
    case seeded_bug::grant_leaves_the_entry:
      return "grant_leaves_the_entry";
    case seeded_bug::release_keeps_the_entry:
      return "release_keeps_the_entry";
    case seeded_bug::sessions_stay:
      return "sessions_stay";
    case seeded_bug::overtaking:
      return "overtaking";
  }
  return "unknown";
}

world_result run_world(std::uint64_t seed, seeded_bug bug, bool trace) { return world(seed, bug, trace).run(); }

}  // namespace holdfast::test
