// SPDX-FileCopyrightText: The holdfast authors
// SPDX-License-Identifier: BSL-1.0

#include "sim/support/interleavings.hpp"

#include <algorithm>
#include <memory>
#include <optional>
#include <set>
#include <unordered_set>
#include <utility>
#include <variant>
#include <vector>

#include "protocol/administration/administration.hpp"
#include "protocol/pool/pool.hpp"
#include "runtime/convert.hpp"
#include "sim/support/digest.hpp"
#include "sim/support/write_checks.hpp"
#include "support/core_consul.hpp"
#include "support/referee.hpp"

namespace holdfast::test {

using namespace protocol;
using namespace std::chrono_literals;

namespace {

constexpr std::string_view prefix = "service/all/";
constexpr std::string_view lock_key = "service/all/.lock";
constexpr std::string_view mutex_entries = "service/all/.lock/";
constexpr duration ttl = 2s;
/// While only late requests are pending, time may pass this often. After that they never arrive.
constexpr int late_steps_max = 4;
/// A run must be over by then. This is enough for two sessions that end one after the other, and for what follows.
constexpr duration over_by = 30s;

failure timed_out() { return {make_error_code(error::timed_out), {"timed out", {}, {}, {}}}; }
failure unreachable() { return {make_error_code(error::unreachable), {"unreachable", {}, {}, {}}}; }

digest& operator<<(digest& d, const core_event& e) {
  d << e.index();
  std::visit(
      [&]<class Event>(const Event& its) {
        if constexpr (std::is_same_v<Event, event::prefix_listed>) {
          d << its.id << its.index << static_cast<std::uint64_t>(its.error.code.value());
          for (const kv_entry& each : its.listing) d << each;
        } else if constexpr (std::is_same_v<Event, event::key_watched>) {
          d << its.id << static_cast<std::uint64_t>(its.error.code.value()) << std::uint64_t{its.pair.has_value()};
          if (its.pair) d << *its.pair;
        } else if constexpr (std::is_same_v<Event, event::txn_done>) {
          d << its.id << static_cast<std::uint64_t>(its.outcome);
          for (const kv_entry& each : its.results) d << each;
          for (const auto& each : its.refusals) d << each.operation << static_cast<std::uint64_t>(each.reason);
        } else if constexpr (std::is_same_v<Event, event::node_seen>) {
          d << its.id << its.create_index;
        } else if constexpr (std::is_same_v<Event, event::session_renewed>) {
          d << static_cast<std::uint64_t>(its.outcome);
        } else if constexpr (std::is_same_v<Event, event::session_created> ||
                             std::is_same_v<Event, event::session_destroyed>) {
          d << its.session;
        }
      },
      e);
  return d;
}

class model {
public:
  /// One thing that may happen next.
  struct choice {
    enum class kind : std::uint8_t {
      arrives,
      answered,
      fails,
      releases,
      crashes,
      cancels,
      session_ends,
      orders,
      time_passes
    } what;
    std::uint8_t which = 0;  ///< the index of a message, a process or a session
    std::uint8_t how = 0;    ///< an `accident`; with `orders`, 1 if the operator only reads
  };

  model(const interleaving_options& options, std::vector<std::string>* story)
      : options_(options), sabotage_(options.bug), referee_(highest_limit(options)), story_(story) {
    sabotage_.bend(consul_.store);
    if (!options.orders.empty()) consul_.transact(protocol::create(inspect_now(), options.limit).operations, now_);
    for (int i = 0; i != options.contenders; ++i) {
      pool_options o;
      o.prefix = options.mutex ? lock_key : prefix;
      o.form = options.mutex ? record_form::session : record_form::map;
      o.lock_key = lock_key;
      o.description = "process " + std::to_string(i);
      o.limit = options.limit;
      o.use_recorded_limit = !options.orders.empty();
      o.numbered = options.numbered;
      o.ttl = ttl;
      o.lease_margin = ttl / 10;
      o.give_up_after = 1s;
      o.outage_grace = 0s;
      o.session_idle_timeout = 60s;
      o.watch_wait = 600s;
      o.watch_all_max = options.watch_all_max;
      sabotage_.bend(o, 400ms);
      processes_.push_back({i, protocol::pool(o, 1)});
    }
    for (process& p : processes_) {
      referee_.asked(p.number, ticket{1});
      step(p, event::acquire{ticket{1}});
    }
    rest();
  }

