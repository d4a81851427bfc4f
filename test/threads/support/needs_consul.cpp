// SPDX-FileCopyrightText: The holdfast authors
// SPDX-License-Identifier: BSL-1.0

#include <boost/test/unit_test.hpp>

#include "support/agent.hpp"

namespace {

/// All of these tests have agents, and threads that wait for events there. Without a Consul program they fail before
/// any of these threads begins, with the message of the exception that this throws.
struct needs_consul {
  needs_consul() { holdfast::test::consul_program(); }
};

}  // namespace

BOOST_TEST_GLOBAL_FIXTURE(needs_consul);
