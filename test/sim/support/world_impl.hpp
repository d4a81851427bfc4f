// SPDX-FileCopyrightText: The holdfast authors
// SPDX-License-Identifier: BSL-1.0

#pragma once

#include <algorithm>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <ostream>
#include <set>
#include <string>
#include <vector>

#include "protocol/administration/administration.hpp"
#include "protocol/core/core.hpp"
#include "protocol/election/election.hpp"
#include "protocol/pool/pool.hpp"
#include "sim/support/digest.hpp"
#include "sim/support/sabotage.hpp"
#include "sim/support/virtual_time.hpp"
#include "sim/support/world.hpp"
#include "support/core_consul.hpp"
#include "support/referee.hpp"

namespace holdfast::test {

using namespace protocol;
using namespace std::chrono_literals;

inline constexpr std::string_view world_prefix = "service/world/";
inline constexpr std::string_view world_lock_key = "service/world/.lock";
inline constexpr std::string_view world_mutex_entries = "service/world/.lock/";

/// The state and the rules of a simulated world. Its parts:
/// - world.cpp: time, the steps of the pools, and residents.
/// - world_users.cpp: the users that acquire and release slots.
/// - world_network.cpp: Consul, the requests to it, and the faults of single requests and answers.
/// - world_accidents.cpp: the other faults, and the table of all.
/// - world_makers.cpp: the files that show when a process is gone.
/// - world_strangers.cpp: contenders that use HashiCorp's Go client.
/// - world_sets.cpp: the differences of a mutex set.
/// - world_administrators.cpp: the commands of operators.
/// - world_elections.cpp: leaders and observers.
/// - world_checks.cpp: the guarantees that must hold.
class world {
public:
  world(world_options options, seeded_bug bug, const chronicle& told);
  world_result run();

private:
  using job = timetable::job;

