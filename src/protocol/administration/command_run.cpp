// SPDX-FileCopyrightText: The holdfast authors
// SPDX-License-Identifier: BSL-1.0

#include "protocol/administration/command_run.hpp"

#include <algorithm>
#include <chrono>
#include <utility>

namespace holdfast::protocol {

namespace {

using namespace std::chrono_literals;

constexpr duration request_max = 5s;
constexpr duration watch_wait = 10s;
/// The longest pause between two reads of a semaphore that changes all the time.
constexpr duration pause_max = 100ms;

/// True if another read may lead to success.
bool is_worth_another_read(const error_code& ec) {
  return ec == condition::unavailable || ec == condition::outcome_unknown || ec == error::transaction_conflict;
}

}  // namespace

command_run::command_run(command what, std::uint64_t seed, time_point now)
    : what_(std::move(what)), random_(seed), deadline_(now + what_.time) {
  if (!is_waiting()) return;
  const duration longest = std::max(*what_.waits, duration::zero());
  if (longest < never - now) wait_ends_ = now + longest;
}

next_step command_run::begin(time_point now) {
  if (what_.limit && (*what_.limit == 0 || *what_.limit > limit_max))
    return end(failed(error::invalid_limit, "the limit is not between 1 and " + std::to_string(limit_max)));
  return again({}, now);
}

/// Reads again, at once, or after a pause if something has failed. Ends the command if there is no time left, or after
/// too many attempts in a row without progress. A command that waits may make any number of attempts.
next_step command_run::again(failure why, time_point now) {
  why_ = std::move(why);
  if (is_waiting()) {
    if (!why_.code) return read(now);
    watched_ = 0;
    if (!outage_.on()) deadline_ = now + what_.time;  // the outage begins now, not with the wait
    return rest(now);
  }
  if (in_vain_++ == what_.attempts_max) return end(why_);
  if (!why_.code && now >= deadline_) why_ = failed(error::timed_out, "not done in time");
  return why_.code ? rest(now) : read(now);
}

/// Pauses before the next read, with jitter, or ends the command if there is no time left. If Consul refused the
/// write, the pause is short. Usually another writer was first, which is common on a busy semaphore.
next_step command_run::rest(time_point now) {
  const bool beaten = why_.code == error::transaction_conflict;
  if (!beaten) outage_.failed(why_, now, random_);
  const duration bound = backoff_bound(conflicts_, 1ms, 20ms);
  const time_point until = beaten ? now + random_.between({}, bound) : outage_.retry_at();
  if (until >= deadline_) return end(why_);
  return command_step::pause{std::max(until - now, duration::zero())};
}

next_step command_run::rested(time_point now) {
  why_ = {};
  return read(now);
}

next_step command_run::read(time_point now) {
  if (!is_waiting()) return command_step::read{0, {}, within(now)};
  deadline_ = now + what_.time;  // this limits an outage, not the wait
  if (outage_.on()) deadline_ = outage_.since() + what_.time;
  const duration left = wait_ends_ == never ? watch_wait : std::min(watch_wait, wait_ends_ - now);
  if (left <= duration::zero() && watched_ != 0) return wait({.more = true}, now);
  return command_step::read{watched_, std::max<duration>(left, 1ms), within(now)};
}

next_step command_run::read_done(event::prefix_listed&& e, time_point now) {
  if (!e.error.code && e.filtered)  // holders whose entries are missing would count as dead
    e.error = {make_error_code(error::permission_denied),
               {"the ACL token may not read all keys below the prefix", what_.prefix, {}, {}}};
  if (!e.error.code) {
    auto seen = make_inspection(what_.prefix, what_.lock_key, std::move(e.listing), e.index);
    if (seen)
      seen_ = *std::move(seen);
    else
      e.error = failed(seen.error(), seen.error().message());
  }
  if (is_worth_another_read(e.error.code)) return again(std::move(e.error), now);
  if (e.error.code) return end(std::move(e.error));
  return saw(now);
}

next_step command_run::saw(time_point now) {
  if (is_waiting()) outage_.over();
  there_ = count_leftovers(seen_);
  if (const auto before = std::exchange(unanswered_, std::nullopt)) {
    removed_.holders += before->holders - std::min(before->holders, there_.holders);
    removed_.entries += before->entries - std::min(before->entries, there_.entries);
  }
  asked_ = what_.next(seen_, history_);
  if (std::exchange(history_.is_first_read, false)) history_.first_read = seen_.now.index;
  if (is_carried_out_ && (asked_.refused || asked_.operations.empty() || now >= deadline_)) return command_step::done{};
  if (asked_.refused) {
    failure why = failed(asked_.refused, asked_.refused.message());
    if (asked_.refused == error::limit_conflict)
      why.details.limit_conflict = {seen_.now.record.limit, what_.limit.value_or(0)};
    return end(std::move(why));
  }
  if (is_waiting()) return wait(asked_, now);
  if (!asked_.session.empty()) return command_step::end_session{asked_.session, within(now)};
  if (asked_.operations.empty()) return command_step::done{};
  return command_step::write{asked_.operations, within(now)};
}

/// Nothing is to be written. Ends the command if nothing is left to wait for, or if the time for the wait is over.
/// Otherwise pauses before the next read, which waits for a change.
next_step command_run::wait(const instruction& next, time_point now) {
  if (!next.more) return command_step::done{};
  watched_ = seen_.now.index < watched_ ? 0 : seen_.now.index;
  if (now >= wait_ends_) return end(failed(error::in_use, "somebody still holds a slot"));
  return command_step::pause{std::min(random_.between({}, pause_max), wait_ends_ - now)};
}

next_step command_run::session_ended(failure why, time_point now) { return attempted(std::move(why), now); }

next_step command_run::written(event::txn_done&& e, time_point now) {
  if (is_carried_out_ && e.outcome != event::outcome::applied) return command_step::done{};
  if (e.outcome == event::outcome::applied && asked_.reads) return read_beside(std::move(e), now);
  if (e.outcome != event::outcome::refused) return attempted(std::move(e.error), now);
  const bool denied = std::any_of(e.refusals.begin(), e.refusals.end(), [](const event::refused_operation& each) {
    return each.reason == event::refusal::permission_denied;
  });
  if (denied)
    return attempted({make_error_code(error::permission_denied),
                      {"the ACL token may not write below the prefix", what_.prefix, {}, {}}},
                     now);
  ++conflicts_;
  return attempted(failed(error::transaction_conflict, "others wrote first each time"), now);
}

/// The write was applied, and was also to read all keys below the prefix. If the answer lacks a usable listing, the
/// command ends if it is carried out, and reads again otherwise.
next_step command_run::read_beside(event::txn_done&& e, time_point now) {
  outage_.over();
  removed_.holders += asked_.swept.holders;
  removed_.entries += asked_.swept.entries;
  doubt_ = {};
  in_vain_ = 0;
  is_carried_out_ = is_carried_out_ || !asked_.more;
  const std::size_t written = results_before_reads(asked_.operations);
  if (e.results.size() < written) return is_carried_out_ ? next_step(command_step::done{}) : again({}, now);
  std::uint64_t index = 0;
  for (std::size_t i = 0; i != written; ++i) index = std::max(index, e.results[i].modify_index);
  e.results.erase(e.results.begin(), e.results.begin() + static_cast<std::ptrdiff_t>(written));
  auto seen = make_inspection(what_.prefix, what_.lock_key, std::move(e.results), index);
  if (!seen) return is_carried_out_ ? next_step(command_step::done{}) : again({}, now);
  seen_ = *std::move(seen);
  return saw(now);
}

next_step command_run::attempted(failure why, time_point now) {
  if (why.code == condition::outcome_unknown) {
    doubt_ = why;
    unanswered_ = there_;
  }
  if (why.code) return is_worth_another_read(why.code) ? again(std::move(why), now) : end(std::move(why));
  outage_.over();
  removed_.holders += asked_.swept.holders;
  removed_.entries += asked_.swept.entries;
  if (asked_.session.empty() && !asked_.more) return command_step::done{};
  doubt_ = {};
  in_vain_ = 0;  // there is progress
  return again({}, now);
}

/// Ends the command. If one of its writes may have been applied, or may be later, the error must say so.
next_step command_run::end(failure why) const {
  if (doubt_.code && why.code == condition::not_applied) why.code = doubt_.code;
  return command_step::done{std::move(why)};
}

failure command_run::failed(error_code code, std::string text) const {
  return {code, {std::move(text), what_.lock_key, {}, {}}};
}

duration command_run::within(time_point now) const { return std::clamp<duration>(deadline_ - now, 1ms, request_max); }

}  // namespace holdfast::protocol
