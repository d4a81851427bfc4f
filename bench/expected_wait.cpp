// SPDX-FileCopyrightText: The holdfast authors
// SPDX-License-Identifier: BSL-1.0

#include <boost/asio/co_spawn.hpp>
#include <chrono>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <random>

#include "measure.hpp"
#include "participant.hpp"
#include "row.hpp"
#include "workloads.hpp"

namespace holdfast::bench {
namespace {

using clock = std::chrono::steady_clock;

struct errors {
  double waits = 0, differences = 0;  ///< sums, in seconds
};

/// Acquires, holds for 1 to 9 ms, and releases. Adds how far each expected wait was from the wait that followed.
asio::awaitable<void> take_turns(semaphore& sem, clock::time_point begin, clock::time_point end, std::uint32_t seed,
                                 errors& seen) {
  std::minstd_rand random(seed);
  while (clock::now() < end) {
    diagnostics about;
    const acquire_options options{.diag = &about};
    const clock::time_point asked = clock::now();
    slot held = co_await sem.acquire(options);
    const double waited = std::chrono::duration<double>(clock::now() - asked).count();
    if (asked >= begin && about.queue && about.queue->expected_wait) {
      seen.waits += waited;
      seen.differences += std::abs(waited - std::chrono::duration<double>(*about.queue->expected_wait).count());
    }
    co_await sleep_for(std::chrono::milliseconds(1 + random() % 9));
    co_await held.release();
  }
}

asio::awaitable<void> close_at(participant& one, clock::time_point end) {
  co_await sleep_for(end - clock::now() + std::chrono::seconds(2));  // the last users have released their slots
  co_await one.close();
}

}  // namespace

void expected_wait(const parameters& p) {
  asio::io_context io(1);
  participant one(io, options_for(p));
  errors seen;
  const clock::time_point begin = clock::now() + std::chrono::seconds(1), end = begin + p.window;
  for (std::uint32_t i = 0; i < p.contenders; ++i)
    asio::co_spawn(io, take_turns(one.semaphore, begin, end, i + 1, seen), rethrow);
  asio::co_spawn(io, close_at(one, end), rethrow);
  io.run();
  row r;
  if (seen.waits > 0) r.wait_error = seen.differences / seen.waits;
  std::puts(r.to_json(p).c_str());
}

}  // namespace holdfast::bench