  /// The state of a process that only observes the key of an election.
  struct spectator {
    protocol::observer core;
    request_id last_question = 0;
    request_id late_question = 0;  ///< the last question before Consul's index fell
    bool asks = false;             ///< the last question is pending
    std::uint64_t index = 0;       ///< the index of the last question
    std::size_t asked_at = 0;      ///< the key's state when it asked, as a position in `terms_`
    std::size_t told_at = 0;       ///< the state that it reported last, as a position in `terms_`
    std::optional<protocol::leading> told{};
    time_point in_touch_since = never;
    bool has_told = false;
  };
  struct process {
    int number = 0;
    std::unique_ptr<spectator> watching{};  ///< set if this process is an observer; an observer has no pool
    /// The last value that it certainly gave the key; the key has this value or one of `undecided`.
    std::string proclaimed{};
    /// The values of proclaims whose outcome is pending or unknown, each with the number of its last write.
    std::map<std::string, int> undecided{};
    int writes = 0;                                       ///< the number of writes that its proclaims have sent
    bool was_granted = false, was_granted_again = false;  ///< a session of it has taken the key, and once more
    int proclaims = 0;
    int proclaiming = 0;  ///< the number of pending proclaims
    std::unique_ptr<protocol::core> pool{};
    skewed_clock clock{};
    bool alive = true;
    bool paused = false;
    bool deaf = false;  ///< it runs again after its machine was suspended, and nothing has reached it yet
    time_point runs_since{};
    duration ran_for = std::chrono::hours(1);  ///< how long it ran before the last pause
    bool closing = false;
    int users = 0;
    std::optional<action::closed> closed{};
    std::deque<job> inbox{};  ///< what arrives during a pause, for the pool and for its users
    /// A reading of the clock from before a pause, which the next step takes for the current time.
    std::optional<time_point> read_at{};
    std::set<std::string> sessions{};  ///< all sessions that it was ever told of
    time_point tick_at = never;
    std::uint64_t last_ticket = 0;
    struct request {
      std::uint32_t count;
      bool patient;
      int user;
      std::size_t lock = 0;  ///< the requested lock of a mutex set
      time_point asked_at{};
      bool was_in_use = false;  ///< this process had the lock or asked for it already when the request began
      duration patience = duration::max();  ///< the time until its deadline
    };
    std::map<ticket, request> requests{};
    std::map<slot_id, std::size_t> locks{};  ///< the locks of a mutex set, by slot, until they are released
    std::map<slot_id, int> one_by_one{};     ///< slots that are released one by one, each with its user
    /// When Consul last refused it a lock for a reason that justifies a denial.
    std::map<std::size_t, time_point> denied{};
    /// The lease ends of the slots that its users hold, on its own clock.
    std::map<slot_id, time_point> leases{};
    std::map<slot_id, std::vector<std::uint32_t>> numbers{};
    std::map<slot_id, std::vector<std::string>> held_by{};  ///< the sessions of the slots that its users hold
    /// A lost slot on which a user still acts.
    struct body {
      std::vector<std::string> sessions;
      time_point protected_until;
    };
    std::map<slot_id, body> bodies{};
    std::set<slot_id> lost{};                    ///< lost slots that its users have not released yet
    time_point let_go_at{};                      ///< when a user last released a lost slot
    std::deque<protocol::core::entry> guards{};  ///< the entries of the last slots that its users had
    std::map<slot_id, time_point> releasing{};   ///< pending releases, and when each began
    bool may_read_nodes = true;
    std::string just_renewed{};       ///< the session whose renewal is being reported to it
    std::set<std::string> entered{};  ///< sessions that it knows to have had an entry
    time_point cut_off_until{};       ///< until then nothing passes between it and Consul
    time_point refused_until{};       ///< until then its agent is down, and its requests fail
    time_point ill_until{};           ///< until then the health check of its agent's node fails
    time_point errors_until{};        ///< until then all its requests fail with `answered_with`
    error_code answered_with{};
    time_point hidden_since{}, hidden_until{};  ///< in this time its reads show `shown`, and not what is there
    time_point misled_until{};                  ///< the last of their answers comes then
    std::vector<kv_entry> shown{};
    time_point hangs_until{};     ///< until then its application does not answer
    time_point asked_at = never;  ///< when it was asked, until it answers
    bool by_turns = false;        ///< only every other read shows that
    mutable bool turn = false;
    time_point distrusts_until{};       ///< it has said that several Consuls answer
    time_point unbacked_since = never;  ///< since when Consul's state has not backed a belief of it
    time_point untold_since = never;    ///< since when it has owed a user the news of a revocation
    time_point clear_since = never;     ///< since when nothing has kept it from hearing what happens in Consul
    std::set<slot_id> revoked{};        ///< slots whose users it has notified of a revocation
    std::deque<time_point> sent{};      ///< the times of its requests in the last second
    std::deque<time_point> wishes{};    ///< the times of its users' requests and releases in the last second
    std::deque<time_point> reads{};     ///< the times of those that read everything and do not block
    std::deque<time_point> written{};   ///< the times of its transactions in the last second
    /// The times and sizes (bytes) of the replies to its reads in the last second.
    std::deque<std::pair<time_point, std::size_t>> answers{};
    std::size_t bytes_max = 0, entries_max = 0;  ///< the largest reply, in bytes and in entries
    std::uint64_t index_seen = 0;                ///< the highest index that it was told
    bool has_run_directory = false;
    bool watches_makers = false;
    std::set<std::string> files{};               ///< its sessions that have a file in the run directory
    std::map<std::string, time_point> proofs{};  ///< when it was told that the maker of a session is gone
    time_point waits_since = never;              ///< since when it has waited for other processes without a break
    /// Sessions that a read which was not outdated has shown it as holders.
    std::set<std::string> holders_seen{};
  };
  /// The outcome of one request. It is drawn when the request is sent.
  struct fate {
    duration there{}, back{};
    bool applied = true, answered = true, not_sent = false;
    error_code why{};             ///< the error if it is not answered; none: the time limit expires
    duration late{};              ///< if not 0: it is applied this long after it was sent, when its sender has given up
    duration again{};             ///< if not 0: it is applied a second time, this long after it was sent
    bool answers_second = false;  ///< it is applied twice at once, and the second reply is the answer
  };
  struct watch {
    process* owner;
    request_id id;
    testing::subject what;
    std::uint64_t index;
    time_point until;
    duration back;
    bool answered;
    error_code why;
    duration wait{};  ///< how long the agent really waits, if it reports that; 0: as long as requested
    /// Where the store waits for it; none: `answer_watches` has to look at it.
    std::optional<testing::store::watch_id> waits{};
  };
  /// When a session ends, if that is before the store ends it. The store ends a session after twice its TTL, as Consul
  /// does, but Consul promises only the TTL. So half of the sessions end after one TTL, a quarter some time later, and
  /// the store ends the rest.
  struct lease {
    duration life;
    time_point ends;
  };
  /// A simplified contender with HashiCorp's Go client. It writes the record itself, and never checks whether the
  /// record still names it.
  struct stranger {
    int number = 0;
    std::string session{};
    enum { outside, waiting, taking, holding, leaving } state = outside;
    bool abandoned = false;  ///< it stays in the queue and never takes a slot
    lock_record seen{};      ///< the record that it is about to write while `taking`
    std::uint64_t seen_at = 0;
  };

