#pragma once

#include <algorithm>
#include <utility>

#include "protocol/events.hpp"
#include "protocol/snapshot.hpp"
#include "protocol/transitions.hpp"

namespace holdfast::protocol {

/// What the pool knows of the cluster. Listings and our own writes arrive over several connections, in any order: this
/// keeps the latest, and knows when it is not enough.
class view {
public:
  enum class state {
    none,     ///< never seen, or unusable: look before anything is written
    stale,    ///< another writer was seen to have moved on: look again before deciding
    partial,  ///< what it says of our own entries is right; others may have come, gone and moved up unseen
    current,  ///< the best that is known; a write that rests on it is guarded by its index
  };
  static constexpr transition<enum state> transitions[] = {
      {outside, state::none},         {state::none, state::current},    {state::current, state::partial},
      {state::current, state::stale}, {state::partial, state::current}, {state::partial, state::stale},
      {state::stale, state::current}, {state::current, state::none},    {state::partial, state::none},
      {state::stale, state::none},    {state::stale, state::partial},
  };

  enum state state() const { return state_; }
  bool current() const { return state_ == state::current; }
  /// The record is known to be a newer one by now; all the rest may be as good as before.
  bool outrun() const { return state_ == state::partial && now_.lock_index <= outdated_; }
  /// Its record is one that stood in Consul, and not one that was pieced together.
  bool knows_record() const { return now_.lock_index > outdated_ || outdated_ == 0; }
  const snapshot& now() const { return now_; }
  /// The request that this rests on: it has seen everything that was true before that was sent.
  request_id as_of() const { return as_of_; }
  /// What a watch has to ask with to miss nothing: the index of the last listing (our own writes may have jumped over
  /// others' since).
  std::uint64_t listed_index() const { return state_ == state::none ? 0 : listed_index_; }

  /// A listing that was asked for by `id`; `last_sent` is the last request so far. False if it is older than what is
  /// known. Replies overtake each other, so a lower index means an older listing. But if its request was sent after the
  /// last news had arrived, Consul's index has really gone backwards, and the listing is taken.
  bool accept(snapshot listing, request_id id, request_id last_sent) {
    const bool late = state_ != state::none && id <= sent_before_news_;
    if (late && listing.index < now_.index) {
      listed_index_ = 0;  // ask anew, and get an answer at once: a watch above the server's index would sleep
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
  /// When everything was last seen.
  time_point listed_at() const { return listed_at_; }
  void listed(time_point now) { listed_at_ = now; }
  /// Our write has been applied at `index`: `patch(snapshot&)` says what it did, unless we have seen further already.
  /// `guarded`: Consul has applied it only because nobody else had changed the record. So a view that was current is
  /// now current as of this request. A view that has become partial or stale while the write was under way is not: what
  /// made it so may be newer than the write.
  template <class Patch>
  void wrote(std::uint64_t index, request_id id, request_id last_sent, bool guarded, Patch patch) {
    news_arrived(last_sent);
    if (state_ == state::none) return;
    if (now_.index < index || index == 0) patch(now_);
    now_.index = std::max(now_.index, index);
    if (guarded && state_ == state::current) as_of_ = std::max(as_of_, id);
  }
  /// A look at some keys only: `patch(snapshot&)` says what it showed. The others may have changed with them.
  template <class Patch>
  void learned(std::uint64_t index, request_id last_sent, Patch patch) {
    news_arrived(last_sent);
    if (state_ == state::none) return;
    patch(now_);
    learned_index_ = std::max(learned_index_, index);
    mark_partial();
  }
  /// The grant that was learned also said who comes next in the queue, which `patch(snapshot&)` notes. That replaces
  /// what was known of the queue.
  template <class Patch>
  void succeeded(Patch patch) {
    if (state_ == state::none) return;
    patch(now_);
    state_.go_to(state::partial);
  }
  /// News has arrived: what was asked for until now may not show it.
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
  std::uint64_t outdated_ = 0;  ///< records up to this index are
  time_point listed_at_{};
};

}  // namespace holdfast::protocol
