// SPDX-FileCopyrightText: The holdfast authors
// SPDX-License-Identifier: BSL-1.0

// Operations that change CreateIndex, ModifyIndex and X-Consul-Index, and operations that do not.

#include <string>

#include "conformance/support/fact.hpp"

using holdfast::test::entry;
using holdfast::test::op;

BOOST_AUTO_TEST_SUITE(indexes)

FACT(a_new_key_has_one_index_for_both) {
  consul.put("a", "v");
  const entry a = consul.read("a");
  BOOST_TEST(a.created == a.modified);
  BOOST_TEST(a.locked == 0u);
}

FACT(a_put_moves_the_modify_index_only) {
  consul.put("a", "v");
  const entry before = consul.read("a");
  consul.put("a", "w");
  const entry after = consul.read("a");
  BOOST_TEST(after.created == before.created);
  BOOST_TEST(after.modified > before.modified);
}

FACT(a_put_of_what_is_there_moves_nothing) {
  consul.put("a?flags=1", "v");
  const entry before = consul.read("a");
  const auto index = consul.index("?recurse");
  BOOST_TEST(consul.put("a?flags=1", "v").said() == "200 true");
  BOOST_TEST(consul.read("a") == before);
  BOOST_TEST(consul.index("?recurse") == index);
}

FACT(a_put_of_other_flags_moves_the_index) {
  consul.put("a?flags=1", "v");
  const entry before = consul.read("a");
  consul.put("a?flags=2", "v");
  BOOST_TEST(consul.read("a").modified > before.modified);
}

FACT(indexes_grow_from_one_write_to_the_next) {
  consul.put("a", "v");
  consul.put("b", "v");
  BOOST_TEST(consul.read("b").modified > consul.read("a").modified);
}

FACT(a_key_that_is_deleted_and_made_again_is_a_new_one) {
  consul.put("a", "v");
  const entry before = consul.read("a");
  consul.del("a");
  consul.put("a", "v");
  const entry after = consul.read("a");
  BOOST_TEST(after.created > before.modified);
  BOOST_TEST(after.created == after.modified);
}

FACT(a_keys_index_is_its_own_modify_index) {
  consul.put("a", "v");
  const auto own = consul.read("a").modified;
  consul.put("b", "v");
  BOOST_TEST(consul.index("a") == own);
  BOOST_TEST(consul.index("a?raw") == own);
}

FACT(a_missing_keys_index_is_that_of_all_keys) {
  consul.put("a", "v");
  BOOST_TEST(consul.index("none") == consul.read("a").modified);
  consul.put("b", "v");
  BOOST_TEST(consul.index("none") == consul.read("b").modified);
}

FACT(a_missing_keys_index_is_moved_by_deletions_too) {
  consul.put("a", "v");
  const auto before = consul.index("none");
  consul.del("a");
  BOOST_TEST(consul.index("none") > before);
  BOOST_TEST(consul.index("a") == consul.index("none"));
}

FACT(a_listings_index_is_the_newest_in_it) {
  consul.put("p/a", "v");
  consul.put("p/b", "v");
  consul.put("p/a", "w");
  const auto newest = consul.read("p/a").modified;
  consul.put("q", "v");
  BOOST_TEST(consul.index("p/?recurse") == newest);
  BOOST_TEST(consul.index("p/?keys") == newest);
  BOOST_TEST(consul.index("p/?keys&separator=/") == newest);
}

FACT(a_listings_index_grows_when_a_key_goes) {
  consul.put("p/a", "v");
  consul.put("p/b", "v");
  const auto before = consul.index("p/?recurse");
  consul.del("p/a");
  BOOST_TEST(consul.index("p/?recurse") > before);
  BOOST_TEST(consul.index("p/?keys") == consul.index("p/?recurse"));
}

