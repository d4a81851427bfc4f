// SPDX-FileCopyrightText: The holdfast authors
// SPDX-License-Identifier: BSL-1.0

// The administration of a semaphore on the fake RabbitMQ. test/rabbitmq/on_a_broker has some of it on a real one.

#include <algorithm>
#include <boost/asio/bind_cancellation_slot.hpp>
#include <boost/asio/bind_executor.hpp>
#include <boost/asio/cancellation_signal.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/this_coro.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <boost/test/unit_test.hpp>
#include <chrono>
#include <functional>
#include <holdfast/rabbitmq.hpp>
#include <holdfast/testing/broker.hpp>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "support/async.hpp"

namespace holdfast::test {

BOOST_AUTO_TEST_SUITE(rabbitmq_administration)

namespace {

using numbers = std::vector<std::uint32_t>;
using rabbitmq::semaphore_administration;
using testing::broker_fault;
/// Starts a command, and then calls the function.
using command = std::function<void(semaphore_administration&, std::function<void(error_code)>)>;

asio::awaitable<void> a_moment() {
  asio::steady_timer timer(co_await asio::this_coro::executor, 1ms);
  co_await timer.async_wait(asio::use_awaitable);
}

/// Waits until the condition holds. The deadline of the test bounds it.
template <class Condition>
asio::awaitable<void> until(Condition condition) {
  while (!condition()) co_await a_moment();
}

/// Commands that fail at their own timeout are repeated this often, one after the other. With the default timeout of
/// 10 s they would take twice `bound_of_the_hurried`.
constexpr int hurried_commands = 4;
constexpr auto bound_of_the_hurried = 20s;

/// A broker, and an administrator of the semaphore "jobs" on it.
struct scene {
  explicit scene(const asio::any_io_executor& ex, bool letter_first = false,
                 std::chrono::milliseconds request_timeout = rabbitmq::config().request_timeout)
      : executor(ex),
        on(ex),
        client(ex, {.address = on.url(), .request_timeout = request_timeout}),
        its_options(options(letter_first)),
        admin(client, its_options) {}
  ~scene() { client.close(); }
  scene(const scene&) = delete;
  scene& operator=(const scene&) = delete;

  static rabbitmq::administration_options options(bool letter_first = false) {
    rabbitmq::administration_options its;
    its.name = "jobs";
    its.lease = 2s;
    its.letter_first = letter_first;
    return its;
  }
  rabbitmq::semaphore with(std::uint32_t create_with) const {
    rabbitmq::semaphore_options its;
    its.name = "jobs";
    its.lease = 2s;
    its.create_with = create_with;
    its.tuning.poll_interval = 10ms;
    return {client, its};
  }
  bool has(const std::string& queue) const { return on.queue(queue).has_value(); }
  std::size_t tokens(std::uint32_t slot) const {
    const auto its = on.queue("jobs-" + std::to_string(slot) + "-F");
    return its ? its->ready : 0;
  }
  std::vector<std::string> queues() const {
    std::vector<std::string> names;
    for (const testing::queue_status& each : on.queues()) names.push_back(each.name);
    return names;
  }
  /// The number of slots. There must be no gap.
  std::uint32_t slots() const {
    std::uint32_t found = 0;
    for (const std::string& each : queues())
      if (each.ends_with("-A")) ++found;
    for (std::uint32_t k = 1; k <= found; ++k) BOOST_TEST(has("jobs-" + std::to_string(k) + "-A"), k);
    return found;
  }

  /// Lets another administrator send so many requests, and one more, which is carried out without an answer. Then its
  /// connection ends, and the broker notices that. Returns false if the command has fewer requests.
  asio::awaitable<bool> end_after(std::size_t requests, command start) {
    on.set_faults({{.what = broker_fault::freeze(), .queue = "jobs", .skip = requests}});
    const std::uint64_t before = on.statistics().faults;
    rabbitmq::client mortal(executor, {.address = on.url()});
    semaphore_administration its(mortal, its_options);
    std::optional<error_code> ended;
    start(its, [&](error_code code) { ended = code; });
    co_await until([&] { return ended || on.statistics().faults != before; });
    const bool is_cut = !ended;
    mortal.close();
    co_await until([&] { return ended.has_value(); });
    BOOST_TEST((!*ended || (is_cut && *ended == error::closed)));  // the mutex is released by the last request
    on.set_faults({});
    on.thaw();
    co_await until([&] { return on.statistics().connections == 0; });
    BOOST_TEST(!has("jobs"));
    co_return is_cut;
  }

