// SPDX-FileCopyrightText: The holdfast authors
// SPDX-License-Identifier: BSL-1.0

#pragma once

#include <holdfast/detail/enumeration.hpp>
#include <string_view>

namespace holdfast {

/// The kinds of log events. For each kind, the key of the event is given after the colon.
enum class log_kind {
  slot_lost,              ///< a held slot was lost: its lock
  slot_revoked,           ///< an operator asks the holder to release the slot: its lock
  watch_failed,           ///< a blocking query of a lock fails: its lock, or the folder of a mutex set's session
  watch_restored,         ///< the blocking queries work again: the same
  answers_contradict,     ///< Consul's answers contradict each other, again and again: the lock, or the set's prefix
  answers_agree,          ///< they agree again: the same
  outcome_unknown,        ///< it is unknown whether a write was applied, so the library ends its sessions: its lock
  contender_passed_over,  ///< another kind of client did not claim the slot that was reserved for it: the prefix
  no_session_file,        ///< a file in the run directory could not be made: the lock. Reported once for each lock
  agent_changed,          ///< requests go to another agent of Consul: the address of that agent
  connections_refused,    ///< an agent of Consul refuses connections, because it has too many: its address
  token_unknown,          ///< Consul does not know a new ACL token yet: empty. Reported once for each token
  token_unusable,         ///< a new ACL token cannot be used, so the last one stays in use: empty
  certificate_unusable,   ///< new TLS certificates cannot be used, so the last ones stay in use: empty
  password_unusable,      ///< a new password for RabbitMQ cannot be used, so the last one stays in use: empty
  tls_not_verified,       ///< TLS does not verify the server: its address. Reported once for each client
  broker_alarm,           ///< RabbitMQ has an alarm, and takes no messages: empty
  broker_alarm_over,      ///< RabbitMQ takes messages again: empty
  application_silent,     ///< the application does not answer (`tuning::alive`): its lock
  application_answers,    ///< the application answers again: its lock
};

/// The name of the enumerator: "slot_lost".
constexpr std::string_view to_string(log_kind kind) noexcept {
  switch (kind) {
    case log_kind::slot_lost:
      return "slot_lost";
    case log_kind::slot_revoked:
      return "slot_revoked";
    case log_kind::watch_failed:
      return "watch_failed";
    case log_kind::watch_restored:
      return "watch_restored";
    case log_kind::answers_contradict:
      return "answers_contradict";
    case log_kind::answers_agree:
      return "answers_agree";
    case log_kind::outcome_unknown:
      return "outcome_unknown";
    case log_kind::contender_passed_over:
      return "contender_passed_over";
    case log_kind::no_session_file:
      return "no_session_file";
    case log_kind::agent_changed:
      return "agent_changed";
    case log_kind::connections_refused:
      return "connections_refused";
    case log_kind::token_unknown:
      return "token_unknown";
    case log_kind::token_unusable:
      return "token_unusable";
    case log_kind::certificate_unusable:
      return "certificate_unusable";
    case log_kind::password_unusable:
      return "password_unusable";
    case log_kind::tls_not_verified:
      return "tls_not_verified";
    case log_kind::broker_alarm:
      return "broker_alarm";
    case log_kind::broker_alarm_over:
      return "broker_alarm_over";
    case log_kind::application_silent:
      return "application_silent";
    case log_kind::application_answers:
      return "application_answers";
  }
  return "unknown";
}
/// All kinds.
inline constexpr auto log_kinds = detail::enumerators<log_kind>();

}  // namespace holdfast
