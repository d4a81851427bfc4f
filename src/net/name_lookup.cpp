// SPDX-FileCopyrightText: The holdfast authors
// SPDX-License-Identifier: BSL-1.0

#include "net/name_lookup.hpp"

#include <algorithm>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/detached.hpp>
#include <boost/asio/ip/address.hpp>
#include <exception>
#include <utility>

namespace holdfast::net {

bool has_a_name(const address& of) {
  error_code not_ip;
  asio::ip::make_address(of.host, not_ip);
  return !of.is_path && not_ip;
}

name_lookup::name_lookup(const strand_type& strand, const std::weak_ptr<void>& owner, resolver look_up)
    : strand_(strand), owner_(owner), resolver_(std::move(look_up)) {}

awaitable<resolution> name_lookup::find(const address& door, time_point deadline) {
  if (!has_a_name(door)) {
    resolution literal = co_await resolver_(strand_, door, deadline);
    co_return literal;
  }
  known_name& its = names_[door.authority()];
  std::shared_ptr<shared_lookup> job = its.pending;
  if (!job) {
    job = its.pending = std::make_shared<shared_lookup>();
    asio::co_spawn(strand_, look_up(owner_.lock(), *this, door, job), asio::detached);
  }
  if (!job->answer) {
    if (!its.addresses.empty()) deadline = std::min(deadline, clock::now() + wait_max);
    waiter one(strand_, deadline);
    job->waiting.push_back(one);
    co_await one.timer.async_wait(as_result);
  }
  const bool is_good = job->answer && !job->answer->error && !job->answer->endpoints.empty();
  if (!is_good && !its.addresses.empty()) co_return resolution{{}, its.addresses};
  if (job->answer) co_return *job->answer;
  co_return resolution{asio::error::timed_out, {}};
}

awaitable<void> name_lookup::look_up([[maybe_unused]] std::shared_ptr<void> owner, name_lookup& self, address door,
                                     std::shared_ptr<shared_lookup> job) {
  resolution found;
  try {
    found = co_await self.resolver_(self.strand_, door, clock::now() + lookup_max);
  } catch (const std::exception&) {  // for example, the system cannot start a resolver thread
    found.error = asio::error::no_recovery;
  }
  known_name& its = self.names_[door.authority()];
  its.pending.reset();
  if (!found.error && !found.endpoints.empty()) its.addresses = found.endpoints;
  job->answer = std::move(found);
  wake_all(job->waiting);
}

}  // namespace holdfast::net
