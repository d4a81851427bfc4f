// SPDX-FileCopyrightText: The holdfast authors
// SPDX-License-Identifier: BSL-1.0

// Takes the place of `consul agent` in tests: the model of Consul as a process, which can be stopped, frozen and killed
// like one. Reads what it knows of the agent's own configuration file.
//
//   model_agent agent [-dev] -config-file=FILE

#include <boost/json.hpp>
#include <csignal>
#include <exception>
#include <fstream>
#include <holdfast/testing/server.hpp>
#include <iostream>
#include <iterator>
#include <stdexcept>
#include <string>
#include <string_view>

#include "consul/encoding/duration.hpp"

namespace {

namespace json = boost::json;
using holdfast::testing::server;
using holdfast::testing::server_options;

json::value read_config(int argc, char** argv) {
  constexpr std::string_view option = "-config-file=";
  for (int i = 1; i < argc; ++i) {
    const std::string_view word = argv[i];
    if (!word.starts_with(option)) continue;
    std::ifstream file{std::string(word.substr(option.size()))};
    return json::parse(std::string(std::istreambuf_iterator<char>(file), {}));
  }
  throw std::invalid_argument("no -config-file");
}

server_options options_of(const json::value& config) {
  if (!config.at("server").as_bool() || config.as_object().contains("data_dir"))
    throw std::invalid_argument("the model has no client agents, and keeps nothing on disk");
  if (config.as_object().contains("acl")) throw std::invalid_argument("the model has no ACLs");
  server_options options;
  options.host = config.at("client_addr").as_string();
  options.port = config.at("ports").at("http").to_number<std::uint16_t>();
  options.connections_max = config.at("limits").at("http_max_conns_per_client").to_number<std::size_t>();
  options.model.node = config.at("node_name").as_string();
  const std::string ttl_min(config.at("session_ttl_min").as_string());
  if (!holdfast::consul::detail::parse_go_duration(ttl_min, options.model.session_ttl_min))
    throw std::invalid_argument("session_ttl_min is " + ttl_min);
  return options;
}

}  // namespace

int main(int argc, char** argv) try {
  // Before there are other threads, so that none of them takes the signals.
  sigset_t signals;
  ::sigemptyset(&signals);
  ::sigaddset(&signals, SIGTERM);
  ::sigaddset(&signals, SIGINT);
  ::pthread_sigmask(SIG_BLOCK, &signals, nullptr);

  server consul(options_of(read_config(argc, argv)));
  std::cout << server::banner << '\n' << consul.url() << std::endl;
  int received = 0;
  ::sigwait(&signals, &received);
} catch (const boost::system::system_error& failed) {
  const bool taken = failed.code() == boost::system::errc::address_in_use;
  std::cout << "model_agent: " << (taken ? "address already in use" : failed.what()) << std::endl;
  return 1;
} catch (const std::exception& failed) {
  std::cout << "model_agent: " << failed.what() << std::endl;
  return 2;
}
