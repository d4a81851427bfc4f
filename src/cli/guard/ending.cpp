// SPDX-FileCopyrightText: The holdfast authors
// SPDX-License-Identifier: BSL-1.0

#include "cli/guard/ending.hpp"

#include <algorithm>

namespace holdfast::cli {

void ending::set_lease_end(time end) {
  last_ = end - margin_;
  if (kill_at_) kill_at_ = std::min(*kill_at_, *last_);
}

void ending::stop(time now) {
  if (!stop_at_) stop_at_ = now;
}

void ending::kill(time now) {
  stop(now);
  kill_at_ = std::min(kill_at_.value_or(now), now);
}

std::optional<ending::time> ending::terminate_at() const {
  const std::optional<time> late = last_ ? std::optional(*last_ - grace_) : std::nullopt;
  if (stop_at_ && late) return std::min(*stop_at_, *late);
  return stop_at_ ? stop_at_ : late;
}

ending::step ending::due(time now) {
  if (killed_) return step::none;
  if (kill_at_ && now >= *kill_at_) {
    killed_ = true;
    return step::kill;
  }
  const auto at = terminate_at();
  if (kill_at_ || !at || now < *at) return step::none;
  by_lease_ = !stop_at_ || now < *stop_at_;
  kill_at_ = now + grace_;
  if (last_) kill_at_ = std::min(*kill_at_, *last_);
  return step::terminate;
}

std::optional<ending::time> ending::next() const {
  if (killed_) return std::nullopt;
  return kill_at_ ? kill_at_ : terminate_at();
}

}  // namespace holdfast::cli
