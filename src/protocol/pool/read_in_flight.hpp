// SPDX-FileCopyrightText: The holdfast authors
// SPDX-License-Identifier: BSL-1.0

#pragma once

#include <string>
#include <utility>

#include "protocol/core/context.hpp"
#include "protocol/core/fallible.hpp"

namespace holdfast::protocol {

/// The pending plain read: of everything, of the record, or of a node. There is at most one.
class read_in_flight : public fallible {
public:
  bool under_way() const { return id_ != 0; }
  bool is(request_id id) const { return under_way() && id_ == id; }
  time_point sent_at() const { return sent_at_; }
  /// The time at which a read of everything was last sent.
  time_point everything_at() const { return everything_at_; }

  void everything(context& ctx, const std::string& prefix, bool expects_keys) {
    if (!begin(ctx)) return;
    everything_at_ = sent_at_;
    ctx.act(action::list_prefix{id_, prefix, 0, {}, expects_keys});
  }
  void key(context& ctx, const std::string& key) {
    if (begin(ctx)) ctx.act(action::watch_key{id_, key, 0, {}});
  }
  void node(context& ctx, std::string name) {
    if (begin(ctx)) ctx.act(action::read_node{id_, std::move(name)});
  }
  void done() { id_ = 0; }

private:
  bool begin(context& ctx) {
    if (under_way() || !ctx.due_or_wake(failures().retry_at())) return false;
    id_ = ctx.new_request();
    sent_at_ = ctx.now();
    return true;
  }

  request_id id_ = 0;
  time_point sent_at_{};
  time_point everything_at_{};
};

}  // namespace holdfast::protocol
