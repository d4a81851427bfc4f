// SPDX-FileCopyrightText: The holdfast authors
// SPDX-License-Identifier: BSL-1.0

#include <boost/asio/as_tuple.hpp>
#include <boost/asio/associated_cancellation_slot.hpp>
#include <boost/asio/awaitable.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <holdfast/mutex.hpp>
#include <tuple>
#include <utility>

#include "runtime/driver.hpp"
#include "runtime/make_driver.hpp"
#include "runtime/spawn.hpp"

namespace holdfast {

mutex::mutex(const lock_store& where, mutex_options options)
    : slot_source(detail::make_driver(where, runtime::checked(std::move(options)))) {}

const std::string& mutex::key() const noexcept { return impl_->name(); }

namespace detail {

asio::any_io_executor executor_of(const verification& claim) noexcept { return claim.client.get_executor(); }

namespace {

asio::awaitable<std::tuple<outcome, bool>> verify(std::shared_ptr<verification> claim) {
  consul::read_options read;
  diagnostics details;
  read.mode = consul::consistency::consistent;
  read.request.diag = &details;
  const sequencer& claimed = claim->claimed;
  auto [ec, seen] = co_await claim->client.get(claimed.key, read, asio::as_tuple(asio::use_awaitable));
  const bool lasts = !claimed.session.empty() && seen.value && seen.value->session == claimed.session &&
                     seen.value->lock_index == claimed.lock_index &&
                     (claimed.create_index == 0 || seen.value->create_index == claimed.create_index);
  co_return std::tuple(outcome(ec, std::move(details)), !ec && lasts);
}

}  // namespace

void start_verify(const std::shared_ptr<verification>& claim, pending<bool>&& waiting) {
  if (!executor_of(*claim)) return;  // the context has been destroyed: no handler can run
  const asio::cancellation_slot stop = asio::get_associated_cancellation_slot(waiting.handler);
  runtime::spawn_for(claim->client.get_executor(), claim->client.strand(), stop, verify(claim), std::move(waiting),
                     [](const error_code&, bool) {});
}

}  // namespace detail

}  // namespace holdfast
