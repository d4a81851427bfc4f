#include "protocol/election.hpp"

#include <algorithm>
#include <utility>

namespace holdfast::protocol {

namespace {

using namespace std::chrono_literals;

/// So often a proclaim begins anew because somebody else has written the key meanwhile.
constexpr int proclaim_tries = 4;
/// A key that does not exist has an index that every write beside it moves: those are not asked after one by one.
constexpr duration longest_pause = 100ms;

bool is_foreign(const std::optional<kv_entry>& key) { return key && key->flags != 0 && key->flags != mutex_flags; }

}  // namespace

/// The key is written as its holder finds it, under the hold: with its flags, for they say whose form it has; with
/// `lock`, which keeps the lock index, and with it the sequencers; and guarded by its index, so that of two proclaims
/// the one whose outcome is unknown cannot come after the one that followed it.
boost::system::result<std::vector<kv_operation>> proclamation::write(const std::optional<kv_entry>& seen,
                                                                     std::string session) {
  if (!seen || seen->session != session) return make_error_code(error::slot_lost);
  const bool has_moved = seen->modify_index != tried_at_;
  if (doubtful_ && has_moved && seen->value == value_) return std::vector<kv_operation>();
  if (has_moved) doubtful_ = false;  // what asks for an index that has gone by is never applied
  withdrawn_ = refused_ == proclaim_tries && has_moved;
  if (refused_ == proclaim_tries) return reported(error::transaction_conflict);
  tried_at_ = seen->modify_index;
  return std::vector<kv_operation>{{kv_verb::check_session, seen->key, {}, 0, 0, session},
                                   {kv_verb::check_index, seen->key, {}, 0, seen->modify_index},
                                   {kv_verb::lock, seen->key, value_, seen->flags, 0, std::move(session)}};
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

observer::question observer::ask() { return {index_, random_.between(longest_wait_ * 3 / 4, longest_wait_)}; }

observer::conclusion observer::hear(event::key_watched answer, time_point now) {
  conclusion result;
  if (answer.error.code && !is_final(answer.error.code)) {
    index_ = 0;  // a plain look answers as soon as there is an answer
    outage_.failed({}, now, random_);
    result.pause = outage_.retry_at() - now;
    return result;
  }
  outage_.over();
  if (answer.error.code) {
    result.error = std::move(answer.error);
    return result;
  }
  if (is_foreign(answer.pair)) {
    result.error = {make_error_code(error::not_a_mutex),
                    {"the key's flags are another application's", answer.pair->key, {}, {}}};
    return result;
  }
  heard_index_ = answer.index < index_ ? 0 : answer.index;  // one that went backwards starts over
  result.leader = leading_in(answer.pair);
  result.is_news = !told_ || result.leader != last_;
  if (result.is_news) return result;
  index_ = heard_index_;
  result.pause = random_.between(0ms, longest_pause);
  return result;
}

void observer::told(std::optional<leading> leader) {
  told_ = true;
  index_ = heard_index_;
  last_ = std::move(leader);
}

}  // namespace holdfast::protocol
