// SPDX-FileCopyrightText: The holdfast authors
// SPDX-License-Identifier: BSL-1.0

#pragma once

#include <boost/asio/any_io_executor.hpp>
#include <boost/asio/awaitable.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <functional>
#include <holdfast/holdfast.hpp>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "support/agent.hpp"
#include "support/async.hpp"

// Helpers for tests of semaphores on a real agent: participants, reads of Consul that do not use the library, waits for
// facts, and a counter of the participants that believe that they hold a slot.
namespace holdfast::test {

namespace asio = boost::asio;
using namespace std::chrono_literals;

/// Options for tests that are not about time. No lease runs out, even on a busy machine.
semaphore_options calm(std::string prefix, std::uint32_t limit);
/// Options for tests that wait for leases to run out.
semaphore_options hasty(std::string prefix, std::uint32_t limit, std::chrono::milliseconds ttl);

/// Destroys the handles. `close` waits for handles of lost slots, and the share of a lost slot is not used again while
/// its handle exists.
template <class... Slots>
void let_go(Slots&&... held) {
  ((held = std::remove_reference_t<Slots>()), ...);
}

/// Stands for another process: it has a client of its own.
struct participant {
  participant(const asio::any_io_executor& ex, const std::string& address, semaphore_options options);
  participant(const asio::any_io_executor& ex, const agent& through, semaphore_options options)
      : participant(ex, through.address(), std::move(options)) {}
  consul::client client;
  semaphore sem;
};

mutex_options calm(std::string key);
/// A participant with a mutex.
struct locker {
  locker(const asio::any_io_executor& ex, const agent& through, mutex_options options);
  consul::client client;
  holdfast::mutex mutex;
};

mutex_set_options calm_set(std::string prefix);
/// A participant with a mutex set.
struct set_user {
  set_user(const asio::any_io_executor& ex, const std::string& address, mutex_set_options options);
  set_user(const asio::any_io_executor& ex, const agent& through, mutex_set_options options)
      : set_user(ex, through.address(), std::move(options)) {}
  consul::client client;
  mutex_set set;
};

/// Consul's reply to a recursive read below the prefix, with all indexes. Empty if there are no keys.
std::string listing(const agent& a, const std::string& prefix);
/// The value of the lock key, empty if there is none.
std::string record(const agent& a, const std::string& prefix);
/// The sessions that the record names as holders, whether they exist or not.
std::vector<std::string> holders(const agent& a, const std::string& prefix);
/// The sessions that have contender entries, holders included, in the order of the queue.
std::vector<std::string> contenders(const agent& a, const std::string& prefix);
/// The sessions that holdfast has created for the prefix.
std::vector<std::string> sessions(const agent& a, const std::string& prefix);
/// True if no entry, no holder and no session is left.
bool is_clean(const agent& a, const std::string& prefix);
void write_key(const agent& a, const std::string& key, std::string_view value, std::uint64_t flags = 0);

/// Polls until a fact holds for which there is no event. The test fails if that takes longer than `limit`,
/// scaled as in `run_async`. The limit only ends a test that hangs: a busy processor may delay it by many seconds.
asio::awaitable<void> until(std::string_view fact, std::function<bool()> holds,
                            std::chrono::milliseconds limit = least_deadline_of_a_case);
/// The same, but returns whether the fact came to hold. For facts whose time is under test.
asio::awaitable<bool> happens_within(std::chrono::milliseconds limit, std::function<bool()> holds);
asio::awaitable<void> pause(std::chrono::microseconds time);

/// Coroutines that run beside the test. If one of them throws, the test fails in `join`.
class companions {
public:
  explicit companions(asio::any_io_executor ex);
  void start(asio::awaitable<void> body);
  std::size_t running() const;
  asio::awaitable<void> join();

private:
  struct state;
  asio::any_io_executor ex_;
  std::shared_ptr<state> state_;
};

/// Counts the slots that are believed to be held. For use on one thread.
class crowd {
public:
  void enter(int slots = 1) { most_ = std::max(most_, now_ += slots); }
  void leave(int slots = 1) { now_ -= slots; }
  int now() const { return now_; }
  int most() const { return most_; }

private:
  int now_ = 0;
  int most_ = 0;
};

}  // namespace holdfast::test
