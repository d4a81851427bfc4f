// SPDX-FileCopyrightText: The holdfast authors
// SPDX-License-Identifier: BSL-1.0

#include "runtime/observation.hpp"

#include <boost/asio/associated_cancellation_slot.hpp>
#include <boost/asio/error.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/this_coro.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <random>
#include <utility>

#include "runtime/boot_clock.hpp"
#include "runtime/question.hpp"
#include "runtime/setup.hpp"
#include "runtime/spawn.hpp"

namespace holdfast {

namespace detail {

namespace {

using namespace std::chrono_literals;

/// The longest wait time of the locks' own watches (`core_options::watch_wait`), too. An abandoned query occupies a
/// connection of the agent until its wait time is over.
constexpr std::chrono::milliseconds longest_wait = 10s;

asio::awaitable<void> pause(protocol::duration time) {
  asio::steady_timer timer(co_await asio::this_coro::executor, time);
  co_await timer.async_wait(asio::use_awaitable);
}

}  // namespace

observation::observation(const lock_store& where, std::string key, std::chrono::milliseconds timeout)
    : store_(runtime::store_factory::of(where).open({.timeout = timeout})),
      key_(std::move(key)),
      watch_(longest_wait, std::random_device()()) {}

asio::any_io_executor executor_of(const observation& impl) noexcept { return impl.get_executor(); }

void start_next(const std::shared_ptr<observation>& impl, diagnostics* diag, pending<std::optional<leader>>&& waiting) {
  impl->start_next(diag, std::move(waiting));
}

void observation::start_next(diagnostics* diag, pending<std::optional<leader>>&& waiting) {
  const asio::any_io_executor executor = get_executor();
  if (!executor) return;  // the context has been destroyed: no handler can run
  if (busy_.exchange(true)) {
    protocol::failure why{error::too_many_waiters, {"another `next` of this observer is pending", key_, {}, {}}};
    outcome busy = runtime::outcome_of(std::move(why), diag);
    return post_completion(executor, std::move(waiting), std::move(busy), std::optional<leader>());
  }
  const auto self = shared_from_this();
  // The turn ends with `tell`, however the operation ends, even before the coroutine has begun.
  auto tell = [self, mine = turn(this)](const error_code& ec, const std::optional<leader>& seen) {
    if (ec) return;
    std::optional<protocol::leading> told;
    if (seen)
      told = protocol::leading{seen->value, seen->term.session, seen->term.lock_index, seen->index,
                               seen->term.create_index};
    self->watch_.told(std::move(told));
  };
  runtime::spawn_for([self] { return self->store_->executor(); }, store_->strand(), next(self, diag),
                     std::move(waiting), std::move(tell));
}

asio::awaitable<std::tuple<outcome, std::optional<leader>>> observation::next(std::shared_ptr<observation> self,
                                                                              diagnostics* diag) {
  co_await asio::this_coro::reset_cancellation_state(asio::enable_total_cancellation());
  for (;;) {
    const protocol::observer::question asked = self->watch_.ask(runtime::now());
    protocol::observer::conclusion heard;
    if (asked.session.empty()) {
      runtime::key_question question{self->key_, {}, asked.index, asked.wait};
      auto seen = co_await runtime::answer_of<protocol::event::key_watched>(self, std::move(question));
      heard = self->watch_.hear(std::move(seen), runtime::now());
    } else {
      runtime::prefix_question question{self->key_ + '/' + asked.session, {}, asked.index, asked.wait};
      auto seen = co_await runtime::answer_of<protocol::event::prefix_listed>(self, std::move(question));
      heard = self->watch_.hear(std::move(seen), runtime::now());
    }
    if (heard.error.code) {
      outcome failed = runtime::outcome_of(std::move(heard.error), diag);
      co_return std::tuple(std::move(failed), std::optional<leader>());
    }
    if (heard.is_news) co_return std::tuple(outcome(), self->named(std::move(heard.leader)));
    co_await pause(heard.pause);
  }
}

std::optional<leader> observation::named(std::optional<protocol::leading> seen) const {
  if (!seen) return std::nullopt;
  return leader{
      std::move(seen->value), {key_, seen->lock_index, std::move(seen->session), seen->create_index}, seen->index};
}

}  // namespace detail

election_observer::election_observer(const lock_store& where, std::string key)
    : impl_(std::make_shared<detail::observation>(where, runtime::checked_key(std::move(key)),
                                                  std::chrono::milliseconds(0))) {}

}  // namespace holdfast
