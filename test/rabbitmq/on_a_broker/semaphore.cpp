// SPDX-FileCopyrightText: The holdfast authors
// SPDX-License-Identifier: BSL-1.0

// The semaphore on a real broker, beside which test/rabbitmq/broker.py runs this program. HOLDFAST_SEED_CLIENT is the
// path of test/peers/seed_client.py.

#include <algorithm>
#include <boost/asio/bind_cancellation_slot.hpp>
#include <boost/asio/bind_executor.hpp>
#include <boost/asio/cancellation_signal.hpp>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/detached.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/this_coro.hpp>
#include <boost/asio/thread_pool.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <boost/test/unit_test.hpp>
#include <holdfast/prometheus.hpp>
#include <holdfast/rabbitmq.hpp>
#include <memory>
#include <optional>
#include <sstream>
#include <string>
#include <utility>
#include <vector>

#include "rabbitmq/support/neighbours.hpp"
#include "support/async.hpp"

BOOST_AUTO_TEST_SUITE(semaphore)

namespace {

using namespace holdfast;
using namespace std::chrono_literals;
namespace asio = boost::asio;
using test::a_moment;
using test::as_result;
using test::output_of;
using test::unique_name;
using test::until;

constexpr auto lease = 6s;
constexpr auto deadline = 60s;

/// A client, a name that nobody else uses, and what others do on the same broker.
struct scene {
  explicit scene(const asio::any_io_executor& executor) : ex(executor), client(ex, settings()) {}
  ~scene() { client.close(); }
  scene(const scene&) = delete;
  scene& operator=(const scene&) = delete;

  static rabbitmq::config settings() {
    rabbitmq::config its = rabbitmq::config::from_environment();
    its.log = [](const holdfast::log_event& event) { BOOST_TEST_MESSAGE(event.text()); };
    return its;
  }
  rabbitmq::semaphore_options options(std::uint32_t create_with) {
    rabbitmq::semaphore_options its;
    its.name = name;
    its.create_with = create_with;
    its.lease = lease;
    its.tuning.poll_interval = 50ms;
    its.log = [lines = lines](const holdfast::log_event& event) { lines->push_back(event.text()); };
    return its;
  }
  rabbitmq::semaphore with(std::uint32_t count) { return {client, options(count)}; }
  bool logged(const std::string& text) const {
    return std::any_of(lines->begin(), lines->end(),
                       [&](const std::string& each) { return each.find(text) != std::string::npos; });
  }

  /// Runs a program on another thread, and returns what it prints.
  asio::awaitable<std::string> run(std::string command) {
    auto body = [](std::string words) -> asio::awaitable<std::string> { co_return output_of(words); };
    return asio::co_spawn(others, body(std::move(command)), asio::use_awaitable);
  }
  asio::awaitable<std::string> ctl(const std::string& words) {
    return run("\"$HOLDFAST_BROKER\" ctl \"$HOLDFAST_BROKER_FOLDER\" " + words);
  }
  asio::awaitable<std::string> seed(const std::string& words) {
    return run("\"$HOLDFAST_SEED_CLIENT\" \"$AMQP_URL\" " + name + ' ' + words + " 2>&1");
  }
  std::string queue(std::uint32_t slot, char letter) const { return name + '-' + std::to_string(slot) + '-' + letter; }
  /// Closes the connection that has the exclusive queue, as an operator does.
  asio::awaitable<void> close_owner(std::string its_queue) {
    std::istringstream all(co_await ctl("list_queues -q --no-table-headers name owner_pid"));
    for (std::string line; std::getline(all, line);) {
      if (!line.starts_with(its_queue + '\t')) continue;
      std::string words = "close_connection '" + line.substr(its_queue.size() + 1) + "' 'by a test'";
      co_await ctl(words);
    }
  }

  asio::any_io_executor ex;
  std::string name = unique_name("shared");
  std::shared_ptr<std::vector<std::string>> lines = std::make_shared<std::vector<std::string>>();
  rabbitmq::client client;
  asio::thread_pool others{2};
};

}  // namespace

ASYNC_TEST_CASE(a_slot_is_acquired_and_released, deadline) {
  scene on(ex);
  rabbitmq::semaphore sem = on.with(2);
  BOOST_TEST(sem.name() == on.name);
  rabbitmq::slot one = co_await sem.acquire();
  rabbitmq::slot two = co_await sem.acquire();
  BOOST_TEST(one.held());
  BOOST_TEST((one.valid_for() <= lease - lease / 10));
  BOOST_TEST(one.number() + two.number() == 3);
  BOOST_TEST(sem.statistics().held == 2);
  BOOST_TEST(sem.statistics().sessions == 2);
  const std::uint32_t number = one.number();
  co_await one.release();
  BOOST_TEST((one.state() == slot_state::released));
  one = co_await sem.acquire();
  BOOST_TEST(one.number() == number);
  co_await one.release();
  co_await two.release();
  co_await sem.close();
}

