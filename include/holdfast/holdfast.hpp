#pragma once

/// The front page. Most users need `holdfast::semaphore` (semaphore.hpp) or `holdfast::mutex` (mutex.hpp), the
/// `holdfast::slot` that they give (slot.hpp), `holdfast::with_slot` around a critical section (with_slot.hpp), and a
/// `holdfast::consul::client` to reach Consul (consul/client.hpp), which is of use without semaphores too. A service
/// with one leader and standbys: `holdfast::election` (election.hpp). Workers that share a long list of tasks:
/// `holdfast::mutex_set` (mutex_set.hpp). Operators have
/// `holdfast::semaphore_administration` (administration.hpp).

#include <holdfast/administration.hpp>
#include <holdfast/consul/client.hpp>
#include <holdfast/diagnostics.hpp>
#include <holdfast/election.hpp>
#include <holdfast/error.hpp>
#include <holdfast/mutex.hpp>
#include <holdfast/mutex_set.hpp>
#include <holdfast/options.hpp>
#include <holdfast/semaphore.hpp>
#include <holdfast/semaphore_status.hpp>
#include <holdfast/slot.hpp>
#include <holdfast/version.hpp>
#include <holdfast/with_slot.hpp>
