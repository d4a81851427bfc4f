// SPDX-FileCopyrightText: The holdfast authors
// SPDX-License-Identifier: BSL-1.0

#include "report_service.hpp"

#include <boost/asio/as_tuple.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <utility>

namespace asio = boost::asio;

// The semaphore's constructor sends no request, so that the service can start while Consul is down.
report_service::report_service(holdfast::consul::client consul, report_store& store)
    : semaphore_(std::move(consul), {.prefix = "reports/monthly", .limit = 1}), store_(store) {}

asio::awaitable<report_service::outcome> report_service::make_report(std::chrono::milliseconds patience) {
  auto [failed, slot] = co_await semaphore_.try_acquire_for(patience, asio::as_tuple(asio::use_awaitable));
  if (failed == holdfast::condition::unavailable) co_return outcome::busy;
  if (failed) throw holdfast::system_error(failed);  // e.g. no permission: waiting would not help
  if (!slot) co_return outcome::busy;

  // The lambda has a name and captures by reference: g++ 12 destroys the value captures of a temporary lambda twice.
  bool published = false;
  auto work = [this, &published](holdfast::slot& held) -> asio::awaitable<void> {
    std::string report;
    for (int i = 1; i <= chapters; ++i) {
      const std::string chapter = co_await store_.chapter(i);
      report += chapter;
    }
    // Take a step that cannot be undone only while the slot is certainly held. The token protects against a pause of
    // this process between the question and the step.
    if (held.held()) published = store_.publish(std::move(report), held.fencing_token());
  };
  try {
    co_await holdfast::with_slot(std::move(slot), work);  // cancels the work if the slot is lost
  } catch (const holdfast::system_error& e) {
    if (e.code() != holdfast::error::slot_lost) throw;
  }
  // If the slot is lost after the publication, the report stays published.
  co_return published ? outcome::published : outcome::interrupted;
}

asio::awaitable<void> report_service::close() { co_await semaphore_.close(asio::use_awaitable); }
