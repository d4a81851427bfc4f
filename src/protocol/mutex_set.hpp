#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "protocol/closing.hpp"
#include "protocol/core.hpp"
#include "protocol/core_options.hpp"
#include "protocol/session_set.hpp"
#include "protocol/slot_table.hpp"
#include "protocol/succession.hpp"

namespace holdfast::protocol {

/// `holdfast::mutex_set_options` documents them.
using mutex_set_options = core_options;

/// Flags of the set's two keys of its own: a magic number in the high half. In those of the sequence guard the low half
/// is the number of the transaction that wrote it last.
inline constexpr std::uint64_t set_magic = std::uint64_t{0x68736574} << 32;

/// So many refused transactions a set remembers. If a copy of an earlier one is applied, it loses all of its locks.
inline constexpr std::size_t set_refused_max = 1024;

/// One process's locks below a prefix: any number of them, by one session. Each `acquire` is one look for one name.
///
/// One transaction is under way at a time; what is asked for meanwhile goes together into the next. Each begins with a
/// compare-and-set of the *sequence guard*, a key that nobody else writes, so it is applied once at most, and never
/// after a later one. Of a transaction of unknown outcome the next one that is applied, an empty one (the *barrier*),
/// says that it was not and never will be; if that is refused, the guard says which of the two was.
///
/// A transaction that Consul refused has not written the guard. If the network makes a copy of it, that may be applied
/// when the names are free: nobody here believes in what it locks, so it has to be found and unlocked. Therefore, if
/// any was refused since the guard was written last, an empty transaction follows the next renewal of the session.
///
/// A second key, which is never written again, is watched: it goes when the session ends, and all locks with it.
class mutex_set final : public core {
public:
  mutex_set(mutex_set_options options, std::uint64_t seed);

  void step(core_event&& e, time_point now, core_actions& out) override;

  core_status status() const override { return {asking_.size(), sessions_.size(), 1}; }
  std::vector<entry> entries_of(slot_id id) override;
  std::string lock_key(slot_id id) override;

private:
  enum class standing {
    wanted,   ///< to be locked
    held,     ///< in a user's hands
    lost,     ///< still there, but lost: until the user lets go, nobody else here gets it
    leaving,  ///< to be unlocked; whoever has asked meanwhile comes next
  };
  struct ending;
  /// All that is known of one name, as long as anybody here has to do with it.
  struct lock {
    mutex_set::standing standing = standing::wanted;
    std::optional<ticket> asked{};  ///< who waits for it; none: nobody, any more
    time_point came{};              ///< when that was
    request_id asked_after = 0;     ///< only later requests are a look for it
    slot_id slot = slot_id::none;   ///< in a user's hands, or whose release is not answered yet
    std::uint64_t grant = 0;        ///< the index of the locking write
    bool sent = false;              ///< it is in the transaction under way, or of unknown outcome
    bool is_rest = false;           ///< it was in a batch that locks of others may have had refused, and is to be sent
    ending* blocker = nullptr;      ///< the lost session that it waits for, as one of its `blocked`
  };
  using locks = std::map<std::string, lock, std::less<>>;
  using place = locks::value_type;
  struct slot {
    mutex_set::place* place = nullptr;  ///< of a slot in a user's hands
    bool releasing = false;             ///< a user waits for the end of its release
  };

  /// A part of a transaction.
  struct part {
    mutex_set::place* place = nullptr;
    bool locks = false;         ///< or else unlocks
    std::size_t operation = 0;  ///< its first one
    bool absent = false;        ///< its key was looked for, and is not there
    std::optional<event::refusal> refused{};
  };
  /// What a part of a refused transaction would have done.
  struct effect {
    std::string name;
    bool locks = false;  ///< or else unlocks
  };
  enum class request { opening, batch, barrier, read };
  /// How much is known of the transaction that was sent last.
  enum class doubt {
    none,
    unknown,  ///< it may be applied yet: a barrier will tell
    moved,    ///< the guard is not as it was: a look at it will tell
  };
  struct own : own_session {
    bool ready = false;  ///< it has been created
    bool open = false;   ///< it has its two keys
    std::uint64_t guard_index = 0;
    /// What the batches would do that were refused since the guard was last written, by the flags that they would give
    /// it: a copy of one of them, and of one only, may come late and be applied.
    std::map<std::uint64_t, std::vector<effect>> refused{};
    /// An empty batch is to be sent, which keeps copies out or finds the one that was applied.
    bool copies_due = false;
    void guard_is_at(std::uint64_t index) {
      guard_index = index;
      refused.clear();
      copies_due = false;
    }
  };
  struct ending : ending_session {
    time_point since{};
    std::set<std::string, std::less<>> names{};  ///< of keys that it may still have locked: they would be refused to us
    /// Slots that were lost with it, and whose users have not let go: until then it is not ended, so that Consul keeps
    /// the keys from everybody else for as long as it can, which is until `over_at`.
    std::vector<slot_id> lost{};
    time_point over_at{};
    std::vector<slot_id> releasing{};
    std::map<ticket, place*> blocked{};  ///< those of the names that somebody asks for: who came first is first
  };
  using set_of_sessions = session_set<own, ending>;

