// SPDX-FileCopyrightText: The holdfast authors
// SPDX-License-Identifier: BSL-1.0

#include "cli/operate.hpp"

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
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <tuple>
#include <utility>
#include <vector>

#include "cli/arguments.hpp"
#include "cli/explain.hpp"
#include "cli/last_success.hpp"
#include "cli/status.hpp"
#include "cli/terminal.hpp"
#include "cli/top.hpp"

namespace holdfast::cli {

namespace {

namespace asio = boost::asio;
namespace json = boost::json;
using kind = operator_command::kind;

// Asks whether to go on. If stdin is no terminal, the answer is no.
bool is_confirmed(const std::string& what) {
  if (!is_terminal_stdin()) {
    std::fprintf(stderr, "holdfast: this cannot be undone, and nobody can be asked: add --yes\n");
    return false;
  }
  std::fprintf(stderr, "%s This cannot be undone. Go on? [y/N] ", printable(what).c_str());
  std::string answer;
  std::getline(std::cin, answer);
  return answer == "y" || answer == "yes";
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
    switch (command_.what) {
      case kind::list:
        co_return co_await list(consul);
      case kind::explain:
        co_return co_await explain(consul);
      case kind::top:
        co_return co_await top(consul, command_.prefix);
      case kind::inspect:
        co_return co_await inspect(consul);
      case kind::watch:
        co_return co_await watch(consul);
      case kind::verify:
        co_return co_await verify(consul);
      case kind::create:
      case kind::resize:
      case kind::close:
      case kind::open:
      case kind::drain:
      case kind::revoke:
      case kind::evict:
      case kind::sweep:
      case kind::destroy:
      case kind::grow:
      case kind::shrink:
      case kind::wait:
        break;
    }
    co_await change(consul);
  }

  // Ends the session, after a question that says whose it is.
  asio::awaitable<void> evict(consul::client& consul, semaphore_administration& admin) {
    const lock_status now = co_await read_status(consul, command_.prefix);
    bool is_there = false;
    for (const auto* const each : {&now.holders, &now.queue})
      for (const contender_status& one : *each) {
        if (one.session != command_.session) continue;
        is_there = true;
        std::fprintf(stderr, "%s %s %s\n", printable(one.session).c_str(), one.place == 0 ? "holds" : "waits for",
                     printable(command_.prefix + (one.description.empty() ? "" : ": " + one.description)).c_str());
      }
    // A semaphore may have leftovers of a dead process, which need no question.
    if (!is_there && now.kind == lock_kind::semaphore) co_return co_await admin.evict(command_.session);
    if (!is_there) throw usage_error(command_.session + " neither holds " + command_.prefix + " nor waits for it");
    const auto info = co_await consul.session(command_.session);
    if (info.value) {
      const std::string& name = info.value->name;
      std::fprintf(stderr, "The session %s. All that it holds ends with it.\n",
                   name.empty() ? "has no name" : ("is named '" + printable(name) + "'").c_str());
    }
    if (!command_.yes && !is_confirmed("Evict " + command_.session + ".")) {
      status_ = status_refused;
      co_return;
    }
    if (now.kind == lock_kind::semaphore)
      co_await admin.evict(command_.session);
    else
      co_await consul.destroy_session(command_.session);
    std::string text = "evicted " + command_.session;
    if (info.value && info.value->lock_delay.count() != 0)
      text += "; its keys stay taken for " + shown(std::chrono::ceil<std::chrono::seconds>(info.value->lock_delay)) +
              ", the lock delay of its session";
    std::printf("%s\n", printable(text).c_str());
  }

  asio::awaitable<void> revoke(semaphore_administration& admin) {
    co_await admin.revoke(command_.session);
    std::printf("asked %s to release its slot; if it does not, evict ends its session\n",
                printable(command_.session).c_str());
  }

  // Only semaphores have what these commands change.
  asio::awaitable<void> require_semaphore(consul::client& consul) {
    const lock_status now = co_await read_status(consul, command_.prefix);
    if (!now.exists || now.kind == lock_kind::semaphore) co_return;
    throw usage_error(
        command_.prefix + " is " + (now.kind == lock_kind::mutex ? "a mutex or an election" : "a mutex set") +
        ", and this command is for semaphores only: the keys belong to HashiCorp's clients, too. evict ends "
        "the session of a holder");
  }

