// SPDX-FileCopyrightText: The holdfast authors
// SPDX-License-Identifier: BSL-1.0

#include "protocol/pool/watch_set.hpp"

#include <algorithm>
#include <utility>

namespace holdfast::protocol {

namespace {

/// If this many watches more are running than are wanted, one that is not wanted any more is stopped before a new one
/// starts.
constexpr std::size_t unwanted_max = 2;

}  // namespace

bool watch_set::is_among(const std::vector<watch>& list, const std::string& key) {
  return std::any_of(list.begin(), list.end(), [&](const watch& each) { return each.key == key; });
}

bool watch_set::has(const std::string& key) const { return is_among(running_, key); }

/// Stops a watch that is not wanted any more if there are too many. Such a watch costs nothing until it ends, but they
/// must not pile up.
void watch_set::make_room(context& ctx, const std::vector<watch>& wanted) {
  if (running_.size() < wanted.size() + unwanted_max) return;
  const auto unwanted = std::find_if(running_.begin(), running_.end(),
                                     [&](const watch& running) { return !is_among(wanted, running.key); });
  ctx.act(action::stop_watch{unwanted->id});
  running_.erase(unwanted);
}

void watch_set::start(context& ctx, watch w, const std::string& prefix, bool expects_keys, duration longest) {
  w.id = ctx.new_request();
  if (w.wait == longest) w.wait = ctx.random().between(w.wait * 3 / 4, w.wait);
  w.asked_at = ctx.now();
  if (w.is_of_everything())
    ctx.act(action::list_prefix{w.id, prefix, w.index, w.wait, expects_keys});
  else
    ctx.act(action::watch_key{w.id, w.key, w.index, w.wait});
  running_.push_back(std::move(w));
}

std::optional<watch> watch_set::take(request_id id) {
  const auto at = std::find_if(running_.begin(), running_.end(), [&](const watch& each) { return each.id == id; });
  if (at == running_.end()) return std::nullopt;
  watch found = std::move(*at);
  running_.erase(at);
  return found;
}

void watch_set::answered(context& ctx, contradiction_news& news, const watch& asked, std::uint64_t index) {
  if (asked.index == 0) return;  // it has not waited
  if (is_early(index == asked.index, asked.wait, ctx.now() - asked.asked_at))
    early_.found(ctx, news, early_answer);
  else
    early_.none(ctx, news);
}

void watch_set::stop_sleeping(context& ctx, std::uint64_t consuls_index) {
  std::erase_if(running_, [&](const watch& each) {
    const bool sleeps = each.index > consuls_index;
    if (sleeps) ctx.act(action::stop_watch{each.id});
    return sleeps;
  });
}

}  // namespace holdfast::protocol
