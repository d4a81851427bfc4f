// SPDX-FileCopyrightText: The holdfast authors
// SPDX-License-Identifier: BSL-1.0

#pragma once

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <holdfast/log_event.hpp>
#include <initializer_list>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "protocol/broker/broker_pool.hpp"

namespace holdfast::test {

/// Drives one `broker_pool` step by step. Each step returns the actions of the pool. Each action is a line of text:
///
/// - probe 2 | seize 1 first | seize 1 | verify 1 | cleanse 1 | drop 1 | listen | stop listening | create 2
/// - vacate 1 token hint | vacate 1 hint | vacate 1
/// - settle hint 7 used | settle hint 7 back
/// - grant t1 A 1 (the number of the slot) | deny t1 | fail t1 why | released A | released A why | lose A why | revoke
/// A
///   | update A | suspect A | closed | closed why
///
/// Slots of users are A, B, ... in the order of their grants. An answer belongs to the last request of its slot.
class broker_story {
public:
  using lines = std::vector<std::string>;

  explicit broker_story(protocol::broker_options options = usual()) : pool(std::move(options), 1) {}
  static protocol::broker_options usual() {
    protocol::broker_options o;
    o.name = "reports";
    return o;
  }

  lines acquire(std::uint64_t t) { return step(protocol::event::acquire{protocol::ticket{t}}); }
  lines try_acquire(std::uint64_t t) { return step(protocol::event::acquire{protocol::ticket{t}, {.once = true}}); }
  lines cancel(std::uint64_t t) { return step(protocol::event::cancel{protocol::ticket{t}}); }
  lines release(char slot) { return step(protocol::event::release{slots_.at(static_cast<std::size_t>(slot - 'A'))}); }
  lines close(bool lose_slots = true) { return step(protocol::event::close{lose_slots}); }

  /// Each character tells of one slot: free, taken, or - for none.
  lines probed(const std::string& slots) {
    protocol::event::probed e{probe_};
    for (const char c : slots) e.slots.push_back({c != '-', c == 't'});
    return step(std::move(e));
  }
  lines probe_fails(error why = error::unreachable) { return step(protocol::event::probed{probe_, {}, failed(why)}); }
  lines seized(std::uint32_t k, bool token) { return seized(k, protocol::event::seizure::ok, token); }
  lines locked(std::uint32_t k) { return seized(k, protocol::event::seizure::locked); }
  lines no_such_slot(std::uint32_t k, bool token = false) {
    return seized(k, protocol::event::seizure::no_such_slot, token);
  }
  lines seize_fails(std::uint32_t k, error why = error::unreachable) {
    return step(
        protocol::event::seized{of(k).first, of(k).second, protocol::event::seizure::failed, false, failed(why)});
  }
  lines verified(std::uint32_t k, bool exists = true) {
    return step(protocol::event::verified{of(k).first, of(k).second, protocol::event::verification::ours, exists, {}});
  }
  lines gone(std::uint32_t k) {
    return step(protocol::event::verified{of(k).first, of(k).second, protocol::event::verification::gone, true, {}});
  }
  lines verify_fails(std::uint32_t k) {
    return step(protocol::event::verified{of(k).first, of(k).second, protocol::event::verification::failed, true,
                                          failed(error::timed_out)});
  }
  lines vacated(std::uint32_t k) { return step(protocol::event::vacated{of(k).first, of(k).second, {}}); }
  lines vacate_fails(std::uint32_t k) {
    return step(protocol::event::vacated{of(k).first, of(k).second, failed(error::connection_lost)});
  }
  lines ended(std::uint32_t k) {
    return step(protocol::event::connection_ended{of(k).first, failed(error::connection_lost)});
  }
  lines hinted(std::uint64_t hint, std::uint32_t k) {
    return step(protocol::event::hinted{protocol::hint_id{hint}, k});
  }
  lines blocked(bool on) { return step(protocol::event::blocked{on}); }
  lines seat_blocked(std::uint32_t k) { return step(protocol::event::seat_blocked{of(k).first}); }
  lines created() { return step(protocol::event::created{probe_, {}}); }
  lines step(protocol::broker_event e) {
    protocol::broker_actions out;
    pool.step(std::move(e), now, out);
    lines all;
    for (const auto& each : out) std::visit([&](const auto& a) { all.push_back(text(a)); }, each);
    return all;
  }

