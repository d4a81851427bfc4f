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

#include "protocol/administration.hpp"
#include "protocol/core.hpp"
#include "protocol/election.hpp"
#include "protocol/pool.hpp"
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

/// world.cpp: time, and what a step of a pool is. world_users.cpp: who acquires and releases. world_network.cpp:
/// Consul, and the way there. world_accidents.cpp: what goes wrong, apart from requests. world_strangers.cpp: Go's
/// contenders. world_sets.cpp: what is different with a mutex set. world_administrators.cpp: operators' orders.
/// world_elections.cpp: who leads, and who watches that.
/// world_checks.cpp: what must hold.
class world {
public:
  world(world_options options, seeded_bug bug, const chronicle& told);
  world_result run();

private:
  using job = timetable::job;

  /// Who only watches the key of an election.
  struct spectator {
    protocol::observer core;
    request_id last_question = 0;
    request_id late_question = 0;  ///< the last one before Consul's index fell
    bool asks = false;             ///< that is under way
    std::uint64_t index = 0;       ///< asked with
    std::size_t asked_at = 0;      ///< what stood in the key then, by its place in `terms_`
    std::size_t told_at = 0;       ///< what it told last, the same
    std::optional<protocol::leading> told{};
    time_point in_touch_since = never;
    bool has_told = false;
  };
  struct process {
    int number = 0;
    std::unique_ptr<spectator> watching{};  ///< it is one, and has no pool
    std::string proclaimed{};               ///< the value that it last gave the key, or
    /// One of these, by proclaims of which it has not heard what became; each with the number of its last write.
    std::map<std::string, int> undecided{};
    int writes = 0;                                       ///< that its proclaims have sent
    bool was_granted = false, was_granted_again = false;  ///< its session had locked the key
    int proclaims = 0;
    int proclaiming = 0;  ///< proclaims that are pending
    std::unique_ptr<protocol::core> pool{};
    skewed_clock clock{};
    bool alive = true;
    bool paused = false;
    bool deaf = false;  ///< it runs, and nothing has come yet: its machine was suspended
    time_point runs_since{};
    duration ran_for = std::chrono::hours(1);  ///< before the last pause
    bool closing = false;
    int users = 0;
    std::optional<action::closed> closed{};
    std::deque<job> inbox{};              ///< what comes during a pause, for the pool and for its users
    std::optional<time_point> read_at{};  ///< the clock was read then, before a pause: the next step believes it
    std::set<std::string> sessions{};     ///< all that it was ever told of
    time_point tick_at = never;
    std::uint64_t last_ticket = 0;
    struct request {
      std::uint32_t count;
      bool patient;
      int user;
      std::size_t lock = 0;  ///< of a set: which
      time_point asked_at{};
      bool was_in_use = false;  ///< here, when it was asked for
    };
    std::map<ticket, request> requests{};
    std::map<slot_id, std::size_t> locks{};      ///< of a set: the slots' names, until they are released
    std::map<slot_id, int> one_by_one{};         ///< users that have slots to release, where that is done one by one
    std::map<std::size_t, time_point> denied{};  ///< when Consul last refused it a lock that somebody else had
    std::map<slot_id, time_point> leases{};      ///< of what its users hold; on its own clock
    std::map<slot_id, std::vector<std::uint32_t>> numbers{};
    std::map<slot_id, std::vector<std::string>> held_by{};  ///< the sessions of what its users hold
    /// What its users go on with, though it is lost.
    struct body {
      std::vector<std::string> sessions;
      time_point protected_until;
    };
    std::map<slot_id, body> bodies{};
    std::set<slot_id> lost{};                    ///< of which its users have not let go
    time_point let_go_at{};                      ///< when they last did
    std::deque<protocol::core::entry> guards{};  ///< of the last slots that its users had
    std::map<slot_id, time_point> releasing{};   ///< since when
    bool may_read_nodes = true;
    std::string just_renewed{};       ///< the session whose renewal it is being told of
    std::set<std::string> entered{};  ///< sessions that had an entry, as it was told
    time_point cut_off_until{};       ///< from Consul: nothing arrives
    time_point refused_until{};       ///< its agent is down: nothing is sent
    time_point ill_until{};           ///< the health check of its agent's node fails
    time_point errors_until{};        ///< all it asks is answered with this
    error_code answered_with{};
    time_point unbacked_since = never;  ///< it has believed in more than the record names
    time_point untold_since = never;    ///< it has not told a user of an operator's wish
    time_point clear_since = never;     ///< nothing has kept it from hearing what happens in Consul
    std::set<slot_id> revoked{};        ///< whose users it has told
    std::deque<time_point> sent{};      ///< its requests of the last second
    std::deque<time_point> reads{};     ///< of these, those that read everything at once
    std::deque<time_point> written{};   ///< of its requests, the transactions
    std::deque<std::pair<time_point, std::size_t>> answers{};  ///< the bytes of the reads of the last second
    std::size_t bytes_max = 0, entries_max = 0;                ///< of one answer
    std::uint64_t index_seen = 0;                              ///< the highest that it was told
    std::set<std::string> holders_seen{};  ///< sessions that it was shown as holders, by what was new to it then
  };
  /// What becomes of one request.
  struct fate {
    duration there{}, back{};
    bool applied = true, answered = true, not_sent = false;
    error_code why{};             ///< of one that is not answered, if not that time is over
    duration late{};              ///< applied only then, long after its sender gave up
    duration again{};             ///< applied a second time then, before its answer
    bool answers_second = false;  ///< and that is what is answered
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
    duration wait{};  ///< that it really had, if that is told; 0: the one that was asked for
    std::optional<testing::store::watch_id> waits{};  ///< none: to be looked at
  };
  /// The store ends a session after twice its TTL, as Consul does; what Consul promises is the TTL. So half of the
  /// sessions end after that, a quarter some time later, and the store ends the rest.
  struct lease {
    duration life;
    time_point ends;
  };
  /// HashiCorp's client, in short: one contender, which writes the record itself and never looks for itself in it.
  struct stranger {
    int number = 0;
    std::string session{};
    enum { outside, waiting, taking, holding, leaving } state = outside;
    bool abandoned = false;  ///< it queues, and never takes its slot
    lock_record seen{};      ///< while taking
    std::uint64_t seen_at = 0;
  };

