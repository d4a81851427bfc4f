// SPDX-FileCopyrightText: The holdfast authors
// SPDX-License-Identifier: BSL-1.0

// Input that cannot work. Each mistake gives an error of its own kind and a message that names the mistake, and changes
// nothing in Consul.

#include <boost/asio/io_context.hpp>
#include <boost/test/unit_test.hpp>
#include <ostream>

#include "protocol/record/lock_record.hpp"
#include "support/agent.hpp"
#include "support/async.hpp"
#include "support/participant.hpp"

namespace holdfast::test {
namespace {

using protocol::semaphore_flags;

/// Returns the code and the message of the exception that `make()` throws.
template <class Make>
std::pair<error_code, std::string> refusal_of(Make make) {
  try {
    make();
  } catch (const system_error& e) {
    return {e.code(), e.what()};
  }
  return {};
}

std::pair<error_code, std::string> refusal_of(semaphore_options options) {
  return refusal_of([&] {
    asio::io_context io;
    const holdfast::semaphore sem(consul::client(io), std::move(options));
  });
}

/// The code with which the constructor of another lock, or of an administration, refuses its options.
template <class Lock, class Options>
error_code refused_by(Options options) {
  return refusal_of([&] {
           asio::io_context io;
           const Lock made(consul::client(io), std::move(options));
         })
      .first;
}

bool contains(const std::string& text, const std::string& part) { return text.find(part) != std::string::npos; }

struct failed_acquire {
  error_code code;
  diagnostics words;
};

/// The same error, whichever way it is asked.
asio::awaitable<failed_acquire> expect_failure(holdfast::semaphore& sem, error expected) {
  failed_acquire result;
  const acquire_options options{.diag = &result.words};
  auto [ec, none] = co_await sem.acquire(options, as_result);
  BOOST_TEST_CONTEXT(result.words.to_string()) {
    BOOST_TEST(ec == expected);
    BOOST_TEST(!none.valid());
    BOOST_TEST(!result.words.message.empty());
  }
  result.code = ec;
  diagnostics more;
  const acquire_options looking{.diag = &more};
  auto [tried, nothing] = co_await sem.try_acquire(looking, as_result);
  BOOST_TEST_CONTEXT(more.to_string()) {
    BOOST_TEST(tried == expected);
    BOOST_TEST(!nothing.valid());
  }
  co_return result;
}

consul::config impatient(const std::string& address) {
  consul::config c;
  c.address = address;
  return c;
}

}  // namespace
}  // namespace holdfast::test

using namespace holdfast;
using namespace holdfast::test;

BOOST_AUTO_TEST_SUITE(bad_input)

BOOST_AUTO_TEST_CASE(bad_prefixes_are_refused_and_a_trailing_slash_is_not) {
  for (const char* prefix :
       {"",         "/",     "/a",   "a//b",   "a//",      "//",           ".",        "..",
        "./a",      "a/.",   "a/..", "a/../b", "a/./b/",   "a\n",          "a\x7f",    "a\xc2\x85",
        "\x01",     "a\xff", "\xc3", "\x80",   "\xc0\xaf", "\xed\xa0\x80", "\xe2\x82", "\xf4\x90\x80\x80",
        "\xc3/\xa9"}) {
    const auto [code, words] = refusal_of(calm(prefix, 1));
    BOOST_TEST_CONTEXT("prefix \"" << prefix << "\": " << words) {
      BOOST_TEST(code == error::invalid_prefix);
      BOOST_TEST((code == condition::misuse));
      BOOST_TEST(contains(words, "prefix"));
    }
  }
  asio::io_context io;
  const participant p(io.get_executor(), "127.0.0.1:1", calm("a/b/", 1));
  BOOST_TEST(p.sem.prefix() == "a/b");
  for (const char* prefix : {"a/.b", "...", "a b", "\xc3\xa9/\xe2\x82\xac/\xf0\x9f\x94\x92"}) {
    const auto [code, words] = refusal_of(calm(prefix, 1));
    BOOST_TEST(!code, "prefix \"" << prefix << "\": " << words);
  }
}

