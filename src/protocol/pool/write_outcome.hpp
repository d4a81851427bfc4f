// SPDX-FileCopyrightText: The holdfast authors
// SPDX-License-Identifier: BSL-1.0

#pragma once

#include <cstdint>
#include <vector>

#include "protocol/pool/cluster_observer.hpp"
#include "protocol/pool/pool_parts.hpp"
#include "protocol/pool/taking.hpp"
#include "protocol/pool/writer.hpp"

namespace holdfast::protocol {

/// The outcome of a write, and its consequences. It lives for one event.
class write_outcome {
public:
  write_outcome(context& ctx, pool_parts& parts, cluster_observer& sees, taking& takes, writer& writes)
      : ctx_(ctx), parts_(parts), observer_(sees), taking_(takes), writer_(writes) {}

  void applied(transaction txn, std::vector<kv_entry> results);
  void refused(transaction txn, const std::vector<event::refused_operation>& refusals);

private:
  bool may_be_filtered(const snapshot& seen) const;
  void saw_own_join(const transaction& txn, snapshot seen);
  bool return_slots(transaction& refused, bool wakes);
  void slots_returned(transaction txn, std::uint64_t index);

  context& ctx_;
  pool_parts& parts_;
  cluster_observer& observer_;
  taking& taking_;
  writer& writer_;
};

}  // namespace holdfast::protocol