  /// One kind of what goes wrong, as long as faults last.
  struct accident {
    bool world_options::*in;           ///< which worlds it happens in
    const char* words;                 ///< of which their stories say that
    void (world::*happens)();          ///< once, and sets the next; null: something else in the world does it
    bool fails_acquires, loses_slots;  ///< those that do need no other cause
  };
  /// All of them, in the order in which their first times are drawn: a new one's place is the end.
  static const std::vector<accident> accidents;
  bool any(bool accident::*causes) const {
    return std::any_of(accidents.begin(), accidents.end(),
                       [&](const accident& each) { return options_.*each.in && each.*causes; });
  }

  // world.cpp
  time_point now() const { return time_.now(); }
  void in(duration delay, job what) { time_.in(delay, std::move(what)); }
  void run_until(time_point end);
  bool somebody_is_busy() const;  ///< waits, holds or releases
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
  /// What nobody has may be kept from others, as long as somebody may believe in it.
  bool keeps_slots_of_the_lost() const { return options_.health_checks || options_.operators || options_.locks != 0; }

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
  /// `sender`: a process, or null for an operator.
  consul::txn_reply transact(const process* sender, const std::vector<kv_operation>& operations);
  /// One transaction of a process; `then`: once it runs, and has heard what became of it.
  void send(process& p, request_id id, std::vector<kv_operation> operations, std::function<void(event::txn_done)> then);
  void look_at_key(process& p, std::function<void(event::key_watched)> then);
  void query(process& p, request_id id, testing::subject what, std::uint64_t index, duration wait);
  void answer_watches();
  void answer_watch(std::size_t i);
  core_event answer_to(const watch& w) const;
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
  void answer_with_errors();
  void partition();
  void restart_agent();
  void fail_over();
  void change_load();
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
  /// Nothing is said of what stands in Consul behind a belief.
  bool is_excused() const { return referee_.excused(now()); }
  /// Its node was deregistered, and whoever believes in it cannot know yet.
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

