// SPDX-FileCopyrightText: The holdfast authors
// SPDX-License-Identifier: BSL-1.0

#include "cluster/support/network.hpp"

#include <fcntl.h>
#include <sched.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <cstdlib>
#include <stdexcept>
#include <system_error>
#include <thread>
#include <utility>

#include "support/process.hpp"

namespace holdfast::test {
namespace {

using namespace std::chrono_literals;

constexpr std::string_view network_prefix = "10.77.0.";
constexpr int switch_number = 254;

int open_own_space() { return ::open("/proc/thread-self/ns/net", O_RDONLY | O_CLOEXEC); }

[[noreturn]] void not_allowed(int number) {
  throw std::runtime_error(
      "these tests make network namespaces, and this machine does not let them: " +
      std::generic_category().message(number) +
      ". Run them as root, or by `unshare --user --map-root-user --net sh -c 'ip link set lo up; ctest ...'`");
}

void enter_space(int fd) {
  if (::setns(fd, CLONE_NEWNET) != 0) not_allowed(errno);
}

// The PATH with the folders of administrators' programs, which not every user's PATH has.
std::vector<std::pair<std::string, std::string>> administrators_path() {
  const char* path = std::getenv("PATH");
  return {{"PATH", std::string(path ? path : "/usr/bin:/bin") + ":/usr/sbin:/sbin"}};
}

std::vector<std::string> joined(std::vector<std::string> front, const std::vector<std::string>& back) {
  front.insert(front.end(), back.begin(), back.end());
  return front;
}

}  // namespace

network::space network::make_space() {
  space made{-1, {}};
  int failure = 0;
  // A new thread starts in the namespace of its creator. This one moves to a new namespace, and the descriptor keeps
  // that alive.
  std::thread([&] {
    if (::unshare(CLONE_NEWNET) == 0) made.fd = open_own_space();
    if (made.fd < 0) failure = errno;
  }).join();
  if (failure != 0) not_allowed(failure);
  made.path = "/proc/" + std::to_string(::getpid()) + "/fd/" + std::to_string(made.fd);
  return made;
}

void network::command(std::vector<std::string> words) {
  std::string line;
  for (const std::string& each : words) line += (line.empty() ? "" : " ") + each;
  const finished_process done = run(std::move(words), 10s, administrators_path());
  if (!done.status || !done.status->success()) throw std::runtime_error("failed: " + line + "\n" + done.output);
}

network::network(int hosts) {
  // The thread that starts all children is made with the first child. It must not be inside the network.
  for (const std::string program : {"ip", "nft", "tc", "nsenter"}) {
    const finished_process found = run({"sh", "-c", "command -v " + program}, 10s, administrators_path());
    if (!found.status || !found.status->success())
      throw std::runtime_error("these tests make a network of their own, and " + program +
                               " is missing: scripts/setup installs it");
  }
  outside_ = open_own_space();
  try {
    enter_space(outside_);  // shows that the destructor can do this, too
    switch_ = make_space();
    at_switch({"ip", "link", "set", "lo", "up"});
    at_switch({"ip", "link", "add", "br0", "type", "bridge"});
    at_switch({"ip", "addr", "add", address(switch_number) + "/24", "dev", "br0"});
    at_switch({"ip", "link", "set", "br0", "up"});
    for (int host = 1; host <= hosts; ++host) {
      hosts_.push_back(make_space());
      const std::string port = "p" + std::to_string(host);
      at_switch({"ip", "link", "add", port, "type", "veth", "peer", "name", "eth0", "netns", hosts_.back().path});
      at_switch({"ip", "link", "set", port, "master", "br0", "up"});
      at_host(host, {"ip", "link", "set", "lo", "up"});
      at_host(host, {"ip", "addr", "add", address(host) + "/24", "dev", "eth0"});
      at_host(host, {"ip", "link", "set", "eth0", "up"});
    }
    mend();
    enter_space(switch_.fd);
  } catch (...) {
    for (const space& each : hosts_) ::close(each.fd);
    if (switch_.fd > 0) ::close(switch_.fd);
    ::close(outside_);
    throw;
  }
}

network::~network() {
  enter_space(outside_);
  for (const space& each : hosts_) ::close(each.fd);
  ::close(switch_.fd);
  ::close(outside_);
}

std::string network::address(int host) const { return std::string(network_prefix) + std::to_string(host); }

std::vector<std::string> network::inside(int host) const {
  return {"nsenter", "--net=" + hosts_.at(static_cast<std::size_t>(host - 1)).path, "--"};
}

void network::at_switch(std::vector<std::string> words) const {
  command(joined({"nsenter", "--net=" + switch_.path, "--"}, words));
}

void network::at_host(int host, std::vector<std::string> words) const { command(joined(inside(host), words)); }

// The rules filter only frames from port to port, so that the test itself reaches every host.
void network::drop(int host, const std::string& condition) {
  const std::string port = "p" + std::to_string(host);
  for (const std::string direction : {"iifname", "oifname"})
    at_switch({"nft", "add rule bridge faults forward " + direction + " " + port + condition + " drop"});
}

void network::cut(int host) { drop(host, ""); }

void network::lose(int host, int percent) { drop(host, " numgen random mod 100 < " + std::to_string(percent)); }

void network::narrow(int host, std::string_view rate) {
  at_host(host, {"tc", "qdisc", "replace", "dev", "eth0", "root", "tbf", "rate", std::string(rate), "burst", "4kb",
                 "latency", "400ms"});
  narrowed_.push_back(host);
}

void network::mend() {
  at_switch({"nft", "flush ruleset"});
  at_switch({"nft", "add table bridge faults"});
  at_switch({"nft", "add chain bridge faults forward { type filter hook forward priority 0; }"});
  for (const int host : std::exchange(narrowed_, {})) at_host(host, {"tc", "qdisc", "del", "dev", "eth0", "root"});
}

}  // namespace holdfast::test
