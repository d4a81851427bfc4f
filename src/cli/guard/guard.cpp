// SPDX-FileCopyrightText: The holdfast authors
// SPDX-License-Identifier: BSL-1.0

// The guard process: it starts the command, and ends it by its own clock. It has one thread and one loop.

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/timerfd.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "cli/guard/descendants.hpp"
#include "cli/guard/ending.hpp"
#include "cli/guard/guarded_command.hpp"
#include "cli/guard/message.hpp"
#include "platform/linux/boot_clock.hpp"

namespace holdfast::cli {

namespace {

using namespace std::chrono_literals;

// SIGKILL comes this much before the lease is over at the latest: the time that a busy machine may take to run the
// guard.
constexpr std::chrono::nanoseconds margin = 100ms;
// After SIGKILL: how often the guard looks for processes that are left, and kills them.
constexpr std::chrono::nanoseconds sweep_interval = 20ms;

class guard {
public:
  explicit guard(const guard_settings& settings)
      : settings_(settings), ending_(std::chrono::nanoseconds(settings.grace), margin) {}

  [[noreturn]] void run() {
    prepare();
    for (;;) {
      arm();
      pollfd ready[] = {{socket_open_ ? settings_.socket : -1, POLLIN, 0}, {signals_, POLLIN, 0}, {timer_, POLLIN, 0}};
      if (poll(ready, std::size(ready), -1) < 0 && errno != EINTR) _exit(1);
      if (ready[0].revents != 0) receive();
      if (ready[1].revents != 0) drain(signals_);
      if (ready[2].revents != 0) drain(timer_);
      reap();
      act();
      if (command_ <= 0 ? !socket_open_ : nothing_left_) _exit(0);
    }
  }

private:
  void prepare() {
    // The terminal's signals go to process groups. This group has only the guard, and it may write to the terminal.
    setpgid(0, 0);
    prctl(PR_SET_CHILD_SUBREAPER, 1);
    sigset_t all;
    sigfillset(&all);
    sigprocmask(SIG_SETMASK, &all, &mask_of_program_);
    sigset_t child;
    sigemptyset(&child);
    sigaddset(&child, SIGCHLD);
    signals_ = signalfd(-1, &child, SFD_CLOEXEC | SFD_NONBLOCK);
    timer_ = timerfd_create(CLOCK_BOOTTIME, TFD_CLOEXEC | TFD_NONBLOCK);
    if (signals_ < 0 || timer_ < 0) _exit(1);
  }

  // While it is true, the id of the process group cannot belong to other processes.
  bool runs() const { return command_ > 0 && !exited_; }

  static void drain(int descriptor) {
    char ignored[1024];
    while (read(descriptor, ignored, sizeof ignored) > 0) {
    }
  }

  void arm() {
    std::optional<std::chrono::nanoseconds> at = command_ > 0 ? ending_.next() : std::nullopt;
    if (killing_) {
      const auto again = boot_time() + sweep_interval;
      at = at ? std::min(*at, again) : again;
    }
    itimerspec when{};
    if (at) {
      const auto positive = std::max(*at, 1ns);
      when.it_value.tv_sec = positive / 1s;
      when.it_value.tv_nsec = (positive % 1s).count();
    }
    timerfd_settime(timer_, TFD_TIMER_ABSTIME, &when, nullptr);
  }

  // Never waits: a program that is stopped reads nothing. A report for which the socket has no room is lost. The
  // program still learns from the closed socket that the guard has ended.
  void send(guard_event::kind what, std::int64_t value = 0) const {
    if (!socket_open_) return;
    const guard_event event{what, value};
    while (::send(settings_.socket, &event, sizeof event, MSG_NOSIGNAL | MSG_DONTWAIT) < 0 && errno == EINTR) {
    }
  }

  void receive() {
    char buffer[message_max];
    iovec content{buffer, sizeof buffer};
    alignas(cmsghdr) char control[CMSG_SPACE(files_max * sizeof(int))];
    msghdr message{};
    message.msg_iov = &content;
    message.msg_iovlen = 1;
    message.msg_control = control;
    message.msg_controllen = sizeof control;
    const ssize_t size = recvmsg(settings_.socket, &message, MSG_DONTWAIT | MSG_CMSG_CLOEXEC);
    if (size >= 0) keep_files(message);
    if (size < 0 && (errno == EAGAIN || errno == EINTR)) return;
    if (size < static_cast<ssize_t>(sizeof(request))) {  // the program has died, or has destroyed its guarded_command
      socket_open_ = false;
      ending_.stop(boot_time());
      return;
    }
    request asked;
    std::memcpy(&asked, buffer, sizeof asked);
    switch (asked.what) {
      case request::kind::start:
        if (command_ != 0) break;
        ending_.set_lease_end(std::chrono::nanoseconds(asked.lease_end));
        start(asked.number != 0,
              std::string_view(buffer + sizeof asked, static_cast<std::size_t>(size) - sizeof asked));
        break;
      case request::kind::lease_end:
        ending_.set_lease_end(std::chrono::nanoseconds(asked.lease_end));
        break;
      case request::kind::forward:
        if (runs()) killpg(command_, asked.number);
        break;
      case request::kind::stop:
        ending_.stop(boot_time());
        break;
      case request::kind::kill:
        ending_.kill(boot_time());
        break;
      case request::kind::resume:
        if (!runs()) break;
        if (asked.number != 0) give_terminal(command_);
        killpg(command_, SIGCONT);
        break;
    }
  }

