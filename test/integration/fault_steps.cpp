// SPDX-FileCopyrightText: The holdfast authors
// SPDX-License-Identifier: BSL-1.0

// Every fault at every step of a slot's life. One participant meets faults on its own network path. A rival whose path
// works shows that the limit holds, and that the slot comes back after a failure.

#include <algorithm>
#include <array>
#include <boost/algorithm/string/join.hpp>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/detached.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/test/unit_test.hpp>
#include <holdfast/testing/proxy.hpp>
#include <iomanip>
#include <iostream>
#include <map>
#include <memory>
#include <set>
#include <sstream>

#include "support/agent.hpp"
#include "support/async.hpp"
#include "support/participant.hpp"

namespace holdfast::test {
namespace {

using testing::fault;
using testing::fault_plan;
using testing::fault_rule;

constexpr auto ttl = 600ms;
constexpr auto hold_time = 700ms;  // long enough for some renewals
constexpr int at_a_time = 12;      // stories: more would keep each other from their renewals
constexpr auto slow = 50ms;        // well within every deadline

struct named_fault {
  std::string_view name;
  fault what;
};
const named_fault faults[] = {
    {"delay", fault::delay(slow)},
    {"drop request", fault::drop_request()},
    {"drop reply", fault::drop_reply()},
    {"cut reply", fault::cut_reply()},
    {"duplicate", fault::duplicate()},
    {"500", fault::answer(500, "rpc error making call: EOF")},
    {"500, applied", fault::answer_applied(500, "rpc error making call: EOF")},
    {"429", fault::too_many_requests()},
    {"403", fault::forbidden()},
    {"no leader", fault::no_leader()},
    {"refused", fault::refuse_connections(2)},
    {"freeze", fault::freeze()},
    {"index reset", fault::index_reset()},
    {"expired", fault::expire_session()},
    {"trickle", fault::trickle(1ms)},
};

/// Says why a kind is not in that table. Empty if it is. The switch has no default, so that a new kind is not
/// forgotten.
std::string_view why_left_out(fault::kind kind) {
  switch (kind) {
    case fault::kind::none:
      return "nothing goes wrong";
    case fault::kind::repeat_later:
      return "its copies come when they like: test/unit and test/sim have them";
    case fault::kind::other_key:
      return "integration.contradictions is about it";
    case fault::kind::interim:
      return "the client reads on, which test/unit shows: no step could tell";
    case fault::kind::delay:
    case fault::kind::drop_request:
    case fault::kind::drop_reply:
    case fault::kind::cut_reply:
    case fault::kind::duplicate:
    case fault::kind::answer:
    case fault::kind::answer_applied:
    case fault::kind::refuse_connections:
    case fault::kind::freeze:
    case fault::kind::index_reset:
    case fault::kind::expire_session:
    case fault::kind::trickle:
      return {};
  }
  return {};
}

// The part of the rival.
enum class rival { none, holds_first, dies_holding, waits };

struct step {
  std::string_view name;
  std::string_view target;  // of the request that meets the fault
  std::string_view body;
  std::size_t skip;
  rival company;
};
constexpr step steps[] = {
    {"look", "?recurse", "", 0, rival::none},
    {"session", "/v1/session/create", "", 0, rival::none},
    {"join+grant", "/v1/txn", "\"lock\"", 0, rival::none},
    {"join", "/v1/txn", "\"lock\"", 0, rival::holds_first},
    {"wait", "index=", "", 0, rival::holds_first},
    {"wait again", "index=", "", 1, rival::holds_first},
    {"grant", "/v1/txn", "\"cas\"", 0, rival::dies_holding},
    {"hold", "index=", "", 0, rival::none},
    {"hold, wanted", "index=", "", 0, rival::waits},
    {"renew", "/v1/session/renew/", "", 0, rival::none},
    {"renew again", "/v1/session/renew/", "", 1, rival::none},
    {"release", "/v1/txn", "\"cas\"", 1, rival::none},
    {"hand over", "/v1/txn", "\"cas\"", 1, rival::waits},
    {"leave", "/v1/session/destroy/", "", 0, rival::none},
};

// One fault at one step.
struct story {
  story(asio::any_io_executor ex, agent& consul, const named_fault& f, const step& s)
      : with(f), at(s), prefix(unique_prefix("step")), path(ex, consul.address()), done(ex, forever) {}