ASYNC_TEST_CASE(its_statistics_leave_out_what_a_broker_does_not_know, deadline) {
  scene on(ex);
  rabbitmq::semaphore sem = on.with(1), other = on.with(1);
  prometheus_text metrics;
  metrics.add(sem);
  rabbitmq::add_to(metrics, on.client, "broker");
  rabbitmq::slot held = co_await sem.acquire();
  const rabbitmq::slot none = co_await other.try_acquire();
  BOOST_TEST(!none.valid());
  co_await until([&] { return sem.statistics().renewal.count() != 0; });
  const lock_statistics now = sem.statistics();
  BOOST_TEST(now.lease_left.count() == now.renewal.count());
  BOOST_TEST(now.limit == 1u);
  BOOST_TEST(!now.place.has_value());
  const broker_statistics counted = on.client.statistics();
  BOOST_TEST(counted.requests_ok > 0u);
  BOOST_TEST(counted.requests_refused > 0u);
  BOOST_TEST(counted.connections_open >= 1u);
  BOOST_TEST(!counted.has_alarm);
  const std::string text = metrics.text();
  const std::string holds = "holdfast_holds{lock=\"" + on.name + "\",kind=\"rabbitmq_semaphore\"} 1\n";
  BOOST_TEST(text.find(holds) != std::string::npos, text);
  BOOST_TEST(text.find("holdfast_queue_place") == std::string::npos, text);
  BOOST_TEST(text.find("holdfast_broker_info{client=\"broker\",address=\"" + counted.address) != std::string::npos,
             text);
  co_await held.release();
}

/// In an alarm, the broker reads nothing more from a connection that has published. It notices the end of the
/// connection.
ASYNC_TEST_CASE(a_release_in_an_alarm_leaves_the_slot_to_the_end_of_its_connection, deadline) {
  scene on(ex);
  std::vector<holdfast::log_kind> log;
  rabbitmq::config settings = scene::settings();
  settings.log = [&](const holdfast::log_event& event) { log.push_back(event.kind); };
  rabbitmq::client client(ex, settings);
  rabbitmq::semaphore sem(client, on.options(2)), other = on.with(2);
  rabbitmq::slot first = co_await sem.acquire();
  rabbitmq::slot second = co_await sem.acquire();
  co_await on.ctl("set_vm_memory_high_watermark 0.000001");
  const auto [code] = co_await first.release(as_result);
  BOOST_TEST(code == error::connection_lost, code.message());
  co_await second.release();  // the process has heard of the alarm, so this one publishes nothing
  rabbitmq::slot next = co_await other.acquire();
  rabbitmq::slot last = co_await other.acquire();
  BOOST_TEST(next.held(), "in the alarm");
  BOOST_TEST(last.held(), "in the alarm");
  BOOST_TEST((log == std::vector{log_kind::broker_alarm}));
  co_await on.ctl("set_vm_memory_high_watermark absolute 1GiB");
  co_await until([&] { return log.size() == 2; });
  BOOST_TEST((log.back() == log_kind::broker_alarm_over));
  BOOST_TEST(!client.statistics().has_alarm);
  co_await next.release();
  co_await last.release();
  co_await sem.close();
  client.close();
}

ASYNC_TEST_CASE(a_missing_semaphore_is_an_error, deadline) {
  scene on(ex);
  rabbitmq::semaphore sem = on.with(0);
  diagnostics why;
  const operation_options reporting{.diag = &why};
  const auto [code, slot] = co_await sem.acquire(reporting, as_result);
  BOOST_TEST(code == error::no_semaphore);
  BOOST_TEST(!slot.valid());
  BOOST_TEST(why.key == on.name);
}

ASYNC_TEST_CASE(an_attempt_does_not_wait_for_a_release, deadline) {
  scene on(ex);
  rabbitmq::semaphore sem = on.with(1), other = on.with(1);
  const rabbitmq::slot held = co_await sem.try_acquire();
  BOOST_TEST(held.held());
  const rabbitmq::slot none = co_await sem.try_acquire();
  BOOST_TEST(!none.valid());
  const rabbitmq::slot elsewhere = co_await other.try_acquire();
  BOOST_TEST(!elsewhere.valid());
  const rabbitmq::slot late = co_await other.try_acquire_for(200ms);
  BOOST_TEST(!late.valid());
}

