// SPDX-FileCopyrightText: The holdfast authors
// SPDX-License-Identifier: BSL-1.0

// The facts about RabbitMQ on which holdfast::rabbitmq is built, on the model and on a real broker. facts.py has those
// that need a broker of their own, or other clients.

#include <algorithm>
#include <boost/test/unit_test.hpp>
#include <string>
#include <vector>

#include "rabbitmq/support/fact.hpp"
#include "support/raw_amqp.hpp"

BOOST_AUTO_TEST_SUITE(conformance)

namespace {

using namespace holdfast::test;
using answers = std::vector<std::string>;

amqp::queue_arguments hint_queue() {
  amqp::queue_arguments arguments;
  arguments.max_length = 1000;
  arguments.message_ttl = 2000;
  arguments.queue_type = "classic";
  return arguments;
}

amqp::queue_arguments without_type() {
  amqp::queue_arguments arguments;
  arguments.max_length = 0;
  return arguments;
}

/// The broker cuts its texts to 255 bytes.
bool is_begun_by(const std::string& text, const std::string& whole) {
  return text == whole || (text.ends_with("...") && whole.starts_with(text.substr(0, text.size() - 3)));
}

/// The requests of a release, which are sent in one write.
std::vector<amqp_request> release(const broker_scene& on) { return {passive(on.B), message(on.F), remove(on.B)}; }

void listen(raw_amqp& wire, const std::string& queue) {
  BOOST_TEST(wire.ask({{amqp::basic_qos{1}}, {amqp::basic_consume{queue}}}) == (answers{"ok", "ok"}));
}

}  // namespace

// --- Who has an exclusive queue.

FACT(the_owner_may_declare_its_exclusive_queue_again) {
  raw_amqp owner(on.port);
  BOOST_TEST(owner.ask({on.take(), on.take(), passive(on.B)}) == (answers{"ok", "ok", "ok"}));
}

FACT(another_channel_of_the_same_connection_gets_the_queue_too) {
  raw_amqp owner(on.port);
  owner.open_channel(2);
  BOOST_TEST(owner.ask({on.take()}) == answers{"ok"});
  BOOST_TEST(owner.ask({on.take(), passive(on.B)}, 2) == (answers{"ok", "ok"}));
}

FACT(a_rival_is_refused_with_405) {
  raw_amqp owner(on.port), rival(on.port);
  BOOST_TEST(owner.ask({on.take()}) == answers{"ok"});
  for (const auto& each : {on.take(), passive(on.B), remove(on.B), purge(on.B), get(on.B)}) {
    BOOST_TEST(rival.ask({each}) == answers{"405"});
    BOOST_TEST(
        is_begun_by(rival.text, "RESOURCE_LOCKED - cannot obtain exclusive access to locked queue '" + on.B +
                                    "' in vhost '/'. It could be originally declared on another connection or the "
                                    "exclusive property value does not match that of the original declaration."));
  }
  BOOST_TEST(owner.ask({passive(on.B)}) == answers{"ok"});
}

FACT(a_queue_that_is_not_exclusive_cannot_be_declared_so) {
  raw_amqp owner(on.port);
  BOOST_TEST(owner.ask({declare_exclusive(on.A, length_0())}) == answers{"405"});
  BOOST_TEST(owner.ask({on.take(), declare(on.B, length_0())}) == (answers{"ok", "405"}));
}

FACT(a_missing_queue_is_404_unless_it_is_to_be_deleted) {
  raw_amqp wire(on.port);
  for (const auto& each : {passive(on.B), get(on.B), purge(on.B)}) {
    BOOST_TEST(wire.ask({each}) == answers{"404"});
    BOOST_TEST(wire.text == "NOT_FOUND - no queue '" + on.B + "' in vhost '/'");
  }
  BOOST_TEST(wire.ask({remove(on.B)}) == answers{"ok"});
}

FACT(an_exclusive_queue_outlives_an_error_on_its_channel) {
  raw_amqp owner(on.port), rival(on.port);
  BOOST_TEST(owner.ask({on.take(), passive("missing")}) == (answers{"ok", "404"}));
  BOOST_TEST(owner.ask({passive(on.B)}) == answers{"ok"});
  BOOST_TEST(rival.ask({on.take()}) == answers{"405"});
}

