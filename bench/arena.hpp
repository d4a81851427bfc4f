#pragma once

#include <boost/asio/as_tuple.hpp>
#include <boost/asio/awaitable.hpp>
#include <boost/asio/deferred.hpp>
#include <boost/system/error_code.hpp>
#include <cstdint>
#include <deque>
#include <functional>
#include <optional>
#include <vector>

#include "measure.hpp"
#include "parameters.hpp"
#include "row.hpp"

namespace holdfast::bench {

namespace asio = boost::asio;

/// What the contenders of one closed loop share: who is inside, who got how much, and how long it took.
class arena {
public:
  explicit arena(const parameters& p);

  bool stopping() const { return stopping_; }
  void entered(std::uint32_t process, std::uint32_t contender, clock::time_point asked, clock::time_point now);
  void leaving(std::uint32_t process, clock::time_point now);
  void cycled(clock::time_point asked, clock::time_point now);
  void failed(const boost::system::error_code& why);

  /// In the window a slot is let go at once. One thread runs everything here, so then nobody could ever be seen inside
  /// together; hence holders stay for a millisecond before and after the window, and let others run now and then in it.
  bool holds() { return !measuring_ || ++held_ % 64 == 0; }
  asio::awaitable<void> hold();

  /// Waits until every process had its turn, warms up, measures, goes on for a moment, then stops the contenders by
  /// `close`. `count` reads the clients' counters.
  asio::awaitable<void> conduct(std::function<traffic()> count, std::function<asio::awaitable<void>()> close);
  void print() const;

private:
  struct participant {
    clock::time_point left{};
    std::uint64_t entered = 0;
  };
  bool all_had_a_turn() const;
  void note_turn(std::uint32_t process, clock::time_point now);
  std::optional<double> fairness() const;

  const parameters parameters_;
  const shape shape_;
  limit_checker limit_;
  bool limit_held_ = false;
  bool measuring_ = false, stopping_ = false;
  std::vector<participant> processes_;
  std::vector<std::uint64_t> shares_;  ///< of each contender, in the window
  std::uint32_t last_process_ = 0;
  std::deque<clock::time_point> freed_;  ///< slots that were let go and not taken again, since when
  latencies waits_, handoffs_, cycles_, turns_;
  std::uint64_t operations_ = 0, errors_ = 0, held_ = 0;
  traffic traffic_;
  duration measured_{};
};

/// One contender: acquires and lets go until the arena stops.
template <class Semaphore>
asio::awaitable<void> contend(Semaphore& semaphore, arena& a, std::uint32_t process, std::uint32_t contender) {
  auto now = clock::now();
  while (!a.stopping()) {
    const auto asked = now;
    auto [failure, slot] = co_await semaphore.acquire(asio::as_tuple(asio::deferred));
    if (failure) {
      a.failed(failure);
      break;
    }
    auto left = clock::now();
    a.entered(process, contender, asked, left);
    if (a.holds()) {
      co_await a.hold();
      left = clock::now();
    }
    a.leaving(process, left);
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
