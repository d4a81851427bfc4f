#include <boost/test/unit_test.hpp>

#include "support/agent.hpp"

namespace {

/// All of these tests have agents, and threads that wait for something to happen there. Without a Consul program they
/// fail before any of these threads begins, and say why: Boost.Test tells what this throws.
struct needs_consul {
  needs_consul() { holdfast::test::consul_program(); }
};

}  // namespace

BOOST_TEST_GLOBAL_FIXTURE(needs_consul);
