// SPDX-FileCopyrightText: The holdfast authors
// SPDX-License-Identifier: BSL-1.0

#include "sim/support/broker_model.hpp"

#include <algorithm>
#include <utility>

namespace holdfast::test {

using namespace protocol;

// A token that is too early or too late lets two processes believe, or takes a slot from a user that has not released
// it.
const std::vector<broker_bug_info> broker_bugs{
    {broker_bug::no_purge, "no_purge", {promise::exclusion, promise::losses}},
    {broker_bug::lease_from_the_answer, "lease_from_the_answer", {promise::exclusion, promise::losses}},
    {broker_bug::wait_from_the_send, "wait_from_the_send", {promise::exclusion, promise::losses}},
    {broker_bug::no_question_before_the_token, "no_question_before_the_token", {promise::exclusion, promise::losses}},
    {broker_bug::token_after_an_unclean_end, "token_after_an_unclean_end", {promise::exclusion, promise::losses}},
    {broker_bug::no_wait, "no_wait", {promise::exclusion, promise::losses}},
    {broker_bug::token_while_believing, "token_while_believing", {promise::exclusion, promise::losses}},
    {broker_bug::token_got_before_b, "token_got_before_b", {promise::exclusion, promise::losses}},
    {broker_bug::token_before_the_user_lets_go, "token_before_the_user_lets_go", {promise::losses}},
    // A process that takes the slot meanwhile finds no token, so that each hold may cost a lease.
    {broker_bug::token_after_the_delete,
     "token_after_the_delete",
     {promise::exclusion, promise::losses, promise::progress}},
    {broker_bug::token_on_another_connection, "token_on_another_connection", {promise::exclusion, promise::losses}},
    {broker_bug::grant_without_verification, "grant_without_verification", {promise::exclusion, promise::losses}},
    {broker_bug::second_declare_wins, "second_declare_wins", {promise::exclusion}},
    {broker_bug::handoff_after_revoked, "handoff_after_revoked", {promise::losses}},
};

std::string_view to_string(broker_bug bug) {
  for (const broker_bug_info& each : broker_bugs)
    if (each.bug == bug) return each.name;
  return "none";
}

bool broker_queues::carry_out(broker_frame frame, std::uint32_t number, int connection, bool& got_token) {
  slot& s = of(number);
  switch (frame) {
    case broker_frame::declare_b:
      if (s.owner != 0 && s.owner != connection) return false;
      s.owner = connection;
      return true;
    case broker_frame::get_f:
      got_token = got_token || s.token;
      s.token = false;
      return true;
    case broker_frame::ask_a:
      return s.exists;
    case broker_frame::ask_b:
      return s.owner == connection;
    case broker_frame::purge_f:
      s.token = false;
      return true;
    case broker_frame::put_token:
      s.token = true;
      return true;
    case broker_frame::delete_b:
      if (s.owner != 0 && s.owner != connection) return false;
      s.owner = 0;
      return true;
    case broker_frame::put_hint:
      hints.push_back(number);
      return true;
  }
  return false;
}

void broker_queues::end_connection(int connection) {
  for (slot& s : slots)
    if (s.owner == connection) s.owner = 0;
}

void broker_queues::restart() {
  for (slot& s : slots) s = {s.exists, 0, false};
  hints.clear();
}

broker_event broker_write::answer() const {
  switch (what) {
    case kind::seize:
      if (refused == broker_frame::declare_b) return event::seized{seat, id, event::seizure::locked, got_token, {}};
      return event::seized{seat, id, refused ? event::seizure::no_such_slot : event::seizure::ok, got_token, {}};
    case kind::verify:
    case kind::cleanse:
      if (refused == broker_frame::ask_b) return event::verified{seat, id, event::verification::gone, true, {}};
      return event::verified{seat, id, event::verification::ours, !refused, {}};
    case kind::vacate:
      break;
  }
  return event::vacated{seat, id, {}};
}

broker_write write_of(const action::seize& a, broker_bug bug) {
  using enum broker_frame;
  broker_write w{a.seat, a.id, {declare_b, get_f, ask_a}, 0, {}, false, broker_write::kind::seize};
  if (bug == broker_bug::token_got_before_b) std::swap(w.frames[0], w.frames[1]);
  return w;
}

broker_write write_of(const action::verify& a) {
  using enum broker_frame;
  return {a.seat, a.id, {ask_b, ask_a}, 0, {}, false, broker_write::kind::verify};
}

broker_write write_of(const action::cleanse& a, broker_bug bug) {
  using enum broker_frame;
  broker_write w{a.seat, a.id, {purge_f, ask_b, ask_a}, 0, {}, false, broker_write::kind::cleanse};
  if (bug == broker_bug::no_purge) w.frames.erase(w.frames.begin());
  return w;
}

broker_write write_of(const action::vacate& a, broker_bug bug) {
  using enum broker_frame;
  broker_write w{a.seat, a.id, {ask_b}, 0, {}, false, broker_write::kind::vacate};
  if (bug == broker_bug::no_question_before_the_token) w.frames.clear();
  const bool elsewhere = bug == broker_bug::token_on_another_connection || bug == broker_bug::token_after_the_delete;
  if (a.with_token && !elsewhere) w.frames.push_back(put_token);
  w.frames.push_back(delete_b);
  if (a.with_hint) w.frames.push_back(put_hint);
  return w;
}

void bend(broker_options& options, broker_bug bug) {
  if (bug == broker_bug::lease_from_the_answer) options.lease_margin = -options.lease / 4;
  if (bug == broker_bug::wait_from_the_send) options.lease_extra = -options.lease * 2 / 5;
}

}  // namespace holdfast::test
