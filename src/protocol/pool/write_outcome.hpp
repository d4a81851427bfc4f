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
  using refusals = std::vector<event::refused_operation>;

  write_outcome(context& ctx, pool_parts& parts, cluster_observer& sees, taking& takes, writer& writes)
      : ctx_(ctx), parts_(parts), observer_(sees), taking_(takes), writer_(writes) {}

  void applied(transaction txn, std::vector<kv_entry> results);
  void refused(transaction txn, const refusals& all);

private:
  /// Why a write was refused, as far as all of its operations tell.
  struct cause {
    bool gave = false;          ///< it was a release
    bool only_delayed = false;  ///< a lock delay is the only reason
    /// Only the record's index was wrong, usually because other slots have moved. The slots that the write releases can
    /// still be handed on.
    bool by_record = false;
    bool by_grantee = false;  ///< it was a release, and a contender that it grants had changed
    /// It was a release, others were faster, and nothing else is wrong. They may have changed the record, granted the
    /// slot, or removed the entry of a released slot.
    bool is_outrun = false;
  };

  void return_refused(transaction txn, const refusals& all);
  cause cause_of(const transaction& txn, const refusals& all) const;
  bool must_show_change(const transaction& refused, const refusals& all) const;
  void mark_view(const transaction& refused, const cause& why);
  void answer_refusals(const std::vector<kv_operation>& operations, const refusals& all);
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
