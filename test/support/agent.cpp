// SPDX-FileCopyrightText: The holdfast authors
// SPDX-License-Identifier: BSL-1.0

#include "support/agent.hpp"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include <algorithm>
#include <atomic>
#include <boost/json/object.hpp>
#include <boost/json/parse.hpp>
#include <boost/json/serialize.hpp>
#include <boost/json/value.hpp>
#include <boost/test/results_collector.hpp>
#include <boost/test/tree/observer.hpp>
#include <boost/test/unit_test.hpp>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <deque>
#include <fstream>
#include <iostream>
#include <mutex>
#include <random>
#include <stdexcept>
#include <system_error>
#include <thread>

#include "support/process.hpp"

namespace holdfast::test {
namespace {

namespace fs = std::filesystem;
namespace json = boost::json;
using clock = std::chrono::steady_clock;
using std::chrono::milliseconds;

constexpr int start_attempts = 5;
constexpr std::size_t log_lines_printed = 40;

bool bind_to(const socket_handle& s, const sockaddr_in& a) {
  return ::bind(s.get(), reinterpret_cast<const sockaddr*>(&a), sizeof a) == 0;
}

// A port that was free for TCP and UDP a moment ago. If another process takes it first, start() retries.
std::uint16_t free_port(const std::string& host) {
  for (int attempt = 0; attempt < 100; ++attempt) {
    const socket_handle tcp(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
    const socket_handle udp(::socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0));
    auto a = socket_address(host, 0);
    socklen_t size = sizeof a;
    if (!bind_to(tcp, a)) throw std::system_error(errno, std::generic_category(), "cannot bind to " + host);
    ::getsockname(tcp.get(), reinterpret_cast<sockaddr*>(&a), &size);
    if (bind_to(udp, a)) return ntohs(a.sin_port);
  }
  throw std::runtime_error("no free port on " + host);
}

std::uint64_t random_number() {
  std::random_device device;
  return std::uint64_t{device()} << 32 | device();
}

std::string hex(std::uint64_t n) {
  char buffer[17];
  std::snprintf(buffer, sizeof buffer, "%016llx", static_cast<unsigned long long>(n));
  return buffer;
}

// One of 127.0.1.2 to 127.0.1.254. Each test program begins at a random one, because several may run at a time.
std::string next_host() {
  static std::atomic<std::uint64_t> next = random_number();
  return "127.0.1." + std::to_string(2 + next++ % 253);
}

void merge(json::object& into, const json::object& from) {
  for (const auto& member : from) {
    auto* present = into.if_contains(member.key());
    if (present && present->is_object() && member.value().is_object())
      merge(present->get_object(), member.value().get_object());
    else
      into[member.key()] = member.value();
  }
}

std::string tail_of(const fs::path& file, std::uintmax_t from, std::size_t lines) {
  std::ifstream in(file);
  in.seekg(static_cast<std::streamoff>(from));
  std::deque<std::string> tail;
  for (std::string line; std::getline(in, line);) {
    tail.push_back(std::move(line));
    if (tail.size() > lines) tail.pop_front();
  }
  std::string result;
  for (const auto& line : tail) result += line + '\n';
  return result;
}

fs::path agent_program() {
  return agents_are_models() ? fs::path(std::getenv("HOLDFAST_TEST_AGENT")) : consul_program();
}

// Prints what the living agents have logged during a test case that failed. The agents of the test case itself are
// destroyed before Boost.Test reports the failure; they print from their destructors.
class log_printer : public boost::unit_test::test_observer {
public:
  static log_printer& instance() {
    static log_printer one;
    return one;
  }

  void add(const agent* a) {
    const std::lock_guard lock(mutex_);
    if (agents_.empty()) boost::unit_test::framework::register_observer(*this);
    agents_.emplace(a, 0);
  }

  void remove(const agent* a) {
    const std::lock_guard lock(mutex_);
    agents_.erase(a);
    if (!agents_.empty()) return;
    boost::unit_test::framework::deregister_observer(*this);
  }

