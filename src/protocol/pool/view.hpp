// SPDX-FileCopyrightText: The holdfast authors
// SPDX-License-Identifier: BSL-1.0

#pragma once

#include <algorithm>
#include <utility>

#include "protocol/base/transitions.hpp"
#include "protocol/core/events.hpp"
#include "protocol/record/snapshot.hpp"

namespace holdfast::protocol {

/// The pool's knowledge of the cluster. Listings and our own writes arrive over several connections, in any order. The
/// view keeps the latest state, and knows when that is not enough.
class view {
public:
  enum class state {
    none,     ///< never seen, or unusable: it must be read before anything is written
    stale,    ///< a write may be unseen, also one of ours: it must be read again before a decision, or with a join
    partial,  ///< right about our own entries; others may have come, left and moved up unseen
    current,  ///< the newest that is known; a write that relies on it is guarded by the record's index
  };
  static constexpr transition<enum state> transitions[] = {
      {outside, state::none},         {state::none, state::current},    {state::current, state::partial},
      {state::current, state::stale}, {state::partial, state::current}, {state::partial, state::stale},
      {state::stale, state::current}, {state::current, state::none},    {state::partial, state::none},
      {state::stale, state::none},    {state::stale, state::partial},
  };

  enum state state() const { return state_; }
  bool current() const { return state_ == state::current; }
  /// True only for a partial view: its record is known to be outdated, or it has seen no record. Everything else in the
  /// view may be as good as before.
  bool outrun() const { return state_ == state::partial && now_.lock_index <= outdated_; }
  /// Whether the record certainly stood in Consul like this. Returns false for a record that is known to be outdated,
  /// because a grant to us may have been added to it since.
  bool knows_record() const { return now_.lock_index > outdated_ || outdated_ == 0; }
  const snapshot& now() const { return now_; }
  /// The request that the view rests on. The view is at least as new as the time at which that request was sent.
  request_id as_of() const { return as_of_; }
  /// The index with which a watch of everything misses nothing. It is the index of the last listing, because our own
  /// writes may have higher indexes than unseen writes of others. 0: the watch must be answered at once.
  std::uint64_t listed_index() const { return state_ == state::none ? 0 : listed_index_; }

  /// Takes the listing that request `id` has asked for. `last_sent` is the last request so far. Returns false if the
  /// listing is older than the view. Replies overtake each other, so a lower index means an older listing. But if its
  /// request was sent after the last news had arrived, Consul's index has really gone backwards, and the listing is
  /// taken. If the listing is only older than what reads of single keys have shown, the newer parts of the view are
  /// kept, and the view is partial.
  bool accept(snapshot listing, request_id id, request_id last_sent) {
    const bool late = state_ != state::none && id <= sent_before_news_;
    if (late && listing.index < now_.index) {
      listed_index_ = 0;  // the next watch is answered at once; above the server's index it would sleep
      return false;
    }
    const bool in_part = late && listing.index < learned_index_;
    news_arrived(last_sent);
    listed_index_ = listing.index;
    listing.complete_to = listing.index;
    if (in_part) {
      listing.keep_newer(now_);
    } else {
      learned_index_ = listing.index;
      outdated_ = 0;
    }
    now_ = std::move(listing);
    as_of_ = std::max(as_of_, id);
    state_.go_to(in_part ? state::partial : state::current);
    return true;
  }
  /// The time at which everything was last listed, or a grant to us named the next contenders.
  time_point listed_at() const { return listed_at_; }
  void listed(time_point now) { listed_at_ = now; }
  /// Notes that our write has been applied at `index`. 0: the index is not known, and the write has only removed
  /// entries. `patch(snapshot&)` applies its changes, unless the view has reached `index` already; with 0 it applies
  /// them in any case. A view of which nothing was read is not patched. `guarded`: Consul has applied the write only
  /// because nobody else had changed the record. So a view that was current is now current as of this request. A view
  /// that has become partial or stale while the write was pending is not, because the cause may be newer than the
  /// write.
  template <class Patch>
  void wrote(std::uint64_t index, request_id id, request_id last_sent, bool guarded, Patch patch) {
    news_arrived(last_sent);
    if (state_ == state::none) return;
    if (now_.index < index || index == 0) patch(now_);
    now_.index = std::max(now_.index, index);
    if (guarded && state_ == state::current) as_of_ = std::max(as_of_, id);
  }
  /// Notes that a read has shown some keys only. `patch(snapshot&)` applies what it showed. Other keys may have
  /// changed, too.
  template <class Patch>
  void learned(std::uint64_t index, request_id last_sent, Patch patch) {
    news_arrived(last_sent);
    if (state_ == state::none) return;
    patch(now_);
    learned_index_ = std::max(learned_index_, index);
    mark_partial();
  }
  /// The learned grant also named the contenders that come next in the queue. `patch(snapshot&)` applies that, and
  /// replaces what was known of the queue.
  template <class Patch>
  void succeeded(Patch patch) {
    if (state_ == state::none) return;
    patch(now_);
    state_.go_to(state::partial);
  }
  /// News has arrived. Requests that were sent until now may not show it.
  void news_arrived(request_id last_sent) { sent_before_news_ = last_sent; }
  void mark_stale() {
    if (state_ != state::none) state_.go_to(state::stale);
  }
  void mark_partial() {
    if (state_ == state::current) state_.go_to(state::partial);
  }
  /// The record with this index is not the latest.
  void mark_outrun(std::uint64_t record_index) {
    outdated_ = std::max(outdated_, record_index);
    mark_partial();
  }
  void forget() {
    now_ = {};
    state_.go_to(state::none);
    listed_index_ = learned_index_ = outdated_ = 0;
  }

private:
  snapshot now_;
  guarded_state<enum state, transitions> state_{};
  request_id as_of_ = 0;
  request_id sent_before_news_ = 0;  ///< requests after this one were sent after the last news had arrived
  std::uint64_t listed_index_ = 0;
  std::uint64_t learned_index_ = 0;
  std::uint64_t outdated_ = 0;  ///< records up to this index are outdated
  time_point listed_at_{};
};

}  // namespace holdfast::protocol
