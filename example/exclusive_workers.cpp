// A list of tasks, several processes, each task done once: the classic use of a lock service.
//
// Each task has a semaphore of limit 1: its lock. And it has a done record, which outlives the lock. A worker
//   1. takes the task's lock, or goes on to another task if somebody has it;
//   2. looks for the done record again, now that nobody else can write it;
//   3. does the work;
//   4. writes the done record, if there is none yet (a compare-and-set with index 0);
//   5. releases the lock.
// A worker that dies midway loses its lock when its session ends, within two TTLs, and another one finds no done record
// and does the task: so each task is completed. A worker that dies between 4 and 5 leaves the record, so its task is
// not done again. A worker that was paused for so long that another has taken over finds at 4 that the record exists:
// its result is thrown away. So each task has exactly one result, whatever happens. What no lock can promise is that
// the work of step 3 is *begun* only once: if it has effects elsewhere, give those the fencing token, or make them
// harmless to repeat.

#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <boost/asio/awaitable.hpp>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/this_coro.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <boost/asio/use_future.hpp>
#include <chrono>
#include <holdfast/holdfast.hpp>
#include <iostream>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "common/agent.hpp"
#include "common/child.hpp"
#include "common/command_line.hpp"

namespace asio = boost::asio;

namespace {

struct options {
  int workers = 3;
  int tasks = 20;
  int task_ms = 100;
  int ttl_ms = 2'000;
  bool crash = false;
  std::string root = "exclusive_workers/" + std::to_string(::getpid());
  int worker = 0;  // which one this process is; 0: the parent of all
};

std::string task_name(int task) { return "task-" + std::to_string(task); }
std::string done_key(const options& o, int task) { return o.root + "/done/" + task_name(task); }

// --- A worker process.

class worker {
public:
  worker(holdfast::consul::client consul, const options& o) : consul_(std::move(consul)), options_(o) {}

  asio::awaitable<void> run() {
    // Each begins at another place, so that they seldom meet.
    const int first = options_.tasks * (options_.worker - 1) / options_.workers;
    for (int i = 0; i < options_.tasks; ++i) co_await do_task((first + i) % options_.tasks, false);
    // What is left, others were at work on. Queue up behind each: it will be done, or its worker has died.
    for (int i = 0; i < options_.tasks; ++i) co_await do_task((first + i) % options_.tasks, true);
  }

private:
  asio::awaitable<void> do_task(int task, bool wait) {
    const auto before = co_await consul_.get(done_key(options_, task));
    if (before.value) co_return;

    holdfast::semaphore_options lock;
    lock.prefix = options_.root + "/tasks/" + task_name(task);
    lock.limit = 1;
    lock.session_ttl = std::chrono::milliseconds(options_.ttl_ms);
    holdfast::semaphore sem(consul_, lock);
    holdfast::slot slot;
    if (wait)
      slot = co_await sem.acquire();
    else
      slot = co_await sem.try_acquire();  // one look: an empty slot if somebody else has the task
    if (slot) co_await do_locked(task, std::move(slot));
    co_await sem.close();  // ends the session now; otherwise it is kept warm for the next acquire
  }

  /// The slot is given back when its handle goes, at the end.
  asio::awaitable<void> do_locked(int task, holdfast::slot slot) {
    const auto before = co_await consul_.get(done_key(options_, task));
    if (before.value) co_return;  // done while we looked for the lock

    asio::steady_timer work(co_await asio::this_coro::executor, std::chrono::milliseconds(options_.task_ms));
    co_await work.async_wait(asio::use_awaitable);
    if (options_.crash && options_.worker == 1 && ++done_ == 2) {
      std::cout << "worker 1 crashes with the lock of " + task_name(task) + " in its hands\n" << std::flush;
      ::raise(SIGKILL);
    }

    // Not begun if the lock is lost by now; and refused by Consul if another worker was faster all the same.
    if (!slot.held()) co_return;
    const std::string result = std::to_string(options_.worker);
    const bool first = co_await consul_.cas(done_key(options_, task), result, 0);
    std::cout << "worker " + result + (first ? " did " : " was too late for ") + task_name(task) + "\n" << std::flush;
  }

  holdfast::consul::client consul_;
  const options& options_;
  int done_ = 0;
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
  add("--ttl-ms", o.ttl_ms);
  if (o.crash) arguments.emplace_back("--crash");
  return example::start_again(std::move(arguments));
}

asio::awaitable<int> check(holdfast::consul::client consul, const options& o) {
  const auto done = co_await consul.list(o.root + "/done/");
  std::map<std::string, int> tasks_of;
  for (const holdfast::consul::kv_entry& record : done.value) ++tasks_of[record.value];
  for (const auto& [name, count] : tasks_of) std::cout << "worker " << name << ": " << count << " tasks\n";
  std::cout << done.value.size() << " of " << o.tasks << " tasks have a result\n";
  co_await consul.remove_tree(o.root + "/");
  co_return done.value.size() == static_cast<std::size_t>(o.tasks) ? 0 : 1;
}

int run_parent(const example::agent& agent, const options& o) {
  std::vector<pid_t> workers;
  for (int i = 1; i <= o.workers; ++i) workers.push_back(start_worker(agent.url(), o, i));
  int failures = 0;
  for (const pid_t each : workers) {
    int status = 0;
    ::waitpid(each, &status, 0);
    const bool crashed_on_purpose = o.crash && each == workers.front() && WIFSIGNALED(status);
    if (status != 0 && !crashed_on_purpose) ++failures;
  }
  asio::io_context io;
  holdfast::consul::client consul(io, agent.config());
  auto result = asio::co_spawn(io, check(consul, o), asio::use_future);
  io.run();
  const int unfinished = result.get();
  return failures == 0 && unfinished == 0 ? 0 : 1;
}

// --- The command line.

constexpr std::string_view help = R"(usage: exclusive_workers [options]

Starts worker processes that share a list of tasks: each task gets exactly one result.

  --workers N      processes (3)
  --tasks N        tasks (20)
  --task-ms N      how long a task takes (100)
  --crash          the first worker kills itself in its second task; another does that task, after up to two TTLs
  --ttl-ms N       TTL of the locks' sessions (2000; with --consul 10000, the least that most agents accept)
)";

options parse(example::arguments& given) {
  options o;
  if (!given.consul().empty()) o.ttl_ms = 10'000;
  o.workers = given.number("--workers", o.workers, 1, 100);
  o.tasks = given.number("--tasks", o.tasks, 1, 10'000);
  o.task_ms = given.number("--task-ms", o.task_ms, 0, 3'600'000);
  o.ttl_ms = given.number("--ttl-ms", o.ttl_ms, 100, 86'400'000);
  o.crash = given.flag("--crash");
  // What the parent tells its workers.
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
