#pragma once

#include <string>
#include <string_view>

#include "protocol/context.hpp"
#include "protocol/lease.hpp"
#include "protocol/outage.hpp"

namespace holdfast::protocol {

/// One session of ours, from before Consul has created it. Nobody but its core uses it.
struct own_session {
  member_id id{};
  std::string session{};  ///< empty: it is not created yet
  protocol::lease lease{};
  time_point asked_at{};    ///< when the latest create or renew request was handed out to be sent
  time_point created_at{};  ///< when Consul's answer came that it had created it
  failure not_renewed{};    ///< what the last renewal failed with, if it did
  bool awaits_node = false;
  bool had_node = false;  ///< registered for it, once
};

void created(context& ctx, own_session& s, std::string session, lease fresh);
void renew_when_due(context& ctx, own_session& s);
/// False: Consul says that it is gone, which a leader that has not caught up yet may say of a live session: a
/// consistent look, or the lease, decides. A reply that came too late changes nothing: lost is final.
bool renewed(context& ctx, own_session& s, event::session_renewed& e);
/// Why its lease has run out.
failure why_expired(const own_session& s);
/// Whether Consul has answered that it has no leader.
bool tells_of_no_leader(const diagnostics& details);
/// What becomes of a slot's session when the slot is lost for that reason.
enum class session_after {
  ended,    ///< Consul has ended it
  stays,    ///< it lives until the user lets go, but somebody else may have the slot by then
  protects  ///< it lives until the user lets go, and keeps the slot from everybody else for as long
};
constexpr session_after session_after_loss(loss_reason reason) {
  switch (reason) {
    case loss_reason::session_invalidated:
      return session_after::ended;
    case loss_reason::none:
    case loss_reason::removed:  // by whoever wanted it to be somebody else's
    case loss_reason::closed:   // closing waits for the user for some time only
    case loss_reason::not_accepted:
      return session_after::stays;
    case loss_reason::lease_expired:
    case loss_reason::watch_failed:
      return session_after::protects;
  }
  return session_after::stays;
}
constexpr bool is_end_of_session(loss_reason reason) { return session_after_loss(reason) == session_after::ended; }
/// Adds to a refusal what the token has to allow.
failure with_rules(failure why, std::string_view node);

/// A session that must end, whatever becomes of the requests that named it: a destroyed session makes them harmless.
struct ending_session {
  time_point until{};  ///< by then Consul has ended it without us
  outage attempts{};
  bool asking = false;
};

/// Asks Consul to end it, again after each failure. False: it is over by itself.
bool pursue(context& ctx, ending_session& s, const std::string& session);
void not_destroyed(context& ctx, ending_session& s);

}  // namespace holdfast::protocol
