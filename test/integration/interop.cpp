// SPDX-FileCopyrightText: The holdfast authors
// SPDX-License-Identifier: BSL-1.0

// HashiCorp's own semaphore (`consul lock -n 3`) on the same prefix as ours, and its lock in Go on the same key.
// Neither client breaks the guarantees of the other.

#include <fcntl.h>
#include <unistd.h>

#include <boost/asio/thread_pool.hpp>
#include <boost/test/unit_test.hpp>
#include <filesystem>
#include <fstream>
#include <iostream>
#include <memory>
#include <vector>

#include "protocol/record/lock_record.hpp"
#include "support/agent.hpp"
#include "support/async.hpp"
#include "support/participant.hpp"
#include "support/process.hpp"
#include "support/scripted_server.hpp"

namespace holdfast::test {
namespace {

namespace fs = std::filesystem;

/// A file to which each participant appends a line when it enters and when it leaves. The order of the lines is the
/// order of events.
class journal {
public:
  explicit journal(const std::string& name) {
    std::string flat = unique_prefix(name);
    std::replace(flat.begin(), flat.end(), '/', '-');
    path_ = fs::temp_directory_path() / ("holdfast-" + flat);
    fd_ = ::open(path_.c_str(), O_CREAT | O_APPEND | O_WRONLY | O_CLOEXEC, 0600);
    BOOST_REQUIRE(fd_ >= 0);
  }
  journal(const journal&) = delete;
  journal& operator=(const journal&) = delete;
  ~journal() {
    ::close(fd_);
    std::error_code ignored;
    fs::remove(path_, ignored);
  }

  const fs::path& path() const { return path_; }
  void write(const std::string& line) {
    const std::string whole = line + "\n";
    BOOST_REQUIRE(::write(fd_, whole.data(), whole.size()) == static_cast<ssize_t>(whole.size()));
  }
  std::vector<std::string> lines() const {
    std::vector<std::string> result;
    std::ifstream in(path_);
    for (std::string line; std::getline(in, line);) result.push_back(line);
    return result;
  }
  std::size_t count(const std::string& text) const {
    const std::vector<std::string> all = lines();
    return static_cast<std::size_t>(std::count(all.begin(), all.end(), text));
  }
  /// Returns the largest number that were inside at once. Lines are "+who" and "-who".
  int most_inside() const {
    int now = 0, most = 0;
    for (const std::string& line : lines()) {
      now += line[0] == '+' ? 1 : -1;
      BOOST_TEST(now >= 0);
      most = std::max(most, now);
    }
    return most;
  }

private:
  fs::path path_;
  int fd_ = -1;
};

/// `consul lock -n 3 PREFIX` around a shell command. With `-n 1` it is a mutex, of the key PREFIX/.lock.
class consul_lock {
public:
  consul_lock(const agent& a, const std::string& prefix, const std::string& command, int limit = 3) {
    process_options options;
    options.command = {consul_program().string(),
                       "lock",
                       "-http-addr=" + a.address(),
                       "-n",
                       std::to_string(limit),
                       "-child-exit-code",
                       prefix,
                       command};
    child_ = std::make_unique<process>(std::move(options));
  }
  bool running() { return child_->running(); }
  std::string output() const { return child_->output(); }
  exit_status status() {
    const auto result = child_->wait(5s);
    return result ? *result : exit_status{-1, 0};
  }
  void interrupt() { child_->signal(SIGINT); }

private:
  std::unique_ptr<process> child_;
};

/// Programs with HashiCorp's client in Go: that of Consul 1.8.7 and a current one. Both run with any Consul of the
/// tests.
constexpr const char* go_clients[] = {"go_lock", "go_lock_today"};

/// One of these programs, with `api.Lock` or with `api.Semaphore`: see test/peers/go_lock.
class go_lock {
public:
  go_lock(const agent& a, const std::string& client, const std::string& key, const journal& log, const fs::path& until,
          std::vector<std::string> more) {
    const std::string program = sibling_program(client);
    BOOST_REQUIRE_MESSAGE(
        fs::exists(program),
        program << " is not there: scripts/setup sees to Go and HashiCorp's client for it, and CMake, "
                   "when it configures the next time, to the program");
    process_options options;
    options.command = {program, "-agent=" + a.address(), "-key=" + key, "-journal=" + log.path().string(),
                       "-until=" + until.string()};
    options.command.insert(options.command.end(), more.begin(), more.end());
    child_ = std::make_unique<process>(std::move(options));
  }
  void kill() { child_->kill(); }
  bool running() { return child_->running(); }
  void check_success() {
    const auto status = child_->wait(5s);
    BOOST_TEST((status && status->success()), child_->output());
  }

private:
  std::unique_ptr<process> child_;
};

/// The path of a file that does not exist yet. The file is removed at the end.
class gate {
public:
  explicit gate(const journal& log) : path_(log.path().string() + ".gate") {}
  gate(const gate&) = delete;
  gate& operator=(const gate&) = delete;
  ~gate() {
    std::error_code ignored;
    fs::remove(path_, ignored);
  }
  const fs::path& path() const { return path_; }
  void open() const { std::ofstream(path_) << '.'; }

private:
  fs::path path_;
};

std::string inside_until(const journal& log, const fs::path& gate) {
  return "echo +theirs >>" + log.path().string() + "; while [ ! -e " + gate.string() +
         " ]; do sleep 0.02; done; echo -theirs >>" + log.path().string();
}

}  // namespace
}  // namespace holdfast::test

