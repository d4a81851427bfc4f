// SPDX-FileCopyrightText: The holdfast authors
// SPDX-License-Identifier: BSL-1.0

// The worker process of the fault tests on RabbitMQ. It takes slots, holds them for a while, releases them, and writes
// into the journal when it believes that it holds one. It uses only the public interface of the library. Log lines go
// to stdout.
//
//   rabbitmq_worker --url=URL --name=SEMAPHORE --log=FILE --who=WORKER [OPTION]...
//   - --create-with=N
//   - --coroutines=N: the number of coroutines that take turns
//   - --lease=MS
//   - --hold=MS: how long a slot is held, unless it is revoked
//   - --first-hold=MS: the same for the first turn of each coroutine
//   - --busy=MS: for how long SIGUSR1 keeps the thread busy
//   - --poll=MS: how often it asks for free slots while it waits
//   - --stay=1: slots are held for their whole time although they are revoked
//   - --lease-extra=MS: how much longer than a lease it keeps a slot without a token before it holds it
//   - --metrics=FILE: a file for the metrics of the semaphore and the client. It is written again ten times a second
//
// SIGUSR1 keeps the only thread busy, so that the library cannot work. Meanwhile the process asks its slots whether
// they are held. SIGUSR2 ends the present holds. SIGTERM ends the process when all is released and closed.

#include <algorithm>
#include <boost/asio/as_tuple.hpp>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/signal_set.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/this_coro.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <chrono>
#include <csignal>
#include <cstdint>
#include <exception>
#include <filesystem>
#include <fstream>
#include <holdfast/prometheus.hpp>
#include <holdfast/rabbitmq.hpp>
#include <iostream>
#include <map>
#include <stdexcept>
#include <stop_token>
#include <string>
#include <string_view>
#include <thread>
#include <utility>

#include "support/invariants.hpp"
#include "support/journal.hpp"

namespace {

namespace asio = boost::asio;
using namespace std::chrono_literals;
using holdfast::protocol::time_point;
using holdfast::test::journal;
using holdfast::test::journal_entry;
using holdfast::test::journal_event;
using holdfast::test::journal_now;
using std::chrono::milliseconds;

constexpr auto as_result = asio::as_tuple(asio::use_awaitable);
/// How often a holder checks whether its lease has been extended, and whether it must end.
constexpr auto look_every = 10ms;
/// How often a busy thread checks its slots.
constexpr auto look_while_busy = 2ms;
/// Two readings of one lease differ by the time between reading two clocks. Verifications move the lease by far more.
constexpr auto same_lease = 2ms;
constexpr auto after_a_failure = 50ms;
constexpr auto metrics_every = 100ms;

struct arguments {
  std::string url{}, name{}, log{}, who{}, metrics{};
  std::uint32_t create_with = 0;
  int coroutines = 1;
  bool stay = false;
  milliseconds lease = 2s, hold = 100ms, first_hold = -1ms, busy = 6s, poll = 1s, lease_extra = 0ms;
};

arguments parse(int count, char** words) {
  arguments result;
  for (int i = 1; i < count; ++i) {
    const std::string_view word = words[i];
    const auto equals = word.find('=');
    if (equals == std::string_view::npos) throw std::invalid_argument("no value: " + std::string(word));
    const std::string_view name = word.substr(0, equals);
    const std::string value(word.substr(equals + 1));
    if (name == "--url")
      result.url = value;
    else if (name == "--name")
      result.name = value;
    else if (name == "--log")
      result.log = value;
    else if (name == "--who")
      result.who = value;
    else if (name == "--metrics")
      result.metrics = value;
    else if (name == "--create-with")
      result.create_with = static_cast<std::uint32_t>(std::stoul(value));
    else if (name == "--coroutines")
      result.coroutines = std::stoi(value);
    else if (name == "--lease")
      result.lease = milliseconds(std::stoll(value));
    else if (name == "--hold")
      result.hold = milliseconds(std::stoll(value));
    else if (name == "--first-hold")
      result.first_hold = milliseconds(std::stoll(value));
    else if (name == "--busy")
      result.busy = milliseconds(std::stoll(value));
    else if (name == "--poll")
      result.poll = milliseconds(std::stoll(value));
    else if (name == "--stay")
      result.stay = value == "1";
    else if (name == "--lease-extra")
      result.lease_extra = milliseconds(std::stoll(value));
    else
      throw std::invalid_argument("unknown option " + std::string(word));
  }
  if (result.name.empty() || result.log.empty() || result.who.empty())
    throw std::invalid_argument("--name, --log and --who are needed");
  if (result.first_hold < 0ms) result.first_hold = result.hold;
  return result;
}

/// The time until which the slot is believed in. It is never earlier than the true time, and at most a millisecond
/// later, even if this process is stopped between reading the two clocks.
time_point lease_of(const holdfast::hold& held) {
  for (;;) {
    const time_point before = journal_now();
    const auto left = held.valid_for();
    const time_point after = journal_now();
    if (after - before < 1ms) return after + left;
  }
}

void rethrow(std::exception_ptr failure) {
  if (failure) std::rethrow_exception(failure);
}

/// A slot that a coroutine holds, and what the journal says about it.
struct belief {
  const holdfast::rabbitmq::slot* slot;
  int index;
  time_point lease{};
  bool over = false;
};

class worker {
public:
  worker(asio::io_context& io, arguments given)
      : given_(std::move(given)),
        log_(given_.log),
        client_(io, config()),
        sem_(client_, options()),
        endings_(io, SIGTERM, SIGINT),
        commands_(io, SIGUSR1, SIGUSR2) {
    metrics_.add(sem_);
    add_to(metrics_, client_, given_.who);
  }

