// SPDX-FileCopyrightText: The holdfast authors
// SPDX-License-Identifier: BSL-1.0

#include "support/process.hpp"

#include <fcntl.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <future>
#include <queue>
#include <system_error>

extern char** environ;

namespace holdfast::test {
namespace {

using clock = std::chrono::steady_clock;

[[noreturn]] void throw_errno(const std::string& what, int number = errno) {
  throw std::system_error(number, std::generic_category(), what);
}

class file_descriptor {
public:
  explicit file_descriptor(int fd = -1) : fd_(fd) {}
  file_descriptor(const file_descriptor&) = delete;
  file_descriptor& operator=(const file_descriptor&) = delete;
  ~file_descriptor() { reset(); }
  int get() const { return fd_; }
  int release() { return std::exchange(fd_, -1); }
  void reset(int fd = -1) {
    if (fd_ >= 0) ::close(fd_);
    fd_ = fd;
  }

private:
  int fd_;
};

struct pipe_ends {
  file_descriptor read, write;
};

void open_pipe(pipe_ends& ends) {
  int fds[2];
  if (::pipe2(fds, O_CLOEXEC) != 0) throw_errno("pipe2");
  ends.read.reset(fds[0]);
  ends.write.reset(fds[1]);
}

// Linux kills a child with PR_SET_PDEATHSIG when the *thread* that forked it ends. So one thread, which lives as long
// as this process, forks every child. The spawner is made before the first child, hence destroyed after the last static
// agent.
class spawner {
public:
  static spawner& instance() {
    static spawner one;
    return one;
  }

  pid_t run(std::function<pid_t()> fork_and_exec) {
    std::packaged_task<pid_t()> task(std::move(fork_and_exec));
    auto result = task.get_future();
    {
      const std::lock_guard lock(mutex_);
      tasks_.push(std::move(task));
    }
    changed_.notify_one();
    return result.get();
  }

private:
  spawner() : thread_([this] { serve(); }) {}
  ~spawner() {
    {
      const std::lock_guard lock(mutex_);
      ending_ = true;
    }
    changed_.notify_one();
    thread_.join();
  }

  void serve() {
    std::unique_lock lock(mutex_);
    for (;;) {
      changed_.wait(lock, [this] { return ending_ || !tasks_.empty(); });
      if (tasks_.empty()) return;
      auto task = std::move(tasks_.front());
      tasks_.pop();
      lock.unlock();
      task();
      lock.lock();
    }
  }

