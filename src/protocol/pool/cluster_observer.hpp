// SPDX-FileCopyrightText: The holdfast authors
// SPDX-License-Identifier: BSL-1.0

#pragma once

#include <cstdint>
#include <optional>

#include "protocol/pool/own_grants.hpp"
#include "protocol/pool/pool_parts.hpp"
#include "protocol/pool/taking.hpp"
#include "protocol/pool/wait_limit.hpp"

namespace holdfast::protocol {

/// Snapshots of the cluster, watches and their answers, and the consequences for our sessions. An observer lives for
/// one event, or for one pass of `pool::advance`.
class cluster_observer {
public:
  cluster_observer(context& ctx, pool_parts& parts, wait_limit& waits, own_grants& grants, taking& takes)
      : ctx_(ctx), parts_(parts), waits_(waits), own_grants_(grants), taking_(takes) {}

  void check_watches();
  void saw_record(std::optional<kv_entry> pair);
  void saw_entry(const watch& asked, std::optional<kv_entry> pair, duration wait);
  void saw_number(const watch& asked, std::optional<kv_entry> pair);
  /// These two log one line when the watches begin to fail, and one when a watch works again.
  void on_watch_failed(const watch& asked, failure why);
  void watches_work();

  void take_listing(boost::system::result<snapshot> listing, request_id id, time_point asked_at);
  void refresh();
  void resolve_by_record(std::uint64_t index);
  void end_moves(const transaction& txn, bool maybe_applied);

private:
  void saw_grant(const kv_entry& pair);
  void refuse_listing(const error_code& why);
  void refresh(member& m);
  void refresh_returned(member& m);
  void entry_has_gone(member& m);
  void was_granted(member& m, const contender& entry);
  void resolve();

  context& ctx_;
  pool_parts& parts_;
  wait_limit& waits_;
  own_grants& own_grants_;
  taking& taking_;
};

}  // namespace holdfast::protocol
