// SPDX-FileCopyrightText: The holdfast authors
// SPDX-License-Identifier: BSL-1.0

#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "protocol/session.hpp"

namespace holdfast::protocol {

/// The sessions that a core has in Consul: those that it uses, and those that must end. A session in use has a
/// `member_id`, also before Consul has named it. `Member` derives from `own_session`, and `Ending` from
/// `ending_session`. Both add what else the core knows of the session.
template <class Member, class Ending>
class session_set {
public:
  using ending_map = std::map<std::string, Ending, std::less<>>;

  /// Why sessions could not be created, and when to try again. A mutex set also notes here that it has lost a session
  /// because its watch had failed for too long.
  outage failures{};

  // --- The sessions in use, in the order in which they were requested.

  auto begin() { return members_.begin(); }
  auto end() { return members_.end(); }
  auto begin() const { return members_.begin(); }
  auto end() const { return members_.end(); }
  std::size_t size() const { return members_.size(); }
  bool empty() const { return members_.empty(); }
  /// The number of sessions that are being created.
  std::size_t creating() const {
    return static_cast<std::size_t>(
        std::count_if(begin(), end(), [](const auto& each) { return each.second.session.empty(); }));
  }

  Member& operator[](member_id id) { return members_.at(id); }
  const Member& operator[](member_id id) const { return members_.at(id); }
  Member* find(member_id id) {
    const auto at = members_.find(id);
    return at == members_.end() ? nullptr : &at->second;
  }
  Member* find(std::string_view session) {
    const auto at = ids_.find(session);
    return at == ids_.end() ? nullptr : &members_.at(at->second);
  }
  const Member* find(std::string_view session) const { return const_cast<session_set*>(this)->find(session); }
  bool is_ours(std::string_view session) const { return ids_.contains(session) || ending_.contains(session); }

  /// Requests one more session.
  Member& create(context& ctx) {
    const member_id id{++last_id_};
    Member& m = members_[id];
    m.id = id;
    m.asked_at = ctx.now();
    ctx.act(action::create_session{id});
    return m;
  }
  void created(context& ctx, Member& m, std::string session, lease fresh) {
    protocol::created(ctx, m, std::move(session), fresh);
    ids_.emplace(m.session, m.id);
  }
  /// The session could not be created. If the cause is that its node is not in Consul's catalog, this returns true, but
  /// only once for each session. It requests the registration of the node, unless such a request is pending.
  /// `create_again` then creates the session.
  bool registers_node(context& ctx, Member& m, const failure& why, std::string_view node) {
    if (why.code != error::missing_node || node.empty() || std::exchange(m.had_node, true)) return false;
    m.awaits_node = true;
    m.asked_at = ctx.now();
    if (!std::exchange(registering_, true)) ctx.act(action::register_node{});
    return true;
  }
  /// The request to register the node is answered. Returns the sessions that waited for it.
  std::vector<member_id> node_registered() {
    registering_ = false;
    std::vector<member_id> waiting;
    for (const auto& [id, m] : members_)
      if (m.awaits_node) waiting.push_back(id);
    return waiting;
  }
  void create_again(context& ctx, member_id id) {
    Member& m = members_.at(id);
    m.awaits_node = false;
    m.asked_at = ctx.now();
    ctx.act(action::create_session{id});
  }
  /// Removes a session whose creation has failed.
  void forget(member_id id) { members_.erase(id); }

  // --- The sessions that must end, by their names.

  ending_map& ending() { return ending_; }
  const ending_map& ending() const { return ending_; }

  /// Moves a session in use to those that must end.
  Ending& retire(member_id id) {
    const auto at = members_.find(id);
    ids_.erase(at->second.session);
    Ending& e = ending_.insert_or_assign(std::move(at->second.session), Ending{}).first->second;
    members_.erase(at);
    return e;
  }

private:
  std::map<member_id, Member> members_;
  std::map<std::string, member_id, std::less<>> ids_;
  ending_map ending_;
  std::uint64_t last_id_ = 0;
  bool registering_ = false;  ///< a request to register the node is pending
};

}  // namespace holdfast::protocol
