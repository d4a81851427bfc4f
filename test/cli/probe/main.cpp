// SPDX-FileCopyrightText: The holdfast authors
// SPDX-License-Identifier: BSL-1.0

// Runs a command beside a guard, as `holdfast run` does, but without a lock. Carries out the lines of its stdin, and
// prints what the guard reports.
//
//   guard_probe [--pass-stdin] [--job LEASE_MS] GRACE_MS COMMAND...
//
//   start LEASE_MS | lease LEASE_MS | forward NUMBER | stop | kill
//
// --job starts the command at once, and stops and continues with it, as a shell's job does. It reads no lines.

#include <poll.h>
#include <signal.h>
#include <sys/signalfd.h>
#include <unistd.h>

#include <chrono>
#include <iostream>
#include <sstream>
#include <string>
#include <vector>

#include "cli/guard/guarded_command.hpp"

namespace {

namespace cli = holdfast::cli;

std::chrono::nanoseconds lease_of(const std::string& milliseconds) {
  return cli::boot_time() + std::chrono::milliseconds(std::stol(milliseconds));
}

void carry_out(cli::guarded_command& command, const std::string& line) {
  std::istringstream words(line);
  std::string verb, value;
  words >> verb >> value;
  if (verb == "start") command.start({"GUARD_PROBE=yes"}, lease_of(value));
  if (verb == "lease") command.set_lease_end(lease_of(value));
  if (verb == "forward") command.forward(std::stoi(value));
  if (verb == "stop") command.stop();
  if (verb == "kill") command.kill();
  std::cout << "did " << verb << std::endl;
}

// Returns true if nothing is left to wait for.
bool report(cli::guarded_command& command, const cli::guard_event& event, bool is_job) {
  using kind = cli::guard_event::kind;
  switch (event.what) {
    case kind::started:
      std::cout << "started " << event.value << std::endl;
      return false;
    case kind::not_started:
      std::cout << "not_started " << event.value << std::endl;
      return true;
    case kind::stopped:
      std::cout << "stopped " << event.value << std::endl;
      if (is_job) kill(0, SIGTSTP);
      return false;
    case kind::lease_ends:
      std::cout << "lease_ends" << std::endl;
      return false;
    case kind::exited:
      std::cout << "exited " << event.value << std::endl;
      return false;
    case kind::ended:
      std::cout << "ended" << std::endl;
      return true;
    case kind::guard_gone:
      std::cout << "guard_gone" << std::endl;
      while (!command.end_group()) poll(nullptr, 0, 10);
      std::cout << "ended" << std::endl;
      return true;
  }
  return true;
}

}  // namespace

int main(int argc, char** argv) {
  std::vector<std::string> words(argv + 1, argv + argc);
  cli::command what;
  std::string job;
  for (; words.size() > 1 && words[0].starts_with("--"); words.erase(words.begin())) {
    if (words[0] == "--pass-stdin") what.pass_stdin = true;
    if (words[0] == "--job") {
      job = words[1];
      words.erase(words.begin());
    }
  }
  if (words.size() < 2) return 2;
  what.grace = std::chrono::milliseconds(std::stol(words[0]));
  what.arguments.assign(words.begin() + 1, words.end());

  cli::guarded_command command(what);
  std::cout << "guard " << command.guard() << std::endl;
  sigset_t caught;
  sigemptyset(&caught);
  sigaddset(&caught, SIGCONT);
  if (!job.empty()) sigaddset(&caught, SIGINT);
  sigprocmask(SIG_BLOCK, &caught, nullptr);
  const int signals = signalfd(-1, &caught, SFD_CLOEXEC);
  if (!job.empty()) command.start({"GUARD_PROBE=yes"}, lease_of(job));

  bool reads = job.empty();
  std::string line;
  for (;;) {
    pollfd ready[] = {{command.descriptor(), POLLIN, 0}, {signals, POLLIN, 0}, {reads ? STDIN_FILENO : -1, POLLIN, 0}};
    if (poll(ready, 3, -1) < 0) continue;
    if (ready[0].revents != 0)
      while (const auto event = command.receive())
        if (report(command, *event, !job.empty())) return 0;
    if (ready[1].revents != 0) {
      signalfd_siginfo info;
      if (read(signals, &info, sizeof info) <= 0) continue;
      if (info.ssi_signo == SIGCONT)
        command.resume();
      else
        command.forward(static_cast<int>(info.ssi_signo));
    }
    if (ready[2].revents != 0) {
      char next = 0;
      reads = read(STDIN_FILENO, &next, 1) == 1;
      if (next != '\n') {
        line += next;
        continue;
      }
      carry_out(command, line);
      line.clear();
    }
  }
}
