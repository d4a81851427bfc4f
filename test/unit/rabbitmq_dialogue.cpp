// SPDX-FileCopyrightText: The holdfast authors
// SPDX-License-Identifier: BSL-1.0

#include "rabbitmq/dialogue.hpp"

#include <boost/test/unit_test.hpp>
#include <cstdint>
#include <holdfast/error.hpp>
#include <holdfast/error_with_diagnostics.hpp>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "rabbitmq/frame.hpp"
#include "rabbitmq/method.hpp"

BOOST_AUTO_TEST_SUITE(rabbitmq_dialogue)

namespace {

using namespace holdfast;
using namespace rabbitmq::detail;

constexpr auto never = dialogue::time_point::max();

dialogue::terms usual_terms() {
  dialogue::terms terms;
  terms.how = {"PLAIN", "secret"};
  terms.connection_name = "a test";
  terms.virtual_host = "/";
  terms.heartbeat = 5;
  return terms;
}

/// The methods in the output, which is removed. The protocol header is not counted.
std::vector<method> methods_in(std::string& output) {
  const std::string bytes = std::exchange(output, {});
  std::string_view rest = bytes;
  if (rest.starts_with(protocol_header)) rest.remove_prefix(protocol_header.size());
  frame_reader reader({dialogue::frame_bytes_wanted, content_header_least, 100});
  std::vector<method> found;
  while (!rest.empty()) {
    std::optional<frame> each;
    BOOST_REQUIRE(!reader.read(rest, each));
    if (!each || each->type != frame_type::method) continue;
    method m;
    std::string_view cause;
    BOOST_REQUIRE_MESSAGE(!decode_method(*each, decoder::server, m, cause), cause);
    found.push_back(std::move(m));
  }
  return found;
}

/// A dialogue, and the broker's side of it.
class scene {
public:
  explicit scene(dialogue::terms terms = usual_terms()) : talk(std::move(terms)) {
    dialogue::listener told;
    told.opened = [this] { ++opened; };
    told.blocked = [this](bool on) { blocked.push_back(on); };
    told.ended = [this](const failure& why) { ended.push_back(why); };
    talk.set_listener(std::move(told));
    talk.begin();
  }

