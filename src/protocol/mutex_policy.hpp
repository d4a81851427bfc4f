#pragma once

#include <optional>
#include <string>
#include <utility>

#include "protocol/context.hpp"
#include "protocol/pool_options.hpp"

namespace holdfast::protocol {

/// What is different where the record is a mutex's key: it says what its last holder has written, and clients of other
/// kinds, which have no entry, must get it now and then.
class mutex_policy {
public:
  /// Our holder has written this into the key, or is about to.
  void written(event::value_written& e) {
    if (!e.withdrawn)
      before_ = std::exchange(value_, std::move(e.value));
    else if (value_ == e.value)
      value_ = before_;
  }
  void granted_anew() {
    value_.reset();
    before_.reset();
  }
  /// What whoever leaves the key puts into it in the place of its description, if anything.
  const std::optional<std::string>& value() const { return value_; }

  /// The record was seen: free, or held by a client of another kind.
  void saw(context& ctx, bool is_free_or_foreign) {
    if (is_free_or_foreign || free_at_ == time_point()) free_at_ = ctx.now();
  }
  /// When the holder must unlock the key without granting it to anybody, and only wake the head of the queue. Clients
  /// of other kinds wait without an entry, so that we cannot see them: they get the key only if it is free for a
  /// moment. Where many processes contend (`crowd`), each sees few of the moments at which another one has let the key
  /// go. So each waits for `crowd` intervals, and all of them together let it go about once in an interval.
  time_point yields_at(const pool_options& o, std::size_t crowd) const {
    if (o.form != record_form::session || o.yield_interval == duration::zero()) return never;
    const std::size_t share = crowd > o.watch_all_max ? crowd : 1;
    return free_at_ + static_cast<duration::rep>(share) * o.yield_interval;
  }

private:
  std::optional<std::string> value_;   ///< that our holder has written, if not its description
  std::optional<std::string> before_;  ///< what it wrote last before that
  time_point free_at_{};               ///< when it was last seen free, or held by another kind of client
};

}  // namespace holdfast::protocol
