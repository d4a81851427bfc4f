// SPDX-FileCopyrightText: The holdfast authors
// SPDX-License-Identifier: BSL-1.0

#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <boost/asio/bind_cancellation_slot.hpp>
#include <boost/asio/cancellation_signal.hpp>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/detached.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/test/unit_test.hpp>
#include <holdfast/holdfast.hpp>
#include <holdfast/local_store.hpp>
#include <memory>
#include <optional>
#include <stop_token>
#include <string>
#include <thread>
#include <vector>

#include "support/async.hpp"
#include "support/memory_store.hpp"
#include "support/participant.hpp"

// Locks without a server. `unit.store_contract` runs every rule for stores on the local store, too.

BOOST_AUTO_TEST_SUITE(local_stores)

namespace {

using namespace holdfast;
namespace asio = boost::asio;
using namespace std::chrono_literals;

semaphore_options of(std::uint32_t limit) {
  semaphore_options options;
  options.prefix = "service/db";
  options.limit = limit;
  return options;
}

}  // namespace

ASYNC_TEST_CASE(stores_share_slots_only_with_their_copies, 20s) {
  const local_store store(ex);
  // NOLINTNEXTLINE(performance-unnecessary-copy-initialization): it is the copy that is tested
  const local_store copy = store, other(ex);
  semaphore first(store, of(1)), second(copy, of(1)), apart(other, of(1));
  slot held = co_await first.acquire();
  const slot none = co_await second.try_acquire();
  BOOST_TEST(!none);
  const slot its = co_await apart.try_acquire();
  BOOST_TEST(its.held());
  co_await held.release();
  const slot next = co_await second.acquire();
  BOOST_TEST(next.held());
  BOOST_TEST((next.fencing_token() > fencing_token()));
}

ASYNC_TEST_CASE(what_is_cancelled_is_answered_soon, 20s) {
  const local_store store(ex);
  semaphore sem(store, of(1));
  slot held = co_await sem.acquire();
  asio::cancellation_signal stop_acquire, stop_wait;
  std::optional<error_code> acquired, lost;
  sem.acquire(asio::bind_cancellation_slot(stop_acquire.slot(), [&](error_code ec, slot) { acquired = ec; }));
  held.wait_lost(asio::bind_cancellation_slot(stop_wait.slot(), [&](error_code ec, loss_reason) { lost = ec; }));
  stop_acquire.emit(asio::cancellation_type::total);
  stop_wait.emit(asio::cancellation_type::total);
  for (int i = 0; i < 200 && !(acquired && lost); ++i) co_await test::pause(1ms);
  BOOST_REQUIRE(acquired.has_value());
  BOOST_REQUIRE(lost.has_value());
  BOOST_TEST(*acquired == asio::error::operation_aborted);
  BOOST_TEST(*lost == asio::error::operation_aborted);
  BOOST_TEST(held.held());
}

ASYNC_TEST_CASE(a_loss_requests_a_stop, 20s) {
  const local_store store(ex);
  semaphore sem(store, of(1));
  slot held = co_await sem.acquire();
  const std::stop_token stop = held.stop_token();
  store.end_sessions();
  const loss_reason why = co_await held.wait_lost();
  BOOST_TEST(why == loss_reason::session_invalidated);
  BOOST_TEST(stop.stop_requested());  // else a caller could not join a thread here that waits for the stop
}

/// The context does not run while the lease expires, so nothing but the clock can end the slot.
ASYNC_TEST_CASE(a_slot_whose_lease_has_expired_is_not_held, 20s) {
  const local_store store(ex);
  semaphore_options options = of(1);
  options.session_ttl = 300ms;
  semaphore sem(store, options);
  const auto before = std::chrono::steady_clock::now();
  const slot held = co_await sem.acquire();
  const bool is_held = held.held();
  // A busy machine may have let the lease expire already.
  BOOST_TEST((is_held || std::chrono::steady_clock::now() - before >= 300ms));
  std::this_thread::sleep_for(400ms);
  BOOST_TEST(!held.held());
  BOOST_TEST(held.lost_because() == loss_reason::lease_expired);
}

