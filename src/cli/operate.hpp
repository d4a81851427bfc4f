// SPDX-FileCopyrightText: The holdfast authors
// SPDX-License-Identifier: BSL-1.0

#pragma once

#include <chrono>
#include <cstdint>
#include <holdfast/consul/config.hpp>
#include <holdfast/detail/enumeration.hpp>
#include <optional>
#include <string>
#include <string_view>

#include "cli/rabbitmq.hpp"

namespace holdfast::cli {

/// One command of an operator.
struct operator_command {
  enum class kind {
    inspect,
    watch,
    create,
    resize,
    close,
    open,
    drain,
    revoke,
    evict,
    sweep,
    destroy,
    verify,
    list,
    explain,
    top,
    grow,
    shrink,
    wait
  };

  kind what = kind::inspect;
  consul::config consul{};
  rabbitmq_options rabbitmq{};
  std::string prefix{};         ///< with RabbitMQ, the name
  std::string key{};            ///< verify: the key of a mutex or an election
  std::string session{};        ///< revoke, evict, verify, explain; may be empty for explain
  std::uint32_t limit = 0;      ///< create, resize, verify, grow, shrink; of wait, the slot, or 0 for all
  std::uint32_t overshoot = 0;  ///< destroy with RabbitMQ
  std::optional<std::chrono::nanoseconds> within{};  ///< drain, wait
  bool even_in_use = false;                          ///< destroy
  bool json = false;
  bool yes = false;  ///< do not ask
};

/// The name of the command.
constexpr std::string_view to_string(operator_command::kind kind) noexcept {
  switch (kind) {
    case operator_command::kind::inspect:
      return "inspect";
    case operator_command::kind::watch:
      return "watch";
    case operator_command::kind::create:
      return "create";
    case operator_command::kind::resize:
      return "resize";
    case operator_command::kind::close:
      return "close";
    case operator_command::kind::open:
      return "open";
    case operator_command::kind::drain:
      return "drain";
    case operator_command::kind::revoke:
      return "revoke";
    case operator_command::kind::evict:
      return "evict";
    case operator_command::kind::sweep:
      return "sweep";
    case operator_command::kind::destroy:
      return "destroy";
    case operator_command::kind::verify:
      return "verify";
    case operator_command::kind::list:
      return "list";
    case operator_command::kind::explain:
      return "explain";
    case operator_command::kind::top:
      return "top";
    case operator_command::kind::grow:
      return "grow";
    case operator_command::kind::shrink:
      return "shrink";
    case operator_command::kind::wait:
      return "wait";
  }
  return {};
}
inline constexpr auto operator_commands = detail::enumerators<operator_command::kind>();

/// The exit statuses of the commands.
inline constexpr int status_done = 0;
inline constexpr int status_refused = 1;   ///< it failed or was not confirmed; inspect, explain: there is no such lock
inline constexpr int status_not_held = 1;  ///< verify: the slot is not held
inline constexpr int status_unknown = 3;   ///< verify: it is unknown, for example because Consul could not be asked

/// Carries out the command. Prints the result on stdout, and problems on stderr. Returns the exit status.
int operate(const operator_command& command);

}  // namespace holdfast::cli
