// SPDX-FileCopyrightText: The holdfast authors
// SPDX-License-Identifier: BSL-1.0

// Tests of the suite itself: there are many facts, and each is tested on Consul and on the model.

#include <boost/test/tree/traverse.hpp>
#include <boost/test/tree/visitor.hpp>
#include <boost/test/unit_test.hpp>
#include <chrono>
#include <filesystem>
#include <iostream>
#include <set>
#include <string>
#include <string_view>
#include <utility>

#include "conformance/support/fact.hpp"
#include "support/process.hpp"
#include "testing/defect.hpp"

namespace {

namespace ut = boost::unit_test;

constexpr std::size_t facts_min = 120;

// Names of facts, without what says where they run.
struct found_facts : ut::test_tree_visitor {
  std::set<std::string> on_consul, on_model, neither;

  void visit(const ut::test_case& test) override {
    const std::string name = test.full_name();
    if (name.starts_with("facts/")) return;
    if (!add(on_consul, name, "_on_consul") && !add(on_model, name, "_on_model")) neither.insert(name);
  }

private:
  static bool add(std::set<std::string>& to, std::string_view name, std::string_view where) {
    if (!name.ends_with(where)) return false;
    name.remove_suffix(where.size());
    to.emplace(name);
    return true;
  }
};

// Each rule that the model can be made to break has a fact.
constexpr std::pair<std::string_view, const char*> noticed_by[] = {
    {"lock_index_not_counted", "locks/the_lock_index_counts_how_often_the_lock_was_taken"},
    {"lock_index_survives_put", "locks/after_a_put_the_holder_still_holds_and_the_count_begins_anew"},
    {"cas_ignores_index", "cas/cas_with_another_index_changes_nothing"},
    {"cas_zero_overwrites", "cas/cas_0_leaves_a_key_that_exists_alone"},
    {"identical_write_moves_index", "indexes/a_put_of_what_is_there_moves_nothing"},
    {"delete_wakes_nobody", "blocking_prefix/a_deletion_wakes"},
    {"delete_moves_no_index", "indexes/a_listings_index_grows_when_a_key_goes"},
    {"create_index_survives_delete", "indexes/a_key_that_is_deleted_and_made_again_is_a_new_one"},
    {"put_drops_session", "transactions/set_on_a_locked_key_keeps_its_session_and_resets_its_lock_index"},
    {"lock_of_other_succeeds", "locks/acquire_by_another_session_is_false_and_changes_nothing"},
    {"unlock_by_anyone", "locks/release_by_another_session_is_false_and_changes_nothing"},
    {"release_deletes", "locks/all_keys_of_a_session_are_released_at_one_index"},
    {"destroy_keeps_locks", "locks/a_session_may_hold_many_keys"},
    {"partial_transaction", "transactions/one_error_undoes_everything"},
    {"first_error_only", "transactions/every_error_is_reported"},
    {"missing_key_index_zero", "kv/a_missing_key_is_an_empty_404_with_an_index"},
    {"listing_index_is_global", "indexes/a_listings_index_is_the_newest_in_it"},
    {"flags_truncated", "kv/flags_are_an_unsigned_number_of_64_bits"},
    {"tree_is_folder", "listing/a_prefix_is_the_beginning_of_a_name_not_a_folder"},
    {"keys_not_cut", "listing/a_separator_cuts_names_after_it_and_names_each_group_once"},
    {"no_lock_delay", "lock_delay/after_a_session_was_destroyed_its_key_cannot_be_acquired"},
    {"sibling_wakes_nobody", "blocking_missing/a_prefix_that_never_was_wakes_for_its_neighbours"},
    {"deregistration_ends_none", "nodes/a_node_that_is_deregistered_takes_its_sessions_along"}};

std::string run_on_defective_model(std::string_view defect, const std::string& fact) {
  holdfast::test::process_options child;
  child.command = {std::filesystem::read_symlink("/proc/self/exe").string(), "--run_test=" + fact + "_on_model"};
  child.environment = {{holdfast::test::defect_variable, std::string(defect)}};
  holdfast::test::process running(std::move(child));
  const auto status = running.wait(std::chrono::seconds(30));
  return status ? status->to_string() : "still running";
}

}  // namespace

BOOST_AUTO_TEST_SUITE(facts)

BOOST_AUTO_TEST_CASE(one_notices_each_rule_that_the_model_breaks) {
  std::set<std::string_view> defects;
  for (const auto each : holdfast::testing::defects) defects.insert(to_string(each));
  defects.erase("none");
  const std::string tests_failed = holdfast::test::exit_status{201, 0}.to_string();  // so Boost.Test says it
  for (const auto& [defect, fact] : noticed_by) {
    BOOST_TEST(defects.erase(defect) == 1u, defect << " is no defect");
    BOOST_TEST(run_on_defective_model(defect, fact) == tests_failed, fact << " does not notice " << defect);
  }
  for (const auto defect : defects) BOOST_ERROR("no fact is named for " << defect);
}

BOOST_AUTO_TEST_CASE(they_are_many_and_each_is_tried_on_consul_and_on_the_model) {
  found_facts found;
  ut::traverse_test_tree(ut::framework::master_test_suite(), found, true);
  std::cout << found.on_consul.size() << " facts about Consul\n";
  BOOST_TEST(found.on_consul.size() >= facts_min);
  BOOST_TEST(found.on_consul == found.on_model, boost::test_tools::per_element());
  BOOST_TEST(found.neither == std::set<std::string>(), boost::test_tools::per_element());
}

BOOST_AUTO_TEST_SUITE_END()
