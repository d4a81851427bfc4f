// SPDX-FileCopyrightText: The holdfast authors
// SPDX-License-Identifier: BSL-1.0

#include "protocol/pool/gone_makers.hpp"

#include <algorithm>
#include <chrono>
#include <iterator>
#include <utility>

namespace holdfast::protocol {

namespace {

/// How long a process at most leaves the write, and the listing before it, to another process of its host.
constexpr duration turn_max = std::chrono::milliseconds(20);
/// How long it at most leaves the listing to others if the dead contender holds no slot.
constexpr duration unhurried_turn_max = std::chrono::milliseconds(500);

}  // namespace

void gone_makers::add(context& ctx, std::string session, duration lock_delay, duration ttl) {
  if (all_.size() >= gone_max) return;  // the TTL decides
  const auto [at, is_new] = all_.try_emplace(std::move(session));
  if (!is_new) return;
  at->second.free_at = ctx.now() + lock_delay;
  at->second.read_at = at->second.free_at + ctx.random().between(duration(0), unhurried_turn_max);
  at->second.as_of = ctx.last_request();
  at->second.end.until = at->second.free_at + 2 * ttl;
}

void gone_makers::file_removed(const std::string& session) {
  if (const auto at = all_.find(session); at != all_.end()) at->second.is_file_removed = true;
}

bool gone_makers::takes_turn_to_list(context& ctx, const snapshot& now, request_id as_of) {
  bool is_urgent = false, is_due = false;
  for (const auto& [session, its] : all_) {
    if (now.record.names(session))
      is_urgent = ctx.due_or_wake(its.free_at) || is_urgent;
    else if (!its.is_file_removed && (as_of <= its.as_of || now.find(session)))
      is_due = ctx.due_or_wake(its.read_at) || is_due;
  }
  if (!is_urgent) nothing_due();
  return is_due || (is_urgent && takes_turn(ctx));
}

std::vector<std::string_view> gone_makers::free(moment& at) const {
  std::vector<std::string_view> result;
  for (const auto& [session, its] : all_)
    if (at.has_come(its.free_at)) result.push_back(session);
  return result;
}

std::vector<const contender*> gone_makers::due(moment& at, const snapshot& now) const {
  std::vector<const contender*> result;
  for (const auto& [session, its] : all_) {
    const contender* const entry = now.find(session);
    if (entry && at.has_come(its.free_at)) result.push_back(entry);
  }
  return result;
}

bool gone_makers::takes_turn(context& ctx) {
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

/// The dead process may have had a longer TTL than this one. So a session is not forgotten while it is shown.
void gone_makers::pursue_all(context& ctx, const snapshot& now, bool is_current) {
  for (auto at = all_.begin(); at != all_.end();) {
    const std::string& session = at->first;
    gone& its = at->second;
    const bool is_shown = now.find(session) || now.record.names(session);
    const bool may_be_hidden = !is_current && !its.is_removed && !its.is_file_removed;
    const bool is_pursued = its.is_removed ? its.end.pursue(ctx, session) : !ctx.due_or_wake(its.end.until);
    at = is_pursued || is_shown || may_be_hidden ? std::next(at) : all_.erase(at);
  }
}

bool gone_makers::destroyed(context& ctx, const event::session_destroyed& e) {
  const auto at = all_.find(e.session);
  if (at == all_.end()) return false;
  if (e.gone)
    all_.erase(at);
  else
    at->second.end.not_destroyed(ctx);
  return true;
}

}  // namespace holdfast::protocol