FACT(a_listing_that_became_empty_keeps_the_index_of_the_deletion) {
  consul.put("p/a", "v");
  consul.del("p/a");
  const auto deletion = consul.index("p/?recurse");
  consul.put("q", "v");
  BOOST_TEST(consul.get("p/?recurse").status == 404);
  BOOST_TEST(consul.index("p/?recurse") == deletion);
}

FACT(the_index_of_a_listing_of_what_never_was_is_that_of_all_keys) {
  consul.put("a", "v");
  BOOST_TEST(consul.index("none/?recurse") == consul.read("a").modified);
  consul.put("b", "v");
  BOOST_TEST(consul.index("none/?recurse") == consul.read("b").modified);
}

FACT(the_roots_index_is_that_of_all_keys) {
  consul.put("a", "v");
  const auto all = consul.request("GET", "/v1/kv/?recurse").index();
  BOOST_TEST(all == consul.read("a").modified);
  consul.del("a");
  BOOST_TEST(consul.request("GET", "/v1/kv/?recurse").index() > all);
}

FACT(a_recursive_deletion_moves_the_index_of_what_it_covers) {
  for (const auto* name : {"p/a", "p/b", "q"}) consul.put(name, "v");
  const auto before = consul.index("p/?recurse");
  const auto beside = consul.index("q?recurse");
  consul.del("p/?recurse");
  BOOST_TEST(consul.index("p/?recurse") > before);
  BOOST_TEST(consul.index("?recurse") == consul.index("p/?recurse"));
  BOOST_TEST(consul.index("q?recurse") == beside);
}

FACT(a_recursive_deletion_leaves_one_trace_at_its_prefix_and_none_below) {
  consul.put("p/a/1", "v");
  consul.del("p/?recurse");
  const auto deletion = consul.index("p/?recurse");
  consul.put("q", "v");
  BOOST_TEST(consul.index("p/?recurse") == deletion);
  BOOST_TEST(consul.index("p/a/?recurse") == consul.read("q").modified);  // as if it had never been
}

FACT(deleting_what_is_not_there_moves_no_index) {
  consul.put("p/a", "v");
  const auto before = consul.index("p/?recurse");
  consul.del("p/none");
  consul.del("p/none?recurse");
  consul.del("p/none?cas=3");
  BOOST_TEST(consul.index("p/?recurse") == before);
  BOOST_TEST(consul.index("none") == before);
}

FACT(writes_that_are_refused_move_no_index) {
  const auto id = consul.session();
  consul.put("a?acquire=" + id, "v");
  const auto before = consul.index("?recurse");
  consul.put("a?cas=7", "w");
  consul.put("a?acquire=" + consul.session(), "w");
  consul.put("a?release=" + consul.session(), "w");
  consul.del("a?cas=7");
  consul.txn({op("set", "b"), op("get", "none")});
  BOOST_TEST(consul.index("?recurse") == before);
  BOOST_TEST(consul.index("none") == before);
}

FACT(acquire_and_release_move_the_modify_index_only) {
  const auto id = consul.session();
  consul.put("a", "v");
  const entry put = consul.read("a");
  consul.put("a?acquire=" + id, "v");
  const entry acquired = consul.read("a");
  consul.put("a?release=" + id, "v");
  const entry released = consul.read("a");
  BOOST_TEST(acquired.created == put.created);
  BOOST_TEST(acquired.modified > put.modified);
  BOOST_TEST(released.created == put.created);
  BOOST_TEST(released.modified > acquired.modified);
}

FACT(a_session_that_holds_nothing_moves_no_key_when_it_ends) {
  consul.put("a", "v");
  const auto id = consul.session();
  const auto before = consul.index("none");
  consul.destroy(id);
  BOOST_TEST(consul.index("none") == before);
}

FACT(a_new_session_moves_no_index_of_keys) {
  consul.put("a", "v");
  const auto before = consul.index("none");
  consul.session();
  BOOST_TEST(consul.index("none") == before);
}

BOOST_AUTO_TEST_SUITE_END()
