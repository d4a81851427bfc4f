// SPDX-FileCopyrightText: The holdfast authors
// SPDX-License-Identifier: BSL-1.0

// The child processes in which agents and interoperability tests run.

#include <unistd.h>

#include <boost/test/unit_test.hpp>
#include <chrono>
#include <csignal>
#include <fstream>
#include <memory>
#include <string>
#include <system_error>
#include <thread>
#include <vector>

#include "support/process.hpp"

using namespace std::chrono_literals;
using holdfast::test::exit_status;
using holdfast::test::find_program;
using holdfast::test::process;
using holdfast::test::run;
using holdfast::test::sibling_program;

namespace {

bool exists(pid_t pid) { return ::kill(pid, 0) == 0; }

bool is_stopped(pid_t pid) {
  std::ifstream stat("/proc/" + std::to_string(pid) + "/stat");
  std::string line;
  return std::getline(stat, line) && line.find(") T") != std::string::npos;
}

// A process for which nobody has waited yet (a zombie) counts as ended.
bool has_ended(pid_t pid) {
  std::ifstream stat("/proc/" + std::to_string(pid) + "/stat");
  std::string line;
  if (!std::getline(stat, line)) return true;
  return line.find(") Z") != std::string::npos;
}

bool eventually(auto condition) {
  for (int i = 0; i < 3000; ++i) {
    if (condition()) return true;
    std::this_thread::sleep_for(10ms);
  }
  return false;
}

}  // namespace

BOOST_AUTO_TEST_SUITE(processes)

BOOST_AUTO_TEST_CASE(an_unknown_program_is_an_error_at_once) {
  BOOST_CHECK_THROW(process({.command = {"holdfast-no-such-program"}}), std::system_error);
  BOOST_CHECK_THROW(process({.command = {"sh"}, .working_directory = "/no/such/directory"}), std::system_error);
  BOOST_TEST(!find_program("holdfast-no-such-program").has_value());
  BOOST_TEST(find_program("sh").has_value());
}

BOOST_AUTO_TEST_CASE(a_wait_ends_at_its_limit) {
  process p({.command = {"sleep", "600"}});
  const auto begin = std::chrono::steady_clock::now();
  BOOST_TEST(!p.wait(50ms).has_value());
  BOOST_TEST((std::chrono::steady_clock::now() - begin < 60s));
  BOOST_TEST(p.running());
  p.kill();
  BOOST_TEST(!p.running());
}

BOOST_AUTO_TEST_CASE(a_frozen_process_stands_still_and_can_be_ended) {
  process p({.command = {"sh", "-c", "while :; do echo tick; sleep 0.01; done"}});
  BOOST_REQUIRE(p.wait_for_line("tick", 30s));
  p.freeze();
  // Lines may still come from the pipe, so the state is compared and not their number.
  BOOST_TEST(is_stopped(p.pid()));
  std::this_thread::sleep_for(100ms);
  BOOST_TEST(is_stopped(p.pid()));
  p.thaw();
  BOOST_TEST(eventually([&] { return !is_stopped(p.pid()); }));
  const auto thawed_at = p.lines().size();
  BOOST_TEST(eventually([&] { return p.lines().size() > thawed_at + 10; }));
  p.freeze();
  BOOST_TEST((p.terminate() == exit_status{.code = 0, .signal = SIGTERM}));
}

BOOST_AUTO_TEST_CASE(it_ends_with_its_object_even_if_frozen_or_deaf) {
  pid_t frozen = 0, deaf = 0;
  {
    process a({.command = {"sleep", "60"}});
    a.freeze();
    process b({.command = {"sh", "-c", "trap '' TERM; echo ready; while :; do sleep 0.01; done"}});
    BOOST_TEST(b.wait_for_line("ready", 30s));
    BOOST_TEST(b.terminate(50ms).signal == SIGKILL);
    frozen = a.pid();
    deaf = b.pid();
  }
  BOOST_TEST(!exists(frozen));
  BOOST_TEST(!exists(deaf));
}

BOOST_AUTO_TEST_CASE(a_grandchild_that_keeps_the_pipe_open_does_not_hang_us) {
  const auto begin = std::chrono::steady_clock::now();
  const auto r = run({"sh", "-c", "sleep 600 & echo $!"}, 30s);
  BOOST_TEST(r.status.has_value());
  BOOST_TEST((std::chrono::steady_clock::now() - begin < 60s));
  ::kill(std::stoi(r.output), SIGKILL);
}

BOOST_AUTO_TEST_CASE(it_outlives_the_thread_that_started_it) {
  std::unique_ptr<process> p;
  std::thread([&] {
    p = std::make_unique<process>(holdfast::test::process_options{.command = {"sleep", "60"}});
  }).join();
  BOOST_TEST(!p->wait(100ms).has_value());
}

BOOST_AUTO_TEST_CASE(it_ends_with_the_process_that_started_it) {
  process parent({.command = {sibling_program("victims"), "--run_test=processes/parent_waits_to_be_killed"}});
  BOOST_REQUIRE(parent.wait_for_line("child ", 60s));
  pid_t child = 0;
  for (const auto& line : parent.lines())
    if (line.rfind("child ", 0) == 0) child = std::stoi(line.substr(6));
  BOOST_TEST(exists(child));
  parent.kill();
  BOOST_TEST(eventually([&] { return has_ended(child); }));
}

BOOST_AUTO_TEST_SUITE_END()