using namespace holdfast;
using namespace holdfast::test;

BOOST_AUTO_TEST_SUITE(interop)

ASYNC_TEST_CASE(consul_lock_and_ours_together_are_never_more_than_the_limit, 90s) {
  constexpr int turns = 12;
  agent& a = shared_agent();
  const std::string prefix = unique_prefix("together");
  journal log("together");
  const std::string command =
      "echo +theirs >>" + log.path().string() + "; sleep 0.02; echo -theirs >>" + log.path().string();
  int ours = 0, theirs = 0;
  bool enough = false;
  asio::thread_pool own(1);  // starting processes blocks this thread, and would hold ours up
  std::vector<std::unique_ptr<participant>> us;
  companions running(ex);
  auto contend = [&](participant& me) -> asio::awaitable<void> {
    while (!enough) {
      slot held = co_await me.sem.acquire();
      log.write("+ours");
      co_await pause(20ms);
      BOOST_TEST(held.held());
      log.write("-ours");
      ++ours;
      co_await held.release();
    }
  };
  auto contend_by_lock = [&]() -> asio::awaitable<void> {
    while (!enough) {
      consul_lock child(a, prefix, command);
      co_await until(
          "consul lock has had its turn", [&] { return !child.running(); }, 60s);
      const exit_status status = child.status();
      BOOST_TEST_INFO(child.output());
      BOOST_TEST(status.success());
      ++theirs;
    }
  };
  // Four of each kind use three slots, so that somebody of each kind always waits.
  for (int i = 0; i < 4; ++i) {
    us.push_back(std::make_unique<participant>(own.get_executor(), a, calm(prefix, 3)));
    running.start(contend(*us.back()));
    running.start(contend_by_lock());
  }
  co_await until(
      "each side has had its turns", [&] { return (ours >= turns && theirs >= turns) || running.running() < 8; }, 60s);
  enough = true;
  co_await running.join();
  const int most = log.most_inside();
  BOOST_TEST(most <= 3);
  BOOST_TEST(most >= 2);
  BOOST_TEST(log.count("+ours") == log.count("-ours"));
  BOOST_TEST(log.count("+theirs") == log.count("-theirs"));
  std::cout << "interop: " << ours << " turns of ours, " << theirs << " of consul lock, at most " << most
            << " inside a limit of 3\n";
  for (auto& each : us) co_await each->sem.close();
  BOOST_TEST(contenders(a, prefix).empty());
  BOOST_TEST(holders(a, prefix).empty());
  us.clear();
  own.join();
}

