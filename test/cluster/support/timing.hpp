#pragma once

#include <chrono>

namespace holdfast::test {

/// Of all semaphores in these tests: short, so that a suite sees many sessions end.
constexpr std::chrono::milliseconds session_ttl{2'000};

/// How long a free slot may have somebody wait for it after a fault, and after its end. A slot whose holder is gone is
/// free for the others when Consul has ended its session: after twice the TTL, counted anew by each new leader...
constexpr std::chrono::milliseconds session_expiry = 2 * session_ttl;
/// ... so first there is an election: up to 4.3 s were measured with three servers on two cores, `raft_multiplier` 1.
constexpr std::chrono::milliseconds election{5'000};
/// What our side adds: a request that went to the wrong server has to time out (a third of the TTL), then a pause (up
/// to 1 s), then a machine with more processes than cores.
constexpr std::chrono::milliseconds slack{3'000};

constexpr std::chrono::milliseconds grant_bound = session_expiry + election + slack;

}  // namespace holdfast::test