ASYNC_TEST_CASE(an_acquire_with_a_time_limit_gets_a_slot_in_that_time, deadline) {
  scene on(ex);
  rabbitmq::semaphore sem = on.with(1), other = on.with(1);
  rabbitmq::slot held = co_await sem.acquire();
  auto releasing = [&]() -> asio::awaitable<void> {
    co_await until([&] { return other.statistics().waiting == 1; });
    co_await held.release();
  };
  asio::co_spawn(ex, releasing(), asio::detached);
  const rabbitmq::slot got = co_await other.try_acquire_for(50s);
  BOOST_TEST(got.held());
}

ASYNC_TEST_CASE(a_cancelled_acquire_takes_nothing, deadline) {
  scene on(ex);
  rabbitmq::semaphore sem = on.with(1), other = on.with(1);
  rabbitmq::slot held = co_await sem.acquire();
  asio::cancellation_signal stop;
  std::optional<error_code> ended;
  other.acquire(asio::bind_cancellation_slot(
      stop.slot(), asio::bind_executor(ex, [&](error_code code, const rabbitmq::slot&) { ended = code; })));
  co_await until([&] { return other.statistics().waiting == 1; });
  stop.emit(asio::cancellation_type::terminal);
  co_await until([&] { return ended.has_value(); });
  BOOST_TEST(*ended == asio::error::operation_aborted);
  BOOST_TEST(other.statistics().waiting == 0);
  co_await held.release();
  held = co_await sem.acquire();
  BOOST_TEST(held.held());
}

ASYNC_TEST_CASE(close_ends_waits_and_slots_and_leaves_nothing, deadline) {
  scene on(ex);
  std::optional<rabbitmq::semaphore> sem(on.with(1));
  std::optional<rabbitmq::slot> held(co_await sem->acquire());
  std::optional<error_code> waited;
  sem->acquire(asio::bind_executor(ex, [&](error_code code, const rabbitmq::slot&) { waited = code; }));
  held->wait_lost(asio::bind_executor(ex, [&](error_code, loss_reason reason) {
    BOOST_TEST(reason == loss_reason::closed);
    held.reset();
  }));
  co_await sem->close();
  co_await until([&] { return waited.has_value(); });
  BOOST_TEST(*waited == error::closed);
  BOOST_TEST(!held.has_value());
  const auto [code, none] = co_await sem->acquire(as_result);
  BOOST_TEST(code == error::closed);
  rabbitmq::semaphore next = on.with(1);
  const rabbitmq::slot clean = co_await next.try_acquire();  // no B, and a token
  BOOST_TEST(clean.held());
}

ASYNC_TEST_CASE(a_closed_semaphore_keeps_no_connection, deadline) {
  scene on(ex);
  rabbitmq::semaphore_options its = on.options(1);
  its.tuning.session_idle_timeout = 24h;
  rabbitmq::semaphore sem(on.client, its), waiting(on.client, its);
  rabbitmq::slot held = co_await sem.acquire();
  std::optional<error_code> waited;
  waiting.acquire(asio::bind_executor(ex, [&](error_code code, const rabbitmq::slot&) { waited = code; }));
  co_await until([&] { return waiting.statistics().waiting == 1; });
  co_await held.release();
  co_await until([&] { return waited.has_value(); });
  BOOST_TEST(!*waited);
  co_await sem.close();
  co_await waiting.close();
  const std::string mine = ':' + std::to_string(::getpid());
  for (std::string all = mine; all.find(mine) != std::string::npos;)
    all = co_await on.ctl("list_connections -q --no-table-headers client_properties");
}

ASYNC_TEST_CASE(a_closed_client_closes_its_semaphores, deadline) {
  scene on(ex);
  rabbitmq::semaphore sem = on.with(1);
  const rabbitmq::slot held = co_await sem.acquire();
  on.client.close();
  const loss_reason reason = co_await held.wait_lost();
  BOOST_TEST(reason == loss_reason::closed);
  const auto [code, none] = co_await sem.acquire(as_result);
  BOOST_TEST(code == error::closed);
}

