// SPDX-FileCopyrightText: The holdfast authors
// SPDX-License-Identifier: BSL-1.0

#include "protocol/mutex_set/session_watch.hpp"

#include <utility>

namespace holdfast::protocol {

void session_watch::start(context& ctx, std::string key, duration longest) {
  id_ = ctx.new_request();
  wait_ = index_ == 0 ? duration() : ctx.random().between(longest * 3 / 4, longest);
  asked_index_ = index_;
  asked_at_ = ctx.now();
  ctx.act(action::watch_key{id_, std::move(key), index_, wait_});
}

bool session_watch::take(request_id id) {
  if (id != id_) return false;
  id_ = 0;
  index_ = 0;  // after a failure, the next read does not block
  return true;
}

void session_watch::has_seen(context& ctx, contradiction_news& news, std::uint64_t index) {
  index_ = index;
  if (wait_ == duration()) return;  // it has not waited
  if (is_early(index == asked_index_, wait_, ctx.now() - asked_at_))
    early_.found(ctx, news, early_answer);
  else
    early_.none(ctx, news);
}

void session_watch::read_at_once(context& ctx) {
  stop(ctx);
  index_ = 0;
  retry_now();
  early_.retry_now();
}

void session_watch::drop(context& ctx) {
  stop(ctx);
  const contradictions early = early_;
  *this = {};
  early_ = early;
}

void session_watch::stop(context& ctx) {
  if (id_ != 0) ctx.act(action::stop_watch{std::exchange(id_, 0)});
}

}  // namespace holdfast::protocol
