// SPDX-FileCopyrightText: The holdfast authors
// SPDX-License-Identifier: BSL-1.0

// Blocking queries for all that begins with a prefix: `?recurse` and `?keys`.

#include <functional>
#include <string>

#include "conformance/support/fact.hpp"

using holdfast::test::op;
using holdfast::test::peer;

namespace {

// Checks that watches of `p/` are not woken while `done` runs, and are woken by a later write below `p/`.
void prefix_sleeps_through(peer& consul, const std::function<void()>& done) {
  auto entries = consul.watch("p/?recurse");
  auto keys = consul.watch("p/?keys");
  done();
  BOOST_TEST(entries.still_waits());
  BOOST_TEST(keys.still_waits());
  BOOST_REQUIRE(consul.put("p/later", "v").said() == "200 true");
  const auto index = consul.read("p/later").modified;
  BOOST_TEST(entries.woken().index() == index);
  BOOST_TEST(keys.woken().index() == index);
}

}  // namespace

BOOST_AUTO_TEST_SUITE(blocking_prefix)

FACT(a_new_key_wakes) {
  consul.put("p/a", "v");
  auto entries = consul.watch("p/?recurse"), keys = consul.watch("p/?keys");
  BOOST_TEST(entries.still_waits());
  BOOST_TEST(keys.still_waits());
  consul.put("p/b", "v");
  BOOST_TEST(entries.woken().size() == 2u);
  BOOST_TEST(keys.woken().size() == 2u);
}

FACT(a_new_value_wakes_also_who_asked_for_names_only) {
  consul.put("p/a", "v");
  auto entries = consul.watch("p/?recurse"), keys = consul.watch("p/?keys&separator=/");
  consul.put("p/a", "w");
  const auto index = consul.read("p/a").modified;
  BOOST_TEST(entries.woken().index() == index);
  BOOST_TEST(keys.woken().index() == index);
}

FACT(a_deletion_wakes) {
  consul.put("p/a", "v");
  consul.put("p/b", "v");
  auto entries = consul.watch("p/?recurse"), keys = consul.watch("p/?keys");
  consul.del("p/b");
  BOOST_TEST(entries.woken().size() == 1u);
  BOOST_TEST(keys.woken().size() == 1u);
}

FACT(the_deletion_of_the_last_key_wakes_with_404) {
  consul.put("p/a", "v");
  auto watch = consul.watch("p/?recurse");
  const auto before = consul.index("p/?recurse");
  consul.del("p/a");
  const auto reply = watch.woken();
  BOOST_TEST(reply.said() == "404 ");
  BOOST_TEST(reply.index() > before);
}

FACT(a_recursive_deletion_wakes) {
  for (const auto* name : {"p/a", "p/b/1", "p/b/2"}) consul.put(name, "v");
  auto watch = consul.watch("p/?recurse");
  consul.del("p/b?recurse");
  BOOST_TEST(watch.woken().size() == 1u);
}

FACT(a_recursive_deletion_above_wakes) {
  consul.put("p/a", "v");
  auto watch = consul.watch("p/?recurse");
  consul.del("?recurse");
  BOOST_TEST(watch.woken().said() == "404 ");
}

FACT(an_acquire_and_the_end_of_its_session_wake) {
  const auto id = consul.session({{"Behavior", "delete"}});
  consul.put("p/a", "v");
  auto acquired = consul.watch("p/?recurse");
  consul.put("p/b?acquire=" + id, "v");
  BOOST_TEST(acquired.woken().entries().at(1).session == id);
  auto destroyed = consul.watch("p/?recurse");
  consul.destroy(id);
  BOOST_TEST(destroyed.woken().size() == 1u);
}

FACT(a_transaction_wakes_with_all_that_it_did) {
  consul.put("p/a", "v");
  auto watch = consul.watch("p/?recurse");
  consul.txn({op("set", "p/b").value("v"), op("delete", "p/a"), op("set", "p/c").value("v")});
  const auto reply = watch.woken();
  BOOST_TEST(reply.size() == 2u);
  BOOST_TEST(reply.index() == consul.read("p/c").modified);
}

FACT(a_prefix_that_is_no_folder_is_woken_by_all_that_begins_so) {
  consul.put("foo", "v");
  auto watch = consul.watch("foo?recurse");
  consul.put("foobar/x", "v");
  BOOST_TEST(watch.woken().size() == 2u);
}

FACT(the_root_is_woken_by_everything) {
  consul.put("a", "v");
  auto watch = consul.watch_target("/v1/kv/?keys", consul.request("GET", "/v1/kv/?keys").index());
  consul.put("b", "v");
  BOOST_TEST(watch.woken().index() == consul.read("b").modified);
}

FACT(writes_beside_the_prefix_wake_nobody) {
  consul.put("p/a", "v");
  prefix_sleeps_through(consul, [&] {
    for (const auto* name : {"p", "pp", "q/a"}) consul.put(name, "v");
    consul.del("pp");
  });
}

FACT(writes_of_what_is_there_wake_nobody) {
  consul.put("p/a", "v");
  prefix_sleeps_through(consul, [&] {
    consul.put("p/a", "v");
    consul.del("p/none");
    consul.del("p/none/?recurse");
  });
}

FACT(writes_that_are_refused_wake_nobody) {
  consul.put("p/a", "v");
  prefix_sleeps_through(consul, [&] {
    consul.put("p/a?cas=7", "w");
    consul.put("p/b?cas=7", "w");
    consul.txn({op("set", "p/c"), op("get", "p/none")});
  });
}

FACT(sessions_come_and_go_unnoticed) {
  consul.put("p/a", "v");
  prefix_sleeps_through(consul, [&] { consul.destroy(consul.session()); });
}

FACT(an_index_of_before_a_deletion_answers_at_once) {
  consul.put("p/a", "v");
  consul.put("p/b", "v");
  const auto before = consul.index("p/?recurse");
  consul.del("p/b");
  BOOST_TEST(consul.watch("p/?recurse", before).woken().size() == 1u);
}

FACT(asking_a_key_with_its_prefixes_index_just_waits) {
  consul.put("p/a", "v");
  consul.put("p/b", "v");
  auto watch = consul.watch("p/a", consul.index("p/?recurse"));
  BOOST_TEST(watch.still_waits());
  consul.put("p/a", "w");
  BOOST_TEST(watch.woken().index() == consul.read("p/a").modified);
}

FACT(a_wait_that_is_over_answers_with_the_same_index) {
  consul.put("p/a", "v");
  const auto index = consul.index("p/?recurse");
  const auto reply = consul.get("p/?recurse&wait=20ms&index=" + std::to_string(index));
  BOOST_TEST(reply.index() == index);
  BOOST_TEST(reply.size() == 1u);
}

BOOST_AUTO_TEST_SUITE_END()
