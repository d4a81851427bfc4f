// SPDX-FileCopyrightText: The holdfast authors
// SPDX-License-Identifier: BSL-1.0

#include "consul/call.hpp"

#include <boost/test/unit_test.hpp>

using namespace holdfast::consul;
using namespace holdfast::consul::detail;
using namespace std::chrono_literals;
using holdfast::error;

namespace {

call_settings settings_of(std::string datacenter = {}, std::string consul_namespace = {}, std::string partition = {}) {
  config c;
  c.datacenter = std::move(datacenter);
  c.consul_namespace = std::move(consul_namespace);
  c.partition = std::move(partition);
  return call_settings(c);
}

template <class Request>
call made(const Request& request) {
  return make_call(settings_of(), request);
}

std::string first_line(const call& c) { return std::string(c.request.method) + ' ' + c.request.target; }

call written(write_request::kind verb, std::uint64_t flags = 0) {
  return made(write_request{verb, "a/b c", "v", flags, 7, "s/1", {}});
}

read_options reading(consistency mode, std::uint64_t index = 0, std::chrono::milliseconds wait = 10s) {
  read_options options;
  options.mode = mode;
  options.index = index;
  options.wait = wait;
  return options;
}

}  // namespace

BOOST_AUTO_TEST_SUITE(consul_call)

BOOST_AUTO_TEST_CASE(reads) {
  BOOST_TEST(first_line(made(get_request{"a/b c", {}})) == "GET /v1/kv/a/b%20c");
  BOOST_TEST(first_line(made(list_request{"a/", reading(consistency::consistent)})) ==
             "GET /v1/kv/a/?recurse&consistent");
  BOOST_TEST(first_line(made(keys_request{"a/", "", reading(consistency::stale)})) == "GET /v1/kv/a/?keys&stale");
  BOOST_TEST(first_line(made(keys_request{"", "/", {}})) == "GET /v1/kv/?keys&separator=%2F");
  BOOST_TEST(first_line(made(session_info_request{"a/b", {}})) == "GET /v1/session/info/a%2Fb");
  const call c = made(get_request{"k", {}});
  BOOST_TEST((c.does == effect::none));
  BOOST_TEST(!c.request.is_write);
  BOOST_TEST(c.time.count() == 5000);
}

BOOST_AUTO_TEST_CASE(blocking_reads_wait_in_a_lane_of_their_own) {
  const call c = made(list_request{"a/", reading(consistency::leader, 18446744073709551615u, 16s)});
  BOOST_TEST(first_line(c) == "GET /v1/kv/a/?recurse&index=18446744073709551615&wait=16000ms");
  BOOST_TEST((c.where == connection_class::blocking));
  BOOST_TEST((c.time == 16s + 1s + 5s));
}

BOOST_AUTO_TEST_CASE(writes) {
  using kind = write_request::kind;
  BOOST_TEST(first_line(written(kind::put)) == "PUT /v1/kv/a/b%20c");
  BOOST_TEST(first_line(written(kind::put, 16210313421097356768u)) == "PUT /v1/kv/a/b%20c?flags=16210313421097356768");
  BOOST_TEST(first_line(written(kind::cas)) == "PUT /v1/kv/a/b%20c?cas=7");
  BOOST_TEST(first_line(written(kind::acquire, 3)) == "PUT /v1/kv/a/b%20c?acquire=s%2F1&flags=3");
  BOOST_TEST(first_line(written(kind::release)) == "PUT /v1/kv/a/b%20c?release=s%2F1");
  BOOST_TEST(first_line(written(kind::remove)) == "DELETE /v1/kv/a/b%20c");
  BOOST_TEST(first_line(written(kind::remove_tree)) == "DELETE /v1/kv/a/b%20c?recurse");
  BOOST_TEST(first_line(written(kind::remove_cas)) == "DELETE /v1/kv/a/b%20c?cas=7");
  const call c = written(kind::put);
  BOOST_TEST(c.request.body == "v");
  BOOST_TEST((c.request.type == content::bytes));
  BOOST_TEST(written(kind::remove).request.body == "");
  BOOST_TEST((c.does == effect::write));
  BOOST_TEST(c.request.is_write);
  BOOST_TEST((c.where == connection_class::ordinary));
  BOOST_TEST(c.key == "a/b c");
}