ASYNC_TEST_CASE(consul_lock_and_our_mutex_together_are_never_more_than_one, 120s) {
  constexpr int turns = 4;
  agent& a = shared_agent();
  const std::string prefix = unique_prefix("one-of-us");
  journal log("one-of-us");
  const std::string command =
      "echo +theirs >>" + log.path().string() + "; sleep 0.02; echo -theirs >>" + log.path().string();
  int ours = 0, theirs = 0;
  bool enough = false;
  asio::thread_pool own(1);
  std::vector<std::unique_ptr<locker>> us;
  companions running(ex);
  auto contend = [&](locker& me) -> asio::awaitable<void> {
    while (!enough) {
      slot held = co_await me.mutex.lock();
      log.write("+ours");
      co_await pause(5ms);
      BOOST_TEST(held.held());
      log.write("-ours");
      ++ours;
      co_await held.release();
    }
  };
  // Two processes of ours have three coroutines each, most of which wait. `consul lock`, whose waiting shows nowhere,
  // still has its turns.
  for (int i = 0; i < 2; ++i) {
    us.push_back(std::make_unique<locker>(own.get_executor(), a, calm(prefix + "/.lock")));
    for (int j = 0; j < 3; ++j) running.start(contend(*us.back()));
  }
  for (; theirs < turns && running.running() == 6; ++theirs) {
    consul_lock child(a, prefix, command, 1);
    co_await until(
        "consul lock has had its turn", [&] { return !child.running(); }, 60s);
    const exit_status status = child.status();
    BOOST_TEST_INFO(child.output());
    BOOST_TEST(status.success());
  }
  enough = true;
  co_await running.join();
  BOOST_TEST(log.most_inside() == 1);
  BOOST_TEST(log.count("+theirs") == static_cast<std::size_t>(turns));
  BOOST_TEST(ours > 3 * turns);
  std::cout << "interop: " << ours << " turns of ours, " << theirs << " of consul lock, never two at a time\n";
  for (auto& each : us) co_await each->mutex.close();
  us.clear();
  own.join();
}

ASYNC_TEST_CASE(a_mutex_and_consul_lock_wait_for_each_other, 60s) {
  agent& a = shared_agent();
  const std::string prefix = unique_prefix("each-other");
  journal log("each-other"), gate("each-other-gate");
  const fs::path go_on = gate.path().string() + "-0";
  locker l(ex, a, calm(prefix + "/.lock"));
  {
    consul_lock child(a, prefix, inside_until(log, go_on), 1);
    co_await until("it holds", [&] { return log.count("+theirs") == 1; });
    slot none = co_await l.mutex.try_lock();
    BOOST_TEST(!none.valid());
    pending<slot> waiting(ex, l.mutex.lock());
    co_await pause(200ms);
    BOOST_TEST(!waiting.ready());
    std::ofstream(go_on) << '.';
    const error_code ec = co_await waiting.wait();
    BOOST_TEST(!ec);
    BOOST_TEST(log.count("-theirs") == 1u);
    BOOST_TEST(waiting.value().held());
    co_await until("it ends", [&] { return !child.running(); });
    BOOST_TEST(child.status().success());
    BOOST_TEST(waiting.value().held());  // that it deletes the key when it ends is not for us
    consul_lock next(a, prefix, "echo +theirs >>" + log.path().string(), 1);
    co_await pause(500ms);
    BOOST_TEST(next.running());
    BOOST_TEST(log.count("+theirs") == 1u);
    slot held = waiting.take();
    co_await held.release();
    co_await until("it has had its turn", [&] { return !next.running(); });
    BOOST_TEST(log.count("+theirs") == 2u);
  }
  co_await l.mutex.close();
  fs::remove(go_on);
}

/// Go programs have no queue. A program that finds the key taken again waits for the next chance, sometimes for 5 s.
static asio::awaitable<void> take_turns(asio::any_io_executor ex, std::string client) {
  constexpr std::size_t turns = 100;
  agent& a = shared_agent();
  const std::string key = unique_prefix("go-turns");
  journal log("go-turns");
  const gate end(log);
  asio::thread_pool own(1);
  std::vector<std::unique_ptr<locker>> us;
  companions running(ex);
  bool enough = false;
  auto contend = [&](locker& me) -> asio::awaitable<void> {
    while (!enough) {
      slot held = co_await me.mutex.lock();
      log.write("+ours");
      co_await pause(1ms);
      BOOST_TEST(held.held());
      log.write("-ours");
      co_await held.release();
    }
  };
  for (int i = 0; i < 2; ++i) {
    mutex_options options = calm(key);
    options.tuning.yield_interval = 20ms;  // so that the others have as many chances
    us.push_back(std::make_unique<locker>(own.get_executor(), a, options));
    for (int j = 0; j < 2; ++j) running.start(contend(*us.back()));
  }
  go_lock them(a, client, key, log, end.path(), {"-contenders=4"});
  co_await until(
      "each side has had its turns",
      [&] {
        return (log.count("-ours") >= turns && log.count("-theirs") >= turns) || running.running() < 4 ||
               !them.running();
      },
      50s);
  enough = true;
  end.open();
  co_await running.join();
  co_await until("they end", [&] { return !them.running(); });
  them.check_success();
  BOOST_TEST(log.most_inside() == 1);
  const std::size_t ours = log.count("+ours"), theirs = log.count("+theirs");
  BOOST_TEST(ours >= turns);
  BOOST_TEST(theirs >= turns);
  BOOST_TEST(log.count("-ours") == ours);
  BOOST_TEST(log.count("-theirs") == theirs);
  std::cout << "interop: " << ours << " turns of ours, " << theirs << " of Go's api.Lock (" << client
            << "), never two at a time\n";
  for (auto& each : us) co_await each->mutex.close();
  us.clear();
  own.join();
}

