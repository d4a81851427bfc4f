// SPDX-FileCopyrightText: The holdfast authors
// SPDX-License-Identifier: BSL-1.0

#pragma once

#include <boost/asio/any_io_executor.hpp>
#include <boost/asio/basic_waitable_timer.hpp>
#include <chrono>
#include <cstdint>
#include <functional>
#include <holdfast/local_store.hpp>
#include <holdfast/testing/store.hpp>
#include <list>
#include <memory>
#include <mutex>
#include <optional>
#include <utility>
#include <vector>

#include "lifetime/context_hook.hpp"
#include "platform/strand.hpp"
#include "protocol/core/events.hpp"

namespace holdfast::local {

namespace asio = boost::asio;

/// A pending read on a local store. It waits for news unless `index` is 0.
struct local_reader {
  const void* of = nullptr;  ///< the store that it belongs to
  protocol::request_id id{};
  testing::subject what{};
  std::uint64_t index = 0;
  std::chrono::steady_clock::time_point until{};
  std::function<void()> answer{};  ///< answers the read with the present state
  const void* handler = nullptr;   ///< identifies a question
};

/// The content of a local store, which may be used from several contexts.
struct local_state {
  explicit local_state(testing::store_options settings) : model(std::move(settings)) {}

  std::mutex mutex{};  ///< guards everything here, and the readers of all contexts
  testing::store model;
  std::uint64_t sessions_made = 0;
  bool is_closed = false;  ///< all requests are answered with error::closed
  std::vector<local_context*> contexts{};
};

/// The part of a local store that belongs to one execution context, with the reads that are pending there.
class local_context final : public std::enable_shared_from_this<local_context>, lifetime::context_hook {
public:
  using clock = std::chrono::steady_clock;

  static std::shared_ptr<local_context> make(std::shared_ptr<local_state> state, const asio::any_io_executor& executor);
  local_context(std::shared_ptr<local_state> state, const asio::any_io_executor& executor);
  ~local_context();
  using context_hook::process;

  static const std::shared_ptr<local_context>& of(const local_store& its) { return its.context_; }

  const std::shared_ptr<local_state>& state() const noexcept { return state_; }
  asio::any_io_executor executor() const;
  asio::any_io_executor strand() const;
  /// Calls `f` with the model. Then the reads of all contexts hear of what has changed.
  template <class Function>
  auto change(Function f) {
    const std::lock_guard lock(state_->mutex);
    auto result = f(state_->model);
    tell_all();
    return result;
  }
  bool is_closed() const {
    const std::lock_guard lock(state_->mutex);
    return state_->is_closed;
  }
  void close();
  /// Call it on the strand.
  void add(local_reader&& r);
  template <class Condition>
  void stop_if(Condition&& is_stopped) {
    std::list<local_reader> stopped;  // destroyed without the lock: a reader may own its driver
    const std::lock_guard lock(state_->mutex);
    for (auto at = readers_.begin(); at != readers_.end();) {
      const auto here = at++;
      if (is_stopped(*here)) stopped.splice(stopped.end(), readers_, here);
    }
    if (readers_.empty()) settle_later();  // it stops the timer
  }

private:
  using timer_type = asio::basic_waitable_timer<clock, asio::wait_traits<clock>, platform::strand_type>;

  void settle();
  void take_due(std::list<local_reader>& due);
  void settle_later() noexcept;
  void tell_all();
  std::shared_ptr<void> on_context_shutdown() noexcept override;

  const std::shared_ptr<local_state> state_;
  // The state's mutex guards the rest.
  asio::any_io_executor executor_;  ///< empty once the context is gone, as is the strand
  std::optional<platform::strand_type> strand_;
  std::list<local_reader> readers_;
  bool is_told_ = false;  ///< `settle` is posted
  std::optional<timer_type>
      timer_;  ///< not on an erased executor, whose copy may need memory where none may be missing
  std::shared_ptr<std::list<local_reader>> left_ =
      std::make_shared<std::list<local_reader>>();  ///< when the context goes
};

}  // namespace holdfast::local
