// SPDX-FileCopyrightText: The holdfast authors
// SPDX-License-Identifier: BSL-1.0

// The core of a mutex set is told step by step what happens. Each step returns the actions of the core, in lines:
//
// - create | renew s1 | destroy s1 | watch s1 | watch s1 from 13 | stop
// - txn: new #1 lock a lock b: the first transaction of a session; #1 is the number of the guard
// - txn: #2 unlock a lock c: a batch; "txn: #3" alone is a barrier
// - txn: look a: a read of the guard and of these keys
// - grant t1 A 12 | deny t1 | fail t1 why | released A why | lose A why | update A | closed why | note

#include "protocol/mutex_set/mutex_set.hpp"

#include <algorithm>
#include <boost/test/unit_test.hpp>
#include <chrono>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "protocol/record/lock_record.hpp"
#include "runtime/convert.hpp"
#include "support/core_consul.hpp"
#include "support/pool_story.hpp"

using namespace holdfast;
using namespace holdfast::protocol;
using namespace holdfast::test;
using namespace std::chrono_literals;

BOOST_AUTO_TEST_SUITE(mutex_set)

namespace {

constexpr duration ttl = 15s;

using lines = std::vector<std::string>;

failure because(error why) { return {make_error_code(why), {"because", {}, {}, {}}}; }
std::string text(const failure& f) { return f.code ? " " + f.code.message() : ""; }

/// Keeps the latest pending request of each kind, and answers it from a modelled Consul.
class set_story {
public:
  static mutex_set_options usual() {
    mutex_set_options o{"p/", "us"};
    o.outage_grace = 0s;
    o.session_idle_timeout = 60s;
    return o;
  }
  explicit set_story(mutex_set_options options = usual()) : options_(options), set_(std::move(options), 1) {}

  lines tell(core_event e) {
    core_actions actions;
    set_.step(std::move(e), now, actions);
    BOOST_TEST((set_.wake() > now), "it asks to be woken in the past");
    lines result;
    for (core_action& a : actions) std::visit([&](auto& each) { result.push_back(note(each)); }, a);
    return result;
  }
  lines ask(std::uint64_t ticket, std::string_view name) {
    event::acquire e{protocol::ticket{ticket}, {.once = true}};
    e.name = name;
    return tell(e);
  }
  lines cancel(std::uint64_t ticket) { return tell(event::cancel{protocol::ticket{ticket}}); }
  lines release(char slot) { return tell(event::release{slots_.at(slot)}); }
  lines close(bool revoke) { return tell(event::close{revoke}); }
  lines after(duration d) {
    const time_point end = now + d;
    lines all;
    while (set_.wake() <= end) {
      now = set_.wake();
      for (std::string& each : tell(event::tick{})) all.push_back(std::move(each));
    }
    now = end;
    return all;
  }
  /// Delivers a tick after this time.
  lines jump(duration d) {
    now += d;
    return tell(event::tick{});
  }

  lines created() {
    session = consul.create_session(ttl, now);
    return tell(event::session_created{member_, session});
  }
  lines create_fails(error why) { return tell(event::session_created{member_, {}, because(why)}); }
  lines renewed(event::renewal how = event::renewal::renewed) { return tell(event::session_renewed{member_, how}); }
  lines destroyed(bool certain = true) {
    if (certain) consul.destroy_session(destroying_, now);
    return tell(event::session_destroyed{destroying_, certain});
  }
  lines done() { return tell(runtime::txn_done(txn_.id, {}, consul.transact(txn_.operations, now), {})); }
  /// The reply is lost; `applied`: not the request.
  lines unknown(bool applied) {
    late = txn_;
    if (applied) consul.transact(txn_.operations, now);
    return tell(event::txn_done{txn_.id, event::outcome::unknown, {}, {}, because(error::timed_out)});
  }
  lines refused(std::vector<event::refused_operation> which) {
    return tell(event::txn_done{txn_.id, event::outcome::refused, {}, std::move(which)});
  }
  bool applied_late() { return consul.transact(late.operations, now).applied; }
  lines watched() { return tell(consul.key_seen(watch_.id, watch_.key)); }
  lines watch_fails() { return tell(event::key_watched{watch_.id, {}, because(error::server_error)}); }

