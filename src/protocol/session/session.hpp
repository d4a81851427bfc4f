// SPDX-FileCopyrightText: The holdfast authors
// SPDX-License-Identifier: BSL-1.0

#pragma once

#include <string>

#include "protocol/base/transitions.hpp"
#include "protocol/core/context.hpp"
#include "protocol/core/outage.hpp"
#include "protocol/session/lease.hpp"

namespace holdfast::protocol {

/// Where a session of ours stands.
enum class session_state {
  creating,     ///< Consul was asked to create it
  registering,  ///< its node is missing in Consul's catalog: the session is created when the node is registered
  live,
  suspect,  ///< it lives, but a renewal is overdue, or the watch that would show its end has failed
};
inline constexpr transition<session_state> session_transitions[] = {
    {outside, session_state::creating},
    {session_state::creating, session_state::registering},
    {session_state::registering, session_state::creating},
    {session_state::creating, session_state::live},
    {session_state::live, session_state::suspect},
    {session_state::suspect, session_state::live},
    {session_state::creating, outside},
    {session_state::registering, outside},
    {session_state::live, outside},
    {session_state::suspect, outside},
};

/// One session of ours. It exists here before Consul has created it. Its `session_keeper` owns it.
struct own_session {
  member_id id{};
  std::string session{};  ///< its id in Consul; empty until Consul has created it
  guarded_state<session_state, session_transitions> state{};
  protocol::lease lease{};
  /// When the latest request to create or renew it was handed out, or when it began to wait for its node.
  time_point asked_at{};
  time_point created_at{};  ///< when Consul's answer to the create request came
  failure not_renewed{};    ///< why the last renewal failed, if it did
  bool had_node = false;    ///< the node has been registered once for this session, or that was tried

  bool is_created() const { return state == session_state::live || is_suspect(); }
  bool is_suspect() const { return state == session_state::suspect; }

  void created(context& ctx, std::string its_id, duration ttl, duration margin);
  void renew_when_due(context& ctx);
  /// Renews the session if that is due, and assesses whether it is suspect. `watch_fails`: the core could not see the
  /// session's end. `renews`: false if the session is to expire. Returns true if that has changed.
  bool keep_alive(context& ctx, bool watch_fails, bool renews);
  /// Returns false if Consul reports that the session does not exist. A leader that has not caught up yet may report
  /// this of a live session. So if the session holds or waits for anything, a consistent read or the lease decides. A
  /// reply after the lease deadline does not extend the lease, because lost is final.
  bool renewed(context& ctx, event::session_renewed& e);
  /// Returns why the lease has expired. `store` is the name of the store in the text.
  failure why_expired(const std::string& store) const;
};

/// Whether a lost slot is kept from others until its user has released it, or until Consul ends the session. While a
/// core closes, it waits for the user for a limited time only.
constexpr bool protects_slot(loss_reason reason) {
  switch (reason) {
    case loss_reason::lease_expired:
    case loss_reason::watch_failed:
    case loss_reason::application_silent:
      return true;
    case loss_reason::none:
    case loss_reason::session_invalidated:
    case loss_reason::removed:  // somebody wanted another session to have the slot
    case loss_reason::closed:
    case loss_reason::not_accepted:
      return false;
  }
  return false;
}
/// A session that must end. Pending requests may still name it, but they can do no harm once it is destroyed.
struct ending_session {
  time_point until{};  ///< from then on we assume that Consul has ended it without us

  /// Asks Consul to destroy the session, and asks again after each failure. Returns false from `until` on.
  bool pursue(context& ctx, const std::string& session);
  void not_destroyed(context& ctx);

private:
  outage attempts{};
  bool asking = false;  ///< a destroy request is pending
};

}  // namespace holdfast::protocol
