#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "protocol/core.hpp"
#include "protocol/plan.hpp"
#include "protocol/slot_table.hpp"
#include "protocol/succession.hpp"
#include "protocol/view.hpp"
#include "protocol/waiter_queue.hpp"

namespace holdfast::protocol {

/// The semaphore's options as the core needs them; `semaphore_options` documents them.
struct pool_options {
  std::string prefix;    ///< what begins like this is listed and watched: with its trailing slash; a mutex's whole key
  std::string lock_key;  ///< whole
  record_form form = record_form::map;  ///< of the lock key: a semaphore's, if not `session`
  std::string description;
  std::uint32_t limit = 1;
  bool adopt = false;
  bool numbered = false;  ///< a slot is not used before its session has locked a number, too
  /// What makes wall-clock time, since 1970, of the core's. None: our entries say neither since when they stand, nor
  /// for how long we may believe in them.
  std::optional<duration> wall_offset{};
  /// Which node of Consul's catalog our sessions end with; empty: the agent's own.
  std::string node{usual_node};
  std::size_t waiters_max = 1'000'000;
  std::size_t request_bytes = request_bytes_max;  ///< the largest that Consul takes
  duration ttl = std::chrono::seconds(15);
  duration lease_margin = std::chrono::milliseconds(1500);
  duration tenure = std::chrono::milliseconds(100);
  duration idle{};
  duration outage_grace{};
  duration give_up_after = std::chrono::seconds(5);
  duration patience = std::chrono::milliseconds(500);
  duration lock_delay{};
  duration session_idle = std::chrono::seconds(60);
  /// A slot that is held for less gets no watch: a burst of short holds costs two writes each and nothing else.
  duration watch_delay = std::chrono::milliseconds(10);
  /// How long a slot may be held before an entry of ours is watched beside all the others, for the sake of deletions
  /// that a watch of everything is not told of.
  duration own_entry_delay = std::chrono::seconds(1);
  duration watch_wait = std::chrono::seconds(10);
  /// Where a slot was wanted again within this time lately, its giver queues again in the write that gives it away, and
  /// stands there for as long, whether or not it is wanted: a loop of acquire and release costs one write a turn.
  duration linger = std::chrono::milliseconds(5);
  /// With no more contenders than this, whoever watches anything watches all of it.
  std::size_t watch_all_max = 4;
  /// How long a waiter watches its own entry only, which is touched when it is granted: at least, and for each that may
  /// stand before it. Where slots move fast it needs nothing else; where they do not, it then looks after the others.
  duration own_watch = std::chrono::milliseconds(100);
  duration own_watch_each = std::chrono::milliseconds(5);
  /// Of a mutex: how long it goes from hand to hand before it is let go for once, with the head of the queue only
  /// woken. Clients of other kinds have no entry, and would get it never. 0: there are none.
  duration courtesy = std::chrono::seconds(1);
  /// How long the waiting behind the head of the queue leave it to the head's own process to take a free slot.
  duration grant_backup = std::chrono::milliseconds(100);
};

/// What contenders' keys begin with, before their sessions.
inline std::string entries_of(const pool_options& o) {
  return o.form == record_form::session ? o.lock_key + '/' : o.prefix;
}

/// acquire(n) joins in one transaction: n entries, the listing, and room for the write of the record.
inline constexpr std::uint32_t acquire_max = operations_max - 4;

/// One process's share of a semaphore: the local queue, the sessions that contend for it in the cluster, and every
/// decision about them. One transaction and one read are under way at a time, a few watches beside them, and one
/// renewal for each session.
///
/// The flow of a slot: an acquire queues -> sessions are created (`member`s) -> they join the cluster's queue, or take
/// a free slot in one write -> the record names them -> the slot is handed to the front of the local queue -> a release
/// hands it on locally, or `plan`s a write that gives it to whoever waits in the cluster.
class pool final : public core {
public:
  pool(pool_options options, std::uint64_t seed);

  void step(pool_event&& e, time_point now, pool_actions& out) override;

  bool only_queues() const override { return calm_ && in_use_ == limit_; }
  std::uint32_t limit() const override { return limit_; }
  std::size_t waiting() const override { return waiters_.size(); }
  std::size_t sessions() const override { return members_.size(); }
  std::vector<entry> entries_of(slot_id id) override;
  std::string lock_key(slot_id) override { return options_.lock_key; }

private:
  /// Where a session stands in the cluster, by the current view.
  enum class standing { absent, waiting, holding };
  enum class phase {
    creating,  ///< has no session yet
    ready,
    moving,  ///< a transaction that is under way, or of unknown outcome, adds or removes its entry
  };

