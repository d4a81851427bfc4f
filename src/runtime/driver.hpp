// SPDX-FileCopyrightText: The holdfast authors
// SPDX-License-Identifier: BSL-1.0

#pragma once

#include <atomic>
#include <boost/asio/any_io_executor.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/require.hpp>
#include <boost/asio/steady_timer.hpp>
#include <condition_variable>
#include <holdfast/mutex.hpp>
#include <holdfast/semaphore.hpp>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "lifetime/context_hook.hpp"
#include "protocol/core.hpp"
#include "protocol/ticket_queue.hpp"
#include "runtime/boot_clock.hpp"
#include "runtime/maker_watch.hpp"
#include "runtime/outcome.hpp"
#include "runtime/session_files.hpp"
#include "runtime/setup.hpp"
#include "runtime/slot_impl.hpp"
#include "runtime/store.hpp"

namespace holdfast::detail {

namespace asio = boost::asio;

/// The I/O shell around one core. The driver feeds events to the core and performs the core's actions. The store makes
/// the requests. The driver decides nothing, and works with every kind of core and of store.
///
/// A mutex guards the driver's state, because a handoff takes less time than posting to a strand. While the mutex is
/// locked, no handler is called or destroyed, and no request is made.
///
/// Handles and pending operations keep the driver alive. A held slot and its driver keep each other alive until the
/// slot is released or lost, or the execution context is destroyed.
///
/// In a child of fork(), or after the context has been destroyed, every function drops its arguments.
class driver final : public std::enable_shared_from_this<driver>,
                     public hold_owner,
                     public runtime::event_sink,
                     lifetime::context_hook {
public:
  driver(std::unique_ptr<runtime::store> store, runtime::driver_options options, std::unique_ptr<protocol::core> core);
  ~driver();
  using context_hook::process;

  // The following functions may be called on any thread.
  /// `name` selects the lock of a mutex set.
  void acquire(const acquire_request& request, pending<slot>&& handler, std::string_view name = {});
  /// Completes an acquire with `why`, without asking the core.
  void refuse(const protocol::failure& why, diagnostics* diag, pending<slot>&& handler);
  void release(const hold_impl& slot, protocol::time_point now, pending<>&& waiting) override;
  void let_go(const hold_impl& slot) override;
  void wait_lost(const hold_impl& slot, pending<loss_reason>&& waiting) override;
  void wait_revoked(const hold_impl& slot, pending<>&& waiting) override;
  std::vector<consul::txn_operation> fence_checks(const slot_impl& slot);
  void sequencer(const slot_impl& slot, pending<holdfast::sequencer>&& waiting);
  /// The session that holds the slot of a mutex. Empty if the slot is not in use, in a child of fork(), and after the
  /// context has been destroyed.
  std::string holding_session(const slot_impl& slot);
  /// The descriptors of the files in the run directory that stand for the sessions of the slot.
  std::vector<int> maker_files(const slot_impl& slot);
  std::uint64_t next_proclaim() noexcept { return last_proclaim_.fetch_add(1, std::memory_order_relaxed) + 1; }
  void value_written(const slot_impl& slot, protocol::event::value_written e);
  void close(pending<>&& waiting);
  /// Sends a question of a user to the store. After the context has been destroyed, the question gets no answer.
  void ask(runtime::store_request question);
  void abandon() noexcept;
  const asio::any_io_executor& get_executor() const noexcept override { return executor_; }
  const runtime::store& store() const noexcept { return *store_; }
  const std::string& name() const noexcept { return options_.name; }
  std::uint32_t limit() const noexcept { return limit_.load(std::memory_order_relaxed); }
  semaphore_statistics statistics() const noexcept;

  void deliver(protocol::core_event&& e) override;

private:
  class locked;
  struct acquiring : pending<slot> {
    explicit acquiring(pending&& handler) : pending(std::move(handler)) {}
    protocol::ticket ticket{};
    diagnostics* diag = nullptr;
    std::uint32_t count = 1;

    bool is_hole() const { return !handler; }
    void leave_hole() {}  // nothing to do: the handler has been moved out
  };
  /// The state of a slot that is in use, or of one whose release is pending.
  struct slot_in_use {
    std::shared_ptr<slot_impl> slot{};
    pending<> on_released{};
  };
  template <class Key>
  struct canceller;

  template <class Key, class Handler>
  canceller<Key>* on_cancel(Handler& handler);
  void cancel(protocol::ticket ticket);
  using wait_id = std::pair<protocol::slot_id, std::uint64_t>;
  void cancel(wait_id wait);
  template <class... Results>
  static bool take_wait(std::map<wait_id, pending<Results...>>& from, wait_id wait, pending<Results...>& into);
  void keep_running();
  template <class... Results>
  void complete(pending<Results...>&& waiting, outcome ended, Results... results);
  slot_impl* in_use(protocol::slot_id id) const;
  std::string session_of(const slot_impl& slot);
  void make_requests(std::unique_lock<std::mutex> lock);
  void keep_files(const protocol::core_event& e);

  void feed(protocol::core_event&& e) { feed(std::move(e), runtime::now()); }
  void feed(protocol::core_event&& e, protocol::time_point now);
  void schedule();
  void sleep();

  /// All actions without an overload below are requests. They are queued here, and made when `locked` has unlocked the
  /// mutex.
  template <class Request>
  void perform(Request& a) {
    to_make_.push_back(std::move(a));
  }
  void perform(protocol::action::watch_makers& a);
  void perform(protocol::action::forget_session& a);
  void perform(protocol::action::grant& a);
  void perform(protocol::action::deny& a);
  void perform(protocol::action::fail& a);
  void perform(protocol::action::released& a);
  void perform(protocol::action::lose& a);
  void perform(protocol::action::revoke& a);
  void perform(protocol::action::update& a);
  void perform(protocol::action::closed& a);
  void perform(protocol::action::note& a);
  void tell_lost(protocol::slot_id id, loss_reason reason, diagnostics why, const std::string& lock = {});
  void end_waits(protocol::slot_id id, error_code ec, loss_reason reason);
  template <class... Results>
  void complete_all(std::map<wait_id, pending<Results...>>& waits, protocol::slot_id id, error_code ec,
                    Results... results);
  void log(std::string line);

  /// The handlers and requests that are pending when the execution context is destroyed, apart from the handlers that
  /// wait for a release, which are in `slots_`.
  struct what_waits {
    protocol::ticket_queue<acquiring> acquires;
    std::map<wait_id, pending<loss_reason>> losses;
    std::map<wait_id, pending<>> revocations;
    std::vector<pending<>> closes;
    std::vector<runtime::store_request> requests;
  };
  std::shared_ptr<void> on_context_shutdown() noexcept override;

  const runtime::driver_options options_;
  const std::unique_ptr<runtime::store> store_;

  std::mutex mutex_;
  std::vector<runtime::store_request> to_make_;  ///< made by one thread at a time, without the mutex
  bool makes_requests_ = false;                  ///< a thread is making requests
  std::condition_variable made_;                 ///< notified when that thread has finished
  bool gone_ = false;                            ///< the execution context has been destroyed
  asio::any_io_executor executor_;               ///< the store's
  asio::any_io_executor post_;                   ///< `executor_` with `blocking.never`, for posting
  /// The target of `post_` if `post_` is an executor of an io_context, else null. Most executors are, and a post to
  /// the target spares an allocation.
  using io_executor =
      decltype(asio::require(std::declval<asio::io_context::executor_type>(), asio::execution::blocking.never));
  const io_executor* post_to_io_ = nullptr;
  asio::any_io_executor work_;     ///< tracks outstanding work while handlers are pending
  std::size_t pending_count_ = 0;  ///< the number of pending handlers
  std::optional<asio::steady_timer> timer_;

  /// Null if there is no run directory. It is made and destroyed while the mutex is not locked, because that locks the
  /// list of the context's hooks.
  std::shared_ptr<runtime::maker_watch> makers_;
  runtime::session_files files_;
  std::atomic<bool> has_no_file_{false};  ///< the file of a session could not be made

  const std::unique_ptr<protocol::core> core_;
  protocol::core_actions actions_;
  protocol::time_point armed_ = protocol::never;
  bool sleeps_lightly_ = false;  ///< the timer may expire before `armed_`, only to read the clock
  bool closed_ = false;
  std::uint64_t last_ticket_ = 0;
  std::uint64_t last_wait_ = 0;

  protocol::ticket_queue<acquiring> acquires_;
  std::vector<slot_in_use> slots_;  ///< indexed by `index_of(id)`
  std::map<wait_id, pending<loss_reason>> losses_;
  std::map<wait_id, pending<>> revocations_;
  std::vector<pending<>> closes_;
  std::atomic<std::uint32_t> limit_;
  std::atomic<std::uint64_t> last_proclaim_{0};

  struct counters {
    std::atomic<std::uint64_t> granted{0}, handoffs{0}, lost{0}, waiting{0}, sessions{0}, held{0};
    /// Only the thread that holds the mutex writes, so the addition need not be atomic.
    static void add(std::atomic<std::uint64_t>& counter, int n = 1) noexcept {
      counter.store(counter.load(std::memory_order_relaxed) + static_cast<std::uint64_t>(n), std::memory_order_relaxed);
    }
  } counters_;
};

}  // namespace holdfast::detail
