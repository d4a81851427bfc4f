// SPDX-FileCopyrightText: The holdfast authors
// SPDX-License-Identifier: BSL-1.0

#pragma once

#include <boost/asio/any_io_executor.hpp>
#include <boost/asio/steady_timer.hpp>
#include <condition_variable>
#include <cstdint>
#include <exception>
#include <holdfast/alive_check.hpp>
#include <holdfast/detail/export.hpp>
#include <holdfast/log_event.hpp>
#include <holdfast/slot_source.hpp>
#include <holdfast/tracer.hpp>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "lifetime/completion.hpp"
#include "lifetime/context_hook.hpp"
#include "lifetime/event_log.hpp"
#include "protocol/core/queue_state.hpp"
#include "protocol/core/ticket_queue.hpp"
#include "protocol/core/turn_deadline.hpp"
#include "protocol/core/user_actions.hpp"
#include "protocol/core/user_events.hpp"
#include "runtime/boot_clock.hpp"
#include "runtime/hold_impl.hpp"
#include "runtime/lock_account.hpp"
#include "runtime/outcome.hpp"
#include "runtime/tallies.hpp"

namespace holdfast::detail {

namespace asio = boost::asio;

struct shell_options {
  std::string name{};                                ///< of the lock, for its users and the log
  std::shared_ptr<runtime::lock_account> account{};  ///< shared by the shells of one lock
  log_function log{};
  std::shared_ptr<holdfast::tracer> tracer{};
  std::optional<alive_check> alive{};
};

/// The side of a lock that its users see, on any backend: acquires, holds, losses, cancellation, timers, and the end of
/// the execution context. A derived class adds a core and what the core needs of its backend. The shell passes users'
/// events to the core, and the derived class returns the core's actions for users to `perform`. It decides nothing.
///
/// A mutex guards the state, because a handoff takes less time than posting to a strand. While the mutex is locked, no
/// handler is called or destroyed, no request is made, and completions are posted only to the executor of an
/// `io_context`: another executor may throw.
///
/// Handles and pending operations keep the shell alive. A held slot and its shell keep each other alive until the slot
/// is released or lost, or the execution context is destroyed.
///
/// In a child of fork(), or after the context has been destroyed, every function drops its arguments.
class HOLDFAST_INTERNAL shell : public std::enable_shared_from_this<shell>, protected lifetime::context_hook {
public:
  using context_hook::process;

  // The following functions may be called on any thread.
  /// `name` selects the lock of a mutex set.
  void acquire(const acquire_request& request, pending<hold>&& handler, std::string_view name = {});
  /// Completes an acquire with `why`, without asking the core.
  [[gnu::cold]] void refuse(const protocol::failure& why, diagnostics* diag, pending<hold>&& handler);
  void release(const hold_impl& held, protocol::time_point now, pending<>&& waiting);
  /// The user has released or destroyed the handle of a lost hold.
  void let_go(const hold_impl& held);
  void wait_lost(const hold_impl& held, pending<loss_reason>&& waiting);
  void wait_revoked(const hold_impl& held, pending<>&& waiting);
  void close(pending<>&& waiting);
  void abandon() noexcept;
  /// Empty once the execution context has been destroyed.
  const asio::any_io_executor& get_executor() const noexcept { return executor_; }
  const std::string& name() const noexcept { return options_.name; }
  std::uint32_t limit() const noexcept { return static_cast<std::uint32_t>(counts_->limit.read()); }
  lock_statistics statistics() noexcept;
  /// The place of the first local waiter in the cluster's queue, if it is known.
  std::optional<std::uint64_t> place_in_queue() noexcept;
  /// Adds the shell to its account, and opens its log. To be called once, by the function that has made the shell.
  void start();
  const std::shared_ptr<runtime::lock_account>& account() const noexcept { return options_.account; }

protected:
  class locked;

  ~shell() = default;
  shell(const asio::any_io_executor& executor, shell_options options, std::uint32_t limit);

