// SPDX-FileCopyrightText: The holdfast authors
// SPDX-License-Identifier: BSL-1.0

#include <fcntl.h>
#include <poll.h>
#include <unistd.h>

#include <array>
#include <boost/asio/io_context.hpp>
#include <boost/test/unit_test.hpp>
#include <chrono>
#include <cstddef>
#include <filesystem>
#include <memory>
#include <new>
#include <set>
#include <string>
#include <thread>

#include "runtime/maker_watch.hpp"
#include "support/async.hpp"
#include "support/maker_process.hpp"

// The watch of the run directory, which tells of makers that are gone. The makers are real processes.

namespace {

using namespace holdfast::test;
using holdfast::runtime::maker_watch;
using news = maker_watch::news;
using namespace std::chrono_literals;

struct watch_story : directory_story {
  boost::asio::io_context io{1};
  std::multiset<std::string> heard, removed;
  std::shared_ptr<maker_watch> watch = maker_watch::of(directory, io.get_executor());

  void listen() {
    watch->add(this, lock_key,
               [this](const std::string& its, news what) { (what == news::gone ? heard : removed).insert(its); });
  }
  /// Runs until something was heard. Returns false if nothing is heard in time.
  bool hears(std::chrono::milliseconds limit = 60s) {
    io.restart();
    const auto end = std::chrono::steady_clock::now() + scaled(limit);
    while (heard.empty() && std::chrono::steady_clock::now() < end) io.run_one_for(10ms);
    return !heard.empty();
  }
  /// Runs what is due by now.
  void settle() {
    io.restart();
    io.poll();
  }
};

}  // namespace

BOOST_FIXTURE_TEST_SUITE(maker_watches, watch_story)

BOOST_AUTO_TEST_CASE(a_death_is_heard_of) {
  child maker([&] { files.made(session); });
  listen();
  settle();
  BOOST_TEST(heard.empty());
  BOOST_TEST(maker_watch::instances() == 1u);  // without it, the watch hears of the death only when it looks again
  maker.kill();
  BOOST_TEST(hears());
  BOOST_TEST(heard.count(session) == 1u);
}

BOOST_AUTO_TEST_CASE(a_death_of_before_is_heard_of) {
  leave();
  listen();
  BOOST_TEST(hears());
}

BOOST_AUTO_TEST_CASE(a_session_that_ends_is_no_death) {
  listen();
  files.made(session);
  settle();
  files.ended(session);
  files.made(another);
  files.ended(another);
  BOOST_TEST(!hears(100ms));
}

/// The kernel tells of the close before it unlocks the file. Here the lock lasts for a while after the event, and there
/// is no second one.
BOOST_AUTO_TEST_CASE(an_event_that_comes_before_the_lock_is_free_is_followed_up) {
  leave();
  const int holder = ::open(path_of(session).c_str(), O_RDONLY | O_CLOEXEC);
  struct flock lock {};
  lock.l_type = F_RDLCK;
  BOOST_REQUIRE(::fcntl(holder, F_OFD_SETLK, &lock) == 0);
  listen();
  settle();
  const int writer = ::open(path_of(session).c_str(), O_WRONLY | O_CLOEXEC);
  BOOST_REQUIRE(writer >= 0);
  ::close(writer);
  settle();
  BOOST_TEST(heard.empty());
  ::close(holder);
  BOOST_TEST(hears(1s));
}

BOOST_AUTO_TEST_CASE(all_contexts_of_a_process_share_one_instance) {
  boost::asio::io_context other(1);
  const auto beside = maker_watch::of(directory, other.get_executor());
  BOOST_TEST(watch != beside);
  BOOST_TEST((watch == maker_watch::of(directory, io.get_executor())));
  int heard_beside = 0;
  child maker([&] { files.made(session); });
  BOOST_TEST(maker_watch::instances() == 0u);
  listen();
  beside->add(&other, lock_key, [&](const std::string&, news) { ++heard_beside; });
  BOOST_TEST(maker_watch::instances() == 1u);
  maker.kill();
  BOOST_TEST(hears());
  for (int i = 0; i != 500 && heard_beside == 0; ++i) other.run_one_for(10ms);
  BOOST_TEST(heard_beside == 1);
  beside->remove(&other);
  BOOST_TEST(maker_watch::instances() == 1u);
  watch->remove(this);
  BOOST_TEST(maker_watch::instances() == 0u);
}

