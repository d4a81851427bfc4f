// SPDX-FileCopyrightText: The holdfast authors
// SPDX-License-Identifier: BSL-1.0

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
  bool on_agents_node = false;          ///< the sessions belong to the agent's node
  std::string token{};                  ///< for Consul
  std::string ca_file{};                ///< for an agent whose address is `https`
  std::string server_name{};            ///< for an agent whose address is `https`
  std::vector<std::string> launcher{};  ///< as in `agent_options`
  bool mutex = false;                   ///< uses a mutex; the stage's limit must be 1
  bool set = false;                     ///< uses a mutex set, and each coroutine tries for one lock of it; limit 1
  bool election = false;                ///< uses an election, and turns are terms; limit 1
  bool observer = false;                ///< only observes that election, and takes no turns
  bool use_recorded_limit = false;      ///< uses the limit of the record
  bool numbered = false;                ///< uses numbered slots
  std::vector<std::string> stores{};    ///< written to at the end of each turn
};

/// Worker processes that use one semaphore and write one journal, and the faults that the test causes.
///
/// A test that fails, also by an exception, leaves its picture and its journal behind.
class stage {
public:
  using time_point = protocol::time_point;

  /// `several`: the number of locks of a set; each is judged separately. `bound`: the most time for which a slot may be
  /// free while a worker waits.
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

  /// Writes the fault into the journal, and returns its time. The workers in `away` are promised no grant until
  /// `mended` names them.
  time_point fault(const std::string& words, const std::vector<std::string>& away = {});
  time_point mended(const std::string& words, const std::vector<std::string>& back = {});
  void note(const std::string& who, journal_event what, const std::string& words = {});
  /// Changes the limit by which the judge goes from now on.
  void limit_is(std::uint32_t limit) { note("test", journal_event::limit, std::to_string(limit)); }

  /// Polls until a fact holds for which there is no event. The test fails if that takes longer than `limit`.
  void until(const std::string& fact, std::chrono::milliseconds limit, const std::function<bool()>& holds);
  /// Waits until each of these workers has entered `times` times since then. The test fails if one has not within
  /// `limit`.
  void until_entered(const std::vector<std::string>& who, time_point since, std::chrono::milliseconds limit,
                     std::size_t times = 1);
  /// Waits until an entry has been written that fits, and returns it. The test fails if there is none within `limit`.
  journal_entry until_written(const std::string& fact, std::chrono::milliseconds limit,
                              const std::function<bool(const journal_entry&)>& fits);

  /// Ends the workers, reads the journal, prints the results, and fails the test if a guarantee is violated.
  verdict end();
  /// The same for the entries until now, but a violated guarantee is only printed.
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
