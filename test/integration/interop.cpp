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
    const auto result = child_->wait(60s);
    return result ? *result : exit_status{-1, 0};
  }

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
    const auto status = child_->wait(60s);
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

asio::awaitable<slot> take(participant& me) {
  slot held = co_await me.sem.acquire();
  co_return held;
}
asio::awaitable<slot> take(locker& me) {
  slot held = co_await me.mutex.lock();
  co_return held;
}
asio::awaitable<void> close(participant& me) { co_await me.sem.close(); }
asio::awaitable<void> close(locker& me) { co_await me.mutex.close(); }

/// Our side where both sides take turns. Its coroutines take a slot, hold it for a while and release it, until `end`.
/// Its clients have a thread of their own, because starting processes blocks the thread of the test.
template <class Participant>
class our_side {
public:
  our_side(asio::any_io_executor ex, journal& log, std::chrono::milliseconds hold)
      : running_(std::move(ex)), log_(log), hold_(hold) {}

  template <class Options>
  void join(const agent& a, const Options& options, int coroutines = 1) {
    us_.push_back(std::make_unique<Participant>(own_.get_executor(), a, options));
    for (int i = 0; i < coroutines; ++i, ++started_) running_.start(contend(*us_.back()));
  }
  /// Returns false if one of the coroutines has failed.
  bool goes_on() const { return running_.running() == started_; }
  bool is_over() const { return enough_; }
  std::size_t turns() const { return turns_; }

  asio::awaitable<void> end() {
    enough_ = true;
    co_await running_.join();
    for (auto& each : us_) co_await close(*each);
    us_.clear();
    own_.join();
    BOOST_TEST(log_.count("+ours") == turns_);
    BOOST_TEST(log_.count("-ours") == turns_);
  }

private:
  asio::awaitable<void> contend(Participant& me) {
    while (!enough_) {
      slot held = co_await take(me);
      log_.write("+ours");
      co_await pause(hold_);
      BOOST_TEST(held.held());
      log_.write("-ours");
      ++turns_;
      co_await held.release();
    }
  }

