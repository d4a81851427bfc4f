// SPDX-FileCopyrightText: The holdfast authors
// SPDX-License-Identifier: BSL-1.0

#include "protocol/session.hpp"

namespace holdfast::protocol {

failure why_expired(const own_session& s) {
  if (s.not_renewed.code) return s.not_renewed;
  return {make_error_code(error::timed_out),
          {"no renewal was answered in time: Consul did not answer, or this process did not run", s.session, {}, {}}};
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
