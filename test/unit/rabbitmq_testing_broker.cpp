// SPDX-FileCopyrightText: The holdfast authors
// SPDX-License-Identifier: BSL-1.0

// The fake RabbitMQ, seen from its port. Facts that hold on a real broker, too, are in test/rabbitmq.

#include <atomic>
#include <boost/asio/io_context.hpp>
#include <boost/test/unit_test.hpp>
#include <functional>
#include <holdfast/error.hpp>
#include <holdfast/testing/broker.hpp>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "support/async.hpp"
#include "support/raw_amqp.hpp"
#include "support/raw_client.hpp"

namespace holdfast::test {

BOOST_AUTO_TEST_SUITE(rabbitmq_testing_broker)

namespace {

using namespace std::string_view_literals;
using testing::broker;
using testing::broker_fault;
using testing::broker_options;
using answers = std::vector<std::string>;

std::uint16_t port_of(const broker& on) {
  const std::string address = on.address();
  return static_cast<std::uint16_t>(std::stoi(address.substr(address.rfind(':') + 1)));
}

void await(std::string_view what, const std::function<bool()>& condition) {
  const auto end = std::chrono::steady_clock::now() + 30s;
  while (!condition()) {
    BOOST_REQUIRE_MESSAGE(std::chrono::steady_clock::now() < end, "not in time: " << what);
    std::this_thread::yield();
  }
}

amqp_login named(std::string name) {
  amqp_login login;
  login.name = std::move(name);
  return login;
}

/// A broker with one fault, and a client.
struct faulty {
  broker on{};
  raw_amqp wire{port_of(on)};

