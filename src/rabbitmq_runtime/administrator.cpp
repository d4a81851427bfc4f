// SPDX-FileCopyrightText: The holdfast authors
// SPDX-License-Identifier: BSL-1.0

#include "rabbitmq_runtime/administrator.hpp"

#include <boost/asio/associated_cancellation_slot.hpp>
#include <utility>

#include "rabbitmq/command_runner.hpp"
#include "rabbitmq_runtime/broker_setup.hpp"
#include "runtime/setup.hpp"
#include "runtime/spawn.hpp"

namespace holdfast::rabbitmq::detail {

namespace {

using runtime::outcome;

// It fails to compile when the structure gets a new member. The author of the member must then check it, and use it.
void know_all_of(const administration_options& options) {
  [[maybe_unused]] const auto& [name, lease, letter_first, timeout] = options;
}

link_terms terms_of(administration_options&& options) {
  know_all_of(options);
  semaphore_options which;
  which.name = std::move(options.name);
  which.lease = options.lease;
  which.letter_first = options.letter_first;
  return checked(std::move(which)).link;
}

protocol::broker_command::kind kind_of(administration_command::kind what) {
  using from = administration_command::kind;
  using to = protocol::broker_command::kind;
  switch (what) {
    case from::create:
      return to::create;
    case from::grow:
      return to::grow;
    case from::shrink:
      return to::shrink;
    case from::destroy:
      return to::destroy;
    case from::inspect:
      break;
    case from::wait_until_released:
      return to::wait_until_released;
    case from::wait_until_drained:
      return to::wait_until_drained;
  }
  return to::inspect;
}

}  // namespace

administrator::administrator(const client& broker, administration_options options)
    : client_(impl_of(broker)), timeout_(runtime::checked_timeout(options.timeout)) {
  terms_ = terms_of(std::move(options));
}

protocol::broker_command_run administrator::run_of(const administration_command& given) const {
  protocol::broker_command what{kind_of(given.what), terms_.name, given.number, timeout_, given.within};
  return {std::move(what), client_->random()(), command_runner::now()};
}

/// `diag` is written only on failure.
awaitable<outcome> administrator::carry_out(protocol::broker_command_run& run, diagnostics* diag) const {
  command_runner runner(client_, terms_);
  failure why = co_await runner.run(run);
  co_return runtime::outcome_of(std::move(why), diag);
}

awaitable<std::tuple<outcome>> administrator::give(administration_command command) const {
  protocol::broker_command_run run = run_of(command);
  outcome ended = co_await carry_out(run, command.options.diag);
  co_return std::tuple(std::move(ended));
}

awaitable<std::tuple<outcome, std::uint32_t>> administrator::resize(administration_command command) const {
  protocol::broker_command_run run = run_of(command);
  outcome ended = co_await carry_out(run, command.options.diag);
  const std::uint32_t slots = ended.code() ? 0 : run.seen().slots;
  co_return std::tuple(std::move(ended), slots);
}

awaitable<std::tuple<outcome, destroy_result>> administrator::destroy(administration_command command) const {
  protocol::broker_command_run run = run_of(command);
  outcome ended = co_await carry_out(run, command.options.diag);
  destroy_result result;
  if (!ended.code()) {
    const queue_names names(terms_.name, terms_.letter_first);
    result.held = run.seen().taken;
    for (const std::uint32_t slot : run.seen().kept)
      result.kept_queues.push_back(names.of_slot(slot, slot_queue::token));
  }
  co_return std::tuple(std::move(ended), std::move(result));
}

awaitable<std::tuple<outcome, semaphore_status>> administrator::inspect(administration_command command) const {
  protocol::broker_command_run run = run_of(command);
  outcome ended = co_await carry_out(run, command.options.diag);
  semaphore_status status;
  if (!ended.code()) {
    const auto& seen = run.seen();
    status = {seen.slots != 0, seen.slots, seen.taken, seen.unfinished};
  }
  co_return std::tuple(std::move(ended), std::move(status));
}

namespace {

template <class... Results>
using result_of = awaitable<std::tuple<outcome, Results...>>;

template <class... Results>
using command_function = result_of<Results...> (administrator::*)(administration_command) const;

template <class... Results>
result_of<Results...> run(std::shared_ptr<administrator> impl, administration_command command,
                          command_function<Results...> member) {
  auto result = co_await (impl.get()->*member)(std::move(command));
  co_return result;
}

/// If the context has been destroyed, no handler can run. In a child of fork() nothing is done, because its bytes would
/// go into the parent's connections.
template <class... Results>
void start(const std::shared_ptr<administrator>& impl, administration_command command,
           holdfast::detail::pending<Results...>&& waiting, command_function<Results...> member) {
  const client_impl& its = impl->owner();
  if (its.process().is_foreign() || !its.strand()) return;
  runtime::spawn_for([impl] { return impl->owner().executor(); }, *its.strand(), run(impl, std::move(command), member),
                     std::move(waiting));
}

}  // namespace

asio::any_io_executor executor_of(const administrator& impl) noexcept { return impl.owner().executor(); }

void start_command(const std::shared_ptr<administrator>& impl, administration_command command,
                   holdfast::detail::pending<>&& waiting) {
  start(impl, std::move(command), std::move(waiting), &administrator::give);
}

void start_command(const std::shared_ptr<administrator>& impl, administration_command command,
                   holdfast::detail::pending<std::uint32_t>&& waiting) {
  start(impl, std::move(command), std::move(waiting), &administrator::resize);
}

void start_command(const std::shared_ptr<administrator>& impl, administration_command command,
                   holdfast::detail::pending<destroy_result>&& waiting) {
  start(impl, std::move(command), std::move(waiting), &administrator::destroy);
}

void start_command(const std::shared_ptr<administrator>& impl, administration_command command,
                   holdfast::detail::pending<semaphore_status>&& waiting) {
  start(impl, std::move(command), std::move(waiting), &administrator::inspect);
}

}  // namespace holdfast::rabbitmq::detail

namespace holdfast::rabbitmq {

semaphore_administration::semaphore_administration(const client& broker, administration_options options)
    : impl_(std::make_shared<detail::administrator>(broker, std::move(options))) {}

}  // namespace holdfast::rabbitmq