  std::string key(std::string_view name) const {
    const auto found = consul.get("p/" + std::string(name));
    return !found ? "none" : found->session == session ? "ours" : found->session.empty() ? "free" : "another's";
  }
  std::string other_takes(std::string_view name) {
    const std::string other = consul.create_session(ttl, now);
    BOOST_TEST(consul.transact({{kv_verb::lock, "p/" + std::string(name), {}, mutex_flags, 0, other}}, now).applied);
    return other;
  }
  /// Asks for a name that another process has, and is denied. A copy of the request is still pending, see
  /// `applied_late`. Returns the session of the other process.
  std::string ask_in_vain(std::uint64_t ticket, std::string_view name) {
    std::string other = other_takes(name);
    ask(ticket, name);
    late.operations = operations();
    done();
    return other;
  }
  /// Ticket 1 has the lock of "a" as slot A, and the entry is watched.
  void hold() {
    ask(1, "a");
    created();
    done();
    watched();
  }

  const std::vector<kv_operation>& operations() const { return txn_.operations; }
  core_consul consul;
  std::string session;  ///< the last one
  time_point now{std::chrono::hours(1)};
  action::send_txn late{};
  std::map<char, slot_id> slots_;

private:
  std::string note(action::create_session& a) {
    member_ = a.member;
    return "create";
  }
  std::string note(action::renew_session&) { return "renew"; }
  std::string note(action::destroy_session& a) {
    destroying_ = a.session;
    return "destroy";
  }
  std::string note(action::send_txn& a) {
    txn_ = a;
    BOOST_TEST(txn_.operations.size() <= operations_max);
    std::string line = "txn:";
    for (const kv_operation& op : txn_.operations) line += one(op);
    return line;
  }
  std::string one(const kv_operation& op) const {
    const std::string name = op.key.substr(2), number = "#" + std::to_string(op.flags & 0xffffffff);
    if (name == ".sessions/" + session) return op.verb == kv_verb::lock ? "" : " wrong";
    if (name == ".writes/" + session)
      return op.verb == kv_verb::check_not_exists       ? " new"
             : op.verb == kv_verb::get                  ? " look"
             : (op.flags & ~0xffffffffULL) == set_magic ? " " + number
                                                        : " wrong";
    if (name == ".writes/" + session + "/none") return op.verb == kv_verb::remove ? "" : " wrong";
    switch (op.verb) {
      case kv_verb::lock:
        return " lock " + name +
               (op.flags == mutex_flags && op.value == "us" && op.session == session ? "" : " wrongly");
      case kv_verb::check_session:
        return op.session == session ? " un" : " wrong ";
      case kv_verb::remove:
        return "lock " + name;
      case kv_verb::get:
        return " " + name;
      case kv_verb::unlock:
      case kv_verb::cas:
      case kv_verb::check_index:
      case kv_verb::check_not_exists:
      case kv_verb::remove_cas:
      case kv_verb::get_tree:
      case kv_verb::set:
      case kv_verb::remove_tree:
        break;
    }
    return " wrong";
  }
  std::string note(action::watch_key& a) {
    watch_ = a;
    BOOST_TEST(a.key == "p/.sessions/" + session);
    return "watch" + (a.index == 0 ? "" : " from " + std::to_string(a.index));
  }
  std::string note(action::register_node&) { return "register node"; }
  std::string note(action::read_node&) { return "wrong"; }
  std::string note(action::stop_watch&) { return "stop"; }
  std::string note(action::watch_makers&) { return "watch makers"; }
  std::string note(action::forget_session&) { return "forget"; }
  std::string note(action::list_prefix&) { return "wrong"; }
  std::string note(action::grant& a) {
    const char name = static_cast<char>('A' + slots_.size());
    slots_[name] = a.slot;
    BOOST_TEST((a.deadline > now));
    return "grant t" + number(a.ticket) + " " + name + " " + std::to_string(a.token.grant);
  }
  std::string note(action::deny& a) { return "deny t" + number(a.ticket); }
  std::string note(action::fail& a) { return "fail t" + number(a.ticket) + text(a.error); }
  std::string note(action::released& a) { return "released " + name(a.slot) + text(a.error.value_or(failure())); }
  std::string note(action::lose& a) { return "lose " + name(a.slot) + " " + std::string(to_string(a.reason)); }
  std::string note(action::revoke&) { return "wrong"; }
  std::string note(action::update& a) { return "update " + name(a.slot) + (a.suspect ? " suspect" : ""); }
  std::string note(action::closed& a) { return "closed" + text(a.error); }
  std::string note(action::note&) { return "note"; }
  std::string note(action::ask_alive&) { return "ask"; }
  static std::string number(ticket t) { return std::to_string(static_cast<std::uint64_t>(t)); }
  std::string name(slot_id id) const {
    for (const auto& [name, each] : slots_)
      if (each == id) return std::string(1, name);
    return "?";
  }

