#pragma once

#include <cstdint>
#include <vector>

#include "protocol/member.hpp"
#include "protocol/slot_table.hpp"

namespace holdfast::protocol {

/// The slots of this process: which sessions stand for each, which of them users hold, which they have given back and
/// Consul has not yet, and which sessions hold one that nobody uses (the spares).
class slot_ledger {
public:
  struct slot {
    bool held = false;
    bool lost = false;     ///< its user was told, and has not let go yet
    bool revoked = false;  ///< its user was told
    std::vector<member_id> members{};
    std::uint32_t not_free = 0;  ///< after it was given back: so many members are not free of it yet
  };

  slot* find(slot_id id) { return slots_.find(id); }
  /// Sessions in users' hands, also those whose slots are lost.
  std::uint32_t in_use() const { return in_use_; }
  /// Sessions that are ready and hold, in nobody's hands.
  const std::vector<member_id>& spares() const { return spares_; }
  /// When a user last gave a slot back.
  time_point given_back_at() const { return given_back_at_; }

  /// A user gets a slot, without sessions at first: `take` adds one.
  slot_id open();
  /// This spare stands for the slot from now on.
  void take(context& ctx, slot_id id, member& m);
  /// Its user gives it back.
  void give_up(context& ctx, slot& s, slot_id id, members& all);
  /// False: nobody holds it. Else its user has to be told.
  bool lose(slot& s, members& all);
  /// The user of a lost slot has done with it: now its sessions may end, and others come.
  void let_go(context& ctx, slot& s, slot_id id, members& all);
  void let_go_of_all(context& ctx, members& all);
  /// A session of that slot, which its user gave back, is free of it. If it was the last one, the release is answered.
  void free_member(context& ctx, slot_id& gives_back, const failure* why = nullptr);
  /// The session ends: it stands for no slot any more.
  void drop(const member& m);

  /// Finds out who is a spare now.
  void list_spares(const members& all);
  void erase_spare(member_id id) { std::erase(spares_, id); }

  template <class Visit>
  void for_each(Visit visit) {
    slots_.for_each(visit);
  }

private:
  slot_table<slot> slots_;  ///< free places are those that nobody has, nor waits for the release of
  std::vector<member_id> spares_;
  std::uint32_t in_use_ = 0;
  time_point given_back_at_{};
};

}  // namespace holdfast::protocol