  // A command that is not carried out here fails.
  asio::awaitable<void> change(consul::client& consul) {
    administration_options which;
    which.prefix = command_.prefix;
    semaphore_administration admin(consul, std::move(which));
    if (command_.what != kind::evict) co_await require_semaphore(consul);
    switch (command_.what) {
      case kind::create:
        co_return co_await admin.create(command_.limit);
      case kind::resize:
        co_return co_await admin.resize(command_.limit);
      case kind::close:
        co_return co_await admin.close();
      case kind::open:
        co_return co_await admin.open();
      case kind::drain:
        co_await admin.close();
        co_return co_await admin.wait_until_drained(command_.within.value_or(std::chrono::nanoseconds::max()));
      case kind::revoke:
        co_return co_await revoke(admin);
      case kind::evict:
        co_return co_await evict(consul, admin);
      case kind::sweep: {
        const swept what = co_await admin.sweep();
        if (command_.json)
          std::printf("%s\n",
                      json::serialize(json::object{{"holders", what.holders}, {"entries", what.entries}}).c_str());
        else
          std::printf("removed: %zu dead holders, %zu dead entries\n", static_cast<std::size_t>(what.holders),
                      static_cast<std::size_t>(what.entries));
        co_return;
      }
      case kind::destroy:
        if (!command_.yes) {
          const lock_status now = co_await read_status(consul, command_.prefix);
          print(command_.prefix, now);
          std::fflush(stdout);
          if (!is_confirmed("Destroy " + command_.prefix + ".")) {
            status_ = status_refused;
            co_return;
          }
        }
        if (command_.even_in_use) co_return co_await admin.destroy_in_use();
        co_return co_await admin.destroy();
      case kind::inspect:
      case kind::watch:
      case kind::verify:
      case kind::list:
      case kind::explain:
      case kind::top:
      case kind::grow:
      case kind::shrink:
      case kind::wait:
        break;
    }
    throw usage_error("this command is only possible with --rabbitmq");
  }

  void show(const lock_status& now) const {
    if (command_.json)
      std::printf("%s\n", json::serialize(to_json(command_.prefix, now)).c_str());
    else
      print(command_.prefix, now);
    std::fflush(stdout);
  }

  // Reports the state once, and again after each change below the prefix, until a read fails or the process is ended.
  // Changes that follow each other quickly may share a report. A report also comes when the query's wait has passed
  // without a change.
  asio::awaitable<void> watch(consul::client& consul) {
    consul::read_options changes;
    const std::string keys = command_.prefix + "/", all;
    for (;;) {
      const auto answer = co_await consul.keys(keys, all, changes);  // before the read, so that no change is missed
      changes.index = consul::next_index(changes.index, answer.meta.index);
      co_await inspect(consul);
    }
  }

  asio::awaitable<void> list(consul::client& consul) {
    const std::string folder = command_.prefix.empty() ? "" : command_.prefix + "/";
    const auto answer = co_await consul.keys(folder);
    for (const std::string& prefix : places_of_locks(answer.value)) {
      try {
        const lock_status now = co_await read_status(consul, prefix);
        if (!now.exists) continue;
        if (command_.json)
          std::printf("%s\n", json::serialize(to_json(prefix, now)).c_str());
        else
          print_line(prefix, now);
      } catch (const boost::system::system_error& failure) {
        std::fprintf(stderr, "holdfast: %s: %s\n", printable(prefix).c_str(), printable(failure.what()).c_str());
        status_ = status_refused;
      }
    }
  }

  asio::awaitable<void> explain(consul::client& consul) {
    const lock_status now = co_await read_status(consul, command_.prefix);
    std::map<std::string, consul::session_info> sessions;
    for (const contender_status& each : now.holders) {
      try {
        const auto answer = co_await consul.session(each.session);
        if (answer.value) sessions.emplace(each.session, *answer.value);
      } catch (const boost::system::system_error& failure) {  // the rest is told all the same
        std::fprintf(stderr, "holdfast: session %s: %s\n", printable(each.session).c_str(),
                     printable(failure.what()).c_str());
      }
    }
    const auto maker = [](const std::string& session) { return maker_of(session); };
    for (const std::string& line : explanation(command_.prefix, now, command_.session, sessions, maker))
      std::printf("%s\n", printable(line).c_str());
    const auto success = co_await consul.get(key_of_last_success(command_.prefix));
    const auto record = success.value ? parse_last_success(success.value->value) : std::nullopt;
    if (record) std::printf("Its command last succeeded at %s.\n", printable(shown(*record)).c_str());
    status_ = now.exists ? status_done : status_refused;
  }

  asio::awaitable<void> inspect(consul::client& consul) {
    lock_status now = co_await read_status(consul, command_.prefix);
    // The value of an election's key is for its clients. The name of the session has the host and the process.
    if (now.kind == lock_kind::mutex)
      for (contender_status& each : now.holders) {
        const auto info = co_await consul.session(each.session);
        if (info.value && !info.value->name.empty()) each.description += ", session '" + info.value->name + "'";
      }
    show(now);
    status_ = now.exists ? status_done : status_refused;
  }

  // The slot of `holdfast run`, as its variables describe it.
  asio::awaitable<void> verify(consul::client& consul) {
    status_ = status_unknown;
    bool held = false;
    if (command_.limit == 1) {
      std::string key = command_.key;
      if (key.empty()) key = command_.prefix + "/.lock";
      const auto answer = co_await consul.get(key);
      held = answer.value && answer.value->session == command_.session;
    } else {
      const lock_status now = co_await read_status(consul, command_.prefix);
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

}  // namespace

int operate(const operator_command& command) {
  try {
    const bool asks = command.what == kind::destroy && command.rabbitmq.is_used() && !command.yes;
    if (asks && !is_confirmed("Destroy " + command.prefix + ".")) return status_refused;
    return command.rabbitmq.is_used() ? operate_on_rabbitmq(command) : operation(command).run();
  } catch (const std::exception& failure) {
    std::fprintf(stderr, "holdfast: %s\n", printable(failure.what()).c_str());
    return command.what == kind::verify ? status_unknown : status_refused;
  }
}

}  // namespace holdfast::cli
