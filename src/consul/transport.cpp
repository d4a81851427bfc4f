// SPDX-FileCopyrightText: The holdfast authors
// SPDX-License-Identifier: BSL-1.0

#include "consul/transport.hpp"

#include <algorithm>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/detached.hpp>
#include <boost/asio/ip/address.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/this_coro.hpp>
#include <cstdint>
#include <cstring>
#include <holdfast/version.hpp>
#include <utility>

#include "consul/encoding/classify.hpp"
#include "consul/encoding/reply.hpp"
#include "net/backoff.hpp"

namespace holdfast::consul::detail {
namespace {

using std::chrono::milliseconds;

// How long a renewal waits for a connection before another one is opened for it. This is longer than a round trip in
// most networks, and short compared with the TTL of any session.
constexpr milliseconds renewal_moment{100};

// While the agent refuses connections, a blocking query asks for no longer wait than this. A connection can pass to
// another client only when the query on it is answered: closing it earlier does not free it at the agent.
constexpr milliseconds pressed_wait_max{1'000};

// The bounds of the first and of the longest pause before a refused request is tried again.
constexpr milliseconds turned_away_pause_min{25};
constexpr milliseconds turned_away_pause_max{250};

// An agent that has too many connections closes a new one as soon as it has accepted it. So a connection that is closed
// later than this is not counted as refused.
constexpr std::chrono::seconds refused_within{1};

// Returns true if the connection has failed, and neither this client nor a timeout of the network has ended it.
bool is_ended_by_agent(const attempt_result& result) {
  const bool is_cut = result.error == error::connection_lost || result.error == error::unreachable;
  return is_cut && result.cause != asio::error::timed_out && result.cause != asio::error::operation_aborted;
}

// Returns true if the agent has closed a connection soon after it was opened and without serving it, or after a 429.
bool is_refusal(const attempt_result& result, const connection& link) {
  if (result.reply.status == 429) return !link.reusable();
  return is_ended_by_agent(result) && !link.has_answered() && clock::now() - link.opened_at() < refused_within;
}

bool is_secure(const agent_address& address) { return address.scheme == scheme::https; }

std::optional<proxy_address> proxy_of(const config& settings) {
  std::optional<proxy_address> proxy;
  if (!settings.proxy.empty() && parse_proxy(settings.proxy, proxy.emplace())) proxy.reset();
  return proxy;
}

std::string authorization_line(std::string_view header, const std::string& credentials) {
  return credentials.empty() ? std::string() : std::string(header) + ": " + credentials + "\r\n";
}

agent_lines lines_for(const agent_address& to, const config& settings, const std::optional<proxy_address>& proxy) {
  agent_lines lines;
  lines.headers = "Host: " + to.authority_without_zone() + "\r\nUser-Agent: holdfast/" HOLDFAST_VERSION_STRING "\r\n";
  if (!settings.http_auth.empty()) {
    lines.headers += authorization_line("Authorization", basic_credentials(settings.http_auth));
  }
  if (proxy && to.scheme == scheme::http) {
    lines.before_target = "http://" + to.authority_without_zone();
    lines.headers += authorization_line("Proxy-Authorization", proxy->credentials);
  }
  lines.before_target += to.path;
  return lines;
}

// The request that asks a proxy for a tunnel to the agent.
std::string tunnel_request(const agent_address& to, const proxy_address& proxy) {
  return format_request("CONNECT", to.authority_without_zone(),
                        "Host: " + to.authority_without_zone() +
                            "\r\nUser-Agent: holdfast/" HOLDFAST_VERSION_STRING "\r\n" +
                            authorization_line("Proxy-Authorization", proxy.credentials),
                        {});
}

// A request that an agent answers quickly, even if there is no leader. It needs no ACL permission and changes nothing.
http_request harmless_request() {
  http_request request;
  request.target = "/v1/status/leader";
  request.repeatable = true;
  return request;
}

attempt_result failure(error e, error_code cause = {}) {
  attempt_result result;
  result.error = e;
  result.cause = cause;
  return result;
}

}  // namespace

// Counts a request or a trial for as long as the transport works on it. The last one to leave puts the transport to
// rest.
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

transport::pending_request::pending_request(transport& owner, std::size_t agent, bool is_quick)
    : owner(owner), agent(agent), is_quick(is_quick) {
  owner.under_way_.push_back(*this);
}

transport::pending_request::~pending_request() {
  owner.under_way_.erase(owner.under_way_.iterator_to(*this));
  if (is_quick && !is_noted) owner.choice_.cancelled(agent, since);
}

std::vector<transport::agent> transport::make_agents(const std::vector<agent_address>& addresses) const {
  std::vector<agent> all;
  for (const agent_address& each : addresses) {
    all.push_back({each, lines_for(each, settings_, proxy_)});
    if (has_a_name(each) && !proxy_) {
      all.push_back(all.back());
      all.back().is_second = true;
    }
  }
  return all;
}

transport::transport(const strand_type& strand, const config& settings, const std::vector<agent_address>& addresses,
                     std::shared_ptr<counters> statistics, health_record& health,
                     std::shared_ptr<lifetime::event_log> log, clock::duration idle_max, name_lookup::resolver look_up)
    : strand_(strand),
      settings_(settings),
      proxy_(proxy_of(settings)),
      agents_(make_agents(addresses)),
      tokens_(settings),
      log_(std::move(log)),
      tls_(make_tls_client(
          settings.tls, [this](log_event&& event) { tell(std::move(event)); },
          std::any_of(addresses.begin(), addresses.end(), is_secure))),
      statistics_(std::move(statistics)),
      health_(health),
      limiters_{limiter(strand, settings.connections_max),
                limiter(strand, settings.renewals_max, renewal_moment, limiter::order::deadline),
                limiter(strand, settings.blocking_max)},
      choice_(agents_.size()),
      choice_timer_(strand),
      random_(std::random_device{}()),
      outage_(strand, owner_, settings.backoff_min, settings.backoff_max, random_),
      refusals_(settings.blocking_max),
      names_(strand, owner_, std::move(look_up)),
      idle_(strand, owner_, idle_max),
      place_timer_(strand) {
  secrets_.add_login(settings.http_auth);
  if (proxy_) secrets_.add_login(proxy_->login);
}

awaitable<attempt_result> transport::send(const http_request& request, connection_class which, time_point deadline) {
  const activity counted(*this);
  outage::scout self(outage_);
  idle_.close_in_time();
  std::size_t moves = 0;
  attempt_result first;
  bool is_in_doubt = false;  // an attempt before the last one may have been applied
  const auto ended = [&](attempt_result result) {
    result.is_in_doubt = is_in_doubt;
    return result;
  };
  for (unsigned refusals = 0;; ++refusals) {
    if (is_held_up(which) && !self.tries()) {
      const bool may_go_on = co_await wait_for_an_agent(request, which, deadline);
      if (!may_go_on) co_return ended(outage_ ? outage_.last() : failure(error::unreachable));
    }
    attempt_result result = co_await try_once(self, request, which, deadline);
    if (result.is_cancelled) co_return result;
    if (result.is_held_up) continue;
    if (result.goes_on && ++moves < agents_.size()) {
      is_in_doubt = is_in_doubt || result.error == condition::outcome_unknown;
      if (first.error != error::unreachable && !result.has_no_address) first = std::move(result);
      continue;
    }
    // If one agent's certificate is refused and another agent is unreachable, the latter error is reported, because
    // that agent may soon be back. An agent that has no IP address of its own does not count.
    if ((result.has_no_address && first.error) ||
        (result.error == error::certificate_refused && first.error == error::unreachable)) {
      result = std::exchange(first, {});
    }
    if (result.shows_no_agent && (!outage_ || self.tries())) outage_.begin_or_prolong(result);
    const clock::duration pause = pause_after(refusals, turned_away_pause_min, turned_away_pause_max, random_);
    is_in_doubt = is_in_doubt || (result.is_in_doubt && result.turned_away);
    if (!result.turned_away || clock::now() + pause >= deadline + request.wait) co_return ended(std::move(result));
    timer_type timer(strand_, pause);
    co_await timer.async_wait(as_result);
  }
}

bool transport::is_held_up(connection_class which) const noexcept {
  return outage_ && !idle_.has_one(choice_.current(), which);
}

// Completes with true if the request may go on: the outage is over, a connection to the agent is idle, or the request
// may make an attempt. Completes with false if the deadline has passed, or if the request does not wait in an outage
// and the pending attempt has ended without success.
awaitable<bool> transport::wait_for_an_agent(const http_request& request, connection_class which, time_point deadline) {
  const outage::place place = !request.waits_in_outage             ? outage::place::no_turn
                              : which == connection_class::renewal ? outage::place::first
                                                                   : outage::place::last;
  while (is_held_up(which) && !outage_.may_try(request.waits_in_outage)) {
    if (clock::now() >= deadline) co_return false;
    co_await outage_.wait(place, deadline);
    if (outage_ && !request.waits_in_outage) co_return false;
  }
  co_return true;
}

awaitable<attempt_result> transport::try_once(outage::scout& self, const http_request& request, connection_class which,
                                              time_point deadline) {
  limiter& entrance = limiter_of(which);
  admit_in_time();
  // Renewals may always queue: they are few, one for each session, and a lost renewal costs a holder its slot.
  const bool full = which != connection_class::renewal && entrance.waiting() >= settings_.queue_max;
  // If no connection is idle, a request that is no blocking query first waits for a moment, unless the queue is full.
  // Most requests are answered sooner than another connection is made, and an agent allows a limited number of
  // connections.
  const std::size_t spare = which != connection_class::blocking && !full ? idle_.size(which) : SIZE_MAX;
  limiter::permit permit = entrance.try_enter(spare);
  if (!permit) {
    if (!entrance.is_open() && full) co_return failure(error::too_busy);
    if (which == connection_class::blocking) admit_in_time(true);
    permit = co_await entrance.enter(deadline + request.wait, spare);
    if (!permit && outage_) co_return outage_.last();
    if (!permit) co_return failure(refusals_.is_last() ? error::too_many_requests : error::too_busy);
  }
  // The request becomes the one that tries only now: while it waits for a permit, it must not keep others from trying.
  if (is_held_up(which) && !self.tries()) {
    if (!outage_.may_try(request.waits_in_outage)) {
      attempt_result later;
      later.is_held_up = true;
      co_return later;
    }
    self.begin();
  }

  pending_request way(*this, choice_.current(), which != connection_class::blocking);
  choose_agent();
  way.agent = choice_.current();
  attempt_result result = co_await exchange(way, request, which, deadline);
  const asio::cancellation_state cancellation = co_await asio::this_coro::cancellation_state;
  result.is_cancelled = cancellation.cancelled() != asio::cancellation_type::none;
  if (!result.is_cancelled || result.reply.status != 0) note(way, request, result);
  co_return result;
}

awaitable<attempt_result> transport::exchange(pending_request& way, const http_request& request, connection_class which,
                                              time_point deadline) {
  http_request shorter;
  const http_request* sent = &request;
  if (request.wait.count() != 0) {
    // The wait is at least 1 ms, because 0 means 5 minutes to Consul.
    const time_point now = clock::now();
    deadline = std::max(deadline, now + milliseconds(1) + request.slack);
    auto left = std::chrono::ceil<milliseconds>(deadline - request.slack - now);
    if (refusals_.is_pressed(now)) left = std::min(left, pressed_wait_max);
    if (left < request.wait) {
      shorter = with_wait(request, left);
      sent = &shorter;
    }
  }

  std::shared_ptr<connection>& link = way.link;
  link = take_idle(way.agent, which);
  const bool is_new = !link;
  if (is_new) {
    const bool shows_itself = request.repeatable || !(refusals_.is_suspected() || refusals_.is_pressed(clock::now()));
    attempt_result opened;
    if (shows_itself) {
      opened = co_await open(way.agent, link, deadline);
    } else {
      opened = co_await open_accepted(way.agent, link, deadline);
    }
    if (opened.error) {
      const bool in_handshake = opened.cause == asio::error::eof || opened.cause == asio::error::connection_reset;
      if (link && in_handshake && is_refusal(opened, *link)) {
        opened.is_barred = true;
        note_refusal(opened, way.agent, std::move(link), true);
      }
      co_return opened;
    }
    outage_.end();
  }
  const token_source::token token = tokens_.get(clock::now(), complaint());
  const std::string bytes = to_bytes(*sent, agents_[way.agent].lines, *token.text);
  attempt_result result = co_await link->converse(bytes, request.is_write, deadline);
  if (result.error == error::malformed_reply) result.error = error::not_consul;
  if (!result.error) result.error = classify(request.kind, request.target, result.reply);
  result.token = token.version;
  result.secret = token.text;
  const bool is_known = !result.error || (result.error == error::permission_denied && !is_token_unknown(result.reply));
  if (is_known) tokens_.accepted(token.version);
  result.reply.asked_wait = sent->wait;
  result.is_barred = is_new && (result.reply.status == 429 || (!link->has_answered() && is_ended_by_agent(result)));
  if (is_new && is_refusal(result, *link)) {
    const bool not_applied = result.reply.status == 429 || result.error == error::unreachable;
    note_refusal(result, way.agent, std::move(link), request.repeatable || not_applied);
    co_return result;
  }
  const bool is_served = result.reply.status != 0 && result.reply.status < 500 && result.error != error::not_consul;
  if (is_served) refusals_.answered(link->opened_at(), way.since);
  if (link->reusable() && !closed_) {
    const time_point now = clock::now();
    const std::size_t running = limiter_of(connection_class::blocking).inside();
    if (which == connection_class::blocking && refusals_.is_to_cede(link->opened_at(), running, now, random_)) {
      refusals_.ceded(now);
    } else {
      keep(std::move(link), way.agent, which);
    }
  }
  admit_in_time();
  co_return result;
}

// Uses the result of a request. Reports it to `choice_` as an event of its agent, and records a failure for `health`.
// An answer ends the outage. All of this is left out if the transport has given up the connection. Also decides whether
// another agent may be asked at once.
void transport::note(pending_request& way, const http_request& request, attempt_result& result) {
  result.agent = way.agent;
  way.is_noted = true;
  const time_point now = clock::now();
  const bool is_unreached =
      (result.error == error::unreachable && !result.was_connected) || result.error == error::certificate_refused;
  if (way.link && way.link->is_given_up()) {
    result.goes_on = request.repeatable || is_unreached;
    return;
  }
  const std::string message = message_of(result);
  if (!message.empty() && !result.has_no_address) failed(way.agent, message);
  // A timeout of a request that had little time does not show that the agent cannot be reached.
  const bool is_early = result.cause == asio::error::timed_out && now - way.since < settings_.connect_timeout;
  if ((is_unreached && !is_early) || result.error == error::client_certificate_refused) {
    result.shows_no_agent = result.error == error::unreachable;
    choice_.not_reached(way.agent, now, result.has_no_address);
    result.goes_on = choice_.current() != way.agent;
    return;
  }
  if (result.is_barred || result.reply.status >= 500 || result.error == error::not_consul) {
    choice_.erred(way.agent, now);
  } else if (result.reply.status != 0) {
    choice_.answered(way.agent, now);
    answered_by(way.agent);
  } else if (way.is_quick && (is_early || result.error == error::timed_out)) {
    choice_.silent(way.agent, way.since);
  }
  if (result.reply.status != 0) outage_.end();
  choose_agent();
}

void transport::failed(std::size_t agent, std::string message) {
  agents_[agent].last_failure = std::move(message);
  health_.failed(name_of(agent) + ": " + agents_[agent].last_failure);
}

// Starts the trials that are due, leaves the current agent for a better one, and sets the timer for the next
// evaluation.
void transport::choose_agent() {
  if (agents_.size() == 1 || closed_) return;
  for (const pending_request& each : under_way_)
    if (each.is_quick) choice_.silent(each.agent, each.since);
  const std::size_t before = choice_.current();
  const agent_choice::advice advice = choice_.evaluate(clock::now());
  if (advice.has_left) {
    // If another failure of the agent was noted before, it is kept as its last failure.
    if (agents_[before].last_failure.empty()) failed(before, "does not answer, and another agent does");
    note_silence(agents_[before].used);
    leave_others();
  }
  const std::shared_ptr<void> owner = owner_.lock();
  for (const std::size_t each : advice.to_try) asio::co_spawn(strand_, try_out(owner, *this, each), asio::detached);
  if (advice.evaluate_again_at != time_point::max()) {
    choice_timer_.set_by(advice.evaluate_again_at, owner_, [this] { choose_agent(); });
  }
}

void transport::answered_by(std::size_t agent) {
  if (agent == answered_last_ || agent != choice_.current()) return;  // a late reply of an agent that was left
  const std::string before = health_.read().address;
  const std::string& why = agents_[answered_last_].last_failure;
  tell({.kind = log_kind::agent_changed, .key = name_of(agent), .previous = before, .cause = why});
  answered_last_ = agent;
  agents_[agent].last_failure.clear();
  health_.moved_to(name_of(agent));
}

std::string transport::name_of(std::size_t agent) const {
  const auto& its = agents_[agent];
  std::string name = its.address.to_string();
  if (its.used.size() == 0 || !has_a_name(its.address) || proxy_) return name;
  asio::ip::tcp::endpoint ip;
  ip.resize(its.used.size());
  std::memcpy(ip.data(), its.used.data(), its.used.size());
  return name + " (" + ip.address().to_string() + ')';
}

void transport::note_silence(const connection::endpoint& at) {
  const time_point now = clock::now();
  std::erase_if(silent_, [&](const auto& each) { return each.second <= now || each.first == at; });
  silent_.emplace_back(at, now + agent_choice::returned_to_after);
}

transport::agent* transport::twin_of(std::size_t which) {
  if (agents_[which].is_second) return &agents_[which - 1];
  return which + 1 != agents_.size() && agents_[which + 1].is_second ? &agents_[which + 1] : nullptr;
}

// Sorts the IP addresses of a name. First comes the address that was used last, unless it has stopped answering; then
// the others in the resolver's order; then those that have lately not answered. The address that the other agent of
// this name uses comes last for the first agent, and is left out for the second one. If the first agent has none yet,
// the second one gets no address at all.
connection::endpoints transport::in_order(std::size_t which, connection::endpoints found) {
  const agent& its = agents_[which];
  const agent* const twin = twin_of(which);
  const time_point now = clock::now();
  const auto rank = [&](const connection::endpoint& each) {
    if (twin != nullptr && each == twin->used) return 3;
    const bool is_silent = std::any_of(silent_.begin(), silent_.end(),
                                       [&](const auto& silent) { return silent.first == each && silent.second > now; });
    return is_silent ? 2 : each == its.used ? 0 : 1;
  };
  if (its.is_second) {
    if (twin->used.size() == 0) found.clear();
    std::erase_if(found, [&](const auto& each) { return each == twin->used; });
  }
  std::stable_sort(found.begin(), found.end(), [&](const auto& l, const auto& r) { return rank(l) < rank(r); });
  return found;
}

// Gives up the connections in use to all agents but the current one. The requests on them go to the current agent, if
// they may be repeated. Also forgets the refusals, which were those of another agent.
void transport::leave_others() {
  refusals_.forget();
  for (pending_request& each : under_way_)
    if (each.agent != choice_.current() && each.link) each.link->give_up();
}

// Makes a trial of an agent: asks it for the leader. A server answers that by itself, even if there is no leader.
awaitable<void> transport::try_out([[maybe_unused]] std::shared_ptr<void> owner, transport& self, std::size_t agent) {
  const activity counted(self);
  const time_point deadline = clock::now() + agent_choice::doubted_after;
  std::shared_ptr<connection> link;
  attempt_result result = co_await self.open(agent, link, deadline);
  if (!result.error) {
    const std::string question = to_bytes(harmless_request(), self.agents_[agent].lines, {});
    result = co_await link->converse(question, false, deadline);
    if (result.error == error::timed_out) self.note_silence(link->peer());
  }
  const bool is_answer = !result.error && result.reply.status == 200 && result.reply.body.starts_with('"');
  const bool knows_leader = is_answer && result.reply.body.size() > std::string_view("\"\"\n").size();
  self.choice_.tried(agent, knows_leader ? agent_choice::trial::knows_leader
                            : is_answer  ? agent_choice::trial::knows_none
                                         : agent_choice::trial::failed);
  self.choose_agent();
}

awaitable<attempt_result> transport::open(std::size_t agent, std::shared_ptr<connection>& link, time_point deadline) {
  const agent_address& address = agents_[agent].address;
  link = std::make_shared<connection>(strand_, statistics_, settings_.reply_bytes_max,
                                      is_secure(address) ? tls_.get() : nullptr);
  deadline = std::min(deadline, clock::now() + settings_.connect_timeout);
  const bool is_through_proxy = proxy_ && !address.is_path;
  const agent_address& door = is_through_proxy ? proxy_->at : address;
  const std::string tunnel = is_through_proxy && is_secure(address) ? tunnel_request(address, *proxy_) : std::string();
  resolution found = co_await names_.find(door, deadline);
  connection::endpoints candidates = in_order(agent, std::move(found.endpoints));
  attempt_result connected;
  if (found.error || candidates.empty()) {
    connected = failure(error::unreachable, found.error);
    connected.has_no_address = agents_[agent].is_second;
  } else {
    connected = co_await link->connect(std::move(candidates), deadline, address, tunnel);
    if (!connected.error) agents_[agent].used = link->peer();
    if (is_through_proxy) connected.message = without_secrets(connected.message, connected);
    for (const connection::endpoint& each : link->unresponsive()) note_silence(each);
  }
  if (is_through_proxy && connected.error == error::unreachable && connected.message.empty()) {
    connected.message = "the proxy " + door.to_string() + ": " + connected.cause.message();
  }
  if (agent == choice_.current() &&
      connected.cause == asio::error::connection_refused) {  // the agent has stopped, and so have its connections
    refusals_.forget();
  }
  co_return connected;
}

// If the agent closes a connection on which a write was sent, the outcome of the write is unknown. So this opens a
// connection and completes without an error only when the agent has answered a harmless request on it. If the agent
// closes after its answer, another connection is opened, on which nothing has been sent.
awaitable<attempt_result> transport::open_accepted(std::size_t agent, std::shared_ptr<connection>& link,
                                                   time_point deadline) {
  attempt_result opened = co_await open(agent, link, deadline);
  if (opened.error) co_return opened;
  const std::string harmless = to_bytes(harmless_request(), agents_[agent].lines, {});
  attempt_result asked = co_await link->converse(harmless, false, deadline);
  if (link->reusable()) co_return attempt_result();
  if (is_refusal(asked, *link)) {
    attempt_result refused = failure(error::unreachable, asked.cause);
    refused.reply.status = asked.reply.status;
    refused.is_barred = refused.was_connected = true;
    note_refusal(refused, agent, std::move(link), true);
    co_return refused;
  }
  if (asked.error) co_return failure(error::unreachable, asked.cause);
  opened = co_await open(agent, link, deadline);  // the agent closes after each answer: every request needs another
  co_return opened;
}

// To be called when a new connection was closed unused, or answered 429. Decides whether the request is tried again: it
// may be that the agent has too many connections, or that it has just been replaced.
void transport::note_refusal(attempt_result& result, std::size_t agent, std::shared_ptr<connection> link,
                             bool may_try_again) {
  link.reset();
  // With TLS, the handshake of a connection that counts as open may hang.
  const bool others_work =
      is_secure(agents_[agent].address) ? has_a_working_connection(agent) : statistics_->connections_open > 0;
  limiter& blocking = limiter_of(connection_class::blocking);
  const time_point now = clock::now();
  const refusals::verdict verdict = refusals_.refused(result.reply.status == 429, others_work, blocking.inside(), now);
  const bool is_believed = verdict != refusals::verdict::doubted;
  result.is_in_doubt = result.error == condition::outcome_unknown;
  // After a row of refusals that is not believed, the request has the pauses of other failures.
  result.turned_away = may_try_again && (is_believed || (refusals_.is_suspected() && !refusals_.goes_on()));
  if (!is_believed) return;
  if (result.turned_away) result.error = error::too_many_requests;
  counters::add(statistics_->connections_refused);
  const std::size_t allowed = refusals_.allowed(now);
  blocking.set_limit(allowed);
  if (verdict == refusals::verdict::news)
    tell({.kind = log_kind::connections_refused,
          .key = name_of(choice_.current()),
          .queries = allowed,
          .queries_max = settings_.blocking_max});
}

bool transport::has_a_working_connection(std::size_t agent) const noexcept {
  return idle_.has_one(agent, connection_class::renewal) ||
         std::any_of(under_way_.begin(), under_way_.end(), [agent](const pending_request& each) {
           return each.agent == agent && each.link && each.link->has_answered();
         });
}

void transport::tell(log_event&& event) const {
  if (log_) log_->add(std::move(event));
}

// Describes the failure of the agent or of the connection to it. Empty if there was none.
std::string transport::message_of(const attempt_result& result) const {
  const unsigned status = result.reply.status;
  if (result.error == error::not_consul) return what_answered(result.reply) + ": not Consul's answer";
  if (status >= 500 || status == 429 || status == 403) {
    return std::to_string(status) + ' ' + readable(without_secrets(result.reply.body, result));
  }
  if (!result.error) return {};
  std::string message = result.error.message();
  if (!result.message.empty()) {
    message += ": " + result.message;
  } else if (result.cause) {
    message += ": " + result.cause.message();
  }
  return message;
}

std::string transport::without_secrets(std::string_view body, const attempt_result& of) const {
  return secrets_.without_secrets(body, of.secret.get());
}

token_source::complaint transport::complaint() const {
  return [this](std::string why) { tell({.kind = log_kind::token_unusable, .cause = std::move(why)}); };
}

token_source::advice transport::token_is_unknown(unsigned version) {
  bool is_news = false;
  const token_source::advice advice = tokens_.unknown(version, clock::now(), complaint(), is_news);
  if (advice != token_source::advice::give_up) counters::add(statistics_->tokens_unknown);
  if (is_news) tell({.kind = log_kind::token_unknown});
  return advice;
}

bool transport::has_another_token(unsigned refused) { return tokens_.has_another(refused, complaint()); }

std::shared_ptr<connection> transport::take_idle(std::size_t agent, connection_class which) {
  // A renewal uses an ordinary connection only if a new one may not be had.
  const bool may_borrow = refusals_.is_suspected() || refusals_.is_pressed(clock::now()) || outage_;
  return idle_.take(agent, which, may_borrow);
}

void transport::keep(std::shared_ptr<connection> link, std::size_t agent, connection_class which) {
  if (agent == choice_.current()) idle_.keep(std::move(link), agent, which);
  idle_.close_in_time();
}

// Sets the limit of blocking queries to what is allowed now. The limit also grows with time alone, so if queries wait,
// a timer is set for the next change: nothing else may happen here for minutes.
void transport::admit_in_time(bool one_waits) {
  limiter& blocking = limiter_of(connection_class::blocking);
  blocking.set_limit(refusals_.allowed(clock::now()));
  const time_point next = refusals_.changes_at();
  if (next == time_point::max() || (blocking.waiting() == 0 && !one_waits)) return;
  if (place_timer_.may_be_set()) place_timer_.set(next, owner_, [this] { admit_in_time(); });
}

// Called when no request is left, so no timer is needed. Keeps the connections that ordinary requests and renewals may
// need.
void transport::rest() {
  place_timer_.cancel();
  choice_timer_.cancel();
  outage_.rest();
  idle_.rest(settings_.connections_max);
}

void transport::close() noexcept {
  closed_ = true;
  place_timer_.close();
  choice_timer_.close();
  outage_.close();
  names_.close();
  idle_.close();
}

}  // namespace holdfast::consul::detail