  // A derived class defines these. They are called while the mutex is locked, unless stated otherwise.
  /// Passes the event to the core, performs the core's actions, and calls `settle`.
  virtual void step(protocol::user_event&& e, protocol::time_point now) = 0;
  struct acquire_time {
    protocol::time_point now;
    bool is_now = true;  ///< false: it may be long ago, because the core needs no time for the acquire
  };
  /// The time of an acquire without a deadline. A core that needs no time for it saves reading the clock.
  virtual acquire_time time_for_acquire() const { return {runtime::now()}; }
  virtual std::optional<protocol::queue_state> queue(std::size_t holders_max) const {
    static_cast<void>(holders_max);
    return {};
  }
  /// As `core::why_unavailable`.
  virtual std::optional<protocol::failure> why_unavailable() const = 0;
  virtual std::shared_ptr<hold_impl> make_hold(protocol::action::grant& a, std::uint32_t count) = 0;
  /// The session that holds a slot in use. Empty if it is not known.
  virtual std::string session_of(protocol::slot_id id) const = 0;
  /// The token and the number of a hold. The session is left empty.
  virtual held_slot describe(const hold_impl& held) const = 0;
  /// Tells an operator how to avoid that a lease expires because of `why`. May be empty.
  virtual std::string advice_on_expiry([[maybe_unused]] const diagnostics& why) const { return {}; }
  virtual bool has_requests() const noexcept = 0;
  /// Takes the queued requests, unlocks the mutex, makes them, and locks the mutex again.
  virtual void make_requests(std::unique_lock<std::mutex>& lock) = 0;
  /// The core is closed.
  virtual void closed() = 0;
  /// Where the log function is called. Called with or without the mutex.
  virtual asio::any_io_executor strand() const = 0;
  /// Empties the queue of requests, because the context is being destroyed. The requests are destroyed later, while the
  /// mutex is not locked.
  virtual std::shared_ptr<void> take_requests() noexcept = 0;
  /// Releases what the derived class has in the context, after `take_requests`. Called while the mutex is not locked.
  virtual void leave_context() noexcept = 0;

  // A derived class uses these while the mutex is locked.
  /// To be called after the core's step, before its actions are performed.
  void stepped(protocol::time_point now, const protocol::measurements& measured);
  /// To be called after each step, with the core's new state. `wake` is the time of its next tick.
  void settle(std::size_t waiting, std::size_t sessions, std::uint32_t limit, protocol::time_point wake);
  void perform(protocol::action::grant& a);
  void perform(protocol::action::deny& a);
  void perform(protocol::action::fail& a);
  void perform(protocol::action::released& a);
  void perform(protocol::action::lose& a);
  void perform(protocol::action::revoke& a);
  void perform(protocol::action::update& a);
  void perform(protocol::action::closed& a);
  void perform(protocol::action::note& a);
  void perform(protocol::action::ask_alive& a);
  void keep_running();
  template <class... Results, class... Given>
  void complete(pending<Results...>&& waiting, outcome&& ended, Given&&... results);
  hold_impl* in_use(protocol::slot_id id) const;
  void log(log_event&& event);
  /// Calls the function. If it throws, gives up. For all that changes the core's state, or depends on it.
  template <class Function>
  void guarded(Function function) noexcept {
    try {
      function();
    } catch (...) {
      give_up(std::current_exception());
    }
  }
  /// Memory has run out while the core's state was changed, so that state is unknown. Closes the lock without the core:
  /// its slots are lost, and all that is pending ends. Its sessions end by their TTL.
  [[gnu::cold]] void give_up(const std::exception_ptr& why) noexcept;
  /// The core must not be used any more.
  bool has_given_up() const noexcept { return has_given_up_; }

private:
  struct acquiring : pending<hold> {
    acquiring(protocol::ticket ticket, pending&& handler, const acquire_request& request)
        : pending(std::move(handler)), count(request.options.count), ticket(ticket), diag(request.options.diag) {}
    std::uint32_t count;  // first, in the padding of `pending`
    bool by_coarse_clock = false;
    protocol::ticket ticket;
    protocol::time_point since{};  ///< when it began to wait
    diagnostics* diag;
    /// Members that few acquires need.
    struct extra {
      [[gnu::cold]] ~extra();
      protocol::turn_deadline turn{};
      /// The queue as it was known when the acquire began. Empty if it has no `diag`, or if nothing was known.
      std::optional<diagnostics::queue_report> queue{};
      std::shared_ptr<trace_span> span{};
      std::string key{};  ///< the key of the span
    };
    std::unique_ptr<extra> rare{};

