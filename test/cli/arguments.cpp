// SPDX-FileCopyrightText: The holdfast authors
// SPDX-License-Identifier: BSL-1.0

#include "cli/arguments.hpp"

#include <boost/test/unit_test.hpp>
#include <chrono>
#include <string>
#include <vector>

namespace {

using namespace std::chrono_literals;
using namespace holdfast::cli;
using texts = std::vector<std::string>;

flag_kind kind_of(const std::string& name) {
  if (name == "shell" || name == "verbose") return flag_kind::boolean;
  return name == "n" || name == "name" ? flag_kind::value : flag_kind::unknown;
}

run_arguments split(const texts& words) { return split_run(words, kind_of); }

}  // namespace

BOOST_AUTO_TEST_SUITE(arguments)

BOOST_AUTO_TEST_CASE(durations_as_in_go) {
  BOOST_TEST((parse_duration("10s") == 10s));
  BOOST_TEST((parse_duration("1h2m3.5s") == 1h + 2min + 3500ms));
  BOOST_TEST((parse_duration("300ms") == 300ms));
  BOOST_TEST((parse_duration("1.5us") == 1500ns));
  BOOST_TEST((parse_duration("0") == 0s));
  BOOST_TEST((parse_duration(".5s") == 500ms));
}

BOOST_AUTO_TEST_CASE(other_texts_are_no_durations) {
  for (const char* text : {"", "5", "s", "5 s", "-5s", "+5s", "1d", "5sx", "1..5s", "1e3s", "99999999999h", "5s5"})
    BOOST_CHECK_THROW(parse_duration(text), usage_error);
}

BOOST_AUTO_TEST_CASE(flags_have_one_dash_or_two) {
  const run_arguments found = split({"-n", "3", "--name=a b", "-verbose", "--shell=false", "p", "c", "-x"});
  BOOST_TEST(found.flags == (texts{"--n=3", "--name=a b", "--verbose=true", "--shell=false"}));
  BOOST_TEST(found.prefix == "p");
  BOOST_TEST(found.command == (texts{"c", "-x"}));
  BOOST_TEST(!found.direct);
}

BOOST_AUTO_TEST_CASE(a_value_may_look_like_a_flag) {
  BOOST_TEST(split({"-name", "-n", "p", "c"}).flags == texts{"--name=-n"});
}

BOOST_AUTO_TEST_CASE(flags_end_at_the_first_word_that_is_none) {
  const run_arguments found = split({"p", "-verbose"});
  BOOST_TEST(found.flags.empty());
  BOOST_TEST(found.command == texts{"-verbose"});
}

BOOST_AUTO_TEST_CASE(two_dashes_behind_the_prefix) {
  const run_arguments found = split({"p", "--", "c", "--", "d"});
  BOOST_TEST(found.direct);
  BOOST_TEST(found.command == (texts{"c", "--", "d"}));
}

BOOST_AUTO_TEST_CASE(two_dashes_before_the_prefix_end_the_flags) {
  const run_arguments found = split({"-verbose", "--", "-p", "c"});
  BOOST_TEST(found.prefix == "-p");
  BOOST_TEST(!found.direct);
  BOOST_TEST(found.command == texts{"c"});
}

BOOST_AUTO_TEST_CASE(a_lone_dash_is_no_flag) { BOOST_TEST(split({"-", "c"}).prefix == "-"); }

BOOST_AUTO_TEST_CASE(mistakes_are_named) {
  const auto says = [](const std::string& text) {
    return [text](const usage_error& wrong) { return std::string(wrong.what()).find(text) != std::string::npos; };
  };
  BOOST_CHECK_EXCEPTION(split({"-x", "p", "c"}), usage_error, says("-x"));
  BOOST_CHECK_EXCEPTION(split({"-name"}), usage_error, says("-name needs a value"));
  BOOST_TEST(split({}).prefix.empty());
}

BOOST_AUTO_TEST_CASE(control_characters_are_not_printed) {
  BOOST_TEST(printable("a\x1b[2Jb\n\x7f") == "a?[2Jb??");
  BOOST_TEST(printable("a\xc2\x9b"
                       "b") == "a?b");  // the controls from U+0080 on
  BOOST_TEST(printable("\xc3\x9b\xc2\xa0\xc2") == "\xc3\x9b\xc2\xa0\xc2");
}

BOOST_AUTO_TEST_SUITE_END()