  explicit faulty(broker_fault what, std::string method = "queue.declare") {
    on.set_faults({{.what = std::move(what), .method = std::move(method), .queue = "q"}});
  }
  bool exists(std::string_view queue) const { return on.queue(queue).has_value(); }
};

bool is_invalid(const system_error& e) { return e.code() == error::invalid_option; }

}  // namespace

BOOST_AUTO_TEST_CASE(it_listens_on_loopback_addresses_only) {
  for (const char* host : {"0.0.0.0", "::", "192.0.2.1", "localhost", ""})
    BOOST_CHECK_EXCEPTION(broker(broker_options{.host = host}), system_error, is_invalid);
  BOOST_CHECK_EXCEPTION(broker(broker_options{.heartbeat = std::chrono::seconds(70'000)}), system_error, is_invalid);
  const broker first;
  BOOST_CHECK_THROW(broker(broker_options{.port = port_of(first)}), system_error);
}

BOOST_AUTO_TEST_CASE(its_url_names_it) {
  const broker on;
  BOOST_TEST(on.url() == "amqp://guest:guest@" + on.address() + "/%2F");
  BOOST_TEST(broker(broker_options{.virtual_host = "v"}).url().ends_with("/v"));
}

BOOST_AUTO_TEST_CASE(queues_and_requests_can_be_seen) {
  broker on;
  raw_amqp wire(port_of(on), named("me"));
  wire.ask({declare("a"), declare_exclusive("b"), message("a"), {amqp::basic_get{"a", false}}, message("a")});
  wire.ask({{amqp::basic_qos{1}}, {amqp::basic_consume{"b"}}});
  await("the message arrives", [&] { return on.queue("a")->ready == 1; });
  BOOST_TEST(
      (on.queues() == std::vector<testing::queue_status>{{"a", false, "", 1, 1, 0}, {"b", true, "me", 0, 0, 1}}));
  BOOST_TEST(!on.queue("missing"));
  BOOST_TEST(on.requests("queue.declare") == 2u);
  BOOST_TEST(on.requests("connection.open") == 1u);
  BOOST_TEST(on.requests("queue.bind") == 0u);
  BOOST_TEST(on.statistics().accepted == 1u);
  BOOST_TEST(on.statistics().connections == 1u);
  wire.close();
  await("the connection ends", [&] { return on.statistics().connections == 0; });
  BOOST_TEST(on.queues().size() == 1u);
}

// --- Faults of single methods.

BOOST_AUTO_TEST_CASE(a_rule_selects_by_method_and_queue_and_counts) {
  broker on;
  on.set_faults({{.what = broker_fault::close_channel(541, "why"),
                  .method = "queue.declare",
                  .queue = "-B",
                  .skip = 1,
                  .times = 1}});
  raw_amqp wire(port_of(on));
  BOOST_TEST(wire.ask({declare("1-B"), get("1-B"), declare("1-A")}) == (answers{"ok", "empty", "ok"}));
  BOOST_TEST(wire.ask({declare("2-B")}) == answers{"541"});
  BOOST_TEST(wire.text == "INTERNAL_ERROR - why");
  BOOST_TEST(wire.ask({declare("2-B")}) == answers{"ok"});
  BOOST_TEST(on.statistics().faults == 1u);
}

BOOST_AUTO_TEST_CASE(a_delayed_method_delays_what_is_behind_it) {
  faulty at(broker_fault::delay(20ms));
  BOOST_TEST(at.wire.ask({declare("q"), declare("a"), passive("q")}) == (answers{"ok", "ok", "ok"}));
}

BOOST_AUTO_TEST_CASE(a_request_that_is_dropped_is_not_carried_out) {
  faulty at(broker_fault::drop_request());
  at.wire.send({declare("a"), declare("q")});
  BOOST_TEST(at.wire.code_of_end() == 0u);
  BOOST_TEST(at.exists("a"));
  BOOST_TEST(!at.exists("q"));
}

BOOST_AUTO_TEST_CASE(a_reply_that_is_dropped_belongs_to_a_request_that_was_carried_out) {
  faulty at(broker_fault::drop_reply());
  at.wire.send({declare("a"), declare("q"), declare("c")});
  BOOST_TEST(at.wire.expect<amqp::queue_declare_ok>().queue == "a");
  BOOST_CHECK_THROW(at.wire.read(), amqp_closed);
  BOOST_TEST(at.exists("q"));
  BOOST_TEST(!at.exists("c"));
}

BOOST_AUTO_TEST_CASE(half_of_a_reply_is_no_reply) {
  faulty at(broker_fault::cut_reply());
  at.wire.send({declare("a"), declare("q")});
  BOOST_TEST(at.wire.expect<amqp::queue_declare_ok>().queue == "a");
  BOOST_CHECK_THROW(at.wire.read(), amqp_closed);
  BOOST_TEST(at.exists("q"));
}

BOOST_AUTO_TEST_CASE(a_connection_is_closed_with_any_code) {
  faulty at(broker_fault::close_connection(320, "why"));
  at.wire.send({declare_exclusive("a"), declare("q")});
  BOOST_TEST(at.wire.code_of_end() == 320u);
  BOOST_TEST(at.wire.text == "CONNECTION_FORCED - why");
  BOOST_TEST(!at.exists("a"));
  BOOST_TEST(!at.exists("q"));
}

BOOST_AUTO_TEST_CASE(a_frozen_connection_goes_on_after_the_thaw) {
  faulty at(broker_fault::freeze());
  raw_amqp other(port_of(at.on));
  at.wire.send({declare("a"), declare("q")});
  at.wire.expect<amqp::queue_declare_ok>();
  await("the fault happens", [&] { return at.on.statistics().faults == 1; });
  BOOST_TEST(other.ask({passive("a"), passive("q")}) == (answers{"ok", "404"}));
  at.on.thaw();
  BOOST_TEST(at.wire.expect<amqp::queue_declare_ok>().queue == "q");
}

BOOST_AUTO_TEST_CASE(a_late_message_arrives_after_the_end_of_its_connection) {
  faulty at(broker_fault::late(50ms), "basic.publish");
  BOOST_TEST(at.wire.ask({declare("q"), declare_exclusive("b"), message("q", "late"), remove("b")}) ==
             (answers{"ok", "ok", "ok"}));
  at.wire.close();
  await("the connection ends", [&] { return at.on.statistics().connections == 0; });
  await("the message arrives", [&] { return at.on.queue("q")->ready == 1; });
  raw_amqp other(port_of(at.on));
  BOOST_TEST(other.ask({get("q")}) == answers{"late"});
}

// --- Faults of the network.

BOOST_AUTO_TEST_CASE(a_frozen_broker_does_nothing) {
  asio::io_context io;
  std::optional<broker> on(std::in_place, io.get_executor());
  std::unique_ptr<raw_amqp> wire;
  std::atomic<bool> is_open = false;
  std::thread client([&] {
    wire = std::make_unique<raw_amqp>(port_of(*on));
    is_open = true;
  });
  while (!is_open) io.poll();
  client.join();
  on->freeze();
  wire->send({declare_exclusive("q")});
  while (io.poll() != 0) continue;
  BOOST_TEST(!on->queue("q"));
  BOOST_TEST(on->requests("queue.declare") == 0u);
  on->thaw();
  while (on->requests("queue.declare") == 0) io.poll();
  while (io.poll() != 0) continue;
  BOOST_TEST(wire->expect<amqp::queue_declare_ok>().queue == "q");
}

BOOST_AUTO_TEST_CASE(all_connections_are_cut) {
  broker on;
  raw_amqp wire(port_of(on));
  wire.ask({declare_exclusive("q")});
  on.cut();
  BOOST_TEST(wire.code_of_end() == 0u);
  await("the queue is gone", [&] { return !on.queue("q"); });
}

BOOST_AUTO_TEST_CASE(a_broker_that_is_killed_forgets_all_tokens_and_keeps_the_slots) {
  broker on;
  const std::uint16_t port = port_of(on);
  raw_amqp owner(port);
  BOOST_TEST(owner.ask({declare("a", length_0()), declare("f", token_queue(2000)), declare_exclusive("b"), message("f"),
                        passive("f")}) == (answers{"ok", "ok", "ok", "ok"}));
  on.stop();
  BOOST_TEST(!on.queue("b"));
  BOOST_TEST(owner.code_of_end() == 0u);
  BOOST_CHECK_THROW(raw_amqp{port}, std::exception);
  on.start();
  raw_amqp rival(port);
  BOOST_TEST(rival.ask({declare_exclusive("b"), get("f"), passive("a")}) == (answers{"ok", "empty", "ok"}));
  BOOST_TEST(rival.ask({declare("f", token_queue(3000))}) == answers{"406"});
}

BOOST_AUTO_TEST_CASE(a_stopped_broker_tells_its_clients_why) {
  broker on;
  raw_amqp wire(port_of(on));
  on.stop(broker::ending::stop);
  on.stop(broker::ending::stop);
  BOOST_TEST(wire.code_of_end() == 320u);
  BOOST_TEST(wire.text == "CONNECTION_FORCED - broker forced connection closure with reason 'shutdown'");
  on.start();
  on.start();
  BOOST_TEST(raw_amqp(port_of(on)).ask({declare("q")}) == answers{"ok"});
}

// --- Operators.

BOOST_AUTO_TEST_CASE(connections_are_closed_by_name_or_by_the_queue_that_they_own) {
  broker on;
  raw_amqp one(port_of(on), named("one")), other(port_of(on), named("other"));
  other.ask({declare_exclusive("q")});
  BOOST_TEST(on.close_connection("nobody") == 0u);
  BOOST_TEST(on.close_connection("one", "why") == 1u);
  BOOST_TEST(one.code_of_end() == 320u);
  BOOST_TEST(one.text == "CONNECTION_FORCED - why");
  BOOST_TEST(on.close_owner("q"));
  BOOST_TEST(!on.queue("q"));
  BOOST_TEST(other.code_of_end() == 320u);
  BOOST_TEST(!on.close_owner("q"));
}

BOOST_AUTO_TEST_CASE(a_blocked_connection_can_be_closed) {
  broker on;
  raw_amqp wire(port_of(on), named("one"));
  wire.ask({declare_exclusive("q")});
  on.set_alarm(true);
  wire.send({message("q")});
  wire.await_blocked();
  on.close_connection("one");
  BOOST_TEST(!on.queue("q"));
  BOOST_TEST(wire.code_of_end() == 320u);
}

BOOST_AUTO_TEST_CASE(logins_can_be_refused) {
  broker on;
  on.refuse_logins(true);
  const auto is_403 = [](const amqp_closed& closed) {
    return closed.code == 403 && std::string_view(closed.what()).starts_with("ACCESS_REFUSED - Login was refused");
  };
  BOOST_CHECK_EXCEPTION(raw_amqp{port_of(on)}, amqp_closed, is_403);
  on.refuse_logins(false);
  const raw_amqp good(port_of(on));
  on.set_user("guest", "another");
  BOOST_CHECK_EXCEPTION(raw_amqp{port_of(on)}, amqp_closed, is_403);
}

// --- Clients that break the protocol.

ASYNC_TEST_CASE(another_protocol_is_told_which_one_is_spoken, 20s) {
  broker on;
  raw_client client(ex, on.address());
  std::string bytes = "GET / HTTP/1.1\r\n\r\n";
  co_await client.send(std::move(bytes));
  const received all = co_await client.receive_all();
  BOOST_TEST(all.bytes == "AMQP\0\0\x09\x01"sv);
}

BOOST_AUTO_TEST_CASE(bytes_that_are_no_frames_are_refused) {
  broker on;
  for (const auto& [bytes, code] : {std::pair{"\x09\0\0"sv, 501u},                            // no frame
                                    std::pair{"\x03\0\x01\xFF\xFF\xFF\xFF"sv, 501u},          // a body of 4 GiB
                                    std::pair{"\x01\0\x01\0\0\0\4\0\x3C\0\x3C\xCE"sv, 503u},  // basic.deliver
                                    std::pair{"\x03\0\x01\0\0\0\1x\xCE"sv, 505u}}) {          // a body without a method
    raw_amqp wire(port_of(on));
    wire.ask({declare_exclusive("q")});
    wire.send_bytes(bytes);
    BOOST_TEST(wire.code_of_end() == code);
    BOOST_TEST(!on.queue("q"));
  }
}

BOOST_AUTO_TEST_CASE(a_method_in_the_middle_of_a_message_is_refused) {
  broker on;
  raw_amqp wire(port_of(on));
  std::string bytes;
  BOOST_TEST(!append_method(bytes, 1, amqp::basic_publish{"", "q"}));
  BOOST_TEST(!append_method(bytes, 1, amqp::basic_qos{1}));
  wire.send_bytes(bytes);
  BOOST_TEST(wire.code_of_end() == 505u);
}

BOOST_AUTO_TEST_CASE(a_connection_begins_in_its_order) {
  broker on;
  raw_amqp wire(port_of(on));
  wire.send({{amqp::connection_open{"/"}}}, 0);
  BOOST_TEST(wire.code_of_end() == 503u);
}

// --- Lifetimes.

BOOST_AUTO_TEST_CASE(it_is_destroyed_with_open_connections) {
  std::optional<broker> on(std::in_place);
  raw_amqp wire(port_of(*on));
  wire.ask({declare("q")});
  on->set_faults({{.what = broker_fault::late(1h), .method = "basic.publish"}});
  wire.send({message("q")});
  await("the fault happens", [&] { return on->statistics().faults == 1; });
  on.reset();
  BOOST_TEST(wire.code_of_end() == 0u);
}

BOOST_AUTO_TEST_CASE(its_context_may_be_destroyed_first) {
  auto io = std::make_unique<asio::io_context>();
  broker on(io->get_executor());
  std::thread running([&] { io->run(); });
  raw_amqp wire(port_of(on), {.heartbeat = 1});
  wire.ask({declare("q")});
  io->stop();
  running.join();
  io.reset();
  BOOST_TEST(wire.code_of_end() == 0u);
  BOOST_TEST(on.queue("q").has_value());
  on.cut();
  on.stop();
  on.start();
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace holdfast::test
