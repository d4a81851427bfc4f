// SPDX-FileCopyrightText: The holdfast authors
// SPDX-License-Identifier: BSL-1.0

#pragma once

#include <cstdint>
#include <functional>
#include <holdfast/detail/export.hpp>
#include <holdfast/fencing_token.hpp>
#include <holdfast/log_kind.hpp>
#include <holdfast/loss_reason.hpp>
#include <optional>
#include <string>
#include <string_view>

namespace holdfast {

enum class severity { info, warning, error };

/// An event of a lock or a client that operators should know about. It contains no secrets of the library. Fields that
/// do not apply to its kind are empty. The texts of the fields are not escaped. They may come from Consul or from
/// another process, and may contain anything. `text` escapes them.
struct log_event {
  log_kind kind{};
  std::string key{};       ///< the subject of the event: see `log_kind`
  std::string session{};   ///< the session that holds the lost or revoked slot, or that was passed over
  std::string previous{};  ///< the address of the agent before
  loss_reason reason = loss_reason::none;
  std::optional<fencing_token> token{};        ///< the token of the slot; empty on RabbitMQ
  std::optional<std::uint32_t> slot_number{};  ///< the first number of the slot, if it has numbers
  std::uint64_t queries = 0;                   ///< how many blocking queries may run now
  std::uint64_t queries_max = 0;               ///< how many the options allow
  std::string cause{};                         ///< the failure behind it, and maybe advice
  /// The number of equal events that were left out before this one. Events are equal if they differ at most in their
  /// token and in the numbers of queries. The beginning and the end of a problem are equal, too. At most 10 equal
  /// events are reported in 10 s. The others are left out. When the 10 s are over, the last one is reported, with the
  /// number of those before it. This counts 64 different events at a time.
  std::uint64_t left_out = 0;

  HOLDFAST_EXPORT holdfast::severity severity() const noexcept;
  /// One line for people, without a line end. Control characters, invalid UTF-8, line separators and characters that
  /// change the direction of text are escaped, so that no field can forge another line. doc/trouble.md explains each
  /// line. A minor version may change it. Programs should read the fields.
  HOLDFAST_EXPORT std::string text() const;
  bool operator==(const log_event&) const = default;
};

constexpr std::string_view to_string(severity level) noexcept {
  switch (level) {
    case severity::info:
      return "info";
    case severity::warning:
      return "warning";
    case severity::error:
      return "error";
  }
  return "unknown";
}

/// Gets the events of a lock or of a client, one at a time, on the client's strand. It must return quickly. An
/// exception from it leaves through `io_context::run()`. It may still be called after the lock or client was closed or
/// destroyed, until the execution context has no more work.
using log_function = std::function<void(const log_event&)>;

}  // namespace holdfast