  const std::string& violation() const { return referee_.violation(); }
  std::optional<guarantee> broken() const { return referee_.broken(); }
  const std::vector<choice>& choices() const { return choices_; }

  void take(const choice& c) {
    happen(c);
    rest();
  }

  /// Checks what must be true at the end of a run.
  void finish() {
    for (process& p : processes_) {
      if (!p.alive) continue;
      if (referee_.anyone_waits(p.number)) referee_.object(guarantee::progress, name(p) + " never got a slot");
      if (referee_.holds_any(p.number)) referee_.object(guarantee::leaks, name(p) + " never gave its slot back");
      if (!p.closed) referee_.object(guarantee::answers, name(p) + " does not close");
    }
    const snapshot left = look();
    if (!left.contenders.empty())
      referee_.object(guarantee::leaks, "an entry is left: " + left.contenders.front().session);
    for (const slot_number& each : left.numbers)
      if (!each.session.empty()) referee_.object(guarantee::leaks, "a number is left to " + each.session);
  }

  std::uint64_t fingerprint() const {
    digest d;
    d << static_cast<std::uint64_t>(now_.time_since_epoch().count()) << std::uint64_t{fault_used_}
      << static_cast<std::uint64_t>(late_steps_) << consul_.store.raft_index();
    for (const kv_entry& each : consul_.list(prefix)) d << each;
    for (const process& p : processes_) {
      d << p.history.value() << std::uint64_t{p.alive} << static_cast<std::uint64_t>(p.stage);
      for (const std::string& session : p.sessions) d << std::uint64_t{consul_.has_session(session)};
      d << std::uint64_t{p.evicted};
    }
    d << given_ << std::uint64_t{looked_} << std::uint64_t{was_late_} << target_;
    if (decided_) {
      d << std::uint64_t{seen_at_ == consul_.store.raft_index()} << decided_->session;
      for (const kv_operation& op : decided_->operations) d << op.key << op.value << op.flags << op.index;
    }
    std::uint64_t on_the_way = 0;  // their order does not count
    for (const message& m : messages_) {
      digest its;
      its << static_cast<std::uint64_t>(m.from) << m.id << std::uint64_t{m.ghost};
      if (m.reply) its << *m.reply;
      on_the_way += its.value();
    }
    return (d << on_the_way).value();
  }

private:
  enum class stage { waiting, holding, releasing, done };
  struct process {
    int number;
    protocol::pool pool;
    bool alive = true;
    test::model::stage stage = stage::waiting;
    slot_id slot{};
    bool closed = false;
    bool closing = false;
    bool evicted = false;  ///< an operator has taken its slot away, and it may not know that
    std::vector<std::string> sessions{};
    digest history{};
  };
  struct message {
    int from;
    request_id id;
    std::variant<action::send_txn, action::list_prefix, action::watch_key> what;
    std::optional<core_event> reply{};  ///< set once Consul has executed the request
    bool ghost = false;                 ///< its sender was told that it failed
  };
  enum class accident : std::uint8_t { request_lost, reply_lost, not_sent, late, crash_before_reply };

  static std::string name(const process& p) { return "process " + std::to_string(p.number); }
  template <class Text>
  void tell(Text text) {
    if (story_) story_->push_back(text());
  }
  process& sender(const message& m) { return processes_[static_cast<std::size_t>(m.from)]; }
  std::string_view watched() const { return options_.mutex ? lock_key : prefix; }
  snapshot look() const {
    return *make_snapshot(options_.mutex ? mutex_entries : prefix, lock_key, consul_.list(prefix), 0,
                          options_.mutex ? record_form::session : record_form::map);
  }

  // --- what happens

