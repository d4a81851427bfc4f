// SPDX-FileCopyrightText: The holdfast authors
// SPDX-License-Identifier: BSL-1.0

#include <signal.h>
#include <sys/prctl.h>
#include <unistd.h>

#include <algorithm>
#include <boost/asio/as_tuple.hpp>
#include <boost/asio/awaitable.hpp>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/experimental/awaitable_operators.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/redirect_error.hpp>
#include <boost/asio/signal_set.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <chrono>
#include <exception>
#include <holdfast/holdfast.hpp>
#include <random>
#include <string>

#include "roles.hpp"

namespace asio = boost::asio;
using namespace std::chrono_literals;
using namespace asio::experimental::awaitable_operators;

namespace demo {
namespace {

class worker {
public:
  worker(asio::io_context& io, const options& o, const example::agent& agent)
      : io_(io),
        options_(o),
        consul_(io, agent.config()),
        semaphore_(consul_, semaphore_of(o)),
        report_timer_(io),
        random_(std::random_device{}()) {}

  void start() {
    asio::co_spawn(io_, stop_on_signal(), quietly);
    asio::co_spawn(io_, report(), quietly);
    working_ = options_.coroutines;
    for (int i = 1; i <= options_.coroutines; ++i)
      asio::co_spawn(io_, work(i), [this](const std::exception_ptr& failed) { ended(failed); });
  }

private:
  static holdfast::semaphore_options semaphore_of(const options& o) {
    holdfast::semaphore_options result;
    result.prefix = o.prefix;
    result.limit = static_cast<std::uint32_t>(o.limit);
    result.description = std::string(1, o.worker);  // shown to the supervisor and to operators
    result.session_ttl = o.ttl;
    result.tuning.local_handoff_time = 300ms;
    return result;
  }

  /// The body of each coroutine. All coroutines use the same `semaphore_`.
  asio::awaitable<void> work(int number) {
    while (!stopping_) {
      holdfast::diagnostics why;
      holdfast::acquire_options request{.diag = &why};
      auto [failed, slot] = co_await semaphore_.acquire(request, asio::as_tuple(asio::use_awaitable));
      if (failed) {
        say("error " + why.to_string());
        break;
      }
      if (stopping_) break;  // the slot's destructor releases it

      const std::string who = std::to_string(number) + " " + slot.fencing_token().to_string();
      say("enter " + who);
      asio::steady_timer some_work(io_, std::chrono::milliseconds(std::uniform_int_distribution(20, 150)(random_)));
      auto end = co_await (some_work.async_wait(asio::use_awaitable) || slot.wait_lost(asio::use_awaitable));
      say((end.index() == 0 ? "leave " : "lost ") + who);  // before the release: the next holder reports later

      holdfast::error_code ignored;  // a slot that was lost cannot be released
      co_await slot.release(asio::redirect_error(asio::use_awaitable, ignored));
    }
  }

  /// Called by the last coroutine. Closes the semaphore, so that this process leaves nothing in Consul.
  asio::awaitable<void> close() {
    co_await semaphore_.close();
    closed_ = true;  // `cancel` alone does not stop a wait that has just ended
    report_timer_.cancel();
    signals_.cancel();
    say_statistics();
    say("end");
  }

  asio::awaitable<void> stop_on_signal() {
    co_await signals_.async_wait(asio::use_awaitable);
    stopping_ = true;
  }

  asio::awaitable<void> report() {
    while (!closed_) {
      say_statistics();
      report_timer_.expires_after(100ms);
      co_await report_timer_.async_wait(asio::use_awaitable);
    }
  }

  static void quietly(const std::exception_ptr&) {}

  void ended(const std::exception_ptr& failed) {
    try {
      if (failed) std::rethrow_exception(failed);
    } catch (const std::exception& e) {
      say(std::string("error ") + e.what());
    }
    if (--working_ == 0) asio::co_spawn(io_, close(), quietly);
  }

  void say_statistics() {
    say("stats " + std::to_string(semaphore_.statistics().waiting) + " " +
        std::to_string(consul_.statistics().requests));
  }

  /// Writes a line by one call of write(). All workers use the same pipe, and the kernel keeps such short writes whole
  /// and in order. The supervisor therefore reads the events of all processes in the order in which they were written.
  void say(const std::string& what) {
    std::string line = std::string(1, options_.worker) + " " + what;
    line.resize(std::min<std::size_t>(line.size(), 500));
    line += '\n';
    if (::write(STDOUT_FILENO, line.data(), line.size()) < 0) io_.stop();  // the supervisor has ended
  }

  asio::io_context& io_;
  const options& options_;
  holdfast::consul::client consul_;
  holdfast::semaphore semaphore_;
  asio::signal_set signals_{io_, SIGTERM};
  asio::steady_timer report_timer_;
  std::mt19937 random_;
  int working_ = 0;
  bool stopping_ = false;
  bool closed_ = false;
};

}  // namespace

int run_worker(const options& o, const example::agent& agent) {
  ::prctl(PR_SET_PDEATHSIG, SIGKILL);  // ends this process if the supervisor is killed
  asio::io_context io(1);
  worker self(io, o, agent);
  self.start();
  io.run();
  return 0;
}

}  // namespace demo
