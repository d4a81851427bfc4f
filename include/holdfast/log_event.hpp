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

/// Something that an operator wants to know of a lock or of a client. It contains no secrets. Fields that do not apply
/// to its kind are empty. Their texts are as they came, maybe from Consul or from another process, and may contain
/// anything; `text` escapes them.
struct log_event {
  log_kind kind{};
  std::string key{};       ///< what it is about: see `log_kind`
  std::string session{};   ///< the session that holds the lost or revoked slot, or that was passed over
  std::string previous{};  ///< the address of the agent before
  loss_reason reason = loss_reason::none;
  std::optional<fencing_token> token{};  ///< of the slot. Empty on RabbitMQ
  std::optional<std::uint32_t>
      slot_number{};              ///< the number of the slot on RabbitMQ, or its first number, if it has one
  std::uint64_t queries = 0;      ///< how many blocking queries may run now
  std::uint64_t queries_max = 0;  ///< how many the options allow
  std::string cause{};            ///< the failure behind it, and maybe advice
  /// The number of equal events that were left out before this one. Events are equal if they differ at most in their
  /// token and their numbers. At most 10 equal events are told in 10 s. Then they are left out until the 10 s are over,
  /// and the last one of them tells how many there were.
  std::uint64_t left_out = 0;

  HOLDFAST_EXPORT holdfast::severity severity() const noexcept;
  /// One line for people, without a line end. Control characters, invalid UTF-8, line separators and characters that
  /// change the direction of text are escaped, so that no field can forge another line. doc/trouble.md explains each
  /// line. A minor version may change it. Programs should read the fields.
  HOLDFAST_EXPORT std::string text() const;
  bool operator==(const log_event&) const = default;
};

HOLDFAST_EXPORT std::string_view to_string(log_kind kind) noexcept;
HOLDFAST_EXPORT std::string_view to_string(severity level) noexcept;

/// Gets the events of a lock or of a client, one at a time, on the client's strand. It must return quickly. An
/// exception from it leaves through `io_context::run()`.
using log_function = std::function<void(const log_event&)>;

}  // namespace holdfast
