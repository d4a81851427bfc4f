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

#include "protocol/core/core_options.hpp"
#include "protocol/session/session.hpp"

namespace holdfast::protocol {

/// The meaning of an answer to a request to create a session.
enum class creation {
  nothing,  ///< nobody waits for this session, or its node has to be registered first
  done,     ///< the session can be used
  failed,   ///< it is to be tried again, after a pause
  refused,  ///< repetition would not help: callers that wait should receive the error
};

/// The sessions of a core, from the request to create one until it has ended. The keeper asks the store to create and
/// to destroy them, and to register their node. Each `own_session` renews itself. The core decides how many there are,
/// and what the end of one means.
///
/// A session in use has a `member_id`, also before Consul has named it. `Member` derives from `own_session`, and
/// `Ending` from `ending_session`. Both add what else the core knows of the session.
template <class Member, class Ending>
class session_keeper {
public:
  using ending_map = std::map<std::string, Ending, std::less<>>;

  explicit session_keeper(const core_options& options)
      : ttl_(options.ttl), margin_(options.lease_margin), node_(options.node) {}

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
        std::count_if(begin(), end(), [](const auto& each) { return !each.second.is_created(); }));
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
  const Member* find(std::string_view session) const { return const_cast<session_keeper*>(this)->find(session); }
  bool is_ours(std::string_view session) const { return ids_.contains(session) || ending_.contains(session); }

  // --- Creation

  /// Why sessions could not be created, and when to try again.
  const outage& failures() const { return failures_; }
  /// Somebody new waits for a session. Failures from before do not delay it.
  void retry_now() { failures_.retry_now(); }
  /// Nobody needs another session any more.
  void forget_failures() { failures_.over(); }

  /// Requests one more session.
  Member& create(context& ctx) {
    Member& m = members_[member_id{++last_id_}];
    m.id = member_id{last_id_};
    request(ctx, m);
    return m;
  }
  /// `is_closed`: the core is closed, so a session that has been created is destroyed again. The error stays in `e`.
  creation answered(context& ctx, event::session_created& e, bool is_closed) {
    if (is_closed) {
      if (!e.session.empty()) ctx.act(action::destroy_session{std::move(e.session)});
      return creation::nothing;
    }
    Member* const m = find(e.member);
    if (!m || m->is_created()) return creation::nothing;
    if (e.session.empty()) return not_created(ctx, *m, e.error);
    if (m->state != session_state::creating) return creation::nothing;
    failures_.over();
    m->created(ctx, std::move(e.session), ttl_, margin_);
    ids_.emplace(m->session, m->id);
    return creation::done;
  }
  /// The request to register the node is answered. Requests the sessions that have waited for it. If it has failed,
  /// returns them instead: each must be `answered` with the error.
  std::vector<member_id> registered(context& ctx, const event::node_registered& e) {
    registers_ = false;
    std::vector<member_id> failed;
    for (auto& [id, m] : members_) {
      if (m.state != session_state::registering) continue;
      if (e.error.code)
        failed.push_back(id);
      else
        request(ctx, m);
    }
    return failed;
  }

  // --- The sessions that must end, by their names.

  ending_map& ending() { return ending_; }
  const ending_map& ending() const { return ending_; }

  /// Moves a session in use to those that must end.
  Ending& retire(member_id id) {
    const auto at = members_.find(id);
    at->second.state.end();
    ids_.erase(at->second.session);
    Ending& e = ending_.insert_or_assign(std::move(at->second.session), Ending{}).first->second;
    members_.erase(at);
    return e;
  }
  /// Asks Consul to destroy the sessions for which `may_end` returns true, and asks again after each failure.
  template <class MayEnd>
  void destroy(context& ctx, MayEnd may_end) {
    for (auto& [session, e] : ending_)
      if (may_end(e)) e.pursue(ctx, session);
  }
  /// Takes the first session whose `until` has passed for ended, and returns it; `remove` must follow.
  typename ending_map::iterator let_expire(context& ctx) {
    const auto at = std::find_if(ending_.begin(), ending_.end(),
                                 [&](const auto& each) { return ctx.due_or_wake(each.second.until); });
    if (at != ending_.end()) ctx.act(action::forget_session{at->first});
    return at;
  }
  /// The answer to a request to destroy a session. Returns the session if it has ended; `remove` must follow.
  typename ending_map::iterator destroyed(context& ctx, const event::session_destroyed& e) {
    const auto at = ending_.find(e.session);
    if (at == ending_.end() || e.gone) return at;
    at->second.not_destroyed(ctx);
    return ending_.end();
  }
  /// Forgets a session that has ended, and returns what the core knew of it.
  Ending remove(typename ending_map::iterator at) { return std::move(ending_.extract(at).mapped()); }

private:
  void request(context& ctx, Member& m) {
    m.state.go_to(session_state::creating);
    m.asked_at = ctx.now();
    ctx.act(action::create_session{m.id});
  }
  /// If the cause is that the session's node is not in Consul's catalog, this requests the registration of the node,
  /// once for each session, unless such a request is pending.
  creation not_created(context& ctx, Member& m, const failure& why) {
    if (why.code == error::missing_node && !node_.empty() && !std::exchange(m.had_node, true)) {
      m.state.go_to(session_state::registering);
      m.asked_at = ctx.now();
      if (!std::exchange(registers_, true)) ctx.act(action::register_node{});
      return creation::nothing;
    }
    const time_point asked_at = m.asked_at;
    m.state.end();
    members_.erase(m.id);
    if (is_final(why.code) && why.code != error::missing_node) return creation::refused;
    failures_.failed(why, ctx.now(), ctx.random(), asked_at);
    return creation::failed;
  }

  duration ttl_;
  duration margin_;
  std::string node_;
  std::map<member_id, Member> members_;
  std::map<std::string, member_id, std::less<>> ids_;
  ending_map ending_;
  outage failures_;
  std::uint64_t last_id_ = 0;
  bool registers_ = false;  ///< a request to register the node is pending
};

}  // namespace holdfast::protocol
