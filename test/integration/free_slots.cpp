// SPDX-FileCopyrightText: The holdfast authors
// SPDX-License-Identifier: BSL-1.0

// A slot may be free and look taken, because the session of its holder has ended or a key was deleted. A process that
// waits gets such a slot soon, because the node of the sessions has certainly existed all the time (guarantee G5, and
// the proofs of G1). A process without such a proof waits for a TTL. The TTL is long, so that a test tells the two apart.

#include <algorithm>
#include <boost/test/unit_test.hpp>
#include <holdfast/testing/proxy.hpp>
#include <memory>
#include <string>
#include <vector>

#include "protocol/record/lock_record.hpp"
#include "support/agent.hpp"
#include "support/async.hpp"
#include "support/participant.hpp"
#include "support/scripted_server.hpp"

namespace holdfast::test {
namespace {

constexpr std::chrono::milliseconds long_ttl = 60s;
/// A process that is notified needs far less, and one that waits for a lease or a session needs at least four times as
/// long.
constexpr std::chrono::milliseconds soon = long_ttl / 4;

semaphore_options long_lived(std::string prefix, std::uint32_t limit) {
  semaphore_options options = calm(std::move(prefix), limit);
  options.session_ttl = scaled(long_ttl);
  return options;
}

std::string id_in(const agent_reply& reply, std::string_view name) {
  const auto at = reply.body.find(name);
  return at == std::string::npos ? std::string() : reply.body.substr(reply.body.find('-', at) - 8, 36);
}

void destroy(const agent& a, const std::string& session) {
  BOOST_TEST(a.put("/v1/session/destroy/" + session).status == 200);
}

/// A session that has ended, of a process that nobody has seen.
std::string dead_session(const agent& a) {
  const std::string id = id_in(a.put("/v1/session/create", R"({"Checks":[],"LockDelay":"0s","TTL":"15s"})"), "ID");
  destroy(a, id);
  return id;
}

/// An agent with ACLs, on which requests without a token may do everything.
class secured_agent {
public:
  secured_agent()
      : agent_(agent_options{.extra_config = R"({"acl":{"enabled":true,"default_policy":"deny","tokens":{"master":")" +
                                             std::string(master) + R"(","default":")" + master + R"("}}})"}) {}

  /// A client whose token may use the keys and the sessions of these tests, and may read the sessions' node if
  /// `reads_node`.
  asio::awaitable<consul::client> client_of(asio::any_io_executor ex, bool reads_node) {
    const std::string name = reads_node ? "reads" : "does-not-read";
    const std::string node = reads_node ? R"( node \"holdfast-sessions\" { policy = \"read\" })" : "";
    const std::string policy = R"({"Name":")" + name + R"(","Rules":"key_prefix \"\" { policy = \"write\" } )" +
                               R"(session \"holdfast-sessions\" { policy = \"write\" })" + node + "\"}";
    // The agent refuses policies until it has left its legacy mode.
    co_await until("the agent takes policies", [&] { return agent_.put("/v1/acl/policy", policy).status == 200; });
    // The token may not register the node of the sessions.
    agent_.put("/v1/catalog/register", R"({"Node":"holdfast-sessions","Address":"127.0.0.1"})");
    consul::config settings;
    settings.address = agent_.address();
    settings.token = id_in(agent_.put("/v1/acl/token", R"({"Policies":[{"Name":")" + name + R"("}]})"), "SecretID");
    co_return consul::client(ex, settings);
  }
  const agent& server() const { return agent_; }

private:
  static constexpr auto master = "11111111-1111-1111-1111-111111111111";
  agent agent_;
};

/// Lets the participant's acquires hold what they get, until the test ends.
class takers {
public:
  takers(const asio::any_io_executor& ex, const std::string& address, semaphore_options options)
      : ex_(ex), one_(ex, address, std::move(options)) {}

  void acquire(std::size_t count) {
    for (std::size_t i = 0; i != count; ++i)
      waiting_.push_back(std::make_unique<pending<slot>>(ex_, one_.sem.acquire()));
  }
  std::size_t granted() const {
    return static_cast<std::size_t>(
        std::count_if(waiting_.begin(), waiting_.end(), [](const auto& each) { return each->ready(); }));
  }
  /// The slots that their users believe in.
  std::size_t held() const {
    return static_cast<std::size_t>(std::count_if(waiting_.begin(), waiting_.end(), [](const auto& each) {
      return each->ready() && each->value().held();
    }));
  }

private:
  asio::any_io_executor ex_;
  participant one_;
  std::vector<std::unique_ptr<pending<slot>>> waiting_;
};

}  // namespace
}  // namespace holdfast::test

using namespace holdfast;
using namespace holdfast::test;

BOOST_AUTO_TEST_SUITE(free_slots)

// --- A process that has ended its own session, because that was idle. It knows that the session was not lost.