  /// One session of ours.
  struct member : own_session {
    pool::phase phase = phase::creating;
    pool::standing standing = standing::absent;
    slot_id slot = slot_id::none;       ///< in a user's hands
    slot_id releasing = slot_id::none;  ///< the slot that a user gave back, until this session is free of it
    time_point granted_at{};            ///< by the cluster: the tenure runs from here
    time_point waiting_since{};         ///< in the cluster's queue
    time_point idle_since{};            ///< in nobody's hands since
    std::string text{};                 ///< what its entry says, for people
    std::uint64_t grant = 0;            ///< the index of the granting write
    std::uint64_t handoffs = 0;
    bool suspect = false;
    bool lingers = false;  ///< it has queued before it was wanted
    /// Its slot was lost. Until the user lets go of that, it is not ended, so that Consul keeps the slot from everybody
    /// else for as long as it can; and then it gives back what it has, and ends. It is neither renewed nor used again.
    bool lost = false;
  };

  struct slot {
    bool held = false;
    bool lost = false;     ///< its user was told, and has not let go yet
    bool revoked = false;  ///< its user was told
    std::vector<member*> members{};
    std::uint32_t releasing = 0;  ///< members not free of it yet
  };

  /// What one write does to our own entries, besides what `plan` does to the record.
  struct moves {
    std::vector<member*> give_back{};  ///< leave the record and the queue
    std::vector<member*> requeue{};    ///< leave the record or their place, and join at the back
    std::vector<member*> leave{};      ///< leave the queue
    std::vector<member*> join{};
    std::vector<member*> number{};         ///< hold, and take a number
    std::vector<std::uint32_t> numbers{};  ///< theirs
    /// Whether it leaves the record.
    bool gives() const {
      return !give_back.empty() || std::any_of(requeue.begin(), requeue.end(),
                                               [](const member* m) { return m->standing == standing::holding; });
    }
    bool empty() const {
      return give_back.empty() && requeue.empty() && leave.empty() && join.empty() && number.empty();
    }
  };

  /// What a transaction reads beside what it writes.
  enum class look { none, record, everything };

  /// A transaction under way. It names sessions, not members: those may be dropped meanwhile.
  struct pending_txn {
    request_id id = 0;
    time_point sent_at{};
    std::vector<operation> operations{};
    std::vector<member*> movers{};  ///< members whose entries it adds or removes
    std::vector<std::string> removed{};
    std::vector<std::pair<std::string, std::string>> inserted{};  ///< sessions, and what their entries say
    std::vector<slot_number> numbers{};                           ///< taken, and given back; without an index
    std::vector<std::string> granted{};                           ///< those that waited, ours or others'
    std::string woken{};                                          ///< whose entry it touches without a grant
    lock_record record{};
    std::uint64_t base = 0;  ///< the record's index that a guarded write rests on; 0: there must be none
    bool guarded = false;
    std::size_t record_operations = 0;  ///< the first ones: 0 if it leaves the record as it is
    bool frees = false;                 ///< leaves a slot free where there was none: those who came unseen do not know
    pool::look look = look::none;
    request_id looked_after = 0;  ///< outcome unknown: only requests after this one can tell
    /// It was refused. Something on the way may have repeated it, and what was refused is the copy.
    bool refused = false;
    bool by_record = false;  ///< only for the record's index: a look at that can tell
    failure why{};
  };

  /// A Go or guide contender that a slot is left free for.
  struct indulged {
    std::uint64_t modify_index = 0;
    time_point until{};
    bool passed_over = false;
  };

  /// Somebody else's session that holds. If it ends before its TTL, without its maker's doing, that believes in it for
  /// some time yet. So it does when Consul forgets the node that it belongs to.
  struct other_holder {
    duration lease{};  ///< for so long at most
    bool on_our_node = false;
    std::optional<std::uint32_t> number{};
    std::string witness{};  ///< a session of ours, of the same node, that stood beside it
    time_point gone_since = never;
    bool ended_alone = false;  ///< the witness has outlived it: the node is as it was
  };

  /// A blocking query.
  struct watch {
    std::string key;  ///< empty: everything
    std::uint64_t index = 0;
    duration wait{};
    request_id id = 0;
    time_point due{};  ///< about when it is answered even if there is nothing new
  };

  /// What local waiters need from the cluster, in the order of the queue.
  struct demand {
    std::uint32_t slots = 0;                ///< in all
    std::vector<std::uint32_t> requests{};  ///< each one's count
    bool looks = false;                     ///< a `once` waiter needs a fresh view
  };

