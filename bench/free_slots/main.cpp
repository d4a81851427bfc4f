// SPDX-FileCopyrightText: The holdfast authors
// SPDX-License-Identifier: BSL-1.0

// Measures how long a waiter stands beside a free slot, on a real Consul agent and with the library's default options.
//
//   holdfast_free_slots [--scene NAME]... [--ttl 15|30] [--limit N]... [--delay S]... [--deadline S] [--keep-lost]
//   - --scene: idle-mutex, idle-semaphore, lone-waiter, many-die, far-release, crowd; without it all of them run
//   - --ttl: the TTL of the sessions in seconds (15). The holders of lone-waiter always have 30
//   - --limit: of lone-waiter (100, 400, 1000)
//   - --delay: of lone-waiter, between the waiter's entry and the holder's death, in seconds (0.1, 1.5, 10)
//   - --deadline: how long a waiter is watched, in seconds (60)
//   - --keep-lost: a holder keeps the handle of a slot that it has lost. Without it the holder releases the handle
//
// The program starts its own agents on loopback; HOLDFAST_CONSUL names Consul's program. Each result is one table row
// on stdout. Progress goes to stderr.

#include <algorithm>
#include <boost/asio/as_tuple.hpp>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/detached.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <boost/asio/use_future.hpp>
#include <boost/json.hpp>
#include <cstdlib>
#include <future>
#include <iostream>
#include <map>
#include <memory>
#include <stdexcept>

#include "party.hpp"
#include "relay.hpp"
#include "scene.hpp"
#include "support/agent.hpp"
#include "support/process.hpp"

namespace holdfast::bench {
namespace {

namespace json = boost::json;
using namespace std::chrono_literals;
using test::agent;
using test::agent_options;
using test::process;
using test::process_options;

constexpr std::uint64_t semaphore_flags = 0xe0f69a2baa414de0;
constexpr const char* session_node = "holdfast-sessions";
constexpr const char* manager_token = "11111111-2222-3333-4444-555555555555";
constexpr std::uint32_t many_limit = 200, many_waiting = 181, many_dead = 190, many_processes = 4, many_destroyers = 32;
constexpr std::uint32_t far_limit = 8, far_rivals = 7, far_cycles = 200;
constexpr auto far_time = 60s;
constexpr auto far_one_way = 25ms;
constexpr std::uint32_t crowd_size = 1'000;
constexpr clock::duration crowd_hold = 100ms, crowd_time = 20s;

struct arguments {
  std::vector<std::string> scenes;
  int ttl = 15;
  std::vector<std::uint32_t> limits;
  std::vector<double> delays;
  double deadline = 60;
  bool keep_lost = false;
  // Of child processes:
  std::string role, address, prefix;
  std::uint32_t count = 0;

