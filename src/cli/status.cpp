// SPDX-FileCopyrightText: The holdfast authors
// SPDX-License-Identifier: BSL-1.0

#include "cli/status.hpp"

#include <algorithm>
#include <boost/asio/as_tuple.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <boost/json/array.hpp>
#include <charconv>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <map>
#include <optional>
#include <set>
#include <system_error>
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

// The flags that HashiCorp's client gives to the key of a mutex.
constexpr std::uint64_t mutex_flags = 0x2ddccbc058a50c18;

bool is_session_id(std::string_view text) {
  constexpr std::string_view form = "xxxxxxxx-xxxx-xxxx-xxxx-xxxxxxxxxxxx";
  return text.size() == form.size() && std::equal(text.begin(), text.end(), form.begin(), [](char c, char wanted) {
           return wanted == '-' ? c == '-' : (c >= '0' && c <= '9') || (c >= 'a' && c <= 'f');
         });
}

// The value of an entry: a description, and below it lines of the protocol. One of them, "@SECONDS+TTL-MARGIN", says
// when the entry was made.
contender_status contender_of(const kv_entry& entry) {
  contender_status its;
  its.session = entry.session;
  its.description = entry.value.substr(0, entry.value.find('\n'));
  if (const std::size_t stamp = entry.value.find("\n@"); stamp != std::string::npos) {
    std::int64_t since = 0;
    const char* const begin = entry.value.data() + stamp + 2;
    const auto [end, bad] = std::from_chars(begin, entry.value.data() + entry.value.size(), since);
    const auto now = std::chrono::system_clock::now().time_since_epoch();
    const auto age = std::chrono::duration_cast<std::chrono::seconds>(now) - std::chrono::seconds(since);
    if (bad == std::errc() && since > 0 && age.count() >= 0) its.age = age;
  }
  return its;
}

bool is_mutex(const kv_entry& each) { return !each.session.empty() && (each.flags == mutex_flags || each.flags == 0); }

// A mutex is a key and the entries below it. It is shown like a semaphore of limit 1. The same is true of an election.
lock_status mutex_among(const std::vector<kv_entry>& listing, const std::string& key) {
  lock_status now;
  now.kind = lock_kind::mutex;
  now.limit = 1;
  std::optional<contender_status> holder;
  for (const kv_entry& each : listing) {
    if (each.key == key) {
      now.exists = each.flags == mutex_flags || is_mutex(each);
      now.index = each.modify_index;
      if (now.exists && !each.session.empty()) holder = contender_of(each);
    } else if (!each.session.empty() && each.key == key + '/' + each.session) {
      // not the key by which it accepts a grant
      now.queue.push_back(contender_of(each));
    }
  }
  now.exists = now.exists || !now.queue.empty();
  std::erase_if(now.queue, [&](const contender_status& each) {
    if (!holder || each.session != holder->session) return false;
    holder->age = each.age;
    return true;
  });
  if (holder) now.holders.push_back(*std::move(holder));
  for (std::size_t place = 0; place < now.queue.size(); ++place) now.queue[place].place = place + 1;
  return now;
}

// A mutex set has a key for each session, and one for each name.
lock_status set_among(const std::vector<kv_entry>& listing, const std::string& prefix) {
  const std::string sessions = prefix + "/.sessions/", writes = prefix + "/.writes/";
  std::map<std::string_view, contender_status> makers;
  for (const kv_entry& each : listing)
    if (each.key.starts_with(sessions) && !each.session.empty()) makers.emplace(each.session, contender_of(each));
  lock_status now;
  now.kind = lock_kind::mutex_set;
  now.exists = !makers.empty();
  if (!now.exists) return now;
  for (const kv_entry& each : listing) {
    if (each.key.starts_with(sessions) || each.key.starts_with(writes) || each.session.empty()) continue;
    if (each.flags != mutex_flags && !makers.contains(each.session)) continue;
    contender_status one = contender_of(each);
    one.description =
        each.key.substr(prefix.size() + 1) + (one.description.empty() ? "" : " (" + one.description + ")");
    if (const auto maker = makers.find(each.session); maker != makers.end()) one.age = maker->second.age;
    now.holders.push_back(std::move(one));
  }
  now.limit = static_cast<std::uint32_t>(now.holders.size());
  return now;
}

