// SPDX-FileCopyrightText: The holdfast authors
// SPDX-License-Identifier: BSL-1.0

#pragma once

#include <boost/system/error_code.hpp>
#include <boost/system/system_error.hpp>
#include <holdfast/detail/build.hpp>
#include <holdfast/detail/enumeration.hpp>
#include <holdfast/detail/export.hpp>
#include <iosfwd>
#include <string_view>

namespace holdfast {

using boost::system::error_code;
using boost::system::system_error;

/// The errors of this library. A cancelled operation completes with asio::error::operation_aborted instead.
/// `error_code::message()` describes the code. `diagnostics` names the key and contains the server's answer.
enum class error {
  // The request cannot be carried out as asked. Nothing was written, except that `closed` says nothing about writes.
  invalid_prefix = 1,  ///< a prefix, key or lock name breaks a rule of `semaphore_options::prefix`
  invalid_name,        ///< the name of a semaphore on RabbitMQ is not one that its queues can have
  invalid_limit,       ///< a limit of 0, or over the largest supported
  invalid_ttl,         ///< a session TTL or a lease that this library or the server does not accept
  invalid_option,      ///< any other option out of its documented range
  invalid_address,     ///< the address of the server or of its proxy cannot be parsed
  /// A scheme other than http, https or unix for Consul, http for its proxy, amqp or amqps for RabbitMQ; or TLS is off.
  unsupported_scheme,
  too_many_slots,    ///< acquire(n) with n of 0, over the limit or over 60
  too_many_waiters,  ///< the local queue is full, or another `next` of an observer is pending
  not_held,          ///< the handle is empty or was released, or a session that a command names has no slot
  closed,            ///< the semaphore or client was closed

  // The state at the server does not allow it. Nothing was written.
  not_a_semaphore,  ///< the lock key (by its flags) or a queue (by its arguments) is something else's
  not_a_mutex,      ///< the mutex's key belongs to something else
  limit_conflict,   ///< the semaphore has another number of slots than this semaphore or command names
  lease_conflict,   ///< the semaphore on RabbitMQ has another lease than this one
  corrupt_record,   ///< the lock record cannot be parsed
  no_semaphore,     ///< there is no lock record, or on RabbitMQ no first slot
  in_use,           ///< somebody holds a slot or waits for one

  // The slot is no longer held.
  slot_lost,  ///< the slot was lost while it was held

  // The request certainly had no effect.
  unreachable,                 ///< no connection to the server could be made
  certificate_refused,         ///< the server's TLS certificate is not valid, not trusted, or for another host
  client_certificate_refused,  ///< the server does not accept the client's TLS certificate, or requires one
  too_busy,                    ///< no connection was free before the deadline; nothing was sent
  permission_denied,           ///< the ACL token or the user is missing, unknown or lacks the right
  plain_http_refused,          ///< the agent speaks TLS on this port
  invalid_session,             ///< the session does not exist, or no longer exists
  missing_node,                ///< the node that a session is to belong to is not in Consul's catalog
  bad_request,           ///< Consul refused it for another reason; or it was not sent, because Consul would refuse it
  too_large,             ///< the request exceeds one of Consul's size limits
  too_many_requests,     ///< 429, or a 503 or 530 of that kind: a limit of rate or of connections
  transaction_conflict,  ///< Consul refused a write of a lock, or each try of a proclaim or of an operator's command

  // The outcome is unknown: a write may have been applied, or may be applied later.
  timed_out,        ///< no complete reply before the deadline, or not done in time
  connection_lost,  ///< the connection was closed before a complete reply
  server_error,     ///< another 5xx, or another error of RabbitMQ
  malformed_reply,  ///< a reply of RabbitMQ does not follow the protocol; for Consul, see not_consul
  reply_too_large,  ///< the reply exceeds `config::reply_bytes_max` or the available memory

  // The request certainly had no effect.
  would_be_late,  ///< the acquire would be granted too late, or no slot was free in time (`acquire_options::deadline`)

  // The outcome is unknown.
  /// Something other than Consul answered, for example a load balancer, an ingress or a login page. Or a proxy changed
  /// Consul's reply.
  not_consul,

  // The request certainly had no effect.
  token_unknown,  ///< Consul does not know the new ACL token yet (`consul::config::new_token_grace`)
};

/// The name of the enumerator, for logs and metrics: "timed_out".
constexpr std::string_view to_string(error e) noexcept {
  switch (e) {
    case error::invalid_prefix:
      return "invalid_prefix";
    case error::invalid_name:
      return "invalid_name";
    case error::invalid_limit:
      return "invalid_limit";
    case error::invalid_ttl:
      return "invalid_ttl";
    case error::invalid_option:
      return "invalid_option";
    case error::invalid_address:
      return "invalid_address";
    case error::unsupported_scheme:
      return "unsupported_scheme";
    case error::too_many_slots:
      return "too_many_slots";
    case error::too_many_waiters:
      return "too_many_waiters";
    case error::not_held:
      return "not_held";
    case error::closed:
      return "closed";
    case error::not_a_semaphore:
      return "not_a_semaphore";
    case error::not_a_mutex:
      return "not_a_mutex";
    case error::limit_conflict:
      return "limit_conflict";
    case error::lease_conflict:
      return "lease_conflict";
    case error::corrupt_record:
      return "corrupt_record";
    case error::no_semaphore:
      return "no_semaphore";
    case error::in_use:
      return "in_use";
    case error::slot_lost:
      return "slot_lost";
    case error::unreachable:
      return "unreachable";
    case error::certificate_refused:
      return "certificate_refused";
    case error::client_certificate_refused:
      return "client_certificate_refused";
    case error::too_busy:
      return "too_busy";
    case error::permission_denied:
      return "permission_denied";
    case error::plain_http_refused:
      return "plain_http_refused";
    case error::invalid_session:
      return "invalid_session";
    case error::missing_node:
      return "missing_node";
    case error::bad_request:
      return "bad_request";
    case error::too_large:
      return "too_large";
    case error::too_many_requests:
      return "too_many_requests";
    case error::transaction_conflict:
      return "transaction_conflict";
    case error::timed_out:
      return "timed_out";
    case error::connection_lost:
      return "connection_lost";
    case error::server_error:
      return "server_error";
    case error::malformed_reply:
      return "malformed_reply";
    case error::reply_too_large:
      return "reply_too_large";
    case error::would_be_late:
      return "would_be_late";
    case error::not_consul:
      return "not_consul";
    case error::token_unknown:
      return "token_unknown";
  }
  return "unknown";
}
/// All errors.
inline constexpr auto errors = detail::enumerators<error>();

/// Classes of errors, for comparison with an `error_code`. An error may belong to several classes.
enum class condition {
  not_applied = 1,  ///< the request certainly had no effect
  outcome_unknown,  ///< a write may have been applied, or may be applied later
  unavailable,      ///< the server could not answer now; the same request may work later
  misuse,           ///< the caller's arguments or configuration are wrong
};

HOLDFAST_EXPORT const boost::system::error_category& error_category() noexcept;
HOLDFAST_EXPORT const boost::system::error_category& condition_category() noexcept;
HOLDFAST_EXPORT error_code make_error_code(error e) noexcept;
HOLDFAST_EXPORT std::ostream& operator<<(std::ostream& out, error e);
HOLDFAST_EXPORT boost::system::error_condition make_error_condition(condition c) noexcept;

}  // namespace holdfast

template <>
struct boost::system::is_error_code_enum<holdfast::error> : std::true_type {};
template <>
struct boost::system::is_error_condition_enum<holdfast::condition> : std::true_type {};
