// The demonstration that scripts/demo runs. Worker processes, each with many coroutines, share one semaphore. One is
// killed midway. A supervisor shows live who holds what, and checks that never more than `limit` hold a slot: once by
// the lock record, which it reads itself, and once by the workers' own word.
//
// main.cpp  the command line        supervisor.cpp  starts, kills and watches the workers
// worker.cpp  what a user writes    model.cpp  what the supervisor knows    screen.cpp  how it shows that

#include <unistd.h>

#include <charconv>
#include <exception>
#include <iostream>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

#include "roles.hpp"

namespace {

constexpr const char* help = R"(usage: demo [options]

Worker processes share one semaphore in Consul; one of them is killed midway.

  --seconds N      how long the workers work (15)
  --workers N      processes, 2 to 8 (3)
  --coroutines N   in each of them (50)
  --limit N        slots of the semaphore, 1 to 16 (4)
  --ttl-ms N       TTL of the sessions (2000); Consul refuses less than 10000 unless its session_ttl_min allows it
  --plain          lines instead of a live screen

The exit status is 0 if the limit held and the killed process's slots came back. CONSUL_HTTP_ADDR says where Consul is
(default 127.0.0.1:8500). scripts/demo does all the set-up, and starts a Consul agent of its own.
)";

int number(std::string_view option, std::string_view text, int least, int most) {
  int value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size() || value < least || value > most)
    throw std::invalid_argument(std::string(option) + " wants a number from " + std::to_string(least) + " to " +
                                std::to_string(most) + ", not \"" + std::string(text) + "\"");
  return value;
}

demo::options parse(const std::vector<std::string_view>& words) {
  demo::options o;
  o.prefix = "holdfast-demo/" + std::to_string(::getpid());
  for (std::size_t i = 0; i < words.size(); ++i) {
    const std::string_view option = words[i];
    if (option == "--plain") {
      o.plain = true;
      continue;
    }
    const std::string_view value = i + 1 < words.size() ? words[++i] : std::string_view();
    if (option == "--seconds")
      o.run_time = std::chrono::seconds(number(option, value, 2, 3'600));
    else if (option == "--workers")
      o.workers = number(option, value, 2, 8);
    else if (option == "--coroutines")
      o.coroutines = number(option, value, 1, 10'000);
    else if (option == "--limit")
      o.limit = number(option, value, 1, 16);
    else if (option == "--ttl-ms")
      o.ttl = std::chrono::milliseconds(number(option, value, 500, 60'000));
    else if (option == "--prefix")
      o.prefix = value;
    else if (option == "--worker" && value.size() == 1)
      o.worker = value[0];
    else
      throw std::invalid_argument("unknown option " + std::string(option) + "; see --help");
  }
  return o;
}

}  // namespace

int main(int argc, char** argv) try {
  const std::vector<std::string_view> words(argv + 1, argv + argc);
  if (!words.empty() && (words[0] == "--help" || words[0] == "-h")) {
    std::cout << help;
    return 0;
  }
  const demo::options o = parse(words);
  return o.worker != 0 ? demo::run_worker(o) : demo::run_supervisor(o);
} catch (const std::invalid_argument& misuse) {
  std::cerr << misuse.what() << '\n';
  return 2;
} catch (const std::exception& failed) {
  std::cerr
      << failed.what()
      << "\nIs a Consul agent running, and does CONSUL_HTTP_ADDR name it? scripts/demo starts one for the demo.\n";
  return 1;
}
