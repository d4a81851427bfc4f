// SPDX-FileCopyrightText: The holdfast authors
// SPDX-License-Identifier: BSL-1.0

#include "runtime/tallies.hpp"

#include <algorithm>
#include <boost/asio/error.hpp>
#include <variant>

namespace holdfast::runtime {

void tallies::ended(const error_code& why) noexcept {
  if (!why) return denied.add();
  if (why == boost::asio::error::operation_aborted) return cancelled.add();
  failed.add(why.category() == error_category() ? static_cast<error>(why.value()) : error{});
}

void tallies::measured(const protocol::measurement& m) noexcept {
  if (const auto* const freed = std::get_if<protocol::slots_freed>(&m)) {
    freed_by_proof.add(static_cast<std::int64_t>(freed->count));
  } else if (const auto* const renewed = std::get_if<protocol::renewal_measured>(&m); renewed->succeeded) {
    renewal.add(renewed->took);
    lease_left.add(renewed->lease_left);
  } else {
    renewals_failed.add();
  }
}

lock_statistics tallies::read() const noexcept {
  lock_statistics s;
  s.granted = granted.read();
  s.handoffs = handoffs.read();
  s.denied = denied.read();
  s.cancelled = cancelled.read();
  s.failed = failed.read();
  s.lost = lost.read();
  s.revoked = revoked.read();
  s.freed_by_proof = freed_by_proof.read();
  s.renewals_failed = renewals_failed.read();
  s.wait = wait.read();
  s.hold = hold.read();
  s.renewal = renewal.read();
  s.lease_left = lease_left.read();
  s.waiting = waiting.read();
  s.held = held.read();
  s.suspect = suspect.read();
  s.sessions = sessions.read();
  s.limit = limit.read();
  return s;
}

namespace {

template <class Enum>
void add(counters_by<Enum>& to, const counters_by<Enum>& more) noexcept {
  for (std::size_t i = 0; i < to.size; ++i) to[static_cast<Enum>(i)] += more[static_cast<Enum>(i)];
}

template <class Histogram>
void add_histogram(Histogram& to, const Histogram& more) noexcept {
  for (std::size_t i = 0; i < to.buckets.size(); ++i) to.buckets[i] += more.buckets[i];
  to.sum += more.sum;
}

}  // namespace

void add(lock_statistics& to, const lock_statistics& more) noexcept {
  to.granted += more.granted;
  to.handoffs += more.handoffs;
  to.denied += more.denied;
  to.cancelled += more.cancelled;
  add(to.failed, more.failed);
  add(to.lost, more.lost);
  to.revoked += more.revoked;
  to.freed_by_proof += more.freed_by_proof;
  to.renewals_failed += more.renewals_failed;
  add_histogram(to.wait, more.wait);
  add_histogram(to.hold, more.hold);
  add_histogram(to.renewal, more.renewal);
  add_histogram(to.lease_left, more.lease_left);
  to.waiting += more.waiting;
  to.held += more.held;
  to.suspect += more.suspect;
  to.sessions += more.sessions;
  to.limit = std::max(to.limit, more.limit);
  to.place = std::max(to.place, more.place);
}

}  // namespace holdfast::runtime
