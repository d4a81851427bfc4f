#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace holdfast::test {

/// A network of the test's own: hosts 1 to N, each a network namespace with one address, plugged into one switch, where
/// cables are cut and frames are lost. Nothing of it is seen from outside, and nothing is left of it, however this
/// process ends: the namespaces have no names, only open descriptors.
///
/// While it exists the thread that made it is inside too, at the switch, and reaches all hosts whatever is cut. One at
/// a time. Needs root, or the root of a user namespace, and ip, nft, tc and nsenter; throws std::runtime_error, with
/// what is missing: no test is skipped.
class network {
public:
  explicit network(int hosts);
  network(const network&) = delete;
  network& operator=(const network&) = delete;
  ~network();

  std::string address(int host) const;
  /// What a command is started by to be on that host.
  std::vector<std::string> inside(int host) const;

  /// No frame between this host and the others.
  void cut(int host);
  /// So many of a hundred frames from and to this host are lost, at random.
  void lose(int host, int percent);
  /// What the host sends goes through a bottleneck, with a queue before it: "256kbit".
  void narrow(int host, std::string_view rate);
  /// All cables are as new.
  void mend();

private:
  struct space {
    int fd;
    std::string path;  ///< by which other processes find it
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
