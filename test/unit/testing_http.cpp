// SPDX-FileCopyrightText: The holdfast authors
// SPDX-License-Identifier: BSL-1.0

// HTTP as bytes: what a server and a proxy read and write.

#include <boost/test/unit_test.hpp>
#include <string>

#include "testing/http.hpp"

using namespace holdfast::testing::detail;

namespace {

constexpr std::size_t body_max = 1000;

parse_state parse_whole(std::string_view bytes) {
  request_reader reader(body_max);
  reader.append(bytes);
  return reader.parse();
}

bool same(parse_state a, parse_state b) { return a == b; }

api_request call(std::string target, std::string body = {}) { return {"PUT", std::move(target), std::move(body)}; }

}  // namespace

BOOST_AUTO_TEST_SUITE(testing_http)

BOOST_AUTO_TEST_CASE(requests_in_any_pieces_are_the_same_requests) {
  const std::string bytes =
      "PUT /v1/kv/a?flags=1 HTTP/1.1\r\nHost: h\r\nX-Consul-Token: t\r\nContent-Length: 3\r\n\r\nabc"
      "PUT /v1/txn HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nde\r\n1\r\nf\r\n0\r\n\r\n"
      "PUT /v1/txn HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n"
      "GET / HTTP/1.0\r\n\r\n";
  for (std::size_t piece = 1; piece <= bytes.size(); ++piece) {
    request_reader reader(body_max);
    std::vector<http_request> requests;
    for (std::size_t at = 0; at < bytes.size(); at += piece) {
      reader.append(std::string_view(bytes).substr(at, piece));
      while (same(reader.parse(), parse_state::complete)) requests.push_back(reader.take());
    }
    BOOST_TEST_CONTEXT("pieces of " << piece) {
      BOOST_REQUIRE(requests.size() == 4u);
      BOOST_TEST(requests[0].call.method == "PUT");
      BOOST_TEST(requests[0].call.target == "/v1/kv/a?flags=1");
      BOOST_TEST(requests[0].call.body == "abc");
      BOOST_REQUIRE(requests[0].headers.size() == 1u);  // Host and Content-Length are of one connection
      BOOST_TEST(requests[0].headers[0].first == "X-Consul-Token");
      BOOST_TEST(requests[0].headers[0].second == "t");
      BOOST_TEST(requests[0].keep_alive);
      BOOST_TEST(requests[1].call.body == "def");
      BOOST_TEST(requests[1].headers.empty());
      BOOST_TEST(requests[2].call.body.empty());
      BOOST_TEST(!requests[3].keep_alive);
    }
  }
}

BOOST_AUTO_TEST_CASE(what_is_no_request_is_refused) {
  for (const std::string bytes :
       {"GET\r\n\r\n", "GET / HTTP/9.9\r\n\r\n", "GET / HTTP/1.1\r\nno colon\r\n\r\n", "\x16\x03\x01\x02",
        "get / HTTP/1.1\r\n\r\n", "AAAAAAAAAAAAAAAAA\x01", "PUT / HTTP/1.1\r\nContent-Length: x\r\n\r\n",
        "PUT / HTTP/1.1\r\nContent-Length: -1\r\n\r\n",
        "PUT / HTTP/1.1\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\n",
        "PUT / HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n"})
    BOOST_TEST(same(parse_whole(bytes), parse_state::malformed), bytes);
  BOOST_TEST(same(parse_whole(""), parse_state::incomplete));
  BOOST_TEST(same(parse_whole("GET / HT"), parse_state::incomplete));
}

