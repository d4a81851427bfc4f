// SPDX-FileCopyrightText: The holdfast authors
// SPDX-License-Identifier: BSL-1.0

#include "cli/status.hpp"

#include <algorithm>
#include <boost/asio/as_tuple.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <boost/json/array.hpp>
#include <cstddef>
#include <cstdio>
#include <tuple>
#include <utility>

#include "cli/arguments.hpp"

namespace holdfast::cli {

namespace json = boost::json;

namespace {

json::object to_json(const contender_status& each) {
  json::object out{{"session", each.session},
                   {"description", each.description},
                   {"kind", to_string(each.kind)},
                   {"place", each.place}};
  if (each.age) out["age_seconds"] = each.age->count();
  if (each.number) out["number"] = *each.number;
  if (each.token.grant != 0) out["fencing_token"] = each.token.to_string();
  if (each.place == 0) {
    out["revoked"] = each.revoked;
    out["provisional"] = each.provisional;
  }
  return out;
}

void print(const contender_status& each) {
  std::string state = each.place == 0 ? "holds" : "waits " + std::to_string(each.place);
  if (each.revoked) state += ", revoked";
  if (each.provisional) state += ", not accepted yet";
  std::printf("%-10s %-36s %6s  %-9s %s", state.c_str(), printable(each.session).c_str(),
              each.age ? shown(*each.age).c_str() : "-", std::string(to_string(each.kind)).c_str(),
              printable(each.description).c_str());
  if (each.number) std::printf("  number %u", *each.number);
  if (each.token.grant != 0) std::printf("  token %s", each.token.to_string().c_str());
  std::printf("\n");
}

// A mutex is a key and the entries below it. It is shown like a semaphore of limit 1.
asio::awaitable<semaphore_status> read_mutex(consul::client& consul, const std::string& prefix,
                                             std::chrono::milliseconds timeout) {
  const std::string key = prefix + "/.lock";
  const consul::read_options options{.request = {.timeout = timeout}};
  auto answer = co_await consul.list(key, options);
  std::sort(answer.value.begin(), answer.value.end(),
            [](const kv_entry& a, const kv_entry& b) { return a.create_index < b.create_index; });
  semaphore_status now;
  now.limit = 1;
  for (const kv_entry& each : answer.value) {
    const bool is_key = each.key == key;
    if (is_key) now.exists = true;
    if (each.session.empty()) continue;
    contender_status one;
    one.session = each.session;
    one.description = each.value.substr(0, each.value.find('\n'));
    if (is_key) {
      now.index = each.modify_index;
      now.holders.push_back(std::move(one));
    } else if (each.key == key + '/' + each.session) {  // not the key by which it accepts a grant
      now.queue.push_back(std::move(one));
    }
  }
  std::erase_if(now.queue, [&](const contender_status& each) {
    return !now.holders.empty() && each.session == now.holders.front().session;
  });
  for (std::size_t place = 0; place < now.queue.size(); ++place) now.queue[place].place = place + 1;
  co_return now;
}

}  // namespace

asio::awaitable<semaphore_status> read_status(consul::client& consul, std::string prefix,
                                              std::chrono::milliseconds timeout) {
  administration_options which;
  which.prefix = prefix;
  semaphore_administration admin(consul, std::move(which));
  semaphore_status now;
  error_code error;
  diagnostics why;
  const consul::request_options options{.timeout = timeout, .diag = &why};
  std::tie(error, now) = co_await admin.inspect(options, asio::as_tuple(asio::use_awaitable));
  if (error == error::not_a_semaphore)
    now = co_await read_mutex(consul, prefix, timeout);
  else if (error)
    throw error_with_diagnostics(error, why);
  co_return now;
}

std::string shown(std::chrono::seconds age) {
  const auto seconds = age.count();
  if (seconds < 120) return std::to_string(seconds) + "s";
  if (seconds < 7200) return std::to_string(seconds / 60) + "m";
  return std::to_string(seconds / 3600) + "h";
}

json::object to_json(const std::string& prefix, const semaphore_status& now) {
  json::object out{{"prefix", prefix}, {"exists", now.exists}};
  json::array holders, queue;
  for (const contender_status& each : now.holders) holders.push_back(to_json(each));
  for (const contender_status& each : now.queue) queue.push_back(to_json(each));
  if (now.exists) out["limit"] = now.limit;
  out["closed"] = now.closed;
  out["holders"] = std::move(holders);
  out["queue"] = std::move(queue);
  out["dead_holders"] = now.dead_holders;
  out["dead_entries"] = now.dead_entries;
  out["released"] = now.given_back;
  out["index"] = now.index;
  return out;
}

void print(const std::string& prefix, const semaphore_status& now) {
  if (!now.exists) {
    std::printf("%s: there is no semaphore\n", printable(prefix).c_str());
    return;
  }
  std::printf("%s: limit %u%s, %zu held, %zu waiting\n", printable(prefix).c_str(), now.limit,
              now.closed ? ", closed" : "", now.holders.size(), now.queue.size());
  for (const contender_status& each : now.holders) print(each);
  for (const contender_status& each : now.queue) print(each);
  if (now.dead_holders + now.dead_entries != 0)
    std::printf("left by dead processes: %zu holders, %zu entries\n", now.dead_holders, now.dead_entries);
}

void print_line(const std::string& prefix, const semaphore_status& now) {
  std::printf("%-40s %4zu of %-4u held  %4zu waiting%s\n", printable(prefix).c_str(), now.holders.size(), now.limit,
              now.queue.size(), now.closed ? "  closed" : "");
}

}  // namespace holdfast::cli
