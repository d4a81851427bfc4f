// The one translation unit which holds Boost.Test's main(); each test executable links it from test_support.
#define BOOST_TEST_MODULE holdfast
#include <boost/test/unit_test.hpp>