    extra& its_extra() {
      if (!rare) rare = std::make_unique<extra>();
      return *rare;
    }
    bool knows_queue() const { return rare && rare->queue; }

    bool is_hole() const { return !*this; }
    void leave_hole() {}  // nothing to do: the operation has been moved out
  };
  /// The span of a hold. It is made and ended on the strand.
  struct hold_trace;
  /// An acquire that may complete within its initiating function. Its handler is called after the mutex has been
  /// unlocked.
  struct initiating {
    protocol::ticket ticket{};
    pending<hold> done{};  ///< empty while the acquire waits
  };
  /// The state of a slot that is in use, or of one whose release is pending.
  struct slot_in_use {
    std::shared_ptr<hold_impl> held{};
    pending<> on_released{};
    std::shared_ptr<hold_trace> trace{};  ///< null if nobody traces it
    bool suspect = false;
  };
  template <class Key>
  struct canceller;
  using wait_id = std::pair<protocol::slot_id, std::uint64_t>;

  template <class Key>
  canceller<Key>* on_cancel(const operation& begun);
  [[gnu::cold]] static protocol::turn_deadline note_turn(acquiring& waiting,
                                                         std::chrono::steady_clock::time_point deadline,
                                                         protocol::time_point now);
  [[gnu::cold]] std::optional<protocol::duration> note_queue(acquiring& waiting, std::size_t joined) const;
  [[gnu::cold]] void describe_queue(const acquiring& waiting, std::optional<diagnostics::queue_report>& into) const;
  [[gnu::cold]] protocol::failure late(const acquiring& waiting, std::string text) const;
  void begin(const acquire_request& request, pending<hold>&& handler, std::string_view name, initiating* at_once);
  [[gnu::cold]] bool ends_at_once(acquiring& waiting, const acquire_request& request, protocol::time_point now,
                                  protocol::acquire_terms& terms);
  /// As `queue`. Empty if the core must not be used any more.
  std::optional<protocol::queue_state> known_queue(std::size_t holders_max) const {
    return has_given_up_ ? std::nullopt : queue(holders_max);
  }
  template <class... Results>
  void add_wait(std::map<wait_id, pending<Results...>>& to, wait_id key, pending<Results...>&& waiting);
  [[gnu::cold]] std::unique_ptr<acquiring::extra> trace_wait(const acquire_request& request,
                                                             std::string_view lock) const;
  [[gnu::cold]] void trace_no_grant(acquiring& waiting, error_code ec);
  [[gnu::cold]] void trace_grant(slot_in_use& its, acquiring& waiting);
  [[gnu::cold]] void trace_end(slot_in_use& its, loss_reason reason) noexcept;
  [[gnu::cold]] void log_slot(log_event&& event, const hold_impl& held);
  [[gnu::cold]] void log_end(const hold_impl& held) noexcept;
  protocol::duration waited(const acquiring& waiting) const;
  void count_suspect(slot_in_use& its, bool is_suspect);
  void count_end(slot_in_use& its, protocol::time_point granted_at, protocol::time_point now);
  void complete_acquire(acquiring& waiting, outcome&& ended, hold&& result);
  void cancel(protocol::ticket ticket);
  void cancel(wait_id wait);
  template <class... Results>
  static bool take_wait(std::map<wait_id, pending<Results...>>& from, wait_id wait, pending<Results...>& into);
  void make_all_requests(std::unique_lock<std::mutex> lock);
  void finish(std::unique_lock<std::mutex> lock);
  void post(operation_ptr ended) noexcept;
  /// Posts a completed operation now, or after the mutex has been unlocked. Operations are posted in the order of the
  /// calls.
  void post_completed(operation_ptr ended) {
    if (post_.is_safe_under_lock())
      post_.post(std::move(ended));
    else
      completed_.push(std::move(ended));
  }
  template <class Function>
  bool post_to_strand(Function function) noexcept;
  struct alive_question;
  void answer_alive(bool is_yes);
  void no_longer_pending() {
    if (--pending_count_ == 0 && post_.is_safe_under_lock()) work_ = {};
  }
  /// Whether the executor tracks work although no handler is pending.
  bool has_spare_work() const noexcept { return !gone_ && pending_count_ == 0 && work_; }

