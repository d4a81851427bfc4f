// SPDX-FileCopyrightText: The holdfast authors
// SPDX-License-Identifier: BSL-1.0

#include "consul/encoding/duration.hpp"

#include <boost/test/unit_test.hpp>

using holdfast::consul::detail::parse_go_duration;
using holdfast::consul::detail::to_go_duration;
using namespace std::chrono_literals;

namespace {

// Returns -1 if the text is refused.
long long nanoseconds(std::string_view text) {
  std::chrono::nanoseconds out{};
  return parse_go_duration(text, out) ? out.count() : -1;
}

}  // namespace

BOOST_AUTO_TEST_SUITE(consul_duration)

BOOST_AUTO_TEST_CASE(writes_milliseconds) {
  BOOST_TEST(to_go_duration(0ms) == "0ms");
  BOOST_TEST(to_go_duration(15s) == "15000ms");
}

BOOST_AUTO_TEST_CASE(reads_what_go_writes) {
  BOOST_TEST(nanoseconds("") == 0);
  BOOST_TEST(nanoseconds("0") == 0);
  BOOST_TEST(nanoseconds("0s") == 0);
  BOOST_TEST(nanoseconds("10s") == 10'000'000'000);
  BOOST_TEST(nanoseconds("15000ms") == 15'000'000'000);
  BOOST_TEST(nanoseconds("1h2m3.5s") == 3'723'500'000'000);
  BOOST_TEST(nanoseconds("24h0m0s") == 86'400'000'000'000);
  BOOST_TEST(nanoseconds("1.5ms") == 1'500'000);
  BOOST_TEST(nanoseconds(".5s") == 500'000'000);
  BOOST_TEST(nanoseconds("1.s") == 1'000'000'000);
  BOOST_TEST(nanoseconds("0.999999999h") == 3'599'999'996'400);
  BOOST_TEST(nanoseconds("0.9ns") == 0);
  BOOST_TEST(nanoseconds("7ns") == 7);
  BOOST_TEST(nanoseconds("7us") == 7'000);
  BOOST_TEST(nanoseconds("7\xc2\xb5s") == 7'000);
  BOOST_TEST(nanoseconds("7\xce\xbcs") == 7'000);
  BOOST_TEST(nanoseconds("0.1234567899s") == 123'456'789);
}

BOOST_AUTO_TEST_CASE(refuses_everything_else) {
  for (const std::string_view text :
       {"1", "s", ".", ".s", "-1s", "+1s", "1 s", " 1s", "1s ", "1d", "1S", "1.2.3s", "1e3s", "99999999999999999999s",
        "9223372036855s", "2562048h", "1s9223372036s9h"}) {
    BOOST_TEST(nanoseconds(text) == -1, "accepted \"" << text << '"');
  }
  BOOST_TEST(nanoseconds("9223372036854775808ns") == -1);
  BOOST_TEST(nanoseconds("9223372036854775807ns") == 9'223'372'036'854'775'807);
  BOOST_TEST(nanoseconds("2562047h") == 9'223'369'200'000'000'000);
}

BOOST_AUTO_TEST_SUITE_END()
