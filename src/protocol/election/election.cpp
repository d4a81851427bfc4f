// SPDX-FileCopyrightText: The holdfast authors
// SPDX-License-Identifier: BSL-1.0

#include "protocol/election/election.hpp"

#include <algorithm>
#include <utility>

#include "protocol/base/backoff.hpp"

namespace holdfast::protocol {

namespace {

using namespace std::chrono_literals;

/// A proclaim fails after this many of its writes were refused, usually because somebody else had written the key
/// meanwhile. A refusal for lack of permission ends the proclaim at once.
constexpr int proclaim_tries = 4;
/// The bounds of the pause after an answer without news. The pause doubles with each such answer. After the longest
/// pause, two more answers may be needed. Even then an observer reports news within a second.
constexpr duration first_pause = 100ms, longest_pause = 700ms;
/// After one of this many answers without news, the next question follows at once.
constexpr unsigned at_once_every = 8;
/// Only an answer that arrives sooner than this makes the pause longer.
constexpr duration early = 400ms;
/// The longest time that a question about an entry waits. The key may change without a change of the entry.
constexpr duration longest_doubt = 500ms;

bool is_foreign(const std::optional<kv_entry>& key) { return key && key->flags != 0 && key->flags != mutex_flags; }

}  // namespace

/// The write changes only the value, and is applied only if the session still holds the key:
/// - It keeps the key's flags, which tell which kind of client made the key.
/// - It uses `lock`, which keeps the lock index, so that sequencers stay valid.
/// - It is guarded by the key's index. So a proclaim of unknown outcome cannot be applied after a later proclaim.
boost::system::result<std::vector<kv_operation>> proclamation::write(const std::optional<kv_entry>& seen,
                                                                     std::string session) {
  if (!seen || seen->session != session) return make_error_code(error::slot_lost);
  const bool has_moved = seen->modify_index != tried_at_;
  if (doubtful_ && has_moved && seen->value == value_) return std::vector<kv_operation>();
  if (has_moved) doubtful_ = false;  // a write that is guarded by an older index is never applied
  withdrawn_ = refused_ == proclaim_tries && has_moved;
  if (refused_ == proclaim_tries) return reported(error::transaction_conflict);
  tried_at_ = seen->modify_index;
  return std::vector<kv_operation>{kv_operation::check_session(seen->key, session),
                                   kv_operation::check_index(seen->key, seen->modify_index),
                                   kv_operation::lock(seen->key, value_, std::move(session), seen->flags)};
}

error_code proclamation::reported(const error_code& why) const {
  return doubtful_ && why == condition::not_applied ? make_error_code(error::timed_out) : why;
}

std::optional<error_code> proclamation::replied(const event::txn_done& reply) {
  using event::outcome;
  if (reply.outcome == outcome::applied) return error_code();
  if (reply.outcome == outcome::unknown) return reply.error.code;
  if (reply.outcome == outcome::not_sent) {
    withdrawn_ = !doubtful_;
    return reported(reply.error.code);
  }
  const bool denied = std::any_of(reply.refusals.begin(), reply.refusals.end(),
                                  [](const auto& each) { return each.reason == event::refusal::permission_denied; });
  withdrawn_ = denied && !doubtful_;
  if (denied) return reported(error::permission_denied);
  doubtful_ = true;
  ++refused_;
  return std::nullopt;
}

std::optional<leading> leading_in(const std::optional<kv_entry>& key) {
  if (!key || key->session.empty()) return std::nullopt;
  return leading{key->value, key->session, key->lock_index, key->modify_index, key->create_index};
}

observer::question observer::ask(time_point now) {
  asked_at_ = now;
  const duration wait = random_.between(longest_wait_ * 3 / 4, longest_wait_);
  if (!doubt_ || doubt_->asks_key) return {{}, doubt_ ? 0 : index_, wait};
  const bool knows = told_ && !last_;  // otherwise each answer is news
  return {doubt_->holder.session, knows ? doubt_->index : 0, std::min<duration>(longest_wait_, longest_doubt)};
}

/// Returns nothing if the answer is not a failure.
template <class Answer>
std::optional<observer::conclusion> observer::failed(Answer& answer, time_point now) {
  if (!answer.error.code) {
    outage_.over();
    return std::nullopt;
  }
  in_vain_ = 0;
  conclusion result;
  if (is_final(answer.error.code)) {
    outage_.over();
    result.error = std::move(answer.error);
    return result;
  }
  index_ = 0;  // a plain read is answered as soon as there is an answer
  doubt_.reset();
  outage_.failed({}, now, random_);
  result.pause = outage_.retry_at() - now;
  return result;
}

observer::conclusion observer::hear(event::key_watched answer, time_point now) {
  if (auto failure = failed(answer, now)) return *std::move(failure);
  return paced(now, [&] { return key_seen(std::move(answer)); });
}

observer::conclusion observer::hear(event::prefix_listed answer, time_point now) {
  if (auto failure = failed(answer, now)) return *std::move(failure);
  return paced(now, [&] { return listing_seen(std::move(answer)); });
}

/// Takes an answer with `look`, and sets the pause before the next question.
///
/// If the key does not exist, Consul answers a question as soon as any key has changed since the index of the question.
/// Before Consul 1.10.9, a change of a neighbouring key answers a waiting question, too. So each write of another
/// program may cause an answer without news, and a pause must bound the number of questions. But other keys change
/// during the pause, so the next question is answered at once. Only a question without a pause before it waits.
/// Therefore the question after the first answer without news has no pause, and every eighth question after that.
///
/// A proxy that answers from a cache causes early answers without news, too.
template <class Look>
observer::conclusion observer::paced(time_point now, Look look) {
  const auto known = [this] { return std::pair(doubt_ ? doubt_->holder.index : 0, doubt_ ? doubt_->index : 0); };
  const auto before = known();
  conclusion result = look();
  if (result.is_news || result.error.code || now - asked_at_ >= early) {
    in_vain_ = 0;
  } else if (known() == before && in_vain_++ % at_once_every != 0) {
    const duration bound = backoff_bound(in_vain_ - 1, first_pause, longest_pause);
    result.pause = random_.between(bound * 9 / 10, bound);
  }
  return result;
}

observer::conclusion observer::key_seen(event::key_watched answer) {
  if (is_foreign(answer.pair)) {
    conclusion result;
    result.error = {make_error_code(error::not_a_mutex),
                    {"the key's flags are another application's", answer.pair->key, {}, {}}};
    return result;
  }
  heard_index_ = answer.index < index_ ? 0 : answer.index;  // after an index that went backwards, start at 0
  std::optional<leading> holder = leading_in(answer.pair);
  if (!holder || (sure_ && is_same_term(*sure_, *holder))) {
    doubt_.reset();
    return news(std::move(holder));
  }
  const bool is_same = doubt_ && doubt_->is_of(*holder);
  if (is_same && doubt_->is_sure_if_same && doubt_->holder.index == holder->index) return is_sure();
  if (is_same)
    doubt_->holder = *std::move(holder);
  else
    doubt_ = doubt{*std::move(holder)};
  doubt_->asks_key = doubt_->is_sure_if_same = false;
  return {};
}

/// The listing shows the entry of the holder, and whether the holder has accepted its grant.
observer::conclusion observer::listing_seen(event::prefix_listed answer) {
  if (!doubt_) return {};
  if (answer.index < doubt_->index) {  // Consul has lost its state, or got an older one
    doubt_->index = 0;
    doubt_->asks_key = true;
    return {};
  }
  const std::string& session = doubt_->holder.session;
  const auto key_of_holder = [&](std::string_view end) {
    const auto found = std::find_if(answer.listing.begin(), answer.listing.end(), [&](const kv_entry& each) {
      return each.session == session && each.key.ends_with(end);
    });
    return found == answer.listing.end() ? nullptr : &*found;
  };
  const kv_entry* const entry = key_of_holder(session);
  const bool has_accepted = !entry || !is_provisional(entry->flags) || key_of_holder(acceptance_of_entry(session));
  const bool is_of_this_term = entry && entry->modify_index <= doubt_->holder.index;
  if (has_accepted && is_of_this_term) return is_sure();
  const std::uint64_t before = std::exchange(doubt_->index, answer.index);
  doubt_->asks_key = !is_of_this_term || answer.index == before;
  doubt_->is_sure_if_same = has_accepted;
  if (has_accepted) return {};
  if (told_ && !last_) return {};
  return news(std::nullopt);
}

/// The holder in doubt leads.
observer::conclusion observer::is_sure() {
  sure_ = std::move(doubt_->holder);
  doubt_.reset();
  return news(sure_);
}

observer::conclusion observer::news(std::optional<leading> leader) {
  conclusion result;
  result.leader = std::move(leader);
  result.is_news = !told_ || result.leader != last_;
  if (!result.is_news) index_ = heard_index_;
  return result;
}

void observer::told(std::optional<leading> leader) {
  told_ = true;
  index_ = heard_index_;
  last_ = std::move(leader);
}

}  // namespace holdfast::protocol