  static void print(const agent& a, std::uintmax_t from = 0) {
    std::cerr << "--- the end of the log of agent " << a.node_name() << " at " << a.address() << ":\n"
              << tail_of(a.log_file(), from, log_lines_printed) << "---\n";
  }

  void test_unit_start(const boost::unit_test::test_unit& unit) override {
    if (unit.p_type != boost::unit_test::TUT_CASE) return;
    const std::lock_guard lock(mutex_);
    for (auto& [a, log_size] : agents_) log_size = fs::file_size(a->log_file());
  }

  void test_unit_finish(const boost::unit_test::test_unit& unit, unsigned long) override {
    if (unit.p_type != boost::unit_test::TUT_CASE || passed(unit.p_id)) return;
    const std::lock_guard lock(mutex_);
    for (const auto& [a, log_size] : agents_) print(*a, log_size);
  }

  static bool passed(boost::unit_test::test_unit_id id) {
    return boost::unit_test::results_collector.results(id).passed();
  }

  static bool current_test_failed() {
    namespace framework = boost::unit_test::framework;
    return framework::test_in_progress() && !passed(framework::current_test_case_id());
  }

private:
  std::mutex mutex_;
  std::map<const agent*, std::uintmax_t> agents_;  // with the sizes of their logs when the test case began
};

}  // namespace

struct agent::state {
  agent_options options;
  fs::path directory;
  std::string host;
  std::string node_name;
  std::uint16_t http = 0, rpc = 0, serf = 0, https = 0;
  std::vector<const agent*> joins;
  std::unique_ptr<process> child;
  bool announced = false;

  explicit state(agent_options o) : options(std::move(o)), host(options.host) {
    node_name = (options.server ? "server-" : "client-") + hex(random_number()).substr(0, 8);
    directory = (options.files_in.empty() ? fs::temp_directory_path() : options.files_in) / ("holdfast-" + node_name);
    fs::create_directories(directory);
    if (options.join) joins.push_back(options.join);
  }
  state(const state&) = delete;
  state& operator=(const state&) = delete;
  ~state() {
    child.reset();
    std::error_code ignored;
    fs::remove_all(directory, ignored);
  }

  // Each attempt takes another host: newer agents also listen on ports that this file does not set, such as 8503.
  void pick_address() {
    if (!options.host.empty()) {
      http = 8500;
      https = 8501;
      rpc = 8300;
      serf = 8301;
      return;
    }
    host = next_host();
    http = free_port(host);
    do {
      rpc = free_port(host);
    } while (rpc == http);
    do {
      serf = free_port(host);
    } while (serf == http || serf == rpc);
    do {
      https = free_port(host);
    } while (https == http || https == rpc || https == serf);
  }

  std::string unix_url() const { return "unix://" + (directory / "http.sock").string(); }
  bool on_disk() const { return options.durable || options.servers > 1; }

