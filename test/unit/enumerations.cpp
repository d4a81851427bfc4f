// SPDX-FileCopyrightText: The holdfast authors
// SPDX-License-Identifier: BSL-1.0

#include <array>
#include <boost/test/unit_test.hpp>
#include <cstddef>
#include <holdfast/consul/client.hpp>
#include <holdfast/hold.hpp>
#include <holdfast/holdfast.hpp>
#include <holdfast/log_event.hpp>
#include <holdfast/statistics.hpp>
#include <holdfast/testing/faults.hpp>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "support/journal.hpp"
#include "testing/defect.hpp"

// The lists of enumerators are derived from `to_string`. Here the compiler's own names of the values say what the
// enumerators are.
namespace {

using namespace holdfast;

/// The name of the enumerator with this value. It is empty if there is none.
template <auto Value>
constexpr std::string_view name_of() {
  // g++ and clang++ end it with "Value = holdfast::error::closed]", or "Value = (holdfast::error)99]" for other values.
  std::string_view text = __PRETTY_FUNCTION__;
  text = text.substr(text.find("Value = ") + 8);
  text = text.substr(0, text.find_first_of("];"));
  return text.front() == '(' ? std::string_view() : text.substr(text.rfind(':') + 1);
}

template <class Enum, std::size_t... Values>
constexpr auto names_of(std::index_sequence<Values...>) {
  return std::array{name_of<static_cast<Enum>(Values)>()...};
}

/// Whether `to_string` returns the name of the enumerator.
enum class promise { name, other_text };

template <class Enum>
void check(const char* which, promise what = promise::name) {
  BOOST_TEST_CONTEXT(which) {
    constexpr auto names = names_of<Enum>(std::make_index_sequence<detail::enumerators_end>());
    std::vector<Enum> found;
    std::set<std::string_view> texts;
    for (std::size_t value = 0; value < names.size(); ++value) {
      if (names[value].empty()) continue;
      const auto each = static_cast<Enum>(value);
      found.push_back(each);
      BOOST_TEST(texts.insert(to_string(each)).second, names[value] << " has the text of another");
      if (what == promise::name) BOOST_TEST(to_string(each) == names[value]);
    }
    BOOST_TEST(!found.empty());
    constexpr auto listed = detail::enumerators<Enum>();
    BOOST_TEST((found == std::vector<Enum>(listed.begin(), listed.end())),
               found.size() << " enumerators, of which " << listed.size() << " are listed");
  }
}

enum class example { first, second };
constexpr std::string_view to_string(example which) noexcept {
  return which == example::first ? "first" : which == example::second ? "second" : "";
}

}  // namespace

BOOST_AUTO_TEST_SUITE(enumerations)

#define CHECK(enumeration, ...) check<enumeration>(#enumeration __VA_OPT__(, ) __VA_ARGS__)
BOOST_AUTO_TEST_CASE(the_lists_have_all_enumerators) {
  CHECK(error);
  CHECK(loss_reason);
  CHECK(slot_state);
  CHECK(maker_state);
  CHECK(contender_kind);
  CHECK(log_kind);
  CHECK(severity);
  CHECK(kv_verb, promise::other_text);
  CHECK(consul::request_kind);
  CHECK(consul::request_outcome);
  CHECK(testing::fault::kind);
  CHECK(testing::defect);
  CHECK(test::journal_event);
}
#undef CHECK

BOOST_AUTO_TEST_CASE(no_value_leads_out_of_the_counters) {
  counters_by<example> counted;
  BOOST_TEST(counted.size == 2u);
  counted[example::second] = 1;
  for (const int value : {2, 3, 1'000'000, -1}) {
    const auto other = static_cast<example>(value);
    BOOST_TEST(detail::index_of(other) == 0u);
    ++counted[other];
    BOOST_TEST(std::as_const(counted)[other] == counted[example::first]);
  }
  BOOST_TEST(counted[example::first] == 4u);
  BOOST_TEST(counted[example::second] == 1u);
  consul::client_statistics statistics;
  BOOST_TEST(&statistics.of(static_cast<consul::request_kind>(-1)) == &statistics.operations.front());
}

BOOST_AUTO_TEST_CASE(codes_that_begin_with_1_have_a_counter_for_0) {
  BOOST_TEST((errors.front() == static_cast<error>(1)));
  BOOST_TEST(counters_by<error>::size == errors.size() + 1);
}

BOOST_AUTO_TEST_SUITE_END()
