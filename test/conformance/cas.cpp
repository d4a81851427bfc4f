// SPDX-FileCopyrightText: The holdfast authors
// SPDX-License-Identifier: BSL-1.0

// Writes and deletions that depend on an index: `?cas=`.

#include <string>

#include "conformance/support/fact.hpp"

using holdfast::test::base64;
using holdfast::test::entry;

namespace {

std::string with_cas(const char* key, std::uint64_t index) {
  return std::string(key) + "?cas=" + std::to_string(index);
}

}  // namespace

BOOST_AUTO_TEST_SUITE(cas)

FACT(cas_0_creates_a_key) {
  BOOST_TEST(consul.put("a?cas=0", "v").said() == "200 true");
  BOOST_TEST(consul.read("a").value == base64("v"));
}

FACT(cas_0_leaves_a_key_that_exists_alone) {
  consul.put("a", "v");
  const entry before = consul.read("a");
  BOOST_TEST(consul.put("a?cas=0", "w").said() == "200 false");
  BOOST_TEST(consul.read("a") == before);
}

FACT(cas_0_creates_a_key_that_was_deleted) {
  consul.put("a", "v");
  consul.del("a");
  BOOST_TEST(consul.put("a?cas=0", "w").said() == "200 true");
}

FACT(cas_with_the_modify_index_replaces) {
  consul.put("a?flags=1", "v");
  const entry before = consul.read("a");
  BOOST_TEST(consul.put(with_cas("a", before.modified) + "&flags=2", "w").said() == "200 true");
  const entry after = consul.read("a");
  BOOST_TEST(after.value == base64("w"));
  BOOST_TEST(after.flags == 2u);
  BOOST_TEST(after.created == before.created);
  BOOST_TEST(after.modified > before.modified);
}

FACT(cas_with_another_index_changes_nothing) {
  consul.put("a", "u");
  const auto older = consul.read("a").modified;
  consul.put("a", "v");
  const entry before = consul.read("a");
  for (const auto index : {older, before.modified + 1})
    BOOST_TEST(consul.put(with_cas("a", index), "w").said() == "200 false");
  BOOST_TEST(consul.read("a") == before);
}

FACT(cas_with_an_index_does_not_create) {
  BOOST_TEST(consul.put("a?cas=7", "v").said() == "200 false");
  BOOST_TEST(!consul.exists("a"));
}

FACT(cas_compares_the_modify_index_not_the_create_index) {
  consul.put("a", "v");
  consul.put("a", "w");
  BOOST_TEST(consul.put(with_cas("a", consul.read("a").created), "x").said() == "200 false");
}

FACT(cas_sees_that_a_key_was_deleted_and_made_again) {
  consul.put("a", "v");
  const auto before = consul.read("a").modified;
  consul.del("a");
  consul.put("a", "v");
  BOOST_TEST(consul.put(with_cas("a", before), "w").said() == "200 false");
}

FACT(cas_of_the_same_value_succeeds_and_moves_nothing) {
  consul.put("a", "v");
  const entry before = consul.read("a");
  BOOST_TEST(consul.put(with_cas("a", before.modified), "v").said() == "200 true");
  BOOST_TEST(consul.put(with_cas("a", before.modified), "v").said() == "200 true");
  BOOST_TEST(consul.read("a") == before);
}

FACT(cas_keeps_the_session_and_resets_the_lock_index) {
  const auto id = consul.session();
  consul.put("a?acquire=" + id, "v");
  const entry before = consul.read("a");
  BOOST_TEST(before.locked == 1u);
  BOOST_TEST(consul.put(with_cas("a", before.modified), "w").said() == "200 true");
  BOOST_TEST(consul.read("a").session == id);
  BOOST_TEST(consul.read("a").locked == 0u);
}

FACT(cas_must_be_a_number) {
  BOOST_TEST(consul.put("a?cas=abc", "v").said() == "500 strconv.ParseUint: parsing \"abc\": invalid syntax");
  BOOST_TEST(consul.put("a?cas=-1", "v").said() == "500 strconv.ParseUint: parsing \"-1\": invalid syntax");
  BOOST_TEST(consul.put("a?cas=", "v").said() == "500 strconv.ParseUint: parsing \"\": invalid syntax");
  BOOST_TEST(consul.put("a?cas=18446744073709551616", "v").said() ==
             "500 strconv.ParseUint: parsing \"18446744073709551616\": value out of range");
  BOOST_TEST(!consul.exists("a"));
}

FACT(delete_cas_with_the_modify_index_deletes) {
  consul.put("a", "v");
  BOOST_TEST(consul.del(with_cas("a", consul.read("a").modified)).said() == "200 true");
  BOOST_TEST(!consul.exists("a"));
}

FACT(delete_cas_with_another_index_changes_nothing) {
  consul.put("a", "v");
  const entry before = consul.read("a");
  for (const auto index : {before.modified - 1, before.modified + 1})
    BOOST_TEST(consul.del(with_cas("a", index)).said() == "200 false");
  BOOST_TEST(consul.read("a") == before);
}

FACT(delete_cas_0_of_a_key_that_exists_is_false) {
  consul.put("a", "v");
  BOOST_TEST(consul.del("a?cas=0").said() == "200 false");
  BOOST_TEST(consul.exists("a"));
}

FACT(delete_cas_of_a_missing_key_is_true_whatever_the_index) {
  BOOST_TEST(consul.del("a?cas=0").said() == "200 true");
  BOOST_TEST(consul.del("a?cas=5").said() == "200 true");
}

FACT(delete_cas_must_be_a_number) {
  BOOST_TEST(consul.del("a?cas=abc").said() == "500 strconv.ParseUint: parsing \"abc\": invalid syntax");
  BOOST_TEST(consul.del("a?cas=").said() == "500 strconv.ParseUint: parsing \"\": invalid syntax");
}

BOOST_AUTO_TEST_SUITE_END()
