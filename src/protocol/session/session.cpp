// SPDX-FileCopyrightText: The holdfast authors
// SPDX-License-Identifier: BSL-1.0

#include "protocol/session/session.hpp"

#include <utility>

namespace holdfast::protocol {

void own_session::created(context& ctx, std::string its_id, duration ttl, duration margin) {
  state.go_to(session_state::live);
  session = std::move(its_id);
  lease = protocol::lease(ttl, margin);
  lease.extend(asked_at, ctx.random());
  created_at = ctx.now();
}

void own_session::renew_when_due(context& ctx) {
  if (!ctx.due_or_wake(lease.renew_at())) return;
  asked_at = ctx.now();
  lease.asked();
  ctx.act(action::renew_session{id, session});
}

bool own_session::keep_alive(context& ctx, bool watch_fails, bool renews) {
  if (renews) renew_when_due(ctx);
  const session_state before = state;
  const bool is_overdue = ctx.due_or_wake(lease.suspect_at());
  state.go_to(is_overdue || watch_fails ? session_state::suspect : session_state::live);
  return state != before;
}

bool own_session::renewed(context& ctx, event::session_renewed& e) {
  not_renewed = std::move(e.error);
  const bool in_time = e.outcome == event::renewal::renewed && ctx.now() < lease.deadline();
  ctx.measure(renewal_measured{in_time, ctx.now() - asked_at, lease.left(ctx.now())});
  if (e.outcome != event::renewal::renewed) lease.failed(ctx.now(), ctx.random());
  if (in_time) lease.extend(asked_at, ctx.random());
  return e.outcome != event::renewal::gone;
}

failure own_session::why_expired(const std::string& store) const {
  if (not_renewed.code) return not_renewed;
  return {
      make_error_code(error::timed_out),
      {"no renewal was answered in time: " + store + " did not answer, or this process did not run", session, {}, {}}};
}

bool ending_session::pursue(context& ctx, const std::string& session) {
  if (ctx.due_or_wake(until)) return false;
  if (!asking && ctx.due_or_wake(attempts.retry_at())) {
    asking = true;
    ctx.act(action::destroy_session{session});
  }
  return true;
}

void ending_session::not_destroyed(context& ctx) {
  asking = false;
  attempts.failed({}, ctx.now(), ctx.random());
}

}  // namespace holdfast::protocol
