// SPDX-FileCopyrightText: The holdfast authors
// SPDX-License-Identifier: BSL-1.0

#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "protocol/closing.hpp"
#include "protocol/core.hpp"
#include "protocol/core_options.hpp"
#include "protocol/lock_names.hpp"
#include "protocol/session_keeper.hpp"
#include "protocol/session_watch.hpp"
#include "protocol/set_keys.hpp"
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

  core_status status() const override { return {names_.asking(), sessions_.size(), 1}; }
  std::vector<entry> entries_of(slot_id id) override;
  std::string lock_key(slot_id id) override;

private:
  /// A part of the last batch.
  struct part : lock_names::part {
    std::size_t operation = 0;  ///< the index of its first operation
    bool absent = false;        ///< a read has shown that its key does not exist
    std::optional<event::refusal> refused{};
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
    std::map<std::uint64_t, std::vector<lock_names::effect>> refused{};
    /// An empty batch is to be sent. It keeps late copies from being applied, or shows that one was applied.
    bool copies_due = false;
    void guard_is_at(std::uint64_t index) {
      guard_index = index;
      refused.clear();
      copies_due = false;
    }
  };
  using sessions = session_keeper<own, ending_session>;

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
  void advance();
  void check_lease();
  void check_watch();
  void check_outage();
  void retire_sessions();
  void finish_close();
  void drop_session(loss_reason reason, failure why = {});
  void has_ended(sessions::ending_map::iterator at);
  void report();

  // mutex_set_write.cpp (but `serving` is in mutex_set.cpp)
  void write();
  bool serving();
  void send_batch(bool empty = false);
  void add_parts(std::vector<kv_operation>& operations, const std::vector<lock_names::part>& parts);
  void send_barrier();
  void send_read();
  void send(request what, std::vector<kv_operation> operations);
  kv_operation cas_guard(std::uint32_t number);
  void batch_done(event::txn_done& e);
  void barrier_done(event::txn_done& e);
  void read_done(event::txn_done& e);
  void batch_applied(const std::vector<kv_entry>& results);
  void batch_refused(const std::vector<event::refused_operation>& refusals);
  void part_refused(const part& each);
  void put_back(bool as_rest = false);
  void not_done(event::txn_done& e);
  void refused_as_a_whole();

  /// The session in use, or null.
  own* session() { return sessions_.empty() ? nullptr : &sessions_.begin()->second; }
  /// The keys of the session in use. There must be one.
  set_keys keys() { return {options_, session()->session}; }
  failure failed(error_code code, std::string text) const { return set_keys::failed(options_, code, std::move(text)); }

  const mutex_set_options options_;

  lock_names names_;
  sessions sessions_;  ///< at most one is in use

  request_id txn_ = 0;    ///< the pending transaction, or 0
  time_point sent_at_{};  ///< when the last transaction was sent
  request sent_ = request::batch;
  doubt doubt_ = doubt::none;
  std::vector<part> parts_;   ///< the parts of the last batch, while its outcome is open
  std::size_t head_ = 0;      ///< the number of operations of the last batch that precede its parts
  std::uint32_t number_ = 0;  ///< the number of the last batch or applied barrier; a barrier has the next one
  bool barrier_sent_ = false;
  outage write_outage_;

  session_watch watch_;
  outage lost_by_watch_;  ///< sessions were lost because their watches had failed; no watch has succeeded since
  closing closing_;
};

}  // namespace holdfast::protocol
