// SPDX-FileCopyrightText: The holdfast authors
// SPDX-License-Identifier: BSL-1.0

#include <boost/asio/as_tuple.hpp>
#include <boost/asio/awaitable.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <holdfast/election.hpp>
#include <optional>
#include <tuple>
#include <utility>
#include <vector>

#include "protocol/election/election.hpp"
#include "runtime/driver.hpp"
#include "runtime/make_driver.hpp"
#include "runtime/observation.hpp"
#include "runtime/question.hpp"
#include "runtime/slot_impl.hpp"
#include "runtime/spawn.hpp"
#include "runtime/statistics_access.hpp"

namespace holdfast {

namespace detail {

/// The store and the options of each campaign. Each campaign has a pool of its own.
class election_impl {
public:
  election_impl(lock_store in, election_options options)
      : where(std::move(in)), of_each(runtime::checked(std::move(options))) {}

  const lock_store where;
  const runtime::pool_setup of_each;
};

asio::any_io_executor executor_of(const election_impl& impl) noexcept {
  return runtime::store_factory::of(impl.where).executor();
}

namespace {

/// Completes an operation for which no request was sent.
template <class... Results>
void fail(const asio::any_io_executor& executor, error_code ec, std::string text, diagnostics* diag,
          pending<Results...>&& waiting) {
  if (!executor) return;  // the context has been destroyed: no handler can run
  outcome ended = runtime::outcome_of({ec, {std::move(text), {}, {}, {}}}, diag);
  post_completion(executor, std::move(waiting), std::move(ended), Results()...);
}

/// Writes the proclaimed value into the key. The caller keeps the arguments alive until the coroutine has completed.
asio::awaitable<error_code> write_into_key(const slot_impl& held, protocol::proclamation& proclaim,
                                           diagnostics& details) {
  const std::shared_ptr<driver> owner = held.its_driver();
  const auto failed = [&details](protocol::failure why) {
    if (why.code) details = std::move(why.details);
  };
  for (;;) {
    const std::string session = owner->holding_session(held);
    const bool lost = held.state() == slot_state::lost;
    if (session.empty()) co_return proclaim.reported(lost ? error::slot_lost : error::not_held);
    runtime::key_question current;
    current.key = owner->name();
    auto seen = co_await runtime::answer_of<protocol::event::key_watched>(owner, std::move(current));
    if (const error_code unseen = seen.error.code) {
      failed(std::move(seen.error));
      co_return proclaim.reported(unseen);
    }
    auto write = proclaim.write(seen.pair, session);
    if (!write) co_return error_code(write.error());
    if (write->empty()) co_return error_code();
    owner->value_written(held, proclaim.tried());
    runtime::write_question question;
    question.operations = *std::move(write);
    auto done = co_await runtime::answer_of<protocol::event::txn_done>(owner, std::move(question));
    const auto end = proclaim.replied(done);
    failed(std::move(done.error));
    if (end) co_return *end;
  }
}

asio::awaitable<std::tuple<outcome>> proclaim(std::shared_ptr<slot_impl> held, std::string value, diagnostics* diag) {
  protocol::proclamation proclaim(held->its_driver()->next_proclaim(), std::move(value));
  diagnostics details;
  const error_code result = co_await write_into_key(*held, proclaim, details);
  held->its_driver()->value_written(*held, proclaim.ended());
  protocol::failure why{result, std::move(details)};
  co_return std::tuple<outcome>(runtime::outcome_of(std::move(why), diag));
}

}  // namespace

std::shared_ptr<runtime::lock_account> statistics_access::account(const election& candidates) {
  return candidates.impl_ ? candidates.impl_->of_each.driver.shell.account : nullptr;
}

void start_campaign(const election_impl& impl, std::string value, const operation_options& options,
                    pending<hold>&& won) {
  if (!executor_of(impl)) return;  // the context has been destroyed: no handler can run
  runtime::pool_setup its = impl.of_each;
  try {
    its.core.description = runtime::checked_value(std::move(value));
  } catch (const system_error& wrong) {
    return fail(executor_of(impl), wrong.code(), runtime::reason_of(wrong), options.diag, std::move(won));
  }
  its.core.before = its.driver.shell.account->trust();
  make_driver(impl.where, std::move(its))->acquire(options, std::move(won));
}

void start_proclaim(const std::shared_ptr<slot_impl>& impl, std::string value, diagnostics* diag, pending<>&& waiting) {
  if (impl->process.is_foreign()) return;
  const asio::any_io_executor& executor = executor_of(*impl);
  const slot_state state = impl->state();
  if (state != slot_state::held && state != slot_state::suspect)
    return fail(executor, state == slot_state::lost ? error::slot_lost : error::not_held, {}, diag, std::move(waiting));
  try {
    value = runtime::checked_value(std::move(value));
  } catch (const system_error& wrong) {
    return fail(executor, wrong.code(), runtime::reason_of(wrong), diag, std::move(waiting));
  }
  const std::shared_ptr<driver> owner = impl->its_driver();
  runtime::spawn_for<runtime::cancels::nothing>([owner] { return owner->store().executor(); }, owner->store().strand(),
                                                proclaim(impl, std::move(value), diag), std::move(waiting));
}

}  // namespace detail

election::election(const lock_store& where, election_options options)
    : impl_(std::make_shared<detail::election_impl>(where, std::move(options))) {}

const std::string& election::key() const noexcept {
  return impl_ ? impl_->of_each.driver.shell.name : detail::name_of(nullptr);
}

lock_statistics election::statistics() const {
  return impl_ ? impl_->of_each.driver.shell.account->read() : lock_statistics();
}

election_observer election::observe() const {
  if (!impl_) return {};
  const runtime::pool_setup& of_each = impl_->of_each;
  return election_observer(
      std::make_shared<detail::observation>(impl_->where, of_each.driver.shell.name, of_each.store.timeout));
}

}  // namespace holdfast
