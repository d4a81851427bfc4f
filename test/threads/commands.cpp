// SPDX-FileCopyrightText: The holdfast authors
// SPDX-License-Identifier: BSL-1.0

// A command is cancelled on a third thread while it completes. Its client has a context and a thread, and its handler
// has another context and another thread.

#include <atomic>
#include <boost/asio/bind_cancellation_slot.hpp>
#include <boost/asio/bind_executor.hpp>
#include <boost/asio/cancellation_signal.hpp>
#include <boost/asio/executor_work_guard.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/test/unit_test.hpp>
#include <future>
#include <holdfast/administration.hpp>
#include <holdfast/local_store.hpp>
#include <memory>
#include <optional>
#include <thread>

BOOST_AUTO_TEST_SUITE(commands)

namespace {

using namespace holdfast;
namespace asio = boost::asio;

/// An execution context with a thread.
struct context_with_thread {
  asio::io_context io{};
  asio::executor_work_guard<asio::io_context::executor_type> work{io.get_executor()};
  std::jthread thread{[this] { io.run(); }};

  ~context_with_thread() {
    work.reset();
    io.stop();
  }
};

}  // namespace

BOOST_AUTO_TEST_CASE(a_cancellation_meets_the_completion) {
  context_with_thread app;
  int cancelled = 0;
  for (int round = 0; round < 200; ++round) {
    asio::cancellation_signal stop;
    const auto ended = std::make_shared<std::promise<error_code>>();
    std::optional<context_with_thread> own(std::in_place);
    semaphore_administration admin(local_store(own->io), {.prefix = "s"});
    admin.create(1, asio::bind_cancellation_slot(
                        stop.slot(), asio::bind_executor(app.io, [ended](error_code ec) { ended->set_value(ec); })));
    for (int turn = 0; turn < round % 20; ++turn) std::this_thread::yield();
    stop.emit(asio::cancellation_type::terminal);
    const error_code ec = ended->get_future().get();
    if (ec) BOOST_TEST(ec == asio::error::operation_aborted);
    cancelled += ec == asio::error::operation_aborted;
    own.reset();
    stop.emit(asio::cancellation_type::terminal);  // the client's context is gone
  }
  BOOST_TEST_MESSAGE(cancelled << " of 200 commands were cancelled");
  BOOST_TEST(cancelled > 0);
}

BOOST_AUTO_TEST_SUITE_END()