BOOST_AUTO_TEST_CASE(limits_out_of_range_are_refused) {
  for (const std::uint32_t limit : {0u, protocol::limit_max + 1, 4'000'000'000u}) {
    const auto [code, words] = refusal_of(calm("p", limit));
    BOOST_TEST(code == error::invalid_limit);
    BOOST_TEST(contains(words, "limit"));
  }
  const auto [code, words] = refusal_of(calm("p", protocol::limit_max));
  BOOST_TEST(!code);
}

BOOST_AUTO_TEST_CASE(ttls_out_of_range_are_refused) {
  for (const std::chrono::milliseconds ttl : {0ms, -1ms, std::chrono::milliseconds(24h) + 1ms}) {
    semaphore_options options = calm("p", 1);
    options.session_ttl = ttl;
    const auto [code, words] = refusal_of(options);
    BOOST_TEST(code == error::invalid_ttl);
    BOOST_TEST(contains(words, "session_ttl"));
  }
}

BOOST_AUTO_TEST_CASE(other_options_out_of_range_are_refused_by_name) {
  const auto refused = [](auto change, const char* name) {
    semaphore_options options = calm("p", 1);
    change(options);
    const auto [code, words] = refusal_of(options);
    BOOST_TEST(code == error::invalid_option);
    BOOST_TEST(contains(words, name), words << " does not name " << name);
  };
  refused([](auto& o) { o.lock_key = "a/b"; }, "lock_key");
  refused([](auto& o) { o.lock_key = ""; }, "lock_key");
  refused([](auto& o) { o.lock_key = "."; }, "lock_key");
  refused([](auto& o) { o.lock_key = ".."; }, "lock_key");
  refused([](auto& o) { o.lock_key = "a\tb"; }, "lock_key");
  refused([](auto& o) { o.lock_key = "\xff"; }, "lock_key");
  refused([](auto& o) { o.description = std::string(1025, 'x'); }, "description");
  refused([](auto& o) { o.description = "a\n{\"Limit\":1}"; }, "description");
  refused([](auto& o) { o.description = "a\n@12"; }, "description");
  refused([](auto& o) { o.tuning.lease_margin = o.session_ttl; }, "tuning.lease_margin");
  refused([](auto& o) { o.tuning.lease_margin = 0ms; }, "tuning.lease_margin");  // no slow clock would be safe
  refused([](auto& o) { o.tuning.lock_delay = 61s; }, "tuning.lock_delay");
  refused([](auto& o) { o.tuning.waiters_max = 0; }, "tuning.waiters_max");
  refused([](auto& o) { o.tuning.local_handoff_time = -1ms; }, "tuning.local_handoff_time");
  refused([](auto& o) { o.tuning.request_timeout = 10min + 1ms; },
          "tuning.request_timeout");  // what the client accepts
  refused([](auto& o) { o.tuning.request_timeout = 0ms; }, "tuning.request_timeout");
  refused([](auto& o) { o.tuning.yield_interval = 1s; }, "tuning.yield_interval");  // of mutexes only
  semaphore_options most = calm("p", 1);
  most.tuning.request_timeout = 10min;
  const auto [code, words] = refusal_of(most);
  BOOST_TEST(!code, words);
}

BOOST_AUTO_TEST_CASE(the_other_locks_refuse_the_same) {
  for (const char* key : {"", "/a", "a//b", "a/../b", "a\n"}) {
    BOOST_TEST(refused_by<holdfast::mutex>(mutex_options{.key = key}) == error::invalid_prefix);
    BOOST_TEST(refused_by<mutex_set>(mutex_set_options{.prefix = key}) == error::invalid_prefix);
    BOOST_TEST(refused_by<election>(election_options{.key = key}) == error::invalid_prefix);
    BOOST_TEST(refused_by<election_observer>(std::string(key)) == error::invalid_prefix);
    BOOST_TEST(refused_by<semaphore_administration>(administration_options{.prefix = key}) == error::invalid_prefix);
  }
  BOOST_TEST(refused_by<holdfast::mutex>(mutex_options{.key = "a/"}) == error::invalid_prefix);
  BOOST_TEST(refused_by<holdfast::mutex>(mutex_options{.key = "a", .session_ttl = 0ms}) == error::invalid_ttl);
  BOOST_TEST(refused_by<mutex_set>(mutex_set_options{.prefix = "a", .session_ttl = 0ms}) == error::invalid_ttl);
  BOOST_TEST(refused_by<election>(election_options{.key = "a", .session_ttl = 0ms}) == error::invalid_ttl);
  const tuning slow{.lock_delay = 61s};
  BOOST_TEST(refused_by<holdfast::mutex>(mutex_options{.key = "a", .tuning = slow}) == error::invalid_option);
  BOOST_TEST(refused_by<mutex_set>(mutex_set_options{.prefix = "a", .tuning = slow}) == error::invalid_option);
  BOOST_TEST(refused_by<election>(election_options{.key = "a", .tuning = slow}) == error::invalid_option);
  for (const char* text : {"a\n{\"Limit\":1}", "a\n@12"})
    BOOST_TEST(refused_by<holdfast::mutex>(mutex_options{.key = "a", .description = text}) == error::invalid_option);
  for (const administration_options& each :
       {administration_options{.prefix = "p", .lock_key = "a/b"}, administration_options{.prefix = "p", .timeout = 0ms},
        administration_options{.prefix = "p", .timeout = -1ms}, administration_options{.prefix = "p", .timeout = 11min},
        administration_options{.prefix = "p", .attempts_max = 0}})
    BOOST_TEST(refused_by<semaphore_administration>(each) == error::invalid_option);
}

ASYNC_TEST_CASE(a_ttl_below_the_servers_minimum_fails_with_consuls_words, 30s) {
  const agent own(agent_options{.session_ttl_min = "10s"});
  const std::string prefix = unique_prefix("ttl");
  semaphore_options options = calm(prefix, 1);
  options.session_ttl = 2s;
  participant p(ex, own, options);
  const acquire_options plain;
  diagnostics words;
  acquire_options asked = plain;
  asked.diag = &words;
  auto [ec, none] = co_await p.sem.acquire(asked, as_result);
  BOOST_TEST_INFO(words.to_string());
  BOOST_TEST(ec == error::invalid_ttl);
  BOOST_TEST(contains(words.server_message, "Invalid Session TTL"));
  BOOST_TEST(contains(words.server_message, "between [10s=24h0m0s]"));
  BOOST_TEST(listing(own, prefix).empty());
  BOOST_TEST(sessions(own, prefix).empty());
}

ASYNC_TEST_CASE(a_token_without_rights_is_told_so_and_changes_nothing, 60s) {
  // In this agent, requests without a token may do everything, as the tests have to.
  const std::string master = "11111111-1111-1111-1111-111111111111";
  const agent own(
      agent_options{.extra_config = R"({"acl":{"enabled":true,"default_policy":"deny","tokens":{"master":")" + master +
                                    R"(","default":")" + master + R"("}}})"});
  // Returns a token with these rules, or an empty string until the agent has left its legacy mode.
  const auto token_with = [&](const std::string& name, const std::string& rules) {
    const std::string policy = R"({"Name":")" + name + R"(","Rules":")" + rules + R"("})";
    const std::string token = R"({"Policies":[{"Name":")" + name + R"("}]})";
    if (own.put("/v1/acl/policy", policy).status != 200) return std::string();
    const std::string body = own.put("/v1/acl/token", token).body;
    const auto at = body.find("SecretID");
    return at == std::string::npos ? std::string() : body.substr(body.find('-', at) - 8, 36);
  };
  const std::string prefix = unique_prefix("acl");
  std::string sessions_only;
  co_await until("the agent takes policies", [&] {
    sessions_only = token_with("sessions", R"(session_prefix \"\" { policy = \"write\" })");
    return !sessions_only.empty();
  });
  const std::string may_read =
      token_with("read", R"(session_prefix \"\" { policy = \"write\" } key_prefix \"\" { policy = \"read\" })");
  const std::string all = token_with(
      "all",
      R"(session \"holdfast-sessions\" { policy = \"write\" } node \"holdfast-sessions\" { policy = \"write\" } )"
      R"(key_prefix \"test/\" { policy = \"write\" })");
  const std::string nothing = token_with("nothing", R"(operator = \"read\")");

  const std::string no_sessions = token_with("keys", R"(key_prefix \"\" { policy = \"write\" })");

  write_key(own, prefix + "/.lock", R"({"Limit":1,"Holders":{}})", semaphore_flags);
  const std::string before = listing(own, prefix);
  const std::string tokens[] = {"99999999-9999-9999-9999-999999999999", nothing, sessions_only, may_read};
  for (const std::string& token : tokens) {
    BOOST_TEST_CONTEXT("token " << &token - tokens) {
      consul::config settings = impatient(own.address());
      settings.token = token;
      const consul::client client(ex, settings);
      holdfast::semaphore sem(client, calm(prefix, 1));
      const failed_acquire result = co_await expect_failure(sem, error::permission_denied);
      BOOST_TEST((result.code == condition::not_applied));
      BOOST_TEST(!contains(result.words.to_string(), token));  // secrets are not for logs
      BOOST_TEST(listing(own, prefix) == before);
      co_await sem.close();
      BOOST_TEST(sessions(own, prefix).empty());

      // An operator without the right to read sees nothing, or gets an error. An operator without the right to write
      // changes nothing.
      administration_options which;
      which.prefix = prefix;
      semaphore_administration admin(client, which);
      diagnostics words;
      consul::request_options request;
      request.diag = &words;
      // From 1.12 on Consul says that it hides something.
      const bool blind =
          (token == nothing || token == sessions_only) && consul_programs_version() < testing::consul_version{1, 12, 0};
      auto [closed] = co_await admin.close(request, as_result);
      BOOST_TEST(closed == (blind ? error::no_semaphore : error::permission_denied));
      BOOST_TEST(!contains(words.to_string(), token));
      auto [created] = co_await admin.create(2, request, as_result);
      BOOST_TEST(created == (token == may_read ? error::limit_conflict : error::permission_denied));
      BOOST_TEST(listing(own, prefix) == before);
    }
  }
  {
    consul::config settings = impatient(own.address());
    settings.token = no_sessions;
    holdfast::semaphore sem(consul::client(ex, settings), calm(prefix, 1));
    const std::string words = (co_await expect_failure(sem, error::permission_denied)).words.to_string();
    for (const std::string kind : {"session", "node"})
      BOOST_TEST(contains(words, kind + R"( "holdfast-sessions" { policy = "write" })"), words);
    co_await sem.close();
  }
  consul::config settings = impatient(own.address());
  settings.token = all;
  const consul::client client(ex, settings);
  holdfast::semaphore sem(client, calm(prefix, 1));
  slot held = co_await sem.acquire();
  BOOST_TEST(held.held());
  co_await held.release();
}

BOOST_AUTO_TEST_SUITE_END()
