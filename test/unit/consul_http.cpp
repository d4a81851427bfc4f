// SPDX-FileCopyrightText: The holdfast authors
// SPDX-License-Identifier: BSL-1.0

#include "consul/encoding/http.hpp"

#include <boost/test/unit_test.hpp>
#include <chrono>
#include <cstring>

using holdfast::error;
using holdfast::error_code;
using holdfast::consul::detail::format_request;
using holdfast::consul::detail::http_reply;
using holdfast::consul::detail::http_request;
using holdfast::consul::detail::reply_parser;
using holdfast::consul::detail::with_wait;

namespace {

constexpr std::size_t body_max = 1024;

error_code feed(reply_parser& parser, std::string_view bytes) {
  while (!bytes.empty()) {
    const auto space = parser.space();
    const std::size_t n = std::min(space.size(), bytes.size());
    std::memcpy(space.data(), bytes.data(), n);
    if (const error_code ec = parser.commit(n)) return ec;
    bytes.remove_prefix(n);
  }
  return {};
}

error_code feed_byte_by_byte(reply_parser& parser, std::string_view bytes) {
  for (const char c : bytes) {
    if (const error_code ec = feed(parser, std::string_view(&c, 1))) return ec;
  }
  return {};
}

const std::string sized =
    "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nx-consul-index: 18446744073709551615\r\n"
    "X-Consul-Knownleader: false\r\nX-Consul-Lastcontact: 250\r\nX-Consul-Results-Filtered-By-ACLs: "
    "true\r\nContent-Length: 5\r\n\r\ntrue\n";
const std::string chunked =
    "HTTP/1.1 200 OK\r\nX-Consul-Index: 7\r\nTransfer-Encoding: chunked\r\n\r\n2\r\ntr\r\n3;x=y\r\nue\n\r\n0\r\n\r\n";
const std::string empty_chunked = "HTTP/1.1 200 OK\r\nX-Consul-Index: 7\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n";
const std::string until_end = "HTTP/1.1 200 OK\r\nX-Consul-Index: 7\r\n\r\ntrue\n";
const std::string bare = "HTTP/1.1 404 Not Found\r\nX-Consul-Index: 19\r\nContent-Length: 0\r\n\r\n";

void check_error(std::string_view bytes, error expected) {
  reply_parser whole(body_max);
  BOOST_TEST_CONTEXT("reply " << bytes.substr(0, 100)) { BOOST_TEST(feed(whole, bytes) == expected); }
  reply_parser split(body_max);
  BOOST_TEST_CONTEXT("byte by byte " << bytes.substr(0, 100)) {
    BOOST_TEST(feed_byte_by_byte(split, bytes) == expected);
  }
}

}  // namespace

BOOST_AUTO_TEST_SUITE(consul_http)

BOOST_AUTO_TEST_CASE(requests_are_one_buffer) {
  BOOST_TEST(format_request("GET", "/v1/kv/a?index=1", "Host: h:1\r\n", "") ==
             "GET /v1/kv/a?index=1 HTTP/1.1\r\nHost: h:1\r\n\r\n");
  BOOST_TEST(format_request("PUT", "/v1/kv/a", "Host: h:1\r\n", "") ==
             "PUT /v1/kv/a HTTP/1.1\r\nHost: h:1\r\nContent-Length: 0\r\n\r\n");
  BOOST_TEST(format_request("PUT", "/v1/txn", "Host: h:1\r\nX: y\r\n", "[]") ==
             "PUT /v1/txn HTTP/1.1\r\nHost: h:1\r\nX: y\r\nContent-Length: 2\r\n\r\n[]");
}

/// The reply says later how long the query has asked Consul to wait.
BOOST_AUTO_TEST_CASE(a_query_with_another_wait_knows_it) {
  http_request request;
  request.target = "/v1/kv/a?index=7&wait=10s&consistent";
  request.wait = std::chrono::seconds(10);
  const http_request shorter = with_wait(request, std::chrono::milliseconds(1500));
  BOOST_TEST(shorter.wait.count() == 1500);
  BOOST_TEST(shorter.target == "/v1/kv/a?index=7&wait=1500ms&consistent");
}

BOOST_AUTO_TEST_CASE(a_reply_may_come_in_any_two_pieces) {
  for (const std::string& text : {sized, chunked}) {
    for (std::size_t cut = 0; cut <= text.size(); ++cut) {
      reply_parser parser(body_max);
      BOOST_TEST_REQUIRE(!feed(parser, std::string_view(text).substr(0, cut)));
      BOOST_TEST_REQUIRE(parser.done() == (cut == text.size()));
      BOOST_TEST_REQUIRE(!feed(parser, std::string_view(text).substr(cut)));
      BOOST_TEST_REQUIRE(parser.done());
      BOOST_TEST_REQUIRE(parser.keep_alive());
      BOOST_TEST_REQUIRE(parser.take().body == "true\n");
    }
  }
}

