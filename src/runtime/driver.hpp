#pragma once

#include <atomic>
#include <boost/asio/any_completion_executor.hpp>
#include <boost/asio/any_completion_handler.hpp>
#include <boost/asio/any_io_executor.hpp>
#include <boost/asio/cancellation_signal.hpp>
#include <boost/asio/steady_timer.hpp>
#include <holdfast/consul/client.hpp>
#include <holdfast/options.hpp>
#include <holdfast/semaphore.hpp>
#include <map>
#include <memory>
#include <optional>
#include <unordered_map>
#include <vector>

#include "consul/context_hook.hpp"
#include "protocol/pool.hpp"
#include "runtime/slot_impl.hpp"

namespace holdfast::detail {

namespace asio = boost::asio;

/// The I/O shell around one pool: brings it events, does what it says. It decides nothing. Its state lives on the
/// client's strand; what other threads may call says so.
///
/// Alive while a handle or an operation needs it; a held slot and its driver keep each other alive, until the slot is
/// released or lost, or the execution context goes.
class driver final : public std::enable_shared_from_this<driver>, consul::detail::context_hook {
public:
  driver(consul::client client, semaphore_options options);
  ~driver();

  // From any thread.
  void acquire(const acquire_request& request, asio::any_completion_handler<void(error_code, slot)> handler);
  void release(protocol::slot_id id, asio::any_completion_handler<void(error_code)> handler = {});
  void wait_lost(std::shared_ptr<slot_impl> slot, asio::any_completion_handler<void(error_code, loss_reason)> handler);
  void close(asio::any_completion_handler<void(error_code)> handler);
  void abandon() noexcept;
  asio::any_io_executor get_executor() const noexcept { return client_.get_executor(); }
  const semaphore_options& options() const noexcept { return options_; }
  semaphore_statistics statistics() const noexcept;

private:
  /// A handler that waits for the machine. Keeps its executor's run() from returning.
  template <class... Results>
  struct pending {
    explicit pending(asio::any_completion_handler<void(Results...)> h, const asio::any_io_executor& fallback);
    asio::any_completion_handler<void(Results...)> handler;
    asio::any_completion_executor work;
  };
  struct acquiring : pending<error_code, slot> {
    using pending::pending;
    diagnostics* diag = nullptr;
    std::uint32_t count = 1;
  };
  struct losing : pending<error_code, loss_reason> {
    losing(protocol::slot_id id, asio::any_completion_handler<void(error_code, loss_reason)> h,
           const asio::any_io_executor& fallback)
        : pending(std::move(h), fallback), slot(id) {}
    protocol::slot_id slot;
  };

  /// Runs `work(driver&)` on the strand, at once if this is it. Nothing happens once the context is gone.
  template <class Work>
  void enter(Work work) noexcept;
  template <class Handler, class Cancel>
  void on_cancel(Handler& handler, Cancel cancel);
  template <class Pending, class... Results>
  void complete(Pending&& waiting, Results... results);

  void feed(protocol::pool_event e);
  void schedule();
  void sleep();

  void perform(protocol::action::create_session& a);
  void perform(protocol::action::renew_session& a);
  void perform(protocol::action::destroy_session& a);
  void perform(protocol::action::send_txn& a);
  void perform(protocol::action::list_prefix& a);
  void perform(protocol::action::watch_key& a);
  void perform(protocol::action::stop_watch& a);
  void perform(protocol::action::grant& a);
  void perform(protocol::action::deny& a);
  void perform(protocol::action::fail& a);
  void perform(protocol::action::released& a);
  void perform(protocol::action::lose& a);
  void perform(protocol::action::update& a);
  void perform(protocol::action::closed& a);
  void perform(protocol::action::note& a);
  void end_waits(protocol::slot_id id, error_code ec, loss_reason reason);
  template <class Reply>
  auto reply_to(Reply reply);
  consul::read_options read_options(std::uint64_t index, protocol::duration wait, diagnostics& words) const;
  template <class Reply>
  auto stoppable(protocol::request_id id, Reply reply);

  void on_context_shutdown() noexcept override;

  const semaphore_options options_;
  consul::client client_;
  consul::request_options request_;
  std::optional<asio::any_io_executor> strand_;
  std::optional<asio::steady_timer> timer_;
  std::atomic<bool> gone_{false};            ///< the execution context is
  std::atomic<std::uint64_t> next_wait_{1};  ///< keys of `losses_`

  protocol::pool pool_;
  protocol::time_point armed_ = protocol::never;
  std::map<protocol::request_id, asio::cancellation_signal> watches_;  ///< to stop them by
  bool closed_ = false;
  std::uint64_t last_ticket_ = 0;

  std::unordered_map<std::uint64_t, acquiring> acquires_;
  std::unordered_map<std::uint64_t, std::shared_ptr<slot_impl>> slots_;
  std::unordered_map<std::uint64_t, pending<error_code>> releases_;
  std::map<std::uint64_t, losing> losses_;
  std::vector<pending<error_code>> closes_;

  struct counters {
    std::atomic<std::uint64_t> granted{0}, handoffs{0}, lost{0}, waiting{0}, sessions{0}, held{0};
  } counters_;
};

}  // namespace holdfast::detail
