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

/// Whom a store tells its answers. The store keeps it alive until the last one, and it keeps the store alive: none is
/// destroyed while it owes an answer, unless its context goes.
class event_sink {
public:
  virtual void deliver(protocol::core_event&& e) = 0;

protected:
  ~event_sink() = default;
};

/// Requests for a user, not for the core: a consistent read of one key, now or as `action::watch_key`; a consistent
/// listing, now or as `action::list_prefix`; and a write. The handler keeps the store alive.
struct key_question {
  std::string key;
  asio::any_completion_handler<void(protocol::event::key_watched)> answered{};
  std::uint64_t index = 0;
  protocol::duration wait{};
};
struct prefix_question {
  std::string prefix;
  asio::any_completion_handler<void(protocol::event::prefix_listed)> answered{};
  std::uint64_t index = 0;
  protocol::duration wait{};
};
struct write_question {
  std::vector<kv_operation> operations;
  asio::any_completion_handler<void(protocol::event::txn_done)> answered;
};

/// The core is over: its reads end, and what they are answered is told nobody. It asks nothing after that; users may.
struct stop_reads {};

/// What is asked of a store. The core's other actions concern users.
using store_request =
    std::variant<protocol::action::create_session, protocol::action::register_node, protocol::action::renew_session,
                 protocol::action::destroy_session, protocol::action::send_txn, protocol::action::list_prefix,
                 protocol::action::watch_key, protocol::action::read_node, protocol::action::stop_watch, key_question,
                 prefix_question, write_question, stop_reads>;

/// Where sessions, the record and the entries are kept: what a driver asks, and knows no more of. The core relies on
/// these rules, which are Consul's. What stands in brackets is the test of a rule, in `unit.store_contract`, which
/// every kind of store has to pass: `kinds` there names them.
///
/// How it answers:
/// - Not before `make` has returned; on the strand, one at a time; the handler of a question, too, also when it is
///   cancelled. [an_answer_comes_later_and_on_the_strand]
/// - Each request once, by its own id, in any order: requests under way at a time may overtake each other. What is
///   stopped is an exception. [each_request_is_answered_once_by_its_id]
/// - The sink is let go after its last answer. [the_sink_lives_until_its_last_answer]
/// - A question may come without a sink, and is answered by its handler only. [a_question_needs_no_sink]
/// - A look ends soon with an error when the slot of its handler says so. [a_question_ends_when_its_slot_says_so]
/// - A watch that is stopped may be answered once more, with whatever it is, or never: the core has forgotten its id.
///   It is over soon, for its sink is let go. Others go on. [a_stopped_watch_is_told_once_more_at_most]
/// - After `stop_reads` the core is told of none. Questions go on. [nothing_is_told_of_reads_once_they_are_stopped]
/// - A failure has a code of `error`, or is `operation_aborted` where something was stopped: by other codes the core
///   would not know whether to try again (`condition::unavailable`), and takes them for final.
///   [a_failure_is_one_of_ours]
/// - What is told `not_sent` was not applied, and never will be; `unknown` may have been applied, or may be later.
///   [what_was_not_sent_has_no_effect]
/// - A store that is closed answers everything with error::closed. After such an answer to a request of the core, it
///   delivers `event::close`. [what_is_closed_says_so_and_closes_its_core]
/// - `executor()` is empty once the context is gone, a store's and a factory's. Nothing is asked then, and what waited
///   is destroyed unanswered; but stores may be destroyed later. [an_executor_is_empty_once_its_context_is_gone]
///
/// What it keeps:
/// - One index counts the writes. Every key has CreateIndex, ModifyIndex, LockIndex and 64 bits of flags.
///   [an_entry_has_its_indexes_and_flags]
/// - A transaction of up to `operations_max` operations is applied as a whole, or refused with each operation that
///   refuses it. [a_transaction_is_applied_whole_or_not_at_all] [a_transaction_has_as_many_operations_as_there_may_be]
/// - Why it is refused is told: the core waits for a lock delay, and gives a session up that is invalid.
///   [a_refusal_says_why]
/// - A key is locked by one session. [a_key_is_locked_by_one_session]
/// - Reads are consistent: they see what any store has been told is applied. Without an index they are answered soon;
///   from an index, when there is a newer one, or when the wait is over. [a_read_sees_what_was_written_before]
///   [a_read_from_an_index_waits_for_a_newer_one] [a_read_whose_wait_is_over_is_answered]
///
/// Its sessions:
/// - One that is not renewed ends after one to two TTLs. [a_session_lives_for_its_ttl_and_no_longer_unless_renewed]
/// - Renewed after its end, it is `gone`; destroyed then, that is no failure. [a_session_that_has_ended_is_gone]
/// - The keys that it has locked are deleted with it, at the same index. [what_a_session_has_locked_goes_with_it]
/// - For the lock delay of its terms nobody can lock these again. [a_lock_delay_keeps_keys_of_ended_sessions]
/// - A node's CreateIndex changes only when it was missing in between, which ends its sessions. A store without nodes
///   answers with 0, which says nothing. [a_nodes_create_index_says_since_when_it_stands]
/// - Where the node of its terms is missing, it is refused with error::missing_node until that is registered.
///   [a_session_waits_for_its_node]
///
/// Of its terms `session_name` is for people, and `timeout` bounds what the store may never hear of: one without either
/// may ignore both, and one without health checks `node_checks`, which only lets sessions end earlier. The rest counts.
/// [terms_that_may_be_ignored_may_be_left_out]
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

/// What one lock wants of its store, beside what its core asks for. `store` says what may be ignored.
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
