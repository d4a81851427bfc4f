// SPDX-FileCopyrightText: The holdfast authors
// SPDX-License-Identifier: BSL-1.0

#pragma once

#include "parameters.hpp"

namespace holdfast::bench {

// Each function does one measurement and prints its row, one line of JSON. It throws if the measurement fails.

/// holdfast: cycle, cycle-idle, cycle-immediate, pool, pool-rival, handoff, long-hold, mutex, mixed
void closed_loop(const parameters& p);
void closed_loop_local(const parameters& p);  ///< holdfast: a semaphore on a store without a server
void closed_loop_floor(const parameters& p);  ///< floor-asio: a semaphore of this program only, without Consul
void open_loop(const parameters& p);          ///< holdfast: arrivals at a fixed rate
void loss(const parameters& p);               ///< holdfast: from a session's end to the slot's loss
void waiting(const parameters& p);            ///< holdfast: memory for each waiter
void expected_wait(const parameters& p);      ///< holdfast: the error of the waits that acquires expect
void bare(const parameters& p);               ///< floor-beast: bare requests, without a semaphore around them
void consul_lock(const parameters& p);        ///< the command `consul lock`, as a user would run it

/// The program that `consul lock` runs. It notes its visit on the board, a file that all of its processes share.
int inside(const char* board);

}  // namespace holdfast::bench