  asio::awaitable<void> run() {
    const auto ex = co_await asio::this_coro::executor;
    asio::co_spawn(ex, obey(), rethrow);
    if (!given_.metrics.empty()) asio::co_spawn(ex, write_metrics(), rethrow);
    for (int i = 0; i != given_.coroutines; ++i) asio::co_spawn(ex, take_turns(i), rethrow);
    co_await endings_.async_wait(as_result);
    ending_ = true;
    asio::steady_timer timer(ex);
    while (!beliefs_.empty()) {
      timer.expires_after(look_every);
      co_await timer.async_wait(as_result);
    }
    co_await sem_.close(as_result);  // completes the acquires of waiters
    client_.close();
    commands_.cancel();
  }

private:
  holdfast::rabbitmq::config config() const {
    holdfast::rabbitmq::config result;
    result.address = given_.url;
    result.log = [](const holdfast::log_event& event) { std::cout << event.text() << std::endl; };
    return result;
  }

  holdfast::rabbitmq::semaphore_options options() const {
    holdfast::rabbitmq::semaphore_options result;
    result.name = given_.name;
    result.create_with = given_.create_with;
    result.lease = given_.lease;
    result.tuning.poll_interval = given_.poll;
    result.tuning.lease_extra = given_.lease_extra;
    result.log = [](const holdfast::log_event& event) { std::cout << event.text() << std::endl; };
    return result;
  }

  /// Carries out the signals until the end.
  asio::awaitable<void> obey() {
    for (;;) {
      const auto [failure, number] = co_await commands_.async_wait(as_result);
      if (failure) break;
      if (number == SIGUSR1)
        be_busy();
      else
        ++holds_to_end_;
    }
  }

  /// Writes the metrics until the end. A reader never finds half of them.
  asio::awaitable<void> write_metrics() {
    const std::filesystem::path place = given_.metrics, fresh = given_.metrics + ".new";
    asio::steady_timer timer(co_await asio::this_coro::executor);
    while (!ending_) {
      std::ofstream(fresh) << metrics_.text();
      std::filesystem::rename(fresh, place);
      timer.expires_after(metrics_every);
      co_await timer.async_wait(as_result);
    }
  }

