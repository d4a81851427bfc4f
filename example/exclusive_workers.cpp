// SPDX-FileCopyrightText: The holdfast authors
// SPDX-License-Identifier: BSL-1.0

// Several processes work on a long list of tasks, and each task gets one result: the classic use of a lock service.
//
// Each task has a lock in a mutex set. One session holds all locks of a process, and locks are taken and released many
// at a time. Each task also has a done record, which outlives the lock. A worker
//   1. takes the task's lock, or goes on to another task if the lock is held;
//   2. reads the done record, which no other worker can write now;
//   3. does the work;
//   4. writes the done record if there is none yet, in one transaction with the lock's fence checks, so that Consul
//      refuses the write if the lock is no longer held;
//   5. releases the lock.
// Each task gets exactly one result, whatever happens, as long as a worker is left:
// - A worker that dies midway loses its locks when its session ends, within two TTLs. Other workers find no done
//   records, and do those tasks.
// - A worker that dies between 4 and 5 leaves the record, so its task is not done again.
// - A worker that was paused until another worker took over is refused at 4. Its result is discarded.
// No lock can guarantee that the work of step 3 is *begun* only once. If the work has effects elsewhere, pass the
// fencing token along with them, or make them harmless to repeat.

#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <boost/asio/awaitable.hpp>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/deferred.hpp>
#include <boost/asio/experimental/parallel_group.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/this_coro.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <boost/asio/use_future.hpp>
#include <chrono>
#include <cmath>
#include <exception>
#include <holdfast/holdfast.hpp>
#include <iostream>
#include <map>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "common/agent.hpp"
#include "common/child.hpp"
#include "common/command_line.hpp"

namespace asio = boost::asio;
using clock_type = std::chrono::steady_clock;

namespace {

struct options {
  int workers = 4;
  int tasks = 10'000;
  int task_ms = 1;
  int at_once = 64;
  int ttl_ms = 2'000;
  bool crash = false;
  std::string root = "exclusive_workers/" + std::to_string(::getpid());
  int worker = 0;  // the number of this process; 0: the parent of all
};

std::string task_name(int task) { return "task-" + std::to_string(task); }
std::string done_key(const options& o, int task) { return o.root + "/done/" + task_name(task); }

/// The keys of the done records.
asio::awaitable<std::set<std::string>> done_keys(holdfast::consul::client consul, const options& o) {
  auto keys = co_await consul.keys(o.root + "/done/");
  co_return std::set<std::string>(keys.value.begin(), keys.value.end());
}

double seconds_since(clock_type::time_point begun) {
  return std::chrono::duration<double>(clock_type::now() - begun).count();
}

// --- A worker process.

class worker {
public:
  worker(holdfast::consul::client consul, const options& o)
      : consul_(std::move(consul)), options_(o), locks_(consul_, lock_options(o)) {}

