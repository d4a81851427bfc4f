// SPDX-FileCopyrightText: The holdfast authors
// SPDX-License-Identifier: BSL-1.0

#include "net/name_lookup.hpp"

#include <algorithm>
#include <boost/asio/post.hpp>
#include <exception>
#include <utility>

namespace holdfast::net {
namespace {

bool is_good(const std::optional<resolution>& answer) { return answer && !answer->error && !answer->endpoints.empty(); }

}  // namespace

bool has_a_name(const address& of) { return !without_lookup(of); }

name_lookup::name_lookup(const strand_type& strand, const std::weak_ptr<void>& owner, resolver look_up)
    : strand_(strand), owner_(owner), look_up_(std::move(look_up)) {}

awaitable<resolution> name_lookup::find(const address& door, time_point deadline) {
  if (std::optional<resolution> literal = without_lookup(door)) co_return std::move(*literal);
  known_name& its = names_.try_emplace(door.authority(), *this).first->second;
  its.take_answer();
  const std::shared_ptr<lookup> job = join(its, door);
  const bool has_some = !its.addresses.empty();
  if (has_some) deadline = std::min(deadline, clock::now() + wait_max);
  while (job && !job->answer() && !is_closed_ && clock::now() < deadline) {
    waiter one(strand_, deadline);
    its.waiting.push_back(one);
    co_await one.timer.async_wait(as_result);
    its.take_answer();
    if (!has_some && !its.addresses.empty()) break;  // those of a later lookup
  }
  its.take_answer();
  const std::optional<resolution> answer = job ? job->answer() : resolution{asio::error::no_recovery, {}};
  if (!is_good(answer) && !its.addresses.empty()) co_return resolution{{}, its.addresses};
  if (answer) co_return *answer;
  co_return resolution{asio::error::timed_out, {}};
}

/// Returns null if none is running and none can begin: there is no thread, for example.
std::shared_ptr<lookup> name_lookup::join(known_name& its, const address& door) const noexcept try {
  const bool is_old = its.pending && clock::now() - its.pending->begun() >= lookup_max;
  if ((!its.pending || is_old) && !is_closed_) {
    std::shared_ptr<lookup> next = look_up_(door);
    if (next == its.pending) return next;
    its.leave();
    its.pending = std::move(next);
    its.pending->add(its);
  }
  return its.pending;
} catch (const std::exception&) {
  return its.pending;
}

void name_lookup::close() noexcept {
  is_closed_ = true;
  for (auto& [name, its] : names_) {
    its.leave();
    wake_all(its.waiting);
  }
}

/// If there is no memory for it, those who wait see the answer at their deadlines.
void name_lookup::known_name::on_answer() noexcept try {
  asio::post(all.strand_, [owner = all.owner_, this] {
    if (const std::shared_ptr<void> alive = owner.lock()) wake_all(waiting);
  });
  // NOLINTNEXTLINE(bugprone-empty-catch)
} catch (const std::exception&) {
}

void name_lookup::known_name::take_answer() {
  if (!pending) return;
  const std::optional<resolution> answer = pending->answer();
  if (!answer) return;
  if (is_good(answer)) addresses = answer->endpoints;
  leave();
}

void name_lookup::known_name::leave() noexcept {
  if (const std::shared_ptr<lookup> left = std::exchange(pending, nullptr)) left->remove(*this);
}

}  // namespace holdfast::net