  static constexpr auto forever = asio::steady_timer::time_point::max();
  const named_fault& with;
  const step& at;
  const std::string prefix;
  testing::proxy path;
  asio::steady_timer done;  // cancelled when the participant is through
  crowd inside;
  bool over = false;
  std::chrono::nanoseconds late{0};  // the largest delay of a timer of 10 ms, which shows how busy the machine is

  std::string outcome;  // one or two letters for the table
  std::string end;      // "slot", "lost: " and the reason, or "error: " and its text
  std::string trouble;  // empty if nothing is wrong
};

semaphore_options quick(const std::string& prefix) {
  semaphore_options options = hasty(prefix, 1, ttl);
  options.tuning.outage_grace = 0ms;
  options.tuning.give_up_after = scaled(3s);
  return options;
}

// Reading from the agent blocks this thread, so this is not done often.
asio::awaitable<bool> comes_true(std::chrono::milliseconds limit, std::function<bool()> holds) {
  const auto end = std::chrono::steady_clock::now() + scaled(limit);
  while (!holds()) {
    if (std::chrono::steady_clock::now() >= end) co_return false;
    co_await pause(25ms);
  }
  co_return true;
}

bool is_typed(const error_code& ec) { return ec.category() == error_category() && ec.message() != "unknown"; }

void note(story& s, const std::string& what) { s.trouble += (s.trouble.empty() ? "" : "; ") + what; }

// The participant under test: acquires, holds for a while, releases, closes.
asio::awaitable<void> live(story& s) {
  const asio::any_io_executor ex = co_await asio::this_coro::executor;
  participant p(ex, s.path.address(), quick(s.prefix));
  s.path.set_faults(fault_plan(
      {{.what = s.with.what, .target = std::string(s.at.target), .body = std::string(s.at.body), .skip = s.at.skip}}));
  auto [denied, held] = co_await p.sem.try_acquire_for(scaled(4s), as_result);
  if (denied) {
    s.outcome = "E";
    s.end = "error: " + denied.message();
    if (!is_typed(denied)) note(s, "an untyped error: " + denied.message());
  } else if (!held.valid()) {
    s.outcome = "T";
    s.end = "timed out";
  } else {
    s.inside.enter();
    if (s.inside.now() > 1) note(s, "two hold one slot");
    asio::steady_timer enough(ex, scaled(hold_time));  // as the TTL is
    loss_reason lost = loss_reason::none;
    held.wait_lost([&enough, &lost](error_code ec, loss_reason reason) {
      if (!ec) lost = reason;
      enough.cancel();
    });
    co_await enough.async_wait(as_result);
    s.inside.leave();  // no later than it knows
    s.outcome = lost == loss_reason::none ? "S" : "L";
    s.end = lost == loss_reason::none ? "slot" : "lost: " + std::string(to_string(lost));
    if (held.held() != (lost == loss_reason::none)) note(s, "held() and wait_lost() disagree");
    auto [ec] = co_await held.release(as_result);
    if (ec && !is_typed(ec)) note(s, "release: an untyped error: " + ec.message());
    if (lost != loss_reason::none && !ec) note(s, "a lost slot was released without an error");
    if (ec && lost == loss_reason::none) s.outcome += "e";
  }
  auto [ec] = co_await p.sem.close(as_result);
  if (ec && !is_typed(ec)) note(s, "close: an untyped error: " + ec.message());
  if (ec) s.outcome += "c";
  if (p.sem.statistics().held != 0 || p.sem.statistics().waiting != 0) note(s, "closed, but it holds or waits");
  s.path.thaw();  // what was held back is applied now, though nobody waits for it any more
}

/// Returns the ends that are right for this fault at this step. A time-out is never right.
std::set<std::string> right_ends(const story& s) {
  const auto at = [&s](auto... steps) { return ((s.at.name == steps) || ...); };
  const auto with = [&s](auto... faults) { return ((s.with.name == faults) || ...); };
  const std::string watch_failed = "lost: watch_failed", session_gone = "lost: session_invalidated";
  const std::string refused = "error: " + make_error_code(error::permission_denied).message();

  // Only a definite refusal keeps a participant from the slot for good, and only while it does not hold it yet. After
  // the first wait, or if the rival has died, the refused request may already be the holder's.
  if (with("403") && at("look", "session", "join+grant", "join", "wait")) return {refused};
  if (with("403") && at("grant")) return {refused, "slot"};
  if (with("403") && at("wait again")) return {refused, "slot", watch_failed};

  // Without `outage_grace`, every failure of a holder's watch is a loss. A waiter's watch is asked again.
  const bool fails = !with("delay", "duplicate", "index reset", "expired", "trickle", "freeze");
  const bool fails_when_answered = with("drop reply", "cut reply", "500, applied");
  if (fails && at("hold", "hold, wanted")) return {watch_failed};
  // The lost answer says that the slot is free or granted. It may be needed no more, or the watch may already be the
  // holder's. The second watch belongs to the waiter or to the holder. A frozen watch ends when its own time is over,
  // and that may be while the participant holds.
  if (fails_when_answered && at("wait")) return {"slot", watch_failed};
  if (fails && at("wait again")) return {"slot", watch_failed};
  if (with("freeze") && at("wait", "wait again", "hold", "hold, wanted")) return {"slot", watch_failed};
  // Each of hundreds of bytes waits for a timer, which takes longer on a busy machine. So the deadline may come first.
  if (with("trickle") && at("wait", "wait again", "hold", "hold, wanted")) return {"slot", watch_failed};
  if (with("refused") && at("grant")) return {"slot", watch_failed};  // a watch begun then may be refused, too

  // The session has ended. If its grant is pending, the grant or the watch shows that.
  if (with("expired") && at("renew", "renew again")) return {session_gone};
  if (with("expired") && at("grant")) return {"slot", session_gone};

  // A failed renewal is repeated before the lease is over, unless the machine was too busy.
  if (s.late > slow && at("renew", "renew again")) return {"slot", "lost: lease_expired"};
  // The same holds for any fault if the whole process stood still for as long as a renewal takes.
  if (s.late > scaled(ttl) / 3) return {"slot", "lost: lease_expired"};
  return {"slot"};
}

// The rival, which must get the slot in the end.
asio::awaitable<void> rival_waits(story& s, agent& consul) {
  const asio::any_io_executor ex = co_await asio::this_coro::executor;
  participant p(ex, consul, quick(s.prefix));
  // The rival must not get the slot while the participant under test believes in it.
  auto [ec, held] = co_await p.sem.acquire(as_result);
  if (ec) {
    note(s, "the rival failed: " + ec.message());
  } else {
    s.inside.enter();
    if (s.inside.now() > 1) note(s, "two hold one slot");
    s.inside.leave();
  }
  co_await p.sem.close(as_result);
}

asio::awaitable<void> rival_holds(story& s, agent& consul, asio::steady_timer& holds) {
  const asio::any_io_executor ex = co_await asio::this_coro::executor;
  participant p(ex, consul, quick(s.prefix));
  auto [ec, held] = co_await p.sem.acquire(as_result);
  if (ec) note(s, "the rival failed: " + ec.message());
  s.inside.enter();
  holds.cancel();
  co_await comes_true(3s, [&] { return contenders(consul, s.prefix).size() == 2 || s.over; });
  co_await pause(scaled(100ms));  // for the first watches
  s.inside.leave();
  if (s.at.company == rival::dies_holding) {
    consul.put("/v1/session/destroy/" + holders(consul, s.prefix).at(0));
  } else {
    co_await held.release(as_result);
  }
  co_await p.sem.close(as_result);
}

asio::awaitable<void> measure_delays(story& s) {
  while (!s.over) {
    const auto before = std::chrono::steady_clock::now();
    co_await pause(10ms);
    s.late = std::max<std::chrono::nanoseconds>(s.late, std::chrono::steady_clock::now() - before - 10ms);
  }
}

asio::awaitable<void> tell(story& s, agent& consul) {
  const asio::any_io_executor ex = co_await asio::this_coro::executor;
  companions others(ex);
  const bool first = s.at.company == rival::holds_first || s.at.company == rival::dies_holding;
  if (first) {
    asio::steady_timer holds(ex, story::forever);
    others.start(rival_holds(s, consul, holds));
    co_await holds.async_wait(as_result);
  }
  companions one(ex);
  one.start(live(s));
  others.start(measure_delays(s));
  if (s.at.company == rival::waits) {
    co_await comes_true(2s, [&] { return s.inside.now() == 1 || one.running() == 0; });
    others.start(rival_waits(s, consul));
  }
  co_await one.join();
  s.over = true;
  co_await others.join();
  // The next process gets the slot, and then nothing is left: no entry, no holder and no session. Only sessions whose
  // creation or end was lost stay until their TTL ends them.
  participant next(ex, consul, quick(s.prefix));
  auto [ec, held] = co_await next.sem.try_acquire_for(scaled(4s), as_result);
  if (ec || !held.held()) note(s, "the next did not get the slot: " + (ec ? ec.message() : "in time"));
  co_await held.release(as_result);
  co_await next.sem.close(as_result);
  const bool clean = co_await comes_true(4 * ttl, [&] { return is_clean(consul, s.prefix); });
  if (!clean) note(s, "left in Consul: " + listing(consul, s.prefix));
}

asio::awaitable<void> tell_some(std::vector<std::unique_ptr<story>>& stories, std::size_t& next, agent& consul) {
  while (next < stories.size()) co_await tell(*stories[next++], consul);
}

void print(const std::vector<std::unique_ptr<story>>& stories) {
  std::ostringstream table;
  table << std::left << std::setw(14) << "";
  for (const step& s : steps) table << ' ' << std::setw(13) << s.name;
  for (const named_fault& f : faults) {
    table << '\n' << std::setw(14) << f.name;
    for (const step& s : steps)
      for (const auto& each : stories)
        if (&each->with == &f && &each->at == &s)
          table << ' ' << std::setw(13)
                << each->outcome + (each->path.statistics().faults == 0 ? " (not met)" : "") +
                       (each->trouble.empty() ? "" : " !");
  }
  std::cout << table.str() << "\nS slot, L lost, E error, T timed out, e release failed, c close failed\n";
}

}  // namespace
}  // namespace holdfast::test

