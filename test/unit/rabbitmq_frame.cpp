// SPDX-FileCopyrightText: The holdfast authors
// SPDX-License-Identifier: BSL-1.0

#include "rabbitmq/frame.hpp"

#include <boost/test/unit_test.hpp>
#include <string>
#include <vector>

using namespace std::string_view_literals;
using holdfast::error;
using holdfast::error_code;

namespace holdfast::rabbitmq::detail {

BOOST_AUTO_TEST_SUITE(rabbitmq_frame)

namespace {

struct read_frame {
  frame_type type{};
  std::uint16_t channel = 0;
  std::uint32_t payload_bytes = 0;
  std::string payload{};

  bool operator==(const read_frame&) const = default;
};

struct outcome {
  error_code ec{};
  std::vector<read_frame> frames{};
};

/// Reads a stream that arrives in pieces of this size.
outcome read_in_pieces(frame_reader& reader, std::string_view stream, std::size_t piece) {
  outcome result;
  while (!stream.empty() && !result.ec) {
    std::string_view bytes = stream.substr(0, piece);
    stream.remove_prefix(bytes.size());
    while (!bytes.empty() && !result.ec) {
      std::optional<frame> found;
      result.ec = reader.read(bytes, found);
      if (found)
        result.frames.push_back({found->type, found->channel, found->payload_bytes, std::string(found->payload)});
    }
  }
  return result;
}

outcome read_all(std::string_view stream, frame_limits limits = {}) {
  frame_reader reader(limits);
  return read_in_pieces(reader, stream, stream.size());
}

std::string some_frames() {
  std::string stream;
  append_frame(stream, frame_type::method, 0, "\0\x0A\0\x0A"sv);
  append_heartbeat(stream);
  append_frame(stream, frame_type::header, 3, "\0\x3C\0\0\0\0\0\0\0\0\0\x05\0\0"sv);
  append_frame(stream, frame_type::body, 0xFFFE, "clean");
  return stream;
}

void check_refused(std::string_view stream, std::string_view cause) {
  BOOST_TEST_CONTEXT(cause) {
    for (const std::size_t piece : {stream.size(), std::size_t{1}}) {
      frame_reader reader;
      BOOST_TEST(read_in_pieces(reader, stream, piece).ec == error::malformed_reply);
      BOOST_TEST(reader.cause().find(cause) != std::string_view::npos, reader.cause());
    }
  }
}

}  // namespace

BOOST_AUTO_TEST_CASE(a_frame_is_written_as_the_specification_has_it) {
  std::string bytes;
  append_frame(bytes, frame_type::body, 0x0102, "ab");
  BOOST_TEST(bytes ==
             "\x03\x01\x02\0\0\0\x02"
             "ab\xCE"sv);
  bytes.clear();
  append_heartbeat(bytes);
  BOOST_TEST(bytes == "\x08\0\0\0\0\0\0\xCE"sv);
}

BOOST_AUTO_TEST_CASE(a_stream_may_be_split_anywhere) {
  const std::string stream = some_frames();
  const std::vector<read_frame> expected{
      {frame_type::method, 0, 4, std::string("\0\x0A\0\x0A"sv)},
      {frame_type::heartbeat, 0, 0, ""},
      {frame_type::header, 3, 14, std::string("\0\x3C\0\0\0\0\0\0\0\0\0\x05\0\0"sv)},
      {frame_type::body, 0xFFFE, 5, "clean"},
  };
  for (std::size_t piece = 1; piece <= stream.size(); ++piece) {
    frame_reader reader({.body_bytes_kept = 100});
    const outcome read = read_in_pieces(reader, stream, piece);
    BOOST_TEST(!read.ec);
    BOOST_TEST((read.frames == expected), "pieces of " << piece);
  }
}

BOOST_AUTO_TEST_CASE(a_frame_has_at_most_the_bytes_of_the_limit) {
  std::string fits;
  append_frame(fits, frame_type::method, 1, std::string(frame_max_least - frame_overhead, 'x'));
  BOOST_TEST(fits.size() == frame_max_least);
  BOOST_TEST(read_all(fits).frames.size() == 1u);

  std::string larger;
  append_frame(larger, frame_type::method, 1, std::string(frame_max_least - frame_overhead + 1, 'x'));
  BOOST_TEST(read_all(larger).ec == error::malformed_reply);
  BOOST_TEST(read_all(larger, {.frame_bytes_max = frame_max_least + 1}).frames.size() == 1u);
}

BOOST_AUTO_TEST_CASE(a_larger_frame_is_refused_before_its_payload_comes) {
  check_refused("\x03\0\x01\xFF\xFF\xFF\xFF"sv, "exceeds the limit");
}

BOOST_AUTO_TEST_CASE(the_limits_change_between_frames) {
  std::string larger;
  append_frame(larger, frame_type::body, 1, std::string(10'000, 'x'));
  frame_reader reader;
  BOOST_TEST(!read_in_pieces(reader, some_frames(), 1).ec);
  reader.set_limits({.frame_bytes_max = 131'072});
  const outcome read = read_in_pieces(reader, larger, 1000);
  BOOST_TEST(!read.ec);
  BOOST_TEST(read.frames.size() == 1u);
}

BOOST_AUTO_TEST_CASE(of_bodies_and_headers_no_more_is_kept_than_asked_for) {
  std::string stream;
  append_frame(stream, frame_type::header, 1, std::string(20, 'h'));
  append_frame(stream, frame_type::body, 1, std::string(2000, 'b'));
  const outcome none = read_all(stream);
  BOOST_TEST(none.frames.at(0).payload == std::string(14, 'h'));
  BOOST_TEST(none.frames.at(0).payload_bytes == 20u);
  BOOST_TEST(none.frames.at(1).payload.empty());
  BOOST_TEST(none.frames.at(1).payload_bytes == 2000u);

  frame_reader reader({.header_bytes_kept = 100, .body_bytes_kept = 7});
  const outcome some = read_in_pieces(reader, stream, 3);
  BOOST_TEST(some.frames.at(0).payload == std::string(20, 'h'));
  BOOST_TEST(some.frames.at(1).payload == std::string(7, 'b'));
}

BOOST_AUTO_TEST_CASE(what_is_no_frame_is_refused) {
  check_refused("HTTP/1.1 400 Bad Request\r\n", "unknown type");
  check_refused("AMQP\0\0\x09\x01"sv, "unknown type");
  check_refused("\x02\0\x01\0\0\0\x0D"sv, "too small");  // a header of 13 bytes
  check_refused("\x01\0\x01\0\0\0\x03"sv, "too small");  // a method of 3 bytes
  check_refused("\x03\0\x01\0\0\0\x00"sv, "too small");  // an empty part of a body
  check_refused("\x08\0\0\0\0\0\x01"sv, "heartbeat");    // with a payload
  check_refused("\x08\0\x01\0\0\0\0"sv, "heartbeat");    // on a channel
  check_refused("\x03\0\0\0\0\0\x01"sv, "channel 0");    // a body
  check_refused("\x08\0\0\0\0\0\0\xCD"sv, "end byte");
  check_refused("\x03\0\x01\0\0\0\x01x\xCE\x07"sv, "unknown type");
}

BOOST_AUTO_TEST_CASE(the_first_byte_of_another_protocol_is_refused_at_once) { check_refused("H", "unknown type"); }

BOOST_AUTO_TEST_CASE(a_body_is_split_at_the_limit) {
  const std::string body(10'000, 'x');
  std::string stream;
  append_body(stream, 5, body, 4096);
  frame_reader reader({.body_bytes_kept = 4096});
  const outcome read = read_in_pieces(reader, stream, 100);
  BOOST_TEST(read.frames.size() == 3u);
  std::string together;
  for (const read_frame& each : read.frames) together += each.payload;
  BOOST_TEST(together == body);

  stream.clear();
  append_body(stream, 5, "", 4096);
  BOOST_TEST(stream.empty());
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace holdfast::rabbitmq::detail
