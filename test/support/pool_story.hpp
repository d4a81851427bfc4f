// SPDX-FileCopyrightText: The holdfast authors
// SPDX-License-Identifier: BSL-1.0

#pragma once

#include <functional>
#include <initializer_list>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "protocol/administration/administration.hpp"
#include "protocol/pool/pool.hpp"
#include "support/core_consul.hpp"

namespace holdfast::test {

/// Drives one pool step by step, with a modelled Consul that computes the answers. Each step returns the actions of the
/// pool. Each action is a line of text with the members that tests look at here. Times, for example, have tests of
/// their own:
///
/// - create m1 | register node | renew s1 | destroy s1 | read #1 | watch #4 from 12 | watch #5 s1 from 12 | stop #5
/// - read #6 node n                                     of Consul's catalog
/// - txn #3: cas @0 {s1} | lock s1                      the record's index before, and its holders after it
/// - txn #4: `if @12 | let go s1 us | take s2 other`    the same of a mutex
/// - txn #5: cas @12 {s2} | grant s2 us @11 +1 | remove s1      the entry's value, index before, count after
/// - txn #6: unnumber 0 s1 | remove s1 | number 3 s2    of numbered slots: which session loses or gets which number
/// - watch makers | no makers
/// - grant t1 A 12.0 | grant t1 A 12.0 number 3 | deny t1 | fail t1 why | released A | lose A why | revoke A | update A
///   | closed | note
///
/// Sessions are s1, s2, ... in the order of their creation; slots are A, B, ... in the order of their grants.
class pool_story {
public:
  using lines = std::vector<std::string>;

  pool_story() : pool_story(usual()) {}
  explicit pool_story(protocol::pool_options options, std::uint64_t seed = 1);
  static protocol::pool_options usual(std::uint32_t limit = 1);
  static protocol::pool_options usual_mutex();

  // Calls of local users.
  lines acquire(std::uint64_t ticket, std::uint32_t count = 1);
  lines try_acquire(std::uint64_t ticket, std::uint32_t count = 1);
  lines acquire_until(std::uint64_t ticket, protocol::time_point deadline);
  lines cancel(std::uint64_t ticket);
  lines release(char slot);
  lines close(bool revoke);

  // The passing of time.
  lines after(protocol::duration d);  ///< time passes, with a tick whenever the pool asks for one
  lines jump(protocol::duration d);   ///< time passes with one tick at its end, as if the process was paused
  protocol::time_point now{std::chrono::hours(1)};

  // Consul's answers. Each call answers the oldest open request of its kind.
  lines created();
  lines create_fails(error why = error::unreachable);
  lines renewed();
  lines renewal_says_gone();
  lines destroyed(bool certain = true);
  lines listed();                                          ///< answers the read with Consul's present state
  lines listed_late(protocol::event::prefix_listed then);  ///< answers the read with the older state `then`
  lines read_fails(error why);
  /// Answers the read as Consul does if the token may read no entry: with an empty list that says it is filtered.
  lines read_filtered();
  bool may_read_nodes = true;  ///< the token may read nodes
  lines node_read();           ///< answers the read of a node with the catalog's present state
  lines watched();             ///< answers the watch
  lines watch_says(std::vector<kv_entry> entries, std::uint64_t index);
  /// Answers the request that accepts a grant.
  lines acceptance_done();
  lines watch_fails(error why = error::server_error);
  lines key_watched();                            ///< answers the watch of a key
  lines key_watched_in(protocol::duration wait);  ///< the same; the client had asked Consul to wait for `wait` only
  lines key_watch_fails(error why = error::server_error);
  lines done();  ///< answers the transaction: Consul applies or refuses it
  lines refused(std::vector<protocol::event::refused_operation> refusals);
  lines not_sent(error why = error::unreachable);
  lines unknown(error why = error::timed_out);  ///< the transaction is not applied (yet)
  bool applied_late();  ///< applies the last transaction of unknown outcome; false: Consul refused it
  void apply_now();     ///< the transaction takes effect; done() then brings its reply
  lines tell(protocol::core_event e);