  void happen(const choice& c) {
    using enum choice::kind;
    const std::size_t which = c.which;
    switch (c.what) {
      case arrives:
        return arrive(which);
      case answered:
        return answer(which);
      case fails:
        return fail(which, static_cast<accident>(c.how));
      case releases:
        return release(processes_[which]);
      case crashes:
        return crash(processes_[which]);
      case cancels:
        fault_used_ = true;
        tell([&] { return name(processes_[which]) + " cancels"; });
        return step(processes_[which], event::cancel{ticket{1}});
      case session_ends:
        tell([&] { return "session " + orphans_[which] + " ends"; });
        consul_.destroy_session(orphans_[which], now_);
        return;
      case orders:
        return c.how == 0 ? give_order() : look_before_others_write();
      case time_passes:
        if (++late_steps_ > late_steps_max) std::erase_if(messages_, [](const message& m) { return m.ghost; });
        return pass_time();
    }
  }

  void arrive(std::size_t at) {
    message& m = messages_[at];
    tell(
        [&] { return name(sender(m)) + ": request " + std::to_string(m.id) + " arrives" + (m.ghost ? ", late" : ""); });
    execute(m);
    if (m.ghost || !sender(m).alive)
      messages_.erase(messages_.begin() + static_cast<std::ptrdiff_t>(at));
    else
      answer_at_once(at);
  }
  void fail(std::size_t at, accident how) {
    fault_used_ = true;
    message& m = messages_[at];
    process& p = sender(m);
    tell([&] {
      static const char* const words[] = {"is lost", "has its reply lost", "is not sent", "is late", "is its last"};
      return name(p) + ": request " + std::to_string(m.id) + " " + words[static_cast<int>(how)];
    });
    if ((how == accident::reply_lost || how == accident::crash_before_reply) && !m.reply) execute(m);
    if (how == accident::crash_before_reply) return crash(p);
    const core_event failed = failure_of(m, how == accident::not_sent);
    if (how == accident::late)
      m.ghost = true;
    else
      messages_.erase(messages_.begin() + static_cast<std::ptrdiff_t>(at));
    step(p, failed);
  }
  void crash(process& p) {
    fault_used_ = true;
    tell([&] { return name(p) + " crashes"; });
    p.alive = false;
    referee_.crashed(p.number);
    std::erase_if(messages_, [&](const message& m) { return m.from == p.number && (m.reply || is_watch(m)); });
    orphans_.insert(orphans_.end(), p.sessions.begin(), p.sessions.end());
  }
  void release(process& p) {
    tell([&] { return name(p) + " releases"; });
    p.stage = stage::releasing;
    if (!p.evicted) referee_.gone(p.number, p.slot, true);
    step(p, event::release{p.slot});
  }

  // --- an operator

  static std::uint32_t highest_limit(const interleaving_options& options) {
    std::uint32_t highest = options.limit;
    for (const given_order& each : options.orders) highest = std::max(highest, each.limit);
    return highest;
  }
  inspection inspect_now() const {
    return *make_inspection(std::string(prefix), std::string(lock_key), consul_.list(prefix), 0);
  }
  instruction instruction_for(const given_order& order, const inspection& seen) {
    switch (order.what) {
      case given_order::kind::resize:
        return protocol::resize(seen, order.limit);
      case given_order::kind::close:
        return protocol::set_closed(seen, true);
      case given_order::kind::open:
        return protocol::set_closed(seen, false);
      case given_order::kind::revoke:
        return protocol::revoke(seen, target_, !looked_);
      case given_order::kind::evict:
        return protocol::evict(seen, target_, !looked_);
    }
    return {};
  }
  /// The operator reads and at once writes what follows, or it writes what follows from an earlier read. If the write
  /// is refused or incomplete, the operator reads again.
  void give_order() {
    if (!decided_) decide();
    instruction next = *std::exchange(decided_, std::nullopt);
    if (next.refused || (next.session.empty() && next.operations.empty())) return next_order();
    if (!next.session.empty()) {
      tell([&] { return "the operator ends " + next.session; });
      consul_.destroy_session(next.session, now_);
      evicted_.insert(next.session);
      for (process& p : processes_)
        if (p.stage == stage::holding && stands_on_evicted(p, p.slot)) evict(p);
      return;
    }
    const snapshot before = look();
    sabotage_.bend(next, before.lock_index);
    const bool applied = consul_.transact(next.operations, now_).applied;
    tell([&] { return "the operator writes: " + std::string(applied ? "applied" : "refused"); });
    if (applied) check_write(referee_, {{}, options_.limit, true}, before, look());
    if (applied && !next.more) next_order();
  }
  void look_before_others_write() {
    tell([] { return "the operator looks"; });
    was_late_ = true;
    decide();
  }
  void decide() {
    const inspection seen = inspect_now();
    if (!looked_) choose_target(seen.now);
    decided_ = instruction_for(options_.orders[given_], seen);
    looked_ = true;
    seen_at_ = consul_.store.raft_index();
  }
  void choose_target(const snapshot& seen) {
    const auto holder = std::find_if(seen.record.holders.begin(), seen.record.holders.end(),
                                     [&](const std::string& session) { return seen.find(session); });
    target_ = holder != seen.record.holders.end() ? *holder
              : seen.contenders.empty()           ? ""
                                                  : seen.contenders.front().session;
  }
  void next_order() {
    ++given_;
    looked_ = false;
    decided_.reset();
  }
  bool stands_on_evicted(process& p, slot_id slot) {
    const auto entries = p.pool.entries_of(slot);
    return std::any_of(entries.begin(), entries.end(),
                       [&](const auto& each) { return evicted_.contains(each.session); });
  }
  /// From now on nothing is promised about this slot, in which the process believes until it is told.
  void evict(process& p) {
    p.evicted = true;
    referee_.gone(p.number, p.slot, true);
  }

