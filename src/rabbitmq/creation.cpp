// SPDX-FileCopyrightText: The holdfast authors
// SPDX-License-Identifier: BSL-1.0

#include "rabbitmq/creation.hpp"

#include <boost/asio/error.hpp>
#include <chrono>
#include <optional>
#include <random>
#include <string>

#include "protocol/broker/broker_events.hpp"
#include "rabbitmq/reply_codes.hpp"

namespace holdfast::rabbitmq::detail {
namespace {

using net::as_result;
using net::clock;
using std::chrono::milliseconds;

constexpr int lock_pause_min_ms = 10;
constexpr int lock_pause_max_ms = 100;

bool is_refused(const reply& answer, std::uint16_t code) { return answer.refused && answer.refused->code == code; }

failure failure_in(const reply& answer, const char* what) {
  if (answer.error.code) return answer.error;
  if (answer.refused) return failure_of(*answer.refused, what);
  return {};
}

/// The answer to a pending request, which may come after the coroutine that waits for it was destroyed.
struct pending_answer {
  std::optional<reply> answer{};
  net::waiter_list waiting{};
};

}  // namespace

awaitable<reply> creation::ask(steps what) {
  const auto state = std::make_shared<pending_answer>();
  const time_point deadline = clock::now() + client_->settings().request_timeout;
  dialogue::answer_function then = [state](reply&& answer) {
    state->answer = std::move(answer);
    net::wake_all(state->waiting);
  };
  link_->ask(connection::first_channel, std::move(what), deadline, std::move(then));
  while (!state->answer) {
    net::waiter one(*client_->strand(), time_point::max());
    state->waiting.push_back(one);
    co_await one.timer.async_wait(as_result);
  }
  reply result = std::move(*state->answer);
  co_return result;
}

awaitable<failure> creation::lock() {
  const time_point deadline = clock::now() + client_->settings().request_timeout;
  std::uniform_int_distribution<int> pause(lock_pause_min_ms, lock_pause_max_ms);
  while (true) {
    queue_declare mutex;
    mutex.queue = queues_.names().administration();
    mutex.exclusive = true;
    steps request;
    request.push_back({std::move(mutex), {}, {}});
    reply answer = co_await ask(std::move(request));
    if (!is_refused(answer, resource_locked)) {
      failure result = failure_in(answer, "the administration mutex cannot be taken");
      co_return result;
    }
    if (clock::now() >= deadline) break;
    net::timer_type timer(*client_->strand(), milliseconds(pause(client_->random())));
    co_await timer.async_wait(as_result);
  }
  failure result{error::in_use, {"another administrator is at work", {}, {}, {}}};
  co_return result;
}

/// The token stands for a slot that nobody has held. If somebody else has F already, its token says what is true.
awaitable<failure> creation::create_tokens(std::uint32_t slot) {
  steps request;
  request.push_back(queues::passive(queues_.tokens(slot)));
  reply answer = co_await ask(std::move(request));
  if (!is_refused(answer, not_found)) {
    failure result = failure_in(answer, "the queue of the token cannot be read");
    co_return result;
  }
  request.clear();
  request.push_back(queues_.declare_tokens(slot));
  request.push_back(queues_.publish_token(slot));
  request.push_back(queues::passive(queues_.tokens(slot)));
  answer = co_await ask(std::move(request));
  failure result = failure_in(answer, "the queue of the token cannot be declared");
  if (is_refused(answer, precondition_failed)) result.code = error::lease_conflict;
  co_return result;
}

/// While B is ours, nobody else can have the slot. If another has B, that one still holds a slot that was removed.
awaitable<failure> creation::create_slot(std::uint32_t slot) {
  steps request;
  request.push_back(queues_.take(slot));
  reply answer = co_await ask(std::move(request));
  const bool is_taken = is_refused(answer, resource_locked);
  failure result;
  if (!is_taken) result = failure_in(answer, "the queue of a holder cannot be declared");
  if (result.code) co_return result;
  if (!is_taken) result = co_await create_tokens(slot);
  if (result.code) co_return result;
  request.clear();
  request.push_back(queues_.declare_existence(slot));
  if (!is_taken) request.push_back(queues_.erase_holder(slot));
  answer = co_await ask(std::move(request));
  result = failure_in(answer, "the slot cannot be declared");
  co_return result;
}

awaitable<failure> creation::run(std::uint32_t count) {
  failure result = co_await lock();
  std::uint32_t found = 0;
  while (!result.code && found <= protocol::slot_number_max) {
    steps request;
    request.push_back(queues::passive(queues_.existence(found + 1)));
    reply answer = co_await ask(std::move(request));
    if (is_refused(answer, not_found)) break;
    result = failure_in(answer, "the slots cannot be counted");
    ++found;
  }
  if (!result.code && found != 0 && found != count) {
    result = {error::limit_conflict, {"the semaphore has another number of slots", {}, {}, {}}};
    result.details.limit_conflict = diagnostics::limits{found, count};
  }
  for (std::uint32_t slot = 1; !result.code && found == 0 && slot <= count; ++slot) result = co_await create_slot(slot);
  co_return result;
}

}  // namespace holdfast::rabbitmq::detail
