// SPDX-FileCopyrightText: The holdfast authors
// SPDX-License-Identifier: BSL-1.0

// A service with one leader and hot standbys. Several processes stand for election, and the elected process does the
// work. If the leader dies or resigns, another process takes over.
//
// Each process campaigns with a value for the other processes and for the service's clients. Here the value is its name
// and its current activity; in production it would be an address. A client that needs to know the leader observes the
// election. Observing needs no session, so any number of clients can do it. The leader guards its writes with fence
// checks: if it has been deposed and has not noticed yet, Consul refuses them.
//
// The parent of all processes is such a client. It kills the first leader (SIGKILL). That leader's session is no longer
// renewed, and another process leads within two TTLs. Then the parent asks the second leader to stop (SIGTERM). That
// leader resigns, and another process leads at once.

#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <boost/asio/awaitable.hpp>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/deferred.hpp>
#include <boost/asio/experimental/parallel_group.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/signal_set.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/this_coro.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <chrono>
#include <exception>
#include <holdfast/holdfast.hpp>
#include <iostream>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "common/agent.hpp"
#include "common/child.hpp"
#include "common/command_line.hpp"

namespace asio = boost::asio;

namespace {

struct options {
  int nodes = 3;
  int ttl_ms = 1'000;
  std::string root = "hot_standby/" + std::to_string(::getpid());
  std::string node{};  // the name of this process; empty: the parent of all
};

std::string leader_key(const options& o) { return o.root + "/leader"; }
std::string work_key(const options& o) { return o.root + "/work"; }

void print(const std::string& line) { std::cout << line + "\n" << std::flush; }

// --- A process of the service.

class node {
public:
  node(holdfast::consul::client consul, const options& o) : consul_(consul), options_(o) {
    holdfast::election_options election;
    election.key = leader_key(o);
    election.session_ttl = std::chrono::milliseconds(o.ttl_ms);
    election.log = [name = o.node](const holdfast::log_event& event) {
      std::cerr << name + ": " + event.text() + "\n";
    };
    candidate_ = holdfast::election(consul, election);
  }

  // readme {
  asio::awaitable<void> serve() {
    const auto lead = [this](holdfast::leadership& lead) { return work(lead); };
    for (;;) {  // until it is cancelled, when it resigns or withdraws
      try {
        co_await holdfast::with_leadership(candidate_, options_.node + ": elected", lead);
      } catch (const holdfast::system_error& e) {
        const bool deposed = e.code() == holdfast::error::slot_lost;
        if (!deposed && !(e.code() == holdfast::condition::unavailable)) throw;
        print(options_.node + " stands for election again: " + e.what());
      }
    }
  }
  // } readme

private:
  /// Runs while this process leads. It is cancelled when the leadership is lost, or when this process is asked to stop.
  asio::awaitable<void> work(holdfast::leadership& lead) {
    print(options_.node + " leads, with fencing token " + lead.fencing_token().to_string());
    asio::steady_timer step(co_await asio::this_coro::executor);
    for (int done = 0;; ++done) {
      std::vector<holdfast::consul::txn_operation> write = lead.fence_checks();
      write.push_back(holdfast::consul::txn_operation::set(work_key(options_), options_.node));
      const auto reply = co_await consul_.transact(std::move(write));
      if (!reply.applied) print(options_.node + " does not lead any more, says Consul");
      if (done == 0) co_await lead.proclaim(options_.node + ": at work");
      step.expires_after(std::chrono::milliseconds(50));
      co_await step.async_wait(asio::use_awaitable);
    }
  }

