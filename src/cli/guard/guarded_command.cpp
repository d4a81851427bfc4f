// SPDX-FileCopyrightText: The holdfast authors
// SPDX-License-Identifier: BSL-1.0

#include "cli/guard/guarded_command.hpp"

#include <fcntl.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <stdexcept>
#include <system_error>

#include "cli/guard/descendants.hpp"
#include "cli/guard/message.hpp"

namespace holdfast::cli {

namespace {

[[noreturn]] void fail(const char* what) { throw std::system_error(errno, std::system_category(), what); }

bool is_foreground(int terminal) { return terminal >= 0 && tcgetpgrp(terminal) == getpgrp(); }

}  // namespace

guarded_command::guarded_command(const command& what) {
  int sockets[2];
  if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, sockets) != 0) fail("socketpair");
  terminal_ = open("/dev/tty", O_RDWR | O_CLOEXEC | O_NOCTTY);
  prctl(PR_SET_CHILD_SUBREAPER, 1);  // if the guard dies, its children come here
  std::vector<char*> arguments;
  arguments.reserve(what.arguments.size() + 1);
  for (const std::string& word : what.arguments) arguments.push_back(const_cast<char*>(word.c_str()));
  arguments.push_back(nullptr);
  guard_ = fork();
  if (guard_ == 0) {
    close(sockets[0]);
    run_guard({.socket = sockets[1],
               .terminal = terminal_,
               .arguments = arguments.data(),
               .pass_stdin = what.pass_stdin,
               .grace = std::chrono::nanoseconds(what.grace).count()});
  }
  close(sockets[1]);
  socket_ = sockets[0];
  if (guard_ < 0) {
    close(socket_);
    if (terminal_ >= 0) close(terminal_);
    fail("fork");
  }
}

guarded_command::~guarded_command() {
  close(socket_);
  if (terminal_ >= 0) close(terminal_);
}

std::optional<guard_event> guarded_command::receive() {
  guard_event event{};
  ssize_t size = recv(socket_, &event, sizeof event, MSG_DONTWAIT);
  // If the guard has ended without reading all messages, the kernel reports that before its last events.
  if (size < 0 && errno == ECONNRESET) size = recv(socket_, &event, sizeof event, MSG_DONTWAIT);
  if (size < 0 && (errno == EAGAIN || errno == EINTR)) return std::nullopt;
  if (size != sizeof event) return guard_event{guard_event::kind::guard_gone};
  if (event.what == guard_event::kind::started) group_ = static_cast<pid_t>(event.value);
  // A shell may have put this process into the foreground only after the command had begun. Then the command was
  // stopped by its own use of the terminal, and gets the terminal now.
  const bool by_terminal = event.value == SIGTTIN || event.value == SIGTTOU;
  if (event.what == guard_event::kind::stopped && by_terminal && is_foreground(terminal_)) {
    resume();
    return std::nullopt;
  }
  return event;
}

void guarded_command::start(const std::vector<std::string>& variables, std::chrono::nanoseconds lease_end,
                            const std::vector<int>& files) {
  std::string rest;
  for (const std::string& variable : variables) rest += variable + '\0';
  send({.what = request::kind::start, .number = is_foreground(terminal_), .lease_end = lease_end.count()}, rest, files);
}

void guarded_command::set_lease_end(std::chrono::nanoseconds lease_end) {
  send({.what = request::kind::lease_end, .lease_end = lease_end.count()});
}

void guarded_command::forward(int signal) { send({.what = request::kind::forward, .number = signal}); }

void guarded_command::stop() { send({.what = request::kind::stop}); }

void guarded_command::kill() { send({.what = request::kind::kill}); }

void guarded_command::resume() { send({.what = request::kind::resume, .number = is_foreground(terminal_)}); }

void guarded_command::send(const request& head, const std::string& rest, const std::vector<int>& files) {
  std::string packet(sizeof head, '\0');
  std::memcpy(packet.data(), &head, sizeof head);
  packet += rest;
  if (packet.size() > message_max) throw std::length_error("the variables of the command are too long");
  if (guard_ > 0) ::kill(guard_, SIGCONT);  // it may have been stopped
  // Never waits. If the guard does not read, it does not learn of renewals, and ends the command early. If it is gone,
  // `receive` reports it.
  iovec content{packet.data(), packet.size()};
  msghdr message{};
  message.msg_iov = &content;
  message.msg_iovlen = 1;
  const std::size_t passed = std::min(files.size(), files_max);
  alignas(cmsghdr) char control[CMSG_SPACE(files_max * sizeof(int))] = {};
  if (passed != 0) {
    message.msg_control = control;
    message.msg_controllen = CMSG_SPACE(passed * sizeof(int));
    cmsghdr* const rights = CMSG_FIRSTHDR(&message);
    rights->cmsg_level = SOL_SOCKET;
    rights->cmsg_type = SCM_RIGHTS;
    rights->cmsg_len = CMSG_LEN(passed * sizeof(int));
    std::memcpy(CMSG_DATA(rights), files.data(), passed * sizeof(int));
  }
  while (sendmsg(socket_, &message, MSG_NOSIGNAL | MSG_DONTWAIT) < 0 && errno == EINTR) {
  }
}

bool guarded_command::end_group() {
  guard_ = -1;  // it is waited for below, and then its id may belong to others
  if (group_ > 0) {
    if (terminal_ >= 0 && tcgetpgrp(terminal_) == group_) {
      sigset_t output, before;
      sigemptyset(&output);
      sigaddset(&output, SIGTTOU);
      pthread_sigmask(SIG_BLOCK, &output, &before);
      tcsetpgrp(terminal_, getpgrp());
      pthread_sigmask(SIG_SETMASK, &before, nullptr);
    }
    killpg(group_, SIGKILL);
    group_ = -1;  // once its leader is waited for, the id may belong to others
  }
  for (const pid_t each : descendants_of(getpid())) ::kill(each, SIGKILL);
  for (;;) {
    const pid_t child = waitpid(-1, nullptr, WNOHANG);
    if (child < 0 && errno == EINTR) continue;
    if (child <= 0) return child < 0;
  }
}

}  // namespace holdfast::cli
