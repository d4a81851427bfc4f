// SPDX-FileCopyrightText: The holdfast authors
// SPDX-License-Identifier: BSL-1.0

#include "cluster/support/cluster.hpp"

#include <boost/json/parse.hpp>
#include <boost/json/value.hpp>
#include <filesystem>
#include <optional>
#include <stdexcept>
#include <string>
#include <thread>

namespace holdfast::test {
namespace {

namespace json = boost::json;
using namespace std::chrono_literals;

// Servers sync their writes. On a file system in memory that is cheap, and its files survive a `kill -9`.
std::filesystem::path disk() {
  std::error_code none;
  const std::filesystem::path memory = "/dev/shm";
  return std::filesystem::is_directory(memory, none) ? memory : std::filesystem::path();
}

agent_options on_host(const network* net, int host, agent_options options) {
  options.files_in = disk();
  if (net) {
    options.host = net->address(host);
    options.launcher = net->inside(host);
  }
  return options;
}

}  // namespace

cluster::cluster(int clients, const network* net, bool as_shipped, const std::string& extra_config,
                 const std::string& tls_config) {
  for (int i = 0; i != server_count; ++i) {
    agent_options options;
    options.as_shipped = as_shipped;
    options.extra_config = extra_config;
    options.tls_config = tls_config;
    options.servers = server_count;
    options.join = i == 0 ? nullptr : servers_.front().get();
    servers_.push_back(std::make_unique<agent>(on_host(net, i + 1, std::move(options))));
  }
  // A server that starts again finds the others.
  for (const auto& each : servers_)
    for (const auto& other : servers_)
      if (each != other) each->also_join(*other);
  for (int i = 0; i != clients; ++i) {
    agent_options options;
    options.as_shipped = as_shipped;
    options.extra_config = extra_config;
    options.tls_config = tls_config;
    options.server = false;
    options.join = servers_.front().get();
    clients_.push_back(std::make_unique<agent>(on_host(net, server_count + i + 1, std::move(options))));
    for (const auto& other : servers_) clients_.back()->also_join(*other);
  }
  wait_until_healthy();
}

std::optional<int> cluster::agreed_leader() const {
  std::optional<std::string> agreed;
  for (const auto& each : servers_) {
    const agent_reply reply = each->request("GET", "/v1/status/leader", {}, 2s);
    const std::string said = reply.status == 200 ? reply.body : std::string();
    if (agreed && *agreed != said) return std::nullopt;
    agreed = said;
  }
  for (std::size_t i = 0; i != servers_.size(); ++i) {
    const std::string address = servers_[i]->host() + ":" + std::to_string(servers_[i]->rpc_port());
    if (agreed->find('"' + address + '"') != std::string::npos) return static_cast<int>(i);
  }
  return std::nullopt;
}

int cluster::leader() const {
  const std::optional<int> agreed = agreed_leader();
  if (!agreed) throw std::runtime_error("the servers do not agree on a leader");
  return *agreed;
}

bool cluster::three_voters() const {
  const agent_reply reply = servers_.front()->request("GET", "/v1/operator/raft/configuration", {}, 2s);
  if (reply.status != 200) return false;
  int voters = 0;
  const json::value parsed = json::parse(reply.body);
  for (const json::value& each : parsed.at("Servers").as_array()) voters += each.at("Voter").as_bool();
  return voters == server_count;
}

void cluster::wait_until_healthy(std::chrono::milliseconds limit) const {
  const auto end = std::chrono::steady_clock::now() + limit;
  const auto left = [&] {
    return std::chrono::duration_cast<std::chrono::milliseconds>(end - std::chrono::steady_clock::now());
  };
  for (;;) {
    try {
      if (agreed_leader() && three_voters()) break;
      // NOLINTNEXTLINE(bugprone-empty-catch): one of them does not answer yet
    } catch (const std::exception&) {
    }
    if (left() <= 0ms)
      throw std::runtime_error("the servers do not agree on a leader:\n" + servers_.front()->log_tail());
    std::this_thread::sleep_for(20ms);
  }
  for (const auto& each : servers_) each->wait_until_ready(left());
  for (const auto& each : clients_) each->wait_until_ready(left());
}

}  // namespace holdfast::test
