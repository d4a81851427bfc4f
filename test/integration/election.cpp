// SPDX-FileCopyrightText: The holdfast authors
// SPDX-License-Identifier: BSL-1.0

// Leader election as its users see it, on a real agent.

#include <unistd.h>

#include <boost/asio/bind_cancellation_slot.hpp>
#include <boost/asio/bind_executor.hpp>
#include <boost/asio/cancellation_signal.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/strand.hpp>
#include <boost/json/parse.hpp>
#include <boost/json/value.hpp>
#include <boost/test/unit_test.hpp>
#include <holdfast/testing/server.hpp>
#include <string>

#include "protocol/record/lock_record.hpp"
#include "support/agent.hpp"
#include "support/async.hpp"
#include "support/participant.hpp"
#include "support/scripted_server.hpp"

namespace holdfast::test {
namespace {

election_options for_key(std::string key, std::chrono::milliseconds ttl = 10s) {
  election_options options;
  options.key = std::move(key);
  options.session_ttl = scaled(ttl);
  return options;
}

consul::config at(const std::string& address) {
  consul::config config;
  config.address = address;
  return config;
}

/// A candidate like one of another process, with a client of its own.
struct candidate {
  candidate(const asio::any_io_executor& ex, const agent& a, election_options options)
      : client(ex, at(a.address())), election(client, std::move(options)) {}
  candidate(const asio::any_io_executor& ex, const agent& a, const std::string& key) : candidate(ex, a, for_key(key)) {}
  consul::client client;
  holdfast::election election;
};

using campaigning = pending<leadership>;

asio::awaitable<consul::kv_entry> read(candidate& c) {
  auto answer = co_await c.client.get(c.election.key());
  co_return answer.value.value_or(consul::kv_entry());
}

/// Reads from the observer until `holds` is true, and returns what it reported then.
template <class Holds>
asio::awaitable<std::optional<leader>> watch_until(election_observer& observer, Holds holds) {
  for (;;) {
    const std::optional<leader> seen = co_await observer.next();
    if (holds(seen)) co_return seen;
  }
}

/// An executor of a handler. It counts what arrives there, and runs nothing before the context runs.
class waiting_room {
public:
  waiting_room(asio::io_context& context, int& arrived) : context_(&context), arrived_(&arrived) {}
  asio::execution_context& query(asio::execution::context_t) const noexcept { return *context_; }
  template <class Function>
  void execute(Function&& f) const {
    ++*arrived_;
    asio::post(*context_, std::forward<Function>(f));
  }
  bool operator==(const waiting_room&) const noexcept = default;

private:
  asio::io_context* context_;
  int* arrived_;
};

auto leads(std::string value) {
  return [value = std::move(value)](const std::optional<leader>& seen) { return seen && seen->value == value; };
}

/// A client that follows the guide: `consul kv put -acquire -session=ID KEY VALUE`.
struct follower_of_the_guide {
  explicit follower_of_the_guide(agent& through)
      : a(through),
        session(boost::json::parse(a.put("/v1/session/create", R"({"LockDelay":"0s","Behavior":"release"})").body)
                    .at("ID")
                    .as_string()) {}
  ~follower_of_the_guide() { a.put("/v1/session/destroy/" + session); }
  bool acquire(const std::string& key, const std::string& value) const {
    return a.put("/v1/kv/" + key + "?acquire=" + session, value).body.starts_with("true");
  }
  bool release(const std::string& key, const std::string& value) const {
    return a.put("/v1/kv/" + key + "?release=" + session, value).body.starts_with("true");
  }
  agent& a;
  std::string session;
};

}  // namespace
}  // namespace holdfast::test

using namespace holdfast;
using namespace holdfast::test;

BOOST_AUTO_TEST_SUITE(election)

ASYNC_TEST_CASE(who_is_elected_has_its_value_in_the_key, 30s) {
  agent& a = shared_agent();
  candidate c(ex, a, unique_prefix("elected") + "/leader");
  election_observer observer(c.client, c.election.key());
  const std::optional<leader> before = co_await observer.next();
  BOOST_TEST(!before);
  leadership won = co_await c.election.campaign("10.0.0.1:80");
  BOOST_TEST(won.held());
  const consul::kv_entry key = co_await read(c);
  BOOST_TEST(key.value == "10.0.0.1:80");
  BOOST_TEST(key.flags == protocol::mutex_flags);
  const std::optional<leader> seen = co_await observer.next();
  BOOST_REQUIRE(seen);
  BOOST_TEST(seen->value == "10.0.0.1:80");
  BOOST_TEST(seen->index == won.fencing_token().grant);
  const sequencer mine = co_await sequencer_of(won);
  BOOST_TEST((seen->term == mine));
  bool lasts = co_await verify(c.client, seen->term);
  BOOST_TEST(lasts);
  co_await won.resign();
  const std::optional<leader> after = co_await observer.next();
  BOOST_TEST(!after);
  lasts = co_await verify(c.client, seen->term);
  BOOST_TEST(!lasts);
  const consul::kv_entry left = co_await read(c);
  BOOST_TEST(left.value == "10.0.0.1:80");  // it says who led last: there is nobody in the key any more
  BOOST_TEST(left.session == "");
  // No session is kept for a later campaign, as a mutex would keep one for 10 s.
  co_await until(
      "nothing is left", [&] { return contenders(a, key.key).empty() && sessions(a, key.key).empty(); }, 5s);
}