  // --- Consul

  static bool is_watch(const message& m) {
    if (const auto* const list = std::get_if<action::list_prefix>(&m.what)) return list->index != 0;
    if (const auto* const key = std::get_if<action::watch_key>(&m.what)) return key->index != 0;
    return false;
  }
  std::uint64_t index_of(const message& m) const {
    if (const auto* const key = std::get_if<action::watch_key>(&m.what))
      return consul_.store.index_of({testing::subject::kind::key, key->key});
    return consul_.store.index_of({testing::subject::kind::prefix, std::string(watched())});
  }
  std::uint64_t asked_index(const message& m) const {
    if (const auto* const key = std::get_if<action::watch_key>(&m.what)) return key->index;
    return std::get<action::list_prefix>(m.what).index;
  }
  duration wait_of(const message& m) const {
    if (const auto* const key = std::get_if<action::watch_key>(&m.what)) return key->wait;
    return std::get<action::list_prefix>(m.what).wait;
  }

  void execute(message& m) {
    if (auto* const txn = std::get_if<action::send_txn>(&m.what)) {
      const snapshot before = look();
      consul::txn_reply reply = consul_.transact(txn->operations, now_);
      if (reply.applied)
        check_write(referee_, {name(sender(m)), options_.limit, !options_.orders.empty()}, before, look());
      m.reply = runtime::txn_done(m.id, {}, std::move(reply), {});
    } else {
      read(m);
    }
  }
  void read(message& m) {
    if (const auto* const key = std::get_if<action::watch_key>(&m.what))
      m.reply = consul_.key_seen(m.id, key->key);
    else
      m.reply = consul_.listed(m.id, watched());
  }
  core_event failure_of(const message& m, bool not_sent) const {
    const failure why = not_sent ? unreachable() : timed_out();
    if (std::holds_alternative<action::send_txn>(m.what)) return runtime::txn_done(m.id, why.code, {}, why.details);
    if (std::holds_alternative<action::watch_key>(m.what)) return event::key_watched{m.id, {}, why};
    return event::prefix_listed{m.id, {}, 0, why};
  }

  /// Delivers the reply now if nothing else can reach its sender. Then it makes no difference when the reply arrives.
  void answer_at_once(std::size_t at) {
    const message& m = messages_[at];
    const process& p = processes_[static_cast<std::size_t>(m.from)];
    const bool only = std::count_if(messages_.begin(), messages_.end(),
                                    [&](const message& each) { return each.from == m.from && !each.ghost; }) == 1;
    if (only && p.stage != stage::holding) answer(at);
  }
  void answer(std::size_t at) {
    process& p = processes_[static_cast<std::size_t>(messages_[at].from)];
    const core_event reply = *std::move(messages_[at].reply);
    tell([&] { return name(p) + ": request " + std::to_string(messages_[at].id) + " is answered"; });
    messages_.erase(messages_.begin() + static_cast<std::ptrdiff_t>(at));
    step(p, reply);
  }

  // --- processes