ASYNC_TEST_CASE(go_locks_and_our_mutex_take_turns_and_are_never_two_inside, 120s) {
  for (const char* const client : go_clients) co_await take_turns(ex, client);
}

static asio::awaitable<void> share_slots(asio::any_io_executor ex, std::string client) {
  constexpr std::size_t turns = 20;
  agent& a = shared_agent();
  const std::string prefix = unique_prefix("go-slots");
  journal log("go-slots");
  const gate end(log);
  asio::thread_pool own(1);
  std::vector<std::unique_ptr<participant>> us;
  companions running(ex);
  bool enough = false;
  auto contend = [&](participant& me) -> asio::awaitable<void> {
    while (!enough) {
      slot held = co_await me.sem.acquire();
      log.write("+ours");
      co_await pause(5ms);
      BOOST_TEST(held.held());
      log.write("-ours");
      co_await held.release();
    }
  };
  // Three of each kind use two slots, so that somebody of each kind always waits.
  for (int i = 0; i < 3; ++i) {
    us.push_back(std::make_unique<participant>(own.get_executor(), a, calm(prefix, 2)));
    running.start(contend(*us.back()));
  }
  go_lock them(a, client, prefix, log, end.path(), {"-slots=2", "-contenders=3", "-hold=5ms"});
  co_await until(
      "each side has had its turns",
      [&] {
        return (log.count("-ours") >= turns && log.count("-theirs") >= turns) || running.running() < 3 ||
               !them.running();
      },
      50s);
  enough = true;
  end.open();
  co_await running.join();
  co_await until("they end", [&] { return !them.running(); });
  them.check_success();
  BOOST_TEST(log.most_inside() == 2);
  const std::size_t ours = log.count("+ours"), theirs = log.count("+theirs");
  BOOST_TEST(ours >= turns);
  BOOST_TEST(theirs >= turns);
  std::cout << "interop: " << ours << " turns of ours, " << theirs << " of Go's api.Semaphore (" << client
            << "), never more than 2 at a time\n";
  for (auto& each : us) co_await each->sem.close();
  BOOST_TEST(holders(a, prefix).empty());
  us.clear();
  own.join();
}

ASYNC_TEST_CASE(go_semaphores_and_ours_share_the_slots, 120s) {
  for (const char* const client : go_clients) co_await share_slots(ex, client);
}

static asio::awaitable<void> hand_over(asio::any_io_executor ex, std::string client) {
  agent& a = shared_agent();
  const std::string key = unique_prefix("go-hand-over");
  journal log("go-hand-over");
  const gate end(log);
  locker l(ex, a, calm(key));
  held_mutex first = co_await l.mutex.lock();
  const sequencer ours = co_await sequencer_of(first);
  go_lock it(a, client, key, log, end.path(), {"-once", "-value=go was here"});
  // The session exists, so the program has read the key and found it taken.
  co_await until("it waits", [&] { return a.get("/v1/session/list").body.find("go_lock") != std::string::npos; });
  co_await pause(100ms);
  BOOST_TEST(log.lines().empty());
  bool lasts = co_await verify(l.client, ours);
  BOOST_TEST(lasts);
  co_await first.release();
  co_await until("it holds", [&] { return log.count("+theirs") == 1; });
  lasts = co_await verify(l.client, ours);
  BOOST_TEST(!lasts);
  const auto taken = co_await l.client.get(key);
  BOOST_REQUIRE(taken.value.has_value());
  BOOST_TEST(taken.value->value == "go was here");
  BOOST_TEST(taken.value->flags == protocol::mutex_flags);
  slot none = co_await l.mutex.try_lock();
  BOOST_TEST(!none.valid());
  election_observer observer(l.client, key);
  const std::optional<leader> seen = co_await observer.next();
  BOOST_REQUIRE(seen.has_value());
  lasts = co_await verify(l.client, seen->term);
  BOOST_TEST(lasts);

  pending<held_mutex> waiting(ex, l.mutex.lock());
  co_await until("we wait", [&] { return !contenders(a, key).empty(); });
  BOOST_TEST(!waiting.ready());
  end.open();
  const error_code ec = co_await waiting.wait();
  BOOST_TEST(!ec);
  BOOST_TEST(log.count("-theirs") == 1u);
  BOOST_TEST(waiting.value().held());
  BOOST_TEST((waiting.value().fencing_token() > first.fencing_token()));
  const sequencer again = co_await sequencer_of(waiting.value());
  lasts = co_await verify(l.client, again);
  BOOST_TEST(lasts);
  for (const sequencer& old : {ours, seen->term}) {
    lasts = co_await verify(l.client, old);
    BOOST_TEST(!lasts);
  }
  co_await until("it ends", [&] { return !it.running(); });
  it.check_success();
  BOOST_TEST(waiting.value().held());
  let_go(waiting.take());
  co_await l.mutex.close();
}

