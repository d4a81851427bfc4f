#pragma once

#include <array>
#include <boost/intrusive/list.hpp>
#include <holdfast/consul/config.hpp>
#include <memory>
#include <optional>
#include <random>
#include <utility>
#include <vector>

#include "agent_choice.hpp"
#include "connection.hpp"
#include "gate.hpp"
#include "share.hpp"
#include "tls.hpp"
#include "url.hpp"

namespace holdfast::consul::detail {

/// Who a request shares its connections with: renewals wait behind nothing else, and blocking queries, which keep a
/// connection for minutes, hold up nobody.
enum class lane { ordinary, renewal, blocking };

/// The connections to the agents, of which one is asked at a time. Lives on the strand.
class transport {
public:
  /// A connection that was not needed for `idle_max` is closed, and frees one of the 200 that an agent has for each
  /// client address. A burst of blocking queries that ends and starts again is not in that case.
  transport(const strand_type& strand, const config& settings, const std::vector<agent_address>& addresses,
            std::shared_ptr<counters> statistics, clock::duration idle_max = std::chrono::minutes(1));

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
  awaitable<exchange> send(const http_request& request, lane which, time_point deadline);

  /// Drops the idle connections; those in use are not kept when their request ends.
  void close() noexcept;

private:
  // Calls back at a time, once, unless it is cancelled before. It runs only while there are requests, for a timer alone
  // must not keep the io_context running.
  class reminder {
  public:
    explicit reminder(const strand_type& strand) : timer_(strand) {}
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
  struct idle_connection {
    std::shared_ptr<connection> link;
    std::size_t agent;
    time_point since;
  };
  // The hottest is at the back.
  using idle_list = std::vector<idle_connection>;
  class activity;
  // A request that has its turn, from then until it has its reply.
  struct journey : boost::intrusive::list_base_hook<> {
    journey(transport& owner, std::size_t agent, bool is_quick);
    ~journey();
    journey(const journey&) = delete;
    journey& operator=(const journey&) = delete;

    transport& owner;
    const std::size_t agent;
    const time_point since = clock::now();
    const bool is_quick;  // no blocking query: to be answered at once
    std::shared_ptr<connection> link{};
  };

  gate& gate_of(lane which) noexcept { return gates_[static_cast<std::size_t>(which)]; }
  idle_list& idle_of(lane which) noexcept { return which == lane::renewal ? idle_renewal_ : idle_; }

  awaitable<exchange> attempt(const http_request& request, lane which, time_point deadline);
  awaitable<exchange> travel(journey& way, const http_request& request, lane which, time_point deadline);
  awaitable<exchange> open(std::size_t agent, std::shared_ptr<connection>& link, time_point deadline);
  awaitable<exchange> open_accepted(std::size_t agent, std::shared_ptr<connection>& link, time_point deadline);
  void note(const journey& way, const http_request& request, exchange& result);
  void choose_agent();
  void leave_others();
  static awaitable<void> try_out(std::shared_ptr<void> owner, transport& self, std::size_t agent);
  bool note_refusal(const exchange& result, std::shared_ptr<connection> link);
  bool is_to_cede(const connection& link, time_point now);
  void tell(std::size_t allowed) const;
  std::shared_ptr<connection> take_idle(std::size_t agent, lane which);
  void keep(std::shared_ptr<connection> link, std::size_t agent, lane which);
  void close_idle_in_time();
  void admit_in_time(bool one_waits = false);
  void rest();

  const strand_type& strand_;
  const config& settings_;
  const std::vector<agent_address>& addresses_;
  std::unique_ptr<tls_client> tls_;  // none: plain
  std::shared_ptr<counters> statistics_;
  std::array<gate, 3> gates_;
  agent_choice choice_;
  boost::intrusive::list<journey> under_way_;
  reminder choice_reminder_;  // that the choice has to be looked at again
  share share_;
  unsigned refusals_ = 0;  // since the last reply
  std::minstd_rand random_;
  const clock::duration idle_max_;
  idle_list idle_;
  idle_list idle_renewal_;
  std::size_t active_ = 0;   // requests
  reminder idle_reminder_;   // that a connection has been idle for long enough
  reminder place_reminder_;  // that another blocking query may run
  const std::shared_ptr<void> alive_ = std::make_shared<char>();
  std::weak_ptr<void> owner_ = alive_;
  bool closed_ = false;
};

}  // namespace holdfast::consul::detail
