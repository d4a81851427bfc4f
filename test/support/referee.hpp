// SPDX-FileCopyrightText: The holdfast authors
// SPDX-License-Identifier: BSL-1.0

#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <holdfast/fencing_token.hpp>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "protocol/base/time.hpp"
#include "protocol/core/events.hpp"
#include "support/guarantee.hpp"

namespace holdfast::test {

/// Checks the guarantees from what users of one or several semaphores see. It knows neither records nor sessions, and
/// nothing of the code under test. All times are true time. It keeps the first violation.
class referee {
public:
  /// `several`: the number of semaphores, which have the same limit and are judged separately.
  explicit referee(std::uint32_t limit, std::size_t several = 1) : limit_(limit), believers_(several) {}

  /// Empty as long as no guarantee is violated. Otherwise the text begins with the guarantee: "G4 ".
  const std::string& violation() const { return violation_; }
  std::optional<guarantee> broken() const { return broken_; }
  void object(guarantee broken, const std::string& what);

  void asked(int process, protocol::ticket t, std::size_t which = 0);
  /// The acquire has completed without a slot.
  void answered(int process, protocol::ticket t);
  /// The acquire has completed. Its caller believes in the slot until `gone`, or until `deadline`. The deadline may
  /// have passed already, which a process that was paused cannot know. `was_taken_away`: the slot was taken away before
  /// the process learned of the grant, so that the token may be an old one.
  void granted(int process, protocol::ticket t, protocol::slot_id slot, std::uint32_t count, fencing_token token,
               protocol::time_point now, protocol::time_point deadline, bool was_taken_away = false);
  void updated(int process, protocol::slot_id slot, protocol::time_point deadline);
  /// `by_user`: the user has released the slot, which may have been lost just before.
  void gone(int process, protocol::slot_id slot, bool by_user);
  /// The slot is lost, and its user goes on with the work that it protects, until `has_ended`.
  void runs_on(int process, protocol::slot_id slot);
  void has_ended(int process, protocol::slot_id slot);
  /// A contender of another program holds one slot or none.
  void stranger_holds(int number, bool holds);
  void crashed(int process);

  /// An operator has taken slots away without the knowledge of their holders. Until `end`, G1 and G4 are not promised.
  void excuse_until(protocol::time_point end) { excused_until_ = end; }
  /// An operator has set another limit.
  void set_limit(std::uint32_t limit) { limit_ = limit; }
  /// An operator has removed the lock key, or its history, so tokens may start anew.
  void forget_tokens() { last_tokens_.clear(); }
  bool excused(protocol::time_point now) const { return now < excused_until_; }
  /// `excused`, if set, returns true for slots whose holders' belief does not count, because the slot was taken away
  /// without the holder's knowledge.
  void check_believers(protocol::time_point now,
                       const std::function<bool(int process, protocol::slot_id slot)>& excused = {});

  bool anyone_waits(int process) const;
  bool holds(int process, protocol::slot_id slot) const;
  bool holds_any(int process) const;
  /// The number of slots that the process believes to hold.
  std::uint32_t believed(int process, protocol::time_point now) const;

private:
  struct holding {
    std::uint32_t count;
    protocol::time_point deadline;
    std::size_t which;
  };
  void check_limit(const char* what);
  std::uint32_t limit_;
  std::string violation_;
  std::optional<guarantee> broken_;
  std::map<int, std::map<protocol::ticket, std::size_t>> waiting_;
  std::map<int, std::map<protocol::slot_id, holding>> held_;
  std::map<int, std::map<protocol::slot_id, holding>> running_;  ///< though lost
  std::set<int> strangers_;
  std::map<std::size_t, fencing_token> last_tokens_;
  std::vector<std::size_t> believers_;  ///< meaningful only while believers are counted
  protocol::time_point excused_until_{};
};

}  // namespace holdfast::test
