// SPDX-FileCopyrightText: The holdfast authors
// SPDX-License-Identifier: BSL-1.0

#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace holdfast::test {

/// A network of the test's own. Hosts 1 to N are network namespaces with one address each, connected to one switch. The
/// switch can cut cables and lose frames. The network is not visible from outside. Nothing remains of it, however this
/// process ends, because the namespaces have no names, only open descriptors.
///
/// While the network exists, the thread that made it is inside, too. It is at the switch, and reaches all hosts even if
/// they are cut off. Only one network may exist at a time. It needs root, or the root of a user namespace, and the
/// programs ip, nft, tc and nsenter. If one of these is missing, the constructor throws std::runtime_error, which names
/// it: no test is skipped.
class network {
public:
  explicit network(int hosts);
  network(const network&) = delete;
  network& operator=(const network&) = delete;
  ~network();

  std::string address(int host) const;
  /// The prefix of a command that is to run on that host.
  std::vector<std::string> inside(int host) const;

  /// Drops all frames between this host and the others.
  void cut(int host);
  /// Drops `percent` of the frames from and to this host, at random.
  void lose(int host, int percent);
  /// Limits the rate at which the host sends, such as "256kbit". Frames wait in a queue before the bottleneck.
  void narrow(int host, std::string_view rate);
  /// Removes all faults from all hosts.
  void mend();

private:
  struct space {
    int fd;
    std::string path;  ///< by which other processes can enter it
  };
  static space make_space();
  static void command(std::vector<std::string> words);
  void at_switch(std::vector<std::string> words) const;
  void at_host(int host, std::vector<std::string> words) const;
  void drop(int host, const std::string& condition);

  int outside_ = -1;
  space switch_{};
  std::vector<space> hosts_;
  std::vector<int> narrowed_;
};

}  // namespace holdfast::test
