// SPDX-FileCopyrightText: The holdfast authors
// SPDX-License-Identifier: BSL-1.0

#pragma once

#include <atomic>
#include <cstdint>
#include <holdfast/mutex.hpp>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "protocol/core/core.hpp"
#include "runtime/maker_watch.hpp"
#include "runtime/session_files.hpp"
#include "runtime/setup.hpp"
#include "runtime/shell.hpp"
#include "runtime/slot_impl.hpp"
#include "runtime/store.hpp"

namespace holdfast::detail {

/// The shell of a core that keeps its sessions, its record and its entries in a store. The driver feeds the answers of
/// the store to the core, and queues the core's requests to the store. It decides nothing, and works with every kind of
/// core and of store.
class driver final : public shell, public runtime::event_sink {
public:
  driver(std::unique_ptr<runtime::store> store, runtime::driver_options options, std::unique_ptr<protocol::core> core);
  ~driver();

  // The following functions may be called on any thread.
  std::vector<consul::txn_operation> fence_checks(const slot_impl& slot);
  void sequencer(const slot_impl& slot, pending<holdfast::sequencer>&& waiting);
  /// The session that holds the slot of a mutex. Empty if the slot is not in use, in a child of fork(), and after the
  /// context has been destroyed.
  std::string holding_session(const slot_impl& slot);
  /// The descriptors of the files in the run directory that stand for the sessions of the slot.
  std::vector<int> maker_files(const slot_impl& slot);
  std::uint64_t next_proclaim() noexcept { return last_proclaim_.fetch_add(1, std::memory_order_relaxed) + 1; }
  void value_written(const slot_impl& slot, protocol::event::value_written e);
  /// Sends a question of a user to the store. After the context has been destroyed, the question gets no answer.
  void ask(runtime::store_request question);
  const runtime::store& store() const noexcept { return *store_; }

  void deliver(protocol::core_event&& e) override;

private:
  std::shared_ptr<driver> self() { return std::static_pointer_cast<driver>(shared_from_this()); }
  void keep_files(const protocol::core_event& e);
  void feed(protocol::core_event&& e, protocol::time_point now) noexcept;

  using shell::perform;
  /// All actions without another overload are requests. They are queued here, and made when `locked` has unlocked the
  /// mutex.
  template <class Request>
  void perform(Request& a) {
    to_make_.push_back(std::move(a));
  }
  void perform(protocol::action::watch_makers& a);
  void perform(protocol::action::forget_session& a);

  void step(protocol::user_event&& e, protocol::time_point now) override;
  acquire_time time_for_acquire() const override;
  std::optional<protocol::queue_state> queue(std::size_t holders_max) const override {
    return core_->queue(holders_max);
  }
  std::optional<protocol::failure> why_unavailable() const override { return core_->why_unavailable(); }
  std::shared_ptr<hold_impl> make_hold(protocol::action::grant& a, std::uint32_t count) override;
  std::string session_of(protocol::slot_id id) const override;
  /// As above. Empty if `slot` is no longer in use.
  std::string session_in_use(const slot_impl& slot) const;
  held_slot describe(const hold_impl& held) const override;
  std::string advice_on_expiry(const diagnostics& why) const override { return store_->advice_on_expiry(why); }
  bool has_requests() const noexcept override { return !to_make_.empty(); }
  void make_requests(std::unique_lock<std::mutex>& lock) override;
  void make_request(runtime::store_request&& request, const std::shared_ptr<driver>& sink) noexcept;
  void closed() override;
  asio::any_io_executor strand() const override { return store_->strand(); }
  std::shared_ptr<void> take_requests() noexcept override;
  void leave_context() noexcept override;

  const std::unique_ptr<runtime::store> store_;
  const std::unique_ptr<protocol::core> core_;
  protocol::core_actions actions_;
  std::vector<runtime::store_request> to_make_;  ///< made by one thread at a time, without the mutex
  /// For those that are left when the context is destroyed.
  std::shared_ptr<std::vector<runtime::store_request>> left_ = std::make_shared<std::vector<runtime::store_request>>();
  std::atomic<std::uint64_t> last_proclaim_{0};
  protocol::core_trust trust_{};  ///< as of the last step

  const std::string lock_key_;
  runtime::run_directory* const directory_;  ///< null if there is none
  /// Null if there is no run directory. It is made and destroyed while the mutex is not locked, because that locks the
  /// list of the context's hooks.
  std::shared_ptr<runtime::maker_watch> makers_;
  runtime::session_files files_;
};

}  // namespace holdfast::detail
