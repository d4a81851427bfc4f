// SPDX-FileCopyrightText: The holdfast authors
// SPDX-License-Identifier: BSL-1.0

#pragma once

#include <cstddef>
#include <memory>
#include <vector>

#include "consul/connections/connection.hpp"
#include "consul/connections/connection_class.hpp"
#include "consul/net_names.hpp"
#include "net/waiting.hpp"

namespace holdfast::consul::detail {

/// The connections that no request uses. Renewals have a list of their own, and the other classes share one. Lives on
/// the strand.
class idle_connections {
public:
  /// A connection that has been idle for `idle_max` is closed. The timer for that locks the owner of this object, to
  /// which `owner` refers when the timer is set.
  idle_connections(const strand_type& strand, const std::weak_ptr<void>& owner, clock::duration idle_max)
      : owner_(owner), idle_max_(idle_max), timer_(strand) {}

  /// The number of connections in the list of this class.
  std::size_t size(connection_class which) const noexcept;
  /// Returns true if a connection to the agent is in the ordinary list or, for a renewal, in any list.
  bool has_one(std::size_t agent, connection_class which) const noexcept;

  /// Returns the connection to the agent that was used most recently and is still alive. Connections to other agents
  /// and dead ones that are found before it are closed. Returns null if there is none. A renewal gets an ordinary
  /// connection only if `may_borrow` is set and none of its own is left.
  std::shared_ptr<connection> take(std::size_t agent, connection_class which, bool may_borrow);
  void keep(std::shared_ptr<connection> link, std::size_t agent, connection_class which);

  /// Closes the connections that have been idle for long enough, and sets the timer for the next one. Does nothing
  /// while the timer is set.
  void close_in_time();
  /// To be called when no request is left. Cancels the timer. Closes the connections that a burst of blocking queries
  /// has left: the ordinary list keeps `ordinary_max`, and that of renewals keeps one.
  void rest(std::size_t ordinary_max);
  /// Closes all connections and the timer for good.
  void close() noexcept;

private:
  struct entry {
    std::shared_ptr<connection> link;
    std::size_t agent;
    time_point since;
  };
  // The most recently used connection is at the back.
  using list = std::vector<entry>;

  list& list_of(connection_class which) noexcept {
    return which == connection_class::renewal ? of_renewals_ : ordinary_;
  }

  const std::weak_ptr<void>& owner_;
  const clock::duration idle_max_;
  list ordinary_;
  list of_renewals_;
  wake_timer timer_;  // closes connections that have been idle for long enough
};

}  // namespace holdfast::consul::detail
