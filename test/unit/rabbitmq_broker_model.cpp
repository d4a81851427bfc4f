// SPDX-FileCopyrightText: The holdfast authors
// SPDX-License-Identifier: BSL-1.0

// Tests of the model of RabbitMQ without its server. Facts that hold on a real broker, too, are in test/conformance.

#include <boost/test/unit_test.hpp>
#include <chrono>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "testing/broker/model.hpp"

namespace holdfast::testing::detail {

BOOST_AUTO_TEST_SUITE(rabbitmq_broker_model)

namespace {

using namespace std::chrono_literals;
using connection_id = broker_model::connection_id;
using texts = std::vector<std::string>;

amqp::queue_declare declare(std::string name, amqp::queue_arguments arguments = {}) {
  return {std::move(name), false, true, false, false, std::move(arguments)};
}

amqp::queue_declare exclusive(std::string name) { return {std::move(name), false, false, true, false, {}}; }

std::string described(const broker_model::answer& answer) {
  if (const auto* refused = std::get_if<amqp::channel_close>(&answer.what))
    return std::to_string(refused->reply_code) + " channel";
  if (const auto* refused = std::get_if<amqp::connection_close>(&answer.what))
    return std::to_string(refused->reply_code) + " connection";
  std::string out(amqp::name_of(answer.what));
  if (amqp::has_content(answer.what)) out += ' ' + answer.content.body;
  return out;
}

/// The model, its clock, and clients with one channel each.
struct scene {
  broker_model broker{};
  broker_model::time_point now{};

