// SPDX-FileCopyrightText: The holdfast authors
// SPDX-License-Identifier: BSL-1.0

#include "support/platform_probe.hpp"

#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "lifetime/process_mark.hpp"

namespace holdfast::test {

std::string id_of_process() { return std::to_string(::getpid()); }

probe_times probe_times_of(int socket) {
  const auto option = [&](int name) {
    int value = -1;
    socklen_t size = sizeof value;
    return ::getsockopt(socket, IPPROTO_TCP, name, &value, &size) == 0 ? value : -1;
  };
  return {option(TCP_KEEPIDLE), option(TCP_KEEPINTVL), option(TCP_KEEPCNT), option(TCP_USER_TIMEOUT)};
}

bool is_inherited(int descriptor) { return (::fcntl(descriptor, F_GETFD) & FD_CLOEXEC) == 0; }

bool notices_a_fork() {
  const lifetime::process_mark ours;
  const pid_t child = ::fork();
  if (child == 0) ::_exit(ours.is_foreign() ? 1 : 0);
  int status = 0;
  ::waitpid(child, &status, 0);
  return WIFEXITED(status) && WEXITSTATUS(status) == 1;
}

}  // namespace holdfast::test