  asio::thread_pool own_{1};
  std::vector<std::unique_ptr<Participant>> us_;
  companions running_;
  journal& log_;
  const std::chrono::milliseconds hold_;
  std::size_t started_ = 0, turns_ = 0;
  bool enough_ = false;
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
  constexpr std::size_t turns = 12;
  agent& a = shared_agent();
  const std::string prefix = unique_prefix("together");
  journal log("together");
  const std::string command =
      "echo +theirs >>" + log.path().string() + "; sleep 0.02; echo -theirs >>" + log.path().string();
  our_side<participant> ours(ex, log, 20ms);
  companions running(ex);
  std::size_t theirs = 0;
  auto contend_by_lock = [&]() -> asio::awaitable<void> {
    while (!ours.is_over()) {
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
    ours.join(a, calm(prefix, 3));
    running.start(contend_by_lock());
  }
  co_await until(
      "each side has had its turns",
      [&] { return (ours.turns() >= turns && theirs >= turns) || !ours.goes_on() || running.running() < 4; }, 60s);
  co_await ours.end();
  co_await running.join();
  const int most = log.most_inside();
  BOOST_TEST(most <= 3);
  BOOST_TEST(most >= 2);
  BOOST_TEST(log.count("+theirs") == log.count("-theirs"));
  std::cout << "interop: " << ours.turns() << " turns of ours, " << theirs << " of consul lock, at most " << most
            << " inside a limit of 3\n";
  BOOST_TEST(contenders(a, prefix).empty());
  BOOST_TEST(holders(a, prefix).empty());
}

ASYNC_TEST_CASE(consul_lock_and_our_mutex_together_are_never_more_than_one, 120s) {
  constexpr std::size_t turns = 4;
  agent& a = shared_agent();
  const std::string prefix = unique_prefix("one-of-us");
  journal log("one-of-us");
  const std::string command =
      "echo +theirs >>" + log.path().string() + "; sleep 0.02; echo -theirs >>" + log.path().string();
  // Two processes of ours have three coroutines each, most of which wait. `consul lock`, whose waiting shows nowhere,
  // still has its turns.
  our_side<locker> ours(ex, log, 5ms);
  for (int i = 0; i < 2; ++i) ours.join(a, calm(prefix + "/.lock"), 3);
  for (std::size_t theirs = 0; theirs < turns && ours.goes_on(); ++theirs) {
    consul_lock child(a, prefix, command, 1);
    co_await until(
        "consul lock has had its turn", [&] { return !child.running(); }, 60s);
    const exit_status status = child.status();
    BOOST_TEST_INFO(child.output());
    BOOST_TEST(status.success());
  }
  co_await ours.end();
  BOOST_TEST(log.most_inside() == 1);
  BOOST_TEST(log.count("+theirs") == turns);
  BOOST_TEST(ours.turns() > 3 * turns);
  std::cout << "interop: " << ours.turns() << " turns of ours, " << turns << " of consul lock, never two at a time\n";
}

/// Our side and a Go program both have this many turns.
template <class Participant>
static asio::awaitable<void> take_turns(our_side<Participant>& ours, go_lock& them, const journal& log, const gate& end,
                                        std::size_t turns) {
  co_await until(
      "each side has had its turns",
      [&] { return (ours.turns() >= turns && log.count("-theirs") >= turns) || !ours.goes_on() || !them.running(); },
      50s);
  end.open();
  co_await ours.end();
  co_await until("they end", [&] { return !them.running(); });
  them.check_success();
  BOOST_TEST(ours.turns() >= turns);
  BOOST_TEST(log.count("+theirs") >= turns);
  BOOST_TEST(log.count("-theirs") == log.count("+theirs"));
}

/// Go programs have no queue. A program that finds the key taken again waits for the next chance, sometimes for 5 s.
static asio::awaitable<void> share_a_lock(asio::any_io_executor ex, std::string client) {
  agent& a = shared_agent();
  mutex_options options = calm(unique_prefix("go-turns"));
  options.tuning.yield_interval = 20ms;  // so that the others have as many chances
  journal log("go-turns");
  const gate end(log);
  our_side<locker> ours(ex, log, 1ms);
  for (int i = 0; i < 2; ++i) ours.join(a, options, 2);
  go_lock them(a, client, options.key, log, end.path(), {"-contenders=4"});
  co_await take_turns(ours, them, log, end, 100);
  BOOST_TEST(log.most_inside() == 1);
  std::cout << "interop: " << ours.turns() << " turns of ours, " << log.count("+theirs") << " of Go's api.Lock ("
            << client << "), never two at a time\n";
}

ASYNC_TEST_CASE(go_locks_and_our_mutex_take_turns_and_are_never_two_inside, 120s) {
  for (const char* const client : go_clients) co_await share_a_lock(ex, client);
}

static asio::awaitable<void> share_slots(asio::any_io_executor ex, std::string client) {
  agent& a = shared_agent();
  const std::string prefix = unique_prefix("go-slots");
  journal log("go-slots");
  const gate end(log);
  // Three of each kind use two slots, so that somebody of each kind always waits.
  our_side<participant> ours(ex, log, 5ms);
  for (int i = 0; i < 3; ++i) ours.join(a, calm(prefix, 2));
  go_lock them(a, client, prefix, log, end.path(), {"-slots=2", "-contenders=3", "-hold=5ms"});
  co_await take_turns(ours, them, log, end, 20);
  BOOST_TEST(log.most_inside() == 2);
  std::cout << "interop: " << ours.turns() << " turns of ours, " << log.count("+theirs") << " of Go's api.Semaphore ("
            << client << "), never more than 2 at a time\n";
  BOOST_TEST(holders(a, prefix).empty());
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