  asio::any_io_executor executor;
  testing::broker on;
  rabbitmq::client client;
  rabbitmq::administration_options its_options;
  semaphore_administration admin;
};

}  // namespace

ASYNC_TEST_CASE(an_empty_object_is_not_valid) {
  semaphore_administration none;
  BOOST_TEST(!none.valid());
  scene at(ex);
  BOOST_TEST(at.admin.valid());
  BOOST_TEST((at.admin.get_executor() == ex));
  co_return;
}

ASYNC_TEST_CASE(options_are_checked) {
  scene at(ex);
  const auto check = [&](error wrong, const std::function<void(rabbitmq::administration_options&)>& change) {
    rabbitmq::administration_options its = scene::options();
    change(its);
    BOOST_CHECK_EXCEPTION(semaphore_administration(at.client, its), system_error,
                          [&](const system_error& e) { return e.code() == wrong; });
  };
  check(error::invalid_name, [](auto& its) { its.name = "jobs-0-F"; });
  check(error::invalid_ttl, [](auto& its) { its.lease = 1999ms; });
  check(error::invalid_option, [](auto& its) { its.timeout = 0ms; });
  check(error::invalid_option, [](auto& its) { its.timeout = 601s; });
  co_return;
}

ASYNC_TEST_CASE(create_makes_slots_with_tokens_and_leaves_nothing_else) {
  scene at(ex);
  co_await at.admin.create(2);
  BOOST_TEST((at.queues() == std::vector<std::string>{"jobs-1-A", "jobs-1-F", "jobs-2-A", "jobs-2-F"}));
  BOOST_TEST(at.tokens(1) == 1u);
  BOOST_TEST(at.tokens(2) == 1u);
  co_await until([&] { return at.on.statistics().connections == 0; });
  co_await at.admin.create(2);
  rabbitmq::semaphore sem = at.with(0);
  const rabbitmq::slot held = co_await sem.try_acquire();
  BOOST_TEST(held.held());
}

ASYNC_TEST_CASE(the_letter_of_the_mark_may_come_first) {
  scene at(ex, true);
  const command create = [&](semaphore_administration& its, auto then) {
    its.create(1, asio::bind_executor(ex, then));
  };
  const bool is_cut = co_await at.end_after(3, create);
  BOOST_TEST(is_cut);
  BOOST_TEST(at.has("jobs-F-0"));
  co_await at.admin.create(1);
  BOOST_TEST((at.queues() == std::vector<std::string>{"jobs-A-1", "jobs-F-1"}));
}

ASYNC_TEST_CASE(another_number_is_a_conflict_with_both) {
  scene at(ex);
  co_await at.admin.create(2);
  diagnostics why;
  const operation_options reporting{.diag = &why};
  const auto [code] = co_await at.admin.create(3, reporting, as_result);
  BOOST_TEST(code == error::limit_conflict);
  BOOST_TEST((why.limit_conflict == diagnostics::limits{2, 3}));
  BOOST_TEST(why.key == "jobs");
  BOOST_TEST(at.slots() == 2u);
}

ASYNC_TEST_CASE(grow_and_shrink_tell_the_new_number) {
  scene at(ex);
  co_await at.admin.create(1);
  std::uint32_t now = co_await at.admin.grow(2);
  BOOST_TEST(now == 3u);
  BOOST_TEST(at.slots() == 3u);
  BOOST_TEST(at.tokens(3) == 1u);
  now = co_await at.admin.shrink(1);
  BOOST_TEST(now == 2u);
  BOOST_TEST(at.slots() == 2u);
  BOOST_TEST(at.has("jobs-3-F"));
}

ASYNC_TEST_CASE(a_holder_of_a_removed_slot_is_told_and_keeps_it) {
  scene at(ex);
  co_await at.admin.create(1);
  rabbitmq::semaphore sem = at.with(0);
  rabbitmq::slot held = co_await sem.acquire();
  co_await at.admin.shrink(1);
  co_await held.wait_revoked();
  BOOST_TEST(held.held());
  rabbitmq::semaphore_status status = co_await at.admin.inspect();
  BOOST_TEST(!status.exists);
  BOOST_TEST(status.taken == numbers{1}, boost::test_tools::per_element());
  co_await at.admin.create(1);  // while it is held
  BOOST_TEST(at.tokens(1) == 0u);
  co_await held.release();
  co_await at.admin.wait_until_released(1);
  status = co_await at.admin.inspect();
  BOOST_TEST(status.slots == 1u);
  BOOST_TEST(status.taken.empty());
}

ASYNC_TEST_CASE(destroy_names_what_it_leaves) {
  scene at(ex);
  co_await at.admin.create(3);
  rabbitmq::semaphore sem = at.with(0);
  rabbitmq::slot held = co_await sem.acquire();
  const std::uint32_t number = held.number();
  const std::string its_tokens = "jobs-" + std::to_string(number) + "-F";
  rabbitmq::destroy_result left = co_await at.admin.destroy();
  BOOST_TEST(left.held == numbers{number}, boost::test_tools::per_element());
  BOOST_TEST(left.kept_queues == std::vector<std::string>{its_tokens}, boost::test_tools::per_element());
  BOOST_TEST(at.slots() == 0u);
  co_await held.wait_revoked();
  co_await held.release();
  co_await at.admin.wait_until_released(number);
  left = co_await at.admin.destroy(number);
  BOOST_TEST((left == rabbitmq::destroy_result()));
  co_await sem.close();
  BOOST_TEST(at.queues().empty());
}

ASYNC_TEST_CASE(waits_end_when_the_slot_is_released_or_the_time_is_over) {
  scene at(ex);
  co_await at.admin.create(2);
  rabbitmq::semaphore sem = at.with(0);
  rabbitmq::slot held = co_await sem.acquire();
  const auto [slot_code] = co_await at.admin.wait_until_released(held.number(), 20ms, as_result);
  BOOST_TEST(slot_code == error::in_use);
  const auto [drain_code] = co_await at.admin.wait_until_drained(20ms, as_result);
  BOOST_TEST(drain_code == error::in_use);
  co_await at.admin.wait_until_released(3 - held.number());
  std::optional<error_code> released, drained;
  at.admin.wait_until_released(held.number(), asio::bind_executor(ex, [&](error_code code) { released = code; }));
  at.admin.wait_until_drained(asio::bind_executor(ex, [&](error_code code) { drained = code; }));
  co_await held.release();
  co_await sem.close();
  co_await until([&] { return released && drained; });
  BOOST_TEST(!*released);
  BOOST_TEST(!*drained);
}

ASYNC_TEST_CASE(without_a_semaphore_most_commands_fail) {
  scene at(ex);
  const auto [growing, none] = co_await at.admin.grow(1, as_result);
  BOOST_TEST(growing == error::no_semaphore);
  BOOST_TEST(none == 0u);
  const auto [draining] = co_await at.admin.wait_until_drained(as_result);
  BOOST_TEST(draining == error::no_semaphore);
  const rabbitmq::semaphore_status status = co_await at.admin.inspect();
  BOOST_TEST((status == rabbitmq::semaphore_status()));
  const auto [creating] = co_await at.admin.create(0, as_result);
  BOOST_TEST(creating == error::invalid_limit);
}

// --- Others.

ASYNC_TEST_CASE(commands_exclude_each_other) {
  scene at(ex);
  co_await at.admin.create(6);  // so that there is a semaphore in whatever order the commands run
  int done = 0;
  const auto count = [&](error_code code, std::uint32_t) {
    BOOST_TEST(!code, code.message());
    ++done;
  };
  for (int i = 0; i != 5; ++i) {
    at.admin.grow(2, asio::bind_executor(ex, count));
    at.admin.shrink(1, asio::bind_executor(ex, count));
  }
  co_await until([&] { return done == 10; });
  BOOST_TEST(at.slots() == 11u);
}

ASYNC_TEST_CASE(another_administrator_who_does_not_end_is_an_error) {
  scene at(ex, false, 10min);  // the first command must neither end by the timeout of a request nor by its own
  rabbitmq::administration_options patient = scene::options();
  patient.timeout = 10min;
  semaphore_administration first(at.client, patient);
  at.on.set_faults({{.what = broker_fault::freeze(), .method = "queue.declare", .queue = "jobs-1-B"}});
  first.create(1, asio::bind_executor(ex, [](error_code) {}));
  co_await until([&] { return at.on.statistics().faults == 1; });
  rabbitmq::administration_options hurried = scene::options();
  hurried.timeout = 2s;
  semaphore_administration other(at.client, hurried);
  const auto begun = std::chrono::steady_clock::now();
  for (int i = 0; i != hurried_commands; ++i) {
    const auto [code, none] = co_await other.destroy(as_result);
    BOOST_TEST(code == error::in_use);
  }
  BOOST_TEST((std::chrono::steady_clock::now() - begun < bound_of_the_hurried));
  at.on.thaw();
}

ASYNC_TEST_CASE(an_alarm_does_not_hold_a_command_for_ever) {
  rabbitmq::administration_options hurried = scene::options();
  hurried.timeout = 200ms;
  const auto begun = std::chrono::steady_clock::now();
  for (int i = 0; i != hurried_commands; ++i) {
    scene at(ex, false, 10min);
    semaphore_administration admin(at.client, hurried);
    at.on.set_alarm(true);
    diagnostics why;
    const operation_options reporting{.diag = &why};
    const auto [code] = co_await admin.create(1, reporting, as_result);
    BOOST_TEST(code == error::timed_out);
    BOOST_TEST(why.message.find("alarm") != std::string::npos, why.message);
    at.on.set_alarm(false);
    co_await at.admin.create(1);
    BOOST_TEST(at.slots() == 1u);
  }
  BOOST_TEST((std::chrono::steady_clock::now() - begun < bound_of_the_hurried));
}

ASYNC_TEST_CASE(an_error_of_the_broker_is_told) {
  scene at(ex);
  at.on.set_rights("guest", {"^jobs$", ".*", ".*"});
  diagnostics why;
  const operation_options reporting{.diag = &why};
  const auto [code] = co_await at.admin.create(1, reporting, as_result);
  BOOST_TEST(code == error::permission_denied);
  BOOST_TEST(why.key == "jobs");
  BOOST_TEST(why.server_message.find("403") != std::string::npos, why.server_message);
  BOOST_CHECK_THROW(co_await at.admin.create(1), error_with_diagnostics);
}

ASYNC_TEST_CASE(a_closed_client_ends_its_commands) {
  scene at(ex);
  at.on.freeze();
  std::optional<error_code> ended;
  at.admin.create(1, asio::bind_executor(ex, [&](error_code code) { ended = code; }));
  co_await a_moment();
  at.client.close();
  at.on.thaw();
  co_await until([&] { return ended.has_value(); });
  BOOST_TEST(*ended == error::closed);
  const auto [code] = co_await at.admin.create(1, as_result);
  BOOST_TEST(code == error::closed);
}

ASYNC_TEST_CASE(a_cancelled_connect_leaves_no_connection) {
  scene at(ex);
  at.on.freeze();
  asio::cancellation_signal stop;
  std::optional<error_code> ended;
  at.admin.create(
      1, asio::bind_cancellation_slot(stop.slot(), asio::bind_executor(ex, [&](error_code code) { ended = code; })));
  co_await until([&] { return at.on.statistics().accepted == 1; });
  stop.emit(asio::cancellation_type::total);
  co_await until([&] { return ended.has_value(); });
  BOOST_TEST(*ended == asio::error::operation_aborted);
  at.on.thaw();
  co_await until([&] { return at.on.statistics().connections == 0; });
  BOOST_TEST(at.queues().empty());
}

ASYNC_TEST_CASE(a_cancelled_command_releases_the_mutex) {
  scene at(ex);
  at.on.set_faults({{.what = broker_fault::freeze(), .method = "queue.declare", .queue = "jobs-2-B"}});
  asio::cancellation_signal stop, stop_waiting;
  std::optional<error_code> ended, waited;
  at.admin.create(
      2, asio::bind_cancellation_slot(stop.slot(), asio::bind_executor(ex, [&](error_code code) { ended = code; })));
  co_await until([&] { return at.on.statistics().faults == 1; });
  at.admin.create(2, asio::bind_cancellation_slot(stop_waiting.slot(),
                                                  asio::bind_executor(ex, [&](error_code code) { waited = code; })));
  const std::uint64_t before = at.on.requests("queue.declare");
  co_await until([&] { return at.on.requests("queue.declare") >= before + 2; });
  stop_waiting.emit(asio::cancellation_type::partial);
  co_await until([&] { return waited.has_value(); });
  BOOST_TEST(*waited == asio::error::operation_aborted);
  stop.emit(asio::cancellation_type::terminal);
  co_await until([&] { return ended.has_value(); });
  BOOST_TEST(*ended == asio::error::operation_aborted);
  at.on.thaw();
  co_await until([&] { return at.on.statistics().connections == 0; });
  BOOST_TEST(!at.has("jobs"));
  BOOST_TEST(at.slots() == 1u);
  co_await at.admin.create(2);
  BOOST_TEST(at.slots() == 2u);
}

ASYNC_TEST_CASE(the_end_of_the_context_ends_a_command) {
  asio::io_context other;
  std::optional<semaphore_administration> admin;
  bool was_called = false;
  {
    const testing::broker on;
    rabbitmq::client client(other, {.address = on.url()});
    admin.emplace(client, scene::options());
    admin->wait_until_released(1, [&](error_code) { was_called = true; });
    admin->create(3, [&](error_code) { was_called = true; });
    other.run_one();
    client.close();
  }
  BOOST_TEST(!was_called);
  co_return;
}

// --- An administrator that ends after any of its requests.

namespace {

/// The token for commands of these tests, which run on one thread.
template <class... Results>
auto only_code(asio::any_io_executor ex, std::function<void(error_code)> then) {
  return asio::bind_executor(std::move(ex),
                             [then = std::move(then)](error_code code, const Results&...) { then(code); });
}

void create_three(semaphore_administration& its, std::function<void(error_code)> then) {
  its.create(3, only_code<>(its.get_executor(), std::move(then)));
}
void grow_by_two(semaphore_administration& its, std::function<void(error_code)> then) {
  its.grow(2, only_code<std::uint32_t>(its.get_executor(), std::move(then)));
}
void shrink_by_two(semaphore_administration& its, std::function<void(error_code)> then) {
  its.shrink(2, only_code<std::uint32_t>(its.get_executor(), std::move(then)));
}
void destroy(semaphore_administration& its, std::function<void(error_code)> then) {
  its.destroy(only_code<rabbitmq::destroy_result>(its.get_executor(), std::move(then)));
}

/// Ends the command after each of its requests, on a broker of its own with so many slots. Then calls `then`.
asio::awaitable<void> end_everywhere(asio::any_io_executor ex, std::uint32_t slots, command start,
                                     std::function<asio::awaitable<void>(scene&)> then) {
  bool is_cut = true;
  std::size_t point = 0;
  for (; is_cut; ++point) {
    scene at(ex);
    if (slots != 0) co_await at.admin.create(slots);
    co_await until([&] { return at.on.statistics().connections == 0; });
    is_cut = co_await at.end_after(point, start);
    BOOST_TEST_INFO_SCOPE("ended after " << point << " requests");
    BOOST_TEST(at.slots() <= 5u);  // and there is no gap
    co_await then(at);
    at.client.close();
    co_await until([&] { return at.on.statistics().connections == 0; });
    BOOST_TEST(at.slots() <= 5u);
  }
  BOOST_TEST(point > 6u);
}

}  // namespace

ASYNC_TEST_CASE(the_same_command_completes_a_creation, 60s) {
  co_await end_everywhere(ex, 0, create_three, [](scene& at) -> asio::awaitable<void> {
    co_await at.admin.create(3);
    BOOST_TEST(at.slots() == 3u);
    const rabbitmq::semaphore_status status = co_await at.admin.inspect();
    BOOST_TEST((status == rabbitmq::semaphore_status{true, 3, {}, false}));
  });
}

ASYNC_TEST_CASE(a_process_with_create_with_completes_a_creation, 60s) {
  co_await end_everywhere(ex, 0, create_three, [](scene& at) -> asio::awaitable<void> {
    rabbitmq::semaphore sem = at.with(3);
    const rabbitmq::slot one = co_await sem.acquire();
    co_await until([&] { return at.slots() == 3; });
    const rabbitmq::slot two = co_await sem.acquire();
    const rabbitmq::slot three = co_await sem.acquire();
    BOOST_TEST(one.number() + two.number() + three.number() == 6u);
  });
}

ASYNC_TEST_CASE(grow_that_has_ended_counts_anew, 60s) {
  co_await end_everywhere(ex, 1, grow_by_two, [](scene& at) -> asio::awaitable<void> {
    const std::uint32_t before = at.slots();
    BOOST_TEST((1 <= before && before <= 3));
    const std::uint32_t now = co_await at.admin.grow(2);
    BOOST_TEST(now == before + 2);
    BOOST_TEST(at.slots() == now);
    BOOST_TEST(!at.has("jobs-0-F"));
  });
}

ASYNC_TEST_CASE(shrink_that_has_ended_counts_anew, 60s) {
  co_await end_everywhere(ex, 5, shrink_by_two, [](scene& at) -> asio::awaitable<void> {
    const std::uint32_t before = at.slots();
    BOOST_TEST((3 <= before && before <= 5));
    const std::uint32_t now = co_await at.admin.shrink(2);
    BOOST_TEST(now == before - 2);
    BOOST_TEST(at.slots() == now);
    BOOST_TEST(!at.has("jobs-0-F"));
  });
}

ASYNC_TEST_CASE(the_same_command_completes_a_destroy, 60s) {
  co_await end_everywhere(ex, 3, destroy, [](scene& at) -> asio::awaitable<void> {
    const rabbitmq::destroy_result left = co_await at.admin.destroy();
    BOOST_TEST((left == rabbitmq::destroy_result()));
    BOOST_TEST(at.queues().empty());
  });
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace holdfast::test
