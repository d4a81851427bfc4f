// SPDX-FileCopyrightText: The holdfast authors
// SPDX-License-Identifier: BSL-1.0

#include "rabbitmq/command_runner.hpp"

#include <algorithm>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/error.hpp>
#include <chrono>
#include <optional>
#include <string>
#include <utility>
#include <variant>

#include "rabbitmq/reply_codes.hpp"
#include "rabbitmq/rethrow.hpp"

namespace holdfast::rabbitmq::detail {
namespace {

using net::as_result;
using net::clock;
using protocol::broker_answer;
using protocol::broker_command_run;
using protocol::broker_next_step;
using protocol::broker_request;
namespace broker_step = protocol::broker_step;

/// In an alarm, a connection waits for its answers without a bound. The command does not: it waits this much longer
/// than a connection does otherwise.
constexpr std::chrono::milliseconds alarm_grace{200};

/// A result that may come after the coroutine that waits for it has been cancelled or destroyed.
template <class Result>
struct pending_result {
  std::optional<Result> result{};
  bool is_awaited = true;
  net::waiter_list waiting{};
};

broker_next_step ended_by_caller() {
  error_code why = asio::error::operation_aborted;
  return broker_step::done{{why, {}}};
}

const char* failure_text(broker_request what) {
  switch (what) {
    case broker_request::lock:
      return "the administration mutex cannot be taken";
    case broker_request::unlock:
      return "the administration mutex cannot be released";
    case broker_request::find_mark:
    case broker_request::declare_mark:
    case broker_request::delete_mark:
      return "the queue that marks a creation cannot be used";
    case broker_request::find_slot:
      return "the slots cannot be counted";
    case broker_request::declare_slot:
      return "the slot cannot be declared";
    case broker_request::delete_slot:
      return "the slot cannot be deleted";
    case broker_request::find_holder:
      return "the queue of a holder cannot be read";
    case broker_request::take:
      return "the queue of a holder cannot be declared";
    case broker_request::give_back:
      return "the queue of a holder cannot be deleted";
    case broker_request::find_tokens:
      return "the queue of the token cannot be read";
    case broker_request::declare_tokens:
    case broker_request::publish_token:
      return "the queue of the token cannot be declared";
    case broker_request::delete_tokens:
      return "the queue of the token cannot be deleted";
    case broker_request::delete_hints:
      return "the queue of the hints cannot be deleted";
  }
  return "";
}

/// Opens a connection for a command that may be cancelled meanwhile. Then the connection is closed.
awaitable<void> open_for_command(std::shared_ptr<client_impl> client, std::uint16_t heartbeat, std::string label,
                                 time_point deadline, std::shared_ptr<pending_result<opened>> to) {
  opened made = co_await client->connect(heartbeat, std::move(label), deadline);
  if (!to->is_awaited && made.link) made.link->close();
  to->result = std::move(made);
  net::wake_all(to->waiting);
}

}  // namespace

command_runner::command_runner(std::shared_ptr<client_impl> client, const link_terms& terms)
    : client_(std::move(client)),
      queues_(queue_names(terms.name, terms.letter_first), terms.lease),
      heartbeat_(heartbeat_for(terms.lease)) {}

/// The broker then has no exclusive queue of this command.
void command_runner::leave() noexcept {
  const auto link = std::exchange(link_, nullptr);
  if (link && client_->strand()) link->close();
}

awaitable<failure> command_runner::run(broker_command_run& its) {
  broker_next_step next = its.begin(now());
  while (!std::holds_alternative<broker_step::done>(next)) next = co_await take(its, std::move(next));
  leave();
  co_return std::move(std::get<broker_step::done>(next).why);
}

awaitable<broker_next_step> command_runner::take(broker_command_run& its, broker_next_step step) {
  if (const auto* const opening = std::get_if<broker_step::connect>(&step)) co_return co_await connect(its, *opening);
  if (const auto* const asking = std::get_if<broker_step::ask>(&step)) co_return co_await ask(its, *asking);
  net::timer_type timer(*client_->strand(), std::get<broker_step::pause>(step).time);
  auto [ec] = co_await timer.async_wait(as_result);
  if (ec) co_return ended_by_caller();
  co_return its.rested(now());
}

awaitable<broker_next_step> command_runner::connect(broker_command_run& its, broker_step::connect step) {
  leave();
  const auto pending = std::make_shared<pending_result<opened>>();
  asio::co_spawn(
      *client_->strand(),
      open_for_command(client_, heartbeat_, queues_.names().administration(), clock::now() + step.within, pending),
      rethrow);
  if (!pending->result) {
    net::waiter one(*client_->strand(), time_point::max());
    pending->waiting.push_back(one);
    co_await one.timer.async_wait(as_result);
  }
  pending->is_awaited = false;
  if (!pending->result) co_return ended_by_caller();
  link_ = std::move(pending->result->link);
  failure why = std::move(pending->result->error);
  if (why.code) why.details.key = queues_.names().administration();
  co_return its.connected(std::move(why), now());
}

awaitable<broker_next_step> command_runner::ask(broker_command_run& its, broker_step::ask step) {
  const auto pending = std::make_shared<pending_result<reply>>();
  const time_point deadline =
      clock::now() + std::min<clock::duration>(step.within, client_->settings().request_timeout);
  link_->ask(connection::first_channel, request_of(step), deadline, [pending](reply&& answer) {
    pending->result = std::move(answer);
    net::wake_all(pending->waiting);
  });
  if (!pending->result) {
    net::waiter one(*client_->strand(), deadline + alarm_grace);
    pending->waiting.push_back(one);
    auto [ec] = co_await one.timer.async_wait(as_result);
    if (!pending->result && ec) {
      leave();
      co_return ended_by_caller();
    }
  }
  reply answer;
  if (pending->result) {
    answer = std::move(*pending->result);
  } else {
    answer.error = failed(error::timed_out, link_->is_blocked() ? "the broker has an alarm, and takes no messages"
                                                                : "the broker has not answered in time");
  }
  co_return its.answered(answer_of(step, std::move(answer)), now());
}

steps command_runner::request_of(const broker_step::ask& step) const {
  const std::uint32_t number = step.number;
  switch (step.what) {
    case broker_request::lock:
      return {queues_.lock()};
    case broker_request::unlock:
      return {queues::erase(queues_.names().administration())};
    case broker_request::find_mark:
      return {queues::passive(queues_.mark())};
    case broker_request::declare_mark:
      return {queues_.declare_mark(number)};
    case broker_request::delete_mark:
      return {queues::erase(queues_.mark())};
    case broker_request::find_slot:
      return {queues::passive(queues_.existence(number))};
    case broker_request::declare_slot:
      return {queues_.declare_existence(number)};
    case broker_request::delete_slot:
      return {queues::erase(queues_.existence(number))};
    case broker_request::find_holder:
      return {queues::passive(queues_.holder(number))};
    case broker_request::take:
      return {queues_.take(number)};
    case broker_request::give_back:
      return {queues_.erase_holder(number)};
    case broker_request::find_tokens:
      return {queues::passive(queues_.tokens(number))};
    case broker_request::declare_tokens:
      return {queues_.declare_tokens(number)};
    case broker_request::publish_token:
      return {queues_.publish_token(number), queues::passive(queues_.tokens(number))};
    case broker_request::delete_tokens:
      return {queues::erase(queues_.tokens(number))};
    case broker_request::delete_hints:
      return {queues::erase(queues_.names().hints())};
  }
  return {};
}

broker_answer command_runner::answer_of(const broker_step::ask& step, reply&& its) const {
  broker_answer result;
  result.messages = its.messages;
  if (its.error.code) {
    result.what = broker_answer::kind::failed;
    result.error = std::move(its.error);
  } else if (its.refused) {
    const std::uint16_t code = its.refused->code;
    result.what = code == not_found             ? broker_answer::kind::missing
                  : code == resource_locked     ? broker_answer::kind::locked
                  : code == precondition_failed ? broker_answer::kind::differs
                                                : broker_answer::kind::failed;
    result.error = failure_of(*its.refused, failure_text(step.what));
  }
  if (result.error.code) result.error.details.key = queues_.names().administration();
  return result;
}

}  // namespace holdfast::rabbitmq::detail
