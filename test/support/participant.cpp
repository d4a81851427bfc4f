// SPDX-FileCopyrightText: The holdfast authors
// SPDX-License-Identifier: BSL-1.0

#include "support/participant.hpp"

#include <algorithm>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/this_coro.hpp>
#include <boost/json/parse.hpp>
#include <boost/json/value.hpp>
#include <boost/test/unit_test.hpp>
#include <stdexcept>

#include "support/async.hpp"

namespace holdfast::test {
namespace {

namespace json = boost::json;
using clock = std::chrono::steady_clock;

json::value parsed(const agent_reply& reply) {
  if (reply.status == 404) return json::array();
  if (reply.status != 200) throw std::runtime_error("agent: " + std::to_string(reply.status) + " " + reply.body);
  return json::parse(reply.body);
}

consul::config reach(const std::string& address) {
  consul::config c;
  c.address = address;
  return c;
}

}  // namespace

mutex_options calm(std::string key) {
  mutex_options options;
  options.key = std::move(key);
  options.session_ttl = scaled(10s);
  return options;
}

locker::locker(const asio::any_io_executor& ex, const agent& through, mutex_options options)
    : client(ex, reach(through.address())), mutex(client, std::move(options)) {}

mutex_set_options calm_set(std::string prefix) {
  mutex_set_options options;
  options.prefix = std::move(prefix);
  options.session_ttl = scaled(10s);
  return options;
}

set_user::set_user(const asio::any_io_executor& ex, const std::string& address, mutex_set_options options)
    : client(ex, reach(address)), set(client, std::move(options)) {}

semaphore_options calm(std::string prefix, std::uint32_t limit) {
  semaphore_options options;
  options.prefix = std::move(prefix);
  options.limit = limit;
  options.session_ttl = scaled(10s);
  return options;
}

semaphore_options hasty(std::string prefix, std::uint32_t limit, std::chrono::milliseconds ttl) {
  semaphore_options options = calm(std::move(prefix), limit);
  options.session_ttl = scaled(ttl);
  return options;
}

participant::participant(const asio::any_io_executor& ex, const std::string& address, semaphore_options options)
    : client(ex, reach(address)), sem(client, std::move(options)) {}

std::string listing(const agent& a, const std::string& prefix) {
  const agent_reply reply = a.get("/v1/kv/" + prefix + "/?recurse");
  return reply.status == 404 ? std::string() : reply.body;
}

std::string record(const agent& a, const std::string& prefix) {
  const agent_reply reply = a.get("/v1/kv/" + prefix + "/.lock?raw");
  return reply.status == 404 ? std::string() : reply.body;
}

std::vector<std::string> holders(const agent& a, const std::string& prefix) {
  std::vector<std::string> result;
  const std::string value = record(a, prefix);
  if (value.empty()) return result;
  const json::value parsed_record = json::parse(value);
  const json::value& named = parsed_record.at("Holders");
  if (const json::array* list = named.if_array()) {
    for (const json::value& each : *list) result.emplace_back(each.as_string());
  } else if (const json::object* map = named.if_object()) {
    for (const auto& each : *map) result.emplace_back(each.key());
  }
  return result;
}

std::vector<std::string> contenders(const agent& a, const std::string& prefix) {
  std::vector<std::pair<std::int64_t, std::string>> found;
  const json::value entries = parsed(a.get("/v1/kv/" + prefix + "/?recurse"));
  for (const json::value& entry : entries.as_array()) {
    const json::value* const session = entry.as_object().if_contains("Session");
    if (session && entry.at("Key").as_string().ends_with(session->as_string()))
      found.emplace_back(entry.at("CreateIndex").to_number<std::int64_t>(), session->as_string());
  }
  std::sort(found.begin(), found.end());
  std::vector<std::string> result;
  for (auto& each : found) result.push_back(std::move(each.second));
  return result;
}

std::vector<std::string> sessions(const agent& a, const std::string& prefix) {
  std::vector<std::string> result;
  const json::value all = parsed(a.get("/v1/session/list"));
  for (const json::value& session : all.as_array())
    if (session.at("Name").as_string().starts_with("holdfast " + prefix + " by "))
      result.emplace_back(session.at("ID").as_string());
  return result;
}

bool is_clean(const agent& a, const std::string& prefix) {
  const json::value entries = parsed(a.get("/v1/kv/" + prefix + "/?recurse"));
  for (const json::value& entry : entries.as_array())
    if (entry.as_object().contains("Session")) return false;
  return contenders(a, prefix).empty() && holders(a, prefix).empty() && sessions(a, prefix).empty();
}

void write_key(const agent& a, const std::string& key, std::string_view value, std::uint64_t flags) {
  const agent_reply reply = a.put("/v1/kv/" + key + "?flags=" + std::to_string(flags), value);
  if (reply.status != 200 || !reply.body.starts_with("true")) throw std::runtime_error("not written: " + reply.body);
}

asio::awaitable<bool> happens_within(std::chrono::milliseconds limit, std::function<bool()> holds) {
  const auto end = clock::now() + scaled(limit);
  for (;;) {
    // Checks once more after the end, because this thread may have been suspended.
    const bool late = clock::now() >= end;
    if (holds()) co_return true;
    if (late) co_return false;
    co_await pause(2ms);
  }
}

asio::awaitable<void> until(std::string_view fact, std::function<bool()> holds, std::chrono::milliseconds limit) {
  const bool happened = co_await happens_within(limit, std::move(holds));
  BOOST_REQUIRE_MESSAGE(happened, "in vain waited for: " << fact);
}

asio::awaitable<void> pause(std::chrono::microseconds time) {
  const asio::any_io_executor ex = co_await asio::this_coro::executor;
  asio::steady_timer timer(ex, time);
  co_await timer.async_wait(asio::use_awaitable);
}

struct companions::state {
  explicit state(const asio::any_io_executor& ex) : changed(ex, clock::time_point::max()) {}
  asio::steady_timer changed;
  std::size_t running = 0;
  std::exception_ptr failure;
};

companions::companions(asio::any_io_executor ex) : ex_(std::move(ex)), state_(std::make_shared<state>(ex_)) {}

void companions::start(asio::awaitable<void> body) {
  ++state_->running;
  asio::co_spawn(ex_, std::move(body), [shared = state_](std::exception_ptr e) {
    if (e && !shared->failure) shared->failure = e;
    --shared->running;
    shared->changed.cancel();
  });
}

std::size_t companions::running() const { return state_->running; }

asio::awaitable<void> companions::join() {
  const std::shared_ptr<state> shared = state_;
  while (shared->running != 0 && !shared->failure) {
    co_await shared->changed.async_wait(as_result);
    const asio::cancellation_state cancelled = co_await asio::this_coro::cancellation_state;
    if (cancelled.cancelled() != asio::cancellation_type::none) co_return;
  }
  if (shared->failure) std::rethrow_exception(shared->failure);
}

}  // namespace holdfast::test
