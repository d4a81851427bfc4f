#pragma once

#include <boost/test/unit_test.hpp>
#include <string_view>

#include "conformance/support/peer.hpp"

namespace holdfast::test {

/// Runs a fact on the real agent that a program's facts share, or on the model, with keys and sessions of its own.
void run_on_consul(std::string_view fact, void (*body)(peer&));
void run_on_model(std::string_view fact, void (*body)(peer&));

/// The same on an agent, or a model, of the fact's own: what it does to it would disturb others.
void run_on_consul_of_its_own(std::string_view fact, void (*body)(peer&));
void run_on_model_of_its_own(std::string_view fact, void (*body)(peer&));

/// Names a defect that the model has then, to see that facts notice it.
inline constexpr auto defect_variable = "HOLDFAST_MODEL_DEFECT";

}  // namespace holdfast::test

/// A fact about Consul: `FACT(a_name_which_is_a_sentence) { BOOST_TEST(consul.get("a").status == 404); }`. The same
/// code is one test on a real agent, which is always right, and one on the model.
#define FACT(name) HOLDFAST_FACT(name, )
/// The same, by itself: of what would disturb other facts.
#define LONELY_FACT(name) HOLDFAST_FACT(name, _of_its_own)

#define HOLDFAST_FACT(name, own)                                                              \
  static void name(holdfast::test::peer& consul);                                             \
  BOOST_AUTO_TEST_CASE(name##_on_consul) { holdfast::test::run_on_consul##own(#name, name); } \
  BOOST_AUTO_TEST_CASE(name##_on_model) { holdfast::test::run_on_model##own(#name, name); }   \
  static void name([[maybe_unused]] holdfast::test::peer& consul)
