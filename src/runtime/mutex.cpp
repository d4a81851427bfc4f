// SPDX-FileCopyrightText: The holdfast authors
// SPDX-License-Identifier: BSL-1.0

#include <boost/asio/associated_cancellation_slot.hpp>
#include <boost/asio/awaitable.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <holdfast/mutex.hpp>
#include <memory>
#include <tuple>
#include <utility>

#include "runtime/driver.hpp"
#include "runtime/make_driver.hpp"
#include "runtime/outcome.hpp"
#include "runtime/question.hpp"
#include "runtime/spawn.hpp"
#include "runtime/store.hpp"

namespace holdfast {

mutex::mutex(const lock_store& where, mutex_options options)
    : slot_source(detail::make_driver(where, runtime::checked(std::move(options)))) {}

const std::string& mutex::key() const noexcept { return detail::name_of(impl_); }

namespace detail {

class verification {
public:
  verification(const lock_store& where, sequencer its)
      : claimed(std::move(its)), store_(runtime::store_factory::of(where).open({})) {}

  const runtime::store& store() const noexcept { return *store_; }
  /// Called by `answer_of`.
  void ask(runtime::store_request question) { store_->make(std::move(question), nullptr); }

  const sequencer claimed;

private:
  const std::unique_ptr<runtime::store> store_;
};

std::shared_ptr<verification> make_verification(const lock_store& where, sequencer claimed) {
  return std::make_shared<verification>(where, std::move(claimed));
}

asio::any_io_executor executor_of(const verification& claim) noexcept { return claim.store().executor(); }

namespace {

asio::awaitable<std::tuple<outcome, bool>> verify(std::shared_ptr<verification> claim) {
  const sequencer& claimed = claim->claimed;
  runtime::key_question question{claimed.key};
  auto seen = co_await runtime::answer_of<protocol::event::key_watched>(claim, std::move(question));
  const bool lasts = !seen.error.code && !claimed.session.empty() && seen.pair &&
                     seen.pair->session == claimed.session && seen.pair->lock_index == claimed.lock_index &&
                     (claimed.create_index == 0 || seen.pair->create_index == claimed.create_index);
  co_return std::tuple(runtime::outcome_of(std::move(seen.error)), lasts);
}

}  // namespace

void start_verify(const std::shared_ptr<verification>& claim, pending<bool>&& waiting) {
  if (!executor_of(*claim)) return;  // the context has been destroyed: no handler can run
  runtime::spawn_for([claim] { return claim->store().executor(); }, claim->store().strand(), verify(claim),
                     std::move(waiting));
}

}  // namespace detail

}  // namespace holdfast
