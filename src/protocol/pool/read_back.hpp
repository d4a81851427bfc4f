// SPDX-FileCopyrightText: The holdfast authors
// SPDX-License-Identifier: BSL-1.0

#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "protocol/core/contradictions.hpp"
#include "protocol/pool/member.hpp"
#include "protocol/pool/transaction.hpp"

namespace holdfast::protocol {

/// Whether reads show the outcome of our last write that was answered. The first later read of everything decides that,
/// or a read of one key that was to show it. The results of reads in the write itself do not count, because
/// transactions have other rules for the names of keys than URLs.
class read_back : public contradictions {
public:
  /// `last_request`: the last request that was sent before the answer.
  void applied(const transaction& txn, const transaction::reply& its, request_id last_request);
  /// A write is sent. A read may show its changes before its answer arrives. So nothing is expected any more of the
  /// entries that it touches.
  void sent(const transaction& txn);
  /// Somebody else had changed something that the write was based on.
  void refused(request_id last_request);
  /// The outcome is not known, so nothing is expected of the reads.
  void forget() { expects_ = expected::nothing; }

  /// `asked`: the request that was answered.
  void listed(context& ctx, contradiction_news& news, const snapshot& seen, request_id asked, const members& ours);
  void saw_record(context& ctx, contradiction_news& news, std::uint64_t index, request_id asked);
  void entry_is_missing(context& ctx, contradiction_news& news, std::string_view session, request_id asked,
                        const members& ours);

private:
  enum class expected { nothing, outcome, change };

  bool decides(request_id asked, std::uint64_t index) const {
    return expects_ != expected::nothing && (asked > answered_before_ || (index_ != 0 && index >= index_));
  }
  bool is_contradicted_by(const snapshot& seen, const members& ours) const;
  bool is_shown_by(const snapshot& seen) const;

  expected expects_ = expected::nothing;
  request_id answered_before_ = 0;            ///< later requests were sent after the answer
  std::uint64_t index_ = 0;                   ///< at which the write was applied; 0: unknown
  std::uint64_t record_index_ = 0;            ///< of the record; 0: the write has not changed it
  std::optional<std::uint64_t> shown_{};      ///< the digest of the last read of everything
  std::optional<std::uint64_t> sent_base_{};  ///< `shown_` when the last write was sent; that write does not change it
  std::optional<std::uint64_t> base_{};       ///< the same, for the write that was refused
  std::vector<std::string> there_{};          ///< sessions whose entries it has made
  std::vector<std::string> gone_{};           ///< sessions whose entries it has removed or marked
};

}  // namespace holdfast::protocol
