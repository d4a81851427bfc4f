// SPDX-FileCopyrightText: The holdfast authors
// SPDX-License-Identifier: BSL-1.0

#include <array>
#include <cstddef>
#include <cstdint>
#include <holdfast/error.hpp>
#include <ostream>
#include <string>
#include <string_view>

namespace holdfast {
namespace {

constexpr unsigned bit(condition c) noexcept { return 1u << static_cast<unsigned>(c); }

constexpr unsigned not_applied = bit(condition::not_applied);
constexpr unsigned outcome_unknown = bit(condition::outcome_unknown);
constexpr unsigned unavailable = bit(condition::unavailable);
constexpr unsigned misuse = bit(condition::misuse);

struct error_facts {
  error code;
  const char* text;
  unsigned conditions;
};

/// The table of the errors, in the order of their values. `closed` does not tell the outcome of a request, because the
/// client may be closed before or after the request was sent. `slot_lost` tells of a slot, not of the outcome of a
/// request.
constexpr auto facts = std::to_array<error_facts>({
    {error::invalid_prefix, "the prefix is empty or not a plain path", not_applied | misuse},
    {error::invalid_name, "the name cannot be that of a semaphore on RabbitMQ", not_applied | misuse},
    {error::invalid_limit, "the limit is 0 or over the largest supported", not_applied | misuse},
    {error::invalid_ttl, "the session TTL or the lease is out of the accepted range", not_applied | misuse},
    {error::invalid_option, "an option is out of its documented range", not_applied | misuse},
    {error::invalid_address, "the server's address cannot be parsed", not_applied | misuse},
    {error::unsupported_scheme, "the address has a scheme that is not supported", not_applied | misuse},
    {error::too_many_slots, "the number of slots is 0, over the limit or over 60", not_applied | misuse},
    {error::too_many_waiters, "the local queue is full", not_applied},
    {error::not_held, "the slot is not held", not_applied | misuse},
    {error::closed, "the semaphore or client was closed", 0},
    {error::not_a_semaphore, "the key or queue belongs to something other than a semaphore", not_applied},
    {error::not_a_mutex, "the key belongs to something other than a mutex", not_applied},
    {error::limit_conflict, "the semaphore is in use with another limit", not_applied},
    {error::lease_conflict, "the semaphore is in use with another lease", not_applied},
    {error::corrupt_record, "the semaphore's record cannot be parsed", not_applied},
    {error::no_semaphore, "there is no semaphore here", not_applied},
    {error::in_use, "the semaphore is in use", not_applied},
    {error::slot_lost, "the slot was lost while it was held", 0},
    {error::unreachable, "no connection to the server could be made", not_applied | unavailable},
    {error::certificate_refused, "the server's TLS certificate could not be verified", not_applied},
    {error::client_certificate_refused, "the server does not accept our TLS certificate, or wants one", not_applied},
    {error::too_busy, "no connection was free in time", not_applied | unavailable},
    {error::permission_denied, "the ACL token or the user is missing, unknown or lacks the right", not_applied},
    {error::plain_http_refused, "the agent speaks TLS on this port", not_applied},
    {error::invalid_session, "the session does not exist", not_applied},
    {error::missing_node, "the node that a session is to belong to is not in the catalog", not_applied},
    {error::bad_request, "the server does not accept the request", not_applied},
    {error::too_large, "the request is over a size limit of the server", not_applied},
    {error::too_many_requests, "the server limits requests or connections", not_applied | unavailable},
    {error::transaction_conflict, "the transaction was refused", not_applied},
    {error::timed_out, "no complete reply came before the deadline", outcome_unknown | unavailable},
    {error::connection_lost, "the connection ended before a complete reply", outcome_unknown | unavailable},
    {error::server_error, "the server failed to answer the request", outcome_unknown | unavailable},
    {error::malformed_reply, "the reply does not follow the protocol", outcome_unknown},
    {error::reply_too_large, "the reply is over the configured size", outcome_unknown},
    {error::would_be_late, "no slot could be had before the deadline", not_applied},
    {error::not_consul, "the answer is not Consul's", outcome_unknown | unavailable},
    {error::token_unknown, "the server does not know the ACL token yet", not_applied | unavailable},
});

constexpr bool facts_are_complete() {
  for (std::size_t i = 0; i != facts.size(); ++i)
    if (facts[i].code != errors[i]) return false;
  return true;
}
static_assert(facts.size() == errors.size() && facts_are_complete());

const error_facts* facts_of(int value) noexcept {
  const bool is_known = value > 0 && static_cast<std::size_t>(value) <= facts.size();
  return is_known ? &facts[static_cast<std::size_t>(value) - 1] : nullptr;
}

// Two copies of this library in one process, for example in two plugins, have two objects of each category. These
// random ids let Boost.System treat the two objects as equal.
constexpr std::uint64_t error_category_id = 0xb86f14ebb9cad622;
constexpr std::uint64_t condition_category_id = 0x29fc19a4a905c6e0;

class error_category_impl final : public boost::system::error_category {
public:
  constexpr error_category_impl() noexcept : boost::system::error_category(error_category_id) {}
  const char* name() const noexcept override { return "holdfast"; }
  std::string message(int value) const override {
    const error_facts* const its = facts_of(value);
    return its ? its->text : "unknown holdfast error";
  }
};

class condition_category_impl final : public boost::system::error_category {
public:
  constexpr condition_category_impl() noexcept : boost::system::error_category(condition_category_id) {}
  const char* name() const noexcept override { return "holdfast.condition"; }

  std::string message(int value) const override {
    switch (static_cast<condition>(value)) {
      case condition::not_applied:
        return "the request had no effect";
      case condition::outcome_unknown:
        return "the request may have been applied, or may be applied later";
      case condition::unavailable:
        return "the server could not answer now";
      case condition::misuse:
        return "the caller's arguments or configuration are not valid";
    }
    return "unknown holdfast condition";
  }

  // One error may satisfy several conditions, so the conditions decide, not error_category::default_error_condition.
  bool equivalent(const error_code& code, int value) const noexcept override {
    const error_facts* const its = code.category() == holdfast::error_category() ? facts_of(code.value()) : nullptr;
    return its && (its->conditions & bit(static_cast<condition>(value))) != 0;
  }
};

}  // namespace

const boost::system::error_category& error_category() noexcept {
  static const error_category_impl instance;
  return instance;
}

const boost::system::error_category& condition_category() noexcept {
  static const condition_category_impl instance;
  return instance;
}

std::ostream& operator<<(std::ostream& out, error e) { return out << to_string(e); }

error_code make_error_code(error e) noexcept { return {static_cast<int>(e), error_category()}; }

boost::system::error_condition make_error_condition(condition c) noexcept {
  return {static_cast<int>(c), condition_category()};
}

}  // namespace holdfast
