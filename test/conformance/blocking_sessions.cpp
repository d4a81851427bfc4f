// SPDX-FileCopyrightText: The holdfast authors
// SPDX-License-Identifier: BSL-1.0

// Blocking queries for sessions: one of them, or their list.

#include <string>

#include "conformance/support/fact.hpp"

using holdfast::test::peer;
using holdfast::test::unknown_session;
using holdfast::test::watch;

namespace {

watch watch_info(const peer& consul, const std::string& id) {
  return consul.watch_target("/v1/session/info/" + id, consul.info(id).index());
}

watch watch_list(const peer& consul, const std::string& target = "/v1/session/list") {
  return consul.watch_target(target, consul.request("GET", target).index());
}

}  // namespace

BOOST_AUTO_TEST_SUITE(blocking_sessions)

FACT(the_end_of_a_session_wakes_who_asks_for_it) {
  const auto id = consul.session();
  auto watch = watch_info(consul, id);
  BOOST_TEST(watch.still_waits());
  consul.destroy(id);
  BOOST_TEST(watch.woken().said() == "200 []");
}

FACT(another_session_does_not_wake_who_asks_for_one) {
  const auto id = consul.session();
  auto watch = watch_info(consul, id);
  consul.destroy(consul.session());
  BOOST_TEST(watch.still_waits());
  consul.destroy(id);
  BOOST_TEST(watch.woken().index() == consul.info(id).index());
}

FACT(renewing_wakes_nobody) {
  const auto id = consul.session({{"TTL", "60s"}});
  auto info = watch_info(consul, id), list = watch_list(consul);
  consul.renew(id);
  BOOST_TEST(info.still_waits());
  BOOST_TEST(list.still_waits());
  consul.destroy(id);
  const auto index = consul.info(id).index();
  BOOST_TEST(info.woken().index() == index);
  BOOST_TEST(list.woken().index() == index);
}

FACT(locking_with_it_wakes_nobody) {
  const auto id = consul.session();
  auto info = watch_info(consul, id), list = watch_list(consul);
  consul.put("a?acquire=" + id, "v");
  consul.put("a?release=" + id, "v");
  BOOST_TEST(info.still_waits());
  BOOST_TEST(list.still_waits());
  consul.destroy(id);
  const auto index = consul.info(id).index();
  BOOST_TEST(info.woken().index() == index);
  BOOST_TEST(list.woken().index() == index);
}

FACT(the_list_wakes_when_a_session_comes) {
  auto watch = watch_list(consul);
  BOOST_TEST(watch.still_waits());
  const auto id = consul.session();
  BOOST_TEST(watch.woken().body.find(id) != std::string::npos);
}

FACT(the_list_wakes_when_a_session_goes) {
  const auto id = consul.session();
  auto watch = watch_list(consul);
  consul.destroy(id);
  BOOST_TEST(watch.woken().body.find(id) == std::string::npos);
}

FACT(a_nodes_list_wakes_too) {
  const std::string node(consul.session_info(consul.session()).at("Node").as_string());
  auto watch = watch_list(consul, "/v1/session/node/" + node);
  BOOST_TEST(watch.still_waits());
  const auto id = consul.session();
  BOOST_TEST(watch.woken().body.find(id) != std::string::npos);
}

FACT(destroying_what_is_not_there_wakes_nobody) {
  const auto id = consul.session();
  auto watch = watch_list(consul);
  consul.destroy(unknown_session);
  BOOST_TEST(watch.still_waits());
  consul.destroy(id);
  BOOST_TEST(watch.woken().index() == consul.info(id).index());
}

FACT(an_older_index_answers_at_once) {
  const auto one = consul.session();
  const auto before = consul.info(one).index();
  consul.session();
  BOOST_TEST(consul.watch_target("/v1/session/info/" + one, before).woken().size() == 1u);
}

FACT(a_wait_that_is_over_answers_with_the_same_index) {
  const auto id = consul.session();
  const auto before = consul.info(id);
  const auto reply = consul.info(id + "?wait=20ms&index=" + std::to_string(before.index()));
  BOOST_TEST(reply.index() == before.index());
  BOOST_TEST(reply.json() == before.json());
}

// A session may expire before a query is there, so the first query begins at an index of before the session. The
// creation of the session answers it, and the next query waits for the expiry.
FACT(expiry_wakes_who_asks_for_the_session) {
  const auto before = consul.request("GET", "/v1/session/list").index();
  const auto id = consul.session({{"TTL", "50ms"}});
  const auto last =
      consul.follow("/v1/session/info/" + id, before, [](const auto& reply) { return reply.said() == "200 []"; });
  BOOST_TEST(last.index() > before);
}

// This has a session of its own: a query that begins after the expiry would be answered at once.
FACT(expiry_wakes_who_asks_for_all_sessions) {
  const auto before = consul.request("GET", "/v1/session/list").index();
  const auto id = consul.session({{"TTL", "50ms"}});
  const auto last = consul.follow("/v1/session/list", before,
                                  [&](const auto& reply) { return reply.body.find(id) == std::string::npos; });
  BOOST_TEST(last.index() >= consul.info(id).index());
}

BOOST_AUTO_TEST_SUITE_END()
