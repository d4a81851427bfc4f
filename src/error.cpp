#include <cstdint>
#include <holdfast/error.hpp>
#include <string>

namespace holdfast {
namespace {

const char* text_of(error e) noexcept {
  switch (e) {
    case error::invalid_prefix:
      return "the prefix is empty or not a plain path";
    case error::invalid_limit:
      return "the limit is 0 or over the largest supported";
    case error::invalid_ttl:
      return "the session TTL is out of the accepted range";
    case error::invalid_option:
      return "an option is out of its documented range";
    case error::invalid_address:
      return "the agent's address cannot be parsed";
    case error::unsupported_scheme:
      return "only plain http is supported";
    case error::too_many_slots:
      return "the number of slots is 0 or over the limit";
    case error::too_many_waiters:
      return "the local queue is full";
    case error::not_held:
      return "the slot is not held";
    case error::closed:
      return "the semaphore or client was closed";
    case error::not_a_semaphore:
      return "the lock key belongs to something other than a semaphore";
    case error::not_a_mutex:
      return "the key belongs to something other than a mutex";
    case error::limit_conflict:
      return "the semaphore is in use with another limit";
    case error::corrupt_record:
      return "the semaphore's record cannot be parsed";
    case error::no_semaphore:
      return "there is no semaphore here";
    case error::in_use:
      return "the semaphore is in use";
    case error::slot_lost:
      return "the slot was lost while it was held";
    case error::unreachable:
      return "no connection to the agent could be made";
    case error::too_busy:
      return "no connection was free in time";
    case error::permission_denied:
      return "the ACL token is missing, unknown or lacks the right";
    case error::plain_http_refused:
      return "the agent speaks TLS on this port";
    case error::invalid_session:
      return "the session does not exist";
    case error::missing_node:
      return "the node that a session is to belong to is not in Consul's catalog";
    case error::bad_request:
      return "Consul does not accept the request";
    case error::too_large:
      return "the request is over one of Consul's size limits";
    case error::too_many_requests:
      return "the agent limits requests or connections";
    case error::transaction_conflict:
      return "the transaction was refused";
    case error::timed_out:
      return "no complete reply came before the deadline";
    case error::connection_lost:
      return "the connection ended before a complete reply";
    case error::server_error:
      return "the Consul server failed to answer the request";
    case error::malformed_reply:
      return "the reply is not what Consul sends";
    case error::reply_too_large:
      return "the reply is over the configured size";
  }
  return "unknown holdfast error";
}

constexpr unsigned bit(condition c) noexcept { return 1u << static_cast<unsigned>(c); }

constexpr unsigned not_applied = bit(condition::not_applied);
constexpr unsigned outcome_unknown = bit(condition::outcome_unknown);
constexpr unsigned unavailable = bit(condition::unavailable);
constexpr unsigned misuse = bit(condition::misuse);

unsigned conditions_of(error e) noexcept {
  switch (e) {
    case error::invalid_prefix:
    case error::invalid_limit:
    case error::invalid_ttl:
    case error::invalid_option:
    case error::invalid_address:
    case error::unsupported_scheme:
    case error::too_many_slots:
    case error::not_held:
      return not_applied | misuse;

    case error::too_many_waiters:
    case error::not_a_semaphore:
    case error::not_a_mutex:
    case error::limit_conflict:
    case error::corrupt_record:
    case error::no_semaphore:
    case error::in_use:
    case error::permission_denied:
    case error::plain_http_refused:
    case error::invalid_session:
    case error::missing_node:
    case error::bad_request:
    case error::too_large:
    case error::transaction_conflict:
      return not_applied;

    case error::unreachable:
    case error::too_busy:
    case error::too_many_requests:
      return not_applied | unavailable;

    case error::timed_out:
    case error::connection_lost:
    case error::server_error:
      return outcome_unknown | unavailable;

    case error::malformed_reply:
    case error::reply_too_large:
      return outcome_unknown;

    // Closing may hit a request before or after it was sent, so it says nothing about the outcome. A lost slot is no
    // statement about a request at all.
    case error::closed:
    case error::slot_lost:
      return 0;
  }
  return 0;
}

// Two copies of this library in one process, in two plugins say, have two objects of each category: by these random
// numbers Boost.System knows that they are the same.
constexpr std::uint64_t error_category_id = 0xb86f14ebb9cad622;
constexpr std::uint64_t condition_category_id = 0x29fc19a4a905c6e0;

class error_category_impl final : public boost::system::error_category {
public:
  constexpr error_category_impl() noexcept : boost::system::error_category(error_category_id) {}
  const char* name() const noexcept override { return "holdfast"; }
  std::string message(int value) const override { return text_of(static_cast<error>(value)); }
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
        return "the agent could not answer now";
      case condition::misuse:
        return "the caller's arguments or configuration are not valid";
    }
    return "unknown holdfast condition";
  }

  // One error may satisfy several conditions, so the conditions decide, not error_category::default_error_condition.
  bool equivalent(const error_code& code, int value) const noexcept override {
    return code.category() == holdfast::error_category() &&
           (conditions_of(static_cast<error>(code.value())) & bit(static_cast<condition>(value))) != 0;
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

error_code make_error_code(error e) noexcept { return {static_cast<int>(e), error_category()}; }

boost::system::error_condition make_error_condition(condition c) noexcept {
  return {static_cast<int>(c), condition_category()};
}

}  // namespace holdfast