  void schedule(protocol::time_point wake);
  void sleep();

  [[gnu::cold]] void tell_lost(protocol::slot_id id, loss_reason reason, const diagnostics& why,
                               const std::string& lock = {}, std::string session = {});
  void end_waits(protocol::slot_id id, error_code ec, loss_reason reason);
  template <class... Results>
  void complete_all(std::map<wait_id, pending<Results...>>& waits, protocol::slot_id id, error_code ec,
                    Results... results);

  /// The handlers and requests that are pending when the execution context is destroyed, and the slots in use. They are
  /// destroyed when no lock is held.
  struct what_waits {
    std::vector<slot_in_use> slots;
    protocol::ticket_queue<acquiring> acquires;
    std::map<wait_id, pending<loss_reason>> losses;
    std::map<wait_id, pending<>> revocations;
    std::vector<pending<>> closes;
    std::shared_ptr<void> requests;
  };
  std::shared_ptr<void> on_context_shutdown() noexcept override;

  const shell_options options_;
  std::shared_ptr<lifetime::event_log> log_;  ///< null if nobody wants to read it

  std::mutex mutex_;
  bool makes_requests_ = false;     ///< a thread is making requests
  std::size_t posting_ = 0;         ///< the number of threads that post operations
  std::condition_variable made_;    ///< notified when such a thread has finished
  bool gone_ = false;               ///< the execution context has been destroyed
  asio::any_io_executor executor_;  ///< the backend's
  posting_executor post_;           ///< the same
  asio::any_io_executor work_;      ///< tracks outstanding work while handlers are pending
  std::size_t pending_count_ = 0;   ///< the number of pending handlers
  operation_list completed_{};      ///< to be posted when the mutex is unlocked; empty while it is unlocked
  std::optional<asio::steady_timer> timer_;

  protocol::time_point now_{};  ///< of the last step
  protocol::hold_times hold_times_;
  protocol::time_point armed_ = protocol::never;
  bool sleeps_lightly_ = false;  ///< the timer may expire before `armed_`, only to read the clock
  bool closed_ = false;
  bool has_given_up_ = false;
  std::uint64_t last_ticket_ = 0;
  std::uint64_t last_wait_ = 0;

  protocol::ticket beginning_{};  ///< the acquire that the core has just been given

  initiating* initiating_ = nullptr;  ///< the acquire that the core has just been given, if its handler can be called
  protocol::ticket_queue<acquiring> acquires_;
  std::vector<slot_in_use> slots_;  ///< indexed by `index_of(id)`
  std::map<wait_id, pending<loss_reason>> losses_;
  std::map<wait_id, pending<>> revocations_;
  std::vector<pending<>> closes_;
  std::shared_ptr<what_waits> left_ = std::make_shared<what_waits>();  ///< filled when the context is destroyed

  const std::shared_ptr<runtime::tallies> counts_;
};

/// The name of the lock. Empty without a shell.
HOLDFAST_INTERNAL const std::string& name_of(const std::shared_ptr<shell>& impl) noexcept;

/// Locks the shell's mutex. The destructor unlocks it, posts the completed operations, and makes the requests that were
/// queued meanwhile, unless another thread is making requests. That thread then makes these, too. If the object
/// converts to false, the caller must do nothing: either the context has been destroyed, or this is a child of fork(),
/// where the mutex is not locked at all.
class shell::locked {
public:
  explicit locked(shell& of) : of_(of), lock_(of.process().is_foreign() ? lock() : lock(of.mutex_)) {}
  locked(const locked&) = delete;
  locked& operator=(const locked&) = delete;
  ~locked() {
    if (lock_ && (!of_.completed_.empty() || of_.has_spare_work() || (of_.has_requests() && !of_.makes_requests_)))
      of_.finish(std::move(lock_));
  }
  explicit operator bool() const noexcept { return lock_ && !of_.gone_; }

private:
  using lock = std::unique_lock<std::mutex>;
  shell& of_;
  lock lock_;
};

template <class... Results, class... Given>
void shell::complete(pending<Results...>&& waiting, outcome&& ended, Given&&... results) {
  waiting->set_result(std::move(ended), std::forward<Given>(results)...);
  post_completed(waiting.take());
  no_longer_pending();
}

}  // namespace holdfast::detail
