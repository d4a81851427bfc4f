// SPDX-FileCopyrightText: The holdfast authors
// SPDX-License-Identifier: BSL-1.0

#include "protocol/mutex_set/session_watch.hpp"

#include <utility>

namespace holdfast::protocol {

void session_watch::start(context& ctx, std::string key, duration longest) {
  id_ = ctx.new_request();
  const duration wait = index_ == 0 ? duration() : ctx.random().between(longest * 3 / 4, longest);
  ctx.act(action::watch_key{id_, std::move(key), index_, wait});
}

bool session_watch::take(request_id id) {
  if (id != id_) return false;
  id_ = 0;
  index_ = 0;  // after a failure, the next read does not block
  return true;
}

void session_watch::read_at_once(context& ctx) {
  stop(ctx);
  index_ = 0;
  retry_now();
}

void session_watch::drop(context& ctx) {
  stop(ctx);
  *this = {};
}

void session_watch::stop(context& ctx) {
  if (id_ != 0) ctx.act(action::stop_watch{std::exchange(id_, 0)});
}

}  // namespace holdfast::protocol
