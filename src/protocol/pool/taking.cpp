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

std::vector<const contender*> taking::overdue(context& ctx, const pool_parts& parts) const {
  return open_.overdue(ctx, parts.view.now(), any_waits(parts.members));
}

bool taking::must_list(context& ctx, const pool_parts& parts) const {
  const std::vector<const contender*> all = overdue(ctx, parts);
  return !all.empty() && (!parts.view.current() || open_.is_unseen(all, parts.view.listed_at()));
}

std::vector<const contender*> taking::gone(context& ctx, const pool_parts& parts) const {
  return gone_.empty() || !parts.waits_for_others() ? std::vector<const contender*>()
                                                    : gone_.due(ctx, parts.view.now());
}

bool taking::must_list_the_gone(context& ctx, const pool_parts& parts) {
  if (gone_.empty() || parts.view.current() || !parts.waits_for_others()) return false;
  return gone_.need_listing(ctx, parts.view.now(), parts.view.as_of());
}

plan_rules taking::rules(context& ctx, pool_parts& parts, const moves& what) const {
  gone_.for_each_free(ctx, [&](const std::string& session) { parts.others.maker_is_gone(session); });
  plan_rules result =
      rules_for(ctx, {parts, ctx.now()}, what, parts.others, parts.duty, overdue(ctx, parts), gone(ctx, parts));
  result.doubted = doubtful_.sessions(ctx.now(), parts.view.now(), result.taken_back);
  return result;
}

bool taking::is_turn(context& ctx, const grant_plan& next, bool writes_record) {
  if (next.gone.empty())
    gone_.nothing_due();
  else if (!writes_record)
    writes_record = gone_.is_turn(ctx);
  return writes_record;
}

void taking::watch_makers(context& ctx, const pool_parts& parts) {
  watching_.check(ctx, parts.waits_for_others(), parts.closing.has_begun(), parts.options.watch_makers);
}

}  // namespace holdfast::protocol