ASYNC_TEST_CASE(a_deleted_b_is_a_loss, deadline) {
  scene on(ex);
  rabbitmq::semaphore sem = on.with(1);
  rabbitmq::slot held = co_await sem.acquire();
  const std::stop_token stop = held.stop_token();
  co_await on.ctl("-q delete_queue " + on.queue(1, 'B'));
  const loss_reason reason = co_await held.wait_lost();
  BOOST_TEST(reason == loss_reason::removed);
  BOOST_TEST(held.lost_because() == loss_reason::removed);
  BOOST_TEST(!held.held());
  co_await until([&] { return stop.stop_requested(); });
  const auto [code] = co_await held.release(as_result);
  BOOST_TEST(code == error::slot_lost);
  co_await until([&] { return on.logged("slot of " + on.name + " lost: removed (slot number 1)"); });
  BOOST_TEST(sem.statistics().lost.total() == 1);
}

ASYNC_TEST_CASE(the_end_of_a_connection_is_a_loss, deadline) {
  scene on(ex);
  rabbitmq::semaphore sem = on.with(1);
  rabbitmq::slot held = co_await sem.acquire();
  co_await on.close_owner(on.queue(1, 'B'));
  const loss_reason reason = co_await held.wait_lost();
  BOOST_TEST(reason == loss_reason::session_invalidated);
  BOOST_TEST(held.loss_details().to_string().find("by a test") != std::string::npos);
  const rabbitmq::slot unclean = co_await sem.try_acquire();  // the holder has left no token
  BOOST_TEST(!unclean.valid());
  held = rabbitmq::slot();
  held = co_await sem.acquire();
  BOOST_TEST(held.held());
}

ASYNC_TEST_CASE(a_deleted_a_is_a_revocation, deadline) {
  scene on(ex);
  rabbitmq::semaphore sem = on.with(1);
  rabbitmq::slot held = co_await sem.acquire();
  BOOST_TEST(!held.revoked());
  co_await on.seed("shrink 1");
  co_await held.wait_revoked();
  BOOST_TEST(held.revoked());
  BOOST_TEST(held.held());
  co_await held.release();
}

ASYNC_TEST_CASE(a_handoff_in_the_process_makes_no_request, deadline) {
  scene on(ex);
  rabbitmq::semaphore_options its = on.options(1);
  its.tuning.local_handoff_time = 24h;
  rabbitmq::semaphore sem(on.client, its);
  rabbitmq::slot first = co_await sem.acquire();
  std::optional<rabbitmq::slot> second;
  sem.acquire(asio::bind_executor(ex, [&](error_code, rabbitmq::slot got) { second = std::move(got); }));
  co_await until([&] { return sem.statistics().waiting == 1; });
  const auto left = first.valid_for();
  co_await first.release();
  co_await until([&] { return second.has_value(); });
  BOOST_TEST(second->held());
  BOOST_TEST((second->valid_for() < left));  // no request has been answered meanwhile
  BOOST_TEST(sem.statistics().handoffs == 1);
}

ASYNC_TEST_CASE(many_coroutines_are_never_above_the_limit, deadline) {
  scene on(ex);
  rabbitmq::semaphore one = on.with(2), other = on.with(2);
  int inside = 0, most = 0, done = 0;
  std::vector<bool> used(3);
  auto user = [&](rabbitmq::semaphore& sem) -> asio::awaitable<void> {
    for (int i = 0; i != 5; ++i) {
      co_await with_slot(sem, [&](rabbitmq::slot& s) -> asio::awaitable<void> {
        most = std::max(most, ++inside);
        BOOST_TEST(!used.at(s.number()));
        used.at(s.number()) = true;
        co_await a_moment(1ms);
        used.at(s.number()) = false;
        --inside;
      });
    }
    ++done;
  };
  for (int i = 0; i != 20; ++i) asio::co_spawn(ex, user(i % 2 == 0 ? one : other), asio::detached);
  co_await until([&] { return done == 20; });
  BOOST_TEST(most <= 2);
  BOOST_TEST(one.statistics().granted + other.statistics().granted == 100);
}

ASYNC_TEST_CASE(a_seed_client_shares_the_slots, deadline) {
  scene on(ex);
  co_await on.seed("create 2");
  rabbitmq::semaphore sem = on.with(0), other = on.with(0);
  rabbitmq::slot one = co_await sem.acquire();  // after a lease, because a seed client leaves no token
  rabbitmq::slot two = co_await other.acquire();
  BOOST_TEST(one.number() + two.number() == 3);
  std::string said = co_await on.seed("try");
  BOOST_TEST(said.starts_with("none is free"), said);
  const std::string number = std::to_string(two.number());
  co_await two.release();
  said = co_await on.seed("try");
  BOOST_TEST(said == "acquired " + number + "\nreleased " + number + "\n", said);
}

BOOST_AUTO_TEST_SUITE_END()