using namespace holdfast;
using namespace holdfast::test;

BOOST_AUTO_TEST_SUITE(fault_steps)

BOOST_AUTO_TEST_CASE(every_kind_of_fault_is_tried_or_left_out_for_a_reason) {
  for (const fault::kind each : holdfast::testing::fault_kinds) {
    const bool is_tried =
        std::any_of(std::begin(faults), std::end(faults), [&](const named_fault& f) { return f.what.what == each; });
    BOOST_TEST(is_tried == why_left_out(each).empty(), "a fault that no step meets: " << to_string(each));
  }
}

ASYNC_TEST_CASE(every_fault_at_every_step_has_its_right_end, 60s) {
  agent consul({.http_max_conns_per_client = 0});
  std::vector<std::unique_ptr<story>> stories;
  companions all(ex);
  for (const named_fault& f : faults)
    for (const step& s : steps) stories.push_back(std::make_unique<story>(ex, consul, f, s));
  std::size_t next = 0;
  for (int i = 0; i < at_a_time; ++i) all.start(tell_some(stories, next, consul));
  co_await all.join();
  print(stories);
  for (const auto& each : stories) {
    BOOST_TEST_CONTEXT(each->with.name << " at " << each->at.name) {
      BOOST_TEST(each->trouble.empty(), each->trouble);
      const std::set<std::string> right = right_ends(*each);
      BOOST_TEST(right.contains(each->end), each->end << ", right is " << boost::algorithm::join(right, ", or ")
                                                      << "; a timer was late by " << each->late / 1ms << " ms");
      BOOST_TEST(each->path.statistics().faults > 0u);
    }
  }
}

BOOST_AUTO_TEST_SUITE_END()