ASYNC_TEST_CASE(each_campaign_has_its_own_value, 30s) {
  candidate c(ex, shared_agent(), unique_prefix("values"));
  leadership first = co_await c.election.campaign("first");
  co_await first.resign();
  leadership second = co_await c.election.campaign("second");
  const consul::kv_entry key = co_await read(c);
  BOOST_TEST(key.value == "second");
  BOOST_TEST((second.fencing_token() > first.fencing_token()));
  co_await second.resign();
  leadership unnamed = co_await c.election.campaign();
  const consul::kv_entry named = co_await read(c);
  BOOST_TEST(named.value.ends_with(":" + std::to_string(::getpid())));
  co_await unnamed.resign();
}

ASYNC_TEST_CASE(campaigns_of_one_election_are_candidates_of_their_own, 30s) {
  candidate c(ex, shared_agent(), unique_prefix("two"));
  election_observer observer = c.election.observe();
  leadership first = co_await c.election.campaign("first");
  campaigning second(ex, c.election.campaign("second"));
  co_await until("it stands", [&] { return contenders(shared_agent(), c.election.key()).size() == 2; });
  BOOST_TEST(!second.ready());
  co_await watch_until(observer, leads("first"));
  co_await first.resign();
  const error_code ec = co_await second.wait();
  BOOST_TEST(!ec);
  co_await watch_until(observer, leads("second"));
  leadership won = second.take();
  c.election = holdfast::election();  // a term goes on without the handle
  co_await won.proclaim("still");
  co_await watch_until(observer, leads("still"));
  BOOST_TEST(won.held());
  co_await won.resign();
}

ASYNC_TEST_CASE(a_proclaimed_value_stays_and_the_term_goes_on, 30s) {
  candidate c(ex, shared_agent(), unique_prefix("proclaim"));
  election_observer observer = c.election.observe();
  leadership won = co_await c.election.campaign("draining: no");
  const std::optional<leader> before = co_await watch_until(observer, leads("draining: no"));
  const fencing_token token = won.fencing_token();
  co_await won.proclaim("draining: yes");
  const std::optional<leader> after = co_await observer.next();
  BOOST_REQUIRE(after);
  BOOST_TEST(after->value == "draining: yes");
  BOOST_TEST((after->term == before->term));  // a sequencer that was handed out before is good still
  BOOST_TEST(after->index > before->index);
  BOOST_TEST((won.fencing_token() == token));
  co_await c.client.transact(won.fence_checks());
  co_await won.proclaim("leaving");
  BOOST_TEST(won.held());
  co_await won.resign();
  const consul::kv_entry left = co_await read(c);
  BOOST_TEST(left.value == "leaving");
  BOOST_TEST(left.session == "");
  auto [ec] = co_await won.proclaim("too late", as_result);
  BOOST_TEST(ec == error::not_held);
  auto [empty] = co_await leadership().proclaim("nobody", as_result);
  BOOST_TEST(empty == error::not_held);
}

/// The same happens if it comes second in a user's `||`, which drops its result.
ASYNC_TEST_CASE(what_is_cancelled_on_its_way_to_the_handler_is_told_by_the_next_call, 30s) {
  testing::server fake;
  consul::client client(ex, fake.client_config());
  election_observer observer(client, "leader");
  asio::io_context elsewhere;
  asio::cancellation_signal stop;
  error_code ec;
  int arrived = 0;
  bool called = false;
  auto handler = [&](error_code result, const std::optional<leader>&) {
    ec = result;
    called = true;
  };
  observer.next(asio::bind_executor(waiting_room(elsewhere, arrived),
                                    asio::bind_cancellation_slot(stop.slot(), std::move(handler))));
  co_await until("it is on its way", [&] { return arrived != 0; });
  diagnostics why;
  const operation_options with_why{&why};
  auto [busy, nothing] = co_await observer.next(with_why, as_result);
  BOOST_TEST(busy == error::too_many_waiters);
  BOOST_TEST(why.key == "leader");
  BOOST_TEST(!why.message.empty());
  stop.emit(asio::cancellation_type::total);
  elsewhere.run();
  BOOST_TEST(called);
  BOOST_TEST(ec == asio::error::operation_aborted);
  const std::optional<leader> first = co_await observer.next();
  BOOST_TEST(!first);
}

