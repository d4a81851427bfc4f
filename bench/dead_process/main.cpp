// SPDX-FileCopyrightText: The holdfast authors
// SPDX-License-Identifier: BSL-1.0

// Measures what a process that dies or freezes costs the others, on a real Consul agent and with default options.
//
//   holdfast_dead_process [--scene NAME]... [--runs N] [--ttl 15|30] [--go PROGRAM] [--older PROGRAM]
//   - --scene: without it all scenes run; --scenes lists them
//   - --runs: how often each scene runs (1)
//   - --ttl: the TTL of the sessions in seconds (15)
//   - --go: the program of test/peers/go_lock, for the scene with HashiCorp's client in Go
//   - --older: this program, built with an older version of the library. It runs every other process of a scene
//
// The processes of a scene take slots, work for 20 ms and release. After 8 s some of them are killed (SIGKILL) or
// frozen (SIGSTOP). For two TTLs and 5 s the program then watches the survivors. Each run is one table row on stdout.
// The row has the longest time in which the survivors were granted nothing, and the most slots that were in use at a
// time. It also has the works per second before and after the fault. The program starts its own agents on loopback;
// HOLDFAST_CONSUL names Consul's program. The exit status is 1 if more slots were in use than there are, or if a scene
// failed.
//
// In the scenes with other clients three processes of ours are killed one after the other within 60 s. In the last
// scene the leader of three servers is killed ten times. Workers then use their slots for up to 2 s, and report each
// loss with the time since the grant.

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <boost/asio/as_tuple.hpp>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/detached.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <boost/asio/use_future.hpp>
#include <cstdlib>
#include <fstream>
#include <functional>
#include <future>
#include <map>
#include <memory>
#include <optional>
#include <random>
#include <set>
#include <stdexcept>
#include <system_error>

#include "cluster/support/cluster.hpp"
#include "dead_process/party.hpp"
#include "dead_process/scene.hpp"
#include "support/agent.hpp"
#include "support/process.hpp"
#include "support/temporary_folder.hpp"

namespace holdfast::bench {
namespace {

using namespace std::chrono_literals;
using test::agent;
using test::agent_options;
using test::process;
using test::process_options;

constexpr auto as_result = asio::as_tuple(asio::use_awaitable);
constexpr std::uint32_t slots = 8;
constexpr std::size_t processes_max = 16;
constexpr clock::duration work_time = 20ms, warm_up = 4s, reference_time = 4s;

struct arguments {
  std::vector<std::string> scenes;
  int ttl = 15;
  int runs = 1;
  std::string go, older;
  // Of child processes:
  std::string role, address, board, journal;
  std::size_t place = 0;
  std::uint32_t coroutines = 0;
};

// --- State that the processes of a scene share.

/// Lies in memory that all processes of a scene have mapped.
struct board {
  /// The slots that a process uses, in the low half. The high half counts the faults of the process: slots that it has
  /// taken before a fault count no more, unless it finds them held after that.
  std::array<std::atomic<std::uint64_t>, processes_max> used;
  std::array<std::atomic<std::uint64_t>, processes_max> cycles;  ///< slots taken so far
  std::atomic<std::uint32_t> most;                               ///< slots that were in use at a time

  std::uint32_t in_use() const {
    std::uint32_t sum = 0;
    for (const auto& each : used) sum += static_cast<std::uint32_t>(each.load());
    return sum;
  }
  std::uint32_t faults_of(std::size_t place) const { return static_cast<std::uint32_t>(used[place].load() >> 32); }