BOOST_AUTO_TEST_CASE(sizes_are_bounded) {
  const std::string many(20'000, 'a');
  BOOST_TEST(same(parse_whole("GET / HTTP/1.1\r\nX: " + many + "\r\n\r\n"), parse_state::header_too_large));
  BOOST_TEST(same(parse_whole("GET /" + many), parse_state::header_too_large));
  const std::string head = "PUT / HTTP/1.1\r\nContent-Length: ";
  BOOST_TEST(same(parse_whole(head + "1000\r\n\r\n" + many.substr(0, 1000)), parse_state::complete));
  BOOST_TEST(same(parse_whole(head + "1001\r\n\r\n"), parse_state::body_too_large));
  BOOST_TEST(same(parse_whole(head + "99999999999999999999\r\n\r\n"), parse_state::malformed));
  const std::string chunked = "PUT / HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n";
  BOOST_TEST(same(parse_whole(chunked + "3e9\r\n" + many.substr(0, 1001) + "\r\n"), parse_state::body_too_large));
  BOOST_TEST(same(parse_whole(chunked + "1;x=" + many), parse_state::malformed));
  BOOST_TEST(refusal_of(parse_state::malformed, body_max).status == 400u);
  BOOST_TEST(refusal_of(parse_state::header_too_large, body_max).status == 431u);
  BOOST_TEST(refusal_of(parse_state::body_too_large, body_max).status == 413u);
}

BOOST_AUTO_TEST_CASE(a_client_that_sends_on_and_on_is_not_read_on_and_on) {
  request_reader reader(body_max);
  for (int i = 0; i < 8; ++i) {
    BOOST_TEST(!reader.full());
    reader.append(std::string(8192, 'G'));
  }
  BOOST_TEST(reader.full());
}

BOOST_AUTO_TEST_CASE(a_reply_passes_through) {
  const std::string bytes =
      "HTTP/1.1 404 Not Found\r\nX-Consul-Index: 7\r\nDate: d\r\nTransfer-Encoding: "
      "chunked\r\n\r\n2\r\nab\r\n0\r\n\r\n";
  reply_reader reader("GET", body_max);
  for (const char& byte : bytes) {
    BOOST_TEST(same(reader.parse(), parse_state::incomplete));
    reader.append({&byte, 1});
  }
  BOOST_TEST(same(reader.parse(), parse_state::complete));
  const http_reply read = reader.take();
  BOOST_TEST(read.keep_alive);
  BOOST_TEST(format_reply(read.reply, true) ==
             "HTTP/1.1 404 Not Found\r\nX-Consul-Index: 7\r\nDate: d\r\nConnection: keep-alive\r\n"
             "Content-Length: 2\r\n\r\nab");
}

BOOST_AUTO_TEST_CASE(replies_that_end_with_their_connection) {
  reply_reader without_length("GET", body_max);
  without_length.append("HTTP/1.1 200 OK\r\n\r\nall");
  BOOST_TEST(same(without_length.parse(), parse_state::incomplete));
  BOOST_TEST(same(without_length.finish(), parse_state::complete));
  const http_reply read = without_length.take();
  BOOST_TEST(read.reply.body == "all");
  BOOST_TEST(!read.keep_alive);

  reply_reader cut("GET", body_max);
  cut.append("HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nall");
  BOOST_TEST(same(cut.parse(), parse_state::incomplete));
  BOOST_TEST(same(cut.finish(), parse_state::malformed));

  reply_reader nothing("GET", body_max);
  BOOST_TEST(same(nothing.finish(), parse_state::malformed));

  reply_reader too_much("GET", body_max);
  too_much.append("HTTP/1.1 200 OK\r\nContent-Length: 1001\r\n\r\n");
  BOOST_TEST(same(too_much.parse(), parse_state::body_too_large));

  reply_reader surplus("GET", body_max);
  surplus.append("HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\nHTTP/1.1");
  BOOST_TEST(same(surplus.parse(), parse_state::complete));
  BOOST_TEST(!surplus.take().keep_alive);
}

BOOST_AUTO_TEST_CASE(a_reply_to_head_has_no_body) {
  reply_reader reader("HEAD", body_max);
  reader.append("HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\n");
  BOOST_TEST(same(reader.parse(), parse_state::complete));
  BOOST_TEST(format_reply({200, {}, "abcde"}, false, false) ==
             "HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 5\r\n\r\n");
}

BOOST_AUTO_TEST_CASE(a_request_is_passed_on_with_its_headers) {
  http_request request;
  request.call = call("/v1/txn", "[]");
  request.headers = {{"X-Consul-Token", "t"}};
  BOOST_TEST(format_request(request, "127.0.0.1:1") ==
             "PUT /v1/txn HTTP/1.1\r\nHost: 127.0.0.1:1\r\nX-Consul-Token: t\r\nContent-Length: 2\r\n\r\n[]");
}

BOOST_AUTO_TEST_CASE(blocking_queries_are_known_by_their_index) {
  for (const char* target : {"/v1/kv/a?index=1", "/v1/kv/a?wait=1s&index=20&recurse", "/?&index=01", "/?index=x"})
    BOOST_TEST(is_blocking_query(call(target)), target);
  for (const char* target : {"/v1/kv/index=1", "/?index=0", "/?index=", "/?index", "/?xindex=1", "/", "/?", "/?&"})
    BOOST_TEST(!is_blocking_query(call(target)), target);
}

BOOST_AUTO_TEST_CASE(the_session_that_a_request_names) {
  const std::string one = "11111111-2222-3333-4444-555555555555";
  const std::string two = "aaaaaaaa-BBBB-cccc-dddd-eeeeeeeeeeee";
  BOOST_TEST(session_named(call("/v1/session/renew/" + one)).value() == one);
  BOOST_TEST(session_named(call("/v1/txn", "{\"Session\":\"" + two + "\"}")).value() == two);
  BOOST_TEST(session_named(call("/v1/kv/a?acquire=" + one, two)).value() == one);
  BOOST_TEST(!session_named(call("/v1/kv/a", one.substr(1))).has_value());
  BOOST_TEST(!session_named(call("/", "11111111x2222-3333-4444-555555555555")).has_value());
}

BOOST_AUTO_TEST_SUITE_END()
