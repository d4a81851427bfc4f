// SPDX-FileCopyrightText: The holdfast authors
// SPDX-License-Identifier: BSL-1.0

#pragma once

#include <functional>
#include <holdfast/detail/export.hpp>
#include <map>
#include <memory>
#include <string>

#include "net/resolve.hpp"
#include "net/waiting.hpp"

namespace holdfast::net {

/// Returns true if the host is a name. Behind a proxy, the proxy resolves an agent's name: callers check for that.
bool has_a_name(const address& of);

/// Looks up the IP addresses of hosts, and remembers them. Lives on the strand.
class HOLDFAST_INTERNAL name_lookup {
public:
  using resolver = std::function<std::shared_ptr<lookup>(const address&)>;

  /// A handler that this posts to the strand holds the owner of this object, to which `owner` refers at that time.
  name_lookup(const strand_type& strand, const std::weak_ptr<void>& owner, resolver look_up = net::look_up);
  ~name_lookup() { close(); }
  name_lookup(const name_lookup&) = delete;
  name_lookup& operator=(const name_lookup&) = delete;

  /// Completes with the endpoints of an address. Looks up a host that is a name. If the lookup fails or takes long, the
  /// last addresses that were found are used: they seldom change, and a name server may hang. If none were found
  /// before, completes with the resolver's error, or with asio::error::timed_out at the deadline. Then the lookup goes
  /// on, and keeps nobody waiting; the next caller has its answer.
  awaitable<resolution> find(const address& door, time_point deadline);

  /// From now on no lookup begins or is waited for. Afterwards nothing is posted to the strand.
  void close() noexcept;

  /// After this time without an answer, the addresses of the last successful lookup are used, if there are any.
  static constexpr std::chrono::milliseconds wait_max{250};

private:
  // All requests that need the name share one lookup.
  struct known_name final : lookup::listener {
    explicit known_name(name_lookup& all) : all(all) {}

    void on_answer() noexcept override;
    void take_answer();
    void leave() noexcept;

    name_lookup& all;
    endpoint_list addresses{};  // the result of the last lookup that found any
    std::shared_ptr<lookup> pending{};
    waiter_list waiting{};
  };

  std::shared_ptr<lookup> join(known_name& its, const address& door) const noexcept;

  const strand_type& strand_;
  const std::weak_ptr<void>& owner_;
  const resolver look_up_;
  std::map<std::string, known_name> names_;
  bool is_closed_ = false;
};

}  // namespace holdfast::net