  // pool.cpp: events
  void on(event::acquire& e);
  void on(event::cancel& e);
  void on(event::release& e);
  void on(event::close& e);
  void on(event::session_created& e);
  void on(event::session_renewed& e);
  void on(event::session_destroyed& e);
  void on(event::txn_done& e);
  void on(event::prefix_listed& e);
  void on(event::key_watched& e);
  void on(event::value_written& e);
  void on(event::node_registered& e);
  void on(event::tick&) {}

  // pool_local.cpp: time, leases, slots and the local queue
  void settle();
  bool serve_only();
  bool settled();
  void expire_waiters();
  void check_leases();
  void check_outage();
  time_point first_unanswered() const;
  bool is_stuck(const member& m);
  bool serving();
  void serve();
  void hand_over(const waiter& w);
  bool spent(const member& m) const;
  const slot_number* number_of(const member& m) const;
  bool lacks_number(const member& m) const { return options_.numbered && !number_of(m); }
  bool is_usable(const member& m) const { return !spent(m) && !lacks_number(m); }
  bool barred(const member& m) const;
  bool all_in_use();
  void give_up(slot& s, slot_id id);
  void lose(slot_id id, loss_reason reason, failure why = {});
  void lose_all(loss_reason reason, const failure& why = {});
  void let_go(slot& s, slot_id id);
  void let_go_of_all();
  void report(const member& m);
  void free_of_slot(slot_id& releasing, const failure* why = nullptr);
  void drop(member& m, loss_reason reason, failure why = {});
  void retire_sessions();
  void finish_close();
  void fail_waiters(const failure& why);
  bool fail_too_wide();

  // pool_watch.cpp: what we want to hear of
  void check_watches();
  std::vector<watch> wanted_watches();
  const member* long_holder();
  bool is_own_entry(const std::string& key);
  duration own_watch() const;
  bool must_know_who_comes() const;
  bool watches_everything() const;
  void start(watch w);
  void stop_sleeping_watches();
  std::optional<watch> take_watch(request_id id);
  void saw_record(std::optional<key_value> pair);
  void saw_entry(const watch& asked, std::optional<key_value> pair);
  void saw_grant(const key_value& pair);
  void saw_number(const watch& asked, std::optional<key_value> pair);
  void on_watch_failed(const watch& asked, failure why);

  // pool_cluster.cpp: what the cluster says, and what it means for us
  void adopt(boost::system::result<snapshot> listing, request_id id);
  void saw_own_join(const pending_txn& txn, snapshot seen);
  void refuse_listing(const error_code& why);
  void refresh();
  void refresh(member& m);
  void check_limit();
  void check_revoked();
  std::uint32_t limit_of(const lock_record& record) const {
    return options_.adopt && record.limit != 0 ? record.limit : options_.limit;  // 0: there is no record
  }
  void note_holders();
  void note_holder(const contender& entry, std::string_view beside, std::optional<std::uint32_t> number);
  bool is_spared(const other_holder& each);
  void node_may_be_gone(standing of_ours);
  void applied(pending_txn txn, std::vector<key_value> results);
  void refused(pending_txn txn, const std::vector<event::refused_operation>& refusals);
  void patch(snapshot& now, const pending_txn& txn, std::uint64_t index) const;
  void resolve();
  void resolve_by_record(std::uint64_t index);
  void settle_moves(const pending_txn& txn, bool maybe_applied);

  // pool_write.cpp: what we write
  void write();
  void write_from_view();
  void hand_on(const moves& what);
  demand wanted(const std::function<std::uint32_t()>& count_takeable);
  moves choose_moves(const demand& need);
  void cut(moves& what, std::size_t most) const;
  std::size_t moves_beside_record() const;
  std::size_t bytes_of_move() const;
  void join_whole_requests(moves& what, const demand& need, std::size_t supply);
  bool keeps(const member& m, const demand& need);
  std::size_t operations(const moves& what) const;
  std::vector<std::uint32_t> numbers_left(const moves& what, std::uint32_t limit) const;
  void choose_numbers(moves& what);
  void seek_numbers();
  plan_rules rules_for(const moves& what);
  void spare_the_unseen(plan_rules& rules);
  bool grants_something(const moves& what) const;
  bool may_grant(const grant_plan& next);
  time_point courtesy_at() const;
  bool is_courtesy_due() const { return now_ >= courtesy_at(); }
  bool indulge(const grant_plan& next);
  void create_sessions(std::size_t count);
  void read_prefix();
  void read_record();
  void send(const moves& what, grant_plan next, bool writes_record);

