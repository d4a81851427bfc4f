// SPDX-FileCopyrightText: The holdfast authors
// SPDX-License-Identifier: BSL-1.0

#include <fcntl.h>
#include <spawn.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <memory>
#include <system_error>
#include <thread>
#include <vector>

#include "measure.hpp"
#include "participant.hpp"
#include "row.hpp"
#include "workloads.hpp"

namespace holdfast::bench {
namespace {

/// Every process that `consul lock` runs writes to the board. It lies in a file that they all map.
struct board {
  struct visit {
    clock::rep entered, left;
  };
  static constexpr std::size_t visits_max = 1 << 16;

  limit_checker limit;
  std::atomic<std::size_t> count;
  visit visits[visits_max];

  static board& map(const char* file) {
    const int fd = ::open(file, O_RDWR | O_CLOEXEC);
    if (fd < 0) throw std::system_error(errno, std::generic_category(), file);
    void* const at = ::mmap(nullptr, sizeof(board), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    ::close(fd);
    if (at == MAP_FAILED) throw std::system_error(errno, std::generic_category(), file);
    return *static_cast<board*>(at);
  }
};

bool run(std::vector<std::string> command) {
  std::vector<char*> arguments;
  for (auto& each : command) arguments.push_back(each.data());
  arguments.push_back(nullptr);
  pid_t child = 0;
  posix_spawn_file_actions_t quiet;
  ::posix_spawn_file_actions_init(&quiet);
  ::posix_spawn_file_actions_addopen(&quiet, 1, "/dev/null", O_WRONLY, 0);
  ::posix_spawn_file_actions_adddup2(&quiet, 1, 2);
  const int failed = ::posix_spawnp(&child, arguments[0], &quiet, nullptr, arguments.data(), environ);
  ::posix_spawn_file_actions_destroy(&quiet);
  if (failed) throw std::system_error(failed, std::generic_category(), arguments[0]);
  int status = 0;
  while (::waitpid(child, &status, 0) < 0 && errno == EINTR) {
  }
  return WIFEXITED(status) && WEXITSTATUS(status) == 0;
}

/// A file with an empty board, under a random name. The destructor removes it.
struct scratch_file {
  std::string name = std::filesystem::temp_directory_path() / "holdfast-bench-XXXXXX";
  scratch_file() {
    const int fd = ::mkstemp(name.data());
    if (fd < 0 || ::ftruncate(fd, sizeof(board)) != 0) throw std::system_error(errno, std::generic_category(), name);
    ::close(fd);
  }
  scratch_file(const scratch_file&) = delete;
  scratch_file& operator=(const scratch_file&) = delete;
  ~scratch_file() { std::filesystem::remove(name); }
};

// Times from a visit's end to the next visit of the same slot. The visit that began `limit` visits earlier is taken for
// the one that released the slot.
latencies handoffs(const board& all, std::size_t count, std::uint32_t limit) {
  std::vector<board::visit> visits(all.visits, all.visits + count);
  std::sort(visits.begin(), visits.end(), [](const auto& a, const auto& b) { return a.entered < b.entered; });
  latencies times;
  for (std::size_t i = limit; i < count; ++i) times.add(duration(visits[i].entered - visits[i - limit].left));
  return times;
}

}  // namespace

int inside(const char* file) {
  auto& here = board::map(file);
  here.limit.enter();
  const auto entered = clock::now().time_since_epoch().count();
  const auto index = here.count++;
  if (index >= board::visits_max) return 1;
  here.visits[index] = {entered, clock::now().time_since_epoch().count()};
  here.limit.leave();
  return 0;
}

void consul_lock(const parameters& p) {
  const char* const program = std::getenv("HOLDFAST_CONSUL");
  const scratch_file file;
  const auto& here = board::map(file.name.c_str());
  const std::vector<std::string> command = {program ? program : "consul",
                                            "lock",
                                            "-shell=false",
                                            "-n",
                                            std::to_string(p.limit),
                                            options_for(p).prefix,
                                            std::filesystem::read_symlink("/proc/self/exe").string(),
                                            "inside",
                                            file.name};
  struct worker {
    latencies cycles{};
    std::uint64_t failed = 0;
  };
  std::vector<worker> workers(p.contenders);
  std::vector<std::jthread> threads;
  const auto begun = clock::now();
  for (auto& each : workers)
    threads.emplace_back([&] {
      for (auto asked = begun; asked < begun + p.window;) {
        if (!run(command)) ++each.failed;
        const auto done = clock::now();
        each.cycles.add(done - asked);
        asked = done;
      }
    });
  threads.clear();
  const auto measured = clock::now() - begun;

  row r;
  std::vector<std::uint64_t> shares;
  for (const auto& each : workers) {
    r.errors += each.failed;
    shares.push_back(each.cycles.count());
  }
  const std::size_t count = here.count;
  const auto contended = handoffs(here, count, p.limit);
  r.ops_per_s = static_cast<double>(count) / in_seconds(measured);
  r.times = p.contenders > p.limit ? &contended : &workers[0].cycles;
  if (p.contenders > 1) r.jain = jain(shares);
  r.limit_held = here.limit.held(p.limit);
  std::puts(r.to_json(p).c_str());
}

}  // namespace holdfast::bench
