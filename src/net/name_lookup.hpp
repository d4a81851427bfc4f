// SPDX-FileCopyrightText: The holdfast authors
// SPDX-License-Identifier: BSL-1.0

#pragma once

#include <functional>
#include <holdfast/detail/export.hpp>
#include <map>
#include <memory>
#include <optional>
#include <string>

#include "net/resolve.hpp"
#include "net/waiting.hpp"

namespace holdfast::net {

/// Returns true if the host is a name. Behind a proxy, the proxy resolves an agent's name: callers check for that.
bool has_a_name(const address& of);

/// Looks up the IP addresses of hosts, and remembers them. Lives on the strand.
class HOLDFAST_INTERNAL name_lookup {
public:
  using resolver = std::function<awaitable<resolution>(const strand_type&, const address&, time_point)>;

  /// A running lookup holds the owner of this object, to which `owner` refers at that time.
  name_lookup(const strand_type& strand, const std::weak_ptr<void>& owner, resolver look_up);

  /// Completes with the endpoints of an address. Looks up a host that is a name. If the lookup fails or takes long, the
  /// last addresses that were found are used: they seldom change, and a name server may hang. If none were found
  /// before, completes with an error.
  awaitable<resolution> find(const address& door, time_point deadline);

  /// After this time without an answer, the addresses of the last successful lookup are used, if there are any.
  static constexpr std::chrono::milliseconds wait_max{250};
  /// The time after which a lookup fails. The system's resolver itself goes on until it has an answer.
  static constexpr std::chrono::seconds lookup_max{30};

private:
  // A lookup of the IP addresses of a name. All requests that need the name share one lookup. The lookup may last
  // longer than they wait for it.
  struct shared_lookup {
    std::optional<resolution> answer{};
    waiter_list waiting{};
  };
  struct known_name {
    endpoint_list addresses{};  // the result of the last lookup that found any
    std::shared_ptr<shared_lookup> pending{};
  };

  static awaitable<void> look_up(std::shared_ptr<void> owner, name_lookup& self, address door,
                                 std::shared_ptr<shared_lookup> job);

  const strand_type& strand_;
  const std::weak_ptr<void>& owner_;
  const resolver resolver_;
  std::map<std::string, known_name> names_;
};

}  // namespace holdfast::net