ASYNC_TEST_CASE(who_has_ended_an_idle_session_waits_for_no_dead_holder, 120s) {
  secured_agent own;
  for (const bool reads_node : {true, false}) {
    consul::client client = co_await own.client_of(ex, reads_node);
    const std::string prefix = unique_prefix("idle");
    semaphore_options options = long_lived(prefix, 1);
    options.tuning.session_idle_timeout = 500ms;
    holdfast::semaphore sem(client, options);
    slot held = co_await sem.acquire();
    co_await held.release();
    co_await until("the idle session has ended", [&] { return sessions(own.server(), prefix).empty(); });
    const std::string names_the_dead = R"({"Limit":1,"Holders":{")" + dead_session(own.server()) + R"(":true}})";
    write_key(own.server(), prefix + "/.lock", names_the_dead, protocol::semaphore_flags);
    pending<slot> next(ex, sem.acquire());
    const bool in_time = co_await happens_within(soon, [&] { return next.ready(); });
    BOOST_TEST(in_time, "with the right to read the node: " << reads_node);
    if (in_time) let_go(next.take());
    co_await sem.close();
  }
}

ASYNC_TEST_CASE(an_idle_mutex_whose_key_is_deleted_is_free, 120s) {
  secured_agent own;
  for (const bool reads_node : {true, false}) {
    consul::client client = co_await own.client_of(ex, reads_node);
    mutex_options options = calm(unique_prefix("idle"));
    options.session_ttl = scaled(long_ttl);
    options.tuning.session_idle_timeout = 500ms;
    holdfast::mutex m(client, options);
    held_mutex held = co_await m.lock();
    co_await held.release();
    co_await until("the idle session has ended", [&] { return sessions(own.server(), options.key).empty(); });
    BOOST_TEST(own.server().del("/v1/kv/" + options.key).status == 200);
    held_mutex tried = co_await m.try_lock();
    BOOST_TEST(tried.held(), "with the right to read the node: " << reads_node);
    if (tried.held()) co_await tried.release();
    pending<held_mutex> next(ex, m.lock());
    const bool in_time = co_await happens_within(soon, [&] { return next.ready(); });
    BOOST_TEST(in_time, "with the right to read the node: " << reads_node);
    if (in_time) let_go(next.take());
    co_await m.close();
  }
}

// --- Holders whose sessions end while others wait

ASYNC_TEST_CASE(the_only_waiter_gets_the_slot_of_a_dead_holder_by_a_few_requests, 120s) {
  agent& a = shared_agent();
  const std::uint32_t limit = is_slow_build() ? 20 : 100;
  // A waiter watches its own entry first, and everything later.
  for (const auto waits : {100ms, 1500ms}) {
    const std::string prefix = unique_prefix("lone");
    takers holding(ex, a.address(), long_lived(prefix, limit));
    holding.acquire(limit);
    co_await until("all slots are held", [&] { return holding.granted() == limit; }, 60s);
    const testing::proxy before(a.address());
    takers waiting(ex, before.address(), long_lived(prefix, limit));
    waiting.acquire(1);
    co_await until("it waits", [&] { return contenders(a, prefix).size() == limit + 1; });
    co_await pause(waits);
    const auto requests = before.statistics().requests;
    destroy(a, holders(a, prefix).at(limit / 2));
    const bool in_time = co_await happens_within(soon, [&] { return waiting.held() == 1; });
    BOOST_TEST(in_time);
    // The answers of its watches, and the requests of its grant. If it read all entries one by one, it would send more.
    BOOST_TEST(before.statistics().requests - requests <= 10u);
    co_await until("the holder has noticed", [&] { return holding.held() == limit - 1; });
  }
}

/// More holders than one transaction can remove (guarantee G7).
ASYNC_TEST_CASE(all_waiters_get_the_slots_of_many_holders_that_die_at_once, 120s) {
  agent& a = shared_agent();
  const std::uint32_t limit = is_slow_build() ? 80 : 200, survivors = 10, processes = 4;
  const std::uint32_t dead = limit - survivors, each_waits = dead / processes;
  const std::string prefix = unique_prefix("many");
  takers holding(ex, a.address(), long_lived(prefix, limit));
  holding.acquire(limit);
  co_await until("all slots are held", [&] { return holding.granted() == limit; }, 60s);
  const std::vector<std::string> all = holders(a, prefix);
  std::vector<std::unique_ptr<takers>> waiting;
  for (std::uint32_t i = 0; i != processes; ++i) {
    waiting.push_back(std::make_unique<takers>(ex, a.address(), long_lived(prefix, limit)));
    waiting.back()->acquire(each_waits);
  }
  co_await until("each process waits", [&] { return contenders(a, prefix).size() >= limit + processes; });

  for (std::uint32_t i = 0; i != dead; ++i) destroy(a, all.at(i));
  const auto granted = [&] {
    std::size_t sum = 0;
    for (const auto& each : waiting) sum += each->held();
    return sum;
  };
  const bool in_time = co_await happens_within(soon, [&] { return granted() == each_waits * processes; });
  BOOST_TEST(in_time, granted() << " of " << each_waits * processes << " are granted");
  co_await until("the holders have noticed", [&] { return holding.held() == survivors; });
  co_await until("the record names those alone",
                 [&] { return holders(a, prefix).size() == survivors + each_waits * processes; });
  BOOST_TEST(holding.held() == survivors);
}

BOOST_AUTO_TEST_SUITE_END()
