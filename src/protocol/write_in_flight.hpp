#pragma once

#include <algorithm>
#include <chrono>
#include <optional>
#include <utility>

#include "protocol/backoff.hpp"
#include "protocol/context.hpp"
#include "protocol/outage.hpp"
#include "protocol/transaction.hpp"
#include "protocol/transitions.hpp"

namespace holdfast::protocol {

/// The write that is under way: one at a time. It is idle; or one is sent; or the outcome of the last one is in doubt,
/// and no later view has told it yet.
class write_in_flight {
public:
  outage failures{};

  bool is_sent() const { return state_ == state::sent; }
  bool is_in_doubt() const { return state_ == state::in_doubt; }
  bool is_idle() const { return state_ == state::idle; }
  /// The one that is sent, or in doubt.
  const transaction& current() const { return txn_; }

  /// Whether another one may be sent now.
  bool is_due(context& ctx) const { return ctx.due_or_wake(failures.retry_at()) && ctx.due_or_wake(not_before_); }
  void wait_until(time_point when) { not_before_ = when; }
  void send(context& ctx, transaction txn) {
    ctx.act(action::send_txn{txn.id, txn.operations});
    txn_ = std::move(txn);
    state_.go_to(state::sent);
  }
  /// None if it is not the one that was sent.
  std::optional<transaction> done(request_id id) {
    if (!is_sent() || txn_.id != id) return std::nullopt;
    return take();
  }
  /// What became of it will be told by an answer to a later request.
  void doubt(context& ctx, transaction txn) {
    txn.newest_request = ctx.last_request();
    txn_ = std::move(txn);
    state_.go_to(state::in_doubt);
  }
  bool is_told_by(request_id id) const { return is_in_doubt() && id > txn_.newest_request; }
  void needs_everything() { txn_.by_record = false; }
  /// The doubt is over.
  transaction take() {
    state_.go_to(state::idle);
    return std::exchange(txn_, {});
  }
  void drop(member_id id) { std::erase(txn_.movers, id); }

  /// Others write, too: a pause that grows. `delayed`: Consul keeps a key from everybody for a while, and tells nobody
  /// when that ends.
  void conflicted(context& ctx, bool delayed) {
    using std::chrono::milliseconds;
    const duration pause = delayed ? backoff_bound(conflicts_, milliseconds(20), milliseconds(1000))
                                   : backoff_bound(conflicts_, milliseconds(1), milliseconds(50));
    is_delayed_ = delayed;
    not_before_ = delayed          ? ctx.now() + ctx.random().between(pause / 2, pause)
                  : conflicts_ > 1 ? ctx.now() + ctx.random().between({}, pause)
                                   : ctx.now();
  }
  /// Somebody has the key. The next lock delay is another one, and its pauses begin anew.
  void lock_delay_is_over() {
    if (!std::exchange(is_delayed_, false)) return;
    not_before_ = {};
    conflicts_ = 0;
  }
  void refused() { ++conflicts_; }
  void applied() { conflicts_ = 0; }
  /// Whether others have been faster several times in a row.
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
  unsigned conflicts_ = 0;   ///< in a row
  time_point not_before_{};  ///< others were writing, too
  bool is_delayed_ = false;  ///< or Consul keeps a key from everybody
};

}  // namespace holdfast::protocol
