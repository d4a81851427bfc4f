// SPDX-FileCopyrightText: The holdfast authors
// SPDX-License-Identifier: BSL-1.0

#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "protocol/core/outage.hpp"
#include "protocol/pool/member.hpp"
#include "protocol/pool/plan.hpp"
#include "protocol/pool/pool_options.hpp"

namespace holdfast::protocol {

/// Holders in other processes, and for how long each of them may still believe in its slot.
///
/// Consul ends a session before its TTL if somebody deregisters the session's node, or if a health check fails that the
/// session depends on. The owner of the session does not know that. It believes in its slot until it is notified or its
/// lease expires. For that time this class keeps what is known of the holder, and its slot is granted to nobody: the
/// holder is *spared*.
///
/// If there is a `lock_delay`, a holder is spared for at least that time. Apart from that, a holder is not spared if
/// its maker is gone, or if its node has certainly stood since before the holder's session ended. Then the session has
/// ended alone: its lease has expired, its owner has ended it, or an operator has. Three things show that:
/// - A session of ours that lives belongs to the same node, and stood beside the holder. Or it was created later, and
///   then the holder believes for one lease at most from that time on.
/// - The node's CreateIndex in Consul's catalog is lower than that of the holder's entry (`node_to_read`). If it is
///   not, and the node is ours, the holder believes for one lease at most after we first read this CreateIndex.
/// - A session of ours was renewed just before we ended it ourselves: its end says nothing about the node. The pool
///   does not call `ours_ended` then.
class other_holders {
public:
  /// A listing of everything has shown this snapshot.
  void saw(context& ctx, const snapshot& now, const members& ours, const pool_options& o);
  /// The maker of this session is gone, so nobody believes in its slot any more.
  void maker_is_gone(std::string_view session) {
    if (const auto at = holders_.find(session); at != holders_.end()) at->second.is_maker_gone = true;
  }
  /// A session of ours ends, and the record may still name it.
  void left(const std::string& session) { former_.insert(session); }
  /// A session of ours has ended or is given up, and its node may have ended it. Other sessions of that node have then
  /// ended, too, and among their owners may be holders that this process has never seen. They are spared for a TTL at
  /// most, counted from now. `entry` is the CreateIndex of the last entry that the session had; 0 if it had none.
  void ours_ended(context& ctx, std::uint64_t entry, duration ttl);

  /// The node that must be read next. There is one if a holder is spared that need not be if the node has stood for
  /// long enough. The result is empty for an agent's own node, because a health check there ends sessions although the
  /// node stays. It is also empty during the pause after a failed read of a node.
  std::optional<std::string> node_to_read(moment& at, const snapshot& now, const members& ours,
                                          const pool_options& o) const;
  /// The answer to a read of that node.
  void saw_node(context& ctx, const std::string& node, const event::node_seen& seen, const pool_options& o);
  /// Whether the last read of our own node that Consul answered has shown the node.
  bool may_read_node() const { return node_created_ != 0; }

  /// Adds to the rules which slots a plan must not grant yet.
  void spare(moment& at, plan_rules& rules, const snapshot& now, const members& ours, const pool_options& o) const;
  /// The numbers, below the limit, of slots whose holders are spared.
  std::vector<std::uint32_t> spared_numbers(moment& at, std::uint32_t limit, const pool_options& o) const;

private:
  struct holder {
    duration lease{};                       ///< how long it believes in its slot at most; 0: unknown
    std::string node{};                     ///< the node of its session; empty if that is unknown or an agent's own
    std::uint64_t created = 0;              ///< the CreateIndex of its entry
    std::optional<std::uint32_t> number{};  ///< the number of its slot
    std::string witness{};                  ///< a session of ours that stood beside it
    time_point gone_since = never;          ///< when its entry was first missing
    request_id gone_as_of = 0;              ///< the last request that was sent before that was noticed
    time_point believes_until{};  ///< the latest time until which it believes in its slot, once its entry is missing
    bool node_was_read = false;   ///< since its entry is missing; also true if a read would show nothing
    bool is_maker_gone = false;
  };
  /// A session of ours that has ended, maybe with its node.
  struct end_of_ours {
    std::uint64_t entry = 0;
    time_point unseen_believe_until{};
    request_id as_of = 0;
    bool node_was_read = false;
  };

  void note(const contender& entry, std::string_view beside, std::optional<std::uint32_t> number, const snapshot& now);
  void note_absent(context& ctx, holder& its, const snapshot& now, time_point node_stands_since, const pool_options& o);
  static bool is_spared(moment& at, const holder& each, const pool_options& o);
  bool names_unseen(const snapshot& now, const members& ours, const pool_options& o) const;
  bool is_unseen(const std::string& holder, const snapshot& now, const members& ours) const;
  void spare_the_unseen(moment& at, plan_rules& rules, const snapshot& now, const members& ours,
                        const pool_options& o) const;

  std::map<std::string, holder, std::less<>> holders_;  ///< by their sessions
  /// Sessions of ours that have ended, and that the record may still name.
  std::set<std::string, std::less<>> former_;
  /// Sessions that have released their slots without writing the record, each with the index of the record at that
  /// time. A newer record may name such a session again.
  std::map<std::string, std::uint64_t, std::less<>> given_back_;
  std::vector<end_of_ours> ends_;
  std::uint64_t node_created_ = 0;  ///< the CreateIndex of our own node, as it was read last; 0: unknown
  time_point node_read_at_{};       ///< since when each answered read of our node has shown that CreateIndex
  outage node_reads_;               ///< failed reads of nodes
};

}  // namespace holdfast::protocol