  holdfast::consul::client consul_;
  const options& options_;
  holdfast::election candidate_;
};

int run_node(const example::agent& agent, const options& o) {
  asio::io_context io;
  node self(holdfast::consul::client(io, agent.config()), o);
  asio::signal_set stop(io, SIGTERM, SIGINT);
  // The operation that ends first cancels the other. After a signal, the node ends when it has resigned
  // or withdrawn.
  auto running = asio::experimental::make_parallel_group(asio::co_spawn(io, self.serve(), asio::deferred),
                                                         stop.async_wait(asio::deferred));
  int status = 0;
  running.async_wait(asio::experimental::wait_for_one(),
                     [&](const std::array<std::size_t, 2>& order, const std::exception_ptr&, holdfast::error_code,
                         int) { status = order[0] == 1 ? 0 : 1; });
  io.run();
  print(o.node + " has stopped");
  return status;
}

// --- The parent, as a client that follows who leads.

class client {
public:
  client(holdfast::consul::client consul, const options& o, std::map<std::string, pid_t>& nodes)
      : consul_(consul), observer_(consul, leader_key(o)), options_(o), nodes_(nodes) {}

  asio::awaitable<void> run() {
    const std::string first = co_await next_at_work();
    print("killing " + first + " (SIGKILL)");
    end(first, SIGKILL);
    const std::string second = co_await next_at_work();
    print("asking " + second + " to stop (SIGTERM)");
    end(second, SIGTERM);
    const std::string third = co_await next_at_work();
    print(first + " died, " + second + " resigned, " + third + " leads");
    while (!nodes_.empty()) end(nodes_.begin()->first, SIGTERM);
    co_await consul_.remove_tree(options_.root + "/");
  }

private:
  /// Waits for the next leader that has proclaimed that it works and that has not been ended by the parent.
  asio::awaitable<std::string> next_at_work() {
    for (;;) {
      const std::optional<holdfast::leader> now = co_await observer_.next();
      print("now: " + (now ? now->value : std::string("no leader")));
      const std::size_t colon = now ? now->value.find(": at work") : std::string::npos;
      if (colon == std::string::npos) continue;
      std::string name = now->value.substr(0, colon);
      if (nodes_.contains(name)) co_return name;
    }
  }

  void end(std::string name, int signal) {
    const pid_t pid = nodes_.at(name);
    nodes_.erase(name);
    ::kill(pid, signal);
    ::waitpid(pid, nullptr, 0);
  }

  holdfast::consul::client consul_;
  holdfast::election_observer observer_;
  const options& options_;
  std::map<std::string, pid_t>& nodes_;  // the running nodes
};

int run_parent(const example::agent& agent, const options& o) {
  std::map<std::string, pid_t> nodes;
  for (int i = 0; i != o.nodes; ++i) {
    const std::string name(1, static_cast<char>('A' + i));
    nodes[name] = example::start_again(
        {"--consul", agent.url(), "--root", o.root, "--ttl-ms", std::to_string(o.ttl_ms), "--node", name});
  }
  try {
    agent.run([&](holdfast::consul::client consul) -> asio::awaitable<void> {
      client self(consul, o, nodes);
      co_await self.run();
    });
  } catch (...) {
    for (const auto& [name, pid] : nodes) ::kill(pid, SIGKILL);
    throw;
  }
  return 0;
}

// --- The command line.

constexpr std::string_view help = R"(usage: hot_standby [options]

Starts processes of a service, of which one leads. The leader is killed: another one takes over. That one is asked to
stop: it resigns, and a third takes over.

  --nodes N        processes (3)
  --ttl-ms N       TTL of their sessions (1000; with --consul 10000, the least that most agents accept)
)";

options parse(example::arguments& given) {
  options o;
  if (!given.consul().empty()) o.ttl_ms = 10'000;
  o.nodes = given.number("--nodes", o.nodes, 3, 26);
  o.ttl_ms = given.number("--ttl-ms", o.ttl_ms, 100, 86'400'000);
  // The options that the parent passes to the nodes.
  o.node = given.text("--node", o.node);
  o.root = given.text("--root", o.root);
  given.end();
  return o;
}

}  // namespace

int main(int argc, char** argv) {
  return example::run(argc, argv, help, [](example::arguments& given) {
    const options o = parse(given);
    const example::agent agent(given.consul());
    return o.node.empty() ? run_parent(agent, o) : run_node(agent, o);
  });
}