// The key and what is below it. Other keys may begin with the same text.
asio::awaitable<std::vector<kv_entry>> list_below(consul::client& consul, std::string key,
                                                  std::chrono::milliseconds timeout) {
  const consul::read_options options{.request = {.timeout = timeout}};
  auto answer = co_await consul.list(key, options);
  std::erase_if(answer.value,
                [&](const kv_entry& each) { return each.key.size() > key.size() && each.key[key.size()] != '/'; });
  std::sort(answer.value.begin(), answer.value.end(),
            [](const kv_entry& a, const kv_entry& b) { return a.create_index < b.create_index; });
  co_return std::move(answer.value);
}

std::string counts(const lock_status& now) {
  std::string text = "limit " + std::to_string(now.limit);
  if (now.kind == lock_kind::mutex) text = "mutex or election";
  if (now.kind == lock_kind::mutex_set) text = "mutex set";
  if (now.closed) text += ", closed";
  return text;
}

}  // namespace

asio::awaitable<lock_status> read_status(consul::client& consul, std::string prefix,
                                         std::chrono::milliseconds timeout) {
  administration_options which;
  which.prefix = prefix;
  semaphore_administration admin(consul, std::move(which));
  lock_status now;
  error_code error;
  diagnostics why;
  const consul::request_options options{.timeout = timeout, .diag = &why};
  std::tie(error, static_cast<semaphore_status&>(now)) =
      co_await admin.inspect(options, asio::as_tuple(asio::use_awaitable));
  if (error && error != error::not_a_semaphore) throw error_with_diagnostics(error, why);
  if (!error && now.exists) co_return now;
  const std::string of_run = prefix + "/.lock";
  if (error) {
    const std::vector<kv_entry> listing = co_await list_below(consul, of_run, timeout);
    co_return mutex_among(listing, of_run);
  }
  const std::vector<kv_entry> listing = co_await list_below(consul, prefix, timeout);
  const lock_status set = set_among(listing, prefix);
  if (set.exists) co_return set;
  const lock_status mutex = mutex_among(listing, prefix);
  if (mutex.exists) co_return mutex;
  co_return now;
}

std::vector<std::string> places_of_locks(const std::vector<std::string>& keys) {
  constexpr std::string_view lock = "/.lock", sessions = "/.sessions", writes = "/.writes";
  std::set<std::string> found;
  const auto is_semaphore = [&](const std::string& place) {
    return std::binary_search(keys.begin(), keys.end(), place + std::string(lock));
  };
  for (const std::string& key : keys) {
    if (key.ends_with(lock)) found.insert(key.substr(0, key.size() - lock.size()));
    const std::size_t slash = key.rfind('/');
    if (slash == std::string::npos || !is_session_id(std::string_view(key).substr(slash + 1))) continue;
    const std::string above = key.substr(0, slash);
    if (above.ends_with(sessions))
      found.insert(above.substr(0, above.size() - sessions.size()));
    else if (!above.ends_with(writes) && !above.ends_with(lock) && !is_semaphore(above))
      found.insert(above);
  }
  return {found.begin(), found.end()};
}

std::string shown(std::chrono::seconds age) {
  const auto seconds = age.count();
  if (seconds < 120) return std::to_string(seconds) + "s";
  if (seconds < 7200) return std::to_string(seconds / 60) + "m";
  return std::to_string(seconds / 3600) + "h";
}

json::object to_json(const std::string& prefix, const lock_status& now) {
  json::object out{{"prefix", prefix}, {"exists", now.exists}};
  if (now.exists) out["kind"] = to_string(now.kind);
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

void print(const std::string& prefix, const lock_status& now) {
  if (!now.exists) {
    std::printf("%s: nothing is held or waits here; list shows what is below it\n", printable(prefix).c_str());
    return;
  }
  std::printf("%s: %s, %zu held, %zu waiting\n", printable(prefix).c_str(), counts(now).c_str(), now.holders.size(),
              now.queue.size());
  for (const contender_status& each : now.holders) print(each);
  for (const contender_status& each : now.queue) print(each);
  if (now.dead_holders + now.dead_entries != 0)
    std::printf("left by dead processes: %zu holders, %zu entries\n", now.dead_holders, now.dead_entries);
}

void print_line(const std::string& prefix, const lock_status& now) {
  const std::string kind = now.kind == lock_kind::semaphore ? "" : "  " + counts(now);
  std::printf("%-40s %4zu of %-4u held  %4zu waiting%s%s\n", printable(prefix).c_str(), now.holders.size(), now.limit,
              now.queue.size(), now.closed ? "  closed" : "", kind.c_str());
}

}  // namespace holdfast::cli
