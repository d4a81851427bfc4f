// SPDX-FileCopyrightText: The holdfast authors
// SPDX-License-Identifier: BSL-1.0

// Does one measurement of the semaphore on RabbitMQ, and prints one line of JSON. run.py runs all of them, on a broker
// of its own, and measures the seed clients in the same run.
//
// usage: holdfast_rabbitmq_bench PORT WORKLOAD CONTENDERS SECONDS
//
//   cycle    one caller acquires and releases the only slot. No slot is handed on in the process.
//   floor    the same frames by a loop on a blocking socket.
//   handoff  so many processes take turns on one slot. Each holds it for 2 ms.
//   pool     so many coroutines of one process take turns on four slots.
//   waiting  so many processes wait for a slot. Prints "ready", then waits for the end of its input.
//   idle     one process holds so many slots, and nobody waits. The same.

#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/posix/stream_descriptor.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <chrono>
#include <csignal>
#include <cstdint>
#include <holdfast/rabbitmq.hpp>
#include <iostream>
#include <map>
#include <stdexcept>
#include <string>
#include <vector>

#include "measure.hpp"
#include "support/raw_amqp.hpp"

namespace {

namespace asio = boost::asio;
using holdfast::bench::duration;
using holdfast::bench::in_milliseconds;
using holdfast::bench::in_seconds;
using holdfast::bench::latencies;
using clock_type = holdfast::bench::clock;
using namespace std::chrono_literals;

constexpr duration hold = 2ms;
constexpr std::int64_t lease_ms = 10'000;

struct parameters {
  std::uint16_t port = 0;
  int contenders = 1;
  duration time{};
};

void rethrow(std::exception_ptr e) {
  if (e) std::rethrow_exception(e);
}

holdfast::rabbitmq::semaphore semaphore_of(const holdfast::rabbitmq::client& broker, std::uint32_t slots) {
  const std::string name = "bench-" + std::to_string(::getppid()) + "-of-" + std::to_string(slots);
  return {broker, {.name = name, .create_with = slots, .lease = std::chrono::milliseconds(lease_ms)}};
}

holdfast::rabbitmq::client client_on(asio::io_context& io, const parameters& p) {
  return {io, {.address = "amqp://127.0.0.1:" + std::to_string(p.port)}};
}

void print(std::uint64_t operations, duration elapsed, const latencies& times) {
  std::cout << "{\"operations\":" << operations
            << ",\"ops_per_s\":" << static_cast<double>(operations) / in_seconds(elapsed)
            << ",\"p50_ms\":" << in_milliseconds(times.quantile(0.5))
            << ",\"p99_ms\":" << in_milliseconds(times.quantile(0.99)) << "}\n";
}

void print_ready() { std::cout << "{\"ready\":true,\"resident\":" << holdfast::bench::resident() << "}" << std::endl; }

/// Acquires and releases until the time is over. Each time is that of an acquire and its release.
asio::awaitable<void> take_turns(holdfast::rabbitmq::semaphore& sem, clock_type::time_point end, latencies& times) {
  for (auto begin = clock_type::now(); begin < end;) {
    holdfast::rabbitmq::slot held = co_await sem.acquire();
    co_await held.release();
    const auto now = clock_type::now();
    times.add(now - begin);
    begin = now;
  }
}

void in_one_process(const parameters& p, std::uint32_t slots) {
  asio::io_context io(1);
  const auto broker = client_on(io, p);
  holdfast::rabbitmq::semaphore sem = semaphore_of(broker, slots);
  latencies times;
  duration elapsed{};
  int left = p.contenders;
  const auto all = [&]() -> asio::awaitable<void> {
    holdfast::rabbitmq::slot first = co_await sem.acquire();  // makes the queues and a connection
    co_await first.release();
    const auto begin = clock_type::now();
    for (int i = 0; i != p.contenders; ++i)
      asio::co_spawn(io, take_turns(sem, begin + p.time, times), [&, begin](std::exception_ptr e) {
        rethrow(e);
        if (--left != 0) return;
        elapsed = clock_type::now() - begin;
        sem.close([&](holdfast::error_code) { broker.close(); });
      });
  };
  asio::co_spawn(io, all(), rethrow);
  io.run();
  print(times.count(), elapsed, times);
}

/// Sends what an acquire and a release send, and waits for their answers.
void floor_of_cycle(const parameters& p) {
  using namespace holdfast::test;
  const std::string a = "floor-1-A", b = "floor-1-B", f = "floor-1-F", hints = "floor-F";
  amqp::queue_arguments of_hints;
  of_hints.max_length = 1000;
  of_hints.message_ttl = 2000;
  of_hints.queue_type = "classic";
  raw_amqp wire(p.port);
  wire.ask({declare(a, length_0()), declare(f, token_queue(lease_ms)), declare(hints, of_hints), message(f)});
  const std::vector<amqp_request> acquire{declare_exclusive(b, length_0()), get(f), passive(a)};
  const std::vector<amqp_request> release{passive(b), message(f), remove(b), message(hints, "1")};
  latencies times;
  const auto begin = clock_type::now();
  auto last = begin;
  while (last < begin + p.time) {
    const auto got = wire.ask(acquire);
    if (got != std::vector<std::string>{"ok", "clean", "ok"} || wire.ask(release).size() != 2)
      throw std::runtime_error("the floor's frames are answered in another way");
    const auto now = clock_type::now();
    times.add(now - last);
    last = now;
  }
  print(times.count(), last - begin, times);
}

/// The holder of the only slot writes here. So no two processes write at once.
struct handoffs {
  std::atomic<std::int64_t> released_at;  ///< in nanoseconds; 0 at first
  std::atomic<int> releaser;
  std::atomic<int> asking;
  latencies gaps;
};

asio::awaitable<void> hand_around(holdfast::rabbitmq::semaphore& sem, handoffs& shared, int own,
                                  clock_type::time_point from, clock_type::time_point end) {
  asio::steady_timer timer(co_await asio::this_coro::executor);
  while (clock_type::now() < end) {
    holdfast::rabbitmq::slot held = co_await sem.acquire();
    const duration entered = clock_type::now().time_since_epoch();
    if (shared.released_at != 0 && shared.releaser != own && clock_type::now() > from)
      shared.gaps.add(entered - duration(shared.released_at));
    timer.expires_after(hold);
    co_await timer.async_wait(asio::use_awaitable);
    shared.releaser = own;
    shared.released_at = clock_type::now().time_since_epoch().count();
    co_await held.release();
  }
  co_await sem.close();
}

/// Runs `body` in so many children, and returns their ids.
template <class Body>
std::vector<pid_t> fork_all(int count, Body body) {
  std::vector<pid_t> children;
  for (int i = 0; i != count; ++i) {
    const pid_t child = ::fork();
    if (child < 0) throw std::runtime_error("fork");
    if (child == 0) {
      body(i);
      ::_exit(0);
    }
    children.push_back(child);
  }
  return children;
}

void hand_over(const parameters& p) {
  auto& shared = *static_cast<handoffs*>(holdfast::bench::shared_memory(sizeof(handoffs)));
  const auto from = clock_type::now() + 3s;  // by then the queues are made and the slot is clean
  const auto children = fork_all(p.contenders, [&](int own) {
    asio::io_context io(1);
    const auto broker = client_on(io, p);
    holdfast::rabbitmq::semaphore sem = semaphore_of(broker, 1);
    asio::co_spawn(io, hand_around(sem, shared, own, from, from + p.time), [&](std::exception_ptr e) {
      rethrow(e);
      broker.close();
    });
    io.run();
  });
  for (const pid_t each : children) ::waitpid(each, nullptr, 0);
  print(shared.gaps.count(), p.time, shared.gaps);
}

void wait_for_end_of_input() {
  for (std::string line; std::getline(std::cin, line);) {
  }
}

void wait_in_processes(const parameters& p) {
  auto& shared = *static_cast<handoffs*>(holdfast::bench::shared_memory(sizeof(handoffs)));
  const auto children = fork_all(p.contenders, [&](int) {
    asio::io_context io(1);
    const auto broker = client_on(io, p);
    holdfast::rabbitmq::semaphore sem = semaphore_of(broker, 1);
    holdfast::rabbitmq::slot held;
    const auto wait = [&]() -> asio::awaitable<void> {
      ++shared.asking;
      held = co_await sem.acquire();
    };
    asio::co_spawn(io, wait(), rethrow);
    io.run();
  });
  while (shared.asking != p.contenders) ::usleep(10'000);
  print_ready();
  wait_for_end_of_input();
  for (const pid_t each : children) ::kill(each, SIGKILL);
  for (const pid_t each : children) ::waitpid(each, nullptr, 0);
}

void hold_many(const parameters& p) {
  const std::size_t before = holdfast::bench::resident();
  asio::io_context io(1);
  const auto broker = client_on(io, p);
  holdfast::rabbitmq::semaphore sem = semaphore_of(broker, static_cast<std::uint32_t>(p.contenders));
  std::vector<holdfast::rabbitmq::slot> all;
  const auto hold_all = [&]() -> asio::awaitable<void> {
    for (int i = 0; i != p.contenders; ++i) {
      holdfast::rabbitmq::slot next = co_await sem.acquire();
      all.push_back(std::move(next));
    }
    std::cout << "{\"ready\":true,\"resident_for_each\":"
              << (holdfast::bench::resident() - before) / static_cast<std::size_t>(p.contenders) << "}" << std::endl;
  };
  asio::co_spawn(io, hold_all(), rethrow);
  asio::posix::stream_descriptor input(io, ::dup(STDIN_FILENO));
  char byte = 0;
  input.async_read_some(asio::buffer(&byte, 1), [&](holdfast::error_code, std::size_t) { io.stop(); });
  io.run();
}

}  // namespace

int main(int argc, char** argv) {
  try {
    if (argc != 5) throw std::invalid_argument("usage: holdfast_rabbitmq_bench PORT WORKLOAD CONTENDERS SECONDS");
    const std::map<std::string, void (*)(const parameters&)> workloads{
        {"cycle", [](const parameters& p) { in_one_process(p, 1); }},
        {"pool", [](const parameters& p) { in_one_process(p, 4); }},
        {"floor", floor_of_cycle},
        {"handoff", hand_over},
        {"waiting", wait_in_processes},
        {"idle", hold_many},
    };
    const auto time = std::chrono::duration_cast<duration>(std::chrono::duration<double>(std::stod(argv[4])));
    workloads.at(argv[2])({static_cast<std::uint16_t>(std::stoi(argv[1])), std::stoi(argv[3]), time});
    return 0;
  } catch (const std::exception& e) {
    std::cerr << e.what() << '\n';
    return 1;
  }
}
