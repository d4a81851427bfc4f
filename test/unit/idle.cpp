// SPDX-FileCopyrightText: The holdfast authors
// SPDX-License-Identifier: BSL-1.0

// Tests for support/idle.hpp, which shows that a process has done what it was asked for.

#include "support/idle.hpp"

#include <unistd.h>

#include <atomic>
#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/read.hpp>
#include <boost/asio/write.hpp>
#include <boost/test/unit_test.hpp>
#include <semaphore>
#include <stdexcept>
#include <thread>

#include "support/async.hpp"

using namespace std::chrono_literals;
using boost::asio::ip::tcp;
using clock_type = std::chrono::steady_clock;

namespace holdfast::test {
namespace {

/// Answers each byte with one byte, from another thread than the one that reads, and after a while, like a busy agent.
class slow_echo {
public:
  slow_echo() : acceptor_(io_, {boost::asio::ip::address_v4::loopback(), 0}), client(io_), peer_(io_) {
    client.connect(acceptor_.local_endpoint());
    acceptor_.accept(peer_);
    reads_ = std::thread([this] {
      boost::system::error_code ec;
      for (char byte; boost::asio::read(peer_, boost::asio::buffer(&byte, 1), ec), !ec;) asked_.release();
      over_ = true;
      asked_.release();
    });
    answers_ = std::thread([this] {
      for (asked_.acquire(); !over_; asked_.acquire()) {
        for (const auto end = clock_type::now() + 20ms; clock_type::now() < end;) std::this_thread::yield();
        boost::asio::write(peer_, boost::asio::buffer("x", 1));
      }
    });
  }
  ~slow_echo() {
    client.shutdown(tcp::socket::shutdown_both);
    reads_.join();
    answers_.join();
  }

private:
  boost::asio::io_context io_;
  tcp::acceptor acceptor_;

public:
  tcp::socket client;

private:
  tcp::socket peer_;
  std::counting_semaphore<> asked_{0};
  std::atomic<bool> over_ = false;
  std::thread reads_, answers_;
};

}  // namespace
}  // namespace holdfast::test

using namespace holdfast::test;

BOOST_AUTO_TEST_SUITE(idle)

BOOST_AUTO_TEST_CASE(what_was_asked_for_is_done_however_long_it_took) {
  slow_echo echo;
  for (std::size_t asked = 1; asked <= 20; ++asked) {
    boost::asio::write(echo.client, boost::asio::buffer("?", 1));
    wait_until_idle(::getpid(), echo.client.native_handle(), clock_type::now() + scaled(10s));
    BOOST_TEST(echo.client.available() == asked);
  }
}

BOOST_AUTO_TEST_CASE(a_process_that_does_not_come_to_rest_is_told) {
  slow_echo echo;
  std::atomic<bool> over = false;
  std::thread busy([&] {
    while (!over) continue;
  });
  BOOST_CHECK_THROW(wait_until_idle(::getpid(), echo.client.native_handle(), clock_type::now() + 50ms),
                    std::runtime_error);
  over = true;
  busy.join();
}

BOOST_AUTO_TEST_SUITE_END()
