// SPDX-FileCopyrightText: The holdfast authors
// SPDX-License-Identifier: BSL-1.0

#pragma once

/// Includes the whole library, except the test support (holdfast/testing and local_store.hpp). Most users need:
///
/// - `holdfast::consul::client` (consul/client.hpp) to reach Consul. You can use it on its own, too.
/// - `holdfast::semaphore` (semaphore.hpp) or `holdfast::mutex` (mutex.hpp), and the `holdfast::slot` that an acquire
///   returns (slot.hpp). A function that takes a `holdfast::hold&` works with every kind of slot (hold.hpp).
/// - `holdfast::with_slot` to run a critical section (with_slot.hpp).
/// - `holdfast::election` for a service with one leader and standbys (election.hpp).
/// - `holdfast::mutex_set` for workers that process a long list of tasks (mutex_set.hpp).
/// - `holdfast::semaphore_administration` for operators (administration.hpp).

#include <holdfast/administration.hpp>
#include <holdfast/consul/client.hpp>
#include <holdfast/diagnostics.hpp>
#include <holdfast/election.hpp>
#include <holdfast/error.hpp>
#include <holdfast/hold.hpp>
#include <holdfast/maker_state.hpp>
#include <holdfast/mutex.hpp>
#include <holdfast/mutex_set.hpp>
#include <holdfast/options.hpp>
#include <holdfast/semaphore.hpp>
#include <holdfast/semaphore_status.hpp>
#include <holdfast/slot.hpp>
#include <holdfast/version.hpp>
#include <holdfast/with_slot.hpp>
