#include "transport.hpp"

#include <algorithm>
#include <cstdint>

#include "resolve.hpp"

namespace holdfast::consul::detail {
namespace {

using std::chrono::milliseconds;

// A connection that was not needed for this long goes when the next request ends, and frees one of the 200 that an
// agent has for each client address. A burst of blocking queries that ends and starts again is not in that case.
constexpr std::chrono::seconds idle_max{60};

exchange failure(error e, error_code cause = {}) {
  exchange result;
  result.error = e;
  result.cause = cause;
  return result;
}

}  // namespace

transport::transport(const strand_type& strand, const config& settings, const agent_address& address,
                     std::shared_ptr<counters> statistics)
    : strand_(strand),
      settings_(settings),
      address_(address),
      statistics_(std::move(statistics)),
      gates_{gate(strand, settings.connections_max), gate(strand, 1), gate(strand, settings.blocking_max)} {}

awaitable<exchange> transport::send(const http_request& request, lane which, time_point deadline) {
  gate& entrance = gate_of(which);
  // Renewals are few, one for each session, and a lost one costs somebody a slot: they may always queue.
  const bool full = which != lane::renewal && entrance.waiting() >= settings_.queue_max;
  // Most requests are answered sooner than another connection is made, and an agent has only so many.
  const std::size_t spare = which == lane::ordinary && !full ? idle_.size() : SIZE_MAX;
  gate::pass pass = entrance.try_enter(spare);
  if (!pass) {
    if (!entrance.is_open() && full) co_return failure(error::too_busy);
    pass = co_await entrance.enter(deadline + request.wait, spare);
    if (!pass) co_return failure(error::too_busy);
  }

  http_request shorter;
  const http_request* sent = &request;
  if (request.wait.count() != 0) {
    // At least 1 ms, because 0 means 5 minutes to Consul.
    const time_point now = clock::now();
    deadline = std::max(deadline, now + milliseconds(1) + request.slack);
    const auto left = std::chrono::ceil<milliseconds>(deadline - request.slack - now);
    if (left < request.wait) {
      shorter = with_wait(request, left);
      sent = &shorter;
    }
  }

  std::shared_ptr<connection> link = take_idle(which);
  if (!link) {
    link = std::make_shared<connection>(strand_, statistics_, settings_.reply_bytes_max);
    exchange opened = co_await open(*link, deadline);
    if (opened.error) co_return opened;
  }
  exchange result = co_await link->converse(*sent, deadline);
  if (link->reusable() && !closed_) keep(std::move(link), which);
  co_return result;
}

awaitable<exchange> transport::open(connection& link, time_point deadline) {
  deadline = std::min(deadline, clock::now() + settings_.connect_timeout);
  resolution found = co_await resolve(strand_, address_, deadline);
  if (found.error) co_return failure(error::unreachable, found.error);
  const error_code ec = co_await link.connect(std::move(found.endpoints), deadline);
  if (ec) co_return failure(error::unreachable, ec);
  co_return exchange();
}

std::shared_ptr<connection> transport::take_idle(lane which) {
  idle_list& idle = idle_of(which);
  while (!idle.empty()) {
    std::shared_ptr<connection> link = std::move(idle.back().link);
    idle.pop_back();
    if (link->is_alive()) return link;
  }
  return nullptr;
}

void transport::keep(std::shared_ptr<connection> link, lane which) {
  idle_list& idle = idle_of(which);
  const time_point now = clock::now();
  const auto first_wanted = std::find_if(idle.begin(), idle.end(),
                                         [now](const idle_connection& entry) { return now - entry.since < idle_max; });
  idle.erase(idle.begin(), first_wanted);
  idle.push_back({std::move(link), now});
}

void transport::close() noexcept {
  closed_ = true;
  idle_.clear();
  idle_renewal_.clear();
}

}  // namespace holdfast::consul::detail