ASYNC_TEST_CASE(an_operator_can_do_all_that_he_can_on_consul, 20s) {
  const local_store store(ex);
  semaphore_administration admin(store, {.prefix = "service/db"});
  co_await admin.create(1);
  semaphore_options options = of(1);
  options.use_recorded_limit = true;
  semaphore sem(store, options);
  slot first = co_await sem.acquire();
  co_await admin.resize(2);
  slot second = co_await sem.acquire();
  const semaphore_status now = co_await admin.inspect();
  BOOST_TEST(now.limit == 2u);
  BOOST_REQUIRE(now.holders.size() == 2u);
  co_await admin.evict(now.holders.front().session);
  co_await admin.evict(now.holders.back().session);
  const loss_reason why = co_await first.wait_lost();
  BOOST_TEST(why == loss_reason::session_invalidated);
  co_await sem.close();
  co_await admin.destroy();
  const semaphore_status then = co_await admin.inspect();
  BOOST_TEST(!then.exists);
}

ASYNC_TEST_CASE(leaders_observers_and_sequencers, 20s) {
  const local_store store(ex);
  election candidate(store, {.key = "leader"});
  leadership term = co_await candidate.campaign("me");
  election_observer observer(store, "leader");
  const std::optional<leader> seen = co_await observer.next();
  BOOST_REQUIRE(seen.has_value());
  BOOST_TEST(seen->value == "me");
  co_await term.proclaim("still me");
  const std::optional<leader> proclaimed = co_await observer.next();
  BOOST_REQUIRE(proclaimed.has_value());
  BOOST_TEST(proclaimed->value == "still me");
  const sequencer proof = co_await sequencer_of(term);
  const bool is_held = co_await verify(store, proof);
  BOOST_TEST(is_held);
  co_await term.resign();
  const bool is_still_held = co_await verify(store, proof);
  BOOST_TEST(!is_still_held);
}

ASYNC_TEST_CASE(there_are_no_fence_checks, 20s) {
  const local_store store(ex);
  semaphore sem(store, of(1));
  const slot held = co_await sem.acquire();
  try {
    (void)held.fence_checks();
    BOOST_ERROR("it throws nothing");
  } catch (const system_error& why) {
    BOOST_TEST(why.code() == boost::system::errc::operation_not_supported);
    BOOST_TEST(std::string(why.what()).find("local_store") != std::string::npos);
  }
}

BOOST_AUTO_TEST_CASE(several_contexts_and_threads_share_one) {
  constexpr int contexts = 3, rounds = 200;
  constexpr std::uint32_t limit = 2;
  asio::io_context first(1);
  const local_store store(first);
  std::atomic<std::uint32_t> holders{0};
  std::atomic<int> done{0};
  std::atomic<bool> is_above{false};
  auto work = [&](local_store its) -> asio::awaitable<void> {
    semaphore sem(its, of(limit));
    for (int i = 0; i != rounds; ++i) {
      slot held = co_await sem.acquire();
      if (++holders > limit) is_above = true;
      std::this_thread::yield();
      --holders;
      co_await held.release();
      ++done;
    }
    co_await sem.close();
  };
  std::vector<std::thread> threads;
  for (int i = 0; i != contexts; ++i)
    threads.emplace_back([&] {
      asio::io_context io(1);
      asio::co_spawn(io, work(store.on(io)), [](const std::exception_ptr& failed) {
        if (failed) std::rethrow_exception(failed);
      });
      io.run();  // it has no more work when the semaphore is closed
    });
  for (std::thread& each : threads) each.join();
  BOOST_TEST(!is_above);
  BOOST_TEST(done == contexts * rounds);
}