  /// One kind of fault. It happens again and again until the faults end.
  struct accident {
    bool world_options::*in;  ///< the option of the worlds in which it happens
    const char* words;        ///< its name in the stories of such worlds
    /// Makes it happen once and schedules the next time; null: other code makes it happen.
    void (world::*happens)();
    bool fails_acquires, loses_slots;  ///< it is a sufficient cause of a failed acquire, and of a lost slot
  };
  /// All accidents, in the order in which their first times are drawn. A new one is added at the end.
  static const std::vector<accident> accidents;
  bool any(bool accident::*causes) const {
    return std::any_of(accidents.begin(), accidents.end(),
                       [&](const accident& each) { return options_.*each.in && each.*causes; });
  }

  // world.cpp
  time_point now() const { return time_.now(); }
  void in(duration delay, job what) { time_.in(delay, std::move(what)); }
  void run_until(time_point end);
  bool somebody_is_busy() const;  ///< a process waits for a slot, holds or releases one
  void start_process();
  void settle_residents();
  std::string add_resident();
  void end_a_resident();
  void replace_residents();
  void when_running(process& p, job what);
  void deliver(process& p, core_event e);
  void step(process& p, core_event e);
  void tick_when_due(process& p);
  bool faults() const { return now() < faults_end_; }
  duration give_up_after() const { return std::chrono::seconds(1) + 20 * options_.slowest(); }
  bool is_far(const process& p) const { return options_.far_latency_max != 0s && p.number % 2 == 1; }
  bool has_hasty_user(const process& p) const { return options_.hasty_user && p.number == 2; }
  bool is_hasty(const process& p, int user) const { return has_hasty_user(p) && user == 0; }
  duration latency_max(const process& p) const {
    if (has_hasty_user(p)) return std::chrono::milliseconds(1);
    return is_far(p) ? options_.far_latency_max : options_.latency_max;
  }
  bool calm() const { return now() >= calm_; }
  bool settled() const { return now() >= settled_; }
  /// True if the process may take its application for one that hangs.
  bool may_be_silent(const process& p) const {
    const bool has_not_answered = p.asked_at != never && now() - p.asked_at >= options_.alive_within / 2;
    return has_not_answered || (options_.hangs && now() <= p.hangs_until + std::chrono::milliseconds(10));
  }
  /// True if a slot that nobody holds may be kept from waiters for as long as somebody may believe in it.
  bool keeps_slots_of_the_lost() const {
    return options_.health_checks || options_.operators || options_.locks != 0 || options_.hidden_writes;
  }

