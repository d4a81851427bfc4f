// SPDX-FileCopyrightText: The holdfast authors
// SPDX-License-Identifier: BSL-1.0

#include "protocol/pool/taking.hpp"

#include <utility>

namespace holdfast::protocol {

void taking::on(context& ctx, event::maker_gone& e, const pool_parts& parts) {
  if (parts.members.is_ours(e.session)) return;
  gone_.add(ctx, std::move(e.session), parts.options.gone_delay, parts.options.ttl);
}

void taking::saw(context& ctx, const pool_parts& parts) {
  gone_.saw(parts.view.now());
  open_.saw(ctx, parts.view.now(), parts.members);
  doubtful_.saw(ctx.now(), parts.view.now());
}

void taking::applied(context& ctx, const transaction& txn, std::uint64_t index, duration ttl) {
  for (const std::string& description : txn.taken_from) doubtful_.took_back(description, index, ctx.now() + ttl);
}

void taking::granted(context& ctx, const transaction& txn, const pool_parts& parts) {
  open_.saw(ctx, parts.view.now(), parts.members);
  granted(txn);
}

std::vector<const contender*> taking::overdue(moment& at, const pool_parts& parts) const {
  return open_.overdue(at, parts.view.now(), any_waits(parts.members));
}

bool taking::must_list(moment& at, const pool_parts& parts) const {
  const std::vector<const contender*> all = overdue(at, parts);
  return !all.empty() && (!parts.view.current() || open_.is_unseen(all, parts.view.listed_at()));
}

std::vector<const contender*> taking::gone(moment& at, const pool_parts& parts) const {
  return gone_.empty() || !parts.waits_for_others() ? std::vector<const contender*>() : gone_.due(at, parts.view.now());
}

bool taking::takes_turn_to_list(context& ctx, const pool_parts& parts) {
  if (gone_.empty() || parts.view.current() || !parts.waits_for_others()) return false;
  return gone_.takes_turn_to_list(ctx, parts.view.now(), parts.view.as_of());
}

void taking::free_slots_of_the_gone(context& ctx, other_holders& others) {
  if (gone_.empty()) return;
  for (const std::string_view session : ctx.ask([&](moment& at) { return gone_.free(at); }))
    others.maker_is_gone(session);
}

plan_rules taking::rules(moment& at, const pool_parts& parts, const moves& what) const {
  plan_rules result =
      rules_for(at, {parts, at.now()}, what, parts.others, parts.duty, overdue(at, parts), gone(at, parts));
  result.doubted = doubtful_.sessions(at.now(), parts.view.now(), result.taken_back);
  return result;
}

bool taking::takes_turn(context& ctx, const grant_plan& next, bool writes_record) {
  if (next.gone.empty())
    gone_.nothing_due();
  else if (!writes_record)
    writes_record = gone_.takes_turn(ctx);
  return writes_record;
}

void taking::watch_makers(context& ctx, const pool_parts& parts) {
  watching_.check(ctx, parts.waits_for_others(), parts.closing.has_begun(), parts.options.watch_makers);
}

}  // namespace holdfast::protocol
