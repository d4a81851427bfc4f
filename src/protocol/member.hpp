#pragma once

#include <cstdint>
#include <string>

#include "protocol/session_set.hpp"

namespace holdfast::protocol {

/// Where a session stands in the cluster, by the current view.
enum class standing { absent, waiting, holding };

enum class phase {
  creating,  ///< has no session yet
  ready,
  moving,  ///< a transaction that is under way, or of unknown outcome, adds or removes its entry
};

/// One session of a pool's, and the slot that it stands for.
struct member : own_session {
  protocol::phase phase = phase::creating;
  protocol::standing standing = standing::absent;
  slot_id slot = slot_id::none;        ///< in a user's hands
  slot_id gives_back = slot_id::none;  ///< the slot that a user gave back, until this session is free of it
  time_point granted_at{};             ///< by the cluster: the time for local handoffs runs from here
  time_point waiting_since{};          ///< in the cluster's queue
  time_point idle_since{};             ///< in nobody's hands since
  std::string text{};                  ///< what its entry says, for people
  std::uint64_t entry_created = 0;     ///< the CreateIndex of the last entry that it had; 0: it never had one
  std::uint64_t grant = 0;             ///< the index of the granting write
  std::uint64_t handoffs = 0;
  bool suspect = false;
  bool rejoined_early = false;  ///< it has queued before it was wanted
  /// Its slot was lost. Until the user lets go of that, it is not ended, so that Consul keeps the slot from everybody
  /// else for as long as it can; and then it gives back what it has, and ends. It is neither renewed nor used again.
  bool lost = false;

  /// Its slot was given back without writing the record, or that was tried: its entry says so, or may say so. It holds
  /// for as long as the record names it or its entry stands, but it serves nobody.
  bool has_returned = false;

  bool holds() const { return standing == standing::holding; }
  bool waits() const { return standing == standing::waiting; }
};

/// One that must end.
struct ending_member : ending_session {
  slot_id gives_back = slot_id::none;  ///< the slot that is given back by the session's end
  time_point answer_by = never;        ///< at the latest, with the reason below
  failure why{};
};

using members = session_set<member, ending_member>;

bool any_holds(const members& all);
bool any_waits(const members& all);

}  // namespace holdfast::protocol