  // world_users.cpp
  void again(process& p, int user);
  void ask(process& p, int user);
  void cancel(process& p, ticket t);
  void release(process& p, slot_id slot, int user);
  void close(process& p);
  void go_on(process& p, const action::lose& lost);
  void let_go(process& p, slot_id slot);
  void answer(process& p, ticket t);
  void ended(process& p, slot_id slot, timeline::end how);
  time_point truly(const process& p, time_point deadline) const { return p.clock.truly(deadline); }
  void perform(process& p, action::grant& a);
  void perform(process& p, action::deny& a);
  void perform(process& p, action::fail& a);
  void perform(process& p, action::released& a);
  void perform(process& p, action::lose& a);
  void perform(process& p, action::revoke& a);
  void perform(process& p, action::update& a);
  void perform(process& p, action::closed& a);
  void perform(process& p, action::note& a);
  void perform(process& p, action::ask_alive& a);

  // world_elections.cpp
  void start_observer();
  void campaign_is_over(process& p);
  void retire(process& p);
  void proclaim_while(process& p, slot_id slot, duration held);
  void proclaim(process& p, slot_id slot);
  void proclaim_beside(process& p, slot_id slot);
  void try_to_proclaim(process& p, slot_id slot, std::shared_ptr<proclamation> wish);
  void ask_who_leads(process& p);
  void step_of_an_observer(process& p, core_event&& e);
  template <class Answer>
  void hear_who_leads(process& p, Answer&& answer);
  void cancel_question(process& p);
  void note_office();
  void take_office(const leading& seen);
  void check_value(const kv_entry& key);
  void check_news(process& p, const std::optional<leading>& told);
  void check_observers();
  void let_index_fall();

  // world_network.cpp
  void answer_with_errors();
  fate draw_fate(const process& p);
  error_code some_error();
  static error_code why_not(const fate& f);
  bool is_answered(const process& p, const fate& f) const { return f.answered && now() >= p.cut_off_until; }
  void perform(process& p, action::create_session& a);
  void perform(process& p, action::register_node& a);
  void perform(process& p, action::renew_session& a);
  void perform(process& p, action::destroy_session& a);
  void perform(process& p, action::send_txn& a);
  void perform(process& p, action::list_prefix& a);
  void perform(process& p, action::watch_key& a);
  void perform(process& p, action::read_node& a);
  void perform(process& p, action::stop_watch& a);
  void perform(process& p, action::watch_makers& a);
  void perform(process& p, action::forget_session& a) { p.files.erase(a.session); }
  /// `sender` is a process, or null for an operator.
  consul::txn_reply transact(const process* sender, const std::vector<kv_operation>& operations);
  /// Sends one transaction of a process. `then` is called with its outcome as soon as the process runs.
  void send(process& p, request_id id, std::vector<kv_operation> operations, std::function<void(event::txn_done)> then);
  void look_at_key(process& p, std::function<void(event::key_watched)> then);
  void query(process& p, request_id id, testing::subject what, std::uint64_t index, duration wait);
  void answer_watches();
  void answer_watch(std::size_t i);
  core_event answer_to(const watch& w) const;
  void hide(const process& from, core_event& answer, std::string_view name) const;
  static core_event failure_of(request_id id, const testing::subject& what,
                               const error_code& why = make_error_code(error::timed_out));
  std::optional<std::size_t> find_watch(const process& p, request_id id) const;
  void end_watch(std::size_t i);
  void fail_watches(const process* of, duration within, const error_code& why = make_error_code(error::timed_out));
  void answer_create(process& p, const action::create_session& a, const std::string& id, failure why);
  std::string create_session(const process& p);
  bool renew_session(const std::string& id);
  void end_sessions();

  // world_accidents.cpp
  process* some_process();
  void crash();
  void pause();
  void pause(process& p, duration length);
  void hear(process& p);
  void wake_up(process& p, duration timer);
  void partition();
  void restart_agent();
  void fail_over();
  void change_load();
  void hide_writes();
  void hang();
  void deregister();
  void fail_health_check();
  std::string node_of(const process& p) const;
  void note_holders_seen(process& p, const core_event& e);
  static bool believes_by(const process& p, const std::string& session);
  void excuse_newcomer(const process* sender, const snapshot& before);
  void meddle();
  bool meddle_once();
  bool excuse_holder_of(const std::string& session);
  void forget_history();
  void again_later(void (world::*accident)());
  void mark(const std::string& words) const;
  void mark(const process& p, const std::string& words) const;
  void shade(const process& p, duration length, const std::string& words) const;

