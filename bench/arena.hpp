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

/// What the contenders of one closed loop share, in all processes: who is inside, who got how much, how long it took.
class arena {
public:
  explicit arena(const parameters& p);
  arena(const arena&) = delete;
  arena& operator=(const arena&) = delete;

  /// Makes the other processes, of which each returns from here, too, and says which of them this is. Nothing but the
  /// arena may exist by then: no thread, no connection.
  std::uint32_t spread();
  /// The first process prints the row, when the others have ended; those end here.
  void finish();

  bool stopping() const { return common_.stopping; }
  void entered(std::uint32_t client, std::uint32_t contender, clock::time_point asked, clock::time_point now);
  void leaving(std::uint32_t client, clock::time_point now);
  void cycled(clock::time_point asked, clock::time_point now);
  void failed(const boost::system::error_code& why);

  /// In the window a slot is let go at once. One thread runs all contenders of a process, so then nobody in it could
  /// ever be seen inside together; hence holders stay for a millisecond before and after the window, and let others run
  /// now and then in it.
  bool holds() { return long_hold_ || !measuring_ || ++held_ % 64 == 0; }
  asio::awaitable<void> hold();

  /// Waits until every client has had its turn, warms up, measures, goes on for a moment, then stops the contenders by
  /// `close`: in each process at the same times. `count` reads the counters of this process's clients.
  asio::awaitable<void> conduct(std::function<traffic()> count, std::function<asio::awaitable<void>()> close);

private:
  /// When slots were let go that nobody has taken again, the earliest first.
  class freed_slots {
  public:
    void push(clock::time_point now) { at_[pushed_++ % slots_max] = now.time_since_epoch().count(); }
    std::optional<clock::time_point> pop();

  private:
    static constexpr std::size_t slots_max = 1024;
    std::atomic<std::size_t> pushed_{0}, popped_{0};
    std::atomic<clock::rep> at_[slots_max]{};
  };

  /// What one process has to say of the window.
  struct part {
    latencies waits{}, handoffs{}, cycles{}, turns{};
    std::uint64_t operations = 0, errors = 0;
    traffic used{};
    duration measured{};
  };

  /// In memory that all processes share. Each part, and each contender's share, is written by one of them.
  struct board {
    limit_checker limit{};
    freed_slots freed{};
    std::atomic<std::uint32_t> served{0};       ///< clients that have had a turn
    std::atomic<std::uint32_t> last_client{0};  ///< to have had one
    std::atomic<clock::rep> begin{0};           ///< of the window, when that is known
    std::atomic<std::uint32_t> not_served{0};   ///< when it was
    std::atomic<bool> stopping{false};
    part parts[shape::processes_max];
    std::uint64_t shares[1];  ///< of each contender, in the window

    static board& make(std::uint32_t contenders);
  };

  struct history {
    clock::time_point left{};
    bool served = false;
  };
  void note_turn(std::uint32_t client, clock::time_point now);
  std::optional<double> fairness(std::uint64_t operations) const;
  void print() const;

  const parameters parameters_;
  const shape shape_;
  const bool handoff_;    ///< from process to process is what counts
  const bool long_hold_;  ///< each slot is held for a second
  board& common_;
  part* mine_ = common_.parts;
  std::vector<history> clients_;  ///< those of this process are kept up to date
  std::vector<int> children_;
  bool measuring_ = false;
  std::uint64_t held_ = 0;
};

/// One contender: acquires and lets go until the arena stops.
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
