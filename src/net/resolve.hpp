// SPDX-FileCopyrightText: The holdfast authors
// SPDX-License-Identifier: BSL-1.0

#pragma once

#include <boost/asio/generic/stream_protocol.hpp>
#include <boost/intrusive/list.hpp>
#include <holdfast/detail/export.hpp>
#include <holdfast/error.hpp>
#include <memory>
#include <mutex>
#include <optional>
#include <vector>

#include "net/address.hpp"
#include "net/asio.hpp"

namespace holdfast::net {

/// The endpoints of a host, of TCP or of a UNIX socket.
using endpoint_list = std::vector<asio::generic::stream_protocol::endpoint>;

struct resolution {
  error_code error;  ///< the resolver's error
  endpoint_list endpoints;
};

/// A lookup of a name, which is running or has ended. All who need the name share it. Thread-safe.
class lookup {
public:
  class listener : public boost::intrusive::list_base_hook<> {
  public:
    /// Called once, by the thread that has the answer, while the lookup is locked.
    virtual void on_answer() noexcept = 0;

  protected:
    ~listener() = default;
  };

  explicit lookup(time_point begun = clock::now()) : begun_(begun) {}

  time_point begun() const noexcept { return begun_; }
  /// Empty while the lookup is running.
  std::optional<resolution> answer() const;
  /// If the lookup has ended, the listener is not called.
  void add(listener& one);
  /// Afterwards the listener is not called, and no such call is running.
  void remove(listener& one) noexcept;
  void end(resolution answer) noexcept;

private:
  const time_point begun_;
  mutable std::mutex mutex_;
  std::optional<resolution> answer_;
  boost::intrusive::list<listener, boost::intrusive::constant_time_size<false>> listeners_;
};

/// Returns the endpoint of a UNIX socket or of an IP literal. Returns nullopt for a name.
std::optional<resolution> without_lookup(const address& of);

/// When a lookup has run for this long, the next request for the name begins another one, beside at most one old one.
inline constexpr std::chrono::seconds lookup_max{30};

/// Begins to look up a name, or returns the lookup of this name that is running in this process.
///
/// The system's resolver blocks its thread, perhaps for minutes, and cannot be cancelled. So a lookup has a thread of
/// its own, which nobody waits for: neither a client that closes, nor its execution context, nor the end of the
/// program. Throws std::system_error if there is no thread for it, or if the lookups of this process already have too
/// many.
HOLDFAST_INTERNAL std::shared_ptr<lookup> look_up(const address& name);

}  // namespace holdfast::net