  // world_makers.cpp
  void tell_of_maker(process& p, const std::string& session);
  void tell_all_of(const process& maker);
  void remove_file(const std::string& session);
  void check_makers();

  // world_strangers.cpp
  void start_stranger(int number);
  void stranger_step(std::size_t i);
  bool write_record(const lock_record& record, std::uint64_t index);
  bool write_mutex(kv_verb how, const std::string& session);

  // world_sets.cpp
  std::unique_ptr<protocol::core> make_set(const pool_options& like);
  void ask_for_a_lock(process& p, int user);
  void release_one(process& p);
  consul::txn_reply transact_of_a_set(const process* sender, const std::vector<kv_operation>& operations);
  std::optional<std::size_t> lock_of(const std::string& key) const;
  void check_denied(const process& p, const process::request& wish);
  void check_locks();
  void check_answered();
  void check_forsaken();
  void check_no_lock_left();

  // world_administrators.cpp
  using order = std::function<instruction(const inspection&, bool first_read)>;
  void administrate(int number);
  order some_order(int number);
  void carry_out(int number, order what, bool first_read);
  void write_order(int number, order what, const instruction& next);
  void grant_the_rest(int number, order what);
  void restore_order();

  // world_checks.cpp
  snapshot standing() const;
  const snapshot& look();
  bool anyone_is_orphaned() const;
  std::uint32_t limit();
  /// True while nothing is promised about what backs a belief in Consul.
  bool is_excused() const { return referee_.excused(now()); }
  /// True if Consul has ended the session before its time, and its holder may not know that yet.
  bool is_forgotten(const std::string& session) const {
    const auto at = forgotten_.find(session);
    return at != forgotten_.end() && now() < at->second.until;
  }
  bool is_forgotten(const process& p, slot_id slot) const;
  bool is_excused(const process& p, slot_id slot) const;
  void object(guarantee broken, const std::string& what) { referee_.object(broken, what); }
  void check_all();
  void check_record(const process* sender, const snapshot& before);
  void check_order(const process* sender, const snapshot& before);
  void check_withheld();
  void check_revoked();
  void check_backing();
  void check_numbers();
  void check_guards();
  void check_bodies();
  void check_told();
  bool is_disturbed(const process& p) const;
  /// True if an answer that hides something may still be on its way.
  bool is_hidden_from(const process& p) const {
    return now() <= std::max(p.hidden_until + latency_max(p), p.misled_until);
  }
  void check_use();
  bool waits_behind_a_wide_request(const process& of, std::size_t free) const;
  void check_all_are_granted();
  void check_drained();
  void check_left(const process& p, const snapshot& left);
  void check_closed();
  void note_request(process& p);
  void note_read(process& p);
  void note_answer(process& p, const core_event& answer);
  void note_open_grants();
  std::size_t overdue_grants() const;
  void check_size(const std::vector<kv_operation>& operations);

  template <class Text>
  void say(Text text) const {
    if (told_.story) tell(text());
  }
  void tell(std::string line) const;
  static std::string name(const process& p) { return "process " + std::to_string(p.number); }
  template <class Number>
  static std::string number(Number n) {
    return std::to_string(static_cast<std::uint64_t>(n));
  }
  static std::string text(const fate& f);
  static std::string describe(const std::vector<kv_operation>& operations);
  static std::string describe(const std::vector<protocol::event::refused_operation>& refusals);

  /// Administrators raise the limit by at most this.
  static constexpr std::uint32_t more_limit_ = 2;
  std::uint32_t most_slots() const { return options_.limit + (options_.administrators != 0 ? more_limit_ : 0); }
  static constexpr std::size_t guards_max_ = 8;
  /// The time limit of a request.
  static constexpr duration timeout_ = 400ms;