BOOST_AUTO_TEST_CASE(a_body_of_no_chunks_may_come_byte_by_byte) {
  reply_parser parser(body_max);
  BOOST_TEST(!feed_byte_by_byte(parser, empty_chunked));
  BOOST_TEST(parser.done());
  BOOST_TEST(parser.keep_alive());
}

// A server that has never had a leader counts the time since the year 1.
BOOST_AUTO_TEST_CASE(a_last_contact_of_centuries_is_read) {
  reply_parser parser(body_max);
  BOOST_TEST(!feed(parser, "HTTP/1.1 200 OK\r\nX-Consul-Lastcontact: 63900000000000\r\nContent-Length: 0\r\n\r\n"));
  BOOST_TEST(parser.take().last_contact.count() == 63'900'000'000'000);
  parser.restart();
  BOOST_TEST(
      !feed(parser, "HTTP/1.1 200 OK\r\nX-Consul-Lastcontact: 18446744073709551615\r\nContent-Length: 0\r\n\r\n"));
  BOOST_TEST((parser.take().last_contact == std::chrono::milliseconds::max()));
}

BOOST_AUTO_TEST_CASE(the_headers_that_matter_are_kept) {
  reply_parser parser(body_max);
  BOOST_TEST(!feed_byte_by_byte(parser, sized));
  const http_reply reply = parser.take();
  BOOST_TEST(reply.status == 200u);
  BOOST_TEST(reply.index.value() == 18446744073709551615u);
  BOOST_TEST(!reply.known_leader);
  BOOST_TEST(reply.last_contact.count() == 250);
  BOOST_TEST(reply.filtered_by_acls);
}

// Boost before 1.90 reports both in the same way.
BOOST_AUTO_TEST_CASE(what_follows_the_body_is_no_header) {
  const std::string trailer = "X-Consul-Index: 8\r\nX-Consul-Knownleader: false\r\nX-Consul-Lastcontact: none\r\n\r\n";
  reply_parser parser(body_max);
  BOOST_TEST(!feed_byte_by_byte(parser, chunked.substr(0, chunked.size() - 2) + trailer));
  BOOST_TEST(parser.done());
  const http_reply reply = parser.take();
  BOOST_TEST(reply.body == "true\n");
  BOOST_TEST(reply.index.value() == 7u);
  BOOST_TEST(reply.known_leader);
}

BOOST_AUTO_TEST_CASE(one_parser_reads_reply_after_reply) {
  reply_parser parser(body_max);
  for (int i = 0; i < 3; ++i) {
    parser.restart();
    BOOST_TEST(!feed(parser, bare));
    const http_reply reply = parser.take();
    BOOST_TEST(reply.status == 404u);
    BOOST_TEST(reply.index.value() == 19u);
    BOOST_TEST(reply.body.empty());
    BOOST_TEST(reply.known_leader);
    BOOST_TEST(!reply.filtered_by_acls);

    parser.restart();
    BOOST_TEST(!feed(parser, "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"));
    BOOST_TEST(!parser.take().index.has_value(), "nothing is left of the reply before");
  }
}

BOOST_AUTO_TEST_CASE(interim_replies_are_passed_over) {
  const std::string interim[] = {
      "HTTP/1.1 100 Continue\r\n\r\n",
      "HTTP/1.1 103 Early Hints\r\nX-Consul-Index: 9\r\nLink: </style.css>\r\n\r\n",
      "HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 102 Processing\r\n\r\nHTTP/1.1 103 Early Hints\r\n\r\n",
  };
  for (const std::string& before : interim) {
    for (const std::string& text : {sized, chunked}) {
      for (std::size_t cut = 0; cut <= before.size() + text.size(); ++cut) {
        const std::string all = before + text;
        reply_parser parser(body_max);
        BOOST_TEST_REQUIRE(!feed(parser, all.substr(0, cut)));
        BOOST_TEST_REQUIRE(parser.done() == (cut == all.size()));
        BOOST_TEST_REQUIRE(!feed(parser, all.substr(cut)));
        BOOST_TEST_REQUIRE(parser.keep_alive());
        const http_reply reply = parser.take();
        BOOST_TEST_REQUIRE(reply.status == 200u);
        BOOST_TEST_REQUIRE(reply.body == "true\n");
      }
    }
    reply_parser parser(body_max);
    BOOST_TEST(!feed(parser, before + "HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n"));
    BOOST_TEST(!parser.take().index.has_value(), "nothing is left of the reply before");
    reply_parser alone(body_max);
    BOOST_TEST(!feed(alone, before));
    BOOST_TEST(!alone.done());
    BOOST_TEST(alone.finish() == error::connection_lost);
    check_error(before + "SSH-2.0-OpenSSH_9.2\r\n", error::malformed_reply);
  }
  check_error("HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\n\r\n", error::malformed_reply);
}

