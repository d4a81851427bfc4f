#include "transport.hpp"

#include <algorithm>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/detached.hpp>
#include <cstdint>

#include "backoff.hpp"
#include "resolve.hpp"

namespace holdfast::consul::detail {
namespace {

using std::chrono::milliseconds;

// How long a renewal waits before it has another connection opened for it: long enough for most networks' answers, and
// short beside any session's TTL.
constexpr milliseconds renewal_moment{100};

// While the agent refuses connections blocking queries wait no longer than this: only when one ends can its connection
// go to somebody else. To close it before does not free it on the agent.
constexpr milliseconds pressed_wait_max{1'000};

// The first and the longest pause before a request that was turned away is tried again.
constexpr milliseconds turned_away_pause_min{25};
constexpr milliseconds turned_away_pause_max{250};

// So many refusals in a row are no accident, even of a client that has no connection that works.
constexpr unsigned refusals_believed = 3;

// A client that has few connections keeps those. Of more, each is let go after about this time.
constexpr std::size_t kept_for_good = 4;
constexpr std::chrono::seconds ceded_after{4};

// An agent that has too many connections closes a new one as soon as it has accepted it.
constexpr std::chrono::seconds refused_within{1};

// Whether a new connection was closed before it was used: not by us, nor by a network that has lost it.
bool is_refusal(const exchange& result, const connection& link) {
  if (result.reply.status == 429) return !link.reusable();
  const bool is_cut = result.error == error::connection_lost || result.error == error::unreachable;
  const bool by_agent = result.cause != asio::error::timed_out && result.cause != asio::error::operation_aborted;
  return is_cut && by_agent && !link.has_answered() && clock::now() - link.opened_at() < refused_within;
}

bool is_secure(const agent_address& address) { return address.scheme == scheme::https; }

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

transport::journey::journey(transport& owner, std::size_t agent, bool is_quick)
    : owner(owner), agent(agent), is_quick(is_quick) {
  owner.under_way_.push_back(*this);
}

transport::journey::~journey() { owner.under_way_.erase(owner.under_way_.iterator_to(*this)); }

transport::transport(const strand_type& strand, const config& settings, const std::vector<agent_address>& addresses,
                     std::shared_ptr<counters> statistics, clock::duration idle_max)
    : strand_(strand),
      settings_(settings),
      addresses_(addresses),
      tls_(std::any_of(addresses.begin(), addresses.end(), is_secure) ? make_tls_client(settings) : nullptr),
      statistics_(std::move(statistics)),
      gates_{gate(strand, settings.connections_max),
             gate(strand, settings.renewals_max, renewal_moment, gate::order::deadline),
             gate(strand, settings.blocking_max)},
      choice_(addresses.size()),
      choice_reminder_(strand),
      share_(settings.blocking_max),
      random_(std::random_device{}()),
      idle_max_(idle_max),
      idle_reminder_(strand),
      place_reminder_(strand) {}

awaitable<exchange> transport::send(const http_request& request, lane which, time_point deadline) {
  const activity counted(*this);
  close_idle_in_time();
  std::size_t moves = 0;
  error_code first;
  for (unsigned refusals = 0;; ++refusals) {
    exchange result = co_await attempt(request, which, deadline);
    if (result.goes_on && ++moves < addresses_.size()) {
      if (!first) first = result.error;
      continue;
    }
    // One agent's certificate is no reason to give up where another one may be back soon.
    if (result.error == error::certificate_refused && first == error::unreachable) result.error = first;
    const clock::duration pause = pause_after(refusals, turned_away_pause_min, turned_away_pause_max, random_);
    if (!result.turned_away || clock::now() + pause >= deadline + request.wait) co_return result;
    timer_type timer(strand_, pause);
    co_await timer.async_wait(as_result);
  }
}

awaitable<exchange> transport::attempt(const http_request& request, lane which, time_point deadline) {
  gate& entrance = gate_of(which);
  admit_in_time();
  // Renewals are few, one for each session, and a lost one costs somebody a slot: they may always queue.
  const bool full = which != lane::renewal && entrance.waiting() >= settings_.queue_max;
  // Most requests are answered sooner than another connection is made, and an agent has only so many.
  const std::size_t spare = which != lane::blocking && !full ? idle_of(which).size() : SIZE_MAX;
  gate::pass pass = entrance.try_enter(spare);
  if (!pass) {
    if (!entrance.is_open() && full) co_return failure(error::too_busy);
    if (which == lane::blocking) admit_in_time(true);
    pass = co_await entrance.enter(deadline + request.wait, spare);
    if (!pass) co_return failure(refusals_ == 0 ? error::too_busy : error::too_many_requests);
  }

  journey way(*this, choice_.current(), which != lane::blocking);
  choose_agent();
  exchange result = co_await travel(way, request, which, deadline);
  note(way, request, result);
  co_return result;
}

awaitable<exchange> transport::travel(journey& way, const http_request& request, lane which, time_point deadline) {
  http_request shorter;
  const http_request* sent = &request;
  if (request.wait.count() != 0) {
    // At least 1 ms, because 0 means 5 minutes to Consul.
    const time_point now = clock::now();
    deadline = std::max(deadline, now + milliseconds(1) + request.slack);
    auto left = std::chrono::ceil<milliseconds>(deadline - request.slack - now);
    if (share_.is_pressed(now)) left = std::min(left, pressed_wait_max);
    if (left < request.wait) {
      shorter = with_wait(request, left);
      sent = &shorter;
    }
  }

  if (const agent_address& to = addresses_[way.agent]; to.authority() != addresses_.front().authority()) {
    shorter = with_host(*sent, to.authority());
    sent = &shorter;
  }

  std::shared_ptr<connection>& link = way.link;
  link = take_idle(way.agent, which);
  const bool is_new = !link;
  if (is_new) {
    const bool shows_itself = request.repeatable || !share_.is_pressed(clock::now());
    exchange opened;
    if (shows_itself) {
      opened = co_await open(way.agent, link, deadline);
    } else {
      opened = co_await open_accepted(way.agent, link, deadline);
    }
    if (opened.error) {
      const bool in_handshake = opened.cause == asio::error::eof || opened.cause == asio::error::connection_reset;
      if (link && in_handshake && is_refusal(opened, *link)) {
        opened.turned_away = note_refusal(opened, std::move(link));
        if (opened.turned_away) opened.error = error::too_many_requests;
      }
      co_return opened;
    }
  }
  exchange result = co_await link->converse(*sent, deadline);
  if (is_new && is_refusal(result, *link)) {
    const bool not_applied = result.reply.status == 429 || result.error == error::unreachable;
    const bool believed = note_refusal(result, std::move(link));
    result.turned_away = believed && (request.repeatable || not_applied);
    if (result.turned_away) result.error = error::too_many_requests;
    co_return result;
  }
  if (!result.error) refusals_ = 0;
  if (link->reusable() && !closed_) {
    const time_point now = clock::now();
    if (which == lane::blocking && is_to_cede(*link, now)) {
      share_.ceded(now);
    } else {
      keep(std::move(link), way.agent, which);
    }
  }
  admit_in_time();
  co_return result;
}

// What came of a request is what is known of its agent.
void transport::note(const journey& way, const http_request& request, exchange& result) {
  result.agent = way.agent;
  const time_point now = clock::now();
  const bool is_unreached = result.error == error::unreachable || result.error == error::certificate_refused;
  if (way.link && way.link->is_given_up()) {
    result.goes_on = request.repeatable || is_unreached;
    return;
  }
  if (is_unreached || result.error == error::client_certificate_refused) {
    choice_.not_reached(way.agent, now);
    result.goes_on = choice_.current() != way.agent;
    return;
  }
  if (result.reply.status >= 500) {
    choice_.erred(way.agent, now);
  } else if (result.reply.status != 0) {
    choice_.answered(way.agent, now);
  }
  choose_agent();
}

// Has those tried who are to be, leaves the current agent for a better one, and comes back when that is due.
void transport::choose_agent() {
  if (addresses_.size() == 1 || closed_) return;
  std::optional<time_point> waits_since;
  for (const journey& each : under_way_) {
    if (!each.is_quick || each.agent != choice_.current()) continue;
    waits_since = waits_since ? std::min(*waits_since, each.since) : each.since;
  }
  const agent_choice::advice advice = choice_.look(clock::now(), waits_since);
  if (advice.has_left) leave_others();
  const std::shared_ptr<void> owner = owner_.lock();
  for (const std::size_t each : advice.to_try) asio::co_spawn(strand_, try_out(owner, *this, each), asio::detached);
  if (advice.look_again != time_point::max()) {
    choice_reminder_.set_by(advice.look_again, owner_, [this] { choose_agent(); });
  }
}

// The connections are closed; whoever uses one goes to the current agent.
void transport::leave_others() {
  share_ = share(settings_.blocking_max);
  refusals_ = 0;
  for (journey& each : under_way_)
    if (each.agent != choice_.current() && each.link) each.link->give_up();
}

// Any agent answers this by itself.
awaitable<void> transport::try_out([[maybe_unused]] std::shared_ptr<void> owner, transport& self, std::size_t agent) {
  const activity counted(self);
  const time_point deadline = clock::now() + agent_choice::doubted_after;
  std::shared_ptr<connection> link;
  exchange result = co_await self.open(agent, link, deadline);
  if (!result.error) {
    http_request question;
    question.bytes =
        format_request("GET", "/v1/status/leader", "Host: " + self.addresses_[agent].authority() + "\r\n", {});
    result = co_await link->converse(question, deadline);
  }
  const bool is_answer = !result.error && result.reply.status == 200;
  const bool knows_leader = is_answer && result.reply.body.size() > std::string_view("\"\"\n").size();
  self.choice_.tried(agent, knows_leader ? agent_choice::trial::knows_leader
                            : is_answer  ? agent_choice::trial::knows_none
                                         : agent_choice::trial::failed);
  self.choose_agent();
}

awaitable<exchange> transport::open(std::size_t agent, std::shared_ptr<connection>& link, time_point deadline) {
  const agent_address& address = addresses_[agent];
  link = std::make_shared<connection>(strand_, statistics_, settings_.reply_bytes_max,
                                      is_secure(address) ? tls_.get() : nullptr);
  deadline = std::min(deadline, clock::now() + settings_.connect_timeout);
  resolution found = co_await resolve(strand_, address, deadline);
  if (found.error) co_return failure(error::unreachable, found.error);
  exchange connected = co_await link->connect(std::move(found.endpoints), deadline, address);
  if (agent == choice_.current() &&
      connected.cause == asio::error::connection_refused) {  // the agent is gone, and with it what it had too many of
    share_ = share(settings_.blocking_max);
    refusals_ = 0;
  }
  co_return connected;
}

// A write that an agent has closed the connection on may have been applied, for all that anybody can tell. So it goes
// to a connection on which the agent has answered what does nothing.
awaitable<exchange> transport::open_accepted(std::size_t agent, std::shared_ptr<connection>& link,
                                             time_point deadline) {
  exchange opened = co_await open(agent, link, deadline);
  if (opened.error) co_return opened;
  http_request harmless;
  harmless.bytes = format_request("GET", "/v1/status/leader", "Host: " + addresses_[agent].authority() + "\r\n", {});
  exchange asked = co_await link->converse(harmless, deadline);
  if (link->reusable()) co_return exchange();
  if (is_refusal(asked, *link)) {
    note_refusal(asked, std::move(link));
    exchange refused = failure(error::too_many_requests);
    refused.turned_away = true;
    co_return refused;
  }
  if (asked.error) co_return failure(error::unreachable, asked.cause);
  opened = co_await open(agent, link, deadline);  // it answers, and closes: then each has another
  co_return opened;
}

// A new connection was closed unused. Whether that is for want of connections: an agent that goes down, or is not there
// behind a proxy, does the same.
bool transport::note_refusal(const exchange& result, std::shared_ptr<connection> link) {
  link.reset();
  ++refusals_;
  const bool others_work = statistics_->connections_open > 0;
  if (result.reply.status != 429 && !others_work && refusals_ < refusals_believed) return false;
  counters::add(statistics_->connections_refused);
  const time_point now = clock::now();
  gate& blocking = gate_of(lane::blocking);
  const bool is_news = !share_.is_pressed(now);
  // One fewer than now: either this was one of them, or what was refused goes first and needs the place of one.
  share_.refused(blocking.inside() - std::min<std::size_t>(blocking.inside(), 1), now);
  const std::size_t allowed = share_.allowed(now);
  blocking.set_limit(allowed);
  if (is_news) tell(allowed);
  return true;
}

void transport::tell(std::size_t allowed) const {
  if (!settings_.log) return;
  std::string line = addresses_[choice_.current()].to_string() +
                     " refuses connections: this host has as many as it allows from one address. " +
                     std::to_string(allowed) + " of " + std::to_string(settings_.blocking_max) +
                     " blocking queries run at once now; raise limits.http_max_conns_per_client (200 by default) there";
  // Whatever it throws is no request's failure.
  asio::post(strand_, [log = settings_.log, line = std::move(line)] { log(line); });
}

bool transport::is_to_cede(const connection& link, time_point now) {
  if (gate_of(lane::blocking).inside() <= kept_for_good) return false;
  // Spread out, so that those that were opened together are not let go together.
  const milliseconds age(std::uniform_int_distribution<milliseconds::rep>(
      milliseconds(ceded_after).count() * 3 / 4, milliseconds(ceded_after).count() * 5 / 4)(random_));
  return now - link.opened_at() >= age;
}

std::shared_ptr<connection> transport::take_idle(std::size_t agent, lane which) {
  for (idle_list* const idle : {&idle_of(which), &idle_}) {
    while (!idle->empty()) {
      const idle_connection found = std::move(idle->back());
      idle->pop_back();
      if (found.agent == agent && found.link->is_alive()) return found.link;
    }
    // Renewals have theirs, and take what others have left only if they may not get another.
    if (!share_.is_pressed(clock::now())) break;
  }
  return nullptr;
}

void transport::keep(std::shared_ptr<connection> link, std::size_t agent, lane which) {
  if (agent == choice_.current()) idle_of(which).push_back({std::move(link), agent, clock::now()});
  close_idle_in_time();
}

// Closes what has been idle for long enough, and comes back when that is so of the next.
void transport::close_idle_in_time() {
  if (!idle_reminder_.may_be_set()) return;
  const time_point now = clock::now();
  time_point next = time_point::max();
  for (idle_list* const idle : {&idle_, &idle_renewal_}) {
    const auto first_wanted = std::find_if(idle->begin(), idle->end(),
                                           [&](const idle_connection& entry) { return now - entry.since < idle_max_; });
    idle->erase(idle->begin(), first_wanted);
    if (!idle->empty()) next = std::min(next, idle->front().since + idle_max_);
  }
  if (next != time_point::max()) idle_reminder_.set(next, owner_, [this] { close_idle_in_time(); });
}

// A place becomes free with time, too, and for minutes nothing else may happen here.
void transport::admit_in_time(bool one_waits) {
  gate& blocking = gate_of(lane::blocking);
  blocking.set_limit(share_.allowed(clock::now()));
  const time_point next = share_.changes_at();
  if (next == time_point::max() || (blocking.waiting() == 0 && !one_waits)) return;
  if (place_reminder_.may_be_set()) place_reminder_.set(next, owner_, [this] { admit_in_time(); });
}

// Nobody is there whom a reminder could serve. What a burst of blocking queries has left is closed now; what ordinary
// requests may need is kept.
void transport::rest() {
  idle_reminder_.cancel();
  place_reminder_.cancel();
  choice_reminder_.cancel();
  if (idle_.size() > settings_.connections_max) {
    idle_.erase(idle_.begin(), idle_.end() - static_cast<std::ptrdiff_t>(settings_.connections_max));
  }
  if (idle_renewal_.size() > 1) idle_renewal_.erase(idle_renewal_.begin(), idle_renewal_.end() - 1);
}

void transport::close() noexcept {
  closed_ = true;
  idle_reminder_.close();
  place_reminder_.close();
  choice_reminder_.close();
  idle_.clear();
  idle_renewal_.clear();
}

}  // namespace holdfast::consul::detail
