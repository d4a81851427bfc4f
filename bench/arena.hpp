// SPDX-FileCopyrightText: The holdfast authors
// SPDX-License-Identifier: BSL-1.0

#pragma once

#include <boost/asio/as_tuple.hpp>
#include <boost/asio/awaitable.hpp>
#include <boost/asio/deferred.hpp>
#include <boost/system/error_code.hpp>
#include <cstdint>
#include <functional>
#include <optional>
#include <vector>

#include "measure.hpp"
#include "parameters.hpp"
#include "row.hpp"

namespace holdfast::bench {

namespace asio = boost::asio;

/// The state that the contenders of one closed loop share in all processes. It counts the contenders that are inside,
/// the slots that each of them got, and the times that this took.
class arena {
public:
  explicit arena(const parameters& p);
  arena(const arena&) = delete;
  arena& operator=(const arena&) = delete;

  /// Forks the other processes. The call returns in each process, with that process's number. Nothing but the arena may
  /// exist when it is called: no thread, no connection.
  std::uint32_t spread();
  /// Ends every process but the first. The first process waits for the others, and then prints the row.
  void finish();

  bool stopping() const { return common_.stopping; }
  void entered(std::uint32_t client, std::uint32_t contender, clock::time_point asked, clock::time_point now);
  void leaving(std::uint32_t client, clock::time_point now);
  void cycled(clock::time_point asked, clock::time_point now);
  void failed(const boost::system::error_code& why);

  /// True if a holder must `hold` before it releases. In the workload long-hold each holder stays for a second. In
  /// others a holder releases its slot at once in the window. One thread runs all contenders of a process, so two of
  /// them would never be inside at the same time, and the limit check would see nothing. Therefore holders stay for a
  /// millisecond before and after the window, and each 64th hold of a process lets others run. If `parameters::broken`,
  /// they stay until too many are inside.
  bool holds() { return long_hold_ || !measuring_ || ++held_ % 64 == 0; }
  asio::awaitable<void> hold();

  /// Waits until every client has had a turn, and until too many were inside if `parameters::broken`. That takes 30 s
  /// at most. Then it warms up, measures, goes on for a moment, and stops the contenders by `close`. The window begins
  /// at the same time in each process. `count` reads the counters of this process's clients.
  asio::awaitable<void> conduct(std::function<traffic()> count, std::function<asio::awaitable<void>()> close);

private:
  /// The times at which slots were released that no contender has taken since, the earliest first.
  class freed_slots {
  public:
    void push(clock::time_point now) { at_[pushed_++ % slots_max] = now.time_since_epoch().count(); }
    std::optional<clock::time_point> pop();

  private:
    static constexpr std::size_t slots_max = 1024;
    std::atomic<std::size_t> pushed_{0}, popped_{0};
    std::atomic<clock::rep> at_[slots_max]{};
  };

  /// The results of one process in the window. `errors` also has those before and after it, until the arena stops.
  struct part {
    latencies waits{}, handoffs{}, cycles{}, turns{};
    std::uint64_t operations = 0, errors = 0;
    traffic used{};
    duration measured{};
  };

  /// Lies in memory that all processes share. Each part, and each element of `shares`, is written by one process only.
  struct board {
    limit_checker limit{};
    freed_slots freed{};
    std::atomic<std::uint32_t> served{0};       ///< clients that have had a turn
    std::atomic<std::uint32_t> last_client{0};  ///< the client that had a turn last
    std::atomic<clock::rep> begin{0};           ///< of the window; 0: not known yet
    std::atomic<std::uint32_t> not_served{0};   ///< clients without a turn when `begin` was set
    std::atomic<bool> stopping{false};
    part parts[shape::processes_max];
    std::uint64_t shares[1];  ///< the slots that each contender got in the window

    static board& make(std::uint32_t contenders);
  };

  struct history {
    clock::time_point left{};
    bool served = false;
  };
  void note_turn(std::uint32_t client, clock::time_point now);
  bool must_be_noticed() const { return parameters_.broken && common_.limit.held(parameters_.limit); }
  std::optional<double> fairness(std::uint64_t operations) const;
  void print() const;

  const parameters parameters_;
  const shape shape_;
  const bool handoff_;    ///< the times from a release to the next entry are measured
  const bool long_hold_;  ///< each slot is held for a second
  board& common_;
  part* mine_ = common_.parts;
  std::vector<history> clients_;  ///< those of this process are kept up to date
  std::vector<int> children_;
  bool measuring_ = false;
  std::uint64_t held_ = 0;
};

/// One contender: acquires and releases until the arena stops or an acquire fails.
template <class Semaphore>
asio::awaitable<void> contend(Semaphore& semaphore, arena& a, std::uint32_t client, std::uint32_t contender) {
  auto now = clock::now();
  while (!a.stopping()) {
    const auto asked = now;
    auto [failure, slot] = co_await semaphore.acquire(asio::as_tuple(asio::deferred));
    if (failure) {
      a.failed(failure);
      break;
    }
    auto left = clock::now();
    a.entered(client, contender, asked, left);
    if (a.holds()) {
      co_await a.hold();
      left = clock::now();
    }
    a.leaving(client, left);
    if constexpr (requires { slot.give_back(); }) {
      slot.give_back();
    } else {
      auto [lost] = co_await slot.release(asio::as_tuple(asio::deferred));
      if (lost) a.failed(lost);
    }
    now = clock::now();
    a.cycled(asked, now);
  }
}

}  // namespace holdfast::bench