  // The files that show that the maker of the session is alive. They stay open until this process ends.
  void keep_files(msghdr& message) {
    const cmsghdr* const rights = CMSG_FIRSTHDR(&message);
    if (!rights || rights->cmsg_level != SOL_SOCKET || rights->cmsg_type != SCM_RIGHTS) return;
    const std::size_t count = (rights->cmsg_len - CMSG_LEN(0)) / sizeof(int);
    files_.resize(count);
    std::memcpy(files_.data(), CMSG_DATA(rights), count * sizeof(int));
  }

  void give_terminal(pid_t group) const {
    if (settings_.terminal >= 0 && group > 0) tcsetpgrp(settings_.terminal, group);
  }

  // The terminal goes back to the program if the command has it.
  void take_terminal() const {
    if (settings_.terminal >= 0 && tcgetpgrp(settings_.terminal) == command_)
      tcsetpgrp(settings_.terminal, program_group_);
  }

  void start(bool with_terminal, std::string_view variables) {
    int failed[2];  // exec closes it; a failure writes errno
    if (pipe2(failed, O_CLOEXEC) != 0) {
      send(guard_event::kind::not_started, errno);
      return;
    }
    const pid_t self = getpid();
    const pid_t child = fork();
    if (child == 0) become_command(self, with_terminal, variables, failed[1]);
    const int fork_error = errno;
    close(failed[1]);
    if (child < 0) {
      close(failed[0]);
      send(guard_event::kind::not_started, fork_error);
      return;
    }
    setpgid(child, child);  // both do it, so that the group is there for whichever goes on first
    int error = 0;
    ssize_t size = 0;
    while ((size = read(failed[0], &error, sizeof error)) < 0 && errno == EINTR) {
    }
    close(failed[0]);
    command_ = child;
    if (size == sizeof error) {
      waitpid(child, nullptr, 0);
      take_terminal();
      command_ = -1;
      send(guard_event::kind::not_started, error);
      return;
    }
    send(guard_event::kind::started, child);
  }

  [[noreturn]] void become_command(pid_t guard, bool with_terminal, std::string_view variables, int failed) const {
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (getppid() != guard) _exit(127);  // the guard died before the call above
    setpgid(0, 0);
    if (with_terminal) give_terminal(getpid());
    while (!variables.empty()) {
      const std::size_t end = std::min(variables.find('\0'), variables.size());
      const std::string variable(variables.substr(0, end));
      const std::size_t equals = variable.find('=');
      if (equals != variable.npos) setenv(variable.substr(0, equals).c_str(), variable.c_str() + equals + 1, 1);
      variables.remove_prefix(std::min(end + 1, variables.size()));
    }
    if (!settings_.pass_stdin) {
      const int nothing = open("/dev/null", O_RDONLY);
      if (nothing >= 0 && nothing != STDIN_FILENO) {
        dup2(nothing, STDIN_FILENO);
        close(nothing);
      }
    }
    for (const int each : files_) fcntl(each, F_SETFD, 0);  // the command has them, too
    sigprocmask(SIG_SETMASK, &mask_of_program_, nullptr);
    execvp(settings_.arguments[0], settings_.arguments);
    const int error = errno;
    [[maybe_unused]] const ssize_t size = write(failed, &error, sizeof error);
    _exit(127);
  }

  void reap() {
    int status = 0;
    for (;;) {
      const pid_t child = waitpid(-1, &status, WNOHANG | WUNTRACED | WCONTINUED);
      if (child < 0 && errno == EINTR) continue;
      if (child <= 0) {
        nothing_left_ = child < 0;
        break;
      }
      if (child != command_) continue;  // an orphan, which the kernel has given to this subreaper
      if (WIFSTOPPED(status)) {
        send(guard_event::kind::stopped, WSTOPSIG(status));  // the shell takes the terminal
      } else if (!WIFCONTINUED(status)) {
        take_terminal();
        send(guard_event::kind::exited, status);
        exited_ = true;
        ending_.stop(boot_time());  // what it has left behind
      }
    }
    if (exited_ && nothing_left_) send(guard_event::kind::ended);
  }

  void act() {
    if (command_ <= 0) return;
    for (auto step = ending_.due(boot_time()); step != ending::step::none; step = ending_.due(boot_time())) {
      killing_ = step == ending::step::kill;
      signal_all(killing_ ? SIGKILL : SIGTERM);
      if (!killing_ && ending_.by_lease()) send(guard_event::kind::lease_ends);
    }
    if (killing_) signal_all(SIGKILL);  // also what was born since
  }

  void signal_all(int number) const {
    // The group gets the signal at once. The others, and the group when its leader has ended, one after the other.
    const bool has_group = runs();
    if (has_group) killpg(command_, number);
    for (const pid_t each : descendants_of(getpid())) {
      if (!has_group || getpgid(each) != command_) ::kill(each, number);
      if (number != SIGKILL) ::kill(each, SIGCONT);  // a stopped process must see the signal
    }
  }

  guard_settings settings_;
  ending ending_;
  const pid_t program_group_ = getpgid(getppid());
  sigset_t mask_of_program_{};
  std::vector<int> files_;
  int signals_ = -1, timer_ = -1;
  pid_t command_ = 0;  // 0 until a fork has succeeded; -1 if exec has failed
  bool socket_open_ = true, exited_ = false, killing_ = false, nothing_left_ = false;
};

}  // namespace

void run_guard(const guard_settings& settings) { guard(settings).run(); }

std::chrono::nanoseconds boot_time() { return platform::read_boot_clock(); }

}  // namespace holdfast::cli
