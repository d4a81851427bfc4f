// SPDX-FileCopyrightText: The holdfast authors
// SPDX-License-Identifier: BSL-1.0

#include <fcntl.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <boost/asio/as_tuple.hpp>
#include <boost/asio/awaitable.hpp>
#include <boost/asio/buffer.hpp>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/detached.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/posix/stream_descriptor.hpp>
#include <boost/asio/read_until.hpp>
#include <boost/asio/signal_set.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <chrono>
#include <exception>
#include <holdfast/consul/client.hpp>
#include <iostream>
#include <string>
#include <system_error>
#include <utility>
#include <vector>

#include "common/child.hpp"
#include "model.hpp"
#include "roles.hpp"
#include "screen.hpp"

namespace asio = boost::asio;
namespace consul = holdfast::consul;
using namespace std::chrono_literals;

namespace demo {
namespace {

void require(bool ok, const char* what) {
  if (!ok) throw std::system_error(errno, std::generic_category(), what);
}

class supervisor {
public:
  supervisor(asio::io_context& io, const options& o, const example::agent& agent)
      : io_(io), options_(o), agent_(agent), consul_(io, agent.config()), model_(o), screen_(o), lines_(io) {
    int ends[2];
    require(::pipe2(ends, O_CLOEXEC) == 0, "pipe");
    lines_.assign(ends[0]);
    write_end_ = ends[1];
  }
  supervisor(const supervisor&) = delete;
  supervisor& operator=(const supervisor&) = delete;

  ~supervisor() {
    for (const worker_view& w : model_.workers) {
      if (w.pid == 0 || has_ended(w)) continue;
      ::kill(w.pid, SIGKILL);
      ::waitpid(w.pid, nullptr, 0);
    }
    ::close(write_end_);
  }

  asio::awaitable<int> run() {
    // If there is no Consul, this fails with a reason.
    co_await consul_.put(options_.prefix + "/demo", "in use by a demo of holdfast");
    co_await consul_.remove(options_.prefix + "/demo");

    model_.started = clock::now();
    for (int i = 0; i < options_.workers; ++i) start_worker(static_cast<char>('A' + i));
    model_.note("started " + std::to_string(options_.workers) + " processes");
    asio::co_spawn(io_, listen(), asio::detached);
    asio::co_spawn(io_, watch(), asio::detached);
    asio::co_spawn(io_, redraw(), asio::detached);

    co_await work_until(model_.started + std::chrono::milliseconds(options_.run_time) * 2 / 5);
    kill_one();
    co_await work_until(model_.started + options_.run_time);
    co_await wait_for_recovery();
    co_await stop_workers();
    const bool clean = co_await clean_up();
    const bool passed = judge(clean);
    screen_.show(model_, agent_.description());
    screen_.summary(model_, passed);
    co_return passed ? 0 : 1;
  }

private:
  static bool has_ended(const worker_view& w) { return w.state >= state::killed; }

  asio::awaitable<void> sleep_until(clock::time_point when) {
    asio::steady_timer timer(io_, when);
    co_await timer.async_wait(asio::use_awaitable);
  }

  /// Ends early if a check has failed.
  asio::awaitable<void> work_until(clock::time_point when) {
    while (clock::now() < when && model_.complaints.empty()) co_await sleep_until(std::min(when, clock::now() + 50ms));
  }

  // --- The processes.

  void start_worker(char name) {
    worker_view w;
    w.name = name;
    w.pid = example::start_again({"--worker", std::string(1, name), "--consul", agent_.url(), "--prefix",
                                  semaphore_prefix(), "--coroutines", std::to_string(options_.coroutines), "--limit",
                                  std::to_string(options_.limit), "--ttl-ms", std::to_string(options_.ttl.count())},
                                 write_end_);
    model_.workers.push_back(std::move(w));
  }

  void kill_one() {
    if (!model_.complaints.empty()) return;
    worker_view& victim = model_.busiest();
    if (has_ended(victim)) return;
    model_.begin_kill(victim);
    ::kill(victim.pid, SIGKILL);
    ::waitpid(victim.pid, nullptr, 0);
    // This line follows all reports of the victim. It tells the model that the victim's coroutines hold no slots now.
    const std::string line = std::string(1, victim.name) + " died\n";
    require(::write(write_end_, line.data(), line.size()) > 0, "write to the pipe");
    model_.confirm_death(victim);
  }

  void reap() {
    for (worker_view& w : model_.workers) {
      int status = 0;
      if (has_ended(w) || ::waitpid(w.pid, &status, WNOHANG) != w.pid) continue;
      w.state = stopping_ && status == 0 ? state::ended : state::failed;
      if (w.state == state::failed) model_.complain(std::string("process ") + w.name + " ended by itself");
    }
  }