BOOST_AUTO_TEST_CASE(a_connection_is_reused_only_if_both_sides_agree_where_the_reply_ended) {
  const auto keeps_alive = [](const std::string& text) {
    reply_parser parser(body_max);
    BOOST_TEST(!feed(parser, text));
    BOOST_TEST(parser.done());
    return parser.keep_alive();
  };
  BOOST_TEST(keeps_alive(bare));
  BOOST_TEST(!keeps_alive(bare + "H"), "bytes are left over");
  BOOST_TEST(!keeps_alive(chunked + "\r\n"), "bytes are left over");
  BOOST_TEST(!keeps_alive("HTTP/1.1 413 Large\r\nConnection: close\r\nContent-Length: 0\r\n\r\n"));
  BOOST_TEST(!keeps_alive("HTTP/1.0 200 OK\r\nContent-Length: 0\r\n\r\n"));
}

BOOST_AUTO_TEST_CASE(the_end_of_the_stream_ends_a_reply_only_if_nothing_else_does) {
  reply_parser parser(body_max);
  BOOST_TEST(!feed(parser, until_end));
  BOOST_TEST(!parser.done());
  BOOST_TEST(!parser.finish());
  BOOST_TEST(parser.done());
  BOOST_TEST(!parser.keep_alive());
  BOOST_TEST(parser.take().body == "true\n");

  for (const std::string& text : {sized, chunked, bare}) {
    for (std::size_t size = 0; size < text.size(); ++size) {
      reply_parser cut(body_max);
      BOOST_TEST_REQUIRE(!feed(cut, std::string_view(text).substr(0, size)));
      BOOST_TEST_REQUIRE(cut.finish() == error::connection_lost);
    }
  }
}

BOOST_AUTO_TEST_CASE(what_is_not_http_is_malformed) {
  check_error("SSH-2.0-OpenSSH_9.2\r\n", error::malformed_reply);
  check_error(std::string_view("\x15\x03\x01\x00\x02\x02\x28", 7), error::malformed_reply);
  check_error("HTTP/2 200\r\n\r\n", error::malformed_reply);
  check_error("HTTP/1.1 2000 OK\r\n\r\n", error::malformed_reply);
  check_error("HTTP/1.1 200 OK\r\nno colon\r\n\r\n", error::malformed_reply);
  check_error("HTTP/1.1 200 OK\r\nContent-Length: -1\r\n\r\n", error::malformed_reply);
  check_error("HTTP/1.1 200 OK\r\nContent-Length: 5\r\nContent-Length: 6\r\n\r\n", error::malformed_reply);
  check_error("HTTP/1.1 000 OK\r\nContent-Length: 0\r\n\r\n", error::malformed_reply);
  check_error("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nxyz\r\n", error::malformed_reply);
  check_error("HTTP/1.1 200 OK\r\nX-Consul-Index: seven\r\n\r\n", error::malformed_reply);
  check_error("HTTP/1.1 200 OK\r\nX-Consul-Index: 18446744073709551616\r\n\r\n", error::malformed_reply);
  check_error("HTTP/1.1 200 OK\r\nX-Consul-Index: -1\r\n\r\n", error::malformed_reply);
  check_error("HTTP/1.1 200 OK\r\nX-Consul-Lastcontact: 1s\r\n\r\n", error::malformed_reply);
  check_error("HTTP/1.1 200 OK\r\nX-Consul-Lastcontact: 99999999999999999999\r\n\r\n", error::malformed_reply);
}

BOOST_AUTO_TEST_CASE(headers_are_bounded) {
  check_error("HTTP/1.1 200 OK\r\nX: " + std::string(20'000, 'x') + "\r\n\r\n", error::malformed_reply);
  std::string many = "HTTP/1.1 200 OK\r\n";
  for (int i = 0; i < 10'000; ++i) many += "X: y\r\n";
  check_error(many, error::malformed_reply);
  check_error("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n1;" + std::string(40'000, 'x'),
              error::malformed_reply);
}

BOOST_AUTO_TEST_CASE(bodies_are_bounded_at_the_byte) {
  const auto with_size = [](std::size_t size) {
    return "HTTP/1.1 200 OK\r\nContent-Length: " + std::to_string(size) + "\r\n\r\n" + std::string(size, 'x');
  };
  reply_parser exact(body_max);
  BOOST_TEST(!feed(exact, with_size(body_max)));
  BOOST_TEST(exact.take().body.size() == body_max);
  check_error(with_size(body_max + 1), error::reply_too_large);
  check_error("HTTP/1.1 200 OK\r\nContent-Length: 18446744073709551615\r\n\r\n", error::reply_too_large);
  check_error("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n401\r\n" + std::string(0x401, 'x') + "\r\n",
              error::reply_too_large);
  check_error("HTTP/1.1 200 OK\r\n\r\n" + std::string(body_max + 1, 'x'), error::reply_too_large);
}

BOOST_AUTO_TEST_SUITE_END()