FACT(an_exclusive_queue_outlives_the_end_of_its_channel) {
  raw_amqp owner(on.port), rival(on.port);
  BOOST_TEST(owner.ask({on.take()}) == answers{"ok"});
  owner.open_channel(2);
  owner.send({{amqp::channel_close{}}});
  owner.expect<amqp::channel_close_ok>();
  BOOST_TEST(owner.ask({passive(on.B)}, 2) == answers{"ok"});
  BOOST_TEST(rival.ask({on.take()}) == answers{"405"});
}

FACT(an_exclusive_queue_ends_with_its_connection) {
  raw_amqp owner(on.port), rival(on.port);
  BOOST_TEST(owner.ask({on.take()}) == answers{"ok"});
  BOOST_TEST(rival.ask({on.take()}) == answers{"405"});
  owner.close();
  on.await_free(rival);
}

FACT(a_connection_that_is_closed_is_answered_when_its_queues_are_gone) {
  raw_amqp owner(on.port), rival(on.port);
  BOOST_TEST(owner.ask({on.take()}) == answers{"ok"});
  owner.send({{amqp::connection_close{200, "bye"}}}, 0);
  owner.expect<amqp::connection_close_ok>();
  BOOST_TEST(owner.code_of_end() == 0u);
  BOOST_TEST(rival.ask({on.take()}) == answers{"ok"});
}

FACT(a_silent_client_is_ended_after_two_heartbeats) {
  raw_amqp silent(on.port, on.login(1)), rival(on.port);
  BOOST_TEST(silent.ask({on.take()}) == answers{"ok"});
  on.await_free(rival);
  BOOST_TEST(silent.code_of_end() == 0u);
}

// --- Arguments.

FACT(another_lease_is_406_with_both_values_in_the_text) {
  raw_amqp wire(on.port);
  BOOST_TEST(wire.ask({declare(on.F, token_queue(3000))}) == answers{"406"});
  BOOST_TEST(wire.text == "PRECONDITION_FAILED - inequivalent arg 'x-max-length-bytes' for queue '" + on.F +
                              "' in vhost '/': received '3000' but current is '2000'");
  BOOST_TEST(wire.ask({declare(on.F, token_queue(2000))}) == answers{"ok"});
}

FACT(an_argument_that_is_missing_is_406) {
  raw_amqp wire(on.port);
  BOOST_TEST(wire.ask({declare(on.F)}) == answers{"406"});
  BOOST_TEST(wire.text.find("received none but current is the value '1' of type 'long'") != std::string::npos,
             wire.text);
}

FACT(queues_with_and_without_the_type_classic_are_the_same) {
  raw_amqp wire(on.port);
  BOOST_TEST(wire.ask({declare(on.A, without_type()), on.take(), declare_exclusive(on.B, without_type())}) ==
             (answers{"ok", "ok", "ok"}));
}

FACT(a_passive_declare_compares_no_arguments) {
  raw_amqp wire(on.port);
  amqp_request other = passive(on.F);
  std::get<amqp::queue_declare>(other.what).arguments = token_queue(3000);
  BOOST_TEST(wire.ask({other}) == answers{"ok"});
}

// --- Tokens.

FACT(after_a_declare_that_fails_nothing_behind_it_is_done) {
  raw_amqp owner(on.port), rival(on.port);
  on.publish_token(owner, {on.F});
  BOOST_TEST(owner.ask({on.take()}) == answers{"ok"});
  BOOST_TEST(rival.ask({on.take(), get(on.F), passive(on.A)}) == answers{"405"});
  BOOST_TEST(owner.ask({get(on.F), get(on.F)}) == (answers{"clean", "empty"}));
}

FACT(a_token_queue_keeps_one_token) {
  raw_amqp wire(on.port);
  wire.send({message(on.F), message(on.F)});
  BOOST_TEST(wire.ask({get(on.F), get(on.F)}) == (answers{"clean", "empty"}));
}

FACT(the_next_owner_gets_the_token_of_the_owner_before_it) {
  raw_amqp first(on.port), second(on.port);
  for (int i = 0; i < 10; ++i) {
    for (raw_amqp* owner : {&first, &second}) {
      const answers taken = owner->ask({on.take(), get(on.F), passive(on.A)});
      BOOST_TEST(taken.size() == 3u);
      BOOST_TEST((taken.front() == "ok" && taken.back() == "ok"));
      BOOST_TEST((taken.at(1) == "clean" || (i == 0 && owner == &first)));
      BOOST_TEST(owner->ask(release(on)) == (answers{"ok", "ok"}));
      on.await_count(second, on.F, 1);
    }
  }
}

