// SPDX-FileCopyrightText: The holdfast authors
// SPDX-License-Identifier: BSL-1.0

// Does one measurement and prints its row: `holdfast_bench --workload handoff --contenders 8`. CONSUL_HTTP_ADDR says
// where Consul is. bench/run.py runs the program with each of its workloads, and runs its peers, too.

#include <boost/json/object.hpp>
#include <boost/json/serialize.hpp>
#include <boost/version.hpp>
#include <cstdlib>
#include <exception>
#include <functional>
#include <iostream>
#include <map>
#include <stdexcept>
#include <string_view>

#include "workloads.hpp"

namespace {

using namespace holdfast::bench;

double number(const char* text) {
  char* end = nullptr;
  const double n = std::strtod(text, &end);
  if (end == text || *end || !(n >= 0)) throw std::invalid_argument("not a number: " + std::string(text));
  return n;
}

parameters parse(int argc, char** argv) {
  parameters p;
  const std::map<std::string_view, std::function<void(const char*)>> options = {
      {"--workload", [&](auto text) { p.workload = text; }},
      {"--system", [&](auto text) { p.system = text; }},
      {"--contenders", [&](auto text) { p.contenders = static_cast<std::uint32_t>(number(text)); }},
      {"--limit", [&](auto text) { p.limit = static_cast<std::uint32_t>(number(text)); }},
      {"--seconds",
       [&](auto text) { p.window = std::chrono::nanoseconds(static_cast<std::int64_t>(number(text) * 1e9)); }},
      {"--rate", [&](auto text) { p.rate = number(text); }},
  };
  for (int i = 1; i < argc; ++i) {
    if (std::string_view(argv[i]) == "--broken") {
      p.broken = true;
      continue;
    }
    const auto option = options.find(argv[i]);
    if (option == options.end() || i + 1 == argc)
      throw std::invalid_argument("unknown option, or without a value: " + std::string(argv[i]));
    option->second(argv[++i]);
  }
  return p;
}

void measure(const parameters& p) {
  using workload = void (*)(const parameters&);
  const std::map<std::string_view, workload> ours = {
    {"cycle", closed_loop},
    {"cycle-idle", closed_loop},
    {"pool", closed_loop},
    {"pool-rival", closed_loop},
    {"handoff", closed_loop},
    {"mutex", closed_loop},
    {"mixed", closed_loop},
    {"open-loop", open_loop},
    {"loss", loss},
    {"long-hold", closed_loop},
    {"waiting", waiting},
    {"waiting-coroutine", waiting},
    {"waiting-client", waiting},
    {"local", closed_loop_local},
    {"expected-wait", expected_wait},
#if BOOST_VERSION >= 108200
    {"cycle-immediate", closed_loop},
#endif
  };
  const std::map<std::string_view, workload> others = {
      {"floor-asio", closed_loop_floor}, {"floor-beast", bare}, {"consul-lock", consul_lock}};
  const auto known = ours.find(p.workload);
  if (known == ours.end()) throw std::invalid_argument("which --workload?");
  if (p.system == "holdfast") return known->second(p);
  const auto system = others.find(p.system);
  if (system == others.end()) throw std::invalid_argument("unknown --system " + p.system);
  system->second(p);
}

// How this program was built.
void print_about() {
  const boost::json::object about = {
      {"compiler", BENCH_COMPILER},
      {"flags", BENCH_FLAGS},
      {"boost", std::to_string(BOOST_VERSION / 100'000) + '.' + std::to_string(BOOST_VERSION / 100 % 1'000)}};
  std::cout << boost::json::serialize(about) << '\n';
}

}  // namespace

int main(int argc, char** argv) try {
  if (argc == 2 && std::string_view(argv[1]) == "--about") {
    print_about();
    return 0;
  }
  if (argc == 3 && std::string_view(argv[1]) == "inside") return inside(argv[2]);
  measure(parse(argc, argv));
  return 0;
} catch (const std::exception& failed) {
  std::cerr << "holdfast_bench: " << failed.what() << '\n';
  return 1;
}