  mutex_set_options options_;
  protocol::mutex_set set_;
  member_id member_{};
  std::string destroying_;
  action::send_txn txn_{};
  action::watch_key watch_{};
};

}  // namespace

BOOST_AUTO_TEST_CASE(the_first_lock_makes_a_session_and_its_two_keys_in_one_write) {
  set_story s;
  EXPECT(s.ask(1, "a"), "create");
  EXPECT(s.created(), "txn: new #1 lock a");
  EXPECT(s.done(), "grant t1 A 12", "watch");
  EXPECT(s.watched(), "watch from 12");
  BOOST_TEST(s.key("a") == "ours");
  BOOST_TEST(s.key(".sessions/" + s.session) == "ours");
  BOOST_TEST(s.key(".writes/" + s.session) == "ours");
  EXPECT(s.ask(2, "b"), "txn: #2 lock b");
  EXPECT(s.done(), "grant t2 B 13");
}

BOOST_AUTO_TEST_CASE(a_release_removes_the_key) {
  set_story s;
  s.hold();
  EXPECT(s.release('A'), "txn: #2 unlock a");
  EXPECT(s.done(), "released A");
  BOOST_TEST(s.key("a") == "none");
  EXPECT(s.ask(2, "a"), "txn: #3 lock a");
  EXPECT(s.done(), "grant t2 B 14");
}

BOOST_AUTO_TEST_CASE(a_write_has_63_operations_at_most) {
  set_story s;
  s.hold();
  s.ask(2, "b");
  for (std::uint64_t t = 3; t != 103; ++t) s.ask(t, "many/" + std::to_string(t));
  s.done();
  BOOST_TEST(s.operations().size() == 63u);
  BOOST_TEST(s.done().size() == 63u);  // the grants, and the next write
  BOOST_TEST(s.operations().size() == 39u);
  BOOST_TEST(s.done().size() == 38u);
}

BOOST_AUTO_TEST_CASE(who_is_refused_is_denied_and_the_rest_goes_on) {
  set_story s;
  s.hold();
  s.other_takes("c");
  s.other_takes("e");
  s.ask(2, "b");
  s.ask(3, "c");
  s.ask(4, "d");
  s.ask(5, "e");
  s.ask(6, "f");
  EXPECT(s.done(), "grant t2 B 17", "txn: #3 lock c lock d lock e lock f");
  EXPECT(s.done(), "deny t3", "deny t5", "txn: #4 lock d lock f");
  EXPECT(s.done(), "grant t4 C 19", "grant t6 D 19");
}

BOOST_AUTO_TEST_CASE(a_name_in_use_here_is_denied_without_a_request) {
  set_story s;
  s.hold();
  EXPECT(s.ask(2, "a"), "deny t2");
  EXPECT(s.ask(3, "b"), "txn: #2 lock b");
  EXPECT(s.ask(4, "b"), "deny t4");
}

/// Each small request succeeds, and the large one never does.
BOOST_AUTO_TEST_CASE(whose_batch_never_comes_through_is_told_in_time) {
  set_story s;
  s.hold();
  s.ask(2, "b");
  bool failed = false;
  for (int i = 0; i != 8 && !failed; ++i) {
    s.unknown(false);  // the batch
    lines all = s.after(1s);
    s.done();  // the barrier
    const lines later = s.after(1s);
    all.insert(all.end(), later.begin(), later.end());
    for (const std::string& line : all) failed = failed || line.starts_with("fail t2");
  }
  BOOST_TEST(failed);
}