  /// Time passes, with a tick whenever the pool asks for one.
  lines after(protocol::duration d) {
    const auto end = now + d;
    lines all;
    while (pool.wake() <= end) {
      now = std::max(now, pool.wake());
      for (std::string& each : step(protocol::event::tick{})) all.push_back(std::move(each));
    }
    now = end;
    return all;
  }
  /// Time passes with one tick at its end, as if the process was paused.
  lines jump(protocol::duration d) {
    now += d;
    return step(protocol::event::tick{});
  }

  /// The index of a user's slot, under which the shell keeps its release until that is answered.
  std::size_t place(char slot) const { return index_of(slots_.at(static_cast<std::size_t>(slot - 'A'))); }

  protocol::time_point now{std::chrono::hours(1)};
  protocol::broker_pool pool;
  protocol::time_point deadline{};  ///< of the last grant or update

private:
  using request = std::pair<protocol::seat_id, protocol::request_id>;

  static protocol::failure failed(error why) { return {make_error_code(why), {}}; }
  const request& of(std::uint32_t k) const { return requests_.at(k); }
  lines seized(std::uint32_t k, protocol::event::seizure outcome, bool token = false) {
    return step(protocol::event::seized{of(k).first, of(k).second, outcome, token, {}});
  }
  template <class Request>
  std::string asks(const char* verb, const Request& a) {
    requests_[number_of(a.seat)] = {a.seat, a.id};
    return verb + std::to_string(number_of(a.seat));
  }
  std::string name(protocol::slot_id id) const {
    const auto at = std::find(slots_.begin(), slots_.end(), id);
    return at == slots_.end() ? "?" : std::string(1, static_cast<char>('A' + (at - slots_.begin())));
  }
  static std::string name(protocol::ticket t) { return "t" + std::to_string(static_cast<std::uint64_t>(t)); }
  static std::string why(const protocol::failure& f) {
    if (!f.code) return "";
    const bool ours = f.code.category() == error_category();
    return " " + (ours ? std::string(to_string(static_cast<error>(f.code.value()))) : f.code.message());
  }

  std::string text(const protocol::action::probe& a) {
    probe_ = a.id;
    return "probe " + std::to_string(a.count);
  }
  std::string text(const protocol::action::create& a) {
    probe_ = a.id;
    return "create " + std::to_string(a.count);
  }
  std::string text(const protocol::action::seize& a) { return asks("seize ", a) + (a.declares_tokens ? " first" : ""); }
  std::string text(const protocol::action::verify& a) { return asks("verify ", a); }
  std::string text(const protocol::action::cleanse& a) { return asks("cleanse ", a); }
  std::string text(const protocol::action::vacate& a) {
    return asks("vacate ", a) + (a.with_token ? " token" : "") + (a.with_hint ? " hint" : "");
  }
  std::string text(const protocol::action::drop& a) { return "drop " + std::to_string(number_of(a.seat)); }
  std::string text(const protocol::action::listen& a) { return a.on ? "listen" : "stop listening"; }
  std::string text(const protocol::action::settle_hint& a) {
    return "settle hint " + std::to_string(static_cast<std::uint64_t>(a.hint)) + (a.used ? " used" : " back");
  }
  std::string text(const protocol::action::grant& a) {
    slots_.push_back(a.slot);
    deadline = a.deadline;
    return "grant " + name(a.ticket) + " " + name(a.slot) + " " + std::to_string(a.numbers.at(0));
  }
  std::string text(const protocol::action::deny& a) { return "deny " + name(a.ticket); }
  std::string text(const protocol::action::fail& a) { return "fail " + name(a.ticket) + why(a.error); }
  std::string text(const protocol::action::released& a) {
    return "released " + name(a.slot) + why(a.error.value_or(protocol::failure()));
  }
  std::string text(const protocol::action::lose& a) {
    return "lose " + name(a.slot) + " " + std::string(to_string(a.reason));
  }
  std::string text(const protocol::action::revoke& a) { return "revoke " + name(a.slot); }
  std::string text(const protocol::action::update& a) {
    deadline = a.deadline;
    return (a.suspect ? "suspect " : "update ") + name(a.slot);
  }
  std::string text(const protocol::action::closed& a) { return "closed" + why(a.error); }
  std::string text(const protocol::action::ask_alive&) { return "ask"; }
  std::string text(const protocol::action::note& a) { return "note " + std::string(to_string(a.kind)); }

  protocol::request_id probe_ = 0;
  std::map<std::uint32_t, request> requests_;
  std::vector<protocol::slot_id> slots_;
};

}  // namespace holdfast::test