  asio::awaitable<void> run() {
    const auto begun = clock_type::now();
    const auto executor = co_await asio::this_coro::executor;
    asio::steady_timer pause(executor);
    for (;;) {
      co_await choose();
      if (next_ == last_) break;
      const int before = did_;
      co_await do_chosen(executor);
      if (did_ != before) continue;
      // Other workers hold the locks of the remaining tasks. They finish these tasks, or they have died.
      pause.expires_after(std::chrono::milliseconds(100));
      co_await pause.async_wait(asio::use_awaitable);
    }
    const auto sessions = locks_.statistics().sessions;
    co_await locks_.close();
    const auto used = consul_.statistics();
    std::cout << "worker " + std::to_string(options_.worker) + ": did " + std::to_string(did_) + " tasks in " +
                     std::to_string(std::lround(1'000 * seconds_since(begun))) + " ms, was too late for " +
                     std::to_string(too_late_) + "; " + std::to_string(used.requests) + " requests, " +
                     std::to_string(sessions) + " session, " + std::to_string(used.connections_opened) +
                     " connections\n"
              << std::flush;
  }

private:
  static holdfast::mutex_set_options lock_options(const options& o) {
    holdfast::mutex_set_options locks;
    locks.prefix = o.root + "/tasks";
    locks.session_ttl = std::chrono::milliseconds(o.ttl_ms);
    return locks;
  }

  /// Chooses the next few tasks without a result. Each worker begins at another position, so that workers seldom
  /// compete for a task.
  asio::awaitable<void> choose() {
    const std::set<std::string> done = co_await done_keys(consul_, options_);
    constexpr std::size_t few = 500;
    const int first = options_.tasks * (options_.worker - 1) / options_.workers;
    chosen_.clear();
    for (int i = 0; i < options_.tasks && chosen_.size() < few; ++i) {
      const int task = (first + i) % options_.tasks;
      if (!done.contains(done_key(options_, task))) chosen_.push_back(task);
    }
    next_ = chosen_.begin();
    last_ = chosen_.end();
  }

  /// Runs many coroutines, each of which does one task after another.
  asio::awaitable<void> do_chosen(asio::any_io_executor executor) {
    using operation = decltype(asio::co_spawn(executor, do_tasks(), asio::deferred));
    std::vector<operation> all;
    all.reserve(static_cast<std::size_t>(options_.at_once));
    for (int i = 0; i < options_.at_once; ++i) all.push_back(asio::co_spawn(executor, do_tasks(), asio::deferred));
    auto group = asio::experimental::make_parallel_group(std::move(all));
    auto [order, failures] = co_await group.async_wait(asio::experimental::wait_for_all(), asio::use_awaitable);
    for (const std::exception_ptr& each : failures)
      if (each) std::rethrow_exception(each);
  }

  asio::awaitable<void> do_tasks() {
    while (next_ != last_) {
      const int task = *next_++;
      try {
        holdfast::slot lock = co_await locks_.try_lock(task_name(task));  // empty if another has the task
        if (!lock) continue;
        co_await do_locked(task, lock);
        co_await lock.release();
      } catch (const holdfast::system_error& e) {
        // The lock is lost, or Consul cannot answer at the moment. The done record will show if the task is done.
        const bool passes = e.code() == holdfast::error::slot_lost || e.code() == holdfast::condition::unavailable ||
                            e.code() == holdfast::condition::outcome_unknown;
        if (!passes) throw;
      }
    }
  }

  asio::awaitable<void> do_locked(int task, holdfast::slot& lock) {
    const auto before = co_await consul_.get(done_key(options_, task));
    if (before.value) co_return;  // done before we got the lock

    if (options_.task_ms != 0) {
      asio::steady_timer work(co_await asio::this_coro::executor, std::chrono::milliseconds(options_.task_ms));
      co_await work.async_wait(asio::use_awaitable);
    }
    const auto held = locks_.statistics().held;
    const bool midway = did_ >= options_.tasks / options_.workers / 2 && held > 1;
    if (options_.crash && options_.worker == 1 && midway) {
      std::cout << "worker 1 crashes with " + std::to_string(held) + " locks in its hands, that of " + task_name(task) +
                       " among them\n"
                << std::flush;
      ::raise(SIGKILL);
    }

    if (!lock.held()) co_return;  // another worker does the task
    std::vector<holdfast::consul::txn_operation> write = lock.fence_checks();
    write.push_back(holdfast::consul::txn_operation::cas(done_key(options_, task), std::to_string(options_.worker), 0));
    const auto reply = co_await consul_.transact(std::move(write));
    ++(reply.applied ? did_ : too_late_);
  }

  holdfast::consul::client consul_;
  const options& options_;
  holdfast::mutex_set locks_;
  std::vector<int> chosen_;
  std::vector<int>::iterator next_, last_;
  int did_ = 0;
  int too_late_ = 0;
};

int run_worker(const example::agent& agent, const options& o) {
  asio::io_context io;
  worker self(holdfast::consul::client(io, agent.config()), o);
  auto result = asio::co_spawn(io, self.run(), asio::use_future);
  io.run();
  result.get();
  return 0;
}

// --- The parent.

pid_t start_worker(const std::string& consul_url, const options& o, int number) {
  std::vector<std::string> arguments = {"--consul", consul_url, "--root", o.root};
  const auto add = [&](const char* option, int value) {
    arguments.emplace_back(option);
    arguments.push_back(std::to_string(value));
  };
  add("--worker", number);
  add("--workers", o.workers);
  add("--tasks", o.tasks);
  add("--task-ms", o.task_ms);
  add("--at-once", o.at_once);
  add("--ttl-ms", o.ttl_ms);
  if (o.crash) arguments.emplace_back("--crash");
  return example::start_again(std::move(arguments));
}

/// Prints the progress once a second until all workers have ended. Returns the number of workers that failed.
asio::awaitable<int> watch(holdfast::consul::client consul, const options& o, std::vector<pid_t> workers) {
  const pid_t crashing = o.crash ? workers.front() : 0;
  asio::steady_timer timer(co_await asio::this_coro::executor);
  int failures = 0;
  for (int turn = 1; !workers.empty(); ++turn) {
    timer.expires_after(std::chrono::milliseconds(50));
    co_await timer.async_wait(asio::use_awaitable);
    std::erase_if(workers, [&](pid_t each) {
      int status = 0;
      const pid_t ended = ::waitpid(each, &status, WNOHANG);
      if (ended == 0) return false;
      const bool as_planned = status == 0 || (each == crashing && WIFSIGNALED(status));
      if (ended < 0 || !as_planned) ++failures;
      return true;
    });
    if (turn % 20 != 0) continue;
    const std::set<std::string> done = co_await done_keys(consul, o);
    std::cout << done.size() << " tasks done, " << workers.size() << " workers at work\n" << std::flush;
  }
  co_return failures;
}

asio::awaitable<int> check(holdfast::consul::client consul, const options& o, std::vector<pid_t> workers) {
  const auto begun = clock_type::now();
  const int failures = co_await watch(consul, o, std::move(workers));
  const double took = seconds_since(begun);
  const auto done = co_await consul.list(o.root + "/done/");
  std::map<std::string, int> tasks_of;
  for (const holdfast::consul::kv_entry& record : done.value) ++tasks_of[record.value];
  for (const auto& [name, count] : tasks_of) std::cout << "worker " << name << ": " << count << " results\n";
  const bool written_once =
      std::all_of(done.value.begin(), done.value.end(),
                  [](const holdfast::consul::kv_entry& record) { return record.create_index == record.modify_index; });
  std::cout << done.value.size() << " of " << o.tasks << " tasks have a result"
            << (written_once ? ", each written once; " : "; some were written twice; ") << std::lround(1'000 * took)
            << " ms, " << std::lround(static_cast<double>(done.value.size()) / took) << " tasks/s\n";
  co_await consul.remove_tree(o.root + "/");
  co_return failures == 0 && written_once&& done.value.size() == static_cast<std::size_t>(o.tasks) ? 0 : 1;
}

int run_parent(const example::agent& agent, const options& o) {
  std::vector<pid_t> workers;
  for (int i = 1; i <= o.workers; ++i) workers.push_back(start_worker(agent.url(), o, i));
  asio::io_context io;
  holdfast::consul::client consul(io, agent.config());
  auto result = asio::co_spawn(io, check(consul, o, std::move(workers)), asio::use_future);
  io.run();
  return result.get();
}

// --- The command line.

constexpr std::string_view help = R"(usage: exclusive_workers [options]

Starts worker processes that share a list of tasks: each task gets exactly one result.

  --workers N      processes (4)
  --tasks N        tasks (10000)
  --task-ms N      how long a task takes (1)
  --at-once N      how many tasks a process is at work on at a time (64)
  --crash          the first worker kills itself midway; others do what it had begun, after up to two TTLs
  --ttl-ms N       TTL of the locks' sessions (2000; with --consul 10000, the least that most agents accept)
)";

options parse(example::arguments& given) {
  options o;
  if (!given.consul().empty()) o.ttl_ms = 10'000;
  o.workers = given.number("--workers", o.workers, 1, 100);
  o.tasks = given.number("--tasks", o.tasks, 1, 1'000'000);
  o.task_ms = given.number("--task-ms", o.task_ms, 0, 3'600'000);
  o.at_once = given.number("--at-once", o.at_once, 1, 10'000);
  o.ttl_ms = given.number("--ttl-ms", o.ttl_ms, 100, 86'400'000);
  o.crash = given.flag("--crash");
  // The options that the parent passes to its workers.
  o.worker = given.number("--worker", o.worker, 0, 100);
  o.root = given.text("--root", o.root);
  given.end();
  return o;
}

}  // namespace

int main(int argc, char** argv) {
  return example::run(argc, argv, help, [](example::arguments& given) {
    const options o = parse(given);
    const example::agent agent(given.consul());
    return o.worker == 0 ? run_parent(agent, o) : run_worker(agent, o);
  });
}
