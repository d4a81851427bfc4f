// SPDX-FileCopyrightText: The holdfast authors
// SPDX-License-Identifier: BSL-1.0

#pragma once

#include <sys/types.h>

#include <chrono>
#include <cstdint>
#include <filesystem>
#include <holdfast/testing/store.hpp>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "support/raw_http.hpp"

namespace holdfast::test {

class agent;
class process;

struct agent_options {
  /// True for a server. Unless it is `durable` or one of several, it is a development server: one process, its state in
  /// memory, ready in less than a second. False for a client
  /// agent, which forwards all requests to the server that it joins.
  bool server = true;
  /// The server that a client agent joins; must outlive it.
  const agent* join = nullptr;
  /// Keep the server's state on disk, so that restart() finds it again. Starts in 1.5 s rather than 0.3 s.
  bool durable = false;
  /// The number of servers in the cluster. If there are several, all must be durable. The constructor then waits only
  /// until this one listens, because it cannot answer before the others have started.
  int servers = 1;
  /// An address in a network of the test's own. The agent then uses the usual ports 8500, 8300 and 8301. Empty:
  /// 127.0.1.N.
  std::string host = {};
  /// A command that starts the agent, as "nsenter --net=..." does. It must replace itself by the agent. Empty: the
  /// agent is started directly.
  std::vector<std::string> launcher = {};
  /// The folder in which the directory with the agent's files is made. Empty: the one for temporary files.
  std::filesystem::path files_in = {};
  /// The least TTL of sessions. Consul's default is 10s. It is low here, so that tests can watch sessions expire (after
  /// twice their TTL).
  std::string session_ttl_min = "10ms";
  /// Consul's own default, so that tests notice it. Raise it if many clients share an address.
  int http_max_conns_per_client = 200;
  /// Keeps Consul's own defaults for settings that tests otherwise change, for speed or against disturbances:
  /// - the least TTL of sessions,
  /// - the time that elections take,
  /// - whether an agent leaves the cluster when it is stopped,
  /// - whether servers remove failed servers,
  /// - the limit of connections from one address (`http_max_conns_per_client` has no effect).
  bool as_shipped = false;
  /// The HTTP API listens on a UNIX socket, too.
  bool unix_socket = false;
  /// If set, the HTTP API also speaks TLS, on a port of its own. The text has the JSON members for it (`cert_file`,
  /// `verify_incoming_https`).
  std::string tls_config = {};
  /// Members of the configuration to add or to replace (merged deeply): a JSON object.
  std::string extra_config = "{}";
  /// How long a start may take: until the first accepted write, or until the first reply if there are several servers.
  std::chrono::milliseconds ready_within = std::chrono::seconds(30);
};

using agent_reply = raw_reply;

/// A real Consul agent of the test's own, on an address 127.0.1.N with free ports, or on `agent_options::host`. Its
/// files are in a temporary directory, which the destructor removes. The agent ends with this object, and with the
/// test's process.
///
/// The program is `$HOLDFAST_CONSUL`, else `consul` on PATH. Without one the constructor throws: no test is skipped.
/// If `$HOLDFAST_TEST_AGENT` names the program `model_agent`, the model of Consul runs instead. The model cannot be a
/// client agent and keeps nothing on disk.
/// If a test fails, the end of its agents' logs goes to stderr.
class agent {
public:
  explicit agent(agent_options options = agent_options());
  agent(const agent&) = delete;
  agent& operator=(const agent&) = delete;
  ~agent();

  std::string address() const;   ///< "127.0.1.N:port", of its HTTP API
  std::string url() const;       ///< "http://" and the address
  std::string tls_url() const;   ///< "https://127.0.1.N:port"; with `agent_options::tls_config`
  std::string unix_url() const;  ///< "unix://" and the socket's path; with `agent_options::unix_socket`
  const std::string& host() const;
  std::uint16_t http_port() const;
  std::uint16_t rpc_port() const;   ///< for requests from servers and client agents to servers
  std::uint16_t serf_port() const;  ///< for gossip
  const std::string& node_name() const;
  pid_t pid() const;
  std::filesystem::path log_file() const;
  std::string log_tail(std::size_t lines = 40) const;

  void freeze();  ///< SIGSTOP: the kernel still accepts connections, but nothing answers
  void thaw();
  void kill();     ///< SIGKILL
  void stop();     ///< SIGTERM, as an operator would; kills it if that takes over 10 s, or 30 if it is `as_shipped`
  void restart();  ///< kill() if it runs, then start on the same ports, and wait until it is ready
  bool running() const;
  /// From its next start on, this agent also tries to join `other`, which must outlive it.
  void also_join(const agent& other);

  /// One blocking request, with no code of the library under test. `target` begins with "/v1/". Throws
  /// std::runtime_error if no complete reply comes within `limit`.
  agent_reply request(std::string_view method, std::string_view target, std::string_view body = {},
                      std::chrono::milliseconds limit = std::chrono::seconds(10)) const;
  agent_reply get(std::string_view target) const { return request("GET", target); }
  agent_reply put(std::string_view target, std::string_view body = {}) const { return request("PUT", target, body); }
  agent_reply del(std::string_view target) const { return request("DELETE", target); }

  /// Waits until a write through this agent works, as after thaw() or restart(). Throws if it does not.
  void wait_until_ready(std::chrono::milliseconds limit = std::chrono::seconds(30)) const;

private:
  void start();
  bool start_once(bool alone);
  bool listens() const;
  bool ready() const;

  struct state;
  std::unique_ptr<state> state_;
};

/// The agent that the tests of one executable share: started by the first call, ended with the process. Tests leave it
/// running and thawed, and keep to a prefix of their own.
agent& shared_agent();

/// A key prefix that no other test, and no other run, uses.
std::string unique_prefix(std::string_view name);

/// True if agents are the model and not the real program.
bool agents_are_models();

/// The Consul program that agents are started with. Throws if there is none.
std::filesystem::path consul_program();

/// The version of the agents. The program is asked once. The model behaves like the newest version.
const testing::consul_version& consul_programs_version();

}  // namespace holdfast::test