FACT(a_release_of_a_queue_that_is_anothers_now_leaves_no_token) {
  raw_amqp owner(on.port), rival(on.port), third(on.port);
  BOOST_TEST(owner.ask({on.take()}) == answers{"ok"});
  on.broker.delete_queue(on.B);
  BOOST_TEST(owner.ask({passive(on.B)}) == answers{"404"});
  BOOST_TEST(rival.ask({on.take()}) == answers{"ok"});
  BOOST_TEST(owner.ask(release(on)) == answers{"405"});
  BOOST_TEST(rival.ask({passive(on.B), get(on.F)}) == (answers{"ok", "empty"}));
  BOOST_TEST(third.ask({on.take()}) == answers{"405"});
}

FACT(a_purge_takes_a_token_away) {
  raw_amqp wire(on.port);
  on.publish_token(wire, {on.F});
  BOOST_TEST(wire.ask({purge(on.F), get(on.F)}) == (answers{"ok", "empty"}));
}

FACT(a_token_that_was_not_acknowledged_comes_back_with_the_end_of_its_connection) {
  raw_amqp owner(on.port), rival(on.port);
  on.publish_token(owner, {on.F});
  BOOST_TEST(owner.ask({{amqp::basic_get{on.F, false}}}) == answers{"clean"});
  BOOST_TEST(rival.ask({get(on.F)}) == answers{"empty"});
  owner.close();
  expect_soon("the token is back", [&] { return rival.ask({get(on.F)}) == answers{"clean"}; });
}

// --- Probes.

FACT(mandatory_messages_show_which_queues_exist) {
  raw_amqp owner(on.port), prober(on.port);
  BOOST_TEST(owner.ask({on.take()}) == answers{"ok"});
  std::vector<std::string> queues{on.A, on.B, on.F};
  for (int k = 2; k < 200; ++k) queues.push_back(on.name + '-' + std::to_string(k) + "-A");
  const std::vector<bool> exist = prober.probe(queues);
  BOOST_TEST((exist.at(0) && exist.at(1) && exist.at(2)));
  BOOST_TEST(std::count(exist.begin(), exist.end(), true) == 3);
}

FACT(a_probe_that_expires_at_once_leaves_nothing_in_a_queue_of_any_length) {
  raw_amqp owner(on.port), prober(on.port);
  BOOST_TEST(owner.ask({declare_exclusive(on.B)}) == answers{"ok"});
  BOOST_TEST((prober.probe(std::vector<std::string>(5, on.B)) == std::vector<bool>(5, true)));
  BOOST_TEST(owner.ask({get(on.B)}) == answers{"empty"});
  prober.send(std::vector<amqp_request>(5, message(on.B, "")));
  on.await_count(owner, on.B, 5);  // without expiration they stay
}

FACT(a_queue_of_length_0_keeps_no_message) {
  raw_amqp owner(on.port), prober(on.port);
  BOOST_TEST(owner.ask({on.take()}) == answers{"ok"});
  prober.send(std::vector<amqp_request>(5, message(on.B, "probe")));
  BOOST_TEST((prober.probe({on.B}) == std::vector<bool>{true}));
  BOOST_TEST(owner.ask({get(on.B)}) == answers{"empty"});
}

// --- Hints.

FACT(a_hint_wakes_one_of_those_who_listen) {
  const std::string hints = on.name + "-F";
  raw_amqp publisher(on.port), one(on.port), other(on.port);
  BOOST_TEST(publisher.ask({declare(hints, hint_queue())}) == answers{"ok"});
  listen(one, hints);
  listen(other, hints);
  publisher.send({message(hints, "1"), message(hints, "2"), message(hints, "3")});
  const auto tag = one.expect<amqp::basic_deliver>().delivery_tag;
  other.expect<amqp::basic_deliver>();
  BOOST_TEST(std::min(one.body, other.body) == "1");
  BOOST_TEST(std::max(one.body, other.body) == "2");
  one.send({{amqp::basic_ack{tag}}});
  one.expect<amqp::basic_deliver>();
  BOOST_TEST(one.body == "3");
}

FACT(a_hint_is_forgotten_after_its_time) {
  const std::string hints = on.name + "-F";
  raw_amqp wire(on.port);
  BOOST_TEST(wire.ask({declare(hints, hint_queue())}) == answers{"ok"});
  on.publish_token(wire, {hints});
  on.await_count(wire, hints, 0);
}