BOOST_AUTO_TEST_CASE(where_nobody_may_watch_sessions_are_not_created_one_after_the_other) {
  set_story s;
  s.hold();
  EXPECT(s.watch_fails(), "note", "update A suspect", "lose A watch_failed");
  EXPECT(s.ask(2, "a"), "deny t2");  // as long as the user that has lost it goes on
  EXPECT(s.release('A'), "destroy");
  s.destroyed();
  EXPECT(s.ask(2, "a"));
  EXPECT(s.after(20ms), "create");
  s.created();
  EXPECT(s.done(), "grant t2 B 15", "watch");
  EXPECT(s.watch_fails(), "note", "update B suspect", "lose B watch_failed");
  EXPECT(s.release('B'), "destroy");
  s.destroyed();
  EXPECT(s.ask(3, "a"));
  EXPECT(s.after(5ms));
  EXPECT(s.after(40ms), "create");
}

BOOST_AUTO_TEST_CASE(what_was_locked_and_taken_away_before_the_look_is_asked_for_anew) {
  set_story s;
  s.hold();
  s.ask(2, "b");
  s.unknown(true);
  s.consul.remove("p/b", s.now);
  s.after(20ms);
  s.done();
  EXPECT(s.done(), "txn: look");
  EXPECT(s.done(), "txn: #3 lock b");
}

BOOST_AUTO_TEST_CASE(after_refusals_one_empty_write_with_the_next_renewal_keeps_all_copies_out) {
  set_story s;
  s.hold();
  const std::string other = s.ask_in_vain(2, "c");
  EXPECT(s.after(6s), "renew");
  EXPECT(s.renewed(event::renewal::failed));
  EXPECT(s.after(740ms), "renew");
  EXPECT(s.renewed(), "update A", "txn: #3");
  EXPECT(s.done());
  s.consul.destroy_session(other, s.now);
  BOOST_TEST(!s.applied_late());
  EXPECT(s.after(6s), "renew");
  EXPECT(s.renewed(), "update A");
}

BOOST_AUTO_TEST_CASE(what_a_late_copy_has_given_back_is_told_to_be) {
  set_story s;
  s.hold();
  const std::string other = s.other_takes("c");
  s.ask(2, "b");
  s.release('A');
  s.ask(3, "c");
  EXPECT(s.done(), "grant t2 B 15", "txn: #3 unlock a lock c");
  s.late.operations = s.operations();
  EXPECT(s.done(), "deny t3", "txn: #4 unlock a");
  s.consul.destroy_session(other, s.now);
  BOOST_TEST(s.applied_late());
  EXPECT(s.done(), "txn: look");
  EXPECT(s.done(), "released A", "txn: #5 unlock c");
  EXPECT(s.done());
  BOOST_TEST(s.key("a") == "none");
  BOOST_TEST(s.key("c") == "none");
}

BOOST_AUTO_TEST_CASE(of_so_many_refused_writes_it_knows_what_they_would_do_and_of_none_before) {
  for (const std::size_t since : {set_refused_max - 1, set_refused_max}) {
    set_story s;
    s.hold();
    const std::string other = s.ask_in_vain(2, "c");
    s.other_takes("d");
    for (std::size_t i = 0; i != since; ++i) {
      s.ask(3 + i, "d");
      EXPECT(s.done(), "deny t" + std::to_string(3 + i));
    }
    s.consul.destroy_session(other, s.now);
    BOOST_TEST(s.applied_late());
    s.after(6s);
    s.renewed();
    s.done();
    if (since < set_refused_max)
      EXPECT(s.done(), "txn: #" + std::to_string(since + 4) + " unlock c");
    else
      EXPECT(s.done(), "stop", "lose A removed");
  }
}

BOOST_AUTO_TEST_CASE(with_its_session_all_is_lost) {
  set_story s;
  s.hold();
  s.ask(2, "b");
  s.done();
  s.consul.destroy_session(s.session, s.now);
  EXPECT(s.watched(), "lose A session_invalidated", "lose B session_invalidated", "destroy");
  EXPECT(s.ask(3, "a"));
  EXPECT(s.destroyed(), "create");
  EXPECT(s.created(), "txn: new #3 lock a");
  EXPECT(s.done(), "grant t3 C 16", "watch");
}

