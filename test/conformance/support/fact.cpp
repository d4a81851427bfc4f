// SPDX-FileCopyrightText: The holdfast authors
// SPDX-License-Identifier: BSL-1.0

#include "conformance/support/fact.hpp"

#include <unistd.h>

#include <algorithm>
#include <boost/json/parse.hpp>
#include <boost/json/value.hpp>
#include <chrono>
#include <cstdlib>
#include <holdfast/testing/server.hpp>
#include <stdexcept>
#include <string>
#include <thread>

#include "support/agent.hpp"
#include "testing/defect.hpp"

namespace holdfast::test {
namespace {

constexpr auto loopback = "127.0.0.1";
constexpr std::chrono::seconds reply_within(20);
constexpr std::chrono::milliseconds reply_of_defective_model_within(500);  // some wake nobody: no need to wait long

const char* defect_name() { return std::getenv(defect_variable); }

void add_defect(testing::server& model) {
  const auto& all = testing::defects;
  const auto at = std::find_if(all.begin(), all.end(), [](auto each) { return to_string(each) == defect_name(); });
  if (at == all.end()) throw std::invalid_argument(std::string("no such defect: ") + defect_name());
  model.with([which = *at](testing::store& s, auto) { s.break_rule(which); });
}

// Like the agents of the tests.
testing::server_options model_options(const peer_limits& limits) {
  testing::server_options options;
  options.host = loopback;
  options.model.session_ttl_min = std::chrono::milliseconds(10);
  options.model.value_bytes_max = limits.value_bytes;
  options.model.txn_bytes_max = limits.txn_bytes;
  options.model.version = consul_programs_version();
  return options;
}

struct model {
  testing::server server;
  std::uint16_t port = 0;

  explicit model(const peer_limits& limits = {}) : server(model_options(limits)) {
    if (defect_name()) add_defect(server);
    const std::string address = server.address();
    port = static_cast<std::uint16_t>(std::stoi(address.substr(address.rfind(':') + 1)));
  }
};

std::string new_prefix(std::string_view fact) {
  static unsigned count = 0;
  return std::to_string(++count) + "-" + std::string(fact) + "/";
}

void run_on(const agent& one, std::string_view fact, void (*body)(peer&)) {
  peer consul(one.host(), one.http_port(), one.pid(), new_prefix(fact), reply_within);
  body(consul);
}

void run_on(const model& one, std::string_view fact, void (*body)(peer&)) {
  peer consul(loopback, one.port, ::getpid(), new_prefix(fact),
              defect_name() ? reply_of_defective_model_within : reply_within);
  body(consul);
}

// Shortly after an agent's start, it and its leader write the agent's own node into the catalog, in several steps. Each
// step moves the index of nodes, and Raft's index, which facts compare. Returns when they have done the last one.
const agent& settled(const agent& one) {
  const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(60);
  const auto is_settled = [&one] {
    const auto reply = one.get("/v1/catalog/node/" + one.node_name());
    const auto read = reply.status == 200 ? boost::json::parse(reply.body) : boost::json::value();
    return read.is_object() && read.at("Node").at("TaggedAddresses").is_object() &&
           read.at("Services").as_object().contains("consul");
  };
  while (!is_settled()) {
    if (std::chrono::steady_clock::now() >= end) throw std::runtime_error("the agent does not register its own node");
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
  }
  return one;
}

void refuse_models() {
  if (agents_are_models()) throw std::logic_error("a fact about Consul needs a real agent");
}

}  // namespace

void run_on_consul(std::string_view fact, void (*body)(peer&)) {
  refuse_models();
  static const agent& one = settled(shared_agent());
  run_on(one, fact, body);
}

void run_on_model(std::string_view fact, void (*body)(peer&)) {
  static const model one;
  run_on(one, fact, body);
}

void run_on_consul_of_its_own(std::string_view fact, void (*body)(peer&), const peer_limits& limits) {
  refuse_models();
  agent_options options;
  options.extra_config = R"({"limits":{"kv_max_value_size":)" + std::to_string(limits.value_bytes) +
                         R"(,"txn_max_req_len":)" + std::to_string(limits.txn_bytes) + "}}";
  const agent one(options);
  run_on(settled(one), fact, body);
}

void run_on_model_of_its_own(std::string_view fact, void (*body)(peer&), const peer_limits& limits) {
  run_on(model(limits), fact, body);
}

}  // namespace holdfast::test