  std::mutex mutex_;
  std::condition_variable changed_;
  std::queue<std::packaged_task<pid_t()>> tasks_;
  bool ending_ = false;
  std::thread thread_;
};

// All data that the child needs. It is made before fork, because after fork only async-signal-safe calls are allowed.
struct child_plan {
  const char* program;
  char* const* arguments;
  char* const* environment;
  const char* directory;  // or null
  int input;
  int output;
  int error_pipe;
  pid_t parent;
};

void close_the_rest_on_exec() {
#ifndef CLOSE_RANGE_CLOEXEC
#define CLOSE_RANGE_CLOEXEC (1U << 2)
#endif
#ifdef SYS_close_range
  if (::syscall(SYS_close_range, 3U, ~0U, CLOSE_RANGE_CLOEXEC) == 0) return;
#endif
  for (int fd = 3; fd < 4096; ++fd) ::fcntl(fd, F_SETFD, FD_CLOEXEC);  // kernels before 5.11
}

[[noreturn]] void be_the_child(const child_plan& plan) {
  ::prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (::getppid() != plan.parent) ::_exit(127);  // the parent died before the line above
  sigset_t none;
  sigemptyset(&none);
  ::pthread_sigmask(SIG_SETMASK, &none, nullptr);
  ::signal(SIGPIPE, SIG_DFL);
  if (::dup2(plan.input, 0) >= 0 && ::dup2(plan.output, 1) >= 0 && ::dup2(plan.output, 2) >= 0 &&
      (!plan.directory || ::chdir(plan.directory) == 0)) {
    close_the_rest_on_exec();
    ::execve(plan.program, plan.arguments, plan.environment);
  }
  const int number = errno;
  [[maybe_unused]] const auto written = ::write(plan.error_pipe, &number, sizeof number);
  ::_exit(127);
}

std::vector<char*> pointers_to(std::vector<std::string>& strings) {
  std::vector<char*> result;
  for (auto& s : strings) result.push_back(s.data());
  result.push_back(nullptr);
  return result;
}

std::vector<std::string> merged_environment(const std::vector<std::pair<std::string, std::string>>& extra) {
  std::vector<std::string> result;
  for (char** e = environ; *e; ++e) {
    const std::string_view entry = *e;
    const auto name = entry.substr(0, entry.find('='));
    bool replaced = false;
    for (const auto& variable : extra) replaced = replaced || variable.first == name;
    if (!replaced) result.emplace_back(entry);
  }
  for (const auto& variable : extra) result.push_back(variable.first + "=" + variable.second);
  return result;
}

pid_t start(process_options& options, int output) {
  if (options.command.empty()) throw std::invalid_argument("process: no command");
  const auto program = find_program(options.command[0]);
  if (!program) throw_errno("cannot find the program " + options.command[0], ENOENT);

  auto environment = merged_environment(options.environment);
  const auto argument_pointers = pointers_to(options.command);
  const auto environment_pointers = pointers_to(environment);
  const file_descriptor input(::open("/dev/null", O_RDONLY | O_CLOEXEC));
  pipe_ends error;
  open_pipe(error);

  const child_plan plan{.program = program->c_str(),
                        .arguments = argument_pointers.data(),
                        .environment = environment_pointers.data(),
                        .directory = options.working_directory.empty() ? nullptr : options.working_directory.c_str(),
                        .input = input.get(),
                        .output = output,
                        .error_pipe = error.write.get(),
                        .parent = ::getpid()};
  const pid_t pid = spawner::instance().run([&plan] {
    const pid_t forked = ::fork();
    if (forked == 0) be_the_child(plan);
    return forked;
  });
  if (pid < 0) throw_errno("fork");

  // A successful exec closes the child's end. If exec fails, the child writes the error number.
  error.write.reset();
  int number = 0;
  ssize_t n;
  do {
    n = ::read(error.read.get(), &number, sizeof number);
  } while (n < 0 && errno == EINTR);
  if (n == sizeof number) {
    ::waitpid(pid, nullptr, 0);
    throw_errno("cannot start " + options.command[0], number);
  }
  return pid;
}

}  // namespace

std::string exit_status::to_string() const {
  return signal ? "killed by signal " + std::to_string(signal) : "exit status " + std::to_string(code);
}

process::process(process_options options) : options_(std::move(options)) {
  if (!options_.output_file.empty()) {
    const file_descriptor file(::open(options_.output_file.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0644));
    if (file.get() < 0) throw_errno("cannot open " + options_.output_file.string());
    pid_ = start(options_, file.get());
    output_ended_ = true;
    return;
  }
  pipe_ends pipe;
  open_pipe(pipe);
  file_descriptor cancel(::eventfd(0, EFD_CLOEXEC));
  if (cancel.get() < 0) throw_errno("eventfd");
  pid_ = start(options_, pipe.write.get());
  cancel_fd_ = cancel.release();
  reader_ = std::thread([this, fd = pipe.read.release()] { read_output(fd); });
}

process::~process() {
  if (!status_) kill();
  finish_reading();
}

void process::finish_reading() {
  if (!reader_.joinable()) return;
  // Ends the reader even if a grandchild holds the other end of the pipe.
  const std::uint64_t one = 1;
  [[maybe_unused]] const auto written = ::write(cancel_fd_, &one, sizeof one);
  reader_.join();
  ::close(std::exchange(cancel_fd_, -1));
}

void process::read_output(int fd) {
  const file_descriptor owner(fd);
  std::string partial;
  const auto take_line = [&](std::string line) {
    if (options_.on_line) options_.on_line(line);
    {
      const std::lock_guard lock(mutex_);
      lines_.push_back(std::move(line));
    }
    changed_.notify_all();
  };
  for (;;) {
    pollfd fds[2] = {{fd, POLLIN, 0}, {cancel_fd_, POLLIN, 0}};
    if (::poll(fds, 2, -1) < 0 && errno != EINTR) break;
    if (fds[0].revents == 0) {
      if (fds[1].revents != 0) break;  // only once the pipe is empty
      continue;
    }
    char buffer[4096];
    const auto n = ::read(fd, buffer, sizeof buffer);
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) break;
    partial.append(buffer, static_cast<std::size_t>(n));
    for (std::size_t end; (end = partial.find('\n')) != std::string::npos; partial.erase(0, end + 1))
      take_line(partial.substr(0, end));
  }
  if (!partial.empty()) take_line(std::move(partial));
  {
    const std::lock_guard lock(mutex_);
    output_ended_ = true;
  }
  changed_.notify_all();
}