ASYNC_TEST_CASE(a_mutex_and_a_go_lock_hand_over_to_each_other, 120s) {
  for (const char* const client : go_clients) co_await hand_over(ex, client);
}

static asio::awaitable<void> outlive(asio::any_io_executor ex, std::string client) {
  agent& a = shared_agent();
  const std::string key = unique_prefix("go-died");
  journal log("go-died");
  const gate end(log);
  mutex_options options = calm(key);
  options.session_ttl = scaled(500ms);
  locker l(ex, a, options);
  go_lock killed(a, client, key, log, end.path(), {"-once", "-ttl=1s"});
  co_await until("it holds", [&] { return log.count("+theirs") == 1; });
  pending<slot> waiting(ex, l.mutex.lock());
  co_await until("we wait", [&] { return !contenders(a, key).empty(); });
  BOOST_TEST(!waiting.ready());
  killed.kill();
  const error_code ec = co_await waiting.wait();
  BOOST_TEST(!ec);
  BOOST_TEST(waiting.value().held());

  go_lock next(a, client, key, log, end.path(), {"-once"});
  co_await until("it waits", [&] { return a.get("/v1/session/list").body.find("go_lock") != std::string::npos; });
  BOOST_TEST(log.count("+theirs") == 1u);
  l.client.close();  // it renews nothing any more, and releases nothing
  co_await until("it holds", [&] { return log.count("+theirs") == 2; });
  BOOST_TEST(!waiting.value().held());
  end.open();
  co_await until("it ends", [&] { return !next.running(); });
  next.check_success();
}

ASYNC_TEST_CASE(a_mutex_and_a_go_lock_get_what_the_other_died_with, 120s) {
  for (const char* const client : go_clients) co_await outlive(ex, client);
}

/// `consul lock -n 1 PREFIX/task` locks PREFIX/task/.lock.
ASYNC_TEST_CASE(a_mutex_set_and_consul_lock_deny_each_other, 60s) {
  agent& a = shared_agent();
  const std::string prefix = unique_prefix("set-and-lock");
  journal log("set-and-lock");
  const fs::path go_on = log.path().string() + ".go";
  set_user us(ex, a, calm_set(prefix));
  {
    consul_lock child(a, prefix + "/task", inside_until(log, go_on), 1);
    co_await until("consul lock has it", [&] { return log.count("+theirs") == 1; });
    slot none = co_await us.set.try_lock("task/.lock");
    BOOST_TEST(!none.valid());
    std::ofstream(go_on).flush();
    co_await until("consul lock is done", [&] { return !child.running(); });
  }
  slot held = co_await us.set.try_lock("task/.lock");
  BOOST_REQUIRE(held.held());
  consul_lock next(a, prefix + "/task", "echo +theirs >>" + log.path().string(), 1);
  co_await pause(300ms);
  BOOST_TEST(log.count("+theirs") == 1u);
  co_await held.release();
  co_await until("consul lock has had its turn", [&] { return !next.running(); });
  BOOST_TEST(log.count("+theirs") == 2u);
  fs::remove(go_on);
  co_await us.set.close();
}