  connection_id connect(std::string name = "client") {
    const connection_id id = broker.connect("guest", std::move(name));
    broker.receive(id, 1, amqp::channel_open{}, {}, now);
    broker.take_answers();
    return id;
  }
  texts answers() {
    texts out;
    for (const auto& each : broker.take_answers()) out.push_back(described(each));
    return out;
  }
  texts ask(connection_id who, const amqp::method& what) {
    broker.receive(who, 1, what, {}, now);
    return answers();
  }
  texts publish(connection_id who, const std::string& queue, std::string body, std::string expiration = {},
                bool persistent = false) {
    const broker_message content{"", "", {std::move(expiration), persistent}, std::move(body)};
    broker.receive(who, 1, amqp::basic_publish{"", queue, true}, content, now);
    return answers();
  }
  texts get(connection_id who, const std::string& queue) { return ask(who, amqp::basic_get{queue, true}); }
  std::size_t ready(const std::string& queue) { return broker.queue(queue, now).value().ready; }
};

const texts none;
const texts declared{"queue.declare-ok"};
const texts empty{"basic.get-empty"};

}  // namespace

BOOST_AUTO_TEST_CASE(a_message_lives_for_the_shorter_of_its_own_time_and_the_queues) {
  scene on;
  const auto client = on.connect();
  BOOST_TEST(on.ask(client, declare("q", {.message_ttl = 2000})) == declared);
  BOOST_TEST(on.publish(client, "q", "short", "1000") == none);
  BOOST_TEST(on.publish(client, "q", "long", "9000") == none);
  on.now += 999ms;
  BOOST_TEST(on.ready("q") == 2u);
  on.now += 1ms;
  BOOST_TEST(on.ready("q") == 1u);
  on.now += 1000ms;
  BOOST_TEST(on.get(client, "q") == empty);
}

BOOST_AUTO_TEST_CASE(a_message_that_expires_at_once_reaches_a_consumer_with_room_only) {
  scene on;
  const auto client = on.connect();
  on.ask(client, declare("q"));
  on.ask(client, amqp::basic_qos{1});
  on.ask(client, amqp::basic_consume{"q", "tag"});
  BOOST_TEST(on.publish(client, "q", "1", "0") == texts{"basic.deliver 1"});
  BOOST_TEST(on.publish(client, "q", "2", "0") == none);
  BOOST_TEST(on.ask(client, amqp::basic_ack{1}) == none);
  BOOST_TEST(on.publish(client, "q", "3", "0") == texts{"basic.deliver 3"});
}

BOOST_AUTO_TEST_CASE(a_queue_drops_its_first_messages_when_it_is_too_long_or_too_large) {
  scene on;
  const auto client = on.connect();
  on.ask(client, declare("short", {.max_length = 2}));
  for (const char* body : {"1", "2", "3"}) on.publish(client, "short", body);
  BOOST_TEST(on.get(client, "short") == texts{"basic.get-ok 2"});
  on.ask(client, declare("small", {.max_length_bytes = 5}));
  for (const char* body : {"123", "45", "6"}) on.publish(client, "small", body);
  BOOST_TEST(on.get(client, "small") == texts{"basic.get-ok 45"});
  on.publish(client, "small", "larger");
  BOOST_TEST(on.get(client, "small") == empty);
}

BOOST_AUTO_TEST_CASE(consumers_take_turns_as_far_as_they_have_room) {
  scene on;
  const auto one = on.connect(), other = on.connect();
  on.ask(one, declare("q"));
  for (const auto each : {one, other}) {
    on.ask(each, amqp::basic_qos{1});
    on.ask(each, amqp::basic_consume{"q", "tag"});
  }
  std::vector<connection_id> receivers;
  for (const char* body : {"1", "2", "3"}) {
    on.broker.receive(one, 1, amqp::basic_publish{"", "q"}, {"", "", {}, body}, on.now);
    for (const auto& each : on.broker.take_answers()) receivers.push_back(each.to);
  }
  BOOST_TEST(receivers == (std::vector{one, other}));
  BOOST_TEST(on.ready("q") == 1u);
  BOOST_TEST(on.ask(other, amqp::basic_ack{1}) == texts{"basic.deliver 3"});
}

BOOST_AUTO_TEST_CASE(messages_of_a_connection_that_ends_go_back_to_their_places) {
  scene on;
  const auto one = on.connect(), other = on.connect();
  on.ask(one, declare("q"));
  for (const char* body : {"1", "2", "3"}) on.publish(one, "q", body);
  for (int i = 0; i < 2; ++i) on.ask(one, amqp::basic_get{"q", false});
  BOOST_TEST(on.broker.queue("q", on.now)->unacknowledged == 2u);
  on.broker.end(one, on.now);
  for (const char* body : {"1", "2", "3"}) BOOST_TEST(on.get(other, "q") == texts{"basic.get-ok " + std::string(body)});
}

BOOST_AUTO_TEST_CASE(a_message_is_settled_once) {
  scene on;
  const auto client = on.connect();
  on.ask(client, declare("q"));
  for (const char* body : {"1", "2", "3"}) on.publish(client, "q", body);
  for (int i = 0; i < 3; ++i) on.ask(client, amqp::basic_get{"q", false});
  BOOST_TEST(on.ask(client, amqp::basic_nack{2, true, true}) == none);
  BOOST_TEST(on.get(client, "q") == texts{"basic.get-ok 1"});
  BOOST_TEST(on.ask(client, amqp::basic_ack{1}) == texts{"406 channel"});
}

BOOST_AUTO_TEST_CASE(a_queue_that_is_deleted_tells_its_consumers) {
  scene on;
  const auto client = on.connect();
  on.ask(client, declare("q"));
  on.ask(client, amqp::basic_consume{"q", "tag"});
  on.publish(client, "q", "old");
  BOOST_TEST(on.broker.delete_queue("q"));
  BOOST_TEST(on.answers() == texts{"basic.cancel"});
  on.ask(client, declare("q"));
  BOOST_TEST(on.ask(client, amqp::basic_nack{1, false, true}) == none);  // the message was in the queue before
  BOOST_TEST(on.ready("q") == 0u);
  BOOST_TEST(!on.broker.delete_queue("missing"));
}

BOOST_AUTO_TEST_CASE(an_auto_delete_queue_goes_with_its_last_consumer) {
  scene on;
  const auto client = on.connect();
  on.ask(client, amqp::queue_declare{.queue = "q", .durable = true, .auto_delete = true});
  on.ask(client, amqp::basic_consume{"q", "tag"});
  BOOST_TEST(on.ask(client, amqp::basic_cancel{"tag"}) == texts{"basic.cancel-ok"});
  BOOST_TEST(!on.broker.queue("q", on.now));
}

BOOST_AUTO_TEST_CASE(of_a_blocked_connection_nothing_is_done_until_the_alarm_is_over) {
  scene on;
  const auto owner = on.connect(), rival = on.connect();
  on.ask(owner, declare("f"));
  on.ask(owner, exclusive("b"));
  on.broker.set_alarm(true, on.now);
  BOOST_TEST(on.publish(owner, "f", "token") == texts{"connection.blocked"});
  BOOST_TEST(on.ask(owner, amqp::queue_delete{"b"}) == none);
  BOOST_TEST(on.ask(rival, exclusive("b")) == texts{"405 channel"});
  on.broker.set_alarm(false, on.now);
  BOOST_TEST(on.answers() == (texts{"connection.unblocked", "queue.delete-ok"}));
  BOOST_TEST(on.ready("f") == 1u);
}

BOOST_AUTO_TEST_CASE(what_a_blocked_connection_has_sent_is_lost_when_it_ends) {
  scene on;
  const auto owner = on.connect(), rival = on.connect();
  on.ask(owner, declare("f"));
  on.ask(owner, exclusive("b"));
  on.broker.set_alarm(true, on.now);
  on.publish(owner, "f", "token");
  on.broker.end(owner, on.now);
  BOOST_TEST(on.ask(rival, exclusive("b")) == declared);
  on.broker.set_alarm(false, on.now);
  BOOST_TEST(on.ready("f") == 0u);
}

BOOST_AUTO_TEST_CASE(a_message_may_arrive_after_its_connection_has_ended) {
  scene on;
  const auto owner = on.connect(), rival = on.connect();
  on.ask(owner, declare("f"));
  on.broker.end(owner, on.now);
  on.broker.receive(owner, 1, amqp::basic_publish{"", "f"}, {"", "", {}, "usual"}, on.now);
  BOOST_TEST(on.ready("f") == 0u);
  on.broker.receive_late({"", "f", {}, "late"}, on.now);
  BOOST_TEST(on.get(rival, "f") == texts{"basic.get-ok late"});
}

BOOST_AUTO_TEST_CASE(a_restart_keeps_durable_queues_and_persistent_messages_only) {
  for (const bool clients_are_warned : {false, true}) {
    scene on;
    const auto client = on.connect();
    on.ask(client, declare("durable"));
    on.ask(client, amqp::queue_declare{.queue = "transient"});
    on.ask(client, exclusive("exclusive"));
    on.publish(client, "durable", "transient");
    on.publish(client, "durable", "persistent", {}, true);
    on.broker.restart(clients_are_warned, on.now);
    BOOST_TEST(on.answers() == (clients_are_warned ? texts{"320 connection"} : none));
    BOOST_TEST(!on.broker.is_open(client));
    BOOST_TEST(on.broker.queues(on.now).size() == 1u);
    BOOST_TEST(on.get(on.connect(), "durable") == texts{"basic.get-ok persistent"});
  }
}

BOOST_AUTO_TEST_CASE(connections_are_closed_by_name_or_by_what_they_own) {
  scene on;
  const auto one = on.connect("one"), other = on.connect("other");
  on.ask(one, exclusive("b"));
  BOOST_TEST(on.broker.queue("b", on.now)->owner == "one");
  BOOST_TEST(on.broker.force_close("nobody", "why", on.now) == 0u);
  BOOST_TEST(on.broker.force_close("other", "why", on.now) == 1u);
  const auto told = on.broker.take_answers();
  BOOST_REQUIRE(told.size() == 1u);
  BOOST_TEST(told.front().to == other);
  BOOST_TEST(std::get<amqp::connection_close>(told.front().what).reply_text == "CONNECTION_FORCED - why");
  BOOST_TEST(on.broker.force_close_owner("b", "why", on.now));
  BOOST_TEST(!on.broker.queue("b", on.now));
  BOOST_TEST(!on.broker.force_close_owner("b", "why", on.now));
}

BOOST_AUTO_TEST_CASE(channels_are_opened_once_and_before_they_are_used) {
  scene on;
  const auto one = on.connect(), other = on.connect();
  BOOST_TEST(on.ask(one, amqp::channel_open{}) == texts{"504 connection"});
  BOOST_TEST(!on.broker.is_open(one));
  on.broker.receive(other, 2, amqp::basic_qos{1}, {}, on.now);
  BOOST_TEST(on.answers() == texts{"504 connection"});
}

BOOST_AUTO_TEST_CASE(a_client_that_closes_a_refused_channel_itself_is_answered) {
  scene on;
  const auto client = on.connect();
  BOOST_TEST(on.ask(client, amqp::queue_declare{.queue = "missing", .passive = true}) == texts{"404 channel"});
  BOOST_TEST(on.ask(client, declare("q")) == none);
  BOOST_TEST(on.ask(client, amqp::channel_close{}) == texts{"channel.close-ok"});
  BOOST_TEST(on.ask(client, amqp::channel_close_ok{}) == none);
  BOOST_TEST(on.ask(client, amqp::channel_open{}) == texts{"channel.open-ok"});
  BOOST_TEST(!on.broker.queue("q", on.now));
}

BOOST_AUTO_TEST_CASE(queues_that_the_model_does_not_have_are_refused) {
  scene on;
  const auto client = on.connect();
  const auto refused = [&](amqp::queue_arguments arguments) {
    const texts answers = on.ask(client, declare("q", std::move(arguments)));
    on.ask(client, amqp::channel_close_ok{});
    on.ask(client, amqp::channel_open{});
    return answers == texts{"406 channel"};
  };
  BOOST_TEST(refused({.queue_type = "quorum"}));
  BOOST_TEST(refused({.others = {"x-expires"}}));
  BOOST_TEST(refused({.max_length = -1}));
  BOOST_TEST(!refused({.queue_type = "classic"}));
}

BOOST_AUTO_TEST_CASE(a_long_refusal_is_cut_as_the_broker_does_it) {
  const std::string text = refusal_text(404, std::string(300, 'x'));
  BOOST_TEST(text.size() == 255u);
  BOOST_TEST(text.starts_with("NOT_FOUND - xxx"));
  BOOST_TEST(text.ends_with("x..."));
}

BOOST_AUTO_TEST_CASE(copies_are_independent_and_comparable) {
  scene on;
  const auto client = on.connect();
  on.ask(client, declare("q"));
  broker_model copy = on.broker;
  BOOST_TEST((copy == on.broker));
  on.publish(client, "q", "1");
  BOOST_TEST((copy != on.broker));
  copy.receive(client, 1, amqp::basic_publish{"", "q", true}, {"", "", {}, "1"}, on.now);
  BOOST_TEST((copy == on.broker));
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace holdfast::testing::detail
