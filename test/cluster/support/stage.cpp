// SPDX-FileCopyrightText: The holdfast authors
// SPDX-License-Identifier: BSL-1.0

#include "cluster/support/stage.hpp"

#include <algorithm>
#include <boost/json/array.hpp>
#include <boost/test/results_collector.hpp>
#include <boost/test/unit_test.hpp>
#include <cstdlib>
#include <exception>
#include <iostream>
#include <thread>

#include "cluster/support/timing.hpp"
#include "support/agent.hpp"
#include "support/figures.hpp"

namespace holdfast::test {
namespace {

namespace fs = std::filesystem;
using namespace std::chrono_literals;
using steady_clock = std::chrono::steady_clock;

/// Requests to frozen or killed agents may have to time out before a worker has released everything.
constexpr std::chrono::milliseconds ends_within = 15s;

fs::path new_log_file(const std::string& prefix) {
  std::string flat = prefix;
  std::replace(flat.begin(), flat.end(), '/', '-');
  return fs::temp_directory_path() / ("holdfast-" + flat + ".log");
}

/// The entries that concern one lock of a set, and those that concern whole processes.
std::vector<journal_entry> of_lock(std::vector<journal_entry> all, int lock) {
  std::erase_if(all, [lock](const journal_entry& each) { return each.slot != lock && each.slot != -1; });
  return all;
}

boost::json::object figures_of(const verdict& shown, std::uint32_t limit) {
  const auto in_seconds = [](protocol::duration time) { return std::chrono::duration<double>(time).count(); };
  boost::json::array waits;
  for (const longest_wait& each : shown.waits)
    waits.push_back({{"after", each.after}, {"seconds", in_seconds(each.length)}});
  return {{"limit", limit},
          {"believers", shown.believers_max},
          {"overlap", in_seconds(shown.overlap)},
          {"entered", shown.entered},
          {"lost", shown.lost},
          {"waits", waits}};
}

bool test_has_failed() {
  const auto id = boost::unit_test::framework::current_test_case_id();
  return !boost::unit_test::results_collector.results(id).passed();
}

}  // namespace

stage::stage(std::string name, std::uint32_t limit, int several, std::chrono::milliseconds bound)
    : name_(std::move(name)),
      limit_(limit),
      several_(several),
      bound_(bound),
      prefix_(unique_prefix(name_)),
      log_(new_log_file(prefix_)),
      exceptions_(std::uncaught_exceptions()) {}

stage::~stage() {
  const bool failed = std::uncaught_exceptions() > exceptions_ || test_has_failed();
  workers_.clear();
  try {
    if (failed) std::cerr << name_ << ": " << documented() << '\n';
  } catch (const std::exception& failure) {
    std::cerr << name_ << ": no picture: " << failure.what() << '\n';
  }
  std::error_code ignored;
  fs::remove(log_.path(), ignored);
}

std::string stage::documented() const {
  return document(entries(), "cluster-" + name_, name_ + ": who held what when, limit " + std::to_string(limit_));
}

void stage::start(const std::string& who, const worker_options& options) {
  process_options child;
  child.command = options.launcher;
  const auto in_ms = [](std::chrono::milliseconds time) { return std::to_string(time.count()); };
  child.command.insert(child.command.end(),
                       {sibling_program("cluster_worker"), "--agent=" + options.agent, "--prefix=" + prefix_,
                        "--limit=" + std::to_string(limit_), "--log=" + log_.path().string(), "--name=" + who,
                        "--ttl=" + in_ms(options.ttl), "--coroutines=" + std::to_string(options.coroutines),
                        "--hold=" + in_ms(options.hold), "--outage-grace=" + in_ms(options.outage_grace)});
  for (const std::string& store : options.stores) child.command.push_back("--store=" + store);
  if (!options.token.empty()) child.command.push_back("--token=" + options.token);
  if (!options.ca_file.empty()) child.command.push_back("--ca=" + options.ca_file);
  if (!options.server_name.empty()) child.command.push_back("--server-name=" + options.server_name);
  if (options.on_agents_node) child.command.push_back("--agents-node");
  if (options.mutex) child.command.push_back("--mutex");
  if (options.set) child.command.push_back("--set");
  if (options.election) child.command.push_back("--election");
  if (options.observer) {
    child.command.push_back("--observer");
    observers_.insert(who);
  }
  if (options.use_recorded_limit) child.command.push_back("--use-recorded-limit");
  if (options.numbered) child.command.push_back("--numbered");
  start(who, std::move(child));
}

void stage::start(const std::string& who, process_options options) {
  workers_[who] = std::make_unique<process>(std::move(options));
}

void stage::kill(const std::string& who) {
  workers_.erase(who);
  note(who, journal_event::gone);
}

std::vector<std::string> stage::names() const {
  std::vector<std::string> all;
  for (const auto& [name, each] : workers_)
    if (!observers_.contains(name)) all.push_back(name);
  return all;
}

void stage::note(const std::string& who, journal_event what, const std::string& words) {
  journal_entry entry;
  entry.at = journal_now();
  entry.who = who;
  entry.what = what;
  entry.slot = -1;
  entry.words = words;
  log_.write(entry);
}

stage::time_point stage::fault(const std::string& words, const std::vector<std::string>& away) {
  for (const std::string& each : away) note(each, journal_event::away, words);
  note("test", journal_event::fault, words);
  return journal_now();
}

stage::time_point stage::mended(const std::string& words, const std::vector<std::string>& back) {
  for (const std::string& each : back) note(each, journal_event::back, words);
  note("test", journal_event::mended, words);
  return journal_now();
}

void stage::until(const std::string& fact, std::chrono::milliseconds limit, const std::function<bool()>& holds) {
  const auto end = steady_clock::now() + limit;
  while (!holds()) {
    if (steady_clock::now() >= end) {
      for (const auto& [name, each] : workers_)
        if (!each->running()) std::cerr << name << " has ended:\n" << each->output();
      BOOST_FAIL(name_ << ": not within " << limit.count() << " ms: " << fact);
    }
    std::this_thread::sleep_for(20ms);
  }
}

void stage::until_entered(const std::vector<std::string>& who, time_point since, std::chrono::milliseconds limit,
                          std::size_t times) {
  std::string fact;
  for (const std::string& each : who) fact += each + ' ';
  until(fact + "each entered " + std::to_string(times) + " times", limit, [&] {
    std::map<std::string, std::size_t> entered;
    for (const journal_entry& each : entries())
      if (each.what == journal_event::enter && each.at >= since) ++entered[each.who];
    return std::all_of(who.begin(), who.end(), [&](const std::string& each) { return entered[each] >= times; });
  });
}

journal_entry stage::until_written(const std::string& fact, std::chrono::milliseconds limit,
                                   const std::function<bool(const journal_entry&)>& fits) {
  journal_entry written;
  until(fact, limit, [&] {
    const std::vector<journal_entry> all = entries();
    const auto found = std::find_if(all.begin(), all.end(), fits);
    if (found != all.end()) written = *found;
    return found != all.end();
  });
  return written;
}

void stage::end_workers() {
  for (const auto& [name, each] : workers_) each->signal(SIGTERM);
  for (const auto& [name, each] : workers_) {
    const auto status = each->wait(std::max(ends_within, bound_ / 2));
    BOOST_TEST(status.has_value(), name << " does not end");
    if (status) BOOST_TEST(status->success(), name << ": " << status->to_string() << '\n' << each->output());
  }
}

verdict stage::end() {
  end_workers();
  const std::vector<journal_entry> all = entries();
  verdict shown;
  for (int i = 0; i != several_; ++i) {
    verdict its = judge(several_ == 1 ? all : of_lock(all, i), limit_, bound_);
    BOOST_TEST(its.violation.empty(), name_ << ": " << its.violation << "; " << documented());
    BOOST_TEST(its.believers_max > 0, name_ << ": of lock " << i << " there is nothing to judge");
    if (i == 0 || its.believers_max > shown.believers_max || its.longest().length > shown.longest().length)
      shown = std::move(its);  // the worst
  }
  std::cout << name_ << ": " << shown.summary() << std::endl;
  print_figures(figures_of(shown, limit_));
  if (std::getenv("HOLDFAST_PICTURES") && !test_has_failed()) std::cout << name_ << ": " << documented() << std::endl;
  return shown;
}

verdict stage::end_as_it_may() {
  const std::vector<journal_entry> seen = entries();
  for (const auto& [name, each] : workers_) each->terminate();
  const verdict shown = judge(seen, limit_, bound_);
  std::cout << name_ << ": " << shown.summary()
            << "\n  the referee says: " << (shown.violation.empty() ? "nothing" : shown.violation) << std::endl;
  print_figures(figures_of(shown, limit_));
  if (std::getenv("HOLDFAST_PICTURES")) std::cout << name_ << ": " << documented() << std::endl;
  return shown;
}

}  // namespace holdfast::test
