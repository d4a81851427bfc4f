// SPDX-FileCopyrightText: The holdfast authors
// SPDX-License-Identifier: BSL-1.0

#pragma once

#include <algorithm>

#include "protocol/base/random.hpp"
#include "protocol/base/time.hpp"

namespace holdfast::protocol {

/// The lease of one session, as its owner may rely on it. It counts from just before the last successful request, to
/// create or to renew, was sent. Consul counts from when it received the request, so in Consul the lease can only end
/// later.
class lease {
public:
  lease() = default;
  lease(duration ttl, duration margin) : ttl_(ttl), margin_(margin) {}

  /// A create or renew request that was sent at `sent` has succeeded.
  void extend(time_point sent, random_source& random) {
    sent_ = std::max(sent_, sent);
    renew_at_ = sent_ + random.between(ttl_ * 3 / 10, ttl_ * 11 / 30);  // a third of the TTL, +-10 %
    asking_ = false;
  }
  /// Makes a renewal due at this time at the latest.
  void renew_by(time_point when) { renew_at_ = std::min(renew_at_, when); }
  /// A renewal request was sent.
  void asked() { asking_ = true; }
  /// A renewal failed, or its answer did not decide anything. The next one is due soon.
  void failed(time_point now, random_source& random) {
    renew_at_ = now + random.between(ttl_ / 60, ttl_ / 20);
    asking_ = false;
  }

  /// Until this instant Consul has certainly not ended the session for its TTL.
  time_point deadline() const { return sent_ + ttl_ - margin_; }
  /// The part of the lease that is left: 1 just after a renewal, and 0 from `deadline` on.
  double left(time_point now) const {
    const duration whole = ttl_ - margin_, rest = deadline() - now;
    return whole <= duration(0)
               ? 0
               : std::clamp(static_cast<double>(rest.count()) / static_cast<double>(whole.count()), 0.0, 1.0);
  }
  /// By this instant Consul has ended the session, unless its TTL was started anew: by a new leader, or by a renewal
  /// whose success was not reported to us.
  time_point over_at() const { return sent_ + 2 * ttl_; }
  /// From this instant a renewal is overdue.
  time_point suspect_at() const { return sent_ + ttl_ / 2; }
  time_point renew_at() const { return asking_ ? never : renew_at_; }

private:
  duration ttl_{};
  duration margin_{};
  time_point sent_{};
  time_point renew_at_ = never;
  bool asking_ = false;
};

}  // namespace holdfast::protocol
