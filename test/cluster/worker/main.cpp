// SPDX-FileCopyrightText: The holdfast authors
// SPDX-License-Identifier: BSL-1.0

// The worker process of the cluster tests. It takes slots, holds them for a while, releases them, and writes into the
// journal when it believes that it holds one. It uses only the public interface of the library. The client's log goes
// to stdout.
//
//   cluster_worker --agent=HOST:PORT[,...] --prefix=P --limit=N --log=FILE --name=NAME [OPTION]...
//   - --mutex: a mutex, whose key is PREFIX
//   - --set: a mutex set; each coroutine tries for a lock of its own
//   - --election: an election, whose key is PREFIX; turns are terms
//   - --observer: only observes the election, and takes no turns
//   - --use-recorded-limit: uses the limit of the record
//   - --numbered: numbered slots
//   - --coroutines=N: the number of coroutines that take turns
//   - --ttl=MS: the TTL of sessions
//   - --agents-node: sessions belong to the agent's node
//   - --token=T: for Consul
//   - --ca=FILE and --server-name=N: for TLS
//   - --hold=MS: how long a slot is held, unless an operator revokes it
//   - --outage-grace=MS
//   - --store=HOST:PORT (any number): is written to in each turn
//
//   cluster_worker --inside --log=FILE --name=NAME
//     The child of another lock. It is inside until it is told to end.

#include <unistd.h>

#include <algorithm>
#include <boost/asio/as_tuple.hpp>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/experimental/awaitable_operators.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/read_until.hpp>
#include <boost/asio/signal_set.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <boost/asio/write.hpp>
#include <chrono>
#include <csignal>
#include <cstdint>
#include <ctime>
#include <exception>
#include <holdfast/holdfast.hpp>
#include <iostream>
#include <stdexcept>
#include <string>
#include <string_view>
#include <tuple>
#include <utility>
#include <vector>

#include "support/invariants.hpp"
#include "support/journal.hpp"