  asio::awaitable<void> wait_for_recovery() {
    const auto end = clock::now() + 2 * options_.ttl + 2s;
    while (!model_.recovered_after && model_.complaints.empty() && clock::now() < end)
      co_await sleep_until(clock::now() + 20ms);
  }

  asio::awaitable<void> stop_workers() {
    stopping_ = true;
    model_.note("asking the others to end");
    for (const worker_view& w : model_.workers)
      if (!has_ended(w)) ::kill(w.pid, SIGTERM);
    const auto all_ended = [this] { return std::all_of(model_.workers.begin(), model_.workers.end(), has_ended); };
    const auto end = clock::now() + 5s;
    while (!all_ended() && clock::now() < end) co_await sleep_until(clock::now() + 20ms);
    co_await sleep_until(clock::now() + 100ms);  // to receive their last lines
  }

  // --- Observation.

  /// Reads the reports of the workers.
  asio::awaitable<void> listen() {
    std::string buffer;
    for (;;) {
      const std::size_t size =
          co_await asio::async_read_until(lines_, asio::dynamic_buffer(buffer), '\n', asio::use_awaitable);
      model_.line(std::string_view(buffer).substr(0, size - 1));
      buffer.erase(0, size);
    }
  }

  /// Watches the lock record and the contenders' entries by one blocking query after another.
  asio::awaitable<void> watch() {
    consul::read_options read;
    read.wait = 1s;
    for (;;) {
      auto [failed, answer] =
          co_await consul_.list(semaphore_prefix() + "/", read, asio::as_tuple(asio::use_awaitable));
      if (failed) {
        model_.note("cannot read the record: " + failed.message());
        co_await sleep_until(clock::now() + 200ms);
        continue;
      }
      read.index = consul::next_index(read.index, answer.meta.index);
      model_.listing(answer.value);
    }
  }

  asio::awaitable<void> redraw() {
    for (auto next = clock::now();; next += 100ms) {
      reap();
      model_.sample();
      screen_.show(model_, agent_.description());
      co_await sleep_until(next + 100ms);
    }
  }

  // --- The end.

  /// Returns true if the workers have left nothing in Consul. Removes the demo's remaining keys.
  asio::awaitable<bool> clean_up() {
    const auto left = co_await consul_.list(semaphore_prefix() + "/");
    model_.listing(left.value);
    const bool clean = model_.in_record == 0 && model_.entries == 0;
    co_await consul_.remove_tree(options_.prefix + "/");
    co_return clean;
  }

  bool judge(bool clean) {
    if (!model_.complaints.empty()) return false;
    const auto limit = static_cast<std::size_t>(options_.limit);
    const auto bound = std::chrono::duration<double>(2 * options_.ttl).count() + 1;
    if (!model_.recovered_after || *model_.recovered_after > bound)
      model_.complaints.emplace_back("the killed process's slots did not come back in time");
    if (!clean) model_.complaints.emplace_back("something was left in Consul");
    for (const worker_view& w : model_.workers) {
      const bool as_it_should = w.name == model_.victim ? w.state == state::killed : w.state == state::ended;
      if (!as_it_should || w.taken == 0)
        model_.complaints.push_back(std::string("process ") + w.name + " did not work, or did not end well");
    }
    // If the limit was never reached, the check has shown nothing.
    const bool seen = model_.in_record_most == limit && model_.believing_most == limit;
    if (!seen) model_.complaints.emplace_back("the limit was not reached, or not kept");
    return model_.complaints.empty();
  }

  std::string semaphore_prefix() const { return options_.prefix + "/semaphore"; }

  asio::io_context& io_;
  const options& options_;
  const example::agent& agent_;
  consul::client consul_;
  model model_;
  screen screen_;
  asio::posix::stream_descriptor lines_;
  int write_end_ = -1;
  bool stopping_ = false;
};

}  // namespace

int run_supervisor(const options& o, const example::agent& agent) {
  asio::io_context io(1);
  supervisor self(io, o, agent);
  int interrupted_by = 0;
  asio::signal_set signals(io, SIGINT, SIGTERM);
  signals.async_wait([&](const boost::system::error_code& ec, int signal) {
    if (ec) return;
    interrupted_by = signal;
    io.stop();
  });
  std::exception_ptr failure;
  int status = 1;
  asio::co_spawn(io, self.run(), [&](std::exception_ptr failed, int passed) {
    failure = std::move(failed);
    status = passed;
    io.stop();
  });
  io.run();
  if (interrupted_by != 0) {
    std::cout << "\ninterrupted" << std::endl;
    return 128 + interrupted_by;
  }
  if (failure) std::rethrow_exception(failure);
  return status;
}

}  // namespace demo