BOOST_AUTO_TEST_CASE(handles_may_outlive_their_context) {
  holdfast::election candidate;
  election_observer observer;
  consul::client client;
  {
    asio::io_context io;
    client = consul::client(asio::any_io_executor(asio::make_strand(io)), at("127.0.1.1:1"));
    candidate = holdfast::election(client, for_key("leader"));
    observer = candidate.observe();
    BOOST_TEST(bool(candidate.get_executor()));
    BOOST_TEST(bool(observer.get_executor()));
  }
  BOOST_TEST(!candidate.get_executor());
  BOOST_TEST(!observer.get_executor());
  bool called = false;
  candidate.campaign("me", [&](error_code, const leadership&) { called = true; });
  observer.next([&](error_code, const std::optional<leader>&) { called = true; });
  verify(client, {"leader", 1, "session"}, [&](error_code, bool) { called = true; });
  BOOST_TEST(!called);
}

ASYNC_TEST_CASE(who_follows_the_guide_by_hand_takes_part, 30s) {
  agent& a = shared_agent();
  candidate c(ex, a, unique_prefix("guide"));
  const std::string& key = c.election.key();
  const follower_of_the_guide by_hand(a);
  BOOST_TEST(by_hand.acquire(key, "by hand"));
  election_observer observer = c.election.observe();
  const std::optional<leader> first = co_await observer.next();
  BOOST_REQUIRE(first);
  BOOST_TEST(first->value == "by hand");
  BOOST_TEST(first->term.session == by_hand.session);
  campaigning standby(ex, c.election.campaign("ours"));
  co_await until("it stands", [&] { return contenders(a, key).size() == 1; });
  BOOST_TEST(!standby.ready());
  BOOST_TEST(by_hand.release(key, "by hand"));
  const error_code ec = co_await standby.wait();
  BOOST_TEST(!ec);
  co_await watch_until(observer, leads("ours"));
  leadership won = standby.take();
  BOOST_TEST(!by_hand.acquire(key, "again"));
  co_await won.proclaim("ours still");
  const consul::kv_entry now = co_await read(c);
  BOOST_TEST(now.flags == 0u);  // as it was found
  BOOST_TEST(now.value == "ours still");
  co_await won.resign();
  BOOST_TEST(by_hand.acquire(key, "again"));
  co_await watch_until(observer, leads("again"));
}

ASYNC_TEST_CASE(with_leadership_cancels_the_body_of_a_deposed_leader, 30s) {
  agent& a = shared_agent();
  candidate c(ex, a, unique_prefix("body"));
  bool proclaimed = false, went_on = false;
  auto body = [&](leadership& mine) -> asio::awaitable<void> {
    co_await mine.proclaim("at work");
    proclaimed = true;
    const std::optional<leader> seen = co_await c.election.observe().next();
    a.put("/v1/session/destroy/" + seen->term.session);
    co_await pause(20s);
    went_on = true;
  };
  error_code why;
  try {
    co_await with_leadership(c.election, "elected", body);
  } catch (const system_error& e) {
    why = e.code();
  }
  BOOST_TEST(why == error::slot_lost);
  BOOST_TEST(proclaimed);
  BOOST_TEST(!went_on);
}

ASYNC_TEST_CASE(values_that_cannot_be_are_refused, 30s) {
  candidate c(ex, shared_agent(), unique_prefix("refused"));
  for (const std::string& value : {std::string(1025, 'x'), std::string("a\n{\"Limit\":1}"), std::string("a\n@12")}) {
    diagnostics words;
    const operation_options with_words{&words};
    auto [ec, none] = co_await c.election.campaign(value, with_words, as_result);
    BOOST_TEST(ec == error::invalid_option);
    BOOST_TEST(words.message.find("value: ") != std::string::npos);
  }
  leadership won = co_await c.election.campaign(std::string(1024, 'x'));
  auto [ec] = co_await won.proclaim(std::string(1025, 'x'), as_result);
  BOOST_TEST(ec == error::invalid_option);
  BOOST_TEST(won.held());
  co_await won.resign();
}

BOOST_AUTO_TEST_SUITE_END()
