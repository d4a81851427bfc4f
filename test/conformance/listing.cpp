// SPDX-FileCopyrightText: The holdfast authors
// SPDX-License-Identifier: BSL-1.0

// Which keys ?recurse and ?keys find, and where they cut them.

#include <algorithm>
#include <string>
#include <vector>

#include "conformance/support/fact.hpp"

using holdfast::test::base64;
using holdfast::test::peer;

namespace {

void put_all(peer& consul, const std::vector<std::string>& keys) {
  for (const auto& key : keys) consul.put(key, key);
}

std::string names_of(const peer& consul, const char* prefix) {
  std::string out;
  for (const auto& each : consul.list(prefix)) out.append(out.empty() ? "" : " ").append(each.key);
  return out;
}

}  // namespace

BOOST_AUTO_TEST_SUITE(listing)

FACT(keys_are_listed_in_the_order_of_their_bytes) {
  put_all(consul, {"b", "a/b", "a-b", "B", "a", "ab", "%C3%A9", "a/"});
  const auto* sorted = "B a a-b a/ a/b ab b \u00e9";
  BOOST_TEST(names_of(consul, "") == sorted);
  BOOST_TEST(consul.keys("") == sorted);
}

FACT(a_prefix_is_the_beginning_of_a_name_not_a_folder) {
  put_all(consul, {"foo", "foo/x", "foobar/y", "fo", "g"});
  const auto* found = "foo foo/x foobar/y";
  BOOST_TEST(names_of(consul, "foo") == found);
  BOOST_TEST(consul.keys("foo") == found);
}

FACT(a_prefix_with_a_slash_leaves_out_the_key_without) {
  put_all(consul, {"foo", "foo/", "foo/x"});
  BOOST_TEST(names_of(consul, "foo/") == "foo/ foo/x");
}

FACT(a_prefix_may_end_within_a_segment) {
  put_all(consul, {"jobs/a1", "jobs/a2", "jobs/b1"});
  BOOST_TEST(consul.keys("jobs/a") == "jobs/a1 jobs/a2");
}

FACT(an_empty_listing_is_an_empty_404_with_an_index) {
  for (const auto* name : {"none?recurse", "none?keys", "none?keys&separator=/"}) {
    const auto reply = consul.get(name);
    BOOST_TEST(reply.said() == "404 ");
    BOOST_TEST(reply.index() > 0u);
  }
}

FACT(a_listing_holds_whole_entries) {
  const auto id = consul.session();
  consul.put("a?acquire=" + id + "&flags=5", "v");
  consul.put("b", "w");
  const auto found = consul.list("");
  BOOST_REQUIRE(found.size() == 2u);
  BOOST_TEST(found[0] == consul.read("a"));
  BOOST_TEST(found[1] == consul.read("b"));
  BOOST_TEST(found[0].session == id);
}

FACT(a_separator_cuts_names_after_it_and_names_each_group_once) {
  put_all(consul, {"a", "a/1", "a/2", "b/1/x", "c"});
  BOOST_TEST(consul.keys("", "&separator=/") == "a a/ b/ c");
}

FACT(a_separator_is_looked_for_behind_the_prefix) {
  put_all(consul, {"a/b/1", "a/b/2", "a/c"});
  BOOST_TEST(consul.keys("a/", "&separator=/") == "a/b/ a/c");
  BOOST_TEST(consul.keys("a", "&separator=/") == "a/");
}

FACT(a_separator_may_be_long) {
  put_all(consul, {"a--b--c", "a-b", "a--d"});
  BOOST_TEST(consul.keys("", "&separator=--") == "a-- a-b");
}

FACT(a_separator_that_is_nowhere_cuts_nothing) {
  put_all(consul, {"a/1", "a/2"});
  BOOST_TEST(consul.keys("", "&separator=%7C") == "a/1 a/2");
}

FACT(an_empty_separator_is_none) {
  put_all(consul, {"a/1", "a/2"});
  BOOST_TEST(consul.keys("", "&separator=") == "a/1 a/2");
}

FACT(a_separator_does_not_cut_entries) {
  put_all(consul, {"a/1", "a/2"});
  BOOST_TEST(consul.get("?recurse&separator=/").size() == 2u);
}

FACT(keys_go_before_recurse) {
  put_all(consul, {"a/1"});
  BOOST_TEST(consul.get("?keys&recurse").json().at(0).is_string());
}

FACT(raw_does_nothing_to_a_listing) {
  put_all(consul, {"a/1"});
  BOOST_TEST(consul.get("a?recurse&raw").first().value == base64("a/1"));
  BOOST_TEST(consul.get("a?keys&raw").size() == 1u);
}

FACT(recurse_counts_whatever_its_value) {
  put_all(consul, {"a/1"});
  BOOST_TEST(consul.get("a?recurse=false").size() == 1u);
}

FACT(the_empty_prefix_lists_everything) {
  put_all(consul, {"a"});
  const auto all = consul.request("GET", "/v1/kv/?keys").json();
  const boost::json::value own((consul.prefix() + "a").c_str());
  BOOST_TEST((std::find(all.as_array().begin(), all.as_array().end(), own) != all.as_array().end()));
  BOOST_TEST(consul.request("GET", "/v1/kv/?recurse").size() == all.as_array().size());
}

FACT(a_deleted_key_is_not_listed) {
  put_all(consul, {"a", "b"});
  consul.del("a");
  BOOST_TEST(consul.keys("") == "b");
}

BOOST_AUTO_TEST_SUITE_END()
