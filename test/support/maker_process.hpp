// SPDX-FileCopyrightText: The holdfast authors
// SPDX-License-Identifier: BSL-1.0

#pragma once

#include <fcntl.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <boost/test/unit_test.hpp>
#include <ctime>
#include <filesystem>
#include <fstream>
#include <functional>
#include <set>
#include <sstream>
#include <string>
#include <utility>

#include "runtime/session_files.hpp"
#include "support/temporary_folder.hpp"

namespace holdfast::test {

using runtime::run_directory;
using state = run_directory::state;

inline const std::string lock_key = "service/db/.lock";
inline const std::string session = "0b9e1c6a-3f41-4d55-9a3e-000000000001";
inline const std::string another = "0b9e1c6a-3f41-4d55-9a3e-000000000002";

/// A child process that runs `what` and then waits to be killed.
class child {
public:
  explicit child(const std::function<void()>& what) {
    std::array<int, 2> ready{};
    BOOST_REQUIRE(::pipe(ready.data()) == 0);
    pid_ = ::fork();
    if (pid_ == 0) {
      what();
      ::close(ready[0]);
      ::close(ready[1]);
      for (;;) ::pause();
    }
    ::close(ready[1]);
    char none = 0;
    [[maybe_unused]] const auto size = ::read(ready[0], &none, 1);  // ends when the child has closed its end
    ::close(ready[0]);
  }
  child(const child&) = delete;
  child& operator=(const child&) = delete;
  ~child() { kill(); }
  pid_t pid() const { return pid_; }
  void signal(int number) const { ::kill(pid_, number); }
  void kill() {
    if (pid_ <= 0) return;
    signal(SIGKILL);
    wait();
  }
  /// Its status, as waitpid() returns it.
  int wait() {
    int status = 0;
    ::waitpid(std::exchange(pid_, -1), &status, 0);
    return status;
  }

private:
  pid_t pid_ = -1;
};

/// At most this many descriptors, until the end of the scope.
class few_descriptors {
public:
  explicit few_descriptors(rlim_t most) {
    ::getrlimit(RLIMIT_NOFILE, &before_);
    const rlimit few{most, before_.rlim_max};
    ::setrlimit(RLIMIT_NOFILE, &few);
  }
  ~few_descriptors() { ::setrlimit(RLIMIT_NOFILE, &before_); }

private:
  rlimit before_{};
};

struct directory_story {
  temporary_folder folder;
  run_directory& directory = *run_directory::open(folder.path());
  runtime::session_files files{&directory, lock_key};

  std::string path_of(const std::string& name) const { return folder.path() + '/' + name; }
  std::string text_of(const std::string& name) const {
    std::ostringstream text;
    text << std::ifstream(path_of(name)).rdbuf();
    return text.str();
  }
  bool exists(const std::string& name) const { return std::filesystem::exists(path_of(name)); }
  /// The file of a process that is gone.
  void leave(const std::string& name = session) {
    child maker([&] { files.made(name); });
    maker.kill();
    BOOST_REQUIRE((look(name) == state::gone));
  }
  state look(const std::string& name) const { return directory.look(name).its; }
  std::set<std::string> all_gone() const {
    std::set<std::string> all;
    for (const auto& each : directory.all_gone().makers) {
      BOOST_TEST(each.lock_key == lock_key);
      all.insert(each.session);
    }
    return all;
  }
  void make_older(const std::string& name, std::time_t seconds) const {
    const timespec then{std::time(nullptr) - seconds, 0};
    const std::array<timespec, 2> both{then, then};
    BOOST_REQUIRE(::utimensat(AT_FDCWD, path_of(name).c_str(), both.data(), 0) == 0);
  }
};

}  // namespace holdfast::test
