// SPDX-FileCopyrightText: The holdfast authors
// SPDX-License-Identifier: BSL-1.0

// Measures the cost of an agent that fails: on a real Consul agent, with the library's default options but for the
// timeouts below.
//
//   holdfast_bad_agent [--scene NAME]...
//     closing: the client's first address closes each connection after it has read the request. The time to the first
//              slot, given up after 20 s
//     frozen:  the first address accepts connections and says nothing; the request timeout is 500 ms for client and
//              locks. The same time
//     dead:    10,000 requests wait for 10 s for an agent whose port is closed. The CPU time of the process, the
//              longest time that a handler waited on the client's strand (a renewal begins there), and how late the
//              last request ended after its deadline
//
// The program starts its own agent on loopback; HOLDFAST_CONSUL names Consul's program. Each result is one table row on
// stdout.

#include <sys/resource.h>

#include <algorithm>
#include <array>
#include <boost/asio/as_tuple.hpp>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/detached.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <chrono>
#include <cstdio>
#include <holdfast/holdfast.hpp>
#include <iostream>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "support/agent.hpp"

namespace {

namespace asio = boost::asio;
using namespace std::chrono_literals;
using clock_type = std::chrono::steady_clock;
using tcp = asio::ip::tcp;
constexpr auto as_result = asio::as_tuple(asio::use_awaitable);

double seconds(clock_type::duration time) { return std::chrono::duration<double>(time).count(); }

void row(const char* scene, const std::string& figures) {
  std::cout << "| " << scene << " | " << holdfast::test::consul_programs_version().to_text() << " | " << figures << " |"
            << std::endl;
}

std::string text(double value) {
  std::array<char, 40> buffer{};
  std::snprintf(buffer.data(), buffer.size(), "%.3f", value);
  return buffer.data();
}

asio::awaitable<void> close_each(tcp::acceptor& acceptor) {
  for (;;) {
    auto [ec, socket] = co_await acceptor.async_accept(as_result);
    if (ec) co_return;
    std::array<char, 4096> request{};
    co_await socket.async_read_some(asio::buffer(request), as_result);
    socket.close();
  }
}

std::string address_of(const tcp::acceptor& acceptor) {
  return "127.0.0.1:" + std::to_string(acceptor.local_endpoint().port());
}

asio::awaitable<void> first_slot(const char* scene, asio::io_context& io, holdfast::consul::config settings,
                                 holdfast::semaphore_options options) {
  const auto begun = clock_type::now();
  holdfast::consul::client client(io, settings);
  holdfast::semaphore sem(client, options);
  std::string outcome = "no slot in 20 s";
  while (clock_type::now() < begun + 20s) {
    auto [ec, held] = co_await sem.try_acquire_for(20s, as_result);
    if (ec) continue;
    outcome = text(seconds(clock_type::now() - begun)) + " s to the first slot";
    break;
  }
  row(scene, outcome);
  io.stop();
}

void run_first_slot(const char* scene, bool closes) {
  const holdfast::test::agent agent;
  asio::io_context io;
  tcp::acceptor bad(io, {asio::ip::address_v4::loopback(), 0});
  if (closes) asio::co_spawn(io, close_each(bad), asio::detached);
  holdfast::consul::config settings;
  settings.addresses = {address_of(bad), agent.address()};
  holdfast::semaphore_options options;
  options.prefix = "bad-agent";
  options.limit = 1;
  if (!closes) {
    settings.request_timeout = 500ms;
    options.tuning.request_timeout = 500ms;
  }
  asio::co_spawn(io, first_slot(scene, io, settings, options), asio::detached);
  io.run();
}

void closing() { run_first_slot("closing", true); }
void frozen() { run_first_slot("frozen", false); }

double cpu() {
  rusage used{};
  getrusage(RUSAGE_SELF, &used);
  const auto of = [](const timeval& time) {
    return static_cast<double>(time.tv_sec) + static_cast<double>(time.tv_usec) / 1e6;
  };
  return of(used.ru_utime) + of(used.ru_stime);
}

struct tally {
  std::size_t open = 0;
  std::size_t unreachable = 0;
  clock_type::duration latest{};
  clock_type::duration longest_wait{};
};

asio::awaitable<void> wait_for(holdfast::consul::client client, tally& all) {
  const auto deadline = clock_type::now() + 10s;
  holdfast::consul::read_options options;
  options.request.timeout = 10s;
  auto [ec, answer] = co_await client.get("k", options, as_result);
  all.latest = std::max(all.latest, clock_type::now() - deadline);
  if (ec == holdfast::error::unreachable) ++all.unreachable;
  --all.open;
}

asio::awaitable<void> watch_strand(asio::io_context& io, holdfast::consul::client client, tally& all) {
  asio::steady_timer timer(io);
  const auto strand = client.strand();
  while (all.open != 0) {
    timer.expires_after(5ms);
    co_await timer.async_wait(asio::use_awaitable);
    const auto posted = clock_type::now();
    co_await asio::post(strand, asio::use_awaitable);
    all.longest_wait = std::max(all.longest_wait, clock_type::now() - posted);
  }
}

void dead() {
  constexpr std::size_t many = 10'000;
  asio::io_context io;
  holdfast::consul::config settings;
  {
    const tcp::acceptor gone(io, {asio::ip::address_v4::loopback(), 0});
    settings.address = address_of(gone);
  }
  const holdfast::consul::client client(io, settings);
  tally all;
  all.open = many;
  for (std::size_t i = 0; i != many; ++i) asio::co_spawn(io, wait_for(client, all), asio::detached);
  asio::co_spawn(io, watch_strand(io, client, all), asio::detached);
  const auto begun = clock_type::now();
  const double before = cpu();
  io.run();
  const double share = (cpu() - before) / seconds(clock_type::now() - begun);
  row("dead", text(100 * share) + " % of a core; longest wait on the strand " + text(1000 * seconds(all.longest_wait)) +
                  " ms; last request " + text(1000 * seconds(all.latest)) + " ms after its deadline; " +
                  std::to_string(all.unreachable) + " of " + std::to_string(many) + " ended with unreachable");
}

const std::map<std::string, void (*)()> scenes = {{"closing", closing}, {"frozen", frozen}, {"dead", dead}};

}  // namespace

int main(int argc, char** argv) {
  std::vector<std::string> wanted;
  for (int i = 1; i < argc; i += 2) {
    if (std::string(argv[i]) != "--scene" || i + 1 == argc || !scenes.contains(argv[i + 1])) {
      std::cerr << "usage: holdfast_bad_agent [--scene closing|frozen|dead]...\n";
      return 2;
    }
    wanted.emplace_back(argv[i + 1]);
  }
  if (wanted.empty()) wanted = {"closing", "frozen", "dead"};
  for (const std::string& each : wanted) scenes.at(each)();
}
