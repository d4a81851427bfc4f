// SPDX-FileCopyrightText: The holdfast authors
// SPDX-License-Identifier: BSL-1.0

#include "support/idle.hpp"

#include <fcntl.h>
#include <linux/sockios.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <array>
#include <filesystem>
#include <map>
#include <optional>
#include <stdexcept>
#include <string>
#include <string_view>
#include <thread>

namespace holdfast::test {
namespace {

using clock = std::chrono::steady_clock;

// How often each thread has given up its processor, by thread id. Empty if a thread does not sleep.
std::optional<std::map<std::string, std::string>> sleeping_threads(pid_t process) {
  std::map<std::string, std::string> switches;
  for (const auto& task : std::filesystem::directory_iterator("/proc/" + std::to_string(process) + "/task")) {
    const std::string id = task.path().filename();
    if (id == std::to_string(::gettid())) continue;
    std::array<char, 4096> buffer;
    const int file = ::open((task.path() / "status").c_str(), O_RDONLY | O_CLOEXEC);
    const auto size = ::read(file, buffer.data(), buffer.size());
    ::close(file);
    if (size <= 0) return std::nullopt;  // it has ended meanwhile
    const std::string_view status(buffer.data(), static_cast<std::size_t>(size));
    if (status.find("\nState:\tS") == status.npos) return std::nullopt;
    switches[id] = status.substr(status.find("\nvoluntary_ctxt_switches:"));
  }
  return switches;
}

// On loopback the receiver's kernel acknowledges at once, and wakes the thread that waits for the bytes.
bool all_is_received(int socket) {
  int bytes = 0;
  return ::ioctl(socket, SIOCOUTQ, &bytes) == 0 && bytes == 0;
}

}  // namespace

void wait_until_idle(pid_t process, int socket, clock::time_point end) {
  const auto late = [&] {
    if (clock::now() < end) return std::this_thread::yield();
    throw std::runtime_error("process " + std::to_string(process) + " does not come to rest");
  };
  while (!all_is_received(socket)) late();
  // All threads are read one after the other, twice. A thread that ran in between has given up its processor since.
  auto before = sleeping_threads(process);
  for (auto now = sleeping_threads(process); !now || now != before; now = sleeping_threads(process)) {
    late();
    before = std::move(now);
  }
}

}  // namespace holdfast::test