FACT(a_listener_is_told_when_its_queue_is_deleted) {
  const std::string hints = on.name + "-F";
  raw_amqp listener(on.port), other(on.port);
  BOOST_TEST(listener.ask({declare(hints, hint_queue())}) == answers{"ok"});
  listen(listener, hints);
  BOOST_TEST(other.ask({remove(hints)}) == answers{"ok"});
  BOOST_TEST(listener.expect<amqp::basic_cancel>().no_wait);
  BOOST_TEST(listener.ask({passive(on.A)}) == answers{"ok"});
}

FACT(a_delivery_that_is_acknowledged_twice_is_406) {
  raw_amqp wire(on.port);
  on.publish_token(wire, {on.F});
  BOOST_TEST(wire.ask({{amqp::basic_get{on.F, false}}}) == answers{"clean"});
  wire.send({{amqp::basic_ack{1}}, {amqp::basic_ack{1}}});
  BOOST_TEST(wire.expect<amqp::channel_close>().reply_text == "PRECONDITION_FAILED - unknown delivery tag 1");
}

// --- Connections and users.

FACT(the_broker_offers_2047_channels_and_frames_of_128_kib) {
  const raw_amqp wire(on.port);
  BOOST_TEST(wire.offer.channel_max == 2047u);
  BOOST_TEST(wire.offer.frame_max == 131'072u);
  BOOST_TEST(wire.offer.heartbeat == 60u);
}

FACT(a_message_may_be_split_into_frames) {
  raw_amqp wire(on.port);
  const std::string large(300'000, 'x'), queue = on.name + "-large";
  BOOST_TEST(wire.ask({declare_exclusive(queue)}) == answers{"ok"});
  wire.send({message(queue, large)});
  on.await_count(wire, queue, 1);
  BOOST_TEST((wire.ask({get(queue)}) == answers{large}));
}

FACT(names_that_begin_with_amq_are_refused_with_403) {
  raw_amqp wire(on.port);
  BOOST_TEST(wire.ask({declare("amq." + on.name)}) == answers{"403"});
  BOOST_TEST(wire.text == "ACCESS_REFUSED - queue name 'amq." + on.name + "' contains reserved prefix 'amq.*'");
}

FACT(a_wrong_password_is_refused_with_403) {
  amqp_login wrong = on.login();
  wrong.password = "wrong";
  const auto is_403 = [](const amqp_closed& closed) { return closed.code == 403; };
  BOOST_CHECK_EXCEPTION(raw_amqp(on.port, wrong), amqp_closed, is_403);
}

FACT(a_virtual_host_that_is_missing_is_refused_with_530) {
  amqp_login wrong = on.login();
  wrong.virtual_host = "missing";
  const auto is_530 = [](const amqp_closed& closed) { return closed.code == 530; };
  BOOST_CHECK_EXCEPTION(raw_amqp(on.port, wrong), amqp_closed, is_530);
}

FACT(a_channel_that_is_not_open_is_504) {
  raw_amqp wire(on.port);
  wire.send({passive(on.A)}, 7);
  BOOST_TEST(wire.code_of_end() == 504u);
}

FACT(the_documented_rights_are_enough_and_no_others_are_given) {
  amqp_login login = on.login();
  login.user = on.name;
  login.password = "secret";
  on.broker.add_user(login.user, login.password);
  const auto is_530 = [](const amqp_closed& closed) { return closed.code == 530; };
  BOOST_CHECK_EXCEPTION(raw_amqp(on.port, login), amqp_closed, is_530);
  const std::string own = "^" + on.name + "(-.*)?$";
  on.broker.set_rights(login.user, own, "^(" + on.name + "(-.*)?|amq\\.default)$", own);
  raw_amqp user(on.port, login);
  BOOST_TEST(user.ask({on.take(), get(on.F), passive(on.A), message(on.F), purge(on.F), remove(on.B)}) ==
             (answers{"ok", "empty", "ok", "ok", "ok"}));
  BOOST_TEST((user.probe({on.A, on.B}) == std::vector<bool>{true, false}));
  BOOST_TEST(user.ask({declare("others")}) == answers{"403"});
  BOOST_TEST(user.ask({get("others")}) == answers{"403"});
  on.broker.set_rights(login.user, own, own, own);
  raw_amqp silent(on.port, login);
  silent.send({message(on.F)});
  BOOST_TEST(silent.expect<amqp::channel_close>().reply_code == 403u);
}

FACT(a_user_that_is_deleted_loses_its_connection) {
  amqp_login login = on.login();
  login.user = on.name;
  login.password = "secret";
  on.broker.add_user(login.user, login.password);
  on.broker.set_rights(login.user, ".*", ".*", ".*");
  raw_amqp user(on.port, login), rival(on.port);
  BOOST_TEST(user.ask({on.take()}) == answers{"ok"});
  on.broker.delete_user(login.user);
  BOOST_TEST(user.code_of_end() == 320u);
  on.await_free(rival);
}

// --- Operators and accidents.

FACT(a_forced_close_is_told_at_once_and_leaves_no_token) {
  raw_amqp owner(on.port), rival(on.port);
  const std::string other = on.name + "-2-F";
  BOOST_TEST(rival.ask({declare(other, token_queue(2000))}) == answers{"ok"});
  on.publish_token(rival, {on.F, other});
  BOOST_TEST(owner.ask({on.take(), get(on.F)}) == (answers{"ok", "clean"}));
  on.broker.close_connection(owner.local_port());
  BOOST_TEST(owner.code_of_end() == 320u);
  BOOST_TEST(owner.text == "CONNECTION_FORCED - closed by an operator of a test");
  on.await_free(rival);
  BOOST_TEST(rival.ask({get(on.F), get(other)}) == (answers{"empty", "clean"}));
}

FACT(an_alarm_stops_no_connection_that_does_not_publish) {
  raw_amqp owner(on.port), rival(on.port), reader(on.port);
  on.publish_token(reader, {on.F});  // so the broker knows that this connection publishes
  const alarm_on alarm(on.broker);
  BOOST_TEST(owner.ask({on.take(), get(on.F), passive(on.A), passive(on.B), purge(on.F)}) ==
             (answers{"ok", "clean", "ok", "ok", "ok"}));
  BOOST_TEST(rival.ask({on.take()}) == answers{"405"});
  BOOST_TEST(owner.ask({remove(on.B)}) == answers{"ok"});
  BOOST_TEST(rival.ask({on.take()}) == answers{"ok"});
  BOOST_TEST(reader.ask({passive(on.F)}) == answers{"ok"});
}

FACT(in_an_alarm_a_message_is_kept_back_and_its_sender_is_told) {
  raw_amqp publisher(on.port), reader(on.port);
  {
    const alarm_on alarm(on.broker);
    publisher.send({message(on.F)});
    publisher.await_blocked();
    BOOST_TEST(reader.ask({get(on.F)}) == answers{"empty"});
  }
  expect_soon("the message arrives after the alarm", [&] { return reader.ask({get(on.F)}) == answers{"clean"}; });
  BOOST_TEST(publisher.ask({passive(on.F)}) == answers{"ok"});
  BOOST_TEST(!publisher.is_blocked);
}

FACT(in_an_alarm_a_release_whose_connection_ends_frees_the_slot_without_a_token) {
  raw_amqp rival(on.port);
  {
    const alarm_on alarm(on.broker);
    raw_amqp owner(on.port, on.login(1));  // it sends no heartbeats, so it comes when the alarm is on
    BOOST_TEST(owner.ask({on.take()}) == answers{"ok"});
    owner.send(release(on));
    owner.await_blocked();
    BOOST_TEST(rival.ask({on.take()}) == answers{"405"});
    owner.close();
    on.await_free(rival);
    BOOST_TEST(rival.ask({get(on.F)}) == answers{"empty"});
  }
  BOOST_TEST(rival.ask({passive(on.B), get(on.F)}) == (answers{"ok", "empty"}));
}

FACT(a_stop_of_the_application_is_told_and_leaves_no_token_that_was_taken) {
  raw_amqp owner(on.port);
  on.publish_token(owner, {on.F});
  BOOST_TEST(owner.ask({on.take(), get(on.F)}) == (answers{"ok", "clean"}));
  on.broker.stop_application();
  BOOST_TEST(owner.code_of_end() == 320u);
  on.broker.start_application();
  raw_amqp rival(on.port);
  BOOST_TEST(rival.ask({on.take(), get(on.F), passive(on.A)}) == (answers{"ok", "empty", "ok"}));
}

BOOST_AUTO_TEST_SUITE_END()
