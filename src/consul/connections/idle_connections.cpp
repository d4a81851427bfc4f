// SPDX-FileCopyrightText: The holdfast authors
// SPDX-License-Identifier: BSL-1.0

#include "consul/connections/idle_connections.hpp"

#include <algorithm>
#include <utility>

namespace holdfast::consul::detail {

std::size_t idle_connections::size(connection_class which) const noexcept {
  return which == connection_class::renewal ? of_renewals_.size() : ordinary_.size();
}

bool idle_connections::has_one(std::size_t agent, connection_class which) const noexcept {
  const auto is_in = [agent](const list& all) {
    return std::any_of(all.begin(), all.end(), [agent](const entry& each) { return each.agent == agent; });
  };
  return is_in(ordinary_) || (which == connection_class::renewal && is_in(of_renewals_));
}

std::shared_ptr<connection> idle_connections::take(std::size_t agent, connection_class which, bool may_borrow) {
  for (list* const idle : {&list_of(which), &ordinary_}) {
    while (!idle->empty()) {
      const entry found = std::move(idle->back());
      idle->pop_back();
      if (found.agent == agent && found.link->is_alive()) return found.link;
    }
    if (!may_borrow) break;
  }
  return nullptr;
}

void idle_connections::keep(std::shared_ptr<connection> link, std::size_t agent, connection_class which) {
  list_of(which).push_back({std::move(link), agent, clock::now()});
}

void idle_connections::close_in_time() {
  if (!timer_.may_be_set()) return;
  const time_point now = clock::now();
  time_point next = time_point::max();
  for (list* const idle : {&ordinary_, &of_renewals_}) {
    const auto first_wanted =
        std::find_if(idle->begin(), idle->end(), [&](const entry& each) { return now - each.since < idle_max_; });
    idle->erase(idle->begin(), first_wanted);
    if (!idle->empty()) next = std::min(next, idle->front().since + idle_max_);
  }
  if (next != time_point::max()) timer_.set(next, owner_, [this] { close_in_time(); });
}

void idle_connections::rest(std::size_t ordinary_max) {
  timer_.cancel();
  if (ordinary_.size() > ordinary_max) {
    ordinary_.erase(ordinary_.begin(), ordinary_.end() - static_cast<std::ptrdiff_t>(ordinary_max));
  }
  if (of_renewals_.size() > 1) of_renewals_.erase(of_renewals_.begin(), of_renewals_.end() - 1);
}

void idle_connections::close() noexcept {
  timer_.close();
  ordinary_.clear();
  of_renewals_.clear();
}

}  // namespace holdfast::consul::detail
