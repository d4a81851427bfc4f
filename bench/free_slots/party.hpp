// SPDX-FileCopyrightText: The holdfast authors
// SPDX-License-Identifier: BSL-1.0

#pragma once

#include <atomic>
#include <boost/asio/executor_work_guard.hpp>
#include <boost/asio/io_context.hpp>
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <cstdio>
#include <deque>
#include <functional>
#include <holdfast/holdfast.hpp>
#include <mutex>
#include <string>
#include <thread>
#include <utility>
#include <vector>

namespace holdfast::bench {

namespace asio = boost::asio;
using clock = std::chrono::steady_clock;
using std::chrono::duration;
using std::chrono::seconds;

inline double seconds_since(clock::time_point start) { return duration<double>(clock::now() - start).count(); }

/// A Consul client with its own connections, on its own thread.
class party {
public:
  explicit party(const std::string& address, const std::string& token = {}) : client(io_, settings(address, token)) {
    thread_ = std::thread([this] { io_.run(); });
  }
  party(const party&) = delete;
  party& operator=(const party&) = delete;
  ~party() { stop(); }

  /// Locks and slots of a stopped party must not be used, but they may be destroyed.
  void stop() {
    io_.stop();
    if (thread_.joinable()) thread_.join();
  }

private:
  static consul::config settings(const std::string& address, const std::string& token) {
    consul::config result;
    result.address = address;
    result.token = token;
    result.log = [](const holdfast::log_event& event) { std::fprintf(stderr, "client: %s\n", event.text().c_str()); };
    return result;
  }

  asio::io_context io_{1};
  asio::executor_work_guard<asio::io_context::executor_type> work_{io_.get_executor()};
  std::thread thread_;

public:
  consul::client client;
};

/// A party whose acquires hold their slots until the slots are lost. A lost slot is released at once, unless
/// `keep_lost` is set.
class crew {
public:
  bool keep_lost = false;
  /// Called on the party's thread for each grant.
  std::function<void(clock::time_point)> on_grant;

  crew(const std::string& address, semaphore_options options)
      : party_(address), semaphore_(party_.client, std::move(options)) {}
  crew(const crew&) = delete;
  crew& operator=(const crew&) = delete;
  ~crew() { party_.stop(); }

  void stop() { party_.stop(); }

  void acquire(std::uint32_t count) {
    for (std::uint32_t i = 0; i != count; ++i)
      semaphore_.acquire([this](error_code ec, slot held) { granted(ec, std::move(held)); });
  }

  std::uint32_t granted() const { return granted_; }
  std::uint32_t failed() const { return failed_; }
  std::uint32_t lost() const { return lost_; }

  /// Returns false if fewer than `count` slots were granted by `end`.
  bool wait_granted(std::uint32_t count, clock::time_point end) {
    std::unique_lock lock(mutex_);
    return changed_.wait_until(lock, end, [&] { return granted_ >= count; });
  }
  clock::time_point last_grant() {
    const std::lock_guard lock(mutex_);
    return last_grant_;
  }

private:
  void granted(error_code ec, slot held) {
    if (ec) {
      ++failed_;
      std::fprintf(stderr, "an acquire failed: %s\n", ec.message().c_str());
      return;
    }
    const auto now = clock::now();
    const std::size_t index = held_.size();
    held_.push_back(std::move(held));
    held_[index].wait_lost([this, index](error_code failed, loss_reason reason) {
      if (failed) return;
      if (++lost_ <= 3) std::fprintf(stderr, "a slot was lost: %s\n", std::string(to_string(reason)).c_str());
      if (!keep_lost) held_[index] = slot();
    });
    if (on_grant) on_grant(now);
    const std::lock_guard lock(mutex_);
    ++granted_;
    last_grant_ = now;
    changed_.notify_all();
  }

  party party_;
  std::deque<slot> held_;
  semaphore semaphore_;
  std::atomic<std::uint32_t> granted_ = 0, failed_ = 0, lost_ = 0;
  std::mutex mutex_;
  std::condition_variable changed_;
  clock::time_point last_grant_{};
};

}  // namespace holdfast::bench
