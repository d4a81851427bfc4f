// SPDX-FileCopyrightText: The holdfast authors
// SPDX-License-Identifier: BSL-1.0

// The translation unit with Boost.Test's main(). Each test executable links it from test_support.
#define BOOST_TEST_MODULE holdfast
#ifdef BOOST_TEST_DYN_LINK
#include <boost/test/unit_test.hpp>
#else  // HOLDFAST_HEADER_ONLY_BOOST
#include <boost/test/included/unit_test.hpp>
#endif

#include <cstdlib>

#include "support/invariants.hpp"

namespace {

/// Tests do not use the run directory of the machine, unless they say so.
const bool has_no_run_directory = ::setenv("HOLDFAST_RUN_DIRECTORY", "", 0) == 0;

const bool invariants_are_checked = (holdfast::test::end_at_a_broken_invariant(), true);

}  // namespace
