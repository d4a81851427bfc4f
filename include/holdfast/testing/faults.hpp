#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace holdfast::testing {

/// What goes wrong with one request. A new kind goes into `kinds` and `to_string` below: all tests of faults go by
/// these, and fail with its name where they know nothing of it. Made by the named functions below.
struct fault {
  enum class kind {
    none,
    delay,               ///< it reaches Consul `time` later
    drop_request,        ///< it never does; its connection is reset
    drop_reply,          ///< it is applied, and its connection reset in place of the reply
    cut_reply,           ///< it is applied; the connection ends after half of the reply's bytes
    duplicate,           ///< it is applied twice; the second reply is the one that is sent
    answer,              ///< it is not applied; the reply is `status` and `text`
    answer_applied,      ///< it is applied, and the reply is that all the same: Consul has been seen to do so
    refuse_connections,  ///< it is not applied; its connection is reset, and so are the next `count` as they are
                         ///< accepted
    freeze,              ///< nothing happens until `thaw`: then it is applied, though the client may have gone
    index_reset,         ///< it is applied, and its reply's X-Consul-Index is 1, as after a loss of state
    expire_session,      ///< the session that it names (the first UUID of target, else of body) has ended just before
    trickle,             ///< it is applied; the reply comes one byte after another, `time` apart
    repeat_later,        ///< it is applied and answered; a copy of it is applied `time` later, whose reply nobody gets
    interim,             ///< it is applied; `count` interim replies of `status`, a 1xx, come before its reply
  };

  /// All of them.
  static constexpr kind kinds[] = {
      kind::none,        kind::delay,          kind::drop_request,   kind::drop_reply,         kind::cut_reply,
      kind::duplicate,   kind::answer,         kind::answer_applied, kind::refuse_connections, kind::freeze,
      kind::index_reset, kind::expire_session, kind::trickle,        kind::repeat_later,       kind::interim};

  kind what = kind::none;
  std::chrono::milliseconds time{0};
  unsigned status = 0;
  std::string text{};
  std::size_t count = 0;
  bool operator==(const fault&) const = default;

  static fault delay(std::chrono::milliseconds time) { return {kind::delay, time, 0, {}, 0}; }
  static fault drop_request() { return {kind::drop_request, {}, 0, {}, 0}; }
  static fault drop_reply() { return {kind::drop_reply, {}, 0, {}, 0}; }
  static fault cut_reply() { return {kind::cut_reply, {}, 0, {}, 0}; }
  static fault duplicate() { return {kind::duplicate, {}, 0, {}, 0}; }
  static fault answer(unsigned status, std::string text) { return {kind::answer, {}, status, std::move(text), 0}; }
  static fault answer_applied(unsigned status, std::string text) {
    return {kind::answer_applied, {}, status, std::move(text), 0};
  }
  static fault no_leader() { return answer(500, "No cluster leader"); }
  static fault forbidden() { return answer(403, "Permission denied"); }
  static fault too_many_requests() { return answer(429, "Your IP is issuing too many concurrent connections"); }
  /// As `limits.request_limits` of Consul 1.16 and later has a server answer: the first for itself, the second for want
  /// of another server. The request was not applied.
  static fault rate_limited_by_server() {
    return answer(429, "rate limit exceeded, try again later or against a different server");
  }
  static fault rate_limited_by_leader() {
    return answer(503, "rate limit exceeded for operation that can only be performed by the leader, try again later");
  }
  /// What a renewal is told of a session that has ended, or by a new leader that does not know it yet.
  static fault session_not_found(const std::string& id) { return answer(404, "Session id '" + id + "' not found"); }
  static fault refuse_connections(std::size_t count = 1) { return {kind::refuse_connections, {}, 0, {}, count}; }
  static fault freeze() { return {kind::freeze, {}, 0, {}, 0}; }
  static fault index_reset() { return {kind::index_reset, {}, 0, {}, 0}; }
  static fault expire_session() { return {kind::expire_session, {}, 0, {}, 0}; }
  static fault trickle(std::chrono::milliseconds between) { return {kind::trickle, between, 0, {}, 0}; }
  static fault repeat_later(std::chrono::milliseconds time) { return {kind::repeat_later, time, 0, {}, 0}; }
  static fault interim(unsigned status = 100, std::size_t count = 1) { return {kind::interim, {}, status, {}, count}; }
};

constexpr std::string_view to_string(fault::kind kind) noexcept {
  switch (kind) {
    case fault::kind::none:
      return "none";
    case fault::kind::delay:
      return "delay";
    case fault::kind::drop_request:
      return "drop_request";
    case fault::kind::drop_reply:
      return "drop_reply";
    case fault::kind::cut_reply:
      return "cut_reply";
    case fault::kind::duplicate:
      return "duplicate";
    case fault::kind::answer:
      return "answer";
    case fault::kind::answer_applied:
      return "answer_applied";
    case fault::kind::refuse_connections:
      return "refuse_connections";
    case fault::kind::freeze:
      return "freeze";
    case fault::kind::index_reset:
      return "index_reset";
    case fault::kind::expire_session:
      return "expire_session";
    case fault::kind::trickle:
      return "trickle";
    case fault::kind::repeat_later:
      return "repeat_later";
    case fault::kind::interim:
      return "interim";
  }
  return {};
}

/// Which requests a fault meets.
struct fault_rule {
  fault what;
  /// Part of the method and target, as in "PUT /v1/txn" or "index="; empty: any.
  std::string target{};
  /// Part of the body, as in "\"lock\""; empty: any.
  std::string body{};
  std::size_t skip = 0;    ///< so many such requests pass first
  std::size_t times = 1;   ///< so many are met; 0: all
  double probability = 1;  ///< by the plan's seed
};

/// What goes wrong, in what order. Scripted by rules: the first that fits a request decides. Pure: the same plan, asked
/// about the same requests, gives the same faults.
class fault_plan {
public:
  /// Nothing goes wrong.
  fault_plan() = default;
  explicit fault_plan(std::vector<fault_rule> rules, std::uint64_t seed = 1);
  /// Every kind of fault but `freeze` now and then: `probability` for each request, times up to `longest`.
  static fault_plan random(std::uint64_t seed, double probability,
                           std::chrono::milliseconds longest = std::chrono::milliseconds(50));

  /// The fault for this request; counts it. `line` is method and target: "PUT /v1/txn".
  fault next(std::string_view line, std::string_view body);
  std::size_t met() const noexcept { return met_; }  ///< faults given out

private:
  struct counted {
    fault_rule rule;
    std::size_t seen = 0;
    std::size_t met = 0;
  };
  std::vector<counted> rules_;
  std::uint64_t random_ = 1;
  std::size_t met_ = 0;
};

}  // namespace holdfast::testing