bool process::reap(int options) {
  if (status_) return true;
  int raw = 0;
  pid_t reaped;
  do {
    reaped = ::waitpid(pid_, &raw, options);
  } while (reaped < 0 && errno == EINTR);
  if (reaped < 0) throw_errno("waitpid");
  if (reaped == 0) return false;
  status_ = WIFSIGNALED(raw) ? exit_status{.code = 0, .signal = WTERMSIG(raw)}
                             : exit_status{.code = WEXITSTATUS(raw), .signal = 0};
  return true;
}

bool process::running() { return !reap(WNOHANG); }

std::optional<exit_status> process::wait(std::chrono::milliseconds limit) {
  const auto end = clock::now() + limit;
  while (!reap(WNOHANG)) {
    if (clock::now() >= end) return std::nullopt;
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  if (reader_.joinable()) {
    std::unique_lock lock(mutex_);
    changed_.wait_for(lock, std::chrono::milliseconds(200), [this] { return output_ended_; });
  }
  return status_;
}

void process::signal(int number) {
  if (reap(WNOHANG)) return;
  if (::kill(pid_, number) != 0) throw_errno("kill");
}

void process::kill() {
  if (reap(WNOHANG)) return;
  ::kill(pid_, SIGKILL);  // ends a stopped process too
  reap(0);
}

exit_status process::terminate(std::chrono::milliseconds limit) {
  signal(SIGCONT);
  signal(SIGTERM);
  if (!wait(limit)) kill();
  return *status_;
}

void process::freeze() {
  signal(SIGSTOP);
  if (status_) return;
  // The signal takes effect some time later. The kernel notifies the parent of that.
  siginfo_t info{};
  while (::waitid(P_PID, static_cast<id_t>(pid_), &info, WSTOPPED | WEXITED | WNOWAIT) != 0)
    if (errno != EINTR) throw_errno("waitid");
}

void process::thaw() { signal(SIGCONT); }

std::string process::output() const {
  const std::lock_guard lock(mutex_);
  std::string result;
  for (const auto& line : lines_) result += line + '\n';
  return result;
}

std::vector<std::string> process::lines() const {
  const std::lock_guard lock(mutex_);
  return lines_;
}

bool process::wait_for_line(std::string_view text, std::chrono::milliseconds limit) {
  std::unique_lock lock(mutex_);
  std::size_t seen = 0;
  bool found = false;
  changed_.wait_for(lock, limit, [&] {
    for (; seen < lines_.size() && !found; ++seen) found = lines_[seen].find(text) != std::string::npos;
    return found || output_ended_;
  });
  return found;
}

finished_process run(std::vector<std::string> command, std::chrono::milliseconds limit,
                     std::vector<std::pair<std::string, std::string>> environment) {
  process child({.command = std::move(command), .environment = std::move(environment)});
  finished_process result;
  result.status = child.wait(limit);
  if (!result.status) child.kill();
  result.output = child.output();
  return result;
}

std::string sibling_program(std::string_view name) {
  return (std::filesystem::read_symlink("/proc/self/exe").parent_path() / name).string();
}

std::optional<std::filesystem::path> find_program(std::string_view name) {
  const auto executable = [](const std::filesystem::path& p) {
    std::error_code ec;
    return std::filesystem::is_regular_file(p, ec) && ::access(p.c_str(), X_OK) == 0;
  };
  if (name.empty()) return std::nullopt;
  if (name.find('/') != std::string_view::npos) {
    if (executable(name)) return std::filesystem::absolute(name);
    return std::nullopt;
  }
  const char* path = std::getenv("PATH");
  std::string_view rest = path ? path : "";
  while (!rest.empty()) {
    const auto end = rest.find(':');
    const auto directory = rest.substr(0, end);
    rest = end == std::string_view::npos ? std::string_view() : rest.substr(end + 1);
    if (directory.empty()) continue;
    auto candidate = std::filesystem::path(directory) / name;
    if (executable(candidate)) return candidate;
  }
  return std::nullopt;
}

}  // namespace holdfast::test
