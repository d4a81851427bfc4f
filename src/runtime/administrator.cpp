// SPDX-FileCopyrightText: The holdfast authors
// SPDX-License-Identifier: BSL-1.0

#include "runtime/administrator.hpp"

#include <boost/asio/as_tuple.hpp>
#include <boost/asio/associated_cancellation_slot.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <chrono>
#include <functional>
#include <limits>
#include <random>
#include <utility>
#include <variant>

#include "runtime/boot_clock.hpp"
#include "runtime/question.hpp"
#include "runtime/semaphore_status.hpp"
#include "runtime/setup.hpp"
#include "runtime/spawn.hpp"

namespace holdfast::detail {

namespace {

using namespace std::chrono_literals;
using std::chrono::milliseconds;
using kind = administration_command::kind;

constexpr auto as_result = asio::as_tuple(asio::use_awaitable);

/// The time limit of one command. Throws if the command's timeout is outside the range of
/// `administration_options::timeout`.
milliseconds time_for(const administration_command& command, const administration_options& options) {
  if (command.request.timeout == 0ms) return options.timeout;
  try {
    return runtime::checked_timeout(command.request.timeout);
  } catch (const system_error& wrong) {
    if (command.request.diag) *command.request.diag = {runtime::reason_of(wrong), {}, {}, {}};
    throw;
  }
}

using protocol::command_history;
using protocol::inspection;

std::function<protocol::instruction(const inspection&, const command_history&)> steps_of(
    const administration_command& command) {
  switch (command.what) {
    case kind::create:
      return
          [limit = command.limit](const inspection& s, const command_history&) { return protocol::create(s, limit); };
    case kind::resize:
      return
          [limit = command.limit](const inspection& s, const command_history&) { return protocol::resize(s, limit); };
    case kind::close:
      return [](const inspection& s, const command_history&) { return protocol::set_closed(s, true); };
    case kind::open:
      return [](const inspection& s, const command_history&) { return protocol::set_closed(s, false); };
    case kind::revoke:
      return [whose = command.session](const inspection& s, const command_history& past) {
        return protocol::revoke(s, whose, past.is_first_read);
      };
    case kind::evict:
      return [whose = command.session](const inspection& s, const command_history& past) {
        return protocol::evict(s, whose, past.is_first_read);
      };
    case kind::destroy:
      return [even_in_use = command.even_in_use](const inspection& s, const command_history& past) {
        return protocol::destroy(s, even_in_use, past.first_read);
      };
    case kind::sweep:
      return [](const inspection& s, const command_history&) { return protocol::sweep(s); };
    case kind::drain:
      return [](const inspection& s, const command_history& past) { return protocol::drain(s, past.is_first_read); };
    case kind::inspect:
      break;
  }
  return [](const inspection&, const command_history&) { return protocol::instruction(); };
}

}  // namespace

administrator::administrator(const lock_store& where, administration_options options)
    : store_(runtime::store_factory::of(where).open({})), options_(std::move(options)) {
  semaphore_options which;
  which.prefix = options_.prefix;
  which.lock_key = options_.lock_key;
  which.limit = 1;
  const protocol::pool_options checked = runtime::checked(std::move(which)).core;
  prefix_ = checked.prefix;
  lock_key_ = checked.lock_key;
  runtime::checked_timeout(options_.timeout);
  if (options_.attempts_max == 0) throw system_error(make_error_code(error::invalid_option), "attempts_max: 0");
}

protocol::command administrator::command_of(const administration_command& given) const {
  protocol::command result;
  result.next = steps_of(given);
  result.prefix = prefix_;
  result.lock_key = lock_key_;
  result.time = time_for(given, options_);
  // An inspection writes nothing, so it cannot lose a race against another writer. Only its time limits it.
  result.attempts_max = given.what == kind::inspect ? std::numeric_limits<unsigned>::max() : options_.attempts_max;
  if (given.what == kind::drain) result.waits = given.within;
  if (given.what == kind::create || given.what == kind::resize) result.limit = given.limit;
  return result;
}

asio::awaitable<std::tuple<outcome>> administrator::give(administration_command command) {
  protocol::command_run run(command_of(command), std::random_device{}(), runtime::now());
  outcome ended = co_await carry_out(run, command.request.diag);
  co_return std::tuple(std::move(ended));
}

asio::awaitable<std::tuple<outcome, swept>> administrator::sweep(administration_command command) {
  protocol::command_run run(command_of(command), std::random_device{}(), runtime::now());
  outcome ended = co_await carry_out(run, command.request.diag);
  co_return std::tuple(std::move(ended), swept{run.removed().holders, run.removed().entries});
}

asio::awaitable<std::tuple<outcome, semaphore_status>> administrator::inspect(administration_command command) {
  protocol::command_run run(command_of(command), std::random_device{}(), runtime::now());
  outcome ended = co_await carry_out(run, command.request.diag);
  if (ended.code()) co_return std::tuple(std::move(ended), semaphore_status());
  const auto wall = std::chrono::system_clock::now().time_since_epoch();
  co_return std::tuple(std::move(ended),
                       runtime::to_status(run.seen(), std::chrono::floor<std::chrono::seconds>(wall)));
}

/// Runs the steps of a command until it is done. `diag` is written only on failure.
asio::awaitable<outcome> administrator::carry_out(protocol::command_run& run, diagnostics* diag) {
  protocol::next_step next = run.begin(runtime::now());
  while (!std::holds_alternative<protocol::command_step::done>(next)) next = co_await take(run, std::move(next));
  protocol::failure& why = std::get<protocol::command_step::done>(next).why;
  co_return runtime::outcome_of(std::move(why), diag);
}

asio::awaitable<protocol::next_step> administrator::take(protocol::command_run& run, protocol::next_step step) {
  const auto self = shared_from_this();
  if (auto* const read = std::get_if<protocol::command_step::read>(&step)) {
    runtime::prefix_question question{prefix_, {}, read->index, read->wait, read->within};
    auto seen = co_await runtime::answer_of<protocol::event::prefix_listed>(self, std::move(question));
    co_return run.read_done(std::move(seen), runtime::now());
  }
  if (auto* const end = std::get_if<protocol::command_step::end_session>(&step)) {
    runtime::end_question question{std::move(end->session), {}, end->within};
    auto why = co_await runtime::answer_of<protocol::failure>(self, std::move(question));
    co_return run.session_ended(std::move(why), runtime::now());
  }
  if (auto* const write = std::get_if<protocol::command_step::write>(&step)) {
    runtime::write_question question{std::move(write->operations), {}, write->within};
    auto done = co_await runtime::answer_of<protocol::event::txn_done>(self, std::move(question));
    co_return run.written(std::move(done), runtime::now());
  }
  asio::steady_timer timer(strand(), std::get<protocol::command_step::pause>(step).time);
  auto [cancelled] = co_await timer.async_wait(as_result);
  if (cancelled) co_return run.cancelled(cancelled);
  co_return run.rested(runtime::now());
}

namespace {

template <class... Results>
using result_of = asio::awaitable<std::tuple<outcome, Results...>>;

template <class... Results>
result_of<Results...> run(std::shared_ptr<administrator> impl, administration_command command,
                          result_of<Results...> (administrator::*member)(administration_command)) {
  auto result = co_await (impl.get()->*member)(std::move(command));
  co_return result;
}

template <class... Results>
void start(const std::shared_ptr<administrator>& impl, administration_command command, pending<Results...>&& waiting,
           result_of<Results...> (administrator::*member)(administration_command)) {
  if (!impl->get_executor()) return;  // the context has been destroyed: no handler can run
  runtime::spawn_for([impl] { return impl->get_executor(); }, impl->strand(), run(impl, std::move(command), member),
                     std::move(waiting));
}

}  // namespace

asio::any_io_executor executor_of(const administrator& impl) noexcept { return impl.get_executor(); }

void start_command(const std::shared_ptr<administrator>& impl, administration_command command, pending<>&& waiting) {
  start(impl, std::move(command), std::move(waiting), &administrator::give);
}

void start_command(const std::shared_ptr<administrator>& impl, administration_command command,
                   pending<swept>&& waiting) {
  start(impl, std::move(command), std::move(waiting), &administrator::sweep);
}

void start_command(const std::shared_ptr<administrator>& impl, administration_command command,
                   pending<semaphore_status>&& waiting) {
  start(impl, std::move(command), std::move(waiting), &administrator::inspect);
}

}  // namespace holdfast::detail

namespace holdfast {

semaphore_administration::semaphore_administration(const lock_store& where, administration_options options)
    : impl_(std::make_shared<detail::administrator>(where, std::move(options))) {}

}  // namespace holdfast
