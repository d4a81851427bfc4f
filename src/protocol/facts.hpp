#pragma once

#include <cstddef>

#include "protocol/keys.hpp"
#include "protocol/member.hpp"
#include "protocol/mutex_policy.hpp"
#include "protocol/situation.hpp"
#include "protocol/slot_ledger.hpp"
#include "protocol/view.hpp"

namespace holdfast::protocol {

/// What the decisions of a pool rest on: all of it to be read, for the length of one decision.
struct facts {
  const pool_options& options;
  const key_names& keys;
  const protocol::view& view;
  const protocol::situation& situation;
  const protocol::members& members;
  const slot_ledger& slots;
  const slow_takers& slow;
  const mutex_policy& mutex;
  time_point time;
  std::size_t waiting;  ///< acquires in the local queue
  bool wide;            ///< the first of them wants several slots
  bool closing;

  const snapshot& now() const { return view.now(); }

  const slot_number* number_of(const member& m) const {
    return options.numbered ? now().number_of(m.session) : nullptr;
  }
  bool lacks_number(const member& m) const { return options.numbered && !number_of(m); }
  /// Whether an operator wants its slot back: to hand it on here would be to grant it.
  bool is_withdrawn(const member& m) const;
  /// Whether nobody here may get its slot: it is withdrawn, or has been used here for so long that somebody elsewhere
  /// should have it.
  bool must_go_back(const member& m) const {
    if (m.lost || is_withdrawn(m)) return true;
    const bool used_for_long = situation.contested && time >= m.granted_at + options.local_handoff_time;
    return m.handoffs > 0 && (used_for_long || must_yield());
  }
  bool is_usable(const member& m) const { return !must_go_back(m) && !lacks_number(m); }

  /// When it is time to give those a chance of whom nothing is seen.
  time_point yields_at() const { return mutex.yields_at(options, now().crowd()); }
  bool must_yield() const { return time >= yields_at(); }
  /// How long a waiter is content with its own entry.
  duration own_watch() const {
    return options.own_watch + static_cast<duration::rep>(now().crowd()) * options.own_watch_each;
  }
  std::uint64_t entry_flags() const { return contender_magic | (options.numbered ? numbered_flag : 0); }
  /// What an entry says that is made now.
  std::string entry_text() const;
};

}  // namespace holdfast::protocol
