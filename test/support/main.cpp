// The one translation unit which holds Boost.Test's main(); each test executable links it from test_support.
#define BOOST_TEST_MODULE holdfast
#include <boost/test/unit_test.hpp>

#include "support/invariants.hpp"

namespace {

const bool invariants_are_checked = (holdfast::test::end_at_a_broken_invariant(), true);

}  // namespace
