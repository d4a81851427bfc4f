// SPDX-FileCopyrightText: The holdfast authors
// SPDX-License-Identifier: BSL-1.0

#pragma once

#include <array>
#include <boost/intrusive/list.hpp>
#include <holdfast/consul/config.hpp>
#include <memory>
#include <optional>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "consul/agents/agent_choice.hpp"
#include "consul/agents/outage.hpp"
#include "consul/connections/connection.hpp"
#include "consul/connections/connection_class.hpp"
#include "consul/connections/idle_connections.hpp"
#include "consul/connections/limiter.hpp"
#include "consul/connections/proxy.hpp"
#include "consul/connections/refusals.hpp"
#include "consul/connections/secret_filter.hpp"
#include "consul/encoding/url.hpp"
#include "consul/health_record.hpp"
#include "consul/net_names.hpp"
#include "consul/token_source.hpp"
#include "lifetime/event_log.hpp"
#include "net/name_lookup.hpp"
#include "net/resolve.hpp"
#include "net/tls.hpp"
#include "net/waiting.hpp"

namespace holdfast::consul::detail {

/// The connections of a client to the agents. Requests go to one agent at a time, which `agent_choice` chooses.
///
/// An address whose host is a name counts as two agents, unless there is a proxy. A connection attempt tries the IP
/// addresses of the name until one is connected. But an agent that accepts connections and does not answer is only left
/// for another agent: for such an address, that is the second agent. It never connects to the IP address that the first
/// agent used last. The first agent tries the second one's IP address after all others. Lives on the strand.
class transport {
public:
  /// A connection that has been idle for `idle_max` is closed: at once while requests are pending, otherwise by the
  /// next request. That frees one of the 200 connections that an agent allows for each client address by default. The
  /// time is long enough for the connections of a burst of blocking queries to be used again by the next burst, if some
  /// request is pending in between. See `idle_connections::rest`.
  transport(const strand_type& strand, const config& settings, const std::vector<agent_address>& addresses,
            std::shared_ptr<counters> statistics, health_record& health,
            std::shared_ptr<lifetime::event_log> log = nullptr, clock::duration idle_max = std::chrono::minutes(1),
            name_lookup::resolver look_up = net::look_up);

  /// Sets the owner of this object, which must not outlive its owner. Timers and coroutines of the transport hold the
  /// owner while they run. The last reference to the owner may be released on another thread.
  void owned_by(std::weak_ptr<void> owner) noexcept { owner_ = std::move(owner); }

  /// Sends one request on an idle connection, and completes with the reply or an error. If no connection is idle, a new
  /// one is opened. A renewal or an ordinary request first waits a moment for a connection to become idle, unless no
  /// other request of its class is pending. Errors beside those of `connection::connect` and `connection::converse`:
  /// too_busy (the queue is full, or the deadline came first; nothing was sent) and too_many_requests.
  ///
  /// An agent that has too many connections closes a new one before it answers anything, or answers 429. If that reason
  /// is believed (`refusals`), fewer blocking queries run from then on. The request is repeated until its deadline, and
  /// then fails with too_many_requests. If the reason is not believed yet, but other connections are open, the request
  /// is repeated, too; at its deadline it keeps its own error. A write is not repeated if it may have been applied,
  /// unless it is idempotent.
  ///
  /// A write that is not idempotent may have to wait for the answer to a harmless request on its new connection. That
  /// is so after a closed connection, until a new one is served, and for a minute after one whose reason was believed.
  /// If the agent closes each connection after an answer, the write is sent on yet another one.
  ///
  /// The time that a blocking query has queued is taken off the wait that it asks Consul for, so queries beyond the
  /// limit take turns. A query may queue for up to one wait past its deadline, because the queries before it may have
  /// longer waits. If it has queued for longer than its wait, it asks for 1 ms, and its slack counts from then on.
  ///
  /// If the transport leaves an agent that does not answer or answers with errors, requests that are pending there are
  /// repeated at the new agent, if they may be repeated. When it changes for another reason, they stay pending.
  awaitable<attempt_result> send(const http_request& request, connection_class which, time_point deadline);

  /// Returns the first 4 KiB of `text`, which came as the answer to a request. The token and the passwords that the
  /// request carried are replaced.
  std::string without_secrets(std::string_view text, const attempt_result& of) const;

  /// To be called when the token of version `refused` (`attempt_result::token`) lacks a right. If that token is still
  /// the newest one, gets the token from its source again. Returns true if the next request may carry another token.
  bool has_another_token(unsigned refused);
  /// To be called when Consul does not know the token of this version.
  token_source::advice token_is_unknown(unsigned version);

