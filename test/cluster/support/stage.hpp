#pragma once

#include <chrono>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "cluster/support/timing.hpp"
#include "support/journal.hpp"
#include "support/process.hpp"
#include "support/verdict.hpp"

namespace holdfast::test {

struct worker_options {
  std::string agent{};  ///< "host:port", or several with commas between
  int coroutines = 2;
  std::chrono::milliseconds hold{100};
  std::chrono::milliseconds outage_grace{0};
  std::chrono::milliseconds ttl = session_ttl;
  bool on_agents_node = false;          ///< its sessions are
  std::string token{};                  ///< for Consul
  std::string ca_file{};                ///< where the agent's address is `https`
  std::string server_name{};            ///< the same
  std::vector<std::string> launcher{};  ///< as of `agent_options`
  bool mutex = false;                   ///< the stage's limit must be 1
  bool set = false;                     ///< the same; each coroutine tries for a lock of its own
  bool election = false;                ///< the same; turns are terms
  bool observer = false;                ///< of that election; it takes no turns
  bool use_recorded_limit = false;      ///< the limit of the record counts
  bool numbered = false;                ///< the slots are
  std::vector<std::string> stores{};    ///< written to at the end of each turn
};

/// Worker processes that share one semaphore and one journal, and what the test does to them.
///
/// A test that fails leaves its picture and its journal behind: also one that ends by an exception.
class stage {
public:
  using time_point = protocol::time_point;

  /// `several`: so many locks of a set, each judged by itself. `bound`: how long a slot may be free while somebody
  /// waits.
  stage(std::string name, std::uint32_t limit, int several = 1, std::chrono::milliseconds bound = grant_bound);
  stage(const stage&) = delete;
  stage& operator=(const stage&) = delete;
  ~stage();

  const std::string& prefix() const { return prefix_; }
  std::uint32_t limit() const { return limit_; }
  const std::filesystem::path& log_file() const { return log_.path(); }
  std::vector<journal_entry> entries() const { return read_journal(log_.path()); }

  void start(const std::string& who, const worker_options& options);
  /// A process that writes to the journal by itself.
  void start(const std::string& who, process_options options);
  process& worker(const std::string& who) { return *workers_.at(who); }
  void kill(const std::string& who);       ///< for good
  std::vector<std::string> names() const;  ///< of those that take turns

  /// Writes down what the test did, and returns when. `away`: who cannot be expected to be granted anything until
  /// `mended` names them again.
  time_point fault(const std::string& words, const std::vector<std::string>& away = {});
  time_point mended(const std::string& words, const std::vector<std::string>& back = {});
  void note(const std::string& who, journal_event what, const std::string& words = {});
  /// From now on so many may believe.
  void limit_is(std::uint32_t limit) { note("test", journal_event::limit, std::to_string(limit)); }

  /// Waits for a fact that no event tells; fails the test if it does not become one within `limit`.
  void until(const std::string& fact, std::chrono::milliseconds limit, const std::function<bool()>& holds);
  /// Waits until each of them has entered so often since then; fails the test if one has not within `limit`.
  void until_entered(const std::vector<std::string>& who, time_point since, std::chrono::milliseconds limit,
                     std::size_t times = 1);
  /// Waits until an entry that fits has been written, and returns it; fails the test if none is within `limit`.
  journal_entry until_written(const std::string& fact, std::chrono::milliseconds limit,
                              const std::function<bool(const journal_entry&)>& fits);

  /// Ends the workers, reads the journal, prints what it shows, and fails the test if that breaks a guarantee.
  verdict end();
  /// The same of what was written until now, but what is broken is only printed.
  verdict end_as_it_may();

private:
  void end_workers();
  std::string documented() const;

  const std::string name_;
  const std::uint32_t limit_;
  const int several_;
  const std::chrono::milliseconds bound_;
  const std::string prefix_;
  journal log_;
  std::map<std::string, std::unique_ptr<process>> workers_;
  std::set<std::string> observers_;
  const int exceptions_;
};

}  // namespace holdfast::test