  void step(process& p, core_event e) {
    if (!p.alive) return;
    p.history << static_cast<std::uint64_t>(now_.time_since_epoch().count()) << e;
    core_actions out;
    std::vector<core_event> then;
    const bool heard = sabotage_.step(p.number, p.pool, std::move(e), now_, out, then);
    for (core_action& a : out) std::visit([&](auto& concrete) { perform(p, concrete); }, a);
    for (core_event& next : then) step(p, std::move(next));
    if (heard && p.pool.wake() <= now_) referee_.object(guarantee::cost, "the pool asks to be woken in the past");
  }

  void perform(process& p, action::grant& a) {
    tell([&] { return name(p) + " is granted " + a.token.to_string(); });
    p.stage = stage::holding;
    p.slot = a.slot;
    p.evicted = !evicted_.empty() && stands_on_evicted(p, a.slot);
    if (p.evicted) return referee_.answered(p.number, a.ticket);
    referee_.granted(p.number, a.ticket, a.slot, 1, a.token, now_, a.deadline);
    if (options_.numbered) check_number(p, a.numbers);
  }
  /// No other process can have the same number, because only one session can lock a key.
  void check_number(const process& p, const std::vector<std::uint32_t>& numbers) {
    const snapshot seen = look();
    const bool has_it = numbers.size() == 1 && numbers.front() < options_.limit &&
                        std::any_of(p.sessions.begin(), p.sessions.end(), [&](const std::string& session) {
                          const slot_number* const its = seen.number_of(session);
                          return its && its->number == numbers.front();
                        });
    if (!has_it) referee_.object(guarantee::numbers, name(p) + " is told a number that it has not");
  }
  void perform(process& p, action::deny&) { referee_.object(guarantee::answers, name(p) + " was denied"); }
  void perform(process& p, action::fail& a) {
    tell([&] { return name(p) + " fails: " + a.error.code.message(); });
    if (!fault_used_) referee_.object(guarantee::answers, name(p) + ": an acquire failed though nothing was wrong");
    referee_.answered(p.number, a.ticket);
    p.stage = stage::done;
  }
  void perform(process& p, action::released&) {
    if (p.stage == stage::releasing) p.stage = stage::done;
  }
  void perform(process& p, action::lose& a) {
    tell([&] { return name(p) + " loses its slot: " + std::string(to_string(a.reason)); });
    if (!fault_used_ && !p.evicted) referee_.object(guarantee::losses, name(p) + " lost its slot without a cause");
    if (!p.evicted) referee_.gone(p.number, a.slot, false);
    p.stage = stage::done;
  }
  void perform(process& p, action::update& a) {
    if (!p.evicted) referee_.updated(p.number, a.slot, a.deadline);
  }
  void perform(process& p, action::closed&) { p.closed = true; }
  void perform(process& p, action::revoke& a) {
    const auto entries = p.pool.entries_of(a.slot);
    if (entries.empty() || entries.front().session != target_)
      referee_.object(guarantee::orders, "a wish that nobody has");
  }
  void perform(process&, action::note&) {}
  void perform(process&, action::ask_alive&) {}
  // Requests about sessions are executed at once, and are answered before anything else happens.
  void perform(process& p, action::create_session& a) {
    p.sessions.push_back(consul_.create_session(ttl, now_));
    soon_.push_back({p.number, event::session_created{a.member, p.sessions.back(), {}}});
  }
  void perform(process& p, action::register_node&) { soon_.push_back({p.number, event::node_registered{}}); }
  void perform(process& p, action::read_node& a) { soon_.push_back({p.number, consul_.node_seen(a.id, a.node)}); }
  void perform(process& p, action::renew_session& a) {
    const bool there = consul_.renew_session(a.session, now_);
    soon_.push_back(
        {p.number, event::session_renewed{a.member, there ? event::renewal::renewed : event::renewal::gone}});
  }
  void perform(process& p, action::destroy_session& a) {
    consul_.destroy_session(a.session, now_);
    soon_.push_back({p.number, event::session_destroyed{a.session, true}});
  }
  void perform(process& p, action::send_txn& a) { messages_.push_back({p.number, a.id, a}); }
  void perform(process& p, action::list_prefix& a) { messages_.push_back({p.number, a.id, a}); }
  void perform(process& p, action::watch_key& a) { messages_.push_back({p.number, a.id, a}); }
  void perform(process& p, action::stop_watch& a) {
    std::erase_if(messages_, [&](const message& m) { return m.from == p.number && m.id == a.id; });
  }

