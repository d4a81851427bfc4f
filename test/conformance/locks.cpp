// SPDX-FileCopyrightText: The holdfast authors
// SPDX-License-Identifier: BSL-1.0

// `?acquire=` and `?release=`, and what other writes and the end of a session do to a lock.

#include <string>

#include "conformance/support/fact.hpp"

using holdfast::test::base64;
using holdfast::test::entry;
using holdfast::test::peer;
using holdfast::test::unknown_session;

namespace {

std::string acquire(const std::string& key, const std::string& id) { return key + "?acquire=" + id; }
std::string release(const std::string& key, const std::string& id) { return key + "?release=" + id; }

}  // namespace

BOOST_AUTO_TEST_SUITE(locks)

FACT(acquire_creates_the_key_with_its_session) {
  const auto id = consul.session();
  BOOST_TEST(consul.put(acquire("a", id) + "&flags=3", "v").said() == "200 true");
  const entry a = consul.read("a");
  BOOST_TEST(a.session == id);
  BOOST_TEST(a.value == base64("v"));
  BOOST_TEST(a.flags == 3u);
  BOOST_TEST(a.locked == 1u);
}

FACT(acquire_takes_a_key_that_exists) {
  consul.put("a", "v");
  const auto id = consul.session();
  BOOST_TEST(consul.put(acquire("a", id), "w").said() == "200 true");
  BOOST_TEST(consul.read("a").session == id);
  BOOST_TEST(consul.read("a").value == base64("w"));
  BOOST_TEST(consul.read("a").locked == 1u);
}

FACT(acquire_by_another_session_is_false_and_changes_nothing) {
  consul.put(acquire("a", consul.session()), "v");
  const entry before = consul.read("a");
  BOOST_TEST(consul.put(acquire("a", consul.session()), "w").said() == "200 false");
  BOOST_TEST(consul.read("a") == before);
}

FACT(acquire_by_the_holder_writes_and_does_not_count) {
  const auto id = consul.session();
  consul.put(acquire("a", id), "v");
  const entry before = consul.read("a");
  BOOST_TEST(consul.put(acquire("a", id) + "&flags=9", "w").said() == "200 true");
  const entry after = consul.read("a");
  BOOST_TEST(after.value == base64("w"));
  BOOST_TEST(after.flags == 9u);
  BOOST_TEST(after.locked == 1u);
  BOOST_TEST(after.modified > before.modified);
}

FACT(acquire_by_the_holder_of_what_is_there_moves_nothing) {
  const auto id = consul.session();
  consul.put(acquire("a", id), "v");
  const entry before = consul.read("a");
  BOOST_TEST(consul.put(acquire("a", id), "v").said() == "200 true");
  BOOST_TEST(consul.read("a") == before);
}

FACT(release_writes_the_value_and_keeps_the_lock_index) {
  const auto id = consul.session();
  consul.put(acquire("a", id), "v");
  const entry before = consul.read("a");
  BOOST_TEST(consul.put(release("a", id) + "&flags=4", "w").said() == "200 true");
  const entry after = consul.read("a");
  BOOST_TEST(after.session == "");
  BOOST_TEST(after.value == base64("w"));
  BOOST_TEST(after.flags == 4u);
  BOOST_TEST(after.locked == 1u);
  BOOST_TEST(after.created == before.created);
  BOOST_TEST(after.modified > before.modified);
}

FACT(the_lock_index_counts_how_often_the_lock_was_taken) {
  const auto one = consul.session(), other = consul.session();
  for (unsigned count = 1; count <= 3; ++count) {
    const auto& id = count % 2 ? one : other;
    consul.put(acquire("a", id), "v");
    BOOST_TEST(consul.read("a").locked == count);
    consul.put(release("a", id), "v");
  }
}

FACT(release_by_another_session_is_false_and_changes_nothing) {
  consul.put(acquire("a", consul.session()), "v");
  const entry before = consul.read("a");
  BOOST_TEST(consul.put(release("a", consul.session()), "w").said() == "200 false");
  BOOST_TEST(consul.read("a") == before);
}

FACT(release_of_a_key_that_is_not_locked_is_false) {
  const auto id = consul.session();
  BOOST_TEST(consul.put(release("a", id), "v").said() == "200 false");
  BOOST_TEST(!consul.exists("a"));
  consul.put("a", "v");
  BOOST_TEST(consul.put(release("a", id), "w").said() == "200 false");
  BOOST_TEST(consul.read("a").value == base64("v"));
}

FACT(a_second_release_is_false) {
  const auto id = consul.session();
  consul.put(acquire("a", id), "v");
  consul.put(release("a", id), "v");
  BOOST_TEST(consul.put(release("a", id), "w").said() == "200 false");
}

FACT(acquire_needs_a_session) {
  BOOST_TEST(consul.put("a?acquire=", "v").said() == consul.write_failed() + "missing session");
  BOOST_TEST(!consul.exists("a"));
}

FACT(acquire_with_an_unknown_session_is_refused) {
  BOOST_TEST(consul.put(acquire("a", unknown_session), "v").said() ==
             consul.write_failed() + "invalid session \"" + std::string(unknown_session) + '"');
  BOOST_TEST(!consul.exists("a"));
}

