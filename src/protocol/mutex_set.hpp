// SPDX-FileCopyrightText: The holdfast authors
// SPDX-License-Identifier: BSL-1.0

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
#include "protocol/session_keeper.hpp"
#include "protocol/session_watch.hpp"
#include "protocol/slot_table.hpp"
#include "protocol/succession.hpp"

namespace holdfast::protocol {

/// `holdfast::mutex_set_options` documents these options.
using mutex_set_options = core_options;

/// The flags of the two keys that only the set itself uses. The high half is this magic number. In the flags of the
/// sequence guard, the low half is the number of the transaction that wrote it last.
inline constexpr std::uint64_t set_magic = std::uint64_t{0x68736574} << 32;

/// The number of refused transactions that a set remembers. If a copy of an earlier one is applied, the set loses all
/// of its locks.
inline constexpr std::size_t set_refused_max = 1024;

/// The core of a mutex set: the locks of one process below a prefix. One session holds any number of them. Each
/// `acquire` tries once to lock one name.
///
/// One transaction is pending at a time. All that callers request meanwhile goes together into the next one, as far as
/// it fits. A session's first transaction creates the *sequence guard*, a key that nobody else writes. Each later
/// transaction, except a read of the guard, begins with a compare-and-set of the guard. So it is applied at most once,
/// and never after a later one.
///
/// If the outcome of a transaction is unknown, the set sends an empty transaction, the *barrier*. If the barrier is
/// applied, the other transaction was not applied and never will be. If the barrier is refused because the guard has
/// changed, the set reads the guard. The guard shows which of the two was applied, or that a late copy was (see below).
/// If the outcome of a session's first transaction is unknown, there may be no guard yet. Then the set goes on with
/// another session.
///
/// A transaction that Consul refused has not written the guard. If the network makes a copy of it, Consul may apply the
/// copy when the names are free. No user here holds the locks that such a copy takes, so the set must find and unlock
/// them. Therefore, if any transaction was refused since the guard was last written, an empty transaction follows the
/// next renewal of the session.
///
/// The set watches a second key, which is written once. Consul deletes that key and all locks when the session ends.
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
    held,     ///< a user holds it
    lost,     ///< lost, but not yet released by its user: until then, nobody else in this process gets it
    leaving,  ///< to be unlocked; if a caller has asked for it meanwhile, it is tried for that caller after this
  };
  struct ending;
  /// The state of one name. It exists while anybody in this process holds, requests or releases the lock.
  struct lock {
    mutex_set::standing standing = standing::wanted;
    std::optional<ticket> asked{};  ///< the caller that waits for the lock, if there is one
    time_point came{};              ///< when that caller asked
    request_id asked_after = 0;     ///< only requests later than this one count as a try for that caller
    slot_id slot = slot_id::none;   ///< held by a user, or lost, or being released
    std::uint64_t grant = 0;        ///< the index of the locking write
    bool sent = false;              ///< in the transaction that is pending or whose outcome is unknown
    bool is_rest = false;           ///< its batch was refused, maybe because of others' locks; to be sent again
    ending* blocker = nullptr;      ///< the lost session whose end it waits for, in that session's `blocked`
  };
  using locks = std::map<std::string, lock, std::less<>>;
  using place = locks::value_type;
  struct slot {
    mutex_set::place* place = nullptr;  ///< the lock of this slot, until its user releases it or its session has ended
    bool releasing = false;             ///< a user waits for the end of its release
  };

  /// A part of a transaction.
  struct part {
    mutex_set::place* place = nullptr;
    bool locks = false;         ///< true: it locks the name; false: it unlocks it
    std::size_t operation = 0;  ///< the index of its first operation
    bool absent = false;        ///< a read has shown that its key does not exist
    std::optional<event::refusal> refused{};
  };
  /// The effect that a part of a refused transaction would have had.
  struct effect {
    std::string name;
    bool locks = false;  ///< true: it locks the name; false: it unlocks it
  };
  enum class request { opening, batch, barrier, read };
  /// How much is known of the transaction that was sent last.
  enum class doubt {
    none,
    unknown,  ///< it may have been applied, or may be yet: a barrier is to be sent
    moved,    ///< something may have written the guard: the guard is to be read
  };
  struct own : own_session {
    bool open = false;  ///< it has its two keys
    std::uint64_t guard_index = 0;
    /// The effects of the batches that were refused since the guard was last written, or of the last `set_refused_max`
    /// of them. The key of the map is the flags that the batch would have given the guard. A copy of at most one of
    /// these batches may still be applied.
    std::map<std::uint64_t, std::vector<effect>> refused{};
    /// An empty batch is to be sent. It keeps late copies from being applied, or shows that one was applied.
    bool copies_due = false;
    void guard_is_at(std::uint64_t index) {
      guard_index = index;
      refused.clear();
      copies_due = false;
    }
  };
  struct ending : ending_session {
    time_point since{};
    std::set<std::string, std::less<>>
        names{};  ///< names that it may still have locked: Consul would refuse them to us
    /// Slots that were lost with this session and that their users have not released. Until they are released, or until
    /// `over_at`, we do not destroy the session, so that Consul keeps the keys from other processes.
    std::vector<slot_id> lost{};
    time_point over_at{};
    std::vector<slot_id> releasing{};    ///< slots whose releases are answered when it has ended, if not before
    std::map<ticket, place*> blocked{};  ///< the `names` that somebody asks for, in the order of the requests
  };
  using set_of_sessions = session_keeper<own, ending>;

  // mutex_set.cpp: events (but `txn_done` is in mutex_set_write.cpp), and what is due at a certain time
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
  void retire_sessions();
  void finish_close();

  // mutex_set.cpp: locks, and the callers that ask for them
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
  void has_ended(set_of_sessions::ending_map::iterator at);
  static bool is_held(const slot& s) { return s.place && s.place->second.standing == standing::held; }
  void report();

  // mutex_set_write.cpp (but `serving` is in mutex_set.cpp)
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

  /// The session in use, or null.
  own* session() { return sessions_.empty() ? nullptr : &sessions_.begin()->second; }
  const own* session() const { return sessions_.empty() ? nullptr : &sessions_.begin()->second; }
  std::string session_key() const { return options_.prefix + ".sessions/" + session()->session; }
  std::string guard_key() const { return options_.prefix + ".writes/" + session()->session; }
  std::string key_of(const place& at) const { return options_.prefix + at.first; }
  failure failed(error_code code, std::string text) const;

  const mutex_set_options options_;

  locks locks_;
  std::map<ticket, place*> asking_;  ///< callers that wait for an answer, in the order in which they came
  std::deque<place*> wanted_;        ///< locks to be sent; one that nobody asks for any more is dropped in its turn
  std::deque<place*> leaving_;       ///< unlocks to be sent
  std::deque<place*> denied_;        ///< unlocks that Consul refused, for example by ACL rules; retried after pauses
  slot_table<slot> slots_;
  std::size_t held_ = 0;
  std::size_t lost_ = 0;                                 ///< slots lost by closing the set, whose session is in use
  std::deque<std::pair<time_point, slot_id>> releases_;  ///< in the order in which they began; some are answered

  set_of_sessions sessions_;  ///< at most one is in use
  time_point idle_since_{};

  request_id txn_ = 0;    ///< the pending transaction, or 0
  time_point sent_at_{};  ///< when the last transaction was sent
  request sent_ = request::batch;
  doubt doubt_ = doubt::none;
  std::vector<part> parts_;   ///< the parts of the last batch, while its outcome is open
  std::size_t head_ = 0;      ///< the number of operations of the last batch that precede its parts
  std::uint32_t number_ = 0;  ///< the number of the last batch or applied barrier; a barrier has the next one
  bool barrier_sent_ = false;
  outage write_outage_;
  outage denied_outage_;

  session_watch watch_;
  outage lost_by_watch_;  ///< sessions were lost because their watches had failed; no watch has succeeded since

  closing closing_;
};

}  // namespace holdfast::protocol
