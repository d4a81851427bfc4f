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

// What tests of semaphores on a real agent share: participants, a look at Consul that does not use the library, waiting
// for facts, and the count of those who believe that they hold.
namespace holdfast::test {

namespace asio = boost::asio;
using namespace std::chrono_literals;

/// Options for tests that are not about time: no lease runs out on a busy machine.
semaphore_options calm(std::string prefix, std::uint32_t limit);
/// Options for tests that wait for leases to run out.
semaphore_options hasty(std::string prefix, std::uint32_t limit, std::chrono::milliseconds ttl);

/// Destroys what they hold: `close` waits for handles of lost slots, and what was lost is not used anew before.
template <class... Slots>
void let_go(Slots&&... held) {
  ((held = std::remove_reference_t<Slots>()), ...);
}

/// A participant as another process would be one: with a client of its own.
struct participant {
  participant(const asio::any_io_executor& ex, const std::string& address, semaphore_options options);
  participant(const asio::any_io_executor& ex, const agent& through, semaphore_options options)
      : participant(ex, through.address(), std::move(options)) {}
  consul::client client;
  semaphore sem;
};

mutex_options calm(std::string key);
/// The same of a mutex.
struct locker {
  locker(const asio::any_io_executor& ex, const agent& through, mutex_options options);
  consul::client client;
  holdfast::mutex mutex;
};

mutex_set_options calm_set(std::string prefix);
/// The same of a mutex set.
struct set_user {
  set_user(const asio::any_io_executor& ex, const std::string& address, mutex_set_options options);
  set_user(const asio::any_io_executor& ex, const agent& through, mutex_set_options options)
      : set_user(ex, through.address(), std::move(options)) {}
  consul::client client;
  mutex_set set;
};

/// What Consul answers to a recursive read below the prefix, all indexes included; empty if there is nothing.
std::string listing(const agent& a, const std::string& prefix);
/// The value of the lock key, empty if there is none.
std::string record(const agent& a, const std::string& prefix);
/// Who the record names, dead or alive.
std::vector<std::string> holders(const agent& a, const std::string& prefix);
/// The sessions that have contender entries, holders included, in the order of the queue.
std::vector<std::string> contenders(const agent& a, const std::string& prefix);
/// The sessions that holdfast has created for the prefix.
std::vector<std::string> sessions(const agent& a, const std::string& prefix);
/// Whether nothing is left: no entry, no holder, no session.
bool is_clean(const agent& a, const std::string& prefix);
void write_key(const agent& a, const std::string& key, std::string_view value, std::uint64_t flags = 0);

/// Waits for a fact that no event tells; a test failure if it does not become one within `limit`.
asio::awaitable<void> until(std::string_view fact, std::function<bool()> holds, std::chrono::milliseconds limit = 15s);
/// The same, and tells. For facts whose time is under test.
asio::awaitable<bool> happens_within(std::chrono::milliseconds limit, std::function<bool()> holds);
asio::awaitable<void> pause(std::chrono::microseconds time);

/// Coroutines that run beside the test. What one of them throws fails the test in `join`.
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

/// Counts who believes to hold, on one thread.
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