BOOST_AUTO_TEST_CASE(a_command_that_waits_ends_with_its_context) {
  auto io = std::make_unique<asio::io_context>(1);
  auto owned = std::make_shared<int>();
  const std::weak_ptr<int> watched = owned;
  {
    const local_store store(*io);
    semaphore sem(store, of(1));
    semaphore_administration admin(store, {.prefix = "service/db"});
    slot held;
    asio::co_spawn(
        *io,
        [&]() -> asio::awaitable<void> {
          held = co_await sem.acquire();
          co_await admin.close();
        },
        asio::detached);
    io->run_for(100ms);
    BOOST_REQUIRE(held.held());
    admin.wait_until_drained([owned](const error_code&) {});
    owned.reset();
    io->run_for(50ms);
    BOOST_TEST(!watched.expired());
    io.reset();
    BOOST_TEST(watched.expired());
  }
}

BOOST_AUTO_TEST_CASE(nothing_is_left_of_a_read_that_was_cancelled) {
  asio::io_context io(1);
  const local_store store(io);
  election_observer observer(store, "leader");
  asio::cancellation_signal stop;
  int answers = 0;
  error_code last;
  const auto next = [&] {
    observer.next(asio::bind_cancellation_slot(stop.slot(), [&](const error_code& ec, const std::optional<leader>&) {
      last = ec;
      ++answers;
    }));
  };
  next();  // there is no leader
  io.run_for(test::scaled(5s));
  BOOST_TEST(answers == 1);
  next();
  io.restart();
  io.run_for(50ms);
  BOOST_TEST(answers == 1);
  stop.emit(asio::cancellation_type::terminal);
  io.run_for(test::scaled(5s));  // it returns when there is no more work
  BOOST_TEST(answers == 2);
  BOOST_TEST(last == asio::error::operation_aborted);
  BOOST_TEST(io.stopped());
  next();
  stop.emit(asio::cancellation_type::terminal);  // before the read has begun
  io.restart();
  io.run_for(test::scaled(5s));
  BOOST_TEST(answers == 3);
  BOOST_TEST(io.stopped());
}

/// Another thread of the parent may have held the store's lock at the fork.
BOOST_AUTO_TEST_CASE(handles_can_be_destroyed_in_a_child_of_fork) {
  asio::io_context io(1);
  const test::memory_store store(io);
  std::optional<semaphore_administration> admin(std::in_place, store, administration_options{.prefix = "s"});
  std::optional<election_observer> observer(std::in_place, store, "leader");
  pid_t child = -1;
  {
    const auto held = store.locked();
    child = ::fork();
    if (child == 0) {
      ::signal(SIGALRM, SIG_DFL);
      ::alarm(10);
      admin.reset();
      observer.reset();
      store.end_sessions();
      ::_exit(store.get_executor() ? 1 : 0);
    }
  }
  int status = -1;
  BOOST_REQUIRE(::waitpid(child, &status, 0) == child);
  BOOST_TEST(status == 0);
}

BOOST_AUTO_TEST_CASE(a_store_may_outlive_a_context_with_waiters) {
  asio::io_context io(1);
  const local_store store(io);
  semaphore sem(store, of(1));
  slot held;
  asio::co_spawn(
      io, [&]() -> asio::awaitable<void> { held = co_await sem.acquire(); }, asio::detached);
  io.run_for(100ms);
  BOOST_REQUIRE(held.held());
  auto other = std::make_unique<asio::io_context>(1);
  const local_store there = store.on(*other);
  bool is_answered = false;
  {
    semaphore waiting(there, of(1));
    asio::co_spawn(
        *other,
        [&]() -> asio::awaitable<void> {
          const slot its = co_await waiting.acquire();
          is_answered = true;
        },
        asio::detached);
    other->run_for(100ms);
    other.reset();
  }
  BOOST_TEST(!is_answered);
  BOOST_TEST(!there.get_executor());
  held = {};
  io.restart();
  slot next;
  asio::co_spawn(
      io, [&]() -> asio::awaitable<void> { next = co_await sem.acquire(); }, asio::detached);
  for (int i = 0; i != 500 && !next.held(); ++i) io.run_one_for(10ms);
  BOOST_TEST(next.held());
}

BOOST_AUTO_TEST_SUITE_END()
