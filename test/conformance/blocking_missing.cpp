// SPDX-FileCopyrightText: The holdfast authors
// SPDX-License-Identifier: BSL-1.0

// Blocking queries for missing keys. They watch the place in the tree of keys where the key would be, and wake for
// changes beside it.

#include <cstdint>
#include <optional>
#include <string>

#include "conformance/support/fact.hpp"

using holdfast::test::base64;
using holdfast::test::op;
using holdfast::test::peer;

namespace {

// Checks what a query for the missing key "p/b" does when something has changed beside it. From 1.10.9 and 1.11.4 on,
// it goes on waiting until the key comes. Before, it was answered that the key is missing: returns the index of that.
std::optional<std::uint64_t> index_of_wake_beside(const peer& consul, holdfast::test::watch& query) {
  if (!consul.missing_is_no_news()) {
    const auto reply = query.woken();
    BOOST_TEST(reply.said() == "404 ");
    return reply.index();
  }
  BOOST_TEST(query.still_waits());
  consul.put("p/b", "v");
  BOOST_TEST(query.woken().index() == consul.read("p/b").modified);
  return std::nullopt;
}

}  // namespace

BOOST_AUTO_TEST_SUITE(blocking_missing)

FACT(a_missing_key_wakes_when_it_comes) {
  auto watch = consul.watch("a");
  BOOST_TEST(watch.still_waits());
  consul.put("a", "v");
  const auto reply = watch.woken();
  BOOST_TEST(reply.first().value == base64("v"));
  BOOST_TEST(reply.index() == consul.read("a").created);
}

FACT(a_missing_key_wakes_when_it_is_acquired) {
  auto watch = consul.watch("a");
  consul.put("a?acquire=" + consul.session(), "v");
  BOOST_TEST(watch.woken().first().locked == 1u);
}

FACT(a_deleted_key_wakes_when_it_comes_back) {
  consul.put("a", "v");
  consul.del("a");
  auto watch = consul.watch("a");
  BOOST_TEST(watch.still_waits());
  consul.put("a", "w");
  BOOST_TEST(watch.woken().first().value == base64("w"));
}

FACT(a_neighbour_that_comes_wakes_who_waits_for_a_missing_key_or_not_by_version) {
  consul.put("p/a", "v");
  auto watch = consul.watch("p/b");
  consul.put("p/c", "v");
  if (const auto index = index_of_wake_beside(consul, watch)) BOOST_TEST(*index == consul.read("p/c").modified);
}

FACT(a_neighbour_that_is_written_wakes_who_waits_for_a_missing_key_or_not_by_version) {
  consul.put("p/a", "v");
  consul.put("p/c", "v");
  auto watch = consul.watch("p/b");
  consul.put("p/a", "w");
  if (const auto index = index_of_wake_beside(consul, watch)) BOOST_TEST(*index == consul.read("p/a").modified);
}

FACT(a_neighbour_that_goes_wakes_who_waits_for_a_missing_key_or_not_by_version) {
  for (const auto* name : {"p/a", "p/c", "p/d"}) consul.put(name, "v");
  auto watch = consul.watch("p/b");
  const auto before = consul.index("p/b");
  consul.del("p/a");
  if (const auto index = index_of_wake_beside(consul, watch)) BOOST_TEST(*index > before);
}

FACT(a_missing_key_that_comes_and_goes_in_one_transaction_is_missing) {
  consul.put("p/a", "v");
  auto watch = consul.watch("p/b");
  consul.txn({op("set", "p/b"), op("delete", "p/b")});
  index_of_wake_beside(consul, watch);
}

FACT(a_missing_key_sleeps_while_things_happen_in_another_branch) {
  for (const auto* name : {"p/a", "p/c", "q/a"}) consul.put(name, "v");
  auto watch = consul.watch("p/b");
  consul.put("q/a", "w");
  BOOST_TEST(watch.still_waits());
  consul.put("p/b", "v");
  BOOST_TEST(watch.woken().index() == consul.read("p/b").modified);
}

FACT(an_empty_prefix_wakes_for_the_first_key_below_it) {
  auto entries = consul.watch("p/?recurse"), keys = consul.watch("p/?keys");
  BOOST_TEST(entries.still_waits());
  BOOST_TEST(keys.still_waits());
  consul.put("p/a", "v");
  BOOST_TEST(entries.woken().size() == 1u);
  BOOST_TEST(keys.woken().size() == 1u);
}

FACT(a_prefix_that_became_empty_wakes_for_the_next_key) {
  consul.put("p/a", "v");
  consul.del("p/a");
  auto watch = consul.watch("p/?recurse");
  BOOST_TEST(watch.still_waits());
  consul.put("p/b", "v");
  BOOST_TEST(watch.woken().size() == 1u);
}

FACT(a_prefix_that_never_was_wakes_for_its_neighbours) {
  consul.put("p/a", "v");
  auto watch = consul.watch("p/none/?recurse");
  consul.put("p/b", "v");
  const auto reply = watch.woken();
  BOOST_TEST(reply.said() == "404 ");
  BOOST_TEST(reply.index() == consul.read("p/b").modified);
}

FACT(a_prefix_that_became_empty_sleeps_while_its_neighbours_move) {
  // The key's tombstone gives it an index of its own, which these writes do not change.
  consul.put("p/a", "v");
  consul.put("p/gone/1", "v");
  consul.del("p/gone/1");
  auto watch = consul.watch("p/gone/?recurse");
  consul.put("p/a", "w");
  consul.put("p/b", "v");
  BOOST_TEST(watch.still_waits());
  consul.put("p/gone/2", "v");
  BOOST_TEST(watch.woken().index() == consul.read("p/gone/2").modified);
}

FACT(a_write_that_changes_nothing_beside_it_wakes_nobody) {
  consul.put("p/a", "v");
  auto watch = consul.watch("p/b");
  consul.put("p/a", "v");
  consul.txn({op("set", "p/b"), op("get", "p/none")});
  consul.del("p/b");
  BOOST_TEST(watch.still_waits());
  consul.put("p/b", "v");
  BOOST_TEST(watch.woken().status == 200);
}

FACT(a_missing_key_answers_at_once_if_anything_was_written_since) {
  consul.put("a", "v");
  const auto before = consul.index("none");
  consul.put("b", "v");
  BOOST_TEST(consul.watch("none", before).woken().said() == "404 ");
}

FACT(a_missing_key_that_nothing_happens_to_answers_when_its_wait_is_over) {
  const auto index = consul.index("a");
  const auto reply = consul.get("a?wait=20ms&index=" + std::to_string(index));
  BOOST_TEST(reply.said() == "404 ");
  BOOST_TEST(reply.index() == index);
}

BOOST_AUTO_TEST_SUITE_END()