FACT(acquire_with_a_destroyed_session_is_refused) {
  const auto id = consul.session();
  consul.destroy(id);
  BOOST_TEST(consul.put(acquire("a", id), "v").said() == consul.write_failed() + "invalid session \"" + id + '"');
}

FACT(acquire_with_a_malformed_session_is_refused) {
  const std::string malformed = "failed session lookup: index error: UUID must be 36 characters";
  BOOST_TEST(consul.put("a?acquire=none", "v").said() ==
             consul.write_failed() + (consul.is_from(12) ? "invalid session \"none\"" : malformed));
}

FACT(acquire_looks_at_its_session_before_it_looks_at_the_lock) {
  consul.put(acquire("a", consul.session()), "v");
  BOOST_TEST(consul.put(acquire("a", unknown_session), "w").status == 500);
}

FACT(release_needs_a_session) {
  BOOST_TEST(consul.put("a?release=", "v").said() == consul.write_failed() + "missing session");
}

FACT(release_does_not_care_whether_its_session_exists) {
  consul.put(acquire("a", consul.session()), "v");
  for (const auto* id : {unknown_session, "none"}) BOOST_TEST(consul.put(release("a", id), "w").said() == "200 false");
}

FACT(a_put_by_anyone_writes_to_a_locked_key_keeps_its_session_and_resets_its_lock_index) {
  const auto id = consul.session();
  consul.put(acquire("a", id), "v");
  BOOST_TEST(consul.put("a", "w").said() == "200 true");
  const entry a = consul.read("a");
  BOOST_TEST(a.value == base64("w"));
  BOOST_TEST(a.session == id);
  BOOST_TEST(a.locked == 0u);
}

FACT(after_a_put_the_holder_still_holds_and_the_count_begins_anew) {
  const auto id = consul.session();
  consul.put(acquire("a", id), "v");
  consul.put("a", "w");
  BOOST_TEST(consul.put(acquire("a", id), "x").said() == "200 true");
  BOOST_TEST(consul.read("a").locked == 0u);
  BOOST_TEST(consul.put(release("a", id), "x").said() == "200 true");
  consul.put(acquire("a", id), "x");
  BOOST_TEST(consul.read("a").locked == 1u);
}

FACT(a_put_of_the_same_value_on_a_locked_key_moves_the_index_once) {
  consul.put(acquire("a", consul.session()), "v");
  const entry before = consul.read("a");
  consul.put("a", "v");  // resets the lock index
  const entry after = consul.read("a");
  BOOST_TEST(after.modified > before.modified);
  consul.put("a", "v");
  BOOST_TEST(consul.read("a") == after);
}

FACT(anyone_may_delete_a_locked_key) {
  consul.put(acquire("a", consul.session()), "v");
  BOOST_TEST(consul.del("a").said() == "200 true");
  BOOST_TEST(!consul.exists("a"));
  const auto other = consul.session();
  BOOST_TEST(consul.put(acquire("a", other), "w").said() == "200 true");
  BOOST_TEST(consul.read("a").locked == 1u);
}

FACT(a_session_may_hold_many_keys) {
  const auto id = consul.session();
  for (const auto* key : {"a", "b", "c"}) BOOST_TEST(consul.put(acquire(key, id), key).said() == "200 true");
  for (const auto* key : {"a", "b", "c"}) BOOST_TEST(consul.read(key).session == id);
  consul.destroy(id);
  for (const auto* key : {"a", "b", "c"}) BOOST_TEST(consul.read(key).session == "");
}

FACT(destroying_a_session_releases_its_keys_and_keeps_their_values_and_lock_indexes) {
  const auto id = consul.session({{"Behavior", "release"}});
  consul.put(acquire("a", id) + "&flags=5", "v");
  const entry before = consul.read("a");
  consul.destroy(id);
  entry after = consul.read("a");
  BOOST_TEST(after.session == "");
  BOOST_TEST(after.modified > before.modified);
  after.session = id;
  after.modified = before.modified;
  BOOST_TEST(after == before);
}

FACT(destroying_a_session_of_behavior_delete_deletes_its_keys_only) {
  const auto id = consul.session({{"Behavior", "delete"}});
  consul.put(acquire("a", id), "v");
  consul.put("a/b", "v");
  consul.put(acquire("c", id), "v");
  consul.put(release("c", id), "v");
  consul.destroy(id);
  BOOST_TEST(consul.keys("") == "a/b c");
}

FACT(what_one_session_loses_another_keeps) {
  const auto one = consul.session(), other = consul.session();
  consul.put(acquire("a", one), "v");
  consul.put(acquire("b", other), "v");
  const entry before = consul.read("b");
  consul.destroy(one);
  BOOST_TEST(consul.read("b") == before);
}

FACT(all_keys_of_a_session_are_released_at_one_index) {
  const auto id = consul.session();
  consul.put(acquire("a", id), "v");
  consul.put(acquire("b", id), "v");
  consul.destroy(id);
  BOOST_TEST(consul.read("a").modified == consul.read("b").modified);
}

BOOST_AUTO_TEST_SUITE_END()
