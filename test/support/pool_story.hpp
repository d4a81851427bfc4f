#pragma once

#include <functional>
#include <initializer_list>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "protocol/administration.hpp"
#include "protocol/pool.hpp"
#include "support/core_consul.hpp"

namespace holdfast::test {

/// One pool, told step by step what happens, with a modelled Consul at hand to say what that would answer. Each step
/// returns what the pool wants done, each action as one line of text with all that is in it (but for the instants,
/// which have tests of their own):
///
///   create m1 | register node | renew s1 | destroy s1 | read #1 | watch #4 from 12 | watch #5 s1 from 12 | stop #5
///   read #6 node n                                     of Consul's catalog
///   txn #3: cas @0 {s1} | lock s1                       the record's holders after it; its index before
///   txn #4: if @12 | let go s1 us | take s2 other      the same of a mutex
///   txn #5: cas @12 {s2} | grant s2 us @11 +1 | remove s1      the entry's value, index before, count after
///   txn #6: unnumber 0 s1 | remove s1 | number 3 s2    of numbered slots: who gives and takes which
///   grant t1 A 12.0 | grant t1 A 12.0 number 3 | deny t1 | fail t1 why | released A | lose A why | revoke A | update A
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

  // What local callers do.
  lines acquire(std::uint64_t ticket, std::uint32_t count = 1);
  lines try_acquire(std::uint64_t ticket, std::uint32_t count = 1);
  lines acquire_until(std::uint64_t ticket, protocol::time_point deadline);
  lines cancel(std::uint64_t ticket);
  lines release(char slot);
  lines close(bool revoke);

  // What time does.
  lines after(protocol::duration d);  ///< ticks whenever the pool asks for it, up to then
  lines jump(protocol::duration d);   ///< one tick, then: the process was paused
  protocol::time_point now{std::chrono::hours(1)};

  // What Consul answers. Each takes the oldest open request of its kind.
  lines created();
  lines create_fails(error why = error::unreachable);
  lines renewed();
  lines renewal_fails();
  lines renewal_says_gone();
  lines destroyed(bool certain = true);
  lines listed();                                          ///< the read, with what stands in Consul now
  lines listed_late(protocol::event::prefix_listed then);  ///< with what stood there when it was `then`
  lines read_fails(error why);
  /// It is answered with what the token may read.
  lines read_filtered();
  bool may_read_nodes = true;  ///< the token may
  lines node_read();           ///< the read of a node, with what stands in the catalog now
  lines node_fails(error why = error::server_error);
  lines watched();  ///< the watch
  lines watch_says(std::vector<kv_entry> entries, std::uint64_t index);
  /// Answers the request that accepts a grant.
  lines acceptance_done();
  lines acceptance_is(protocol::event::outcome what);
  lines watch_fails(error why = error::server_error);
  lines key_watched();                            ///< the watch of a key, and the next
  lines key_watched_in(protocol::duration wait);  ///< the same, after the client has asked for so long a wait only
  lines key_watch_fails(error why = error::server_error);
  lines done();  ///< the transaction: applied or refused, as Consul finds it
  lines refused(std::vector<protocol::event::refused_operation> refusals);
  lines not_sent(error why = error::unreachable);
  lines unknown(error why = error::timed_out);  ///< not applied (yet)
  lines applied_but_unknown();
  bool applied_late();  ///< the last one of unknown outcome; false: Consul refused it
  void apply_now();     ///< the transaction takes effect; done() then brings its reply
  lines tell(protocol::core_event e);

  // What stands in Consul, and what others do there.
  core_consul consul;
  /// Another pool's contender queues; returns its session's number.
  std::string others_join(std::uint64_t flags = protocol::contender_magic);
  void others_join_again(const std::string& session);
  /// An entry of a process that accepts grants.
  std::string others_join_and_accept(std::uint64_t flags = protocol::contender_magic,
                                     std::string_view description = "other");
  std::string go_joins();
  std::string go_takes();  ///< a mutex
  void go_lets_go(const std::string& session);
  void leaves(const std::string& session);
  /// The record becomes this: sessions' names, separated by spaces.
  void record_becomes(std::string_view holders, std::uint32_t limit = 0,
                      std::uint64_t flags = protocol::semaphore_flags);
  /// Another process writes the record, and grants these of it; with a number, if it has one to give away.
  void others_grant(std::string_view holders, std::string_view granted, std::string_view next = {},
                    std::optional<std::uint32_t> number = {});
  /// An operator looks, and does what comes next.
  void order(const std::function<protocol::instruction(const protocol::inspection&)>& what);
  std::string record() const;   ///< "{s1 s2}", or "none"
  std::string value() const;    ///< the record's, as it stands there
  std::string entries() const;  ///< "s1 s2", in queue order
  protocol::snapshot standing() const;
  std::string real(std::string_view name) const;
  std::string number_key(std::uint32_t number) const { return protocol::numbers_of(entries_) + std::to_string(number); }
  std::uint64_t index() const;  ///< of the record

  const protocol::core_actions& actions() const { return actions_; }  ///< the last step's
  protocol::pool& pool() { return pool_; }
  protocol::slot_id slot(char name) const { return slots_.at(static_cast<std::size_t>(name - 'A')); }
  bool read_open() const { return read_.has_value(); }
  bool node_read_open() const { return node_read_.has_value(); }
  bool watch_open() const { return watch_.has_value(); }
  bool key_watch_open() const { return !key_watches_.empty(); }
  bool txn_open() const { return txn_.has_value(); }
  bool acceptance_open() const { return acceptance_.has_value(); }
  bool renewal_open() const { return !renewals_.empty(); }
  bool create_open() const { return !creates_.empty(); }
  /// Answers all that is open but the transaction and the watch, or all of it; false: there was nothing.
  void answer_reads_and_sessions();
  bool answer_all();
  void look(std::uint64_t ticket, std::uint32_t count = 1);  ///< acquires, and the look is answered
  void come(std::uint64_t ticket, std::uint32_t count = 1);  ///< acquires, and all is answered
  void go(char slot);                                        ///< releases, and all is answered
  /// The first acquire, as far as its write: s1, #1 and #2.
  void ask(std::uint64_t ticket = 1, std::uint32_t count = 1);
  /// As far as the grant, if there is a slot; else it waits then.
  void hold(std::uint64_t ticket = 1, std::uint32_t count = 1);

  /// Answers what Consul would answer now: sessions, watches that are due, reads and, unless told otherwise, writes; as
  /// long as there is anything, but not without end.
  lines run(bool writes = true);
  /// Time passes, and then all is answered.
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

/// These options with a change.
template <class Change>
protocol::pool_options with(protocol::pool_options options, Change change) {
  change(options);
  return options;
}

/// How many of the lines begin like this.
std::size_t times(const pool_story::lines& list, std::string_view begin);
inline bool says(const pool_story::lines& list, std::string_view begin) { return times(list, begin) != 0; }
/// Empty if there is none.
inline std::string first_of(const pool_story::lines& list) { return list.empty() ? "" : list.front(); }
inline std::string last_of(const pool_story::lines& list) { return list.empty() ? "" : list.back(); }
void append(pool_story::lines& list, const pool_story::lines& more);

void check_step(const pool_story::lines& found, const pool_story::lines& expected, int line);

/// Whoever waits in the queue of a Consul that answers well does not hear of what once went wrong.
void check_that_nobody_fails(pool_story& s);

}  // namespace holdfast::test

/// EXPECT(s.acquire(1), "read #1"): the step, and all that the pool wants done after it, in order.
#define EXPECT(step, ...) holdfast::test::check_step((step), {__VA_ARGS__}, __LINE__)