BOOST_AUTO_TEST_CASE(sessions) {
  const call create = made(session_create_request{});
  BOOST_TEST(first_line(create) == "PUT /v1/session/create");
  BOOST_TEST((create.does == effect::write));
  const call renew = made(session_renew_request{"id", {}});
  BOOST_TEST(first_line(renew) == "PUT /v1/session/renew/id");
  BOOST_TEST((renew.where == connection_class::renewal));
  BOOST_TEST((renew.does == effect::idempotent));
  const call destroy = made(session_destroy_request{"id", {}});
  BOOST_TEST(first_line(destroy) == "PUT /v1/session/destroy/id");
  BOOST_TEST((destroy.does == effect::idempotent));
}

BOOST_AUTO_TEST_CASE(a_node_is_read_by_its_name) {
  read_options consistent;
  consistent.mode = consistency::consistent;
  BOOST_TEST(first_line(made(node_read_request{"a/b", consistent})) == "GET /v1/catalog/node/a%2Fb?consistent");
  BOOST_TEST((made(node_read_request{"", {}}).refused == error::invalid_option));
}

BOOST_AUTO_TEST_CASE(nodes) {
  const auto registered = [](std::string name, std::string address) {
    return made(node_register_request{{std::move(name), std::move(address)}, {}});
  };
  const call c = registered("n", "127.0.0.1");
  BOOST_TEST(first_line(c) == "PUT /v1/catalog/register");
  BOOST_TEST(c.request.body == R"({"Node":"n","Address":"127.0.0.1"})");
  BOOST_TEST((c.request.type == content::json));
  BOOST_TEST((c.does == effect::idempotent));
  BOOST_TEST(c.request.is_write);
  BOOST_TEST(c.key == "n");
  BOOST_TEST(!c.refused);
  BOOST_TEST(registered("", "127.0.0.1").refused == error::invalid_option);
  BOOST_TEST(registered("n", "").refused == error::invalid_option);
}

BOOST_AUTO_TEST_CASE(datacenter_namespace_and_partition_go_with_every_request) {
  const call_settings settings = settings_of("d c", "team", "east");
  const call c = make_call(settings, get_request{"k", {}});
  BOOST_TEST(first_line(c) == "GET /v1/kv/k?dc=d%20c&ns=team&partition=east");
  // For this request, Consul reads the datacenter from the body. A node has no namespace.
  const call n = make_call(settings, node_register_request{{"n", "127.0.0.1"}, {}});
  BOOST_TEST(first_line(n) == "PUT /v1/catalog/register?partition=east");
  BOOST_TEST(n.request.body == R"({"Datacenter":"d c","Node":"n","Address":"127.0.0.1"})");
  // For this request, Consul reads the namespace and the partition from each operation.
  const call t = make_call(settings, txn_request{{txn_operation::get("k")}, {}});
  BOOST_TEST(first_line(t) == "PUT /v1/txn?dc=d%20c&ns=team&partition=east");
  BOOST_TEST(t.request.body == R"([{"KV":{"Verb":"get","Key":"k","Namespace":"team","Partition":"east"}}])");
}

BOOST_AUTO_TEST_CASE(a_request_is_one_piece_with_what_its_agent_and_its_moment_add) {
  http_request request;
  request.method = "PUT";
  request.target = "/v1/txn";
  request.body = "[]";
  request.type = content::json;
  const agent_lines to{"/consul", "Host: h:1\r\n"};
  BOOST_TEST(to_bytes(request, to, "t") ==
             "PUT /consul/v1/txn HTTP/1.1\r\nHost: h:1\r\nX-Consul-Token: t\r\nContent-Type: application/json\r\n"
             "Content-Length: 2\r\n\r\n[]");
  request.method = "GET";
  request.body.clear();
  request.type = content::none;
  BOOST_TEST(to_bytes(request, to, "") == "GET /consul/v1/txn HTTP/1.1\r\nHost: h:1\r\n\r\n");
}