  void perform(process&, action::watch_makers&) {}
  void perform(process&, action::forget_session&) {}

  // --- what comes next

  /// Does everything that leaves no choice, until there is a choice or the run is over. Then lists the choices.
  void rest() {
    for (;;) {
      while (!soon_.empty() && violation().empty()) {
        auto [number, e] = std::move(soon_.front());
        soon_.erase(soon_.begin());
        step(processes_[static_cast<std::size_t>(number)], std::move(e));
      }
      wake_watches();
      check_all();
      choices_.clear();
      if (!violation().empty()) return;
      list_choices();
      if (!choices_.empty()) return;
      if (close_all()) continue;
      if (all_over()) return;
      if (now_ - time_point{} > over_by) return referee_.object(guarantee::progress, "it does not come to an end");
      pass_time();
    }
  }

  void wake_watches() {
    for (message& m : messages_)
      if (is_watch(m) && !m.reply && !m.ghost && index_of(m) > asked_index(m)) read(m);
  }

  void list_choices() {
    using enum choice::kind;
    const bool may_fail = options_.one_fault && !fault_used_;
    bool only_the_late = true;  // everything that can happen next may as well happen after some time
    const auto add = [this](choice::kind what, std::size_t which, auto... how) {
      choices_.push_back({what, static_cast<std::uint8_t>(which), static_cast<std::uint8_t>(how)...});
    };
    for (std::size_t i = 0; i != messages_.size(); ++i) {
      const message& m = messages_[i];
      if (!m.reply && is_watch(m)) continue;
      only_the_late = only_the_late && (m.ghost || !sender(m).alive);
      add(m.reply ? answered : arrives, i);
      if (!may_fail) continue;
      add(fails, i, accident::reply_lost);
      if (m.reply) continue;
      for (const accident how : {accident::request_lost, accident::not_sent, accident::crash_before_reply})
        add(fails, i, how);
      if (std::holds_alternative<action::send_txn>(m.what)) add(fails, i, accident::late);
    }
    for (const process& p : processes_) {
      const auto number = static_cast<std::size_t>(p.number);
      if (!p.alive) continue;
      if (p.stage == stage::holding) add(releases, number);
      only_the_late = only_the_late && p.stage != stage::holding;
    }
    if (given_ != options_.orders.size()) {
      // As long as nobody writes, it makes no difference when the operator has read.
      if (!decided_ || seen_at_ != consul_.store.raft_index()) add(orders, 0);
      if (!decided_ && !was_late_) add(orders, 0, std::uint8_t{1});
      only_the_late = false;
    }
    // While nothing is pending, it makes no difference when a process crashes.
    if (may_fail && !choices_.empty())
      for (const process& p : processes_) {
        const auto number = static_cast<std::size_t>(p.number);
        add(crashes, number);
        if (p.stage == stage::waiting) add(cancels, number);
      }
    for (std::size_t i = 0; i != orphans_.size(); ++i)
      if (consul_.has_session(orphans_[i])) add(session_ends, i);
    if (choices_.empty() && decided_) add(orders, 0);
    if (only_the_late && !choices_.empty() && late_steps_ <= late_steps_max) add(time_passes, 0);
  }

  /// Closes the pools once all processes are done. Returns true if it has closed any.
  bool close_all() {
    const bool wanted = std::any_of(processes_.begin(), processes_.end(),
                                    [](const process& p) { return p.alive && p.stage != stage::done; });
    if (wanted) return false;
    bool any = false;
    for (process& p : processes_) {
      if (!p.alive || p.closing) continue;
      p.closing = any = true;
      step(p, event::close{false});
    }
    return any;
  }
  bool all_over() const {
    return std::all_of(processes_.begin(), processes_.end(), [](const process& p) { return !p.alive || p.closed; }) &&
           look().contenders.empty();
  }

