// SPDX-FileCopyrightText: The holdfast authors
// SPDX-License-Identifier: BSL-1.0

#pragma once

#include <boost/system/result.hpp>
#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "protocol/base/operation.hpp"
#include "protocol/base/random.hpp"
#include "protocol/core/events.hpp"
#include "protocol/core/outage.hpp"
#include "protocol/record/snapshot.hpp"

// An election is a mutex with two additions: the holder of the key may write another value into it, and observers watch
// the key.
namespace holdfast::protocol {

/// One proclaim: the holder of the key writes a value into it. The shell repeats three steps until the proclaim is
/// over. It reads the key consistently, sends the operations that `write` returns, and passes Consul's reply to
/// `replied`. The pool is notified of each try before it is sent, with `tried`, and of the end, with `ended`.
class proclamation {
public:
  /// `id` must differ from the ids of all other proclaims of this hold.
  proclamation(std::uint64_t id, std::string value) : id_(id), value_(std::move(value)) {}

  const std::string& value() const { return value_; }
  /// Returns the operations of the next write. `session` is the one with which we hold the key. Fails with
  /// error::slot_lost if that session does not hold the key any more. Fails with error::transaction_conflict, or as
  /// `reported` says, if our writes were refused too often. Returns no operations if nothing is left to do: a write of
  /// ours was applied, and the refusal that we received was that of its copy.
  boost::system::result<std::vector<kv_operation>> write(const std::optional<kv_entry>& seen, std::string session);
  /// The error to report to the caller if the proclaim ends because of `why`. An error that says that nothing was
  /// written is reported only if no earlier try can have been applied.
  error_code reported(const error_code& why) const;
  /// Returns the final result of the proclaim: success, or an error. Returns nothing if the write was refused, but not
  /// for lack of permission. Usually somebody else has written meanwhile. Then the key must be read again.
  std::optional<error_code> replied(const event::txn_done& reply);
  event::value_written tried() const { return {id_, value_}; }
  event::value_written ended() const {
    using enum event::value_written::stage;
    return {id_, {}, withdrawn_ ? withdrawn : over};
  }
  /// The value was not written, and never will be.
  bool is_withdrawn() const { return withdrawn_; }
  /// A write was refused. If the network has made a copy of the write, the refusal may be that of the copy. The next
  /// read of the key shows whether it was.
  bool is_doubtful() const { return doubtful_; }

private:
  std::uint64_t id_;
  std::string value_;
  bool withdrawn_ = false;
  bool doubtful_ = false;
  std::uint64_t tried_at_ = 0;  ///< the key's index that the last write asked for
  int refused_ = 0;
};

/// The leader that an election's key names.
struct leading {
  std::string value;
  std::string session;
  std::uint64_t lock_index = 0;
  std::uint64_t index = 0;  ///< the key's ModifyIndex
  std::uint64_t create_index = 0;
  bool operator==(const leading&) const = default;
};

/// Returns nothing if no session has locked the key. Otherwise the holder may still have to accept its grant.
std::optional<leading> leading_in(const std::optional<kv_entry>& key);

/// The questions of an observer of an election, and the news in the answers. One question is pending at a time.
///
/// The holder of the key may have been granted by another process, and may be dead (acceptance.hpp). So an observer
/// asks about each new holder's entry until it is sure of the holder. The observer names the holder as the leader if
/// the entry has no provisional grant, or if the holder has accepted the grant. While the entry shows a grant that is
/// not accepted, the news is that nobody leads. A holder without an entry is a client of another kind, which has locked
/// the key itself.
class observer {
public:
  /// No question waits for longer than `longest_wait`.
  observer(duration longest_wait, std::uint64_t seed) : longest_wait_(longest_wait), random_(seed) {}

  /// A consistent read. It is answered when the index exceeds `index`, or when `wait` has passed.
  struct question {
    std::string session{};    ///< list the keys that begin with this session's entry. If empty: read the election's key
    std::uint64_t index = 0;  ///< 0: at once
    duration wait{};
  };
  question ask(time_point now);

  /// The result of an answer: news, or a failure that repetition cannot mend, or a pause before the next question. If
  /// the result is empty, the next question follows at once.
  struct conclusion {
    bool is_news = false;
    std::optional<leading> leader{};
    failure error{};
    duration pause{};
    bool operator==(const conclusion&) const = default;
  };
  conclusion hear(event::key_watched answer, time_point now);
  conclusion hear(event::prefix_listed answer, time_point now);
  /// The last news has reached the caller that waited for it. Until this is called, the same answer is news again.
  void told(std::optional<leading> leader);

private:
  /// A holder that may not have accepted its grant.
  struct doubt {
    leading holder;
    std::uint64_t index = 0;       ///< of the last listing of its entry
    bool asks_key = false;         ///< the next question is about the key, which may have changed
    bool is_sure_if_same = false;  ///< if the key has not changed, the holder needs no acceptance
    bool is_of(const leading& other) const { return is_same_term(holder, other); }
  };
  static bool is_same_term(const leading& a, const leading& b) {
    return a.session == b.session && a.lock_index == b.lock_index && a.create_index == b.create_index;
  }
  template <class Answer>
  std::optional<conclusion> failed(Answer& answer, time_point now);
  conclusion key_seen(event::key_watched answer);
  conclusion listing_seen(event::prefix_listed answer);
  conclusion news(std::optional<leading> leader);
  conclusion is_sure();
  template <class Look>
  conclusion paced(time_point now, Look look);

  const duration longest_wait_;
  random_source random_;
  outage outage_;
  time_point asked_at_{};    ///< the time of the last question
  unsigned in_vain_ = 0;     ///< the number of early answers without news in a row
  std::uint64_t index_ = 0;  ///< for the next question; it stays until the news is told, so the answer comes again
  std::uint64_t heard_index_ = 0;  ///< of the last answer
  bool told_ = false;              ///< the caller has been told `last_`
  std::optional<leading> last_{};
  std::optional<leading> sure_{};  ///< the last holder that is known to need no acceptance any more
  std::optional<doubt> doubt_{};   ///< the present holder, as long as it may need an acceptance
};

}  // namespace holdfast::protocol
