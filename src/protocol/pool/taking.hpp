// SPDX-FileCopyrightText: The holdfast authors
// SPDX-License-Identifier: BSL-1.0

#pragma once

#include <string>
#include <vector>

#include "protocol/pool/acceptance.hpp"
#include "protocol/pool/decide.hpp"
#include "protocol/pool/gone_makers.hpp"
#include "protocol/pool/maker_watching.hpp"
#include "protocol/pool/pool_parts.hpp"
#include "protocol/pool/transaction.hpp"

namespace holdfast::protocol {

/// The slots and entries that this process takes from others: grants that nobody has accepted in time, and sessions
/// whose makers are gone.
class taking {
public:
  void on(context& ctx, event::maker_gone& e, const pool_parts& parts);
  void on(event::maker_file_removed& e) { gone_.file_removed(e.session); }
  /// The answer to a request to destroy a session. Returns false if the session is not one of these.
  bool destroyed(context& ctx, const event::session_destroyed& e) { return gone_.destroyed(ctx, e); }

  /// The view may have changed.
  void saw(context& ctx, const pool_parts& parts);
  /// A write of ours was applied at `index`.
  void applied(context& ctx, const transaction& txn, std::uint64_t index, duration ttl);
  /// The view shows the grants that a write of ours has made. The second function is for a view that was not shown to
  /// `saw` yet.
  void granted(const transaction& txn) { open_.granted(txn.provisional); }
  void granted(context& ctx, const transaction& txn, const pool_parts& parts);
  /// A write of ours is about to be sent.
  void tried(const transaction& txn) { gone_.tried(txn.removed); }
  /// Does what is left to do for sessions whose makers are gone.
  void pursue_all(context& ctx, const view& v) { gone_.pursue_all(ctx, v.now(), v.current()); }

  /// The grants that this process takes back now.
  std::vector<const contender*> overdue(moment& at, const pool_parts& parts) const;
  /// Whether a listing must come before this process takes back the grants that are overdue.
  bool must_list(moment& at, const pool_parts& parts) const;
  /// The contenders whose makers are gone and whose slots may be freed now. Empty if nobody here waits for a slot of
  /// another process.
  std::vector<const contender*> gone(moment& at, const pool_parts& parts) const;
  /// Returns true if it is this process's turn to read everything because the maker of a contender is gone. A view that
  /// is not current may lack that contender.
  bool takes_turn_to_list(context& ctx, const pool_parts& parts);
  /// Notes in `others` the sessions whose makers are gone: nobody believes in their slots any more.
  void free_slots_of_the_gone(context& ctx, other_holders& others);
  /// The rules for the plan of a write with these moves.
  plan_rules rules(moment& at, const pool_parts& parts, const moves& what) const;
  /// Returns true if this process writes the record now. It does if `writes_record`, which says that there is another
  /// reason. Otherwise it takes turns with others in taking out the sessions of the plan whose makers are gone.
  bool takes_turn(context& ctx, const grant_plan& next, bool writes_record);

  /// Asks the shell to watch makers, or to watch them no more.
  void watch_makers(context& ctx, const pool_parts& parts);
  bool needs_makers() const { return watching_.is_needed(); }

private:
  open_grants open_;
  doubtful_processes doubtful_;
  gone_makers gone_;
  maker_watching watching_;
};

}  // namespace holdfast::protocol
