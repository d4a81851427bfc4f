#pragma once

#include <array>
#include <boost/intrusive/list.hpp>
#include <functional>
#include <holdfast/consul/config.hpp>
#include <map>
#include <memory>
#include <optional>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "agent_choice.hpp"
#include "concurrency_limit.hpp"
#include "connection.hpp"
#include "health.hpp"
#include "limiter.hpp"
#include "proxy.hpp"
#include "resolve.hpp"
#include "tls.hpp"
#include "token_source.hpp"
#include "url.hpp"

namespace holdfast::consul::detail {

/// Who a request shares its connections with: renewals wait behind nothing else, and blocking queries, which keep a
/// connection for minutes, hold up nobody.
enum class connection_class { ordinary, renewal, blocking };

/// The connections to the agents, of which one is asked at a time. An address whose host is a name stands for two: all
/// that is behind the name may be tried, but an agent that takes connections and says nothing is only left for another
/// agent. Lives on the strand.
class transport {
public:
  using resolver = std::function<awaitable<resolution>(const strand_type&, const agent_address&, time_point)>;
  /// A connection that was not needed for `idle_max` is closed, and frees one of the 200 that an agent has for each
  /// client address. A burst of blocking queries that ends and starts again is not in that case.
  transport(const strand_type& strand, const config& settings, const std::vector<agent_address>& addresses,
            std::shared_ptr<counters> statistics, health_record& health,
            clock::duration idle_max = std::chrono::minutes(1), resolver look_up = resolve);

  /// What holds this, and lives no longer: its last owner may go on another thread.
  void owned_by(std::weak_ptr<void> owner) noexcept { owner_ = std::move(owner); }

  /// One request on a connection of its lane, opened if none is idle: for a renewal and an ordinary request only if
  /// none becomes so in a moment. Errors beside those of connection::converse: too_busy (the queue is full, or the
  /// deadline came first) and unreachable; both say that nothing was sent.
  ///
  /// An agent that has too many connections closes new ones before it answers anything, or answers 429. Then fewer
  /// blocking queries run from now on, and the request is tried again until its deadline: too_many_requests then. But
  /// not a write, if it cannot be told from one that was lost on its way; the next ones are sent when the agent has
  /// answered something else on their connection.
  ///
  /// A blocking query spends its wait in the queue: what is left of it when it gets its place is what it asks Consul
  /// for. So those that are too many take turns. It queues for up to one wait past its deadline, because those before
  /// it may wait longer than it; and then has its slack from there on.
  /// What is under way at an agent that is left for another one goes to that, if it may be repeated.
  awaitable<attempt_result> send(const http_request& request, connection_class which, time_point deadline);

  /// The beginning of a text that came as an answer to that request, without the token and the passwords that the
  /// request carried.
  std::string without_secrets(std::string_view text, const attempt_result& of) const;

  /// Consul has refused the token that `attempt_result::token` says. Whether the next request has another one.
  bool has_another_token(unsigned refused);

  /// Of `attempt_result::agent`.
  const agent_address& address_of(std::size_t agent) const noexcept { return agents_[agent].address; }

  /// Drops the idle connections; those in use are not kept when their request ends.
  void close() noexcept;

private:
  // Calls back at a time, once, unless it is cancelled before. It runs only while there are requests, for a timer alone
  // must not keep the io_context running.
  class wake_timer {
  public:
    explicit wake_timer(const strand_type& strand) : timer_(strand) {}
    bool may_be_set() const noexcept { return timer_ && !is_set_; }
    // `owner` is kept while `then` runs; if it is gone by then, so is this.
    template <class Function>
    void set(time_point when, std::weak_ptr<void> owner, Function then) {
      is_set_ = true;
      timer_->expires_at(when);
      timer_->async_wait([this, owner = std::move(owner), then = std::move(then)](const error_code& ec) {
        const std::shared_ptr<void> alive = owner.lock();
        if (ec || !alive || !std::exchange(is_set_, false)) return;
        then();
      });
    }
    // At this time, if that is earlier than the time that it is set to.
    template <class Function>
    void set_by(time_point when, std::weak_ptr<void> owner, Function then) {
      if (!timer_ || (is_set_ && timer_->expiry() <= when)) return;
      cancel();
      set(when, std::move(owner), std::move(then));
    }
    void cancel() {
      if (timer_) timer_->cancel();
      is_set_ = false;
    }
    void close() noexcept { timer_.reset(); }

  private:
    std::optional<timer_type> timer_;  // none: closed
    bool is_set_ = false;
  };
  // A coroutine that waits for an event, until a time of its own.
  struct waiter : boost::intrusive::list_base_hook<boost::intrusive::link_mode<boost::intrusive::auto_unlink>> {
    waiter(const strand_type& strand, time_point until) : timer(strand, until) {}
    timer_type timer;
    bool is_woken = false;
  };
  using waiter_list = boost::intrusive::list<waiter, boost::intrusive::constant_time_size<false>>;
  static void wake(waiter& one) noexcept;
  static void wake_all(waiter_list& all) noexcept;

