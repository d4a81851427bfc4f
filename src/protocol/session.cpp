// SPDX-FileCopyrightText: The holdfast authors
// SPDX-License-Identifier: BSL-1.0

#include "protocol/session.hpp"

#include <algorithm>
#include <iterator>
#include <string_view>
#include <utility>

namespace holdfast::protocol {

void created(context& ctx, own_session& s, std::string session, lease fresh) {
  s.session = std::move(session);
  s.lease = fresh;
  s.created_at = ctx.now();
  s.lease.extend(s.asked_at, ctx.random());
}

void renew_when_due(context& ctx, own_session& s) {
  if (!ctx.due_or_wake(s.lease.renew_at())) return;
  s.asked_at = ctx.now();
  s.lease.asked();
  ctx.act(action::renew_session{s.id, s.session});
}

bool renewed(context& ctx, own_session& s, event::session_renewed& e) {
  s.not_renewed = std::move(e.error);
  if (e.outcome != event::renewal::renewed) s.lease.failed(ctx.now(), ctx.random());
  if (e.outcome == event::renewal::renewed && ctx.now() < s.lease.deadline()) s.lease.extend(s.asked_at, ctx.random());
  return e.outcome != event::renewal::gone;
}

failure why_expired(const own_session& s) {
  if (s.not_renewed.code) return s.not_renewed;
  return {make_error_code(error::timed_out),
          {"no renewal was answered in time: Consul did not answer, or this process did not run", s.session, {}, {}}};
}

failure with_rules(failure why, std::string_view node) {
  if (why.code != error::permission_denied || node.empty()) return why;
  const std::string rule = " \"" + std::string(node) + "\" { policy = \"write\" }";
  why.details.message += "; the token needs the ACL rule session" + rule +
                         ", and where nobody has registered that node yet, node" + rule + ", too";
  return why;
}

bool pursue(context& ctx, ending_session& s, const std::string& session) {
  if (ctx.due_or_wake(s.until)) return false;
  if (!s.asking && ctx.due_or_wake(s.attempts.retry_at())) {
    s.asking = true;
    ctx.act(action::destroy_session{session});
  }
  return true;
}

void not_destroyed(context& ctx, ending_session& s) {
  s.asking = false;
  s.attempts.failed({}, ctx.now(), ctx.random());
}

}  // namespace holdfast::protocol