  void be_busy() {
    const auto end = std::chrono::steady_clock::now() + given_.busy;
    while (std::chrono::steady_clock::now() < end) {
      for (auto& [index, each] : beliefs_) end_if_lost(*each);
      std::this_thread::sleep_for(look_while_busy);
    }
  }

  asio::awaitable<void> take_turns(int index) {
    asio::steady_timer timer(co_await asio::this_coro::executor);
    milliseconds time = given_.first_hold;
    while (!ending_) {
      log_.write(entry_of(journal_event::asked, index));
      auto [failure, slot] = co_await sem_.acquire(as_result);
      if (ending_) break;
      if (failure) {
        log_.write(entry_of(journal_event::failed, index, failure.message()));
        timer.expires_after(after_a_failure);
        co_await timer.async_wait(as_result);
        continue;
      }
      co_await hold(index, slot, std::exchange(time, given_.hold));
      co_await slot.release(as_result);  // also if it is lost; the release then fails
    }
    log_.write(entry_of(journal_event::gone, index));
  }

  asio::awaitable<void> hold(int index, const holdfast::rabbitmq::slot& slot, milliseconds time) {
    belief here{&slot, index, lease_of(slot)};
    beliefs_[index] = &here;
    note(journal_event::enter, here);
    const auto end = std::chrono::steady_clock::now() + time;
    const int holds_to_end = holds_to_end_;
    asio::steady_timer timer(co_await asio::this_coro::executor);
    const std::stop_callback at_once(slot.stop_token(), [&] { timer.cancel(); });
    while (!here.over && !ending_ && (given_.stay || !slot.revoked()) && holds_to_end == holds_to_end_ &&
           std::chrono::steady_clock::now() < end) {
      timer.expires_at(std::min(end, std::chrono::steady_clock::now() + look_every));
      co_await timer.async_wait(as_result);
      end_if_lost(here);
      renew(here);
    }
    if (!here.over) note(journal_event::leave, here, slot.revoked() ? " revoked" : "");
    beliefs_.erase(index);
  }

  void end_if_lost(belief& which) {
    if (which.over || which.slot->held()) return;
    which.over = true;
    const std::string_view reason = to_string(which.slot->lost_because());
    note(journal_event::lost, which, " " + std::string(reason));
  }

  void renew(belief& which) {
    if (which.over) return;
    const time_point until = lease_of(*which.slot);
    if (until - which.lease <= same_lease) return;
    which.lease = until;
    note(journal_event::lease, which);
  }

  void note(journal_event what, const belief& which, const std::string& more = {}) {
    journal_entry entry = entry_of(what, which.index, std::to_string(which.slot->number()) + more);
    entry.lease = which.lease;
    log_.write(entry);
  }

  journal_entry entry_of(journal_event what, int index, const std::string& words = {}) const {
    journal_entry entry;
    entry.at = journal_now();
    entry.who = given_.who;
    entry.what = what;
    entry.slot = index;
    entry.words = words;
    return entry;
  }

  const arguments given_;
  journal log_;
  holdfast::rabbitmq::client client_;
  holdfast::rabbitmq::semaphore sem_;
  holdfast::prometheus_text metrics_;
  asio::signal_set endings_, commands_;
  std::map<int, belief*> beliefs_;  ///< by coroutine
  int holds_to_end_ = 0;            ///< how often SIGUSR2 has come
  bool ending_ = false;
};

}  // namespace

int main(int count, char** words) try {
  holdfast::test::end_at_a_broken_invariant();
  asio::io_context io(1);
  worker self(io, parse(count, words));
  asio::co_spawn(io, self.run(), rethrow);
  io.run();
  return 0;
} catch (const std::exception& failure) {
  std::cerr << "rabbitmq_worker: " << failure.what() << '\n';
  return 1;
}
