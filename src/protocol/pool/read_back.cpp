// SPDX-FileCopyrightText: The holdfast authors
// SPDX-License-Identifier: BSL-1.0

#include "protocol/pool/read_back.hpp"

#include <algorithm>
#include <utility>

namespace holdfast::protocol {

namespace {

constexpr std::string_view not_shown = "Consul has applied a write, but a later read does not show it";
constexpr std::string_view not_refused = "Consul has refused a write because of a change, but a later read shows none";

std::uint64_t mixed(std::uint64_t index) {
  index *= 0x9e3779b97f4a7c15u;
  return index ^ index >> 32;
}

/// Each change gives a key an index that no key has had before. So no later state has the same digest.
std::uint64_t digest_of(const snapshot& state) {
  std::uint64_t sum = mixed(state.lock_index);
  for (const contender& each : state.contenders) sum += mixed(each.modify_index);
  for (const contender& each : state.given_back) sum += mixed(each.modify_index);
  for (const slot_number& each : state.numbers) sum += mixed(each.modify_index);
  return sum;
}

}  // namespace

void read_back::applied(const transaction& txn, const transaction::reply& its, request_id last_request) {
  expects_ = expected::outcome;
  answered_before_ = last_request;
  index_ = its.index;
  record_index_ = its.record_index == txn.base ? 0 : its.record_index;
  there_.clear();
  for (const auto& [session, text] : txn.inserted) there_.push_back(session);
  gone_ = txn.removed;
  gone_.insert(gone_.end(), txn.returned.begin(), txn.returned.end());
}

void read_back::sent(const transaction& txn) {
  const auto is_among = [](const std::vector<std::string>& all) {
    return [&all](const std::string& each) { return std::find(all.begin(), all.end(), each) != all.end(); };
  };
  std::erase_if(there_, is_among(txn.removed));
  std::erase_if(there_, is_among(txn.returned));
  for (const auto& [session, text] : txn.inserted) std::erase(gone_, session);
  sent_base_ = shown_;
}

void read_back::refused(request_id last_request) {
  expects_ = expected::change;
  base_ = sent_base_;
  answered_before_ = last_request;
  index_ = 0;
}

void read_back::listed(context& ctx, contradiction_news& news, const snapshot& seen, request_id asked,
                       const members& ours) {
  shown_ = digest_of(seen);
  if (!decides(asked, seen.index)) return;
  if (std::exchange(expects_, expected::nothing) == expected::change) {
    if (base_ == shown_)
      found(ctx, news, not_refused);
    else
      none(ctx, news);
  } else if (is_contradicted_by(seen, ours)) {
    found(ctx, news, not_shown, there_.size() + gone_.size());
  } else if (is_shown_by(seen)) {
    none(ctx, news);
  }
}

bool read_back::is_contradicted_by(const snapshot& seen, const members& ours) const {
  const auto is_missing = [&](const std::string& session) {
    const member* const its = ours.find(session);
    return its && !its->lost && !seen.find(session) && !seen.has_given_back(session);
  };
  const auto is_left = [&](const std::string& session) {
    const contender* const its = seen.find(session);
    return its && (index_ == 0 || its->modify_index <= index_) &&
           std::find(there_.begin(), there_.end(), session) == there_.end();
  };
  return seen.lock_index < record_index_ || std::any_of(there_.begin(), there_.end(), is_missing) ||
         std::any_of(gone_.begin(), gone_.end(), is_left);
}

/// A listing without our entries agrees with a write that has removed some, and proves nothing.
bool read_back::is_shown_by(const snapshot& seen) const {
  return record_index_ != 0 ||
         std::any_of(there_.begin(), there_.end(), [&](const std::string& session) { return seen.find(session); });
}

void read_back::saw_record(context& ctx, contradiction_news& news, std::uint64_t index, request_id asked) {
  if (expects_ != expected::outcome || !decides(asked, 0) || index >= record_index_) return;
  expects_ = expected::nothing;
  found(ctx, news, not_shown);
}

void read_back::entry_is_missing(context& ctx, contradiction_news& news, std::string_view session, request_id asked,
                                 const members& ours) {
  const member* const its = ours.find(session);
  if (expects_ != expected::outcome || !decides(asked, 0) || !its || its->lost ||
      std::find(there_.begin(), there_.end(), session) == there_.end())
    return;
  expects_ = expected::nothing;
  found(ctx, news, not_shown);
}

}  // namespace holdfast::protocol
