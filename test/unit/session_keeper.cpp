// SPDX-FileCopyrightText: The holdfast authors
// SPDX-License-Identifier: BSL-1.0

#include "protocol/session/session_keeper.hpp"

#include <boost/test/unit_test.hpp>
#include <chrono>
#include <functional>
#include <string>
#include <variant>
#include <vector>

// The sessions of a core: in each state, each event leads to the state that the tables below name.

using namespace holdfast;
using namespace holdfast::protocol;
using namespace std::chrono_literals;

BOOST_AUTO_TEST_SUITE(session_keeper)

namespace {

struct used : own_session {};
struct unused : ending_session {};
using keeper = protocol::session_keeper<used, unused>;
constexpr member_id first{1};

struct world {
  time_point now{1h};
  context ctx{1};
  core_actions out;
  keeper all{core_options{}};

  world() {
    step([&] { all.create(ctx); });
  }

  void step(const std::function<void()>& what) {
    out.clear();
    ctx.begin(now, out);
    ctx.forget_times();
    what();
    ctx.end();
  }
  creation answer(std::string session, error why = {}, bool is_closed = false) {
    creation meant{};
    event::session_created e{first, std::move(session), {}};
    if (e.session.empty()) e.error.code = why;
    step([&] { meant = all.answered(ctx, e, is_closed); });
    return meant;
  }
  std::size_t registered(error_code ec = {}) {
    std::size_t failed = 0;
    step([&] { failed = all.registered(ctx, {{ec, {}}}).size(); });
    return failed;
  }
  bool keep_alive(bool watch_fails = false) {
    bool has_changed = false;
    step([&] { has_changed = all[first].keep_alive(ctx, watch_fails, true); });
    return has_changed;
  }
  bool renewed(event::renewal how) {
    bool exists = false;
    event::session_renewed e{first, how, {}};
    step([&] { exists = all[first].renewed(ctx, e); });
    return exists;
  }
  template <class Action>
  bool acts() const {
    return out.size() == 1 && std::holds_alternative<Action>(out.front());
  }
  session_state state() { return all[first].state; }
  bool is_forgotten() { return all.find(first) == nullptr; }
};

/// Leads a new session into this state.
void lead(world& w, session_state to) {
  if (to == session_state::registering) w.answer({}, error::missing_node);
  if (to == session_state::live || to == session_state::suspect) w.answer("s1");
  if (to == session_state::suspect) w.keep_alive(true);
  BOOST_REQUIRE(w.state() == to);
}

constexpr session_state all_states[] = {session_state::creating, session_state::registering, session_state::live,
                                        session_state::suspect};

}  // namespace

BOOST_AUTO_TEST_CASE(a_session_that_is_created_is_live) {
  for (const session_state from : all_states) {
    world w;
    lead(w, from);
    const creation meant = w.answer("s2");
    if (from == session_state::creating)
      BOOST_TEST((meant == creation::done && w.state() == session_state::live && w.all[first].session == "s2"));
    else  // an answer that comes twice
      BOOST_TEST((meant == creation::nothing && w.state() == from && w.all[first].session != "s2"));
    BOOST_TEST(w.out.empty());
  }
}

BOOST_AUTO_TEST_CASE(a_session_that_is_created_after_the_close_is_destroyed) {
  for (const session_state from : all_states) {
    world w;
    lead(w, from);
    BOOST_TEST((w.answer("s2", {}, true) == creation::nothing));
    BOOST_TEST(w.acts<action::destroy_session>());
    BOOST_TEST((w.answer({}, error::unreachable, true) == creation::nothing));
    BOOST_TEST(w.out.empty());
  }
}

BOOST_AUTO_TEST_CASE(a_session_that_cannot_be_created_is_forgotten) {
  struct row {
    error why;
    creation meant;
    bool delays_the_next;
  };
  for (const row& each :
       {row{error::permission_denied, creation::refused, false}, row{error::unreachable, creation::failed, true}}) {
    world w;
    BOOST_TEST((w.answer({}, each.why) == each.meant));
    BOOST_TEST((w.is_forgotten() && w.out.empty() && w.all.creating() == 0));
    BOOST_TEST(w.all.failures().on() == each.delays_the_next);
  }
}

