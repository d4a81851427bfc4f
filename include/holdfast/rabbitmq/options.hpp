// SPDX-FileCopyrightText: The holdfast authors
// SPDX-License-Identifier: BSL-1.0

#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <holdfast/alive_check.hpp>
#include <holdfast/log_event.hpp>
#include <holdfast/tracer.hpp>
#include <memory>
#include <optional>
#include <string>

namespace holdfast::rabbitmq {

/// Options that most users do not change. Times are 0 to 24 h unless stated otherwise.
struct tuning {
  /// How long an acquire or a release retries while the broker cannot be reached or does not answer. Then an acquire
  /// fails with the last error, unless this process has a connection that works. A release fails with
  /// error::timed_out; its connection is closed, so the slot is free soon after. `close` has this time limit, too.
  std::chrono::milliseconds give_up_after{5'000};
  /// How many acquires of this object may wait at once, at least 1. The next one fails with error::too_many_waiters.
  std::size_t waiters_max = 1'000'000;
  /// How long a connection is kept that no slot uses. During this time it also keeps the execution context running.
  std::chrono::milliseconds session_idle_timeout{10'000};
  /// How long a slot may be handed from caller to caller inside this process. A longer time saves requests and makes
  /// other processes wait longer.
  std::chrono::milliseconds local_handoff_time{100};
  /// How often the broker is asked for free slots while callers wait, 10 ms to 24 h. Each pause is up to 50 % shorter
  /// or longer. Processes that use this library also tell each other which slot has become free. If others share the
  /// semaphore that do not, 100 ms is better.
  std::chrono::milliseconds poll_interval{1'000};
  /// A slot whose last holder did not release it is used after a whole lease and this time. A cluster may need it.
  std::chrono::milliseconds lease_extra{0};
  /// Lets the slots go if the application hangs: they are not verified any more, and their connections are closed when
  /// their leases expire. Default: nothing is asked.
  std::optional<alive_check> alive{};
};

/// Options of a semaphore on RabbitMQ. All processes must use the same `name`, `lease` and `letter_first`. The
/// constructor of the semaphore checks all of them.
struct semaphore_options {
  /// The name of the semaphore. The names of its queues begin with it. 1 to 240 bytes of UTF-8 without control
  /// characters. It does not begin with "amq.", and is not the name that a queue of another semaphore would have, such
  /// as "jobs-1-A" or "jobs-F". Otherwise the constructor throws error::invalid_name.
  std::string name{};
  /// How many slots to create if there is no semaphore of this name, at most 1,000. If there is one, its number of
  /// slots stays. 0: an administrator creates the semaphore, and until then acquires fail with error::no_semaphore.
  std::uint32_t create_with = 0;
  /// How long a holder may believe that it holds its slot without an answer of the broker, less a tenth. 2 s to 10 min;
  /// otherwise the constructor throws error::invalid_ttl. The broker is asked about every third of the lease. After a
  /// process has died, its slots are free one lease later; after its machine has died, up to two and a half leases
  /// later. If the semaphore is in use with another lease, acquires fail with error::lease_conflict.
  std::chrono::milliseconds lease{10'000};
  /// Called with the events that operators want to know: losses and revocations. Empty: nothing is logged.
  log_function log{};
  /// The tracer is notified of each wait and hold. Null: nothing is traced.
  std::shared_ptr<holdfast::tracer> tracer{};
  /// If true, the queues of slot 3 of "jobs" are named "jobs-A-3" and so on, as amqp-locks-python has them. If false,
  /// "jobs-3-A".
  bool letter_first = false;
  rabbitmq::tuning tuning{};
};

}  // namespace holdfast::rabbitmq