  struct agent {
    agent_address address;
    agent_lines lines;
    bool is_second = false;  // of the two of a name: never asked at the other one's IP address
    connection::endpoint used{};
    std::string last_failure{};
  };
  // The IP addresses of a name. One lookup at a time, for all who need it; it may last longer than they wait for it.
  struct lookup {
    std::optional<resolution> answer{};
    waiter_list waiting{};
  };
  struct known_name {
    connection::endpoints addresses{};  // of the last lookup that found some
    std::shared_ptr<lookup> pending{};
  };
  struct idle_connection {
    std::shared_ptr<connection> link;
    std::size_t agent;
    time_point since;
  };
  // The hottest is at the back.
  using idle_list = std::vector<idle_connection>;
  class activity;
  // No agent can be reached. One request at a time goes on trying, and the others wait for what comes of it.
  struct outage {
    unsigned number = 0;
    attempt_result last;  // why the last attempt has failed
    unsigned failures = 0;
    time_point try_at{};
    bool is_tried = false;
    waiter_list waiting{};    // for their turn to try
    waiter_list impatient{};  // for the end of the attempt that is pending
  };
  // A request that has its turn, from then until it has its reply. Unless it is noted, the user has cancelled it.
  struct pending_request : boost::intrusive::list_base_hook<> {
    pending_request(transport& owner, std::size_t agent, bool is_quick);
    ~pending_request();
    pending_request(const pending_request&) = delete;
    pending_request& operator=(const pending_request&) = delete;

    transport& owner;
    std::size_t agent;
    const time_point since = clock::now();
    const bool is_quick;  // no blocking query: to be answered at once
    bool is_noted = false;
    std::shared_ptr<connection> link{};
  };
  class scout;

  limiter& limiter_of(connection_class which) noexcept { return limiters_[static_cast<std::size_t>(which)]; }
  idle_list& idle_of(connection_class which) noexcept {
    return which == connection_class::renewal ? idle_renewal_ : idle_;
  }

  awaitable<attempt_result> attempt(scout& self, const http_request& request, connection_class which,
                                    time_point deadline);
  bool is_held_up(connection_class which) const noexcept;
  bool may_try(const http_request& request) const noexcept;
  awaitable<bool> wait_for_an_agent(const http_request& request, connection_class which, time_point deadline);
  void begin_or_prolong_outage(const attempt_result& failed);
  void end_outage() noexcept;
  void wake_a_scout();
  awaitable<attempt_result> perform(pending_request& way, const http_request& request, connection_class which,
                                    time_point deadline);
  awaitable<attempt_result> open(std::size_t agent, std::shared_ptr<connection>& link, time_point deadline);
  awaitable<resolution> find(const agent_address& door, time_point deadline);
  static awaitable<void> look_up(std::shared_ptr<void> owner, transport& self, agent_address door,
                                 std::shared_ptr<lookup> job);
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
  bool note_refusal(const attempt_result& result, std::size_t agent, std::shared_ptr<connection> link);
  bool has_a_working_connection(std::size_t agent) const noexcept;
  bool is_to_cede(const connection& link, time_point now);
  void tell_of_refusals(std::size_t allowed) const;
  void tell(std::string line) const;
  std::string message_of(const attempt_result& result) const;
  std::shared_ptr<connection> take_idle(std::size_t agent, connection_class which);
  void keep(std::shared_ptr<connection> link, std::size_t agent, connection_class which);
  void close_idle_in_time();
  void admit_in_time(bool one_waits = false);
  void rest();

  const strand_type& strand_;
  const config& settings_;
  const std::optional<proxy_address> proxy_;
  std::vector<agent> agents_;
  std::map<std::string, known_name> names_;
  std::size_t answered_last_ = 0;
  // IP addresses of names that said nothing, until when they are asked only if there is no other.
  std::vector<std::pair<connection::endpoint, time_point>> silent_;
  token_source tokens_;
  std::unique_ptr<tls_client> tls_;  // none: plain
  std::shared_ptr<counters> statistics_;
  health_record& health_;
  std::array<limiter, 3> limiters_;
  agent_choice choice_;
  boost::intrusive::list<pending_request> under_way_;
  wake_timer choice_timer_;         // that the choice has to be looked at again
  wake_timer outage_timer_;         // that an agent has to be tried again
  std::unique_ptr<outage> outage_;  // while no agent can be reached
  unsigned outages_ = 0;            // how many there were
  concurrency_limit concurrency_limit_;
  unsigned refusals_ = 0;  // since the last reply
  std::minstd_rand random_;
  const clock::duration idle_max_;
  const resolver look_up_;
  idle_list idle_;
  idle_list idle_renewal_;
  std::size_t active_ = 0;  // requests
  wake_timer idle_timer_;   // that a connection has been idle for long enough
  wake_timer place_timer_;  // that another blocking query may run
  const std::shared_ptr<void> alive_ = std::make_shared<char>();
  std::weak_ptr<void> owner_ = alive_;
  bool closed_ = false;
};

}  // namespace holdfast::consul::detail
