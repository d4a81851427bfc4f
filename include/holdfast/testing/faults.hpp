// SPDX-FileCopyrightText: The holdfast authors
// SPDX-License-Identifier: BSL-1.0

#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <holdfast/detail/enumeration.hpp>
#include <holdfast/detail/export.hpp>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace holdfast::testing {

/// A fault that happens to one request. Use the named functions below to make one, such as `fault::drop_reply()`.
struct fault {
  // A new kind must be added to `to_string` below. The tests of faults try all kinds, and fail with the name of a kind
  // that they do not cover.
  enum class kind {
    none,
    delay,               ///< the request reaches Consul `time` later
    drop_request,        ///< the request never reaches Consul; its connection is reset
    drop_reply,          ///< the request is applied; its connection is reset instead of the reply
    cut_reply,           ///< the request is applied; the connection is closed after half of the reply's bytes
    duplicate,           ///< the request is applied twice; the client gets the second reply
    answer,              ///< the request is not applied; the reply is `status` and `text`
    answer_applied,      ///< the request is applied; the reply still is `status` and `text`, as observed with Consul
    refuse_connections,  ///< the request is not applied; its connection is reset, and the next `count` connections are
                         ///< reset as they are accepted
    freeze,              ///< nothing happens until `thaw`; then the request is applied, even if the client has gone
    index_reset,         ///< the request is applied; its reply has X-Consul-Index 1, as after a loss of state
    expire_session,      ///< the session that the request names ends just before the request is applied; the name is
                         ///< the first UUID in the target, or else in the body
    trickle,             ///< the request is applied; the reply comes one byte at a time, `time` apart
    repeat_later,        ///< the request is applied and answered; a copy of it is applied `time` later, without a reply
    other_key,  ///< a request for keys by URL is applied to another key, as Consul 1.12.0 did if a key had a '%'
    interim,    ///< the request is applied; `count` interim replies of `status` (1xx) precede its reply
  };

  kind what = kind::none;
  std::chrono::milliseconds time{0};
  unsigned status = 0;
  std::string text{};
  std::size_t count = 0;
  std::string content_type{};  ///< of `text`; empty: Consul's, which is text/plain
  std::string location{};      ///< where a 3xx leads
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
  /// A reply of something else than Consul, such as a load balancer or a login page. The request is not applied.
  static fault not_consul(unsigned status, std::string text = "<html>Please wait</html>",
                          std::string content_type = "text/html", std::string location = {}) {
    return {kind::answer, {}, status, std::move(text), 0, std::move(content_type), std::move(location)};
  }
  static fault no_leader() { return answer(500, "No cluster leader"); }
  static fault forbidden() { return answer(403, "Permission denied"); }
  static fault too_many_requests() { return answer(429, "Your IP is issuing too many concurrent connections"); }
  /// Replies of a server with `limits.request_limits`, in Consul 1.16 and later. After the first, another server may
  /// accept the request; after the second, only the leader could. The request is not applied.
  static fault rate_limited_by_server() {
    return answer(429, "rate limit exceeded, try again later or against a different server");
  }
  static fault rate_limited_by_leader() {
    return answer(503, "rate limit exceeded for operation that can only be performed by the leader, try again later");
  }
  /// The reply to the renewal of a session that has ended, or that a new leader does not know yet.
  static fault session_not_found(const std::string& id) { return answer(404, "Session id '" + id + "' not found"); }
  static fault refuse_connections(std::size_t count = 1) { return {kind::refuse_connections, {}, 0, {}, count}; }
  static fault freeze() { return {kind::freeze, {}, 0, {}, 0}; }
  static fault index_reset() { return {kind::index_reset, {}, 0, {}, 0}; }
  static fault expire_session() { return {kind::expire_session, {}, 0, {}, 0}; }
  static fault trickle(std::chrono::milliseconds between) { return {kind::trickle, between, 0, {}, 0}; }
  static fault repeat_later(std::chrono::milliseconds time) { return {kind::repeat_later, time, 0, {}, 0}; }
  static fault other_key() { return {kind::other_key, {}, 0, {}, 0}; }
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
    case fault::kind::other_key:
      return "other_key";
    case fault::kind::interim:
      return "interim";
  }
  return {};
}
/// All kinds.
inline constexpr auto fault_kinds = holdfast::detail::enumerators<fault::kind>();

/// Selects the requests to which a fault happens.
struct fault_rule {
  fault what;
  /// A part of the method and target, such as "PUT /v1/txn" or "index=". Empty: any request.
  std::string target{};
  /// A part of the body, such as "\"lock\"". Empty: any request.
  std::string body{};
  std::size_t skip = 0;    ///< the number of selected requests that pass first
  std::size_t times = 1;   ///< the number of requests to which the fault happens; 0: no limit
  double probability = 1;  ///< for each selected request; decided with the plan's seed
};

/// Decides which requests get a fault, by a list of rules, which are tried in order. A rule that selects the request
/// decides, unless it still skips, has reached `times`, or its `probability` says no. Then the next rule is tried. A
/// plan is deterministic: the same plan gives the same faults for the same requests in the same order.
class HOLDFAST_EXPORT fault_plan {
public:
  /// A plan without faults.
  fault_plan() = default;
  explicit fault_plan(std::vector<fault_rule> rules, std::uint64_t seed = 1);
  /// A plan with random faults of every kind except `none`, `freeze` and `other_key`. Each request gets a fault with
  /// `probability`. The times of `delay` and `repeat_later` are at most `longest`. The time between the bytes of
  /// `trickle` is a 200th of `longest`.
  static fault_plan random(std::uint64_t seed, double probability,
                           std::chrono::milliseconds longest = std::chrono::milliseconds(50));

  /// Returns the fault for this request, and counts the request. `line` is method and target: "PUT /v1/txn".
  fault next(std::string_view line, std::string_view body);
  std::size_t met() const noexcept { return met_; }  ///< the number of faults that `next` has returned

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