  clock::duration patience() const { return std::chrono::duration_cast<clock::duration>(duration<double>(deadline)); }
};

// --- The program's own requests to Consul.

json::value body_of(const test::agent_reply& reply) {
  if (reply.status != 200 && reply.status != 404)
    throw std::runtime_error("Consul answered " + std::to_string(reply.status) + ": " + reply.body);
  return reply.status == 404 ? json::value(json::array()) : json::parse(reply.body);
}

std::vector<std::string> sessions_of(const agent& a) {
  std::vector<std::string> result;
  const json::value list = body_of(a.get("/v1/session/list"));
  if (list.is_array())
    for (const json::value& each : list.as_array()) result.emplace_back(each.at("ID").as_string());
  return result;
}

bool session_lives(const agent& a, const std::string& id) {
  const std::vector<std::string> living = sessions_of(a);
  return std::find(living.begin(), living.end(), id) != living.end();
}

/// The number of keys below the prefix, without the lock record.
std::size_t entries(const agent& a, const std::string& prefix) {
  const json::value keys = body_of(a.get("/v1/kv/" + prefix + "/?keys"));
  std::size_t result = 0;
  for (const json::value& each : keys.as_array()) result += each.as_string() != prefix + "/.lock";
  return result;
}

std::vector<std::string> holders(const agent& a, const std::string& prefix) {
  const json::value record = json::parse(a.get("/v1/kv/" + prefix + "/.lock?raw").body);
  std::vector<std::string> result;
  for (const auto& each : record.at("Holders").as_object()) result.emplace_back(each.key());
  return result;
}

void destroy(const agent& a, const std::string& session) {
  const auto reply = a.put("/v1/session/destroy/" + session);
  if (reply.status != 200) throw std::runtime_error("a session cannot be destroyed: " + reply.body);
}

std::string dead_session(const agent& a) {
  const auto reply = a.put("/v1/session/create", R"({"Checks":[],"NodeChecks":[],"LockDelay":"0s","TTL":"15s"})");
  const std::string id(body_of(reply).at("ID").as_string());
  destroy(a, id);
  return id;
}

// --- A and B: a process whose session was retired, and a lock that looks taken to it.

template <class Future>
std::string time_to_grant(Future acquired, clock::time_point begun, const arguments& args, const char* what) {
  if (acquired.wait_until(begun + args.patience()) != std::future_status::ready)
    return std::string(what) + " not granted after " + text(args.deadline, 0) + " s";
  const double took = seconds_since(begun);
  try {
    auto held = acquired.get();
    return std::string(what) + " " + text(took);
  } catch (const std::exception& e) {
    return std::string(what) + " failed after " + text(took) + " s: " + e.what();
  }
}

template <class Future>
std::string try_result(Future tried, const char* what) {
  try {
    if (tried.wait_for(30s) != std::future_status::ready) return std::string(what) + " not answered in 30 s";
    return std::string(what) + (tried.get().valid() ? " granted" : " denied");
  } catch (const std::exception& e) {
    return std::string(what) + " failed: " + e.what();
  }
}

/// Waits until the idle session has been retired, and a second more.
void wait_retired(const agent& a, const std::string& session) {
  if (!wait_until(clock::now() + 60s, 100ms, [&] { return !session_lives(a, session); }))
    throw std::runtime_error("the idle session is there after 60 s");
  std::this_thread::sleep_for(1s);
}

void idle_mutex(const agent& a, const std::string& variant, const std::string& token, const arguments& args) {
  party one(a.address(), token);
  mutex_options options;
  options.key = "free-slots/idle-mutex/" + variant;
  options.session_ttl = seconds(args.ttl);
  std::replace(options.key.begin(), options.key.end(), ' ', '-');
  mutex m(one.client, options);
  std::string session;
  {
    held_mutex held = m.lock(asio::use_future).get();
    session = sequencer_of(held, asio::use_future).get().session;
    held.release(asio::use_future).get();
  }
  wait_retired(a, session);
  if (a.del("/v1/kv/" + options.key).status != 200) throw std::runtime_error("the mutex's key cannot be deleted");
  const std::string tried = try_result(m.try_lock(asio::use_future), "try_lock");
  const auto begun = clock::now();
  const std::string locked = time_to_grant(m.lock(asio::use_future), begun, args, "lock");
  row("idle-mutex, " + variant, args.ttl, locked, tried);
  one.stop();
}

void idle_semaphore(const agent& a, bool try_first, const arguments& args) {
  party one(a.address());
  semaphore_options options;
  options.prefix = std::string("free-slots/idle-semaphore/") + (try_first ? "try" : "acquire");
  options.limit = 1;
  options.session_ttl = seconds(args.ttl);
  semaphore s(one.client, options);
  std::string session;
  {
    slot held = s.acquire(asio::use_future).get();
    session = holders(a, options.prefix).at(0);
    held.release(asio::use_future).get();
  }
  wait_retired(a, session);
  const auto written = a.put("/v1/kv/" + options.prefix + "/.lock?flags=" + std::to_string(semaphore_flags),
                             R"({"Limit":1,"Holders":{")" + dead_session(a) + R"(":true}})");
  if (written.status != 200) throw std::runtime_error("the record cannot be written");
  const std::string tried =
      try_first ? try_result(s.try_acquire(asio::use_future), "try_acquire") : "without a try_acquire before";
  const auto begun = clock::now();
  const std::string acquired = time_to_grant(s.acquire(asio::use_future), begun, args, "acquire");
  row("idle-semaphore", args.ttl, acquired, tried);
  one.stop();
}

/// Runs each of `works` on a thread of its own.
void all_at_once(const std::string& scene, const arguments& args, const std::vector<std::function<void()>>& works) {
  std::vector<std::future<void>> running;
  for (const auto& work : works) running.push_back(std::async(std::launch::async, work));
  for (auto& each : running) {
    try {
      each.get();
    } catch (const std::exception& e) {
      row(scene, args.ttl, "failed", e.what());
    }
  }
}

std::string token_with(const agent& a, const std::string& name, const std::string& rules) {
  json::object policy{{"Name", name}, {"Rules", rules}};
  const std::string token = R"({"Policies":[{"Name":")" + name + R"("}]})";
  std::string secret;
  // The agent refuses policies until it has left its legacy mode.
  wait_until(clock::now() + 30s, 100ms, [&] {
    if (a.put("/v1/acl/policy", json::serialize(policy)).status != 200) return false;
    secret = body_of(a.put("/v1/acl/token", token)).at("SecretID").as_string();
    return true;
  });
  if (secret.empty()) throw std::runtime_error("the agent takes no policy");
  return secret;
}

void idle_mutexes(const arguments& args) {
  agent_options plain;
  plain.as_shipped = true;
  const agent open(plain);
  agent_options with_acl = plain;
  const std::string manager = std::string("\"") + manager_token + "\"";
  // Requests of this program have no token. The agent gives them its default token, which may do everything.
  with_acl.extra_config = R"({"acl":{"enabled":true,"default_policy":"deny","tokens":{"master":)" + manager +
                          R"(,"default":)" + manager + "}}}";
  const agent secured(with_acl);
  const std::string rights =
      R"(key_prefix "free-slots/" { policy = "write" } session "holdfast-sessions" { policy = "write" })";
  const std::string none = token_with(secured, "no-node-right", rights);
  const std::string reads =
      token_with(secured, "node-read", rights + R"( node "holdfast-sessions" { policy = "read" })");
  const json::object node{{"Node", session_node}, {"Address", "127.0.0.1"}};
  if (secured.put("/v1/catalog/register", json::serialize(node)).status != 200)
    throw std::runtime_error("the node of the sessions cannot be registered");
  all_at_once("idle-mutex", args,
              {[&] { idle_mutex(open, "no ACL", "", args); }, [&] { idle_mutex(secured, "node read", reads, args); },
               [&] { idle_mutex(secured, "no node right", none, args); }});
}

void idle_semaphores(const arguments& args) {
  agent_options plain;
  plain.as_shipped = true;
  const agent a(plain);
  all_at_once("idle-semaphore", args,
              {[&] { idle_semaphore(a, false, args); }, [&] { idle_semaphore(a, true, args); }});
}

// --- C: one waiter, and one holder's death.

void hold_all(crew& holding, std::uint32_t limit) {
  holding.acquire(limit);
  const auto begun = clock::now();
  const auto end = begun + 60s + limit * 100ms;
  while (!holding.wait_granted(limit, std::min(end, clock::now() + 5s))) {
    progress(std::to_string(holding.granted()) + " of " + std::to_string(limit) + " slots are held");
    if (clock::now() >= end || holding.failed()) throw std::runtime_error("the holders did not get their slots");
  }
  progress("all " + std::to_string(limit) + " slots are held, after " + text(seconds_since(begun), 1) + " s");
}

void lone_waiter(const agent& a, std::uint32_t limit, double delay, const arguments& args) {
  static int scenes = 0;
  semaphore_options options;
  options.prefix = "free-slots/lone-waiter/" + std::to_string(++scenes);
  options.limit = limit;
  options.session_ttl = 30s;
  crew holding(a.address(), options);
  holding.keep_lost = args.keep_lost;
  hold_all(holding, limit);
  options.session_ttl = seconds(args.ttl);
  crew waiting(a.address(), options);
  waiting.acquire(1);
  if (!wait_until(clock::now() + 30s, 10ms, [&] { return entries(a, options.prefix) > limit; }))
    throw std::runtime_error("the waiter's entry does not appear");
  const auto stands = clock::now();
  const std::vector<std::string> all = holders(a, options.prefix);
  std::this_thread::sleep_until(stands + duration<double>(delay));
  const auto begun = clock::now();
  destroy(a, all.at(all.size() / 2));
  const bool granted = waiting.wait_granted(1, begun + args.patience());
  const std::string figure = granted ? text(duration<double>(waiting.last_grant() - begun).count())
                                     : "not granted after " + text(args.deadline, 0) + " s";
  const std::string lost = holding.lost() == 1 ? "" : std::to_string(holding.lost()) + " slots lost";
  row("lone-waiter, limit " + std::to_string(limit) + ", " + text(delay, 1) + " s", args.ttl, figure, lost);
  holding.stop();
  waiting.stop();
}

void lone_waiters(const arguments& args) {
  for (const std::uint32_t limit : args.limits) {
    for (const double delay : args.delays) {
      try {
        agent_options shipped;
        shipped.as_shipped = true;
        const agent a(shipped);
        lone_waiter(a, limit, delay, args);
      } catch (const std::exception& e) {
        row("lone-waiter, limit " + std::to_string(limit) + ", " + text(delay, 1) + " s", args.ttl, "failed", e.what());
      }
    }
  }
}

// --- D and E have processes of their own: this program, with a role.

std::unique_ptr<process> child(const std::string& role, const std::string& address, const std::string& prefix,
                               std::uint32_t limit, std::uint32_t count, const arguments& args,
                               std::function<void(std::string_view)> on_line) {
  process_options options;
  options.command = {"/proc/self/exe",
                     "--role",
                     role,
                     "--address",
                     address,
                     "--prefix",
                     prefix,
                     "--limit",
                     std::to_string(limit),
                     "--count",
                     std::to_string(count),
                     "--ttl",
                     std::to_string(args.ttl)};
  options.on_line = std::move(on_line);
  return std::make_unique<process>(std::move(options));
}

/// All processes of this machine have the same steady clock.
std::int64_t stamp(clock::time_point at) {
  return std::chrono::duration_cast<std::chrono::microseconds>(at.time_since_epoch()).count();
}

semaphore_options options_of(const arguments& args) {
  semaphore_options options;
  options.prefix = args.prefix;
  options.limit = args.limits.at(0);
  options.session_ttl = seconds(args.ttl);
  return options;
}

[[noreturn]] void wait_for_the_end() {
  for (;;) std::this_thread::sleep_for(1h);
}

void waiter(const arguments& args) {
  crew waiting(args.address, options_of(args));
  waiting.on_grant = [](clock::time_point at) { say("granted " + std::to_string(stamp(at))); };
  waiting.acquire(args.count);
  wait_for_the_end();
}

/// The number behind `word` in a child's line.
std::optional<double> number_after(std::string_view line, std::string_view word) {
  if (!line.starts_with(word)) return std::nullopt;
  return std::strtod(std::string(line.substr(word.size())).c_str(), nullptr);
}

void many_die(const arguments& args) {
  agent_options shipped;
  shipped.as_shipped = true;
  const agent a(shipped);
  semaphore_options options;
  options.prefix = "free-slots/many-die";
  options.limit = many_limit;
  options.session_ttl = seconds(args.ttl);
  crew holding(a.address(), options);
  holding.keep_lost = args.keep_lost;
  hold_all(holding, many_limit);

  std::mutex mutex;
  std::condition_variable changed;
  std::vector<std::int64_t> grants;
  const auto on_line = [&](std::string_view line) {
    const auto at = number_after(line, "granted ");
    if (!at) {
      std::fprintf(stderr, "waiter: %s\n", std::string(line).c_str());
      return;
    }
    const std::lock_guard lock(mutex);
    grants.push_back(static_cast<std::int64_t>(*at));
    changed.notify_all();
  };
  std::vector<std::unique_ptr<process>> waiting;
  for (std::uint32_t i = 0; i != many_processes; ++i) {
    const std::uint32_t share = many_waiting / many_processes + (i < many_waiting % many_processes);
    waiting.push_back(child("waiter", a.address(), options.prefix, many_limit, share, args, on_line));
  }
  // Not every acquire has an entry of its own. All are there when the number of entries does not change for 3 s.
  std::size_t seen = 0;
  auto since = clock::now();
  wait_until(clock::now() + 60s, 100ms, [&] {
    const std::size_t now = entries(a, options.prefix);
    if (now != seen) since = clock::now();
    seen = now;
    return now > many_limit && seconds_since(since) > 3;
  });
  progress(std::to_string(seen - many_limit) + " entries wait");
  const std::vector<std::string> all = holders(a, options.prefix);
  const auto begun = clock::now();
  // One request after the other would take seconds on a busy machine.
  std::vector<std::future<void>> dying_at_once;
  for (std::uint32_t first = 0; first != many_destroyers; ++first)
    dying_at_once.push_back(std::async(std::launch::async, [&a, &all, first] {
      for (std::uint32_t i = first; i < many_dead; i += many_destroyers) destroy(a, all.at(i));
    }));
  for (auto& each : dying_at_once) each.get();
  const double dying = seconds_since(begun);

  std::unique_lock lock(mutex);
  changed.wait_until(lock, begun + args.patience(), [&] { return grants.size() >= many_waiting; });
  const std::size_t granted = grants.size();
  std::string figure = granted == many_waiting ? ""
                                               : std::to_string(many_waiting - granted) + " not granted after " +
                                                     text(args.deadline, 0) + " s; the last of the others ";
  if (granted != 0)
    figure += text(static_cast<double>(*std::max_element(grants.begin(), grants.end()) - stamp(begun)) / 1e6);
  std::string waits;
  for (int second = 1; second <= args.deadline; ++second) {
    const auto end = stamp(begun) + second * std::int64_t{1'000'000};
    const auto in_time = std::count_if(grants.begin(), grants.end(), [&](std::int64_t at) { return at <= end; });
    waits += (waits.empty() ? "" : " ") + std::to_string(many_waiting - in_time);
    if (in_time == many_waiting) break;
  }
  lock.unlock();
  row("many-die", args.ttl, figure,
      "wait after each second: " + waits + "; destroyed within " + text(dying) + " s; " +
          std::to_string(seen - many_limit) + " entries waited; lost: " + std::to_string(holding.lost()));
  waiting.clear();
  holding.stop();
}

// --- E: a process that is far from the agent.

constexpr auto as_result = asio::as_tuple(asio::use_awaitable);

asio::awaitable<void> take_turns(semaphore& s, std::uint64_t& cycles) {
  for (;;) {
    auto [failed, held] = co_await s.acquire(as_result);
    if (failed) say("acquire failed: " + failed.message());
    if (failed) continue;
    auto [ec] = co_await held.release(as_result);
    if (ec) say("release failed: " + ec.message());
    ++cycles;
  }
}

asio::awaitable<void> report_cycles(const std::uint64_t& cycles) {
  asio::steady_timer timer(co_await asio::this_coro::executor);
  for (;;) {
    say("cycles " + std::to_string(cycles));
    timer.expires_after(100ms);
    co_await timer.async_wait(as_result);
  }
}

void rival(const arguments& args) {
  std::uint64_t cycles = 0;  // used on the client's thread only
  party one(args.address);
  semaphore s(one.client, options_of(args));
  asio::co_spawn(one.client.get_executor(), take_turns(s, cycles), asio::detached);
  asio::co_spawn(one.client.get_executor(), report_cycles(cycles), asio::detached);
  wait_for_the_end();
}

void far(const arguments& args) {
  party one(args.address);
  semaphore s(one.client, options_of(args));
  const auto begun = clock::now();
  std::map<std::string, int> losses;
  for (std::uint32_t i = 0; i != args.count && clock::now() < begun + far_time; ++i) {
    std::future<slot> acquired = s.acquire(asio::use_future);
    const auto asked = clock::now();
    if (acquired.wait_until(begun + far_time) != std::future_status::ready) break;
    try {
      slot held = acquired.get();
      say("acquired " + text(seconds_since(asked), 6));
      const auto released = clock::now();
      std::future<void> done = held.release(asio::use_future);
      std::string failed;
      try {
        done.get();
      } catch (const std::exception& e) {
        failed = e.what();
      }
      say("released " + text(seconds_since(released), 6));
      if (!failed.empty()) say("release failed: " + failed);
      if (held.lost_because() != loss_reason::none)
        say("lost: " + std::string(to_string(held.lost_because())) + ", " + held.loss_details().to_string());
    } catch (const std::exception& e) {
      say(std::string("acquire failed: ") + e.what());
    }
  }
  say("end " + std::to_string(s.statistics().lost.total()));
  one.stop();
  std::_Exit(0);
}

std::string quantiles(std::vector<double> times) {
  if (times.empty()) return "none";
  std::sort(times.begin(), times.end());
  const auto at = [&](double part) {
    return text(times[static_cast<std::size_t>(part * static_cast<double>(times.size() - 1))]);
  };
  return "p50 " + at(0.5) + ", p99 " + at(0.99) + ", max " + at(1);
}

void far_release(const arguments& args) {
  agent_options shipped;
  shipped.as_shipped = true;
  const agent a(shipped);
  const std::string prefix = "free-slots/far-release";
  std::mutex mutex;
  std::vector<double> cycles(far_rivals), acquired, released;
  std::vector<std::string> troubles;
  double lost = -1;
  std::vector<std::unique_ptr<process>> rivals;
  for (std::uint32_t i = 0; i != far_rivals; ++i)
    rivals.push_back(child("rival", a.address(), prefix, far_limit, 0, args, [&, i](std::string_view line) {
      const std::lock_guard lock(mutex);
      if (const auto n = number_after(line, "cycles "))
        cycles[i] = *n;
      else
        troubles.emplace_back("rival: " + std::string(line));
    }));
  const auto all_cycles = [&] {
    const std::lock_guard lock(mutex);
    double sum = 0;
    for (const double each : cycles) sum += each;
    return sum;
  };
  std::this_thread::sleep_for(3s);
  double before = all_cycles();
  auto begun = clock::now();
  std::this_thread::sleep_for(10s);
  const double rate_alone = (all_cycles() - before) / seconds_since(begun);
  progress("the rivals alone: " + text(rate_alone, 0) + " cycles/s");

  relay distance(a.host(), a.http_port(), far_one_way);
  before = all_cycles();
  begun = clock::now();
  const auto distant =
      child("far", distance.address(), prefix, far_limit, far_cycles, args, [&](std::string_view line) {
        const std::lock_guard lock(mutex);
        if (const auto time = number_after(line, "acquired "))
          acquired.push_back(*time);
        else if (const auto taken = number_after(line, "released "))
          released.push_back(*taken);
        else if (const auto count = number_after(line, "end "))
          lost = *count;
        else
          troubles.emplace_back("far: " + std::string(line));
      });
  distant->wait(far_time + 30s);
  const double rate_beside = (all_cycles() - before) / seconds_since(begun);
  distant->kill();
  rivals.clear();

  const std::lock_guard lock(mutex);
  std::map<std::string, int> counted;
  for (const std::string& each : troubles) ++counted[each];
  for (const auto& [line, times] : counted) progress(std::to_string(times) + " x " + line);
  row("far-release", args.ttl, quantiles(released),
      std::to_string(released.size()) + " releases; slots lost: " + (lost < 0 ? "?" : text(lost, 0)) +
          "; sessions created: " + std::to_string(distance.sessions_created()) + "; acquire: " + quantiles(acquired) +
          "; rivals' cycles/s: " + text(rate_alone, 0) + " alone, " + text(rate_beside, 0) +
          " beside; troubles: " + std::to_string(troubles.size()));
}

// --- F: what a long queue costs. Each waiter stands for a process: it has its own client and its own session.

asio::awaitable<void> hold_in_turn(semaphore& s, std::uint64_t& cycles) {
  asio::steady_timer timer(co_await asio::this_coro::executor);
  for (;;) {
    auto [failed, held] = co_await s.acquire(as_result);
    if (failed) say("acquire failed: " + failed.message());
    if (failed) continue;
    timer.expires_after(crowd_hold);
    co_await timer.async_wait(as_result);
    auto [ec] = co_await held.release(as_result);
    if (ec) say("release failed: " + ec.message());
    ++cycles;
  }
}

void queue(const arguments& args) {
  struct member {
    consul::client client;
    semaphore sem;
  };
  asio::io_context io(1);
  std::uint64_t cycles = 0;
  std::vector<std::unique_ptr<member>> all;
  consul::config settings;
  settings.address = args.address;
  for (std::uint32_t i = 0; i != args.count; ++i) {
    consul::client client(io, settings);
    semaphore sem(client, options_of(args));
    all.push_back(std::make_unique<member>(std::move(client), std::move(sem)));
    asio::co_spawn(io, hold_in_turn(all.back()->sem, cycles), asio::detached);
  }
  asio::co_spawn(io, report_cycles(cycles), asio::detached);
  io.run();
}

/// First one holder keeps the slot all the time, and nothing happens. Then the slot goes from contender to contender.
void crowd(const arguments& args) {
  agent_options options;
  options.as_shipped = true;
  options.extra_config = R"({"limits":{"http_max_conns_per_client":0}})";
  const agent a(options);
  semaphore_options same;
  same.prefix = "free-slots/crowd";
  same.limit = 1;
  same.session_ttl = seconds(args.ttl);
  party one(a.address());
  semaphore s(one.client, same);
  slot held = s.acquire(asio::use_future).get();
  relay counted(a.host(), a.http_port(), 0ms);
  std::atomic<double> cycles = 0;
  const auto waiting = child("queue", counted.address(), same.prefix, 1, crowd_size, args, [&](std::string_view line) {
    if (const auto n = number_after(line, "cycles "))
      cycles = *n;
    else
      progress("queue: " + std::string(line));
  });
  if (!wait_until(clock::now() + 120s, 500ms, [&] { return entries(a, same.prefix) > crowd_size; }))
    throw std::runtime_error("not all have joined after 120 s");
  std::this_thread::sleep_for(crowd_time);
  std::uint64_t requests = counted.requests(), bytes = counted.bytes();
  auto begun = clock::now();
  std::this_thread::sleep_for(crowd_time);
  double took = seconds_since(begun);
  const std::string quiet = text(static_cast<double>(counted.requests() - requests) / took, 1) + " requests/s, " +
                            text(static_cast<double>(counted.bytes() - bytes) / took / 1024, 0) + " KiB/s";
  held.release(asio::use_future).get();
  std::this_thread::sleep_for(2s);
  const double before = cycles;
  requests = counted.requests();
  bytes = counted.bytes();
  begun = clock::now();
  std::this_thread::sleep_for(crowd_time);
  took = seconds_since(begun);
  const double turns = cycles - before;
  row("crowd, " + std::to_string(crowd_size) + " at limit 1", args.ttl,
      text(static_cast<double>(counted.requests() - requests) / turns, 1) + " requests and " +
          text(static_cast<double>(counted.bytes() - bytes) / turns / 1024, 0) + " KiB a turn",
      text(turns / took, 1) + " turns/s of " + text(1s / duration<double>(crowd_hold), 0) +
          "; while one holds: " + quiet);
  waiting->kill();
  one.stop();
}

// ---

const std::map<std::string, void (*)(const arguments&)> all_scenes = {
    {"idle-mutex", idle_mutexes}, {"idle-semaphore", idle_semaphores}, {"lone-waiter", lone_waiters},
    {"many-die", many_die},       {"far-release", far_release},        {"crowd", crowd}};
const std::map<std::string, void (*)(const arguments&)> all_roles = {
    {"waiter", waiter}, {"rival", rival}, {"far", far}, {"queue", queue}};

int usage(const std::string& what) {
  std::cerr
      << what
      << "\nusage: holdfast_free_slots [--scene NAME]... [--ttl 15|30] [--limit N]... [--delay S]... [--deadline S] "
         "[--keep-lost]\nscenes: idle-mutex, idle-semaphore, lone-waiter, many-die, far-release, crowd\n";
  return 2;
}

int run(int count, char** words) {
  arguments args;
  for (int i = 1; i < count; ++i) {
    const std::string word = words[i];
    if (word == "--keep-lost") {
      args.keep_lost = true;
      continue;
    }
    if (i + 1 == count) return usage("unknown, or without its value: " + word);
    const std::string value = words[++i];
    if (word == "--scene" && all_scenes.contains(value))
      args.scenes.push_back(value);
    else if (word == "--role" && all_roles.contains(value))
      args.role = value;
    else if (word == "--ttl")
      args.ttl = std::stoi(value);
    else if (word == "--limit")
      args.limits.push_back(static_cast<std::uint32_t>(std::stoul(value)));
    else if (word == "--delay")
      args.delays.push_back(std::stod(value));
    else if (word == "--deadline")
      args.deadline = std::stod(value);
    else if (word == "--address")
      args.address = value;
    else if (word == "--prefix")
      args.prefix = value;
    else if (word == "--count")
      args.count = static_cast<std::uint32_t>(std::stoul(value));
    else
      return usage("unknown: " + word + " " + value);
  }
  if (!args.role.empty()) {
    all_roles.at(args.role)(args);
    return 0;
  }
  if (args.scenes.empty())
    args.scenes = {"idle-mutex", "idle-semaphore", "lone-waiter", "many-die", "far-release", "crowd"};
  if (args.limits.empty()) args.limits = {100, 400, 1000};
  if (args.delays.empty()) args.delays = {0.1, 1.5, 10};
  int status = 0;
  for (const std::string& scene : args.scenes) {
    try {
      progress(scene);
      all_scenes.at(scene)(args);
    } catch (const std::exception& e) {
      row(scene, args.ttl, "failed", e.what());
      status = 1;
    }
  }
  return status;
}

}  // namespace
}  // namespace holdfast::bench

int main(int count, char** words) { return holdfast::bench::run(count, words); }