BOOST_AUTO_TEST_CASE(who_asks_for_what_a_lost_session_may_have_waits_so_long_and_nobody_else_does) {
  const std::string timed_out = make_error_code(error::timed_out).message();
  set_story s;
  s.hold();
  s.ask(2, "c");
  s.done();
  s.jump(13500ms);
  s.release('A');
  EXPECT(s.release('B'), "destroy");
  EXPECT(s.ask(3, "a"));
  EXPECT(s.ask(4, "c"));
  EXPECT(s.after(1s));
  EXPECT(s.cancel(3), "fail t3 Operation canceled");
  EXPECT(s.ask(5, "a"));
  EXPECT(s.ask(6, "b"), "create");
  EXPECT(s.created(), "txn: new #3 lock b");
  EXPECT(s.done(), "grant t6 C 15", "watch");
  EXPECT(s.after(3999ms));
  EXPECT(s.after(1ms), "fail t4 " + timed_out);
  EXPECT(s.after(1s), "renew", "fail t5 " + timed_out);
  EXPECT(s.ask(7, "c"));
  EXPECT(s.ask(8, "a"));
  EXPECT(s.destroyed(), "txn: #4 lock c lock a");
  EXPECT(s.done(), "grant t7 D 17", "grant t8 E 17");
}

BOOST_AUTO_TEST_CASE(a_second_close_waits_as_the_first_does) {
  set_story s;
  s.hold();
  EXPECT(s.close(true), "lose A closed");
  EXPECT(s.close(true));
  EXPECT(s.release('A'), "txn: #2 unlock a", "stop", "destroy");
}

BOOST_AUTO_TEST_CASE(a_cancelled_ask_is_answered_at_once) {
  set_story s;
  s.hold();
  s.ask(2, "b");
  s.ask(3, "c");
  EXPECT(s.cancel(3), "fail t3 Operation canceled");
  EXPECT(s.cancel(3));
  EXPECT(s.cancel(2), "fail t2 Operation canceled");
  EXPECT(s.done(), "txn: #3 unlock b");
  EXPECT(s.done());
  BOOST_TEST(s.key("b") == "none");
}

BOOST_AUTO_TEST_CASE(a_release_of_what_was_taken_away_says_so) {
  set_story s;
  s.hold();
  s.consul.remove("p/a", s.now);
  s.other_takes("a");
  s.ask(2, "b");
  s.release('A');
  EXPECT(s.done(), "grant t2 B 16", "txn: #3 unlock a");
  EXPECT(s.done(), "released A " + make_error_code(error::slot_lost).message());
  BOOST_TEST(s.key("a") == "another's");
}

BOOST_AUTO_TEST_CASE(a_release_is_answered_in_time) {
  set_story s;
  s.hold();
  s.release('A');
  s.unknown(false);
  const lines told = s.after(5s);
  BOOST_TEST(told.front() == "txn: #3");
  BOOST_TEST(std::count(told.begin(), told.end(), "released A " + make_error_code(error::timed_out).message()) == 1);
}

BOOST_AUTO_TEST_CASE(who_asks_in_vain_is_told_why) {
  set_story s;
  s.ask(1, "a");
  EXPECT(s.create_fails(error::unreachable));
  EXPECT(s.after(20ms), "create");
  EXPECT(s.after(5s), "fail t1 " + make_error_code(error::unreachable).message());
  EXPECT(s.ask(2, "b"));
  EXPECT(s.create_fails(error::permission_denied), "fail t2 " + make_error_code(error::permission_denied).message());
}

BOOST_AUTO_TEST_CASE(who_lacks_the_right_to_one_key_is_told_so) {
  set_story s;
  s.hold();
  s.ask(2, "b");
  s.ask(3, "c");
  s.done();
  s.ask(4, "d");
  EXPECT(s.refused({{1, event::refusal::permission_denied}}),
         "fail t3 " + make_error_code(error::permission_denied).message(), "txn: #4 lock d");
  EXPECT(s.refused({{0, event::refusal::permission_denied}, {1, event::refusal::permission_denied}}),
         "fail t4 " + make_error_code(error::permission_denied).message());
}