  /// The address of an agent, by its number in `attempt_result::agent`.
  const agent_address& address_of(std::size_t agent) const noexcept { return agents_[agent].address; }

  /// Closes the idle connections and stops the timers. A connection in use is closed when its request completes.
  void close() noexcept;

private:
  struct agent {
    agent_address address;
    agent_lines lines;
    bool is_second = false;  // the second of the two agents of a name; never uses the first one's IP address
    connection::endpoint used{};
    std::string last_failure{};
  };
  class activity;
  // A request from the time it has its permit until its reply or failure. If it is destroyed before it is noted, the
  // user or close() has cancelled it, or the execution context has been destroyed.
  struct pending_request : boost::intrusive::list_base_hook<> {
    pending_request(transport& owner, std::size_t agent, bool is_quick);
    ~pending_request();
    pending_request(const pending_request&) = delete;
    pending_request& operator=(const pending_request&) = delete;

    transport& owner;
    std::size_t agent;
    const time_point since = clock::now();
    const bool is_quick;  // not a blocking query: the agent should answer at once
    bool is_noted = false;
    std::shared_ptr<connection> link{};
  };

  limiter& limiter_of(connection_class which) noexcept { return limiters_[static_cast<std::size_t>(which)]; }

  awaitable<attempt_result> try_once(outage::scout& self, const http_request& request, connection_class which,
                                     time_point deadline);
  bool is_held_up(connection_class which) const noexcept;
  awaitable<bool> wait_for_an_agent(const http_request& request, connection_class which, time_point deadline);
  awaitable<attempt_result> exchange(pending_request& way, const http_request& request, connection_class which,
                                     time_point deadline);
  awaitable<attempt_result> open(std::size_t agent, std::shared_ptr<connection>& link, time_point deadline);
  awaitable<attempt_result> open_accepted(std::size_t agent, std::shared_ptr<connection>& link, time_point deadline);
  void note(pending_request& way, const http_request& request, attempt_result& result);
  void failed(std::size_t agent, std::string message);
  void choose_agent();
  void leave_others();
  void answered_by(std::size_t agent);
  std::string name_of(std::size_t agent) const;
  void note_silence(const connection::endpoint& at);
  std::vector<agent> make_agents(const std::vector<agent_address>& addresses) const;
  agent* twin_of(std::size_t agent);
  connection::endpoints in_order(std::size_t agent, connection::endpoints found);
  static awaitable<void> try_out(std::shared_ptr<void> owner, transport& self, std::size_t agent);
  void note_refusal(attempt_result& result, std::size_t agent, std::shared_ptr<connection> link, bool may_try_again);
  bool has_a_working_connection(std::size_t agent) const noexcept;
  void tell(log_event&& event) const;
  token_source::complaint complaint() const;
  std::string message_of(const attempt_result& result) const;
  std::shared_ptr<connection> take_idle(std::size_t agent, connection_class which);
  void keep(std::shared_ptr<connection> link, std::size_t agent, connection_class which);
  void admit_in_time(bool one_waits = false);
  void rest();

  const strand_type& strand_;
  const config& settings_;
  const std::shared_ptr<void> alive_ = std::make_shared<char>();
  std::weak_ptr<void> owner_ = alive_;
  const std::optional<proxy_address> proxy_;
  secret_filter secrets_;  // hides the logins that requests carry
  std::vector<agent> agents_;
  std::size_t answered_last_ = 0;
  // The endpoints that did not answer. Until the given time, each is tried only after those that are not listed here.
  std::vector<std::pair<connection::endpoint, time_point>> silent_;
  token_source tokens_;
  const std::shared_ptr<lifetime::event_log> log_;  // may be null
  std::unique_ptr<tls_client> tls_;                 // may be null: see `make_tls_client`
  std::shared_ptr<counters> statistics_;
  health_record& health_;
  std::array<limiter, 3> limiters_;
  agent_choice choice_;
  boost::intrusive::list<pending_request> under_way_;
  wake_timer choice_timer_;  // evaluates the choice of the agent again
  std::minstd_rand random_;
  outage outage_;
  refusals refusals_;
  name_lookup names_;
  idle_connections idle_;
  std::size_t active_ = 0;  // the number of requests and trials that the transport works on
  wake_timer place_timer_;  // lets another blocking query run
  bool closed_ = false;
};

}  // namespace holdfast::consul::detail
