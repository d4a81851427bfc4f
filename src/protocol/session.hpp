// SPDX-FileCopyrightText: The holdfast authors
// SPDX-License-Identifier: BSL-1.0

#pragma once

#include <string>
#include <string_view>

#include "protocol/context.hpp"
#include "protocol/lease.hpp"
#include "protocol/outage.hpp"

namespace holdfast::protocol {

/// One session of ours. It exists here before Consul has created it. Only its core uses it.
struct own_session {
  member_id id{};
  std::string session{};  ///< its id in Consul; empty until Consul has created it
  protocol::lease lease{};
  /// When the latest request to create or renew it was handed out, or when it began to wait for its node.
  time_point asked_at{};
  time_point created_at{};  ///< when Consul's answer to the create request came
  failure not_renewed{};    ///< why the last renewal failed, if it did
  bool awaits_node = false;
  bool had_node = false;  ///< the node has been registered once for this session, or that was tried
};

void created(context& ctx, own_session& s, std::string session, lease fresh);
void renew_when_due(context& ctx, own_session& s);
/// Returns false if Consul reports that the session does not exist. A leader that has not caught up yet may report this
/// of a live session. So if the session holds or waits for anything, a consistent read or the lease decides. A reply
/// after the lease deadline does not extend the lease, because lost is final.
bool renewed(context& ctx, own_session& s, event::session_renewed& e);
/// Returns why the lease has expired.
failure why_expired(const own_session& s);
/// The fate of a slot's session after the slot is lost. A closing core keeps it for a limited time only.
enum class session_after {
  ended,    ///< the session has ended or has lost its entry; if it still lives, it is destroyed
  stays,    ///< it is kept until the user releases the slot or Consul ends it, but another process may get the slot
  protects  ///< it is kept until the user releases the slot or Consul ends it, and nobody else gets the slot till then
};
constexpr session_after session_after_loss(loss_reason reason) {
  switch (reason) {
    case loss_reason::session_invalidated:
      return session_after::ended;
    case loss_reason::none:
    case loss_reason::removed:  // somebody wanted another session to have the slot
    case loss_reason::closed:   // closing waits only for a limited time for the user
    case loss_reason::not_accepted:
      return session_after::stays;
    case loss_reason::lease_expired:
    case loss_reason::watch_failed:
      return session_after::protects;
  }
  return session_after::stays;
}
constexpr bool is_end_of_session(loss_reason reason) { return session_after_loss(reason) == session_after::ended; }
/// Adds the ACL rules that the token needs, if Consul has denied permission to create a session on `node`.
failure with_rules(failure why, std::string_view node);

/// A session that must end. Pending requests may still name it, but they can do no harm once it is destroyed.
struct ending_session {
  time_point until{};  ///< from then on we assume that Consul has ended it without us
  outage attempts{};
  bool asking = false;  ///< a destroy request is pending
};

/// Asks Consul to destroy the session, and asks again after each failure. Returns false from `until` on.
bool pursue(context& ctx, ending_session& s, const std::string& session);
void not_destroyed(context& ctx, ending_session& s);

}  // namespace holdfast::protocol