  // Small helpers
  std::string entry_key(std::string_view session) const { return entries_ + std::string(session); }
  std::uint64_t entry_flags() const { return contender_magic | (options_.numbered ? numbered_flag : 0); }
  std::string number_key(std::uint32_t number) const { return numbers_ + std::to_string(number); }
  auto snapshot_of(std::vector<key_value> listing, std::uint64_t index) const {
    return make_snapshot(entries_, options_.lock_key, std::move(listing), index, options_.form);
  }
  std::string entry_text() const;
  bool is_ours(std::string_view session) const;
  bool wide() { return !waiters_.empty() && waiters_.front().count > 1; }
  bool passed_over(std::string_view session) const;
  const member* find(std::string_view session) const;
  bool any_standing(standing where) const;
  bool grants_us(const lock_record& record) const;
  bool is_any_free() const;
  slot* find(slot_id id) { return slots_.find(id); }
  slot_id open_slot();
  failure too_many(std::uint32_t count) const;
  failure failed(error_code code, std::string text) const;

  const pool_options options_;
  const std::string entries_;
  const std::string numbers_;

  bool calm_ = false;     ///< when it last settled, there was nothing that a local event could have changed
  bool blind_ = false;    ///< when it last settled, nobody watched who comes, though nobody waited elsewhere
  bool suspect_ = false;  ///< a member is
  bool lost_ = false;     ///< a member is

  waiter_queue waiters_;
  std::map<member_id, member> members_;
  std::map<std::string_view, member*> by_session_;  ///< those of them that have one
  slot_table<slot> slots_;       ///< free places are those that nobody has, nor waits for the release of
  std::vector<member*> spares_;  ///< ready and holding, in nobody's hands
  std::uint32_t in_use_ = 0;     ///< members in users' hands, also those whose slots are lost

  view view_;
  time_point given_back_at_{};  ///< by a user, the last one
  bool returns_soon_ = false;   ///< the last one was wanted again at once
  bool contested_ = false;      ///< somebody else's contender waits
  bool foreign_ = false;        ///< there are contenders that nobody may grant, or a holder that grants nobody
  bool foreign_holder_ = false;
  bool owes_a_grant_ = false;  ///< to those whom a write of ours that freed a slot did not know of
  time_point listed_at_{};     ///< when everything was last seen
  std::uint32_t limit_;        ///< in force; what is configured, or adopted
  bool limit_disagrees_ = false;
  bool over_limit_ = false;  ///< more hold than the record allows: its limit was lowered
  std::map<std::string, indulged, std::less<>> indulged_;
  std::map<std::string, other_holder, std::less<>> holders_;  ///< others', by their sessions
  std::set<std::string, std::less<>> former_;                 ///< ours, gone, and maybe named by the record still
  time_point unseen_believe_until_{};                         ///< others, whose sessions may have ended with ours
  std::optional<std::string> value_;         ///< that our holder has written into a mutex's key, if not its description
  std::optional<std::string> value_before_;  ///< what it wrote last before that
  time_point free_at_{};                     ///< when a mutex was last seen free, or held by another kind of client
  time_point stalled_until_ = never;         ///< how long a free slot waits for another process to write the grant

  std::optional<pending_txn> txn_;
  std::optional<pending_txn> unresolved_;  ///< its outcome is unknown, and no later view has told yet
  request_id read_ = 0;
  time_point read_at_{};         ///< when it was sent
  time_point prefix_read_at_{};  ///< when the last one of everything was
  unsigned conflicts_ = 0;
  unsigned grants_refused_ = 0;  ///< releases in a row that were refused by those to whom they grant the slot
  time_point write_at_{};        ///< not before: others were writing too
  // One for each: where writes or new sessions fail and reads do not, a read's success must not end that.
  outage outage_;  ///< of reads
  outage write_outage_;
  outage create_outage_;  ///< of new sessions
  /// Consul keeps numbers for the lock delay of their last owners, and tells nobody when that ends.
  std::map<std::uint32_t, outage> number_delays_;
  outage number_outage_;           ///< no number could be had
  request_id numbers_sought_ = 0;  ///< the last request when none was free: only later ones are another look

  std::vector<watch> watches_;  ///< under way, the oldest first
  outage watch_outage_;
  time_point watch_all_until_{};  ///< the watch of a single key has failed
  time_point watch_own_entry_at_{};

  struct doomed : ending_session {
    slot_id releasing = slot_id::none;  ///< the slot that is given back by the session's end
    time_point answer_by = never;       ///< at the latest, with the reason below
    failure why{};
  };
  std::map<std::string, doomed, std::less<>> doomed_;  ///< sessions that must end

  bool closing_ = false;
  bool closed_ = false;
  bool nothing_in_use_ = false;  ///< all users have let go, and the deadline was set anew then
  time_point close_deadline_ = never;
};

}  // namespace holdfast::protocol
