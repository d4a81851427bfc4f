// SPDX-FileCopyrightText: The holdfast authors
// SPDX-License-Identifier: BSL-1.0

#include "protocol/broker/seat.hpp"

namespace holdfast::protocol {

time_point seat::overdue_at(duration most) const {
  switch (current()) {
    case phase::declaring:
    case phase::purging:
      return asked_at_ + most;
    case phase::vacating:
      return vacates_since_ + most;
    case phase::cleansing:
    case phase::held:
    case phase::suspect:
    case phase::lost:
      break;
  }
  return never;  // the lease bounds these
}

request_id seat::ask(broker_context& ctx) {
  asked_at_ = ctx.now();
  return pending_ = ctx.new_request();
}

void seat::seize(broker_context& ctx, bool declares_tokens) {
  const request_id id = ask(ctx);
  ctx.act(action::seize{id_, id, declares_tokens});
}

void seat::pursue(broker_context& ctx, bool blocked, bool verifies) {
  if (is(phase::vacating)) return send_vacate(ctx, blocked);
  if (is(phase::held) || is(phase::suspect)) {
    if (verifies) verify(ctx);
    return;
  }
  if (!is(phase::cleansing) || !ctx.due_or_wake(cleanse_at_)) return;
  state_.go_to(phase::purging);
  const request_id id = ask(ctx);
  ctx.act(action::cleanse{id_, id});
}

void seat::verify(broker_context& ctx) {
  if (pending_ != 0 || !ctx.due_or_wake(lease_.renew_at())) return;
  lease_.asked();
  const request_id id = ask(ctx);
  ctx.act(action::verify{id_, id});
}

void seat::vacate(broker_context& ctx) {
  state_.go_to(phase::vacating);
  vacates_since_ = ctx.now();
}

/// The token says that nobody here believes any more, so it needs a seat that was clean. In an alarm of the broker, a
/// publish would never be carried out, and all behind it neither.
void seat::send_vacate(broker_context& ctx, bool blocked) {
  if (pending_ != 0 || vacate_sent_) return;
  vacate_sent_ = true;
  const request_id id = ask(ctx);
  ctx.act(action::vacate{id_, id, clean_ && !blocked, exists_ && !blocked});
}

void seat::seized(broker_context& ctx, const event::seized& e) {
  pending_ = 0;
  lease_.extend(asked_at_, ctx.random());
  exists_ = e.outcome != event::seizure::no_such_slot;
  if (e.token) return hold(ctx);
  cleanse_at_ = ctx.now() + wait_;
  state_.go_to(phase::cleansing);
}

void seat::verified(broker_context& ctx, const event::verified& e) {
  pending_ = 0;
  const bool succeeded = e.outcome != event::verification::failed;
  if (is(phase::held) || is(phase::suspect))
    ctx.measure(renewal_measured{succeeded, ctx.now() - asked_at_, lease_.left(ctx.now())});
  if (!succeeded) return lease_.failed(ctx.now(), ctx.random());
  lease_.extend(asked_at_, ctx.random());
  exists_ = e.exists;
  if (is(phase::purging)) return hold(ctx);
  if (is(phase::suspect) && ctx.now() < lease_.suspect_at()) state_.go_to(phase::held);
}

void seat::hold(broker_context& ctx) {
  clean_ = true;
  held_since_ = ctx.now();
  state_.go_to(phase::held);
}

}  // namespace holdfast::protocol
