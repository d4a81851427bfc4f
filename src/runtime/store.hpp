#pragma once

#include <boost/asio/any_completion_handler.hpp>
#include <boost/asio/any_io_executor.hpp>
#include <chrono>
#include <cstdint>
#include <memory>
#include <string>
#include <variant>
#include <vector>

#include "protocol/actions.hpp"
#include "protocol/events.hpp"

namespace holdfast::runtime {

namespace asio = boost::asio;

/// Whom a store tells its answers. The store keeps it alive until the last one.
class event_sink {
public:
  virtual void deliver(protocol::core_event&& e) = 0;

protected:
  ~event_sink() = default;
};

/// A consistent look at one key, now or as `action::watch_key`, and a write, for a user: neither is the core's. A look
/// ends early when the slot of its handler says so.
struct key_question {
  std::string key;
  asio::any_completion_handler<void(protocol::event::key_watched)> answered{};
  std::uint64_t index = 0;
  protocol::duration wait{};
};
struct write_question {
  std::vector<kv_operation> operations;
  asio::any_completion_handler<void(protocol::event::txn_done)> answered;
};

/// All reads end. What they are answered is told nobody.
struct stop_reads {};

/// What is asked of a store. The core's other actions concern users.
using store_request =
    std::variant<protocol::action::create_session, protocol::action::register_node, protocol::action::renew_session,
                 protocol::action::destroy_session, protocol::action::send_txn, protocol::action::list_prefix,
                 protocol::action::watch_key, protocol::action::stop_watch, key_question, write_question, stop_reads>;

/// Where sessions, the record and the entries are kept: what a driver asks, and knows no more of. The core relies on
/// these rules, which are Consul's:
///
/// - One index counts the writes. Every key has CreateIndex, ModifyIndex, LockIndex and 64 bits of flags. A listing or
///   a key that is asked for from an index is answered when there is a newer one, or when its wait is over.
/// - A transaction of up to `operations_max` operations is applied as a whole, or refused with the reason of each
///   operation that refuses it. What is told `unknown` may have been applied, or may be later; `not_sent` never.
/// - A key is locked by one session. A session that is not renewed ends after one to two TTLs, and the keys that it
///   has locked are deleted with it, at the same index.
/// - Reads are consistent.
///
/// A store that is closed answers everything with error::closed. After such an answer to a request of the core, it
/// delivers `event::close`.
class store {
public:
  virtual ~store() = default;

  /// Where handlers run that have no executor of their own.
  virtual asio::any_io_executor executor() const noexcept = 0;
  /// Where it calls `deliver`, and the handlers of questions: one at a time.
  virtual asio::any_io_executor strand() const = 0;
  /// Never calls `deliver` inside. Called by one thread at a time.
  virtual void make(store_request&& request, const std::shared_ptr<event_sink>& to) = 0;
};

/// What one lock wants of its store, beside what its core asks for.
struct store_terms {
  std::string session_name{};  ///< for people
  std::chrono::milliseconds ttl{};
  std::chrono::milliseconds lock_delay{};  ///< for how long a key stays locked whose session has ended
  std::string node{};                      ///< that sessions belong to; empty: the agent's own
  bool node_checks = false;                ///< sessions end when the node's health check fails
  std::chrono::milliseconds timeout{};     ///< of each request; 0: the store's own default
};

/// What a `lock_store` stands for: each lock has a store of its own, on its own terms.
class store_factory {
public:
  virtual ~store_factory() = default;
  virtual std::unique_ptr<store> open(store_terms terms) const = 0;
  /// Of the stores. Empty once its context is gone.
  virtual asio::any_io_executor executor() const noexcept = 0;
};

}  // namespace holdfast::runtime