  void pass_time() {
    time_point next = now_ + ttl;
    for (const process& p : processes_)
      if (p.alive) next = std::min(next, p.pool.wake());
    for (const message& m : messages_)
      if (is_watch(m) && !m.reply && !m.ghost) next = std::min(next, now_ + wait_of(m));
    now_ = std::max(now_, next);
    tell([&] { return "-- " + std::to_string((now_ - time_point{}) / 1us) + " us"; });
    consul_.advance(now_);
    for (process& p : processes_)
      if (p.alive && p.pool.wake() <= now_) step(p, event::tick{});
  }

  // --- checks

  void check_all() {
    referee_.check_believers(now_);
    const snapshot seen = look();
    for (const process& p : processes_) {
      if (!p.alive) continue;
      const auto named =
          std::count_if(p.sessions.begin(), p.sessions.end(), [&](const auto& s) { return seen.holds(s); });
      if (referee_.believed(p.number, now_) > static_cast<std::uint32_t>(named))
        referee_.object(guarantee::backing, name(p) + " believes that it holds, and the record does not");
    }
    if (messages_.size() > 50) referee_.object(guarantee::cost, "requests pile up");
    for (const process& p : processes_)
      if (p.alive) check_wake(p);
  }
  /// Time alone changes nothing before the core is woken: a tick just before that does nothing. A tick at once shows no
  /// earlier time to be woken at.
  void check_wake(const process& p) {
    const time_point wake = p.pool.wake();
    for (const time_point when : {now_, std::min(wake, now_ + 24h) - 1ns}) {
      protocol::pool copy = p.pool;
      core_actions all;
      copy.step(event::tick{}, when, all);
      if (!all.empty() || copy.wake() < wake)
        referee_.object(guarantee::progress, name(p) + " is woken later than it has something to do");
    }
  }

  const interleaving_options options_;
  sabotage sabotage_;
  referee referee_;
  core_consul consul_;
  time_point now_{};
  std::vector<process> processes_;
  std::vector<message> messages_;
  std::vector<std::pair<int, core_event>> soon_;
  std::vector<std::string> orphans_;  ///< the sessions of processes that have crashed
  // The operator's state.
  std::size_t given_ = 0;                 ///< the number of commands that are carried out
  bool looked_ = false;                   ///< it has read for the current command
  std::optional<instruction> decided_{};  ///< its next write
  std::uint64_t seen_at_ = 0;             ///< the Raft index of the read from which `decided_` follows
  bool was_late_ = false;                 ///< it has let others write between a read and its write
  std::string target_{};                  ///< the session that it revokes or evicts
  std::set<std::string> evicted_{};       ///< the sessions that it has evicted
  bool fault_used_ = false;
  int late_steps_ = 0;  ///< how often time has passed while only late requests were pending
  std::vector<choice> choices_;
  std::vector<std::string>* const story_;
};

}  // namespace

interleaving_result explore(const interleaving_options& options) {
  using path = std::vector<model::choice>;
  /// A state, and a choice that is still to be taken there.
  struct branch {
    model state;
    path taken;  ///< the choices that led to the state
    model::choice next;
  };
  interleaving_result result;
  std::unordered_set<std::uint64_t> seen;
  std::vector<branch> open;
  // Follows the first choice of each state, and keeps the other choices for later.
  const auto follow = [&](model m, path taken) {
    while (m.violation().empty() && seen.insert(m.fingerprint()).second && !m.choices().empty()) {
      for (std::size_t n = m.choices().size(); n-- > 1;) open.push_back({m, taken, m.choices()[n]});
      taken.push_back(m.choices().front());
      m.take(taken.back());
    }
    if (m.violation().empty() && m.choices().empty()) {
      m.finish();
      ++result.runs;
    }
    result.states = seen.size();
    if (m.violation().empty()) return true;
    result.violation = m.violation();
    result.broken = m.broken();
    std::vector<std::string> story;
    model again(options, &story);
    for (const model::choice& each : taken) again.take(each);
    for (const std::string& line : story) result.story += line + "\n";
    return false;
  };
  if (!follow(model(options, nullptr), {})) return result;
  while (!open.empty()) {
    if (seen.size() > options.states_max) return result;
    branch next = std::move(open.back());
    open.pop_back();
    next.taken.push_back(next.next);
    next.state.take(next.next);
    if (!follow(std::move(next.state), std::move(next.taken))) return result;
  }
  result.complete = true;
  return result;
}

}  // namespace holdfast::test
