// SPDX-FileCopyrightText: The holdfast authors
// SPDX-License-Identifier: BSL-1.0

#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "protocol/core/slot_table.hpp"
#include "protocol/pool/member.hpp"

namespace holdfast::protocol {

/// The slots of this process: which sessions stand for each slot, which slots users hold, and which slots users have
/// released but Consul has not. It also lists the spares: the sessions that hold a slot which nobody uses.
class slot_ledger {
public:
  struct slot {
    bool held = false;
    bool lost = false;     ///< its user was notified of the loss, and has not released it yet
    bool revoked = false;  ///< its user was notified that an operator asks for it
    std::vector<member_id> members{};
    std::uint32_t not_free = 0;  ///< after its release: how many members are not free of it yet
  };

  slot* find(slot_id id) { return slots_.find(id); }
  /// The number of sessions whose slots users hold, including lost slots.
  std::uint32_t in_use() const { return in_use_; }
  /// The sessions that are ready and hold a slot which no user has.
  const std::vector<member_id>& spares() const { return spares_; }
  /// The time at which a release was last completed.
  time_point given_back_at() const { return given_back_at_; }

  /// Opens a slot for a user, without sessions at first. `take` adds one.
  slot_id open();
  /// Makes this spare stand for the slot. It is free of the slot that it stood for before (`free_member`).
  void take(context& ctx, slot_id id, member& m);
  /// The user releases a slot that it holds.
  void give_up(context& ctx, slot& s, slot_id id, members& all);
  /// Marks the slot as lost and notifies its user. Does nothing if no user holds it, or if it is lost already. Unless
  /// the caller ends the sessions, they stay as `member::lost` says.
  void lose(context& ctx, slot_id id, members& all, loss_reason reason, failure why = {});
  void lose_all(context& ctx, members& all, loss_reason reason, const failure& why = {});
  /// Tells the user of this member's slot until when the slot may be used, and whether a session of it is suspect.
  [[gnu::cold]] void report(context& ctx, const member& m, const members& all);
  /// Passes the requests of operators to the users of these sessions' slots.
  void revoke(context& ctx, const std::vector<std::string>& sessions, const members& all);
  /// The user releases a lost slot, or its time for that is over. Now its sessions may end, and others may replace
  /// them.
  [[gnu::cold]] void let_go(context& ctx, slot& s, slot_id id, members& all);
  void let_go_of_all(context& ctx, members& all);
  /// A session is free of the slot that its user has released. If it was the last session, the release is answered.
  void free_member(context& ctx, slot_id& gives_back, const failure* why = nullptr);
  /// The session ends: it stands for no slot any more.
  void drop(const member& m);

  /// Lists the spares anew.
  void list_spares(const members& all);
  void erase_spare(member_id id) { std::erase(spares_, id); }

private:
  bool mark_lost(slot& s, members& all);

  slot_table<slot> slots_;  ///< a place is free unless its slot is held, lost or being released
  std::vector<member_id> spares_;
  std::uint32_t in_use_ = 0;
  time_point given_back_at_{};
};

}  // namespace holdfast::protocol
