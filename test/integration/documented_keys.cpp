// SPDX-FileCopyrightText: The holdfast authors
// SPDX-License-Identifier: BSL-1.0

// Each page in doc/ has a block "```keys" with the keys of its primitive in Consul. These tests produce the same keys.
// Sessions are named A, B and so on, a stamp stands for any ten digits, and a space replaces a line's end.

#include <algorithm>
#include <boost/test/unit_test.hpp>
#include <filesystem>
#include <fstream>
#include <iomanip>
#include <regex>
#include <set>
#include <sstream>
#include <string>
#include <vector>

#include "support/agent.hpp"
#include "support/async.hpp"
#include "support/participant.hpp"
#include "support/scripted_server.hpp"

namespace holdfast::test {
namespace {

/// Returns the block in doc/reference/<page> below this heading.
std::string documented(const std::string& page, const std::string& heading = {}) {
  const std::filesystem::path root = std::filesystem::path(__FILE__).parent_path() / "../..";
  std::ifstream file(root / "doc/reference" / page);
  std::stringstream text;
  text << file.rdbuf();
  const std::string all = text.str();
  const std::string fence = "```keys\n";
  const std::size_t begin = all.find(fence, all.find(heading));
  BOOST_REQUIRE_MESSAGE(begin != std::string::npos, "doc/reference/" << page << " shows no keys");
  return all.substr(begin + fence.size(), all.find("```", begin + fence.size()) - begin - fence.size());
}

/// Returns the entries as the pages write them: key, flags, session and value.
std::string standing(const std::vector<consul::kv_entry>& entries, const std::string& prefix, const std::string& shown,
                     const std::vector<std::string>& sessions, int width = 18) {
  const auto plain = [&](std::string text) {
    for (std::size_t i = 0; i != sessions.size(); ++i)
      text = std::regex_replace(text, std::regex(sessions[i]), std::string(1, static_cast<char>('A' + i)));
    text = std::regex_replace(text, std::regex("\n@[0-9]{10}\\+[0-9]+-[0-9]+"), " @1763752382+15000-1500");
    std::replace(text.begin(), text.end(), '\n', ' ');
    return text;
  };
  std::set<std::string> lines;
  for (const consul::kv_entry& entry : entries) {
    std::ostringstream line;
    line << std::left << std::setw(width) << plain(shown + entry.key.substr(prefix.size())) << std::setw(22)
         << entry.flags << std::setw(3) << (entry.session.empty() ? "-" : plain(entry.session)) << plain(entry.value)
         << '\n';
    lines.insert(line.str());
  }
  std::string all;
  for (const std::string& line : lines) all += line;
  return all;
}

}  // namespace
}  // namespace holdfast::test

using namespace holdfast;
using namespace holdfast::test;

BOOST_AUTO_TEST_SUITE(documented_keys)

ASYNC_TEST_CASE(of_a_semaphore, 30s) {
  agent& a = shared_agent();
  const std::string prefix = unique_prefix("documented");
  semaphore_options mine = calm(prefix, 1), others = mine;
  mine.description = "worker-1";
  others.description = "worker-2";
  participant holder(ex, a, mine), waiter(ex, a, others);
  slot held = co_await holder.sem.acquire();
  pending<slot> waiting(ex, waiter.sem.acquire());
  co_await until("it waits", [&] { return contenders(a, prefix).size() == 2; });
  const auto entries = co_await holder.client.list(prefix + "/");
  BOOST_TEST(standing(entries.value, prefix, "service/db", contenders(a, prefix)) == documented("semaphore.md"));
}

ASYNC_TEST_CASE(of_numbered_slots, 30s) {
  agent& a = shared_agent();
  const std::string prefix = unique_prefix("documented-numbers");
  semaphore_options options = calm(prefix, 1);
  options.numbered = true;
  options.description = "worker-1";
  participant holder(ex, a, options);
  slot held = co_await holder.sem.acquire();
  const auto entries = co_await holder.client.list(prefix + "/");
  BOOST_TEST(standing(entries.value, prefix, "service/db", contenders(a, prefix), 20) ==
             documented("semaphore.md", "## Numbered slots"));
}

ASYNC_TEST_CASE(of_a_mutex, 30s) {
  agent& a = shared_agent();
  const std::string key = unique_prefix("documented-mutex");
  mutex_options mine = calm(key), others = mine;
  mine.description = "worker-1";
  others.description = "worker-2";
  locker holder(ex, a, mine), waiter(ex, a, others);
  slot held = co_await holder.mutex.lock();
  pending<slot> waiting(ex, waiter.mutex.lock());
  co_await until("it waits", [&] { return contenders(a, key).size() == 2; });
  const auto entries = co_await holder.client.list(key);
  BOOST_TEST(standing(entries.value, key, "service/leader", contenders(a, key)) == documented("mutex.md"));
}

ASYNC_TEST_CASE(of_a_mutex_set, 30s) {
  agent& a = shared_agent();
  const std::string prefix = unique_prefix("documented-set");
  mutex_set_options options = calm_set(prefix);
  options.description = "worker-1";
  set_user worker(ex, a, options);
  slot first = co_await worker.set.try_lock("task-1");
  slot second = co_await worker.set.try_lock("task-2");
  const auto entries = co_await worker.client.list(prefix + "/");
  BOOST_TEST(standing(entries.value, prefix, "jobs", sessions(a, prefix)) == documented("mutex_set.md"));
}

ASYNC_TEST_CASE(of_an_election, 30s) {
  agent& a = shared_agent();
  election_options options;
  options.key = unique_prefix("documented-election");
  locker client(ex, a, calm(unique_prefix("only-its-client")));
  election first(client.client, options), second(client.client, options);
  leadership leader = co_await first.campaign("node-1:8080");
  pending<leadership> standby(ex, second.campaign("node-2:8080"));
  co_await until("it stands", [&] { return contenders(a, options.key).size() == 2; });
  const auto entries = co_await client.client.list(options.key);
  BOOST_TEST(standing(entries.value, options.key, "service/leader", contenders(a, options.key)) ==
             documented("election.md"));
}

ASYNC_TEST_CASE(of_orders, 30s) {
  agent& a = shared_agent();
  const std::string prefix = unique_prefix("documented-orders");
  semaphore_options options = calm(prefix, 2);
  options.description = "worker-1";
  participant holder(ex, a, options);
  slot held = co_await holder.sem.acquire();
  semaphore_administration admin(holder.client, {.prefix = prefix});
  co_await admin.close();
  co_await admin.revoke(contenders(a, prefix).at(0));
  const auto entries = co_await holder.client.list(prefix + "/");
  BOOST_TEST(standing(entries.value, prefix, "service/db", contenders(a, prefix)) == documented("administration.md"));
}

BOOST_AUTO_TEST_SUITE_END()