ASYNC_TEST_CASE(consul_lock_waits_while_we_hold_all_and_gets_in_after_a_release, 60s) {
  agent& a = shared_agent();
  const std::string prefix = unique_prefix("they-wait");
  journal log("they-wait");
  participant p(ex, a, calm(prefix, 3));
  slot one = co_await p.sem.acquire();
  slot two = co_await p.sem.acquire(2);
  consul_lock child(a, prefix, "echo +theirs >>" + log.path().string());
  co_await until("it waits", [&] { return contenders(a, prefix).size() == 4; });
  co_await pause(300ms);
  BOOST_TEST(child.running());
  BOOST_TEST(log.lines().empty());
  BOOST_TEST(one.held());
  BOOST_TEST(two.held());
  co_await one.release();
  co_await until("it has had its turn", [&] { return !child.running(); });
  BOOST_TEST(child.status().success());
  BOOST_TEST(log.count("+theirs") == 1u);
  BOOST_TEST(two.held());
  slot again = co_await p.sem.acquire();
  BOOST_TEST(again.held());
}

ASYNC_TEST_CASE(consul_lock_takes_a_numbered_slot_and_has_no_number, 60s) {
  agent& a = shared_agent();
  const std::string prefix = unique_prefix("numbered");
  journal log("numbered");
  const fs::path gate = log.path().string() + ".gate";
  semaphore_options options = calm(prefix, 3);
  options.numbered = true;
  participant one(ex, a, options), two(ex, a, options);
  consul_lock child(a, prefix, inside_until(log, gate));
  co_await until("it is inside", [&] { return log.count("+theirs") == 1; });
  slot first = co_await one.sem.acquire();
  slot second = co_await two.sem.acquire();
  pending<slot> waiting(ex, two.sem.acquire());
  co_await until("it waits", [&] { return contenders(a, prefix).size() == 4; });
  BOOST_TEST(!waiting.ready());
  std::ofstream(gate).close();
  const error_code ec = co_await waiting.wait();
  BOOST_TEST(!ec);
  std::vector<std::uint32_t> all;
  for (const slot* each : {&std::as_const(first), &std::as_const(second), &waiting.value()})
    for (const std::uint32_t number : each->numbers()) all.push_back(number);
  std::sort(all.begin(), all.end());
  BOOST_TEST((all == std::vector<std::uint32_t>{0, 1, 2}));
  co_await until("it has ended", [&] { return !child.running(); });
  fs::remove(gate);
}

ASYNC_TEST_CASE(we_wait_while_three_consul_locks_hold_and_get_in_after_one, 60s) {
  agent& a = shared_agent();
  const std::string prefix = unique_prefix("we-wait");
  journal log("we-wait"), gate("gate");
  const fs::path gates[3] = {gate.path().string() + "-0", gate.path().string() + "-1", gate.path().string() + "-2"};
  std::vector<std::unique_ptr<consul_lock>> children;
  for (const fs::path& each : gates)
    children.push_back(std::make_unique<consul_lock>(a, prefix, inside_until(log, each)));
  co_await until("all three hold", [&] { return log.count("+theirs") == 3; });
  participant p(ex, a, calm(prefix, 3));
  slot none = co_await p.sem.try_acquire();
  BOOST_TEST(!none.valid());
  slot late = co_await p.sem.try_acquire_for(200ms);
  BOOST_TEST(!late.valid());
  pending<slot> waiting(ex, p.sem.acquire());
  co_await until("we wait", [&] { return contenders(a, prefix).size() == 4; });
  co_await pause(100ms);
  BOOST_TEST(!waiting.ready());
  std::ofstream(gates[1]) << '.';
  const error_code ec = co_await waiting.wait();
  BOOST_TEST(!ec);
  BOOST_TEST(waiting.value().held());
  BOOST_TEST(log.count("-theirs") == 1u);  // not before it left
  std::ofstream(gates[0]) << '.';
  std::ofstream(gates[2]) << '.';
  for (auto& child : children) {
    co_await until("it ends", [&] { return !child->running(); });
    BOOST_TEST(child->status().success());
  }
  BOOST_TEST(waiting.value().held());
  BOOST_TEST(holders(a, prefix).size() == 1u);
  let_go(waiting.take());
  co_await p.sem.close();
  BOOST_TEST(is_clean(a, prefix));
  for (const fs::path& each : gates) fs::remove(each);
}