  /// Returns the number of faults of this process so far, for `leave`.
  std::uint32_t enter(std::size_t place) {
    const auto faults = static_cast<std::uint32_t>((used[place].fetch_add(1) + 1) >> 32);
    // One process may leave and another one enter while the sum is taken. Slots that are really used by too many are so
    // for many sums.
    std::uint32_t sum = in_use();
    for (int i = 0; i != 20; ++i) sum = std::min(sum, in_use());
    for (std::uint32_t before = most; before < sum && !most.compare_exchange_weak(before, sum);) {
    }
    return faults;
  }
  void leave(std::size_t place, std::uint32_t faults) {
    std::uint64_t before = used[place];
    while (before >> 32 == faults && !used[place].compare_exchange_weak(before, before - 1)) {
    }
  }
  void fault(std::size_t place) { used[place] = ((used[place] >> 32) + 1) << 32; }
};
static_assert(std::atomic<std::uint64_t>::is_always_lock_free);

/// A board in a file that is mapped into this process.
class shared_board {
public:
  explicit shared_board(const std::string& file) {
    const int fd = ::open(file.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600);
    if (fd < 0) throw std::system_error(errno, std::generic_category(), file);
    if (::ftruncate(fd, sizeof(board)) != 0) throw std::system_error(errno, std::generic_category(), file);
    void* const at = ::mmap(nullptr, sizeof(board), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    ::close(fd);
    if (at == MAP_FAILED) throw std::system_error(errno, std::generic_category(), file);
    board_ = static_cast<board*>(at);
  }
  ~shared_board() { ::munmap(board_, sizeof(board)); }
  shared_board(const shared_board&) = delete;
  shared_board& operator=(const shared_board&) = delete;
  board* operator->() const { return board_; }
  board& operator*() const { return *board_; }

private:
  board* board_;
};

/// A file to which all processes of a scene append a line when they enter (`+name`) and when they leave (`-name`).
class entries_and_exits {
public:
  explicit entries_and_exits(const std::string& file) : file_(file) {
    if (!file.empty()) fd_ = ::open(file.c_str(), O_CREAT | O_APPEND | O_WRONLY | O_CLOEXEC, 0600);
  }
  ~entries_and_exits() {
    if (fd_ >= 0) ::close(fd_);
  }
  entries_and_exits(const entries_and_exits&) = delete;
  entries_and_exits& operator=(const entries_and_exits&) = delete;