BOOST_AUTO_TEST_CASE(without_inotify_it_looks_now_and_then) {
  child maker([&] { files.made(session); });
  {
    const few_descriptors none(3);
    listen();
  }
  BOOST_TEST(maker_watch::instances() == 0u);
  settle();
  BOOST_TEST(heard.empty());
  maker.kill();
  BOOST_TEST(hears());
}

BOOST_AUTO_TEST_CASE(those_who_wait_for_another_lock_hear_nothing) {
  int heard_there = 0;
  watch->add(&heard_there, "service/other/.lock", [&](const std::string&, news) { ++heard_there; });
  leave();
  listen();
  leave(another);
  BOOST_TEST(hears());
  settle();
  BOOST_TEST(heard_there == 0);
  watch->remove(&heard_there);
}

BOOST_AUTO_TEST_CASE(the_removal_of_a_dead_session_is_heard_of) {
  leave();
  listen();
  files.made(another);
  BOOST_REQUIRE(hears());
  files.ended(another);  // this one has not died
  files.ended(session);
  for (int i = 0; i != 500 && removed.empty(); ++i) io.run_one_for(10ms);
  BOOST_TEST(removed == std::multiset{session});
}

/// The child does not read the events of its parent, nor does it wait for a lock of another thread of its parent.
BOOST_AUTO_TEST_CASE(a_child_of_fork_has_a_watch_of_its_own) {
  child maker([&] { files.made(session); });
  listen();
  settle();
  std::array<int, 2> both{};
  BOOST_REQUIRE(::pipe(both.data()) == 0);
  {
    child other([&] {
      auto& its = *new boost::asio::io_context(1);
      const auto watching = maker_watch::of(*run_directory::open(folder.path()), its.get_executor());
      watching->add(&its, lock_key,
                    [&](const std::string&, news) { [[maybe_unused]] const auto size = ::write(both[1], "1", 1); });
      its.poll();
      std::thread([&its, watching] { its.run(); }).detach();
    });
    maker.kill();
    char its = 0;
    pollfd ready{both[0], POLLIN, 0};
    BOOST_REQUIRE(::poll(&ready, 1, 10'000) == 1);
    BOOST_TEST(::read(both[0], &its, 1) == 1);
  }
  BOOST_TEST(hears());
  ::close(both[0]);
  ::close(both[1]);
}

BOOST_AUTO_TEST_CASE(a_directory_that_was_removed_and_made_again_is_watched) {
  listen();
  settle();
  std::filesystem::remove_all(folder.path());
  settle();
  std::filesystem::create_directory(folder.path());
  child maker([&] { files.made(session); });
  for (int i = 0; i != 300 && heard.empty(); ++i) {
    io.run_one_for(10ms);
    if (i == 150) maker.kill();  // by then it watches again
  }
  BOOST_TEST(hears());
}

BOOST_AUTO_TEST_CASE(without_descriptors_it_looks_again) {
  leave();
  {
    const few_descriptors none(3);
    listen();
    settle();
    BOOST_TEST(heard.empty());
  }
  BOOST_TEST(hears());
}

BOOST_AUTO_TEST_CASE(without_listeners_the_context_runs_out_of_work) {
  listen();
  watch->remove(this);
  io.restart();
  io.run();
  BOOST_TEST(heard.empty());
}

BOOST_AUTO_TEST_CASE(a_watch_may_outlive_its_context) {
  auto context = std::make_unique<boost::asio::io_context>(1);
  const auto its = maker_watch::of(directory, context->get_executor());
  leave();
  its->add(this, lock_key, [this](const std::string& gone, news) { heard.insert(gone); });
  context.reset();
  its->add(this, lock_key, [this](const std::string& gone, news) { heard.insert(gone); });
  its->remove(this);
  BOOST_TEST(heard.empty());
  BOOST_TEST(maker_watch::instances() == 0u);
  // The next context may have the address of the one before.
  alignas(boost::asio::io_context) std::array<std::byte, sizeof(boost::asio::io_context)> place{};
  auto* const first = new (place.data()) boost::asio::io_context(1);
  const auto before = maker_watch::of(directory, first->get_executor());
  first->~io_context();
  auto* const second = new (place.data()) boost::asio::io_context(1);
  BOOST_TEST(maker_watch::of(directory, second->get_executor()) != before);
  second->~io_context();
}

BOOST_AUTO_TEST_SUITE_END()