  /// Limits are set up to so much more than the usual one.
  static constexpr std::uint32_t more_limit_ = 2;
  std::uint32_t most_slots() const { return options_.limit + (options_.administrators != 0 ? more_limit_ : 0); }
  static constexpr std::size_t guards_max_ = 8;
  /// How long a request may take.
  static constexpr duration timeout_ = 400ms;

  world_options options_;
  std::vector<std::string> lock_names_;
  /// A lock that nobody has, though a session that lives on has its key.
  struct forsaken_lock {
    time_point since = never;
    std::uint64_t made_at = 0;  ///< its key's CreateIndex
  };
  std::vector<forsaken_lock> forsaken_;  ///< by the locks
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
  std::vector<std::unique_ptr<process>> retired_;  ///< whose campaigns are over
  std::deque<stranger> strangers_;
  std::vector<std::string> residents_;
  std::map<std::string, std::pair<std::uint64_t, time_point>> open_grants_;  ///< by index, and since when
  std::vector<watch> watches_;
  std::map<std::string, lease> leases_;  ///< of sessions that end before the store ends them
  time_point next_end_ = never;          ///< of one of those, not before
  std::deque<time_point> events_;        ///< what pools were told in the last second
  std::deque<time_point> news_;          ///< what users asked for and what was written, in the last second
  std::set<std::string> unwanted_;       ///< sessions that their process wants to end
  std::set<std::string> given_up_;       ///< of these, those that lived when their process asked for their end
  time_point no_leader_until_{};
  time_point denies_until_{};  ///< a new leader sessions that it has not heard of
  /// What ended with it while it held.
  struct forgotten {
    time_point until;        ///< then nobody believes in it any more
    std::set<int> bereaved;  ///< processes that had a session, which ended too
    bool excused = false;    ///< somebody is granted beside who believes by it, which nobody could prevent
  };
  std::map<std::string, forgotten> forgotten_;
  time_point strays_until_{};            ///< a write of another history may still come
  std::optional<testing::store> image_;  ///< an operator's copy of all

  snapshot seen_;  ///< at this Raft index:
  std::uint64_t seen_at_ = 0;
  std::size_t holders_ = 0;  ///< live ones, in it
  /// Since when the record has been closed, or has named more than its limit.
  time_point withheld_since_ = never;
  std::uint64_t checked_at_ = 0;
  bool beliefs_changed_ = false;
  time_point free_since_ = never;
  std::string head_;             ///< of the queue, since a slot is free
  time_point bereft_until_{};    ///< a process that may have lost its node spares holders that it has not seen
  time_point withheld_until_{};  ///< a holder's session has ended before its time, and it may believe still

  // Of an election.
  /// A holder of the key. It is sure if it needs no acceptance, or has accepted its grant.
  struct term {
    std::optional<leading> holder{};
    bool is_sure = true;
    bool is_open = false;  ///< there is no acceptance (any more): observers may tell that nobody leads
    bool operator==(const term&) const = default;
    /// The leader that observers tell.
    std::optional<leading> leader() const { return is_sure ? holder : std::nullopt; }
  };
  std::vector<term> terms_{term{}};                 ///< all that there have been, in their order
  time_point term_since_{};                         ///< the last of them does
  std::map<std::string, std::uint64_t> doubted_{};  ///< by name: whose grants were taken back, and when by Raft's index
  std::uint64_t key_index_ = 0;                     ///< the Raft index that was looked at last
  std::map<std::string, process*> candidates_;      ///< by their sessions
  std::string in_office_{};                         ///< the session that had locked the key last
  bool key_restored_ = false;                       ///< from a snapshot; nobody has taken it since
  time_point observers_late_until_{};

  const time_point faults_end_;
  /// All that died before is over by then: the longest lease, and late writes.
  const time_point calm_;
  /// Nothing is in anybody's way any more. What died may still be there.
  const time_point settled_;
  const time_point last_call_;
  const time_point drained_;
};

}  // namespace holdfast::test
