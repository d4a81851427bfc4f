// SPDX-FileCopyrightText: The holdfast authors
// SPDX-License-Identifier: BSL-1.0

#include "cli/operate.hpp"

#include <unistd.h>

#include <algorithm>
#include <boost/asio/as_tuple.hpp>
#include <boost/asio/awaitable.hpp>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <boost/json/array.hpp>
#include <boost/json/object.hpp>
#include <boost/json/serialize.hpp>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <holdfast/holdfast.hpp>
#include <iostream>
#include <string>
#include <string_view>
#include <tuple>
#include <utility>
#include <vector>

#include "cli/arguments.hpp"

namespace holdfast::cli {

namespace {

namespace asio = boost::asio;
namespace json = boost::json;
using kind = operator_command::kind;

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

std::string shown(std::chrono::seconds age) {
  const auto seconds = age.count();
  if (seconds < 120) return std::to_string(seconds) + "s";
  if (seconds < 7200) return std::to_string(seconds / 60) + "m";
  return std::to_string(seconds / 3600) + "h";
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

class operation {
public:
  explicit operation(const operator_command& command) : command_(command) {}

  int run() {
    std::exception_ptr failure;
    asio::co_spawn(io_, carry_out(), [&](std::exception_ptr failed) { failure = std::move(failed); });
    io_.run();
    if (failure) std::rethrow_exception(failure);
    return status_;
  }

private:
  asio::awaitable<void> carry_out() {
    consul::client consul(io_, command_.consul);
    administration_options which;
    which.prefix = command_.prefix;
    semaphore_administration admin(consul, std::move(which));
    switch (command_.what) {
      case kind::inspect:
        co_await inspect(consul, admin);
        co_return;
      case kind::watch:
        co_await watch(consul, admin);
        co_return;
      case kind::verify:
        co_await verify(consul, admin);
        co_return;
      case kind::create:
        co_await admin.create(command_.limit);
        break;
      case kind::resize:
        co_await admin.resize(command_.limit);
        break;
      case kind::close:
        co_await admin.close();
        break;
      case kind::open:
        co_await admin.open();
        break;
      case kind::drain:
        co_await admin.close();
        co_await admin.wait_until_drained(command_.within.value_or(std::chrono::nanoseconds::max()));
        break;
      case kind::revoke:
        co_await admin.revoke(command_.session);
        break;
      case kind::evict:
        co_await admin.evict(command_.session);
        break;
      case kind::sweep: {
        const swept what = co_await admin.sweep();
        if (command_.json)
          std::printf("%s\n",
                      json::serialize(json::object{{"holders", what.holders}, {"entries", what.entries}}).c_str());
        else
          std::printf("removed: %zu dead holders, %zu dead entries\n", static_cast<std::size_t>(what.holders),
                      static_cast<std::size_t>(what.entries));
        break;
      }
      case kind::destroy:
        if (command_.even_in_use)
          co_await admin.destroy_in_use();
        else
          co_await admin.destroy();
        break;
    }
  }

  void show(const semaphore_status& now) const {
    if (command_.json)
      std::printf("%s\n", json::serialize(to_json(command_.prefix, now)).c_str());
    else
      print(command_.prefix, now);
    std::fflush(stdout);
  }

  // One report for each change, until the process is ended.
  asio::awaitable<void> watch(consul::client& consul, semaphore_administration& admin) {
    consul::read_options changes;
    const std::string keys = command_.prefix + "/", all;
    for (;;) {
      const auto answer = co_await consul.keys(keys, all, changes);  // before the read, so that no change is missed
      changes.index = consul::next_index(changes.index, answer.meta.index);
      co_await inspect(consul, admin);
    }
  }

  asio::awaitable<void> inspect(consul::client& consul, semaphore_administration& admin) {
    semaphore_status now;
    error_code error;
    diagnostics why;
    const consul::request_options options{.diag = &why};
    std::tie(error, now) = co_await admin.inspect(options, asio::as_tuple(asio::use_awaitable));
    if (error == error::not_a_semaphore)
      now = co_await inspect_mutex(consul);
    else if (error)
      throw error_with_diagnostics(error, why);
    show(now);
    status_ = now.exists ? status_done : status_refused;
  }

  // A mutex is a key and the entries below it. It is shown like a semaphore of limit 1.
  asio::awaitable<semaphore_status> inspect_mutex(consul::client& consul) {
    const std::string key = command_.prefix + "/.lock";
    auto answer = co_await consul.list(key);
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
      } else {
        now.queue.push_back(std::move(one));
      }
    }
    std::erase_if(now.queue, [&](const contender_status& each) {
      return !now.holders.empty() && each.session == now.holders.front().session;
    });
    for (std::size_t place = 0; place < now.queue.size(); ++place) now.queue[place].place = place + 1;
    co_return now;
  }

  // The slot of `holdfast run`, as its variables describe it.
  asio::awaitable<void> verify(consul::client& consul, semaphore_administration& admin) {
    status_ = status_unknown;
    bool held = false;
    if (command_.limit == 1) {
      const auto answer = co_await consul.get(command_.prefix + "/.lock");
      held = answer.value && answer.value->session == command_.session;
    } else {
      const semaphore_status now = co_await admin.inspect();
      for (const contender_status& each : now.holders) held = held || each.session == command_.session;
    }
    status_ = held ? status_done : status_not_held;
    if (command_.json)
      std::printf("%s\n", json::serialize(json::object{{"held", held}, {"session", command_.session}}).c_str());
    else
      std::printf("%s\n", held ? "held" : "not held");
  }

  const operator_command& command_;
  asio::io_context io_{1};
  int status_ = status_done;
};

// Asks before a command that cannot be undone.
bool is_confirmed(const operator_command& command) {
  const bool asks = command.what == kind::evict || command.what == kind::destroy;
  if (!asks || command.yes) return true;
  if (isatty(STDIN_FILENO) == 0) {
    std::fprintf(stderr, "holdfast: this cannot be undone, and nobody can be asked: add --yes\n");
    return false;
  }
  std::fprintf(stderr, "%s %s. This cannot be undone. Go on? [y/N] ", command.what == kind::evict ? "Evict" : "Destroy",
               printable(command.what == kind::evict ? command.session : command.prefix).c_str());
  std::string answer;
  std::getline(std::cin, answer);
  return answer == "y" || answer == "yes";
}

}  // namespace

int operate(const operator_command& command) {
  if (!is_confirmed(command)) return status_refused;
  try {
    return operation(command).run();
  } catch (const std::exception& failure) {
    std::fprintf(stderr, "holdfast: %s\n", printable(failure.what()).c_str());
    return command.what == kind::verify ? status_unknown : status_refused;
  }
}

}  // namespace holdfast::cli