ASYNC_TEST_CASE(the_last_consul_lock_deletes_the_record_and_we_go_on, 60s) {
  agent& a = shared_agent();
  const std::string prefix = unique_prefix("deletes");
  participant p(ex, a, calm(prefix, 3));
  for (int i = 0; i < 3; ++i) {
    consul_lock child(a, prefix, "true");
    co_await until("it ends", [&] { return !child.running(); });
    BOOST_TEST(child.status().success());
    slot held = co_await p.sem.acquire();
    BOOST_TEST(held.held());
    co_await held.release();
  }
}

ASYNC_TEST_CASE(a_consul_lock_that_died_waiting_costs_the_patience_once, 60s) {
  agent& a = shared_agent();
  const std::string prefix = unique_prefix("abandoned");
  // A killed `consul lock` leaves this for up to twice its TTL: an entry of a Go client at the head of the queue,
  // without a process.
  const std::string created = a.put("/v1/session/create", R"({"TTL":"60s","LockDelay":"0s","Behavior":"delete"})").body;
  const std::string session = created.substr(created.find('-') - 8, 36);
  a.put("/v1/kv/" + prefix + "/" + session + "?acquire=" + session +
            "&flags=" + std::to_string(protocol::semaphore_flags),
        "");
  BOOST_REQUIRE(contenders(a, prefix).size() == 1u);
  semaphore_options options = calm(prefix, 1);
  options.tuning.claim_timeout = 500ms;
  participant p(ex, a, options);
  slot first = co_await p.sem.acquire();
  BOOST_TEST(first.held());
  const auto begun = std::chrono::steady_clock::now();
  for (int i = 0; i < 10; ++i) {
    co_await first.release();
    first = co_await p.sem.acquire();
  }
  BOOST_TEST(first.held());
  BOOST_TEST((std::chrono::steady_clock::now() - begun < 10 * *options.tuning.claim_timeout));
  a.put("/v1/session/destroy/" + session);
}

ASYNC_TEST_CASE(consul_lock_refuses_our_limit_as_we_refuse_its, 60s) {
  agent& a = shared_agent();
  const std::string prefix = unique_prefix("their-limit");
  participant p(ex, a, calm(prefix, 2));
  slot held = co_await p.sem.acquire();
  consul_lock child(a, prefix, "true");
  co_await until("it ends", [&] { return !child.running(); });
  BOOST_TEST(!child.status().success());
  BOOST_TEST(child.output().find("limit conflict (lock: 2, local: 3)") != std::string::npos);
  BOOST_TEST(held.held());
}

/// HashiCorp's client does not know the fields of an operator's orders. It ignores them, and drops them when it writes.
/// Still no more than the limit hold.
ASYNC_TEST_CASE(consul_lock_drops_what_an_operator_has_ordered, 60s) {
  agent& a = shared_agent();
  const std::string prefix = unique_prefix("orders");
  participant p(ex, a, calm(prefix, 3));
  administration_options which;
  which.prefix = prefix;
  semaphore_administration admin(p.client, which);
  journal log("orders");
  slot held = co_await p.sem.acquire(2);
  const std::string session = holders(a, prefix).at(0);
  co_await admin.close();
  co_await admin.revoke(session);
  co_await held.wait_revoked();
  pending<slot> waiting(ex, p.sem.acquire());
  BOOST_TEST(record(a, prefix).find(R"("Closed":true,"Revoked":{")" + session) != std::string::npos);

  const fs::path gate = log.path().string() + ".gate";
  consul_lock child(a, prefix, inside_until(log, gate));
  co_await until("it is inside, though the semaphore is closed", [&] { return log.count("+theirs") == 1; });
  const semaphore_status now = co_await admin.inspect();
  BOOST_TEST(!now.closed);
  BOOST_TEST(now.holders.size() == 3u);
  BOOST_TEST(!now.holders[0].revoked);
  BOOST_TEST(!now.holders[1].revoked);
  BOOST_TEST((now.holders[2].kind == contender_kind::go_client));
  BOOST_TEST(held.revoked());
  BOOST_TEST(held.held());
  BOOST_TEST(!waiting.ready());
  std::ofstream(gate).put('1');
  const error_code granted = co_await waiting.wait();
  BOOST_TEST(!granted);
  co_await until("it ends", [&] { return !child.running(); });
  BOOST_TEST(child.status().success());
  fs::remove(gate);
}

BOOST_AUTO_TEST_SUITE_END()
