// SPDX-FileCopyrightText: The holdfast authors
// SPDX-License-Identifier: BSL-1.0

#pragma once

#include <boost/asio/any_completion_handler.hpp>
#include <boost/asio/any_io_executor.hpp>
#include <chrono>
#include <cstdint>
#include <holdfast/detail/export.hpp>
#include <holdfast/lock_store.hpp>
#include <memory>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "protocol/core/actions.hpp"
#include "protocol/core/events.hpp"

namespace holdfast::runtime {

namespace asio = boost::asio;

/// Receives the answers of a store. The store holds a reference to its sink until the last answer is delivered, and the
/// sink owns the store. A store that owes its sink an answer is therefore not destroyed before its context.
class HOLDFAST_INTERNAL event_sink {
public:
  virtual void deliver(protocol::core_event&& e) = 0;

protected:
  ~event_sink() = default;
};

// Requests of a user instead of the core. The handler must keep the store alive. `within` is the timeout of the
// request, and 0 means the store's default. A read with an index has its `wait` in addition. A store whose requests
// always get an answer may ignore `within`.

/// A consistent read of one key: answered at once, or blocking like `action::watch_key` if `index` is not 0.
struct key_question {
  std::string key;
  asio::any_completion_handler<void(protocol::event::key_watched)> answered{};
  std::uint64_t index = 0;
  protocol::duration wait{};
  protocol::duration within{};
};
/// A consistent listing: answered at once, or blocking like `action::list_prefix` if `index` is not 0.
struct prefix_question {
  std::string prefix;
  asio::any_completion_handler<void(protocol::event::prefix_listed)> answered{};
  std::uint64_t index = 0;
  protocol::duration wait{};
  protocol::duration within{};
};
struct write_question {
  std::vector<kv_operation> operations{};
  asio::any_completion_handler<void(protocol::event::txn_done)> answered{};
  protocol::duration within{};
};
/// Ends a session, which may be anybody's. That it has ended already is no failure.
struct end_question {
  std::string session;
  asio::any_completion_handler<void(protocol::failure)> answered{};
  protocol::duration within{};
};

/// The core has finished. The store cancels the core's reads and drops their answers. After this one, the core may
/// still destroy a session, and users may make requests.
struct stop_reads {};

/// A request to a store. The core's other actions are performed by the driver.
using store_request =
    std::variant<protocol::action::create_session, protocol::action::register_node, protocol::action::renew_session,
                 protocol::action::destroy_session, protocol::action::send_txn, protocol::action::list_prefix,
                 protocol::action::watch_key, protocol::action::read_node, protocol::action::stop_watch, key_question,
                 prefix_question, write_question, end_question, stop_reads>;

/// Where sessions, the record and the entries are kept. A driver reaches them only through this interface. The core
/// relies on the rules below, which are Consul's rules. The name in brackets after a rule is its test in
/// `unit.store_contract`. Every kind of store must pass these tests; `kinds` in that file lists the kinds.
///
/// How it answers:
/// - The store answers after `make` has returned, on the strand, one answer at a time. This also holds for the handler
///   of a question, even if the question is cancelled. [an_answer_comes_later_and_on_the_strand]
/// - The store answers each request once, by the request's id, and in any order: pending requests may overtake each
///   other. `stop_watch` and `stop_reads` get no answer, and the rules for the reads that they stop are below.
///   [each_request_is_answered_once_by_its_id]
/// - The store releases its reference to the sink after the last answer. [the_sink_lives_until_its_last_answer]
/// - A question needs no sink. Its handler alone receives the answer. [a_question_needs_no_sink]
/// - A question ends soon when the cancellation slot of its handler is signalled: a read with an error, a write with an
///   unknown outcome unless its answer was there already. [a_question_ends_when_its_slot_says_so]
/// - A stopped watch is answered at most once more, with any result. The core has forgotten its id. The watch ends
///   soon, and the store then releases the sink. Other watches continue. [a_stopped_watch_is_told_once_more_at_most]
/// - After `stop_reads` the core gets no answer to a read. Questions are still answered.
///   [nothing_is_told_of_reads_once_they_are_stopped]
/// - A failure has a code of `error`, or `operation_aborted` if the request was stopped. The core cannot tell of other
///   codes whether to try again (`condition::unavailable`), so it treats them as final. [a_failure_is_one_of_ours]
/// - A write that is answered with `not_sent` is never applied. A write that is answered with `unknown` may have been
///   applied, or may be applied later. [what_was_not_sent_has_no_effect]
/// - A closed store answers everything with error::closed. After such an answer to a request of the core, it delivers
///   `event::close`. [what_is_closed_says_so_and_closes_its_core]
/// - The `executor()` of a store and of a factory is empty once the context has been destroyed. The store then gets no
///   more requests, and it destroys pending handlers uncalled. Stores may be destroyed later than their context.
///   [an_executor_is_empty_once_its_context_is_gone]
///
/// What it keeps:
/// - One index counts all writes. Every key has CreateIndex, ModifyIndex, LockIndex and 64 bits of flags.
///   [an_entry_has_its_indexes_and_flags]
/// - A transaction of up to `operations_max` operations is applied as a whole, or refused. A refusal lists each failed
///   operation. [a_transaction_is_applied_whole_or_not_at_all] [a_transaction_has_as_many_operations_as_there_may_be]
/// - A transaction may have `request_bytes_max` bytes, as `bytes_of_operation` counts them.
///   [a_transaction_has_as_many_bytes_as_there_may_be]
/// - A refusal states its reason: the core waits for a lock delay to end, and abandons an invalid session.
///   [a_refusal_says_why]
/// - A key is locked by one session. [a_key_is_locked_by_one_session]
/// - Reads are consistent: a read sees every write whose success was reported to any store. A read without an index is
///   answered soon. A read from an index is answered when there is a newer index, or when its wait time is over.
///   [a_read_sees_what_was_written_before] [a_read_from_an_index_waits_for_a_newer_one]
///   [a_read_whose_wait_is_over_is_answered]
///
/// Its sessions:
/// - A session that is not renewed expires after one to two TTLs.
///   [a_session_lives_for_its_ttl_and_no_longer_unless_renewed]
/// - Renewing a session that has ended is answered with `gone`. Destroying it succeeds.
///   [a_session_that_has_ended_is_gone]
/// - A user can end the session of any lock. [a_user_can_end_a_session]
/// - The end of a session deletes the keys that it has locked, at the same index.
///   [what_a_session_has_locked_goes_with_it]
/// - During the lock delay of the store's terms no session can lock these keys again.
///   [a_lock_delay_keeps_keys_of_ended_sessions]
/// - The CreateIndex of a node changes only if the node was missing meanwhile, and the removal of a node ends its
///   sessions. A store without nodes answers with 0, which means nothing.
///   [a_nodes_create_index_says_since_when_it_stands]
/// - If the node of the store's terms is missing, creating a session fails with error::missing_node until the node is
///   registered. [a_session_waits_for_its_node]
///
/// A store may ignore `session_name`, which is for people. A store whose requests always get an answer may ignore
/// `timeout`. A store without health checks may ignore `node_checks`, which can only end sessions earlier. All other
/// terms are binding. [terms_that_may_be_ignored_may_be_left_out]
class HOLDFAST_INTERNAL store {
public:
  virtual ~store() = default;