/// The token may have lost the right since then.
BOOST_AUTO_TEST_CASE(a_release_that_Consul_refuses_is_tried_again_while_the_session_is_in_use) {
  const std::string denied = make_error_code(error::permission_denied).message();
  set_story s;
  s.hold();
  s.ask(2, "b");
  s.done();
  EXPECT(s.release('A'), "txn: #3 unlock a");
  EXPECT(s.refused({{2, event::refusal::permission_denied}}), "released A " + denied);
  BOOST_TEST(s.key("a") == "ours");
  EXPECT(s.ask(3, "a"));
  EXPECT(s.after(1s), "txn: #4 unlock a");
  EXPECT(s.refused({{2, event::refusal::permission_denied}}), "fail t3 " + denied);
  EXPECT(s.after(1s), "txn: #5 unlock a");
  EXPECT(s.done());
  BOOST_TEST(s.key("a") == "none");
}

BOOST_AUTO_TEST_CASE(a_release_that_Consul_refuses_ends_a_session_that_holds_nothing_else) {
  set_story s;
  s.hold();
  s.release('A');
  EXPECT(s.refused({{2, event::refusal::permission_denied}}),
         "released A " + make_error_code(error::permission_denied).message(), "stop", "destroy");
  s.destroyed();
  BOOST_TEST(s.key("a") == "none");
}

BOOST_AUTO_TEST_CASE(a_key_whose_lock_delay_runs_is_denied) {
  set_story s;
  s.hold();
  s.ask(2, "b");
  EXPECT(s.refused({{1, event::refusal::lock_delay}}), "deny t2");
}

BOOST_AUTO_TEST_CASE(only_so_many_may_ask_at_once) {
  mutex_set_options options = set_story::usual();
  options.waiters_max = 1;
  set_story s(options);
  s.ask(1, "a");
  EXPECT(s.ask(2, "b"), "fail t2 " + make_error_code(error::too_many_waiters).message());
}

BOOST_AUTO_TEST_CASE(an_idle_session_is_ended) {
  mutex_set_options options = set_story::usual();
  options.session_idle_timeout = 3s;
  set_story s(options);
  s.hold();
  EXPECT(s.after(4s));
  s.release('A');
  s.done();
  EXPECT(s.after(2999ms), "renew");
  EXPECT(s.after(1ms), "stop", "destroy");
  EXPECT(s.destroyed());
  BOOST_TEST(s.consul.list("p/").empty());
  EXPECT(s.ask(2, "b"), "create");
}

BOOST_AUTO_TEST_CASE(closing_takes_all_back_with_one_request) {
  set_story s;
  s.hold();
  s.ask(2, "b");
  s.ask(3, "c");
  EXPECT(s.done(), "grant t2 B 13", "txn: #3 lock c");
  s.release('B');
  EXPECT(s.close(true), "fail t3 " + make_error_code(error::closed).message(), "lose A closed");
  EXPECT(s.release('A'), "stop", "destroy");
  EXPECT(s.destroyed(), "released B", "closed");
  BOOST_TEST(s.consul.list("p/").empty());
  EXPECT(s.ask(4, "d"), "fail t4 " + make_error_code(error::closed).message());
}

BOOST_AUTO_TEST_CASE(without_a_handle_it_ends_with_its_last_slot) {
  set_story s;
  s.hold();
  s.ask(2, "b");
  s.done();
  EXPECT(s.close(false));
  EXPECT(s.release('A'), "txn: #3 unlock a");
  EXPECT(s.done(), "released A");
  EXPECT(s.release('B'), "txn: #4 unlock b", "stop", "destroy");
  EXPECT(s.destroyed(), "released B", "closed");
}

BOOST_AUTO_TEST_CASE(closing_waits_so_long_and_no_longer) {
  set_story s;
  s.hold();
  s.close(true);
  EXPECT(s.after(5s), "renew", "stop", "destroy");
  s.destroyed(false);
  const lines told = s.after(5s);
  BOOST_TEST(told.back() == "closed " + make_error_code(error::timed_out).message());
}

BOOST_AUTO_TEST_CASE(a_refusal_of_an_hour_ago_is_not_the_reason_of_a_failure) {
  set_story s;
  s.ask(1, "a");
  s.create_fails(error::permission_denied);
  s.after(1h);
  EXPECT(s.ask(2, "a"), "create");
  EXPECT(s.after(6s), "fail t2 " + make_error_code(error::timed_out).message());
}

BOOST_AUTO_TEST_SUITE_END()