namespace {

namespace asio = boost::asio;
using namespace std::chrono_literals;
using namespace asio::experimental::awaitable_operators;
using holdfast::error_code;
using holdfast::protocol::time_point;
using holdfast::test::journal;
using holdfast::test::journal_entry;
using holdfast::test::journal_event;
using holdfast::test::journal_now;
using std::chrono::milliseconds;

constexpr auto as_result = asio::as_tuple(asio::use_awaitable);
/// How often a holder checks whether its lease has been extended, and whether it must end.
constexpr auto look_every = 50ms;
/// Two readings of one lease differ by the time between reading two clocks. Renewals move the lease by far more.
constexpr auto same_lease = 2ms;

struct arguments {
  std::string agent{}, prefix{}, log{}, name{}, token{}, ca_file{}, server_name{};
  std::vector<std::string> stores{};
  std::uint32_t limit = 1;
  int coroutines = 1;
  milliseconds ttl = 2s, hold = 100ms, outage_grace = 0ms;
  bool inside = false, mutex = false, set = false, election = false, observer = false, use_recorded_limit = false,
       numbered = false;
  bool agents_node = false;
};

arguments parse(int count, char** words) {
  arguments result;
  for (int i = 1; i < count; ++i) {
    const std::string_view word = words[i];
    const auto equals = word.find('=');
    const std::string_view name = word.substr(0, equals);
    const std::string value(equals == std::string_view::npos ? std::string_view() : word.substr(equals + 1));
    if (name == "--agent")
      result.agent = value;
    else if (name == "--prefix")
      result.prefix = value;
    else if (name == "--log")
      result.log = value;
    else if (name == "--name")
      result.name = value;
    else if (name == "--token")
      result.token = value;
    else if (name == "--ca")
      result.ca_file = value;
    else if (name == "--server-name")
      result.server_name = value;
    else if (name == "--store")
      result.stores.push_back(value);
    else if (name == "--limit")
      result.limit = static_cast<std::uint32_t>(std::stoul(value));
    else if (name == "--coroutines")
      result.coroutines = std::stoi(value);
    else if (name == "--ttl")
      result.ttl = milliseconds(std::stoll(value));
    else if (name == "--hold")
      result.hold = milliseconds(std::stoll(value));
    else if (name == "--outage-grace")
      result.outage_grace = milliseconds(std::stoll(value));
    else if (name == "--mutex")
      result.mutex = true;
    else if (name == "--set")
      result.set = true;
    else if (name == "--election")
      result.election = true;
    else if (name == "--observer")
      result.observer = true;
    else if (name == "--use-recorded-limit")
      result.use_recorded_limit = true;
    else if (name == "--numbered")
      result.numbered = true;
    else if (name == "--agents-node")
      result.agents_node = true;
    else if (name == "--inside")
      result.inside = true;
    else
      throw std::invalid_argument("unknown option " + std::string(word));
  }
  if (result.log.empty() || result.name.empty()) throw std::invalid_argument("--log and --name are needed");
  return result;
}

/// The time until which the slot is believed in. It is never earlier than the true time, and at most a millisecond
/// later, even if this process is stopped between reading the two clocks.
time_point lease_of(const holdfast::slot& slot) {
  for (;;) {
    const time_point before = journal_now();
    const auto left = slot.valid_for();
    const time_point after = journal_now();
    if (after - before < 1ms) return after + left;
  }
}

/// Writes to a store, which answers "taken" or "refused". The answer goes into the journal and changes nothing else.
asio::awaitable<std::string> write_to_store(std::string address, std::string name, holdfast::fencing_token token) {
  const auto colon = address.rfind(':');
  asio::ip::tcp::socket socket(co_await asio::this_coro::executor);
  const asio::ip::tcp::endpoint store(asio::ip::make_address(address.substr(0, colon)),
                                      static_cast<std::uint16_t>(std::stoul(address.substr(colon + 1))));
  co_await socket.async_connect(store, asio::use_awaitable);
  const std::string request = name + ' ' + std::to_string(token.grant) + ' ' + std::to_string(token.handoff) + '\n';
  co_await asio::async_write(socket, asio::buffer(request), asio::use_awaitable);
  std::string answer;
  co_await asio::async_read_until(socket, asio::dynamic_buffer(answer), '\n', asio::use_awaitable);
  answer.pop_back();
  co_return answer;
}

void rethrow(std::exception_ptr failure) {
  if (failure) std::rethrow_exception(failure);
}

class worker {
public:
  worker(asio::io_context& io, arguments given)
      : given_(std::move(given)),
        log_(given_.log),
        client_(io.get_executor(), config()),
        stop_(io, asio::steady_timer::time_point::max()) {
    if (given_.set)
      set_ = holdfast::mutex_set(client_, set_options());
    else if (given_.mutex)
      mutex_ = holdfast::mutex(client_, mutex_options());
    else if (given_.election)
      election_ = holdfast::election(client_, election_options());
    else if (!given_.observer)
      sem_ = holdfast::semaphore(client_, options());
  }

  asio::awaitable<void> run() {
    const auto ex = co_await asio::this_coro::executor;
    if (given_.observer) asio::co_spawn(ex, observe(), rethrow);
    for (int i = 0; i != given_.coroutines && !given_.observer; ++i) asio::co_spawn(ex, take_turns(i), rethrow);
    asio::signal_set signals(ex, SIGTERM, SIGINT);
    co_await signals.async_wait(asio::use_awaitable);
    ending_ = true;
    // Holders leave at their next check. `close` completes the acquires of waiters.
    asio::steady_timer timer(ex);
    while (inside_ != 0) {
      timer.expires_after(look_every);
      co_await timer.async_wait(asio::use_awaitable);
    }
    if (given_.set)
      co_await set_.close(as_result);
    else if (given_.mutex)
      co_await mutex_.close(as_result);
    else if (!given_.election && !given_.observer)
      co_await sem_.close(as_result);
    stop_.cancel();  // ends campaigns and observers
  }

private:
  holdfast::consul::config config() const {
    holdfast::consul::config result;
    for (std::size_t begin = 0, end = 0; end != std::string::npos; begin = end + 1) {
      end = given_.agent.find(',', begin);
      result.addresses.push_back(given_.agent.substr(begin, end - begin));
    }
    result.token = given_.token;
    result.tls.ca_file = given_.ca_file;
    result.tls.server_name = given_.server_name;
    result.log = [](const holdfast::log_event& event) { std::cout << event.text() << std::endl; };
    return result;
  }