  // Consul's state, and what other processes do there.
  core_consul consul;
  /// A contender of another pool queues. Returns the name of its session.
  std::string others_join(std::uint64_t flags = protocol::contender_magic);
  /// An entry of a process that accepts grants.
  std::string others_join_and_accept(std::uint64_t flags = protocol::contender_magic,
                                     std::string_view description = "other");
  std::string go_joins();
  std::string go_takes();  ///< HashiCorp's client in Go takes a mutex
  void go_lets_go(const std::string& session);
  void leaves(const std::string& session);
  /// Writes the record. `holders` are the names of sessions, separated by spaces.
  void record_becomes(std::string_view holders, std::uint32_t limit = 0,
                      std::uint64_t flags = protocol::semaphore_flags);
  /// Another process writes the record, and grants slots to those of its holders that are in `granted`. If that process
  /// has a number to pass on, it grants with `number`.
  void others_grant(std::string_view holders, std::string_view granted, std::string_view next = {},
                    std::optional<std::uint32_t> number = {});
  /// An operator reads the state, and carries out the instruction that `what` returns for it.
  void order(const std::function<protocol::instruction(const protocol::inspection&)>& what);
  std::string record() const;   ///< "{s1 s2}", or "none"
  std::string value() const;    ///< the text of the record
  std::string entries() const;  ///< "s1 s2", in queue order
  protocol::snapshot standing() const;
  std::string real(std::string_view name) const;
  std::string number_key(std::uint32_t number) const { return protocol::numbers_of(entries_) + std::to_string(number); }
  std::uint64_t index() const;  ///< of the record

  std::size_t freed_by_proof = 0;  ///< the slots of dead processes that the pool has freed
  const protocol::core_actions& actions() const { return actions_; }  ///< the last step's
  protocol::pool& pool() { return pool_; }
  protocol::slot_id slot(char name) const { return slots_.at(static_cast<std::size_t>(name - 'A')); }
  bool read_open() const { return read_.has_value(); }
  bool watch_open() const { return watch_.has_value(); }
  bool key_watch_open() const { return !key_watches_.empty(); }
  bool txn_open() const { return txn_.has_value(); }
  bool acceptance_open() const { return acceptance_.has_value(); }
  bool renewal_open() const { return !renewals_.empty(); }
  /// Answers all open requests but the transaction, the acceptance and the watches.
  void answer_reads_and_sessions();
  /// The same, and then answers the transaction. Returns false if no transaction was open and the pool has made no
  /// further request.
  bool answer_all();
  void look(std::uint64_t ticket, std::uint32_t count = 1);  ///< acquires, and answers the first read
  void come(std::uint64_t ticket, std::uint32_t count = 1);  ///< acquires, and answers all
  void go(char slot);                                        ///< releases, and answers all
  /// Makes the first acquire, up to its write: s1, #1 and #2.
  void ask(std::uint64_t ticket = 1, std::uint32_t count = 1);
  /// Makes the first acquire, up to the grant if a slot is free. If none is free, the acquire waits.
  void hold(std::uint64_t ticket = 1, std::uint32_t count = 1);

  /// Answers what Consul would answer now: sessions, due watches, reads and, if `writes` is true, the transaction, but
  /// not the acceptance. It repeats this until nothing of that is left, but not endlessly.
  lines run(bool writes = true);
  /// Lets time pass, and then answers all.
  lines go_on(protocol::duration d = std::chrono::milliseconds(10));

  std::size_t requests = 0;  ///< so far

private:
  std::string line(const protocol::core_action& a);
  std::string name(std::string_view session) const;
  std::string name(protocol::slot_id slot);
  std::string operations(const std::vector<kv_operation>& list) const;
  lines listing(std::optional<protocol::action::list_prefix>& request);
  void note_requests();

  protocol::pool_options options_;
  const std::string entries_;
  protocol::pool pool_;
  protocol::core_actions actions_;
  std::vector<protocol::slot_id> slots_;
  std::vector<protocol::action::create_session> creates_;
  std::vector<protocol::action::renew_session> renewals_;
  std::vector<protocol::action::destroy_session> destroys_;
  std::optional<protocol::action::list_prefix> read_, watch_;
  std::optional<protocol::action::read_node> node_read_;
  std::vector<protocol::action::watch_key> key_watches_;
  std::optional<protocol::action::send_txn> txn_, late_, acceptance_;
  std::optional<consul::txn_reply> reply_;
};

/// A copy of the options, with a change.
template <class Change>
protocol::pool_options with(protocol::pool_options options, Change change) {
  change(options);
  return options;
}

/// The number of lines that begin with `begin`.
std::size_t times(const pool_story::lines& list, std::string_view begin);
inline bool says(const pool_story::lines& list, std::string_view begin) { return times(list, begin) != 0; }
/// Empty if there is none.
inline std::string first_of(const pool_story::lines& list) { return list.empty() ? "" : list.front(); }
inline std::string last_of(const pool_story::lines& list) { return list.empty() ? "" : list.back(); }
void append(pool_story::lines& list, const pool_story::lines& more);

void check_step(const pool_story::lines& found, const pool_story::lines& expected, int line);

}  // namespace holdfast::test

/// EXPECT(s.acquire(1), "read #1"): the step, and all actions that the pool requests after it, in order.
#define EXPECT(step, ...) holdfast::test::check_step((step), {__VA_ARGS__}, __LINE__)