  scene& say(std::uint16_t channel, const method& what) {
    std::string bytes;
    BOOST_REQUIRE(!append_method(bytes, channel, what));
    talk.receive(bytes);
    return *this;
  }
  scene& send_message(std::uint16_t channel, const std::string& body) {
    std::string bytes;
    BOOST_REQUIRE(!append_content(bytes, channel, {}, body, frame_max_least));
    talk.receive(bytes);
    return *this;
  }
  /// The login, and the opening of channel 1.
  scene& open(bool with_confirms = false, channel_user user = {}) {
    connection_start start;
    start.mechanisms = "AMQPLAIN PLAIN";
    say(0, start).say(0, connection_tune{2047, 131'072, 60}).say(0, connection_open_ok{});
    talk.open_channel(with_confirms, std::move(user));
    say(1, channel_open_ok{});
    if (with_confirms) say(1, confirm_select_ok{});
    talk.output().clear();
    return *this;
  }
  scene& ask(steps what, std::uint16_t channel = 1) {
    talk.ask(channel, std::move(what), never, [this](reply&& answer) { answers.push_back(std::move(answer)); });
    return *this;
  }

  bool is_malformed() const { return talk.why().code == error::malformed_reply && ended.size() == 1; }

  dialogue talk;
  int opened = 0;
  std::vector<bool> blocked{};
  std::vector<failure> ended{};
  std::vector<reply> answers{};
};

step passive(std::string queue) {
  queue_declare what;
  what.queue = std::move(queue);
  what.passive = true;
  return {std::move(what), {}, {}};
}

step probe(std::string queue) {
  basic_publish what;
  what.routing_key = std::move(queue);
  what.mandatory = true;
  return {std::move(what), {}, {}};
}

basic_return returned(std::string queue) {
  basic_return what;
  what.reply_code = 312;
  what.routing_key = std::move(queue);
  return what;
}

}  // namespace

BOOST_AUTO_TEST_CASE(the_login_is_sent_when_the_broker_has_begun) {
  scene on;
  BOOST_TEST(on.talk.output() == protocol_header);
  connection_start start;
  start.mechanisms = "PLAIN";
  on.say(0, start);
  const auto sent = methods_in(on.talk.output());
  BOOST_REQUIRE(sent.size() == 1);
  const auto& login = std::get<connection_start_ok>(sent[0]);
  BOOST_TEST(login.response == "secret");
  BOOST_TEST(login.properties.connection_name == "a test");
}

BOOST_AUTO_TEST_CASE(the_limits_are_the_lower_ones_and_the_heartbeat_is_ours) {
  scene on;
  connection_start start;
  start.mechanisms = "PLAIN";
  on.say(0, start).say(0, connection_tune{100, 8192, 60});
  const auto sent = methods_in(on.talk.output());
  BOOST_REQUIRE(sent.size() == 3);
  BOOST_TEST((std::get<connection_tune_ok>(sent[1]) == connection_tune_ok{100, 8192, 5}));
  BOOST_TEST(std::get<connection_open>(sent[2]).virtual_host == "/");
}

BOOST_AUTO_TEST_CASE(a_login_is_not_sent_to_a_broker_that_does_not_offer_it) {
  scene on;
  connection_start start;
  start.mechanisms = "EXTERNAL XPLAIN";
  on.talk.output().clear();
  on.say(0, start);
  BOOST_TEST(on.talk.output().empty());
  BOOST_TEST(on.talk.why().code == error::permission_denied);
}

BOOST_AUTO_TEST_CASE(a_refused_login_is_a_lack_of_permission) {
  scene on;
  connection_start start;
  start.mechanisms = "PLAIN";
  on.say(0, start).say(0, connection_close{403, "ACCESS_REFUSED", 0, 0});
  BOOST_TEST(on.talk.why().code == error::permission_denied);
  BOOST_TEST(on.talk.why().details.server_message == "403 ACCESS_REFUSED");
}

/// Users of RabbitMQ get the errors of Consul's client, whose texts must fit both.
BOOST_AUTO_TEST_CASE(no_text_of_a_refusal_speaks_of_consul) {
  for (const std::uint16_t code : {200, 320, 403, 404, 405, 406, 504, 530, 541}) {
    const failure why = failure_of({code, "NO - \"a queue\""}, "the slot cannot be read");
    const std::string text = error_with_diagnostics(why.code, why.details).what();
    BOOST_TEST(text.find("; the server said: " + std::to_string(code) + " NO - \"a queue\"") != std::string::npos,
               text);
    for (const char* const other : {"Consul", "agent", "http"}) BOOST_TEST(text.find(other) == std::string::npos, text);
  }
}

BOOST_AUTO_TEST_CASE(a_request_is_answered_when_all_its_steps_are) {
  scene on;
  on.open().ask({passive("a"), passive("b")});
  BOOST_TEST(methods_in(on.talk.output()).size() == 2u);
  on.say(1, queue_declare_ok{"a", 0, 0});
  BOOST_TEST(on.answers.empty());
  on.say(1, queue_declare_ok{"b", 0, 0});
  BOOST_REQUIRE(on.answers.size() == 1);
  BOOST_TEST(on.answers[0].answered == 2u);
  BOOST_TEST(!on.answers[0].refused);
}

BOOST_AUTO_TEST_CASE(one_request_at_a_time_is_sent_on_a_channel) {
  scene on;
  on.open().ask({passive("a")}).ask({passive("b")});
  BOOST_TEST(methods_in(on.talk.output()).size() == 1u);
  on.say(1, queue_declare_ok{"a", 0, 0});
  BOOST_TEST(methods_in(on.talk.output()).size() == 1u);
}

BOOST_AUTO_TEST_CASE(a_refused_step_ends_its_request_and_the_channel_is_opened_again) {
  scene on;
  on.open().ask({passive("a"), passive("b"), passive("c")}).ask({passive("d")});
  on.talk.output().clear();
  on.say(1, queue_declare_ok{"a", 0, 0}).say(1, channel_close{404, "NOT_FOUND", 50, 10});
  BOOST_REQUIRE(on.answers.size() == 1);
  BOOST_TEST(on.answers[0].answered == 1u);
  BOOST_REQUIRE(on.answers[0].refused);
  BOOST_TEST(on.answers[0].refused->code == 404);
  const auto sent = methods_in(on.talk.output());
  BOOST_REQUIRE(sent.size() == 2);
  BOOST_TEST(std::holds_alternative<channel_close_ok>(sent[0]));
  BOOST_TEST(std::holds_alternative<channel_open>(sent[1]));
  on.say(1, channel_open_ok{});
  BOOST_TEST(methods_in(on.talk.output()).size() == 1u);
}

BOOST_AUTO_TEST_CASE(a_get_tells_whether_there_was_a_message) {
  scene on;
  on.open().ask({{basic_get{"f", true}, {}, {}}}).say(1, basic_get_ok{1, false, "", "f", 0});
  BOOST_TEST(on.answers.empty());
  on.send_message(1, "clean");
  BOOST_REQUIRE(on.answers.size() == 1);
  BOOST_TEST(on.answers[0].has_message);
  on.ask({{basic_get{"f", true}, {}, {}}}).say(1, basic_get_empty{});
  BOOST_REQUIRE(on.answers.size() == 2);
  BOOST_TEST(!on.answers[1].has_message);
}

BOOST_AUTO_TEST_CASE(returned_messages_tell_which_queues_are_missing) {
  scene on;
  on.open(true).ask({probe("a"), probe("b"), probe("c")});
  on.say(1, returned("b")).send_message(1, "").say(1, basic_ack{2, true});
  BOOST_TEST(on.answers.empty());
  on.say(1, basic_nack{3, false, false});
  BOOST_REQUIRE(on.answers.size() == 1);
  const std::vector<bool> expected{false, true, false};
  BOOST_TEST((on.answers[0].missing == expected));
}

BOOST_AUTO_TEST_CASE(confirms_count_from_one_again_on_a_channel_that_was_opened_again) {
  scene on;
  on.open(true).ask({probe("a")}).say(1, basic_ack{1, false});
  on.say(1, channel_close{403, "", 0, 0}).say(1, channel_open_ok{}).say(1, confirm_select_ok{});
  on.ask({probe("a")}).say(1, basic_ack{1, false});
  BOOST_TEST(on.answers.size() == 2u);
  BOOST_TEST(on.ended.empty());
}

BOOST_AUTO_TEST_CASE(an_alarm_is_told_once_and_so_is_its_end) {
  scene on;
  on.open().say(0, connection_blocked{"memory"}).say(0, connection_blocked{"disk"}).say(0, connection_unblocked{});
  const std::vector<bool> expected{true, false};
  BOOST_TEST((on.blocked == expected));
}

BOOST_AUTO_TEST_CASE(an_alarm_is_told_to_the_users_of_channels_who_may_end_the_dialogue) {
  scene on;
  int told = 0;
  channel_user user;
  user.blocked = [&] {
    ++told;
    on.talk.end({error::connection_lost, {}});
  };
  on.open(false, user);
  on.talk.open_channel(false, user);
  on.say(0, connection_blocked{"memory"});
  BOOST_TEST(told == 1);
  BOOST_TEST(on.ended.size() == 1u);
}

BOOST_AUTO_TEST_CASE(the_end_is_told_to_requests_first_and_to_all) {
  scene on;
  std::vector<std::string> told;
  channel_user user;
  user.ended = [&](const failure&) { told.push_back("user"); };
  on.open(false, std::move(user));
  for (int i = 0; i != 2; ++i) {
    on.talk.ask(1, {passive("a")}, never, [&](reply&& answer) {
      BOOST_TEST(answer.error.code == error::connection_lost);
      told.push_back("request");
    });
  }
  on.say(0, connection_close{320, "CONNECTION_FORCED", 0, 0});
  const std::vector<std::string> expected{"request", "request", "user"};
  BOOST_TEST(told == expected, boost::test_tools::per_element());
  BOOST_TEST(on.ended.size() == 1u);
}

BOOST_AUTO_TEST_CASE(a_close_of_ours_ends_with_its_reason) {
  scene on;
  on.open();
  on.talk.close({error::closed, {}});
  BOOST_TEST(on.ended.empty());
  on.say(1, queue_declare_ok{}).say(0, connection_close_ok{});
  BOOST_REQUIRE(on.ended.size() == 1);
  BOOST_TEST(on.ended[0].code == error::closed);
}

BOOST_AUTO_TEST_CASE(everything_that_nobody_asked_for_is_malformed) {
  const std::pair<std::uint16_t, method> all[] = {
      {0, connection_start{}},   {0, connection_tune{2047, 131'072, 60}},
      {0, connection_open_ok{}}, {0, connection_close_ok{}},
      {1, channel_open_ok{}},    {1, channel_close_ok{}},
      {1, queue_declare_ok{}},   {1, queue_purge_ok{}},
      {1, basic_get_empty{}},    {1, basic_ack{1, false}},
      {1, returned("a")},        {1, basic_deliver{"t", 1, false, "", "q"}},
      {1, basic_cancel{"t"}},    {1, confirm_select_ok{}},
      {2, queue_declare_ok{}},   {2, channel_close{404, "", 0, 0}},
  };
  for (const auto& [channel, what] : all) {
    scene on;
    on.open().say(channel, what);
    BOOST_TEST(on.is_malformed(), name_of(what));
  }
}

BOOST_AUTO_TEST_CASE(another_answer_than_the_expected_one_is_malformed) {
  const method all[] = {queue_purge_ok{}, basic_get_empty{}, basic_ack{1, false}, channel_open_ok{}, returned("a")};
  for (const method& what : all) {
    scene on;
    on.open().ask({passive("a")}).say(1, what);
    BOOST_TEST(on.is_malformed(), name_of(what));
    BOOST_REQUIRE(on.answers.size() == 1);
    BOOST_TEST(on.answers[0].error.code == error::malformed_reply);
  }
}

BOOST_AUTO_TEST_CASE(a_wrong_confirm_is_malformed) {
  for (const basic_ack& what : {basic_ack{3, false}, basic_ack{3, true}}) {
    scene on;
    on.open(true).ask({probe("a"), probe("b")}).say(1, what);
    BOOST_TEST(on.is_malformed(), what.delivery_tag);
  }
  scene twice;
  twice.open(true).ask({probe("a"), probe("b")}).say(1, basic_ack{1, false}).say(1, basic_ack{1, false});
  BOOST_TEST(twice.is_malformed());
  scene again;
  again.open(true).ask({probe("a"), probe("b")}).say(1, returned("a")).send_message(1, "").say(1, returned("a"));
  BOOST_TEST(again.is_malformed());
}

BOOST_AUTO_TEST_CASE(a_method_within_a_message_is_malformed) {
  scene on;
  on.open().ask({{basic_get{"f", true}, {}, {}}}).say(1, basic_get_ok{1, false, "", "f", 0});
  on.say(1, basic_get_empty{});
  BOOST_TEST(on.is_malformed());
}

BOOST_AUTO_TEST_CASE(a_message_without_a_method_is_malformed) {
  scene on;
  on.open().send_message(1, "clean");
  BOOST_TEST(on.is_malformed());
}

BOOST_AUTO_TEST_CASE(a_channel_that_is_closed_while_it_is_opened_is_malformed) {
  scene on;
  on.open().say(1, channel_close{404, "", 0, 0}).say(1, channel_close{404, "", 0, 0});
  BOOST_TEST(on.is_malformed());
}

BOOST_AUTO_TEST_CASE(methods_out_of_order_are_malformed_in_the_login) {
  const method all[] = {connection_tune{2047, 131'072, 60}, connection_open_ok{}, connection_blocked{},
                        connection_close_ok{}};
  for (const method& what : all) {
    scene on;
    on.say(0, what);
    BOOST_TEST(on.is_malformed(), name_of(what));
  }
  scene other;
  connection_start start;
  start.version_minor = 8;
  other.say(0, start);
  BOOST_TEST(other.is_malformed());
}

BOOST_AUTO_TEST_CASE(a_user_may_end_the_dialogue_from_any_call) {
  scene on;
  on.open();
  on.talk.ask(1, {passive("a")}, never, [&](reply&&) { on.talk.end({error::closed, {}}); });
  on.ask({passive("b")});
  on.say(1, channel_close{404, "", 0, 0});
  BOOST_REQUIRE(on.answers.size() == 1);
  BOOST_TEST(on.answers[0].error.code == error::closed);
  BOOST_TEST(on.ended.size() == 1u);
}

BOOST_AUTO_TEST_CASE(a_broker_that_has_no_more_channels_is_told_of) {
  scene on;
  connection_start start;
  start.mechanisms = "PLAIN";
  on.say(0, start).say(0, connection_tune{3, 131'072, 60}).say(0, connection_open_ok{});
  for (std::uint16_t i = 1; i != 4; ++i) BOOST_TEST(on.talk.open_channel(false) == i);
  BOOST_TEST(on.talk.open_channel(false) == 0);
}

BOOST_AUTO_TEST_SUITE_END()
