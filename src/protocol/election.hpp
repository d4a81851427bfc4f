#pragma once

#include <boost/system/result.hpp>
#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "protocol/events.hpp"
#include "protocol/operation.hpp"
#include "protocol/outage.hpp"
#include "protocol/random.hpp"
#include "protocol/snapshot.hpp"

// What an election adds to a mutex: who holds its key may write another value into it, and others watch it.
namespace holdfast::protocol {

/// One proclaim: the holder of the key writes a value into it. Look at the key, consistently; send what `write` says;
/// tell `replied` what Consul said; and so again, until that says that it is over. The pool is notified of each try
/// before it is sent, with `tried`, and of the end, with `ended`.
class proclamation {
public:
  /// `id`: no other proclaim of this hold has the same.
  proclamation(std::uint64_t id, std::string value) : id_(id), value_(std::move(value)) {}

  const std::string& value() const { return value_; }
  /// `session`: by which we hold the key. error::slot_lost if that does not hold it any more,
  /// error::transaction_conflict if others have written the key before us too often. No operations: the value stands
  /// there by a write of ours, of which a copy was refused, and nothing is left to do.
  boost::system::result<std::vector<kv_operation>> write(const std::optional<kv_entry>& seen, std::string session);
  /// What its caller is told if it ends for this reason: that nothing was written, only if no earlier try can have
  /// been.
  error_code reported(const error_code& why) const;
  /// What became of it: done, or why not, or why nobody knows. None: somebody else has written meanwhile, so look
  /// again.
  std::optional<error_code> replied(const event::txn_done& reply);
  event::value_written tried() const { return {id_, value_}; }
  event::value_written ended() const {
    using enum event::value_written::stage;
    return {id_, {}, withdrawn_ ? withdrawn : over};
  }
  /// It does not stand there, and never will.
  bool is_withdrawn() const { return withdrawn_; }
  /// Its write was refused. If the network has repeated that, the refusal may be the copy's: the next look tells.
  bool is_doubtful() const { return doubtful_; }

private:
  std::uint64_t id_;
  std::string value_;
  bool withdrawn_ = false;
  bool doubtful_ = false;
  std::uint64_t tried_at_ = 0;  ///< the key's index that the last write asked for
  int refused_ = 0;
};

/// Who leads, by what stands in an election's key.
struct leading {
  std::string value;
  std::string session;
  std::uint64_t lock_index = 0;
  std::uint64_t index = 0;  ///< the key's ModifyIndex
  std::uint64_t create_index = 0;
  bool operator==(const leading&) const = default;
};

/// None: nobody.
std::optional<leading> leading_in(const std::optional<kv_entry>& key);

/// The questions of an observer of an election, and the news in the answers. One question is pending at a time.
///
/// The holder of the key may have been granted by another process, and may be dead (acceptance.hpp). So an observer
/// asks about each new holder's entry once. The observer names the holder as the leader if the entry has no provisional
/// grant, or if the holder has accepted the grant. Until then the news is that nobody leads. A holder without an entry
/// is a client of another kind, which has locked the key itself.
class observer {
public:
  /// No question waits for longer than `longest_wait`.
  observer(duration longest_wait, std::uint64_t seed) : longest_wait_(longest_wait), random_(seed) {}

  /// A consistent read. It is answered when the index has gone past `index`, or when `wait` is over.
  struct question {
    std::string session{};    ///< list the keys that begin with this session's entry. If empty: read the election's key
    std::uint64_t index = 0;  ///< 0: at once
    duration wait{};
  };
  question ask();

  /// What follows from an answer: news, or a failure that no repetition will mend, or a pause before the next question.
  struct conclusion {
    bool is_news = false;
    std::optional<leading> leader{};
    failure error{};
    duration pause{};
    bool operator==(const conclusion&) const = default;
  };
  conclusion hear(event::key_watched answer, time_point now);
  conclusion hear(event::prefix_listed answer, time_point now);
  /// The last news has reached whoever waited for it. Otherwise the next answer is news, too.
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
  conclusion news(std::optional<leading> leader);
  conclusion is_sure();

  const duration longest_wait_;
  random_source random_;
  outage outage_;
  std::uint64_t index_ = 0;        ///< to ask with: what is not told will be answered again at once
  std::uint64_t heard_index_ = 0;  ///< of the last answer
  bool told_ = false;              ///< `last_` was
  std::optional<leading> last_{};
  std::optional<leading> sure_{};  ///< the last holder of which it is known that it needs no acceptance any more
  std::optional<doubt> doubt_{};   ///< the present holder, while that is not known
};

}  // namespace holdfast::protocol