  // mutex_set.cpp: events, and what time brings
  void on(event::acquire& e);
  void on(event::cancel& e);
  void on(event::release& e);
  void on(event::close& e);
  void on(event::session_created& e);
  void on(event::node_registered& e);
  void on(event::session_renewed& e);
  void on(event::session_destroyed& e);
  void on(event::txn_done& e);
  void on(event::key_watched& e);
  void on(event::tick&) {}
  void advance();
  void check_lease();
  void check_watch();
  void check_outage();
  void check_releases();
  void forget_expired();
  void retire_sessions();
  void finish_close();

  // mutex_set.cpp: locks and those who ask for them
  void grant(place& at, std::uint64_t index);
  void want(place& at);
  void forget(place& at);
  void stop_asking(place& at);
  void fail_first(const failure& why);
  void fail_blocked();
  void fail_waiters(const failure& why);
  void release_done(place& at, const failure& why = {});
  void answer_release(slot_id id, const failure& why = {});
  void drop_session(loss_reason reason, failure why = {});
  void let_go(slot_id id);
  void let_go(ending& d, slot_id id);
  bool is_of_lost_session(slot_id id) const;
  ending* blocker_of(std::string_view name);
  set_of_sessions::ending_map::iterator has_ended(set_of_sessions::ending_map::iterator at);
  static bool is_held(const slot& s) { return s.place && s.place->second.standing == standing::held; }
  void report();

  // mutex_set_write.cpp
  void write();
  bool serving();
  void send_batch(bool empty = false);
  void add_parts(std::vector<kv_operation>& operations);
  void send_barrier();
  void send_read();
  void send(request what, std::vector<kv_operation> operations);
  kv_operation cas_guard(std::uint32_t number) const;
  void batch_done(event::txn_done& e);
  void barrier_done(event::txn_done& e);
  void read_done(event::txn_done& e);
  void batch_applied(const std::vector<kv_entry>& results);
  void batch_refused(const std::vector<event::refused_operation>& refusals);
  void part_refused(const part& each);
  void put_back();
  void copy_applied(const std::vector<effect>& effects);
  void not_done(event::txn_done& e);
  void refused_as_a_whole();

  /// Null: there is none.
  own* session() { return sessions_.empty() ? nullptr : &sessions_.begin()->second; }
  const own* session() const { return sessions_.empty() ? nullptr : &sessions_.begin()->second; }
  std::string session_key() const { return options_.prefix + ".sessions/" + session()->session; }
  std::string guard_key() const { return options_.prefix + ".writes/" + session()->session; }
  std::string key_of(const place& at) const { return options_.prefix + at.first; }
  failure failed(error_code code, std::string text) const;

  const mutex_set_options options_;

  locks locks_;
  std::map<ticket, place*> asking_;  ///< in the order in which they came
  std::deque<place*> wanted_;        ///< to be sent; what nobody asks for any more goes when its turn comes
  std::deque<place*> leaving_;       ///< to be sent
  std::deque<place*> denied_;        ///< to be unlocked, which ACL rules, say, forbid: tried again after pauses
  slot_table<slot> slots_;
  std::size_t held_ = 0;
  std::size_t lost_ = 0;                                 ///< as the set is closed: by the session that is still there
  std::deque<std::pair<time_point, slot_id>> releases_;  ///< in the order in which they began; some are answered

  set_of_sessions sessions_;  ///< one in use, at most
  time_point idle_since_{};
  bool suspect_ = false;

  request_id txn_ = 0;    ///< under way
  time_point sent_at_{};  ///< when it, or the last one, was sent
  request sent_ = request::batch;
  doubt doubt_ = doubt::none;
  std::vector<part> parts_;   ///< of the batch that was sent last, while its outcome is open
  std::size_t head_ = 0;      ///< how many of its operations come before them
  std::uint32_t number_ = 0;  ///< of the batch that was sent last; its barrier's is the next
  bool barrier_sent_ = false;
  outage write_outage_;
  outage denied_outage_;

  request_id watch_ = 0;
  std::uint64_t watch_index_ = 0;
  bool is_watch_good_ = true;  ///< false: that of the last session failed, and this one's has not answered yet
  outage watch_outage_;

  closing closing_;
};

}  // namespace holdfast::protocol
