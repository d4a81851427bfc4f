// SPDX-FileCopyrightText: The holdfast authors
// SPDX-License-Identifier: BSL-1.0

#include "protocol/gone_makers.hpp"

#include <algorithm>
#include <chrono>
#include <iterator>
#include <utility>

namespace holdfast::protocol {

namespace {

/// How long a process at most leaves the write to another process of its host.
constexpr duration turn_max = std::chrono::milliseconds(20);

}  // namespace

void gone_makers::add(context& ctx, std::string session, duration lock_delay, duration ttl) {
  if (all_.size() >= gone_max) return;  // the TTL decides
  const auto [at, is_new] = all_.try_emplace(std::move(session));
  if (!is_new) return;
  at->second.free_at = ctx.now() + lock_delay;
  at->second.as_of = ctx.last_request();
  at->second.end.until = at->second.free_at + 2 * ttl;
}

bool gone_makers::need_listing(context& ctx, const snapshot& now, request_id as_of) const {
  return std::any_of(all_.begin(), all_.end(), [&](const auto& each) {
    const auto& [session, its] = each;
    return as_of <= its.as_of && !now.find(session) && ctx.due_or_wake(its.free_at);
  });
}

std::vector<const contender*> gone_makers::due(context& ctx, const snapshot& now) const {
  std::vector<const contender*> result;
  for (const auto& [session, its] : all_) {
    const contender* const entry = now.find(session);
    if (entry && ctx.due_or_wake(its.free_at)) result.push_back(entry);
  }
  return result;
}

bool gone_makers::is_turn(context& ctx) {
  if (turn_at_ == never) turn_at_ = ctx.now() + ctx.random().between(duration(0), turn_max);
  return ctx.due_or_wake(turn_at_);
}

void gone_makers::tried(const std::vector<std::string>& removed) {
  for (const std::string& session : removed)
    if (const auto at = all_.find(session); at != all_.end()) at->second.is_tried = true;
}

void gone_makers::saw(const snapshot& now) {
  for (auto& [session, its] : all_)
    its.is_removed = its.is_removed || (its.is_tried && !now.find(session) && !now.record.names(session));
}

void gone_makers::pursue_all(context& ctx) {
  for (auto at = all_.begin(); at != all_.end();) {
    gone& its = at->second;
    const bool lasts = its.is_removed ? pursue(ctx, its.end, at->first) : !ctx.due_or_wake(its.end.until);
    at = lasts ? std::next(at) : all_.erase(at);
  }
}

bool gone_makers::destroyed(context& ctx, const event::session_destroyed& e) {
  const auto at = all_.find(e.session);
  if (at == all_.end()) return false;
  if (e.gone)
    all_.erase(at);
  else
    not_destroyed(ctx, at->second.end);
  return true;
}

}  // namespace holdfast::protocol