  void write(char sign, const std::string& name) const {
    std::string line(1, sign);
    line.append(name).push_back('\n');
    if (fd_ >= 0 && ::write(fd_, line.data(), line.size()) < 0) say("the journal cannot be written");
  }
  /// Writes the exits that the process of this name, which was killed, has not written.
  void killed(const std::string& name) const {
    for (int inside = read()[name].inside; inside > 0; --inside) write('-', name);
  }
  struct count {
    int entered = 0, inside = 0;
  };
  /// By name. The count of all together stands under the empty name; `most` gets the most that were inside at a time.
  std::map<std::string, count> read(int* most = nullptr) const {
    std::map<std::string, count> result;
    std::ifstream in(file_);
    for (std::string line; std::getline(in, line);) {
      const int step = line.front() == '+' ? 1 : -1;
      for (const std::string& name : {std::string(), line.substr(1)}) {
        result[name].inside += step;
        result[name].entered += step > 0;
      }
      if (most) *most = std::max(*most, result[""].inside);
    }
    return result;
  }

private:
  std::string file_;
  int fd_ = -1;
};

// --- The child processes.

template <class Acquire>
asio::awaitable<void> work(Acquire acquire, board& all, std::size_t place, const entries_and_exits& log) {
  const std::string name = std::to_string(place);
  asio::steady_timer timer(co_await asio::this_coro::executor);
  for (;;) {
    auto [failed, held] = co_await acquire();
    if (failed) say("acquire failed: " + failed.message());
    if (failed) continue;
    ++all.cycles[place];
    std::uint32_t faults = all.enter(place);
    log.write('+', name);
    timer.expires_after(work_time);
    co_await timer.async_wait(as_result);
    if (all.faults_of(place) != faults && held.held()) faults = all.enter(place);
    log.write('-', name);
    all.leave(place, faults);
    auto [ec] = co_await held.release(as_result);
    if (ec) say("release failed: " + ec.message());
  }
}

[[noreturn]] void wait_for_the_end() {
  for (;;) std::this_thread::sleep_for(1h);
}

void semaphore_worker(const arguments& args, bool numbered) {
  const shared_board all(args.board);
  party one(args.address);
  semaphore_options options;
  options.prefix = "dead-process";
  options.limit = slots;
  options.session_ttl = seconds(args.ttl);
  options.numbered = numbered;
  semaphore s(one.client, options);
  const entries_and_exits log(args.journal);
  const auto acquire = [&s] { return s.acquire(as_result); };
  for (std::uint32_t i = 0; i != args.coroutines; ++i)
    asio::co_spawn(one.client.get_executor(), work(acquire, *all, args.place, log), asio::detached);
  wait_for_the_end();
}

void mutex_worker(const arguments& args) {
  const shared_board all(args.board);
  party one(args.address);
  mutex_options options;
  options.key = "dead-process/mutex";
  options.session_ttl = seconds(args.ttl);
  mutex m(one.client, options);
  const entries_and_exits log({});
  const auto acquire = [&m] { return m.lock(as_result); };
  for (std::uint32_t i = 0; i != args.coroutines; ++i)
    asio::co_spawn(one.client.get_executor(), work(acquire, *all, args.place, log), asio::detached);
  wait_for_the_end();
}

/// Uses each slot for up to 2 s, and reports whether it was lost meanwhile.
asio::awaitable<void> use_for_long(semaphore& s) {
  std::mt19937 random(std::random_device{}());
  asio::steady_timer timer(co_await asio::this_coro::executor);
  for (;;) {
    auto [failed, held] = co_await s.acquire(as_result);
    if (failed) continue;  // Consul has no leader
    const auto granted = clock::now();
    const auto end = granted + std::chrono::milliseconds(std::uniform_int_distribution(0, 2'000)(random));
    std::optional<std::string> lost;
    while (clock::now() < end && !lost) {
      timer.expires_at(std::min(end, clock::now() + 5ms));
      co_await timer.async_wait(as_result);
      if (!held.held())
        lost = std::string(to_string(held.lost_because())) + " after " + text(seconds_since(granted)) + " s";
    }
    say(lost ? "lost " + *lost : "kept");
    co_await held.release(as_result);
  }
}

void long_worker(const arguments& args) {
  party one(args.address);
  semaphore_options options;
  options.prefix = "dead-process";
  options.limit = slots;
  options.session_ttl = seconds(args.ttl);
  semaphore s(one.client, options);
  for (std::uint32_t i = 0; i != args.coroutines; ++i)
    asio::co_spawn(one.client.get_executor(), use_for_long(s), asio::detached);
  wait_for_the_end();
}

election_options of_election(const arguments& args) {
  election_options options;
  options.key = "dead-process/leader";
  options.session_ttl = seconds(args.ttl);
  return options;
}

void candidate(const arguments& args) {
  party one(args.address);
  election e(one.client, of_election(args));
  const leadership lead = e.campaign("child " + std::to_string(args.place), asio::use_future).get();
  if (lead.held()) say("leads");
  wait_for_the_end();
}

std::unique_ptr<process> child(const std::string& role, const agent& a, const std::string& board, std::size_t place,
                               std::uint32_t coroutines, const arguments& args,
                               std::function<void(std::string_view)> on_line, const std::string& journal = {}) {
  process_options options;
  options.command = {place % 2 == 1 && !args.older.empty() ? args.older : "/proc/self/exe",
                     "--role",
                     role,
                     "--address",
                     a.address(),
                     "--board",
                     board,
                     "--place",
                     std::to_string(place),
                     "--coroutines",
                     std::to_string(coroutines),
                     "--ttl",
                     std::to_string(args.ttl)};
  if (!journal.empty()) options.command.insert(options.command.end(), {"--journal", journal});
  options.on_line = std::move(on_line);
  return std::make_unique<process>(std::move(options));
}

// --- The scenes.

struct scene {
  std::string name;
  std::string role;
  std::uint32_t processes = 0, coroutines = 0, dead = 0;
  clock::duration frozen_for{};  ///< 0: the processes are killed instead
  bool idle = false;             ///< a process dies while it uses no slot
};

agent_options as_shipped() {
  agent_options options;
  options.as_shipped = true;
  return options;
}

/// Watches the processes that stay alive: how much they work, and the longest time in which they were granted nothing.
/// The time counts from the construction to the last `look`, whose interval is its precision.
class survivors {
public:
  survivors(const board& all, const scene& of) : all_(all), of_(of), last_(cycles()) {}

  std::uint64_t cycles() const {
    std::uint64_t sum = 0;
    for (std::size_t i = of_.dead; i != of_.processes; ++i) sum += all_.cycles[i];
    return sum;
  }
  double rate_for(clock::duration time) const {
    const auto begun = clock::now();
    const std::uint64_t before = cycles();
    std::this_thread::sleep_for(time);
    return static_cast<double>(cycles() - before) / seconds_since(begun);
  }
  void look() {
    if (const std::uint64_t now = cycles(); now != last_) {
      last_ = now;
      last_at_ = clock::now();
    }
    longest_ = std::max(longest_, seconds_since(last_at_));
  }
  double longest() const { return longest_; }

private:
  const board& all_;
  const scene& of_;
  std::uint64_t last_;
  clock::time_point last_at_ = clock::now();
  double longest_ = 0;
};

void stop(process& its, board& all, std::size_t place, const scene& how) {
  its.freeze();
  while (how.idle && static_cast<std::uint32_t>(all.used[place]) != 0) {
    its.thaw();
    std::this_thread::sleep_for(1ms);
    its.freeze();
  }
  all.fault(place);
  if (how.frozen_for == 0s) its.kill();
}

/// Returns false if too many slots were in use.
bool run_workers(const scene& how, const arguments& args) {
  const agent a(as_shipped());
  const test::temporary_folder folder;
  const std::string file = folder.path() + "/board";
  const shared_board all(file);
  std::mutex mutex;
  std::vector<std::string> troubles;
  std::vector<std::unique_ptr<process>> workers;
  for (std::uint32_t i = 0; i != how.processes; ++i)
    workers.push_back(child(how.role, a, file, i, how.coroutines, args, [&](std::string_view line) {
      const std::lock_guard lock(mutex);
      troubles.emplace_back(line);
    }));
  std::this_thread::sleep_for(warm_up);
  survivors alive(*all, how);
  const double rate_before = alive.rate_for(reference_time);

  const auto begun = clock::now();
  for (std::uint32_t i = 0; i != how.dead; ++i) stop(*workers[i], *all, i, how);
  survivors watched(*all, how);
  const std::uint64_t at_fault = watched.cycles();
  bool frozen = how.frozen_for != 0s;
  while (clock::now() < begun + 2 * seconds(args.ttl) + 5s) {
    std::this_thread::sleep_for(10ms);
    if (frozen && clock::now() > begun + how.frozen_for) {
      for (std::uint32_t i = 0; i != how.dead; ++i) workers[i]->thaw();
      frozen = false;
    }
    watched.look();
  }
  const double rate_after = static_cast<double>(watched.cycles() - at_fault) / seconds_since(begun);
  workers.clear();
  const std::uint32_t limit = how.role == "mutex" ? 1 : slots;
  const std::lock_guard lock(mutex);
  row(how.name, args.ttl, text(watched.longest(), 1),
      "at most " + std::to_string(all->most) + " of " + std::to_string(limit) + " in use; " + text(rate_before, 0) +
          " works/s before, " + text(rate_after, 0) + " afterwards" +
          (troubles.empty() ? "" : "; " + std::to_string(troubles.size()) + " lines, the first: " + troubles.front()));
  return all->most <= limit && all->most != 0;
}

/// A leader resigns 0.4 s after the next candidate was killed. The figure is the time until the candidate after that
/// one leads. Returns false if the observer has named the dead candidate, or has not named the living one in time.
bool run_election(const scene& how, const arguments& args) {
  const agent a(as_shipped());
  party one(a.address()), other(a.address());
  election e(one.client, of_election(args));
  leadership lead = e.campaign("first", asio::use_future).get();
  std::promise<clock::time_point> led;
  const auto joins = [&](std::size_t place, std::function<void(std::string_view)> on_line) {
    const auto entries = [&] {
      const std::string keys = a.get("/v1/kv/dead-process/leader/?keys").body;
      return std::count(keys.begin(), keys.end(), ',') + 1;
    };
    const auto before = entries();
    auto its = child("candidate", a, "", place, 0, args, std::move(on_line));
    if (!wait_until(clock::now() + 30s, 10ms, [&] { return entries() > before; }))
      throw std::runtime_error("a candidate does not join");
    return its;
  };
  const auto dead = joins(1, [](std::string_view) {});
  const auto next = joins(2, [&](std::string_view line) {
    if (line == "leads") led.set_value(clock::now());
  });
  std::mutex mutex;
  std::set<std::string> named;
  election_observer observer(other.client, e.key());
  const auto watch = [&]() -> asio::awaitable<void> {
    for (;;) {
      auto [failed, seen] = co_await observer.next(as_result);
      const std::lock_guard lock(mutex);
      if (!failed && seen) named.insert(seen->value);
    }
  };
  asio::co_spawn(other.client.get_executor(), watch(), asio::detached);
  std::this_thread::sleep_for(1s);
  dead->kill();
  std::this_thread::sleep_for(400ms);
  const auto begun = clock::now();
  lead.resign(asio::use_future).get();
  auto elected = led.get_future();
  const bool in_time = elected.wait_for(2 * seconds(args.ttl) + 5s) == std::future_status::ready;
  const double took = in_time ? std::chrono::duration<double>(elected.get() - begun).count() : seconds_since(begun);
  const bool seen = wait_until(clock::now() + 5s, 10ms, [&] {
    const std::lock_guard lock(mutex);
    return named.contains("child 2");
  });
  other.stop();
  one.stop();
  row(how.name, args.ttl, (in_time ? "" : "over ") + text(took, 1),
      std::string("the observer ") + (named.contains("child 1") ? "named the dead one" : "never named the dead one") +
          (seen ? "" : ", nor the living one"));
  return !named.contains("child 1") && seen;
}

/// Three processes of ours beside two of another client, which are started again whenever they end. The figure is the
/// longest time in which a living process of ours was granted nothing.
bool run_beside(const scene& how, const arguments& args,
                const std::function<process_options(const agent&, const std::string& journal)>& other) {
  const agent a(as_shipped());
  const test::temporary_folder folder;
  const std::string file = folder.path() + "/board", journal = folder.path() + "/journal";
  const shared_board all(file);
  const entries_and_exits log(journal);
  std::array<std::unique_ptr<process>, 3> ours;
  const auto start = [&](std::size_t place) {
    ours[place] = child(
        "semaphore", a, file, place, 8, args, [](std::string_view) {}, journal);
  };
  for (std::size_t i = 0; i != ours.size(); ++i) start(i);
  std::vector<std::unique_ptr<process>> theirs(2);
  std::array<std::uint64_t, 3> last{};
  std::array<clock::time_point, 3> last_at;
  last_at.fill(clock::now() + warm_up);
  double longest = 0;
  const auto begun = clock::now();
  for (std::size_t killed = 0; clock::now() < begun + 60s;) {
    for (auto& each : theirs)
      if (!each || !each->running()) each = std::make_unique<process>(other(a, journal));
    const auto round = static_cast<std::size_t>((clock::now() - begun) / 15s);
    const auto in_round = (clock::now() - begun) % 15s;
    if (round < ours.size() && in_round > 6s && killed == round) {
      ours[round]->kill();
      all->fault(round);
      log.killed(std::to_string(round));
      ++killed;
    }
    if (round > 0 && round <= ours.size() && !ours[round - 1]->running()) {
      start(round - 1);
      last_at[round - 1] = clock::now() + warm_up;
    }
    std::this_thread::sleep_for(10ms);
    for (std::size_t i = 0; i != ours.size(); ++i) {
      if (const std::uint64_t now = all->cycles[i]; now != last[i] || !ours[i]->running()) {
        last[i] = now;
        last_at[i] = std::max(last_at[i], clock::now());
      }
      longest = std::max(longest, seconds_since(last_at[i]));
    }
  }
  for (auto& each : ours) each.reset();
  theirs.clear();
  int most = 0;
  auto counts = log.read(&most);
  row(how.name, args.ttl, text(longest, 1),
      "at most " + std::to_string(most) + " of " + std::to_string(slots) + " in use; " +
          std::to_string(counts[""].entered - counts["theirs"].entered) + " works of ours, " +
          std::to_string(counts["theirs"].entered) + " of theirs");
  return most <= static_cast<int>(slots) && counts["theirs"].entered != 0;
}

process_options go_client(const arguments& args, const agent& a, const std::string& journal) {
  process_options options;
  options.command = {args.go,
                     "-agent=" + a.address(),
                     "-key=dead-process",
                     "-journal=" + journal,
                     "-until=" + journal + ".end",
                     "-slots=" + std::to_string(slots),
                     "-contenders=2",
                     "-hold=20ms"};
  return options;
}

process_options consul_lock(const agent& a, const std::string& journal) {
  process_options options;
  options.command = {test::consul_program().string(),
                     "lock",
                     "-http-addr=" + a.address(),
                     "-n",
                     std::to_string(slots),
                     "-child-exit-code",
                     "dead-process",
                     "echo +theirs >>" + journal + "; sleep 0.02; echo -theirs >>" + journal};
  return options;
}

/// The leader of three servers is killed ten times, under load. The figure is the number of slots that were lost though
/// they had been granted more than 0.2 s before.
bool run_leader_kills(const scene& how, const arguments& args) {
  constexpr int kills = 10;
  test::cluster consul(0);
  std::mutex mutex;
  std::uint64_t kept = 0;
  std::map<std::string, int> lost_early;
  std::vector<std::string> lost_late;
  std::vector<std::unique_ptr<process>> workers;
  for (std::size_t i = 0; i != 3; ++i)
    workers.push_back(child("long", consul.server(static_cast<int>(i)), "", i, 8, args, [&](std::string_view line) {
      const std::lock_guard lock(mutex);
      kept += line == "kept";
      if (!line.starts_with("lost ")) return;
      const std::string what(line.substr(5, line.find(' ', 5) - 5));
      const double age = std::strtod(std::string(line.substr(line.find("after ") + 6)).c_str(), nullptr);
      if (age > 0.2)
        lost_late.emplace_back(line);
      else
        ++lost_early[what];
    }));
  std::this_thread::sleep_for(warm_up);
  for (int i = 0; i != kills; ++i) {
    const int leads = consul.leader();
    consul.server(leads).kill();
    std::this_thread::sleep_for(8s);  // an election, and work without the third server
    consul.server(leads).restart();
    consul.wait_until_healthy();
    std::this_thread::sleep_for(2s);
  }
  workers.clear();
  const std::lock_guard lock(mutex);
  std::string early;
  for (const auto& [reason, count] : lost_early) early += ", " + std::to_string(count) + " " + reason;
  row(how.name, args.ttl, std::to_string(lost_late.size()),
      std::to_string(kills) + " kills; " + std::to_string(kept) + " slots kept; lost within 0.2 s: " +
          (early.empty() ? "none" : early.substr(2)) + (lost_late.empty() ? "" : "; the first: " + lost_late.front()));
  return lost_late.empty() && kept != 0;
}

const std::vector<scene> all_scenes = {{"one of two is killed", "semaphore", 2, 16, 1},
                                       {"one of two is frozen for 25 s", "semaphore", 2, 16, 1, 25s},
                                       {"one of four is killed", "semaphore", 4, 16, 1},
                                       {"one of six is killed that uses nothing", "semaphore", 6, 8, 1, {}, true},
                                       {"the next candidate is killed", "election"},
                                       {"1 of 12 is killed", "semaphore", 12, 8, 1},
                                       {"3 of 12 are killed", "semaphore", 12, 8, 3},
                                       {"8 of 12 are killed", "semaphore", 12, 8, 8},
                                       {"one of two is frozen for 1 s", "semaphore", 2, 16, 1, 1s},
                                       {"one of two is frozen for 3 s", "semaphore", 2, 16, 1, 3s},
                                       {"one of two is frozen for 6 s", "semaphore", 2, 16, 1, 6s},
                                       {"one of two is frozen for 20 s", "semaphore", 2, 16, 1, 20s},
                                       {"mutex: one of two is killed", "mutex", 2, 4, 1},
                                       {"mutex: one of four is frozen for 6 s", "mutex", 4, 4, 1, 6s},
                                       {"numbered: one of two is killed", "numbered", 2, 16, 1},
                                       {"numbered: 3 of 12 are killed", "numbered", 12, 8, 3},
                                       {"beside the client in Go, with kills", "go"},
                                       {"beside consul lock, with kills", "consul lock"},
                                       {"Consul's leader is killed", "leader"}};

bool run_scene(const scene& its, const arguments& args) {
  if (its.role == "election") return run_election(its, args);
  if (its.role == "leader") return run_leader_kills(its, args);
  if (its.role == "consul lock") return run_beside(its, args, consul_lock);
  if (its.role != "go") return run_workers(its, args);
  if (args.go.empty()) throw std::runtime_error("--go is not given");
  return run_beside(its, args, [&](const agent& a, const std::string& log) { return go_client(args, a, log); });
}

int usage(const std::string& what) {
  std::cerr << what
            << "\nusage: holdfast_dead_process [--scene NAME]... [--runs N] [--ttl 15|30] [--go PROGRAM] "
               "[--older PROGRAM] [--scenes]\n";
  return 2;
}

int run(int count, char** words) {
  arguments args;
  for (int i = 1; i < count; ++i) {
    const std::string word = words[i];
    if (word == "--scenes") {
      for (const scene& each : all_scenes) say(each.name);
      return 0;
    }
    if (i + 1 == count) return usage("unknown, or without its value: " + word);
    const std::string value = words[++i];
    if (word == "--scene")
      args.scenes.push_back(value);
    else if (word == "--runs")
      args.runs = std::stoi(value);
    else if (word == "--ttl")
      args.ttl = std::stoi(value);
    else if (word == "--role")
      args.role = value;
    else if (word == "--go")
      args.go = value;
    else if (word == "--older")
      args.older = value;
    else if (word == "--journal")
      args.journal = value;
    else if (word == "--address")
      args.address = value;
    else if (word == "--board")
      args.board = value;
    else if (word == "--place")
      args.place = std::stoul(value);
    else if (word == "--coroutines")
      args.coroutines = static_cast<std::uint32_t>(std::stoul(value));
    else
      return usage("unknown: " + word + " " + value);
  }
  if (args.role == "mutex") mutex_worker(args);
  if (args.role == "candidate") candidate(args);
  if (args.role == "long") long_worker(args);
  if (!args.role.empty()) semaphore_worker(args, args.role == "numbered");
  int status = 0;
  for (const scene& each : all_scenes) {
    if (!args.scenes.empty() && std::find(args.scenes.begin(), args.scenes.end(), each.name) == args.scenes.end())
      continue;
    for (int i = 0; i != args.runs; ++i) {
      try {
        progress(each.name);
        if (!run_scene(each, args)) status = 1;
      } catch (const std::exception& e) {
        row(each.name, args.ttl, "failed", e.what());
        status = 1;
      }
    }
  }
  return status;
}

}  // namespace
}  // namespace holdfast::bench

int main(int count, char** words) { return holdfast::bench::run(count, words); }