  json::object config() const {
    json::object c = {
        {"node_name", node_name},
        {"server", options.server},
        {"bind_addr", host},
        {"client_addr", host},
        {"advertise_addr", host},
        {"ports",
         {{"http", http},
          {"server", rpc},
          {"serf_lan", serf},
          {"serf_wan", -1},
          {"dns", -1},
          {"grpc", -1},
          {"https", -1}}},
        {"disable_update_check", true},
    };
    if (!options.as_shipped) {
      c["session_ttl_min"] = options.session_ttl_min;
      c["leave_on_terminate"] = false;
      c["limits"] = {{"http_max_conns_per_client", options.http_max_conns_per_client}};
      c["performance"] = {{"raft_multiplier", 1}};
    }
    if (!joins.empty()) {
      json::array addresses;
      for (const agent* each : joins) addresses.emplace_back(each->host() + ":" + std::to_string(each->serf_port()));
      c["retry_join"] = std::move(addresses);
      c["retry_interval"] = "1s";
    }
    if (on_disk() || !options.server) c["data_dir"] = (directory / "data").string();
    if (on_disk() && options.server) c["bootstrap_expect"] = options.servers;
    // Otherwise a server that was away for ten seconds is removed, and the next fault costs the rest its quorum.
    if (options.servers > 1 && !options.as_shipped) c["autopilot"] = {{"cleanup_dead_servers", false}};
    if (!options.tls_config.empty()) {
      c["ports"].as_object()["https"] = https;
      merge(c, json::parse(options.tls_config).as_object());
    }
    if (options.unix_socket) c["addresses"] = {{"http", host + " " + unix_url()}};
    merge(c, json::parse(options.extra_config).as_object());
    return c;
  }
};

agent::agent(agent_options options) : state_(std::make_unique<state>(std::move(options))) {
  if (!state_->options.server && !state_->options.join)
    throw std::invalid_argument("agent: a client agent needs a server to join");
  start();
  log_printer::instance().add(this);
  state_->announced = true;
}

agent::~agent() {
  if (!state_->announced) return;
  log_printer::instance().remove(this);
  if (log_printer::current_test_failed()) log_printer::print(*this);
}

void agent::start() {
  for (int attempt = 1;; ++attempt) {
    state_->pick_address();
    if (start_once(state_->options.servers > 1)) return;
    if (attempt == start_attempts)
      throw std::runtime_error("no free ports for a Consul agent on " + state_->host + ":\n" + log_tail());
    state_->child.reset();
  }
}

// Returns false if a port was taken in the meantime. `alone`: the rest of its cluster has not started yet.
bool agent::start_once(bool alone) {
  const auto config_file = state_->directory / "config.json";
  std::ofstream(config_file) << json::serialize(state_->config()) << '\n';
  const auto log_start = fs::exists(log_file()) ? fs::file_size(log_file()) : 0;

  process_options child;
  child.command = state_->options.launcher;
  child.command.insert(child.command.end(), {agent_program().string(), "agent"});
  if (state_->options.server && !state_->on_disk()) child.command.emplace_back("-dev");
  child.command.push_back("-config-file=" + config_file.string());
  child.output_file = log_file();
  child.working_directory = state_->directory;
  state_->child = std::make_unique<process>(std::move(child));

  const auto end = clock::now() + state_->options.ready_within;
  while (!(alone ? listens() : ready())) {
    if (const auto status = state_->child->wait(milliseconds(0))) {
      std::ifstream log(log_file());
      log.seekg(static_cast<std::streamoff>(log_start));
      const std::string text(std::istreambuf_iterator<char>(log), {});
      if (text.find("address already in use") != std::string::npos) return false;
      throw std::runtime_error("the Consul agent ended at once, " + status->to_string() + ":\n" + log_tail());
    }
    if (clock::now() >= end)
      throw std::runtime_error("the Consul agent on " + address() + " is not ready after " +
                               std::to_string(state_->options.ready_within.count()) + " ms:\n" + log_tail());
    std::this_thread::sleep_for(milliseconds(20));
  }
  return true;
}

bool agent::listens() const {
  try {
    const int status = request("GET", "/v1/agent/self", {}, milliseconds(2000)).status;
    return status == 200 || status == 403;  // one of several servers knows no tokens before they have a leader
  } catch (const std::exception&) {
    return false;
  }
}

bool agent::ready() const {
  try {
    const auto key = "/v1/kv/holdfast-agent-ready/" + state_->node_name;
    if (request("PUT", key, "x", milliseconds(2000)).status != 200) return false;
    if (request("DELETE", key, {}, milliseconds(2000)).status != 200) return false;
    // Sessions need the agent's node in the catalog. It is registered a moment later ("Missing node registration").
    const auto created = request("PUT", "/v1/session/create", R"({"Checks":[],"LockDelay":"0s"})", milliseconds(2000));
    if (created.status != 200) return false;
    const std::string id(json::parse(created.body).at("ID").as_string());
    return request("PUT", "/v1/session/destroy/" + id, {}, milliseconds(2000)).status == 200;
  } catch (const std::exception&) {
    return false;  // not listening yet, or no leader yet
  }
}

void agent::wait_until_ready(milliseconds limit) const {
  const auto end = clock::now() + limit;
  while (!ready()) {
    if (clock::now() >= end)
      throw std::runtime_error("the Consul agent on " + address() + " accepts no write:\n" + log_tail());
    std::this_thread::sleep_for(milliseconds(20));
  }
}

std::string agent::address() const { return state_->host + ":" + std::to_string(state_->http); }
std::string agent::tls_url() const { return "https://" + state_->host + ":" + std::to_string(state_->https); }
std::string agent::unix_url() const { return state_->unix_url(); }
std::string agent::url() const { return "http://" + address(); }
const std::string& agent::host() const { return state_->host; }
std::uint16_t agent::http_port() const { return state_->http; }
std::uint16_t agent::rpc_port() const { return state_->rpc; }
std::uint16_t agent::serf_port() const { return state_->serf; }
const std::string& agent::node_name() const { return state_->node_name; }
pid_t agent::pid() const { return state_->child->pid(); }
fs::path agent::log_file() const { return state_->directory / "consul.log"; }

std::string agent::log_tail(std::size_t lines) const { return tail_of(log_file(), 0, lines); }

void agent::freeze() { state_->child->freeze(); }
void agent::thaw() { state_->child->thaw(); }
void agent::kill() { state_->child->kill(); }
void agent::stop() {
  // An agent that leaves a cluster waits until the others know, and until it has answered its requests. Both together
  // take ten seconds.
  state_->child->terminate(std::chrono::seconds(state_->options.as_shipped ? 30 : 10));
}
bool agent::running() const { return state_->child->running(); }
void agent::also_join(const agent& other) {
  auto& joins = state_->joins;
  if (std::find(joins.begin(), joins.end(), &other) == joins.end()) joins.push_back(&other);
}

void agent::restart() {
  // The ports stay the same, because clients know them. They may be taken for a moment, so this retries, too.
  for (int attempt = 1;; ++attempt) {
    kill();
    if (start_once(false)) return;
    if (attempt == start_attempts) throw std::runtime_error("the agent's ports are taken:\n" + log_tail());
    std::this_thread::sleep_for(milliseconds(200));
  }
}

agent_reply agent::request(std::string_view method, std::string_view target, std::string_view body,
                           milliseconds limit) const {
  const auto end = clock::now() + limit;
  return raw_request(state_->host, state_->http, method, target, body, end).reply(end);
}

agent& shared_agent() {
  static agent one;
  return one;
}

std::string unique_prefix(std::string_view name) {
  static const std::string run = hex(random_number());
  static std::atomic<unsigned> count = 0;
  return "test/" + run + "/" + std::to_string(++count) + "-" + std::string(name);
}

bool agents_are_models() {
  const char* named = std::getenv("HOLDFAST_TEST_AGENT");
  return named && *named;
}

fs::path consul_program() {
  const char* named = std::getenv("HOLDFAST_CONSUL");
  const bool by_name = named && *named;
  if (auto program = find_program(by_name ? named : "consul")) return *program;
  throw std::runtime_error(by_name ? "$HOLDFAST_CONSUL is " + std::string(named) + ", which is not an executable file"
                                   : std::string("these tests need a Consul agent: set HOLDFAST_CONSUL to the consul "
                                                 "program, or put it on PATH (scripts/consul fetches one)"));
}

const testing::consul_version& consul_programs_version() {
  static const testing::consul_version version = [] {
    if (agents_are_models()) return testing::newest_consul_version;
    const std::string said = run({consul_program().string(), "version"}, std::chrono::seconds(30)).output;
    constexpr std::string_view before = "Consul v";
    const auto at = said.find(before);
    const auto found = at == std::string::npos
                           ? std::nullopt
                           : testing::consul_version::from_text(std::string_view(said).substr(at + before.size()));
    if (!found) throw std::runtime_error("no version of Consul: " + said);
    return *found;
  }();
  return version;
}

}  // namespace holdfast::test
