// SPDX-FileCopyrightText: The holdfast authors
// SPDX-License-Identifier: BSL-1.0

#pragma once

#include <chrono>

namespace holdfast::test {

/// The TTL of all semaphores in these tests. It is short, so that many sessions expire in a suite.
constexpr std::chrono::milliseconds session_ttl{2'000};

/// `grant_bound` is the most time for which a free slot may have a waiter after a fault, and after its end. It has
/// three parts. A slot whose holder has died is free when Consul has ended the holder's session: after twice the TTL,
/// which each new leader counts anew.
constexpr std::chrono::milliseconds session_expiry = 2 * session_ttl;
/// Therefore an election comes first. Up to 4.3 s were measured with three servers on two cores, `raft_multiplier` 1.
constexpr std::chrono::milliseconds election{5'000};
/// The library adds the timeout of a request to the wrong server (a third of the TTL) and then a pause (up to 1 s). A
/// machine with more processes than cores adds some time, too.
constexpr std::chrono::milliseconds slack{3'000};

constexpr std::chrono::milliseconds grant_bound = session_expiry + election + slack;

}  // namespace holdfast::test
