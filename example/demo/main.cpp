// SPDX-FileCopyrightText: The holdfast authors
// SPDX-License-Identifier: BSL-1.0

// The demonstration that scripts/demo runs. Worker processes, each with many coroutines, share one semaphore. One of
// them is killed midway. A supervisor shows the holders live, and checks that never more than `limit` slots are held.
// It uses two sources: the lock record, which it reads itself, and the reports of the workers.
//
// main.cpp        the command line
// worker.cpp      the code that a user of holdfast writes
// supervisor.cpp  starts, kills and watches the workers
// model.cpp       the knowledge of the supervisor
// screen.cpp      the display of that knowledge

#include <unistd.h>

#include <stdexcept>
#include <string>
#include <string_view>

#include "common/agent.hpp"
#include "common/command_line.hpp"
#include "roles.hpp"

namespace {

constexpr std::string_view help = R"(usage: demo [options]

Worker processes share one semaphore in Consul; one of them is killed midway. The exit status is 0 if the limit held and
the killed process's slots came back.

  --seconds N      how long the workers work (15)
  --workers N      processes, 2 to 8 (3)
  --coroutines N   in each of them (50)
  --limit N        slots of the semaphore, 1 to 16 (4)
  --ttl-ms N       TTL of the sessions (2000; with --consul 10000, the least that most agents accept)
  --plain          lines instead of a live screen
)";

demo::options parse(example::arguments& given) {
  demo::options o;
  if (!given.consul().empty()) o.ttl = std::chrono::seconds(10);
  o.run_time = std::chrono::seconds(given.number("--seconds", static_cast<int>(o.run_time.count()), 2, 3'600));
  o.workers = given.number("--workers", o.workers, 2, 8);
  o.coroutines = given.number("--coroutines", o.coroutines, 1, 10'000);
  o.limit = given.number("--limit", o.limit, 1, 16);
  o.ttl = std::chrono::milliseconds(given.number("--ttl-ms", static_cast<int>(o.ttl.count()), 500, 60'000));
  o.plain = given.flag("--plain");
  // The options that the supervisor passes to its workers.
  o.prefix = given.text("--prefix", "holdfast-demo/" + std::to_string(::getpid()));
  const std::string worker = given.text("--worker", {});
  if (worker.size() > 1) throw std::invalid_argument("--worker wants a letter");
  if (!worker.empty()) o.worker = worker[0];
  given.end();
  return o;
}

}  // namespace

int main(int argc, char** argv) {
  return example::run(argc, argv, help, [](example::arguments& given) {
    const demo::options o = parse(given);
    const example::agent agent(given.consul());
    return o.worker == 0 ? demo::run_supervisor(o, agent) : demo::run_worker(o, agent);
  });
}