  /// Runs the handlers that have no executor of their own.
  virtual asio::any_io_executor executor() const noexcept = 0;
  /// The store calls `deliver` and the handlers of questions here, one at a time.
  virtual asio::any_io_executor strand() const = 0;
  /// The name of the store in the texts of errors, for example "Consul at http://127.0.0.1:8500".
  virtual std::string name() const = 0;
  /// Whether a user's transaction at Consul can check the entries of this store (`slot::fence_checks`).
  virtual bool has_fence_checks() const noexcept = 0;
  /// Tells an operator how to avoid that a lease expires because of `why`. It becomes the end of a log line. May be
  /// empty.
  virtual std::string advice_on_expiry([[maybe_unused]] const diagnostics& why) const { return {}; }
  /// Starts a request. `deliver` is never called from within this function. Only one thread at a time may call it.
  virtual void make(store_request&& request, const std::shared_ptr<event_sink>& to) = 0;
};

/// The settings of the store of one lock, in addition to the requests of its core. The documentation of `store` says
/// which of them a store may ignore.
///
/// Both stores copy the terms by hand (`session_of` in `consul_store.cpp`, and `local_store.cpp`). Observers, `verify`
/// and administrations open their stores with terms of their own (`open` in `observation.cpp`, `mutex.cpp` and
/// `administrator.cpp`). No check finds a term that is forgotten in one of these places.
struct store_terms {
  std::string session_name{};  ///< for people
  std::chrono::milliseconds ttl{};
  std::chrono::milliseconds lock_delay{};  ///< how long a key cannot be locked after its session ended
  std::string node{};                      ///< the node of the sessions; empty: the agent's own
  bool node_checks = false;                ///< sessions end when the node's health check fails
  std::chrono::milliseconds timeout{};     ///< for each request, apart from its `wait`; 0: the store's default
};

/// The implementation of a `lock_store`. Each lock has a store of its own, with its own terms. So has each object that
/// only asks questions, for example an administrator.
///
/// Another store has two files like `consul_store`, and a function that makes a `lock_store`. All locks, observers and
/// administrations take a `lock_store`. So nothing else in this folder changes, but for the text of
/// `slot::fence_checks`, which names the store. `src/local` is a store in a library of its own. If a store has a new
/// folder, look for all places that name `holdfast_testing`: CMake, the package files, and the scripts in tools.
class HOLDFAST_INTERNAL store_factory {
public:
  static lock_store lock_store_of(std::shared_ptr<const store_factory> factory) {
    return lock_store(std::move(factory));
  }
  static const store_factory& of(const lock_store& where) noexcept { return *where.factory_; }

  virtual ~store_factory() = default;
  virtual std::unique_ptr<store> open(store_terms terms) const = 0;
  /// The executor of the stores. Empty once the context has been destroyed.
  virtual asio::any_io_executor executor() const noexcept = 0;
};

}  // namespace holdfast::runtime
