// SPDX-FileCopyrightText: The holdfast authors
// SPDX-License-Identifier: BSL-1.0

#pragma once

#include <sys/types.h>

#include <chrono>
#include <cstdint>
#include <deque>
#include <holdfast/consul/kv.hpp>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "options.hpp"

namespace demo {

using clock = std::chrono::steady_clock;

enum class state { starting, working, killed, ended, failed };

struct worker_view {
  char name = '?';
  pid_t pid = 0;
  demo::state state = demo::state::starting;
  std::set<int> believers;  ///< the coroutines that report that they hold a slot
  std::uint64_t taken = 0;  ///< the number of slots acquired so far
  std::uint64_t waiting = 0;
  std::uint64_t handoffs = 0;
  std::uint64_t requests = 0;
};

/// A line of the screen. It shows one session as long as the lock record names it.
struct slot_view {
  std::string session;
  char owner = '.';
  std::string history;  ///< a letter for each sample: the worker, x for a dead one, . for a free slot
};

struct event_view {
  double at = 0;
  std::string text;
};

/// The knowledge of the supervisor, from two independent sources: the lock record, and the reports of the workers.
class model {
public:
  explicit model(const options& o);

  void line(std::string_view text);                                      ///< takes a line of a worker's report
  void listing(const std::vector<holdfast::consul::kv_entry>& entries);  ///< takes all entries below the prefix
  void sample();                                                         ///< adds a letter to each slot's history
  void note(std::string text);
  void complain(std::string text);  ///< reports a failure of the demo

  void begin_kill(worker_view& victim);
  void confirm_death(worker_view& victim);
  worker_view* find(char name);
  worker_view& busiest();  ///< the worker with the most slots, by the record

  double now() const { return std::chrono::duration<double>(clock::now() - started).count(); }
  std::size_t named(char owner) const;

  const options& settings;
  clock::time_point started = clock::now();
  std::vector<worker_view> workers;
  std::vector<slot_view> slots;
  std::deque<event_view> events;
  std::vector<std::string> complaints;

  std::size_t in_record = 0, in_record_most = 0;
  std::size_t believing = 0, believing_most = 0;
  std::size_t entries = 0;
  std::uint64_t lost = 0;

  // The death, and the recovery from it.
  char victim = 0;
  double killed_at = 0;
  std::size_t victim_held = 0;       ///< slots it held when it was killed
  std::size_t victim_held_most = 0;  ///< the most slots that its sessions held later: those in the queue got some, too
  std::optional<double> recovered_after;

private:
  std::map<std::string, char> owners_;  ///< by session
};

}  // namespace demo
