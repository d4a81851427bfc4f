// SPDX-FileCopyrightText: The holdfast authors
// SPDX-License-Identifier: BSL-1.0

#pragma once

#include <sys/types.h>

#include <boost/json/object.hpp>
#include <boost/json/value.hpp>
#include <chrono>
#include <cstdint>
#include <functional>
#include <holdfast/testing/store.hpp>
#include <iosfwd>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "support/raw_http.hpp"

// Consul, or the model of it, as a fact about Consul sees it: by raw HTTP, with no code of the library under test.
namespace holdfast::test {

/// An entry as JSON has it. Where a `peer` returns one, its key is without the fact's prefix.
struct entry {
  std::string key;
  std::string value;  ///< in base64; empty for null
  std::uint64_t flags = 0;
  std::string session;  ///< empty if there is none
  std::uint64_t created = 0, modified = 0, locked = 0;
  bool operator==(const entry&) const = default;
};
std::ostream& operator<<(std::ostream& out, const entry& e);

struct peer_reply : raw_reply {
  /// Returns the status and the body, which most facts are about: "200 true". The newline that a development agent adds
  /// to JSON is left out.
  std::string said() const;
  /// Like `said`, without the "Bad request: " that Consul 1.12 puts before some of its errors.
  std::string complaint() const;
  std::uint64_t index() const;  ///< X-Consul-Index
  /// True if Consul's router redirects the request. The status of that depends on the version of Go with which Consul
  /// was built.
  bool is_redirection() const { return status == 301 || status == 307; }
  std::string header(const std::string& name) const;
  boost::json::value json() const;     ///< these fail the test if the body is something else
  std::size_t size() const;            ///< of the JSON array
  std::vector<entry> entries() const;  ///< with whole keys
  entry first() const;
};

/// An operation of a transaction: `op("set", "a").value("v")`. The key is completed with the fact's prefix.
class op {
public:
  op(std::string verb, std::string key) : key_(std::move(key)) { fields_["Verb"] = verb; }
  op& value(std::string_view v);
  op& flags(std::uint64_t f) { return with("Flags", f); }
  op& index(std::uint64_t i) { return with("Index", i); }
  op& session(std::string_view id) { return with("Session", boost::json::string(id.data(), id.size())); }
  op& with(std::string_view name, boost::json::value v);
  boost::json::value json(std::string_view prefix) const;

private:
  std::string key_;
  boost::json::object fields_;
};

struct txn_outcome {
  int status = 0;
  std::vector<entry> results;
  /// "1: key "..." exists": the number of the operation, and what Consul says about it.
  std::vector<std::string> errors;
  peer_reply reply;
};

/// A pending blocking query. It waits for longer than any test, so an answer means that something has woken it.
class watch {
public:
  /// Returns when the query waits at that process, or has been answered.
  watch(raw_request request, pid_t process, std::chrono::milliseconds reply_within);
  /// Returns true if nothing has woken the query so far. If an answer is on its way all the same, it belongs to what
  /// was done before, and `woken` returns it.
  bool still_waits() const;
  /// Returns the reply, which must come soon.
  peer_reply woken();

private:
  raw_request request_;
  pid_t process_;
  std::chrono::milliseconds reply_within_;
};

/// Consul, or the model, with the keys and sessions of one fact. It destroys its sessions at the end, so that facts do
/// not see each other's.
class peer {
public:
  /// The test fails if a request gets no reply within `reply_within`, which must be below 40 s. `process` is the
  /// process that answers.
  peer(std::string host, std::uint16_t port, pid_t process, std::string prefix, std::chrono::milliseconds reply_within);
  peer(const peer&) = delete;
  peer& operator=(const peer&) = delete;
  ~peer();

  const std::string& prefix() const { return prefix_; }
  const std::string& host() const { return host_; }
  /// The version of Consul, or the one that the model imitates. Some facts hold only for some versions.
  const testing::consul_version& version() const;
  bool is_from(unsigned minor_number, unsigned patch_number = 0) const {
    return version() >= testing::consul_version{1, minor_number, patch_number};
  }
  /// How the replies to a refused write, and to a refused session, begin.
  std::string write_failed() const { return is_from(10) ? "500 raft apply failed: " : "500 "; }
  std::string session_failed() const { return is_from(10) ? "500 apply failed: " : "500 "; }
  /// True if a blocking query for a missing key wakes only when the key is created.
  bool missing_is_no_news() const { return is_from(11, 4) || (is_from(10, 9) && !is_from(11)); }
  peer_reply request(std::string_view method, std::string_view target, std::string_view body = {}) const;

  // Names are below the fact's prefix, as they stand in a URL, and may be followed by a query: "a?cas=0".
  peer_reply get(std::string_view name) const { return request("GET", target(name)); }
  peer_reply put(std::string_view name, std::string_view value = {}) const {
    return request("PUT", target(name), value);
  }
  peer_reply del(std::string_view name) const { return request("DELETE", target(name)); }
  entry read(std::string_view name) const;  ///< fails the test if there is none
  std::vector<entry> list(std::string_view prefix) const;
  /// The names, with blanks between them. `query` as in "&separator=/".
  std::string keys(std::string_view prefix, std::string_view query = {}) const;
  std::uint64_t index(std::string_view name) const { return get(name).index(); }
  bool exists(std::string_view name) const { return get(name).status == 200; }

  /// Creates a session without checks and without lock delay, unless `fields` asks for them.
  std::string session(boost::json::object fields = {});
  peer_reply create_session(std::string_view body);  ///< with exactly this body
  /// Creates a session with a short TTL that has acquired the key. On a busy machine a session may expire before it is
  /// used. Then another one is created, with a TTL twice as long.
  std::string brief_session_with(std::string_view key, boost::json::object fields = {});
  peer_reply destroy(std::string_view id) const { return request("PUT", "/v1/session/destroy/" + std::string(id)); }
  peer_reply renew(std::string_view id) const { return request("PUT", "/v1/session/renew/" + std::string(id)); }
  peer_reply info(std::string_view id) const { return request("GET", "/v1/session/info/" + std::string(id)); }
  /// Returns when the session is gone.
  void wait_for_end(std::string_view id) const;
  /// Returns the session from the reply of `/v1/session/info`.
  boost::json::value session_info(std::string_view id) const;

  txn_outcome txn(const std::vector<op>& operations) const;

  /// Begins a query that is answered when the index of this read is above its current one, or above `index`.
  holdfast::test::watch watch(std::string_view name) const { return watch(name, index(name)); }
  holdfast::test::watch watch(std::string_view name, std::uint64_t index) const;
  holdfast::test::watch watch_target(std::string_view target, std::uint64_t index) const;
  /// Follows the read from `index` on, one query after the other, until `is_last` is true for a reply. So no event is
  /// missed that comes before the next query is there. Returns that reply.
  peer_reply follow(std::string_view target, std::uint64_t index,
                    const std::function<bool(const peer_reply&)>& is_last) const;

  /// The path of a key, for `watch_target` and `follow`.
  std::string target(std::string_view name) const;

private:
  std::string host_;
  std::uint16_t port_;
  pid_t process_;
  std::string prefix_;
  std::chrono::milliseconds reply_within_;
  std::vector<std::string> sessions_;
  mutable std::optional<testing::consul_version> version_;  // once it was asked
};

std::string base64(std::string_view bytes);

/// An id that no session has.
inline constexpr auto unknown_session = "00000000-0000-0000-0000-000000000000";

}  // namespace holdfast::test