BOOST_AUTO_TEST_CASE(arguments_are_checked_at_their_edges) {
  const auto refused = [](const call& c) { return c.refused; };
  const auto with_timeout = [](std::chrono::milliseconds t) {
    get_request request{"k", {}};
    request.options.request.timeout = t;
    return made(request).refused;
  };
  BOOST_TEST(!with_timeout(1ms));
  BOOST_TEST(!with_timeout(10min));
  BOOST_TEST(with_timeout(-1ms) == error::invalid_option);
  BOOST_TEST(with_timeout(10min + 1ms) == error::invalid_option);

  const auto with_wait = [](std::chrono::milliseconds t) {
    return made(get_request{"k", reading(consistency::leader, 1, t)}).refused;
  };
  BOOST_TEST(!with_wait(1ms));
  BOOST_TEST(!with_wait(10min));
  BOOST_TEST(with_wait(0ms) == error::invalid_option);
  BOOST_TEST(with_wait(10min + 1ms) == error::invalid_option);
  BOOST_TEST(!refused(made(get_request{"k", reading(consistency::leader, 0, 0ms)})), "a wait without index is unused");

  const auto with_session = [](std::chrono::milliseconds ttl, std::chrono::milliseconds delay) {
    session_create_request request;
    request.session.ttl = ttl;
    request.session.lock_delay = delay;
    return made(request).refused;
  };
  BOOST_TEST(!with_session(0ms, 0ms));
  BOOST_TEST(!with_session(1ms, 60s));
  BOOST_TEST(with_session(-1ms, 0ms) == error::invalid_ttl);
  BOOST_TEST(with_session(0ms, -1ms) == error::invalid_option);
  BOOST_TEST(with_session(0ms, 60'001ms) == error::invalid_option);

  const auto with_operations = [](std::size_t count) {
    return made(txn_request{std::vector<txn_operation>(count, txn_operation::get("k")), {}}).refused;
  };
  BOOST_TEST(!with_operations(0));
  BOOST_TEST(!with_operations(128));
  BOOST_TEST(with_operations(129) == error::too_large);
}

BOOST_AUTO_TEST_CASE(keys_that_are_not_utf8_are_not_sent) {
  using kind = write_request::kind;
  for (const char* const bad :
       {"\xff", "a/\x80", "\xc3", "\xc0\xaf", "\xed\xa0\x80", "\xf4\x90\x80\x80", "a\xe2\x82"}) {
    const std::string key = bad;
    BOOST_TEST(made(get_request{key, {}}).refused == error::bad_request);
    BOOST_TEST(made(list_request{key, {}}).refused == error::bad_request);
    BOOST_TEST(made(keys_request{key, {}, {}}).refused == error::bad_request);
    for (const kind verb :
         {kind::put, kind::cas, kind::acquire, kind::release, kind::remove, kind::remove_tree, kind::remove_cas}) {
      BOOST_TEST(made(write_request{verb, key, {}, 0, 7, "s", {}}).refused == error::bad_request);
    }
    const call c = made(txn_request{{txn_operation::get("k"), txn_operation::get(key)}, {}});
    BOOST_TEST(c.refused == error::bad_request);
    BOOST_TEST(c.key == key);
    attempt_result nothing;
    nothing.error = c.refused;
    BOOST_TEST(describe(c, "h:1", nothing) == "transact: not sent: a key that is not UTF-8");
  }
  for (const char* const good : {"", "\x7f", "\xc2\x80", "a b/\xc3\xa9", "\xef\xbf\xbf", "\xf4\x8f\xbf\xbf"}) {
    BOOST_TEST(!made(get_request{good, {}}).refused);
    BOOST_TEST(!made(txn_request{{txn_operation::set(good, "v")}, {}}).refused);
  }
}

BOOST_AUTO_TEST_CASE(keys_with_spaces_around_them_are_not_made) {
  using kind = write_request::kind;
  for (const char* const spaced : {" ", " a/b", "a/b ", " /", "a/ "}) {
    const std::string key = spaced;
    const auto write = [&key](kind verb, std::uint64_t index) {
      return made(write_request{verb, key, "v", 0, index, "s", {}}).refused;
    };
    const auto transact = [](txn_operation operation) { return made(txn_request{{std::move(operation)}, {}}).refused; };
    BOOST_TEST(write(kind::put, 0) == error::bad_request);
    BOOST_TEST(write(kind::cas, 0) == error::bad_request);
    BOOST_TEST(write(kind::acquire, 0) == error::bad_request);
    BOOST_TEST(transact(txn_operation::set(key, "v")) == error::bad_request);
    BOOST_TEST(transact(txn_operation::cas(key, "v", 0)) == error::bad_request);
    BOOST_TEST(transact(txn_operation::lock(key, "v", "s")) == error::bad_request);

    // Such keys may be there.
    BOOST_TEST(!made(get_request{key, {}}).refused);
    BOOST_TEST(!made(list_request{key, {}}).refused);
    BOOST_TEST(!made(keys_request{key, {}, {}}).refused);
    BOOST_TEST(!write(kind::cas, 7));
    BOOST_TEST(!write(kind::release, 0));
    BOOST_TEST(!write(kind::remove, 0));
    BOOST_TEST(!write(kind::remove_tree, 0));
    BOOST_TEST(!write(kind::remove_cas, 7));
    for (const txn_operation& operation :
         {txn_operation::cas(key, "v", 7), txn_operation::unlock(key, "v", "s"), txn_operation::get(key),
          txn_operation::get_tree(key), txn_operation::check_index(key, 7), txn_operation::check_session(key, "s"),
          txn_operation::check_not_exists(key), txn_operation::remove(key), txn_operation::remove_tree(key),
          txn_operation::remove_cas(key, 7)}) {
      BOOST_TEST(!transact(operation));
    }
  }
  BOOST_TEST(!made(write_request{kind::put, "a b/ c", "v", 0, 0, {}, {}}).refused);
}

BOOST_AUTO_TEST_CASE(what_may_be_repeated) {
  const call read = made(get_request{"k", {}});
  const call blocking = made(get_request{"k", reading(consistency::leader, 1)});
  const call write = written(write_request::kind::put);
  const call renew = made(session_renew_request{"id", {}});
  for (const call* c : {&read, &blocking, &write, &renew}) {
    BOOST_TEST(may_repeat(*c, error::unreachable));
    for (const error e : {error::too_busy, error::timed_out, error::permission_denied, error::bad_request,
                          error::invalid_session, error::too_large, error::malformed_reply, error::closed}) {
      BOOST_TEST(!may_repeat(*c, e));
    }
  }
  for (const error e : {error::connection_lost, error::server_error, error::not_consul, error::too_many_requests}) {
    BOOST_TEST(may_repeat(read, e));
    BOOST_TEST(may_repeat(renew, e));
    BOOST_TEST(!may_repeat(blocking, e));
    BOOST_TEST(!may_repeat(write, e));
  }
  get_request once{"k", {}};
  once.options.request.retry = false;
  BOOST_TEST(!may_repeat(made(once), error::unreachable));
}

BOOST_AUTO_TEST_CASE(failures_are_told_in_one_sentence) {
  const call c = made(get_request{"k", {}});
  const auto told = [&c](error e, unsigned status = 0) {
    attempt_result outcome;
    outcome.error = e;
    outcome.reply.status = status;
    return describe(c, "h:1", outcome);
  };
  attempt_result refused;
  refused.error = error::unreachable;
  refused.cause = make_error_code(boost::system::errc::connection_refused);
  BOOST_TEST(describe(c, "h:1", refused) == "get: cannot connect to h:1: Connection refused");
  BOOST_TEST(told(error::too_busy) == "get: not sent: no connection to h:1 was free in time");
  BOOST_TEST(told(error::timed_out) == "get: no complete reply from h:1 within 5000ms");
  BOOST_TEST(told(error::connection_lost) == "get: the connection to h:1 ended before a complete reply");
  BOOST_TEST(told(error::server_error, 500) == "get: h:1 answered 500: the server failed to answer the request");
  BOOST_TEST(told(error::not_consul) == "get: h:1 answered something that is not HTTP: not Consul's answer");
  attempt_result elsewhere;
  elsewhere.error = error::not_consul;
  elsewhere.reply.status = 302;
  elsewhere.reply.content_type = "text/html";
  elsewhere.reply.location = "https://sso.example/?state=1";
  BOOST_TEST(describe(c, "h:1", elsewhere) ==
             "get: h:1 answered 302 to https://sso.example/, text/html: not Consul's answer (if that is Consul, its "
             "address needs https://)");
  BOOST_TEST(told(error::too_many_requests) ==
             "get: not sent: h:1 closes new connections at once; it allows so many from one address "
             "(limits.http_max_conns_per_client)");
  BOOST_TEST(told(error::too_many_requests, 429) == "get: h:1 answered 429: the server limits requests or connections");
}

// A proxy that resolves these segments would ask Consul for something else, with the client's token.
BOOST_AUTO_TEST_CASE(a_segment_that_leads_away_is_refused) {
  using kind = write_request::kind;
  for (const std::string path : {".", "..", "../agent/self", "a/../../session/list", "a/./b", "a/.."}) {
    BOOST_TEST_CONTEXT(path) {
      BOOST_TEST(made(get_request{path, {}}).refused == error::bad_request);
      BOOST_TEST(made(list_request{path, {}}).refused == error::bad_request);
      BOOST_TEST(made(keys_request{path, {}, {}}).refused == error::bad_request);
      for (const kind verb :
           {kind::put, kind::cas, kind::acquire, kind::release, kind::remove, kind::remove_tree, kind::remove_cas})
        BOOST_TEST(made(write_request{verb, path, {}, 0, 7, "s", {}}).refused == error::bad_request);
      BOOST_TEST(made(session_renew_request{path, {}}).refused == error::bad_request);
      BOOST_TEST(made(session_destroy_request{path, {}}).refused == error::bad_request);
      BOOST_TEST(made(session_info_request{path, {}}).refused == error::bad_request);
      BOOST_TEST(made(node_read_request{path, {}}).refused == error::bad_request);
    }
  }
  const call c = made(get_request{"../agent/self", {}});
  attempt_result nothing;
  nothing.error = c.refused;
  BOOST_TEST(describe(c, "h:1", nothing).find("a segment \".\" or \"..\"") != std::string::npos);
  for (const std::string path : {"a", "a.b", "...", "a/.b", "a/b..", ".lock"})
    BOOST_TEST(!made(get_request{path, {}}).refused, path);
}

BOOST_AUTO_TEST_CASE(times_that_have_no_sum_are_refused) {
  using std::chrono::milliseconds;
  read_options options;
  options.index = 1;
  options.wait = milliseconds::max();
  BOOST_TEST(made(get_request{"k", options}).refused == error::invalid_option);
  options.wait = milliseconds(1'000);
  options.request.timeout = milliseconds::max();
  BOOST_TEST(made(get_request{"k", options}).refused == error::invalid_option);
  BOOST_TEST(made(node_read_request{"n", options}).refused == error::invalid_option);
}

BOOST_AUTO_TEST_SUITE_END()