  holdfast::semaphore_options options() const {
    holdfast::semaphore_options result;
    result.prefix = given_.prefix;
    result.limit = given_.limit;
    result.description = given_.name;
    result.session_ttl = given_.ttl;
    result.tuning.outage_grace = given_.outage_grace;
    result.use_recorded_limit = given_.use_recorded_limit;
    result.numbered = given_.numbered;
    if (given_.agents_node)
      result.session_node.clear();
    else
      result.tuning.lock_delay = 1s;
    return result;
  }

  holdfast::election_options election_options() const {
    holdfast::election_options result;
    result.key = given_.prefix;
    result.session_ttl = given_.ttl;
    result.tuning.outage_grace = given_.outage_grace;
    return result;
  }

  holdfast::mutex_options mutex_options() const {
    holdfast::mutex_options result;
    result.key = given_.prefix;
    result.description = given_.name;
    result.session_ttl = given_.ttl;
    result.tuning.outage_grace = given_.outage_grace;
    return result;
  }

  holdfast::mutex_set_options set_options() const {
    holdfast::mutex_set_options result;
    result.prefix = given_.prefix;
    result.description = given_.name;
    result.session_ttl = given_.ttl;
    result.tuning.outage_grace = given_.outage_grace;
    return result;
  }

  /// Tries again until it gets the lock.
  asio::awaitable<std::tuple<error_code, holdfast::slot>> lock_of_the_set(int index) {
    asio::steady_timer timer(co_await asio::this_coro::executor);
    for (;;) {
      auto [failure, slot] = co_await set_.try_lock("task-" + std::to_string(index), as_result);
      if (failure || slot || ending_) co_return std::tuple(failure, std::move(slot));
      timer.expires_after(look_every);
      co_await timer.async_wait(asio::use_awaitable);
    }
  }

  asio::awaitable<std::tuple<error_code, holdfast::slot>> acquire(int index) {
    if (given_.set) co_return co_await lock_of_the_set(index);
    if (given_.mutex) co_return co_await mutex_.lock(as_result);
    if (given_.election) co_return co_await campaign();
    co_return co_await sem_.acquire(as_result);
  }

  asio::awaitable<std::tuple<error_code, holdfast::slot>> campaign() {
    auto result = co_await (election_.campaign(given_.name, as_result) || stop_.async_wait(as_result));
    if (result.index() != 0) co_return std::tuple(error_code(asio::error::operation_aborted), holdfast::slot());
    auto& [ec, won] = std::get<0>(result);
    co_return std::tuple(ec, holdfast::slot(std::move(won)));
  }

  asio::awaitable<void> observe() {
    holdfast::election_observer observer(client_, given_.prefix);
    while (!ending_) {
      auto result = co_await (observer.next(as_result) || stop_.async_wait(as_result));
      if (result.index() != 0) break;
      const auto& [ec, seen] = std::get<0>(result);
      if (ec) throw holdfast::system_error(ec);
      journal_entry entry = entry_of(journal_event::saw, 0, seen ? seen->value : "nobody");
      entry.token.grant = seen ? seen->index : 0;
      log_.write(entry);
    }
  }

  void note(journal_event what, int index, const std::string& words = {}) { log_.write(entry_of(what, index, words)); }

  void note(journal_event what, int index, const holdfast::slot& slot, time_point lease, const std::string& words) {
    journal_entry entry = entry_of(what, index, words);
    entry.token = slot.fencing_token();
    entry.lease = lease;
    log_.write(entry);
  }

  journal_entry entry_of(journal_event what, int index, const std::string& words) const {
    journal_entry entry;
    entry.at = journal_now();
    entry.who = given_.name;
    entry.what = what;
    entry.slot = index;
    entry.words = words;
    return entry;
  }

