// SPDX-FileCopyrightText: The holdfast authors
// SPDX-License-Identifier: BSL-1.0

#include "rabbitmq/method.hpp"

#include <boost/test/unit_test.hpp>
#include <set>
#include <string>
#include <vector>

using namespace std::string_view_literals;
using holdfast::error;
using holdfast::error_code;

namespace holdfast::rabbitmq::detail {

BOOST_AUTO_TEST_SUITE(rabbitmq_method)

namespace {

/// One of each, with other values than the defaults.
std::vector<method> all_methods() {
  return {
      connection_start{0, 9, {"RabbitMQ", "3.10.8"}, "PLAIN AMQPLAIN", "en_US"},
      connection_start_ok{{"holdfast", "0.1", "holdfast h:1 n"}, "PLAIN", std::string("\0u\0p"sv), "en_US"},
      connection_tune{2047, 131'072, 60},
      connection_tune_ok{2047, 131'072, 5},
      connection_open{"v/host"},
      connection_open_ok{},
      connection_close{320, "CONNECTION_FORCED - closed", 50, 10},
      connection_close_ok{},
      connection_blocked{"low on memory"},
      connection_unblocked{},
      channel_open{},
      channel_open_ok{},
      channel_close{405, "RESOURCE_LOCKED", 50, 10},
      channel_close_ok{},
      queue_declare{"n-1-F", false, true, true, true, {1, 10'000, 2000, "classic", {}}},
      queue_declare_ok{"n-1-F", 3, 4},
      queue_purge{"n-1-F"},
      queue_purge_ok{5},
      queue_delete{"n-1-B", true, true},
      queue_delete_ok{6},
      basic_qos{1},
      basic_qos_ok{},
      basic_consume{"n-F", "tag", true, true},
      basic_consume_ok{"tag"},
      basic_cancel{"tag"},
      basic_cancel_ok{"tag"},
      basic_publish{"exchange", "n-1-F", true},
      basic_return{312, "NO_ROUTE", "exchange", "n-1-A"},
      basic_deliver{"tag", 0x0102030405060708, true, "exchange", "n-F"},
      basic_get{"n-1-F", true},
      basic_get_ok{7, true, "exchange", "n-1-F", 8},
      basic_get_empty{},
      basic_ack{9, true},
      basic_nack{10, true, true},
      confirm_select{},
      confirm_select_ok{},
  };
}

bool is_of_a_connection(const method& what) { return name_of(what).starts_with("connection."); }

std::uint16_t channel_of(const method& what) { return is_of_a_connection(what) ? 0 : 1; }

std::string encoded(const method& what, std::uint16_t channel) {
  std::string bytes;
  BOOST_TEST(!append_method(bytes, channel, what), name_of(what));
  return bytes;
}

/// Decodes a method whose frame has this payload.
error_code decode_payload(std::string_view payload, decoder decoder, method& out, std::string_view& cause,
                          std::uint16_t channel = 1) {
  return decode_method({frame_type::method, channel, static_cast<std::uint32_t>(payload.size()), payload}, decoder, out,
                       cause);
}

/// The payload of the only frame in `bytes`.
std::string_view payload_in(std::string_view bytes) { return bytes.substr(7, bytes.size() - frame_overhead); }

error_code decode(const method& what, decoder decoder, method& out) {
  const std::string bytes = encoded(what, channel_of(what));
  std::string_view cause;
  return decode_payload(payload_in(bytes), decoder, out, cause, channel_of(what));
}

void check_refused(std::string_view payload, decoder decoder, std::string_view part, std::uint16_t channel = 1) {
  method out = confirm_select{};
  std::string_view cause;
  BOOST_TEST_CONTEXT(part) {
    BOOST_TEST(decode_payload(payload, decoder, out, cause, channel) == error::malformed_reply);
    BOOST_TEST(cause.find(part) != std::string_view::npos, cause);
    BOOST_TEST(std::holds_alternative<confirm_select>(out));
  }
}

std::string table(std::string_view entries) {
  return {'\0', '\0', static_cast<char>(entries.size() >> 8), static_cast<char>(entries.size() & 0xFF)};
}

/// The payload of a queue.declare with these entries in its table of arguments.
std::string declare_with(std::string_view entries, char bits = 0) {
  return std::string("\0\x32\0\x0A\0\0\x01q"sv) + bits + table(entries) + std::string(entries);
}

constexpr std::string_view start_front = "\0\x0A\0\x0A\0\x09"sv;
constexpr std::string_view start_back =
    "\0\0\0\x05PLAIN\0\0\0\x05"
    "en_US"sv;

std::string start_with(std::string_view entries) {
  return std::string(start_front) + table(entries) + std::string(entries) + std::string(start_back);
}

}  // namespace

BOOST_AUTO_TEST_CASE(each_method_survives_both_directions) {
  std::set<std::size_t> kinds;
  std::set<std::string_view> names;
  for (const method& each : all_methods()) {
    kinds.insert(each.index());
    names.insert(name_of(each));
    method by_client;
    method by_server;
    const bool from_broker = !decode(each, decoder::client_before_tune_ok, by_client);
    const bool from_client = !decode(each, decoder::server, by_server);
    BOOST_TEST((from_broker || from_client), name_of(each));
    if (from_broker) BOOST_TEST((by_client == each), name_of(each));
    if (from_client) BOOST_TEST((by_server == each), name_of(each));
  }
  BOOST_TEST(kinds.size() == std::variant_size_v<method>, "all are tried");
  BOOST_TEST(names.size() == std::variant_size_v<method>, "each has a name of its own");
}

BOOST_AUTO_TEST_CASE(methods_are_written_as_the_specification_has_them) {
  BOOST_TEST(payload_in(encoded(connection_tune_ok{2047, 131'072, 60}, 0)) == "\0\x0A\0\x1F\x07\xFF\0\x02\0\0\0\x3C"sv);
  BOOST_TEST(payload_in(encoded(queue_declare{"q", true, false, true}, 1)) == "\0\x32\0\x0A\0\0\x01q\x05\0\0\0\0"sv);
  BOOST_TEST(payload_in(encoded(basic_publish{"", "n-1-A", true}, 1)) == "\0\x3C\0\x28\0\0\0\x05n-1-A\x01"sv);
  BOOST_TEST(payload_in(encoded(basic_get{"q", true}, 1)) == "\0\x3C\0\x46\0\0\x01q\x01"sv);
  BOOST_TEST(payload_in(encoded(queue_declare{"q", false, false, false, false, {1, {}, {}, "x", {}}}, 1)) ==
             declare_with("\x0Cx-max-lengthl\0\0\0\0\0\0\0\x01\x0Cx-queue-typeS\0\0\0\x01x"sv));
}

BOOST_AUTO_TEST_CASE(a_client_announces_what_it_can_do) {
  const std::string bytes = encoded(connection_start_ok{}, 0);
  for (const auto name : {"publisher_confirms\x74\x01"sv, "consumer_cancel_notify\x74\x01"sv,
                          "connection.blocked\x74\x01"sv, "authentication_failure_close\x74\x01"sv})
    BOOST_TEST(bytes.find(name) != std::string::npos, name);
}

BOOST_AUTO_TEST_CASE(a_peer_sends_only_its_own_methods) {
  method out;
  BOOST_TEST(decode(queue_declare{"q"}, decoder::client, out) == error::malformed_reply);
  BOOST_TEST(decode(queue_declare_ok{"q"}, decoder::server, out) == error::malformed_reply);
  BOOST_TEST(!decode(channel_close{}, decoder::client, out));
  BOOST_TEST(!decode(channel_close{}, decoder::server, out));
  BOOST_TEST(!decode(basic_cancel{"tag"}, decoder::client, out));
}

BOOST_AUTO_TEST_CASE(after_tune_ok_a_client_decodes_no_table) {
  method out;
  BOOST_TEST(!decode(connection_start{}, decoder::client_before_tune_ok, out));
  BOOST_TEST(decode(connection_start{}, decoder::client, out) == error::malformed_reply);
  std::size_t decoded = 0;
  for (const method& each : all_methods()) {
    const bool is_start = std::holds_alternative<connection_start>(each);
    if (!decode(each, decoder::client, out)) ++decoded;
    BOOST_TEST((!is_start || decoded == 0));
  }
  BOOST_TEST(decoded > 0u);
}

BOOST_AUTO_TEST_CASE(a_method_has_the_channel_of_its_class) {
  check_refused("\0\x0A\0\x3D"sv, decoder::client, "channel", 1);    // connection.unblocked
  check_refused("\0\x55\0\x0B"sv, decoder::client, "channel", 0);    // confirm.select-ok
  check_refused("\0\x5A\0\x0B"sv, decoder::client, "not expected");  // tx.select-ok
}

BOOST_AUTO_TEST_CASE(a_method_has_exactly_its_arguments) {
  check_refused("\0\x32\0\x1F\0\0\0"sv, decoder::client, "decoded");              // queue.purge-ok, cut off
  check_refused("\0\x32\0\x1F\0\0\0\x01x"sv, decoder::client, "behind its end");  // and with more
  check_refused("\0\x3C\0\x15\x05tag"sv, decoder::client, "decoded");             // a text that is cut off
  check_refused(declare_with("\xFFx"sv), decoder::server, "decoded");             // an entry that is cut off
  check_refused(std::string("\0\x32\0\x0A\0\0\x01q\0\xFF\xFF\xFF\xFF"sv), decoder::server, "decoded");
  check_refused(std::string("\0\x55\0\x0A\x01"sv), decoder::server, "no answer");  // confirm.select, nowait
}

BOOST_AUTO_TEST_CASE(a_broker_may_cancel_a_consumer_without_asking_for_an_answer) {
  method out;
  BOOST_TEST(!decode(basic_cancel{"tag", true}, decoder::client, out));
  BOOST_TEST((out == method(basic_cancel{"tag", true})));
  BOOST_TEST(decode(basic_cancel{"tag", true}, decoder::server, out) == error::malformed_reply);
}

BOOST_AUTO_TEST_CASE(a_peer_offers_enough) {
  const auto offer = [](std::uint16_t channels, std::uint32_t bytes) {
    method out;
    return decode(connection_tune{channels, bytes, 0}, decoder::client_before_tune_ok, out);
  };
  BOOST_TEST(!offer(3, 4096));
  BOOST_TEST(!offer(0, 0));
  BOOST_TEST(offer(2, 4096) == error::malformed_reply);
  BOOST_TEST(offer(3, 4095) == error::malformed_reply);
  method out;
  BOOST_TEST(decode(connection_tune_ok{1, 0, 0}, decoder::server, out) == error::malformed_reply);
}

BOOST_AUTO_TEST_CASE(both_sides_may_do_what_both_can) {
  BOOST_TEST((negotiated({2047, 131'072, 60}, {10, 200'000, 5}) == connection_tune_ok{10, 131'072, 5}));
  BOOST_TEST((negotiated({0, 0, 0}, {10, 8192, 5}) == connection_tune_ok{10, 8192, 5}), "0 is no limit");
}

BOOST_AUTO_TEST_CASE(another_version_of_amqp_is_refused) {
  std::string other = start_with("");
  other[5] = '\x08';
  check_refused(other, decoder::client_before_tune_ok, "another version", 0);
}

BOOST_AUTO_TEST_CASE(of_a_broker_its_name_and_version_are_read) {
  method out;
  std::string_view cause;
  const std::string start = start_with(
      "\x07productS\0\0\0\x08RabbitMQ\x0C"
      "capabilitiesF\0\0\0\x04\x01"
      "at\x01\x05otherI\0\0\0\x07\x07versionS\0\0\0\x05"
      "4.0.5"sv);
  BOOST_TEST(!decode_payload(start, decoder::client_before_tune_ok, out, cause, 0), cause);
  BOOST_TEST((std::get<connection_start>(out).properties == server_properties{"RabbitMQ", "4.0.5"}));
}

BOOST_AUTO_TEST_CASE(a_table_may_be_deep_or_wrong) {
  std::string deep;
  for (int i = 0; i != 500; ++i) {  // 6 bytes each: the key "a", the kind, and the size
    const std::string size = table(deep);
    deep = "\x01" + std::string("aF") + size + deep;
  }
  method out;
  std::string_view cause;
  BOOST_TEST(!decode_payload(start_with(deep), decoder::client_before_tune_ok, out, cause, 0), cause);
  check_refused(start_with("\x01"
                           "a?"sv),
                decoder::client_before_tune_ok, "decoded", 0);
  check_refused(start_with(std::string(5000, 'x')), decoder::client_before_tune_ok, "larger", 0);
}

BOOST_AUTO_TEST_CASE(a_server_reads_numbers_of_each_size) {
  const std::string_view entries[] = {
      "\x0Cx-max-lengthb\x07"sv,
      "\x0Cx-max-lengthB\x07"sv,
      "\x0Cx-max-lengths\0\x07"sv,
      "\x0Cx-max-lengthu\0\x07"sv,
      "\x0Cx-max-lengthI\0\0\0\x07"sv,
      "\x0Cx-max-lengthi\0\0\0\x07"sv,
      "\x0Cx-max-lengthl\0\0\0\0\0\0\0\x07"sv,
      "\x0Cx-max-lengthL\0\0\0\0\0\0\0\x07"sv,
  };
  for (const std::string_view each : entries) {
    method out;
    std::string_view cause;
    BOOST_TEST(!decode_payload(declare_with(each), decoder::server, out, cause), cause);
    BOOST_TEST((std::get<queue_declare>(out).arguments == queue_arguments{7, {}, {}, "", {}}), each);
  }
}

BOOST_AUTO_TEST_CASE(a_server_names_the_arguments_that_it_does_not_know) {
  method out;
  std::string_view cause;
  const std::string declare = declare_with(
      "\x09x-expiresI\0\0\0\x07\x0Cx-max-lengtht\x01\x0Cx-queue-typeI\0\0\0\x01"
      "\x0Dx-message-ttlL\xFF\xFF\xFF\xFF\xFF\xFF\xFF\xFF"sv);
  BOOST_TEST(!decode_payload(declare, decoder::server, out, cause), cause);
  const queue_arguments expected{{}, {}, {}, "", {"x-expires", "x-max-length", "x-queue-type", "x-message-ttl"}};
  BOOST_TEST((std::get<queue_declare>(out).arguments == expected));
}

BOOST_AUTO_TEST_CASE(a_text_that_is_too_long_is_not_sent) {
  std::string bytes = "before";
  BOOST_TEST(append_method(bytes, 1, queue_declare{std::string(256, 'q')}) == error::bad_request);
  BOOST_TEST(append_method(bytes, 0, connection_start_ok{{}, "PLAIN", std::string(4096, 'p'), ""}) ==
             error::bad_request);
  BOOST_TEST(append_content(bytes, 1, {std::string(256, '0'), false}, "", 4096) == error::bad_request);
  BOOST_TEST(bytes == "before");
  BOOST_TEST(!append_method(bytes, 1, queue_declare{std::string(255, 'q')}));
}

BOOST_AUTO_TEST_CASE(methods_with_a_message_are_known) {
  std::set<std::string_view> names;
  for (const method& each : all_methods())
    if (has_content(each)) names.insert(name_of(each));
  BOOST_TEST((names == std::set{"basic.publish"sv, "basic.return"sv, "basic.deliver"sv, "basic.get-ok"sv}));
}

// --- Messages.

namespace {

struct message {
  error_code ec{};
  bool is_complete = false;
  std::uint64_t bytes = 0;
  std::string body{};
};

message read_message(std::string_view stream, std::size_t kept) {
  frame_reader frames({.body_bytes_kept = kept});
  content_reader reader(kept);
  message result;
  std::string_view cause;
  while (!stream.empty() && !result.ec) {
    std::optional<frame> found;
    result.ec = frames.read(stream, found);
    if (found) result.ec = reader.take(*found, cause);
  }
  return {result.ec, reader.is_complete(), reader.body_bytes(), reader.body()};
}

}  // namespace

BOOST_AUTO_TEST_CASE(a_message_is_written_as_the_specification_has_it) {
  std::string bytes;
  BOOST_TEST(!append_content(bytes, 1, {"0", false}, "ab", 4096));
  BOOST_TEST(bytes ==
             "\x02\0\x01\0\0\0\x11\0\x3C\0\0\0\0\0\0\0\0\0\x02\x11\0\x01\x01"
             "0\xCE\x03\0\x01\0\0\0\x02"
             "ab\xCE"sv);
}

BOOST_AUTO_TEST_CASE(of_a_message_no_more_is_kept_than_asked_for) {
  std::string bytes;
  BOOST_TEST(!append_content(bytes, 1, {}, std::string(10'000, 'x'), 4096));
  const message none = read_message(bytes, 0);
  BOOST_TEST(!none.ec);
  BOOST_TEST(none.is_complete);
  BOOST_TEST(none.bytes == 10'000u);
  BOOST_TEST(none.body.empty());
  BOOST_TEST(read_message(bytes, 16).body == std::string(16, 'x'));
  BOOST_TEST(read_message(bytes, 5000).body == std::string(5000, 'x'));
}

BOOST_AUTO_TEST_CASE(an_empty_message_is_complete_with_its_header) {
  std::string bytes;
  BOOST_TEST(!append_content(bytes, 1, {}, "", 4096));
  BOOST_TEST(read_message(bytes, 16).is_complete);
}

BOOST_AUTO_TEST_CASE(a_message_is_its_header_and_then_its_body) {
  const std::string header("\x02\0\x01\0\0\0\x0E\0\x3C\0\0\0\0\0\0\0\0\0\x02\0\0\xCE"sv);
  BOOST_TEST(!read_message(header, 16).is_complete);
  BOOST_TEST(read_message(header + header, 16).ec == error::malformed_reply);
  std::string body;
  append_body(body, 1, "ab", 4096);
  BOOST_TEST(read_message(header + body, 16).body == "ab");
  BOOST_TEST(read_message(body, 16).ec == error::malformed_reply);
  BOOST_TEST(read_message(header + body + body, 16).ec == error::malformed_reply);
  std::string larger;
  append_body(larger, 1, "abc", 4096);
  BOOST_TEST(read_message(header + larger, 16).ec == error::malformed_reply);
  std::string other_class = header;
  other_class[8] = '\x32';
  BOOST_TEST(read_message(other_class, 16).ec == error::malformed_reply);
}

BOOST_AUTO_TEST_CASE(a_server_reads_the_properties) {
  for (const message_properties& each : {message_properties{"0", false}, message_properties{"", true}}) {
    std::string bytes;
    BOOST_TEST(!append_content(bytes, 1, each, "", 4096));
    const std::string_view payload = payload_in(bytes);
    message_properties read;
    std::string_view cause;
    BOOST_TEST(
        !decode_properties({frame_type::header, 1, static_cast<std::uint32_t>(payload.size()), payload}, read, cause));
    BOOST_TEST((read == each));
    BOOST_TEST(decode_properties({frame_type::header, 1, 100, payload}, read, cause) == error::malformed_reply);
  }
  message_properties read;
  std::string_view cause;
  const auto cut_off = "\0\x3C\0\0\0\0\0\0\0\0\0\0\x01\0\x05"sv;  // an expiration of which four bytes are missing
  BOOST_TEST(decode_properties({frame_type::header, 1, 15, cut_off}, read, cause) == error::malformed_reply);
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace holdfast::rabbitmq::detail
