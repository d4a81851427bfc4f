// SPDX-FileCopyrightText: The holdfast authors
// SPDX-License-Identifier: BSL-1.0

#include "runtime/lock_account.hpp"

#include <utility>

namespace holdfast::runtime {

void lock_account::add(std::shared_ptr<const tallies> its, place_function place) {
  if (process_.is_foreign()) return;
  const std::lock_guard lock(mutex_);
  retire();
  shells_.push_back({std::move(its), std::move(place)});
}

/// Keeps what destroyed shells have counted, without their current values.
void lock_account::retire() {
  std::erase_if(shells_, [this](const shell_account& each) {
    if (each.counts.use_count() != 1) return false;
    lock_statistics last = each.counts->read();
    last.waiting = last.held = last.suspect = last.sessions = 0;
    runtime::add(retired_, last);
    return true;
  });
}

std::shared_ptr<lifetime::event_log> lock_account::log(const boost::asio::any_io_executor& strand,
                                                       const log_function& function) {
  if (process_.is_foreign()) return nullptr;
  const std::lock_guard lock(mutex_);
  if (!log_) log_ = lifetime::event_log::make(strand, function);
  return log_;
}

lock_statistics lock_account::read() {
  if (process_.is_foreign()) return {};
  std::vector<place_function> places;
  lock_statistics all;
  {
    const std::lock_guard lock(mutex_);
    retire();
    all = retired_;
    for (const shell_account& each : shells_) {
      runtime::add(all, each.counts->read());
      places.push_back(each.place);
    }
  }
  // A shell is asked without the mutex, because it locks its own, and may be destroyed here.
  for (const place_function& place : places)
    if (const auto its = place(); its && (!all.place || *its < *all.place)) all.place = its;
  return all;
}

}  // namespace holdfast::runtime
