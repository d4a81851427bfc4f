// SPDX-FileCopyrightText: The holdfast authors
// SPDX-License-Identifier: BSL-1.0

#pragma once

#include <algorithm>
#include <cstdint>
#include <string>

#include "protocol/base/transitions.hpp"
#include "protocol/session/session_keeper.hpp"

namespace holdfast::protocol {

/// Where a session stands in the cluster, by the latest view. A session that has returned its slot is an exception
/// (`has_returned`), and so is one whose write has just ended (`cluster_observer::end_moves`).
enum class standing { absent, waiting, holding };
inline constexpr transition<standing> standing_transitions[] = {
    {outside, standing::absent},
    {standing::absent, standing::waiting},
    {standing::absent, standing::holding},
    {standing::waiting, standing::holding},
    {standing::waiting, standing::absent},
    {standing::holding, standing::absent},
    {standing::holding, standing::waiting},
};

enum class phase {
  settled,
  moving,  ///< a transaction that is pending or in doubt adds, removes or marks its entry, or moves its number
};
inline constexpr transition<phase> phase_transitions[] = {
    {outside, phase::settled}, {phase::settled, phase::moving}, {phase::moving, phase::settled},
    {phase::settled, outside}, {phase::moving, outside},
};

/// How far this process may rely on the grant of a session of its own (acceptance.hpp).
class grant_acceptance {
public:
  /// False if there is no grant, or if it has been accepted, or if it is final without that.
  bool is_open() const { return state_ != state::not_needed; }
  /// Until `deadline` the slot is held as if the grant were accepted.
  bool is_provisional() const { return state_ == state::provisional; }
  /// Nobody uses the slot before the grant is accepted, or before the entry shows that the grant is final.
  bool is_awaited() const { return state_ == state::awaited; }
  /// The time until which the slot of a provisional grant may be used. Otherwise `never`.
  time_point deadline() const { return deadline_; }
  /// An acceptance was sent, so its key may exist.
  bool was_sent() const { return was_sent_; }

  void count_until(time_point deadline) {
    state_ = state::provisional;
    deadline_ = deadline;
  }
  void await() {
    state_ = state::awaited;
    deadline_ = never;
  }
  void sent() { was_sent_ = true; }
  void accepted() {
    state_ = state::not_needed;
    deadline_ = never;
  }

private:
  enum class state { not_needed, provisional, awaited };
  state state_ = state::not_needed;
  time_point deadline_ = never;
  bool was_sent_ = false;
};

/// One session of a pool, and the slot that it stands for.
struct member : own_session {
  guarded_state<protocol::phase, phase_transitions> phase{};
  guarded_state<protocol::standing, standing_transitions> standing{};
  slot_id slot = slot_id::none;        ///< the slot that a user holds by this session, or has lost and not released yet
  slot_id gives_back = slot_id::none;  ///< the slot that a user has released, until this session is free of it
  time_point granted_at{};             ///< when its grant was first seen here; the time for local handoffs begins then
  /// When it was first seen in the cluster's queue, or when a watch last showed the entry before its own unchanged.
  time_point waiting_since{};
  /// Since when no user has held its slot. It begins anew at a grant, and at an applied move that is no release.
  time_point idle_since{};
  std::string text{};               ///< the text of its entry
  std::uint64_t entry_created = 0;  ///< the CreateIndex of the last entry that it had; 0: it never had one
  std::uint64_t grant = 0;  ///< the index of the write that granted its slot; `waiting_index` tells of an exception
  std::uint64_t handoffs = 0;
  std::uint64_t removed = 0;    ///< applied writes of ours have removed its entries up to this index
  bool rejoined_early = false;  ///< it has queued again before anybody here wanted a slot
  /// Its slot was lost. The session is kept until the user releases the slot, until Consul has ended the session or
  /// should have (`lease::over_at`), or until a closing pool waits no longer. So Consul keeps the slot from everybody
  /// else for as long as possible. After that the session releases what it has, and ends. It is neither renewed nor
  /// used again.
  bool lost = false;

  grant_acceptance acceptance{};
  /// The time at which the last request was sent whose answer showed the entry waiting. The grant is later. Listings
  /// count only in a pool that accepts grants.
  time_point ungranted_at = time_point::min();
  std::uint64_t waiting_index =
      0;  ///< the entry's ModifyIndex while it waited. If it equals `grant`, only the record has shown the grant

  /// Its slot was released without writing the record, or that was tried. So its entry is marked, or may be. The
  /// session counts as holding for as long as the record names it or its entry may stand, but it serves no user.
  bool has_returned = false;

  /// True if Consul has created the session, and no transaction is about to change its place.
  bool is_ready() const { return is_created() && phase == phase::settled; }
  bool holds() const { return standing == standing::holding; }
  bool waits() const { return standing == standing::waiting; }
  /// A write that was applied at `at` has removed its entry. If it has made a new one, that has this index. 0: the
  /// index is not known.
  void was_removed(std::uint64_t at, bool has_new_entry) {
    if (at != 0) removed = std::max(removed, has_new_entry ? at - 1 : at);
  }
  void had_no_grant(time_point at) { ungranted_at = std::max(ungranted_at, at); }
  /// The time until which the slot may be used.
  time_point deadline() const { return std::min(lease.deadline(), acceptance.deadline()); }
};

/// A session that must end.
struct ending_member : ending_session {
  slot_id gives_back = slot_id::none;  ///< the released slot that is free when the session has ended
  time_point answer_by = never;        ///< the latest time to answer the release, with `why` as the error
  failure why{};
};

using members = session_keeper<member, ending_member>;

bool any_holds(const members& all);
bool any_waits(const members& all);

}  // namespace holdfast::protocol