  asio::awaitable<void> take_turns(int index) {
    asio::steady_timer timer(co_await asio::this_coro::executor);
    while (!ending_) {
      note(journal_event::asked, index);
      auto [failure, slot] = co_await acquire(index);
      if (ending_) break;
      if (failure) {
        note(journal_event::failed, index, failure.message());
        timer.expires_after(look_every);
        co_await timer.async_wait(asio::use_awaitable);
        continue;
      }
      ++inside_;
      co_await hold(index, slot);
      --inside_;
      co_await slot.release(as_result);  // also if it is lost; the release then fails
    }
    note(journal_event::gone, index);
  }

  asio::awaitable<void> hold(int index, holdfast::slot& slot) {
    time_point lease = lease_of(slot);
    const auto numbers = slot.numbers();
    note(journal_event::enter, index, slot, lease, numbers.empty() ? "" : "number " + std::to_string(numbers.front()));
    if (!given_.stores.empty()) {
      co_await write_without_looking(index, slot);
    } else {
      const auto end = std::chrono::steady_clock::now() + given_.hold;
      asio::steady_timer timer(co_await asio::this_coro::executor);
      while (slot.held() && !ending_ && !slot.revoked() && std::chrono::steady_clock::now() < end) {
        timer.expires_at(std::min(end, std::chrono::steady_clock::now() + look_every));
        co_await (slot.wait_lost(as_result) || timer.async_wait(as_result));
        if (!slot.held()) break;
        const time_point now_until = lease_of(slot);
        if (now_until - lease > same_lease) {
          lease = now_until;
          note(journal_event::lease, index, slot, lease, {});
        }
      }
    }
    if (slot.held())
      note(journal_event::leave, index, slot, lease, {});
    else
      note(journal_event::lost, index, slot, lease, std::string(to_string(slot.lost_because())));
  }

  /// Shows the use of fencing: it checks the slot, works, and then writes, though the slot may be lost by then.
  asio::awaitable<void> write_without_looking(int index, holdfast::slot& slot) {
    if (!slot.held()) co_return;
    note(journal_event::checked, index, slot, lease_of(slot), {});
    asio::steady_timer timer(co_await asio::this_coro::executor, given_.hold);
    co_await timer.async_wait(asio::use_awaitable);
    std::string answers;
    for (const std::string& store : given_.stores) {
      const std::string answer = co_await write_to_store(store, given_.name, slot.fencing_token());
      answers += (answers.empty() ? "" : " ") + answer;
    }
    note(journal_event::wrote, index, answers);
  }

  const arguments given_;
  journal log_;
  holdfast::consul::client client_;
  holdfast::semaphore sem_;
  holdfast::mutex mutex_;
  holdfast::mutex_set set_;
  holdfast::election election_;
  asio::steady_timer stop_;  ///< never expires; is cancelled at the end
  bool ending_ = false;
  int inside_ = 0;
};

/// The child of a lock without leases. It believes for as long as it lives, and writes this into the journal. It ends
/// by SIGTERM, SIGINT or SIGHUP, and when its parent has ended.
int be_inside(const arguments& given) {
  sigset_t ends;
  sigemptyset(&ends);
  for (const int each : {SIGTERM, SIGINT, SIGHUP}) sigaddset(&ends, each);
  sigprocmask(SIG_BLOCK, &ends, nullptr);
  const pid_t parent = ::getppid();
  journal log(given.log);
  journal_entry entry;
  entry.at = journal_now();
  entry.who = given.name;
  entry.what = journal_event::enter;
  entry.lease = holdfast::protocol::never;
  log.write(entry);
  const timespec while_waiting{0, 50'000'000};
  int signal = -1;
  while (signal < 0 && ::getppid() == parent) signal = sigtimedwait(&ends, nullptr, &while_waiting);
  entry.at = journal_now();
  entry.what = journal_event::leave;
  entry.words = signal < 0 ? "its parent is gone" : "signal " + std::to_string(signal);
  log.write(entry);
  return 0;
}

}  // namespace

int main(int count, char** words) try {
  holdfast::test::end_at_a_broken_invariant();
  arguments given = parse(count, words);
  if (given.inside) return be_inside(given);
  asio::io_context io(1);
  worker self(io, std::move(given));
  asio::co_spawn(io, self.run(), rethrow);
  io.run();
  return 0;
} catch (const std::exception& failure) {
  std::cerr << "cluster_worker: " << failure.what() << '\n';
  return 1;
}
