// SPDX-FileCopyrightText: The holdfast authors
// SPDX-License-Identifier: BSL-1.0

#include "rabbitmq_runtime/broker_setup.hpp"

#include <chrono>
#include <holdfast/error.hpp>
#include <string>
#include <string_view>
#include <utility>

#include "rabbitmq/names.hpp"
#include "runtime/setup.hpp"

namespace holdfast::rabbitmq::detail {

namespace {

using namespace std::chrono_literals;
using std::chrono::milliseconds;

void require(bool holds, error broken, const std::string& rule) {
  if (!holds) throw system_error(make_error_code(broken), rule);
}

void check_time(milliseconds value, milliseconds least, const std::string& name) {
  require(least <= value && value <= 24h, error::invalid_option,
          "tuning." + name + (least == 0ms ? ": negative or over 24 h" : ": not between 10 ms and 24 h"));
}

// These fail to compile when a structure gets a new member. The author of the member must then check it below, use it,
// and test in `unit.rabbitmq_options` that its value arrives.
void know_all_of(const semaphore_options& options, const tuning& tuned) {
  [[maybe_unused]] const auto& [name, create_with, lease, log, its_tracer, letter_first, its_tuning] = options;
  [[maybe_unused]] const auto& [give_up_after, waiters_max, session_idle_timeout, local_handoff_time, poll_interval,
                                lease_extra, alive] = tuned;
}

void check_tuning(const tuning& tuned) {
  check_time(tuned.give_up_after, 0ms, "give_up_after");
  check_time(tuned.session_idle_timeout, 0ms, "session_idle_timeout");
  check_time(tuned.local_handoff_time, 0ms, "local_handoff_time");
  check_time(tuned.poll_interval, 10ms, "poll_interval");
  check_time(tuned.lease_extra, 0ms, "lease_extra");
  require(tuned.waiters_max >= 1, error::invalid_option, "tuning.waiters_max: 0");
}

}  // namespace

broker_setup checked(semaphore_options options) {
  const tuning& tuned = options.tuning;
  know_all_of(options, tuned);
  std::string_view cause;
  if (const error_code wrong = check_name(options.name, cause))
    throw system_error(wrong, "name: " + std::string(cause));
  require(options.create_with <= protocol::slot_number_max, error::invalid_option,
          "create_with: over " + std::to_string(protocol::slot_number_max));
  require(2s <= options.lease && options.lease <= 10min, error::invalid_ttl, "lease: not between 2 s and 10 min");
  check_tuning(tuned);

  broker_setup result;
  result.shell.log = std::move(options.log);
  result.shell.tracer = std::move(options.tracer);
  result.shell.name = result.link.name = result.core.name = options.name;
  result.shell.account = std::make_shared<runtime::lock_account>(options.name, "rabbitmq_semaphore");
  result.link.letter_first = options.letter_first;
  result.link.lease = options.lease;
  result.link.session_idle_timeout = tuned.session_idle_timeout;
  result.core.create_with = options.create_with;
  result.core.lease = options.lease;
  result.core.lease_margin = result.core.lease / 10;
  result.core.lease_extra = tuned.lease_extra;
  result.core.give_up_after = tuned.give_up_after;
  result.core.waiters_max = tuned.waiters_max;
  result.core.local_handoff_time = tuned.local_handoff_time;
  result.core.poll_interval = tuned.poll_interval;
  result.core.alive_within = runtime::checked(tuned.alive);
  result.shell.alive = tuned.alive;
  return result;
}

}  // namespace holdfast::rabbitmq::detail