BOOST_AUTO_TEST_CASE(a_missing_node_is_registered_once_for_each_session) {
  world w;
  BOOST_TEST((w.answer({}, error::missing_node) == creation::nothing));
  BOOST_TEST((w.state() == session_state::registering && w.acts<action::register_node>()));
  BOOST_TEST(w.registered() == 0u);
  BOOST_TEST((w.state() == session_state::creating && w.acts<action::create_session>()));
  BOOST_TEST((w.answer({}, error::missing_node) == creation::failed));  // it was deregistered meanwhile
  BOOST_TEST((w.is_forgotten() && w.all.failures().on()));
}

BOOST_AUTO_TEST_CASE(a_node_that_cannot_be_registered_fails_the_sessions_that_wait_for_it_only) {
  for (const session_state from : all_states) {
    world w;
    lead(w, from);
    BOOST_TEST(w.registered(error::permission_denied) == (from == session_state::registering ? 1u : 0u));
    BOOST_TEST((w.state() == from && w.out.empty()));
  }
}

BOOST_AUTO_TEST_CASE(a_session_is_suspect_while_a_renewal_is_overdue_or_the_watch_fails) {
  world w;
  lead(w, session_state::live);
  w.now = w.all[first].lease.renew_at();
  BOOST_TEST((!w.keep_alive() && w.state() == session_state::live && w.acts<action::renew_session>()));
  BOOST_TEST((!w.keep_alive() && w.out.empty()));  // one request at a time
  w.now = w.all[first].lease.suspect_at();
  BOOST_TEST((w.keep_alive() && w.state() == session_state::suspect));
  BOOST_TEST(w.renewed(event::renewal::renewed));
  BOOST_TEST((w.keep_alive() && w.state() == session_state::live));
  BOOST_TEST((w.keep_alive(true) && !w.keep_alive(true) && w.state() == session_state::suspect));
}

BOOST_AUTO_TEST_CASE(a_failed_renewal_is_repeated_and_extends_nothing) {
  for (const event::renewal how : {event::renewal::failed, event::renewal::gone}) {
    world w;
    lead(w, session_state::live);
    const time_point deadline = w.all[first].lease.deadline();
    w.now = w.all[first].lease.renew_at();
    w.keep_alive();
    BOOST_TEST(w.renewed(how) == (how == event::renewal::failed));
    BOOST_TEST((w.all[first].lease.deadline() == deadline && w.all[first].lease.renew_at() > w.now));
  }
}

BOOST_AUTO_TEST_CASE(an_answer_after_the_deadline_revives_nothing) {
  world w;
  lead(w, session_state::live);
  const time_point deadline = w.all[first].lease.deadline();
  w.now = w.all[first].lease.renew_at();
  w.keep_alive();
  w.now = deadline;
  w.renewed(event::renewal::renewed);
  bool has_expired = false;
  w.step([&] { has_expired = w.ctx.due_or_wake(w.all[first].lease.deadline()); });
  BOOST_TEST(has_expired);
}

BOOST_AUTO_TEST_CASE(a_session_that_must_end_is_destroyed_until_that_succeeds_or_it_has_expired) {
  world w;
  lead(w, session_state::suspect);
  const auto destroy = [&](bool may) { w.step([&] { w.all.destroy(w.ctx, [may](const unused&) { return may; }); }); };
  w.step([&] { w.all.retire(first).until = w.now + 30s; });
  BOOST_TEST((w.is_forgotten() && w.all.is_ours("s1")));
  destroy(false);
  BOOST_TEST(w.out.empty());
  destroy(true);
  BOOST_TEST(w.acts<action::destroy_session>());
  destroy(true);
  BOOST_TEST(w.out.empty());  // one request at a time
  w.step([&] { BOOST_TEST((w.all.destroyed(w.ctx, {"s1", false}) == w.all.ending().end())); });
  w.now += 2s;
  destroy(true);
  BOOST_TEST(w.acts<action::destroy_session>());
  const world copy = w;
  w.step([&] {
    const auto at = w.all.destroyed(w.ctx, {"s1", true});
    BOOST_REQUIRE((at != w.all.ending().end()));
    w.all.remove(at);
  });
  BOOST_TEST(!w.all.is_ours("s1"));
  w = copy;
  w.now += 30s;
  w.step([&] {
    const auto at = w.all.let_expire(w.ctx);
    BOOST_REQUIRE((at != w.all.ending().end()));
    w.all.remove(at);
  });
  BOOST_TEST((w.acts<action::forget_session>() && !w.all.is_ours("s1")));
}

BOOST_AUTO_TEST_SUITE_END()
