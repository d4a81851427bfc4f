#pragma once

#include <chrono>
#include <holdfast/semaphore_status.hpp>

#include "protocol/administration.hpp"

namespace holdfast::runtime {

/// What a inspection shows, for people. `now_since_1970` is for the ages.
semaphore_status to_status(const protocol::inspection& seen, std::chrono::seconds now_since_1970);

}  // namespace holdfast::runtime