  world_options options_;
  std::vector<std::string> lock_names_;
  /// A lock that no user holds although a session that lives on has locked its key.
  struct forsaken_lock {
    time_point since = never;
    std::uint64_t made_at = 0;  ///< the CreateIndex of its key
  };
  std::vector<forsaken_lock> forsaken_;  ///< indexed by lock
  sabotage sabotage_;
  const chronicle told_;
  dice random_;
  timetable time_;
  referee referee_;
  core_consul consul_;
  world_result result_;
  digest trace_;

  std::vector<std::unique_ptr<process>> processes_;
  int last_process_ = -1;
  std::vector<std::unique_ptr<process>> retired_;  ///< candidates whose campaigns are over
  std::deque<stranger> strangers_;
  std::vector<std::string> residents_;
  /// By session: the entry's ModifyIndex, and since when the grant has been open.
  std::map<std::string, std::pair<std::uint64_t, time_point>> open_grants_;
  std::vector<watch> watches_;
  std::map<std::string, lease> leases_;  ///< sessions that end before the store ends them
  time_point next_end_ = never;          ///< no session of `leases_` ends before this
  std::deque<time_point> events_;        ///< the times of the events that pools received in the last second
  std::deque<time_point> news_;          ///< the times of users' requests and of writes in the last second
  std::set<std::string> unwanted_;       ///< sessions that their process, or an administrator, wants to end
  std::set<std::string> given_up_;       ///< sessions that were alive when their process asked to destroy them
  time_point no_leader_until_{};
  /// Until then a new leader denies some sessions, because it has not heard of them.
  time_point denies_until_{};
  /// A session that ended before its time.
  struct forgotten {
    time_point until;        ///< from then on nobody believes in its slot any more
    std::set<int> bereaved;  ///< the processes that had a session which ended at the same time
    /// Its slot is granted to another while its holder believes, and nobody could prevent that.
    bool excused = false;
  };
  std::map<std::string, forgotten> forgotten_;
  time_point strays_until_{};            ///< until then a write from an earlier history may still arrive
  std::optional<testing::store> image_;  ///< an operator's snapshot of Consul's state

  snapshot seen_;              ///< Consul's state when `look` last read it
  std::uint64_t seen_at_ = 0;  ///< the Raft index of `seen_`
  std::size_t holders_ = 0;    ///< the number of live holders in `seen_`
  /// Since when the record has been closed, or has had more live holders than its limit.
  time_point withheld_since_ = never;
  std::uint64_t checked_at_ = 0;
  bool beliefs_changed_ = false;
  time_point free_since_ = never;
  std::string head_;  ///< the first session that waits, when `check_use` last looked
  /// Until then, a process that may have lost its node may spare holders that it has not seen.
  time_point bereft_until_{};
  time_point withheld_until_{};  ///< until then, a holder whose session ended before its time may still believe

  // Elections.
  /// A state of the election's key. The holder is sure if its grant needs no acceptance, or if it has accepted it.
  struct term {
    std::optional<leading> holder{};
    bool is_sure = true;
    bool is_open = false;  ///< the grant has no acceptance (any more): observers may report that nobody leads
    bool operator==(const term&) const = default;
    /// The leader that observers report.
    std::optional<leading> leader() const { return is_sure ? holder : std::nullopt; }
  };
  std::vector<term> terms_{term{}};  ///< all states of the key so far, in order
  time_point term_since_{};          ///< when the leader last changed
  /// Processes whose grants were taken back, by name, with the Raft index of the last time.
  std::map<std::string, std::uint64_t> doubted_{};
  std::uint64_t key_index_ = 0;                 ///< the Raft index at which `note_office` last looked
  std::map<std::string, process*> candidates_;  ///< by session
  std::string in_office_{};                     ///< the last session that had locked the key
  bool key_restored_ = false;  ///< the key comes from a restored snapshot, and no session has taken it since
  time_point observers_late_until_{};

  const time_point faults_end_;
  /// By then the consequences of the faults are over: the longest lease has ended, and late writes have arrived.
  const time_point calm_;
  /// From then on nothing keeps a free slot from a waiter. Sessions of dead processes may still exist.
  const time_point settled_;
  const time_point last_call_;
  const time_point drained_;
};

}  // namespace holdfast::test
