// SPDX-FileCopyrightText: The holdfast authors
// SPDX-License-Identifier: BSL-1.0

#pragma once

#include <algorithm>
#include <chrono>
#include <optional>
#include <utility>

#include "protocol/base/backoff.hpp"
#include "protocol/base/transitions.hpp"
#include "protocol/core/context.hpp"
#include "protocol/core/fallible.hpp"
#include "protocol/pool/transaction.hpp"

namespace holdfast::protocol {

/// The pending write; there is at most one. Either no write is pending, or one is sent, or the outcome of the last one
/// is in doubt, because no later view has shown it yet.
class write_in_flight : public fallible {
public:
  bool is_sent() const { return state_ == state::sent; }
  bool is_in_doubt() const { return state_ == state::in_doubt; }
  bool is_idle() const { return state_ == state::idle; }
  /// The transaction that is sent or in doubt.
  const transaction& current() const { return txn_; }

  /// Whether the pauses after failures and refusals are over.
  bool is_due(moment& at) const { return at.has_come(failures().retry_at()) && at.has_come(not_before_); }
  void wait_until(time_point when) { not_before_ = when; }
  void send(context& ctx, transaction txn) {
    ctx.act(action::send_txn{txn.id, txn.operations});
    txn_ = std::move(txn);
    state_.go_to(state::sent);
  }
  /// Removes the write that was sent, and returns it. The result is empty if `id` is not that write's.
  std::optional<transaction> done(request_id id) {
    if (!is_sent() || txn_.id != id) return std::nullopt;
    return take();
  }
  /// Puts the write in doubt. The answer to a later request may show its outcome.
  void doubt(context& ctx, transaction txn) {
    txn.newest_request = ctx.last_request();
    txn_ = std::move(txn);
    state_.go_to(state::in_doubt);
  }
  bool is_told_by(request_id id) const { return is_in_doubt() && id > txn_.newest_request; }
  void needs_everything() { txn_.by_record = false; }
  /// Ends the pending state or the doubt, and returns the transaction.
  transaction take() {
    state_.go_to(state::idle);
    return std::exchange(txn_, {});
  }
  void drop(member_id id) { std::erase(txn_.movers, id); }

  /// Sets a random pause before the next write, because others write, too. There is none after the first refusal. The
  /// upper bound of the pause grows with each further refusal in a row, up to a maximum. If `delayed` is true, Consul
  /// keeps a key from everybody for a while, and does not report the end of that time. Then the pauses are longer, and
  /// begin with the first refusal.
  void conflicted(context& ctx, bool delayed) {
    using std::chrono::milliseconds;
    const duration pause = delayed ? backoff_bound(conflicts_, milliseconds(20), milliseconds(1000))
                                   : backoff_bound(conflicts_, milliseconds(1), milliseconds(50));
    is_delayed_ = delayed;
    not_before_ = delayed          ? ctx.now() + ctx.random().between(pause / 2, pause)
                  : conflicts_ > 1 ? ctx.now() + ctx.random().between({}, pause)
                                   : ctx.now();
  }
  /// Somebody holds the key, so the lock delay is over. The pauses of the next lock delay begin anew.
  void lock_delay_is_over() {
    if (!std::exchange(is_delayed_, false)) return;
    not_before_ = {};
    conflicts_ = 0;
  }
  void refused() { ++conflicts_; }
  void applied() { conflicts_ = 0; }
  /// Whether our writes were refused several times in a row, so that others are probably faster.
  bool is_outrun() const { return conflicts_ >= outrun_after; }

private:
  enum class state { idle, sent, in_doubt };
  static constexpr transition<state> transitions[] = {
      {outside, state::idle},         {state::idle, state::sent},     {state::sent, state::idle},
      {state::idle, state::in_doubt}, {state::in_doubt, state::idle},
  };
  static constexpr unsigned outrun_after = 3;

  guarded_state<state, transitions> state_{};
  transaction txn_{};
  unsigned conflicts_ = 0;   ///< refusals in a row
  time_point not_before_{};  ///< no write is sent before this time
  bool is_delayed_ = false;  ///< this pause is for a lock delay
};

}  // namespace holdfast::protocol
