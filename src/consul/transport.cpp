#include "transport.hpp"

#include <algorithm>
#include <cstdint>

#include "resolve.hpp"

namespace holdfast::consul::detail {
namespace {

using std::chrono::milliseconds;

// How long a renewal waits before it has another connection opened for it: long enough for most networks' answers, and
// short beside any session's TTL.
constexpr milliseconds renewal_moment{100};

exchange failure(error e, error_code cause = {}) {
  exchange result;
  result.error = e;
  result.cause = cause;
  return result;
}

}  // namespace

// A request, from the first that is asked of the transport to the last.
class transport::activity {
public:
  explicit activity(transport& owner) : owner_(owner) { ++owner_.active_; }
  ~activity() {
    if (--owner_.active_ == 0) owner_.rest();
  }
  activity(const activity&) = delete;
  activity& operator=(const activity&) = delete;

private:
  transport& owner_;
};

transport::transport(const strand_type& strand, const config& settings, const agent_address& address,
                     std::shared_ptr<counters> statistics, clock::duration idle_max)
    : strand_(strand),
      settings_(settings),
      address_(address),
      statistics_(std::move(statistics)),
      gates_{gate(strand, settings.connections_max),
             gate(strand, settings.renewals_max, renewal_moment, gate::order::deadline),
             gate(strand, settings.blocking_max)},
      idle_max_(idle_max),
      idle_timer_(strand) {}

awaitable<exchange> transport::send(const http_request& request, lane which, time_point deadline) {
  const activity counted(*this);
  close_idle_in_time();
  gate& entrance = gate_of(which);
  // Renewals are few, one for each session, and a lost one costs somebody a slot: they may always queue.
  const bool full = which != lane::renewal && entrance.waiting() >= settings_.queue_max;
  // Most requests are answered sooner than another connection is made, and an agent has only so many.
  const std::size_t spare = which != lane::blocking && !full ? idle_of(which).size() : SIZE_MAX;
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
  idle_of(which).push_back({std::move(link), clock::now()});
  close_idle_in_time();
}

// Closes what has been idle for long enough, and comes back when that is so of the next.
void transport::close_idle_in_time() {
  if (timer_runs_ || !idle_timer_) return;
  const time_point now = clock::now();
  time_point next = time_point::max();
  for (idle_list* const idle : {&idle_, &idle_renewal_}) {
    const auto first_wanted = std::find_if(idle->begin(), idle->end(),
                                           [&](const idle_connection& entry) { return now - entry.since < idle_max_; });
    idle->erase(idle->begin(), first_wanted);
    if (!idle->empty()) next = std::min(next, idle->front().since + idle_max_);
  }
  if (next == time_point::max()) return;
  timer_runs_ = true;
  idle_timer_->expires_at(next);
  idle_timer_->async_wait([this, alive = std::weak_ptr<void>(alive_)](const error_code& ec) {
    if (ec || alive.expired() || !timer_runs_) return;
    timer_runs_ = false;
    close_idle_in_time();
  });
}

// Nobody is there to wait for the timer. What a burst of blocking queries has left is closed now; what ordinary
// requests may need is kept.
void transport::rest() {
  if (!idle_timer_) return;
  idle_timer_->cancel();
  timer_runs_ = false;
  if (idle_.size() > settings_.connections_max) {
    idle_.erase(idle_.begin(), idle_.end() - static_cast<std::ptrdiff_t>(settings_.connections_max));
  }
  if (idle_renewal_.size() > 1) idle_renewal_.erase(idle_renewal_.begin(), idle_renewal_.end() - 1);
}

void transport::close() noexcept {
  closed_ = true;
  idle_timer_.reset();
  idle_.clear();
  idle_renewal_.clear();
}

}  // namespace holdfast::consul::detail
