// SPDX-FileCopyrightText: The holdfast authors
// SPDX-License-Identifier: BSL-1.0

#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "protocol/base/operation.hpp"
#include "protocol/core/context.hpp"
#include "protocol/core/fallible.hpp"
#include "protocol/mutex_set/lock_names.hpp"
#include "protocol/mutex_set/sequence_guard.hpp"
#include "protocol/mutex_set/set_keys.hpp"

namespace holdfast::protocol {

/// The meaning of the answer to a transaction. The set carries it out in the order of these fields.
struct batch_answer {
  /// A part that was applied.
  struct applied_part {
    lock_names::part part{};
    std::uint64_t index = 0;  ///< for a lock: the index of the locking write
    bool absent = false;      ///< for a lock: it was taken away meanwhile
  };
  /// A part that Consul refused.
  struct refused_part {
    lock_names::part part{};
    bool is_error = false;  ///< repetition would not help
    failure why{};          ///< the error to report; empty for a lock that another session has
  };

  request_id id = 0;                          ///< the transaction
  std::optional<failure> denied{};            ///< if set, all callers fail with it
  std::optional<loss_reason> session_lost{};  ///< if set, the session is dropped for this reason
  std::optional<failure> final_error{};       ///< if set, all callers fail with it, once the session is dropped
  std::vector<lock_names::part> not_applied{};
  bool is_rest = false;               ///< `not_applied` are sent again without newcomers
  sequence_guard::effects of_copy{};  ///< a late copy of a refused batch had these effects
  std::vector<applied_part> applied{};
  std::vector<refused_part> refused{};
};

/// The pending transaction of a mutex set, or the doubt about the last one, and the sequence guard that resolves the
/// doubt. The comment of `mutex_set` describes the transactions.
class batch_in_flight : public fallible {
public:
  bool is_pending() const { return txn_ != 0; }
  bool is_pending(request_id id) const { return txn_ == id; }
  /// True if no transaction is pending, and the outcome of the last one is known.
  bool is_idle() const { return txn_ == 0 && doubt_ == doubt::none; }
  /// When the last transaction was sent.
  time_point sent_at() const { return sent_at_; }
  sequence_guard& guard() { return guard_; }

  /// From when on a transaction may be sent. During the pause after a failure, that is its end. `never` if a
  /// transaction is pending.
  time_point due_at() const { return txn_ == 0 ? failures().retry_at() : never; }
  /// If the outcome of the last batch is in doubt, sends the transaction that resolves the doubt, and returns true.
  bool resolve(context& ctx, const set_keys& keys);
  /// The number of operations that the parts of the next batch may have.
  std::size_t room() const;
  void send(context& ctx, const set_keys& keys, const std::vector<lock_names::part>& parts);
  /// Takes the answer to the pending transaction.
  batch_answer answer(context& ctx, const set_keys& keys, event::txn_done& e);
  /// Forgets the session: its guard, the pending transaction and the doubt. Returns the names that copies of refused
  /// batches may lock yet.
  std::set<std::string, std::less<>> drop();

private:
  struct sent_part : lock_names::part {
    std::size_t operation = 0;  ///< the index of its first operation
    bool absent = false;        ///< a read has shown that its key does not exist
    std::optional<event::refusal> refused{};

    const part& as_part() const { return *this; }
  };
  enum class request { opening, batch, barrier, read };
  /// How much is known of the transaction that was sent last.
  enum class doubt {
    none,
    unknown,  ///< it may have been applied, or may be yet: a barrier is to be sent
    moved,    ///< something may have written the guard: the guard is to be read
  };

  void send_barrier(context& ctx, const set_keys& keys);
  void send_read(context& ctx, const set_keys& keys);
  void send(context& ctx, request what, std::vector<kv_operation> operations);
  std::vector<kv_operation> head(time_point now, const set_keys& keys) const;
  kv_operation cas_guard(const set_keys& keys, std::uint32_t number) const;

  void not_done(context& ctx, event::txn_done& e, batch_answer& result);
  void refused_as_a_whole(context& ctx, const set_keys& keys);
  void batch_applied(const std::vector<kv_entry>& results, batch_answer& result);
  void batch_refused(context& ctx, const set_keys& keys, const event::txn_done& e, batch_answer& result);
  bool assess(const set_keys& keys, const event::refused_operation& each, bool& by_head, batch_answer& result);
  bool mark_refused(const event::refused_operation& each);
  void split_refused(const set_keys& keys, batch_answer& result);
  void barrier_applied(const std::vector<kv_entry>& results, batch_answer& result);
  void barrier_refused(context& ctx, const set_keys& keys, const event::txn_done& e);
  void read_applied(const set_keys& keys, const std::vector<kv_entry>& results, batch_answer& result);
  void read_refused(context& ctx, const set_keys& keys, const event::txn_done& e, batch_answer& result);
  void batch_was_applied(const set_keys& keys, const std::vector<kv_entry>& results, batch_answer& result);
  void give_back(batch_answer& result);

  request_id txn_ = 0;    ///< the pending transaction, or 0
  time_point sent_at_{};  ///< when the last transaction was sent
  request sent_ = request::batch;
  doubt doubt_ = doubt::none;
  std::vector<sent_part> parts_;  ///< the parts of the last batch, while its outcome is open
  std::size_t head_ = 0;          ///< the number of operations of the last batch that precede its parts
  std::uint32_t number_ = 0;      ///< the number of the last batch or applied barrier; a barrier has the next one
  bool barrier_sent_ = false;
  sequence_guard guard_;
};

}  // namespace holdfast::protocol
