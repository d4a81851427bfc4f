// SPDX-FileCopyrightText: The holdfast authors
// SPDX-License-Identifier: BSL-1.0

#pragma once

#include <boost/test/unit_test.hpp>
#include <cstddef>
#include <string_view>

#include "conformance/support/peer.hpp"

namespace holdfast::test {

/// Runs a fact on the real agent that a program's facts share, or on the model, with keys and sessions of its own.
void run_on_consul(std::string_view fact, void (*body)(peer&));
void run_on_model(std::string_view fact, void (*body)(peer&));

/// Limits of request sizes that an agent can be configured with.
struct peer_limits {
  std::size_t value_bytes = 512 * 1024;  ///< `kv_max_value_size`
  std::size_t txn_bytes = 512 * 1024;    ///< `txn_max_req_len`
};

/// Runs the fact on an agent, or a model, that no other fact uses.
void run_on_consul_of_its_own(std::string_view fact, void (*body)(peer&), const peer_limits& limits);
void run_on_model_of_its_own(std::string_view fact, void (*body)(peer&), const peer_limits& limits);

/// The environment variable that gives the model a defect, to show that facts notice it.
inline constexpr auto defect_variable = "HOLDFAST_MODEL_DEFECT";

}  // namespace holdfast::test

/// A fact about Consul: `FACT(a_name_which_is_a_sentence) { BOOST_TEST(consul.get("a").status == 404); }`. The same
/// code is one test on a real agent, which is always right, and one on the model.
#define FACT(name) HOLDFAST_FACT(name, run_on_consul(#name, name), run_on_model(#name, name))
/// A fact on an agent of its own, because it would disturb others or needs other limits: `LONELY_FACT(a_sentence,
/// .txn_bytes = 1000)`.
#define LONELY_FACT(name, ...)                                              \
  HOLDFAST_FACT(name, run_on_consul_of_its_own(#name, name, {__VA_ARGS__}), \
                run_on_model_of_its_own(#name, name, {__VA_ARGS__}))

#define HOLDFAST_FACT(name, run_on_consul, run_on_model)                    \
  static void name(holdfast::test::peer& consul);                           \
  BOOST_AUTO_TEST_CASE(name##_on_consul) { holdfast::test::run_on_consul; } \
  BOOST_AUTO_TEST_CASE(name##_on_model) { holdfast::test::run_on_model; }   \
  static void name([[maybe_unused]] holdfast::test::peer& consul)
