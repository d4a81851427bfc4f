// SPDX-FileCopyrightText: The holdfast authors
// SPDX-License-Identifier: BSL-1.0

// Only Consul gets tokens and passwords. They are not in errors, diagnostics, logs, spans or a status, even if a server
// repeats what it was sent.

#include <boost/test/unit_test.hpp>
#include <holdfast/mutex.hpp>
#include <holdfast/semaphore.hpp>
#include <sstream>

#include "consul/connections/proxy.hpp"
#include "support/async.hpp"
#include "support/scripted_server.hpp"
#include "support/temporary_folder.hpp"

BOOST_AUTO_TEST_SUITE(secrets)

namespace {

using namespace std::chrono_literals;
using namespace holdfast;
using holdfast::test::as_result;
using holdfast::test::pending;
using holdfast::test::scripted_server;
using entry_answer = consul::answer<std::optional<consul::kv_entry>>;

const std::string token = "s3cret-t0ken";
const std::string password = "s3cret-passw0rd";

// All texts that anybody got.
struct told {
  void hear(std::string_view line) { lines << line << '\n'; }
  void hear(const diagnostics& why) { lines << why.to_string() << '\n'; }
  void check() const {
    const std::string all = lines.str();
    BOOST_TEST_REQUIRE(!all.empty());
    const std::string encoded = consul::detail::basic_credentials("user:" + password);
    for (const std::string& secret : {token, password, encoded.substr(encoded.find(' ') + 1)}) {
      BOOST_TEST(all.find(secret) == std::string::npos, all);
    }
  }
  std::ostringstream lines;
};

/// Hears what is in spans.
class listener final : public tracer {
  struct span final : trace_span {
    explicit span(told& ears) : ears(ears) {}
    void ended(const span_end& how) noexcept override { ears.hear(how.error.message()); }
    told& ears;
  };
  std::shared_ptr<trace_span> started(const span_start& what) noexcept override {
    ears.hear(std::string(what.name) + ' ' + std::string(what.key));
    return std::make_shared<span>(ears);
  }

public:
  explicit listener(told& ears) : ears(ears) {}
  told& ears;
};

consul::config settings_for(const std::string& address, told& ears) {
  consul::config settings;
  settings.address = address;
  settings.token = token;
  settings.http_auth = "user:" + password;
  settings.log = [&ears](const holdfast::log_event& event) { ears.hear(event.text()); };
  settings.tracer = std::make_shared<listener>(ears);
  return settings;
}

consul::read_options once(diagnostics& why) {
  consul::read_options options;
  options.request.retry = false;
  options.request.diag = &why;
  return options;
}

// A page of a proxy that shows what it received, for example.
ASYNC_TEST_CASE(a_server_that_repeats_the_request_is_not_repeated) {
  told ears;
  scripted_server server(ex);
  consul::client client(ex, settings_for(server.address(), ears));
  diagnostics why;
  for (const int status : {400, 403, 429, 500, 503}) {
    pending<entry_answer> get(ex, client.get("k", once(why)));
    auto [peer, request] = co_await server.accept_request();
    BOOST_TEST(request.find(token) != std::string::npos);
    co_await peer.refuse(status, "you said: " + request);
    const error_code ended = co_await get.wait();
    BOOST_TEST(ended);
    BOOST_TEST(why.server_message.find("you said: GET /v1/kv/k") != std::string::npos, why.server_message);
    BOOST_TEST(why.server_message.find("(hidden)") != std::string::npos);
    ears.hear(why);
    ears.hear(ended.message());
    ears.hear(client.health().last_failure);
    peer.close();
  }
  ears.check();
}

// A server may decode what it was sent, and may answer when the token has changed.
ASYNC_TEST_CASE(a_server_that_repeats_what_it_has_understood_is_not_repeated) {
  told ears;
  scripted_server server(ex);
  std::string now = token;
  consul::config settings = settings_for(server.address(), ears);
  settings.token.clear();
  settings.token_function = [&now] { return now; };
  consul::client client(ex, settings);
  diagnostics why;
  pending<entry_answer> get(ex, client.get("k", once(why)));
  auto [peer, request] = co_await server.accept_request();
  now = "another";
  pending<entry_answer> next(ex, client.get("k", once(why)));
  auto [second, other] = co_await server.accept_request();
  const std::string basic = consul::detail::basic_credentials("user:" + password);
  const std::string words = token + " user:" + password + ' ' + password + ' ' + basic.substr(basic.find(' ') + 1);
  co_await peer.refuse(500, words);
  co_await get.wait();
  BOOST_TEST(why.server_message.find("(hidden)") != std::string::npos, why.server_message);
  ears.hear(why);
  ears.hear(client.health().last_failure);
  ears.check();
}

ASYNC_TEST_CASE(a_proxy_that_repeats_the_request_is_not_repeated) {
  told ears;
  scripted_server server(ex);
  consul::config settings = settings_for("https://consul.example", ears);
  settings.tls.insecure_skip_verify = true;
  settings.proxy = "http://user:" + password + "@" + server.address();
  consul::client client(ex, std::move(settings));
  diagnostics why;
  pending<entry_answer> refused(ex, client.get("k", once(why)));
  auto [peer, request] = co_await server.accept_request();
  BOOST_TEST(request.starts_with("CONNECT "));
  const auto at = request.find("Proxy-Authorization: ");
  co_await peer.send("HTTP/1.1 407 not " + request.substr(at, request.find('\r', at) - at) + " user:" + password +
                     "\r\n\r\n");
  co_await refused.wait();
  BOOST_TEST(why.message.find("(hidden)") != std::string::npos, why.message);
  ears.hear(why);
  ears.hear(client.health().last_failure);
  ears.check();
}

ASYNC_TEST_CASE(what_goes_wrong_on_the_way_is_told_without_them) {
  told ears;
  scripted_server server(ex);
  diagnostics why;
  {
    consul::client client(ex, settings_for(server.address(), ears));
    pending<entry_answer> lost(ex, client.get("k", once(why)));
    auto [peer, request] = co_await server.accept_request();
    peer.reset();
    co_await lost.wait();
    ears.hear(why);
    pending<entry_answer> garbled(ex, client.get("k", once(why)));
    auto [second, again] = co_await server.accept_request();
    co_await second.send("nonsense: " + again);
    co_await garbled.wait();
    ears.hear(why);
    ears.hear(client.health().last_failure);
  }
  {
    consul::config settings = settings_for("consul.example", ears);
    settings.proxy = "http://user:" + password + "@" + server.address();
    consul::client client(ex, std::move(settings));
    pending<entry_answer> refused(ex, client.get("k", once(why)));
    auto [peer, request] = co_await server.accept_request();
    co_await peer.refuse(502, request);
    co_await refused.wait();
    ears.hear(why);
    ears.hear(client.health().last_failure);
    ears.hear(client.address());
  }
  const std::string gone = server.address();
  server.stop();
  consul::client client(ex, settings_for(gone, ears));
  co_await client.get("k", once(why), as_result);
  ears.hear(why);
  ears.check();
}

BOOST_AUTO_TEST_CASE(what_is_wrong_with_them_is_told_without_them) {
  told ears;
  const test::temporary_folder folder;
  const auto refused = [&](auto change) {
    boost::asio::io_context context;
    consul::config settings;
    change(settings);
    try {
      const consul::client made(context, settings);
      BOOST_ERROR("not refused");
    } catch (const system_error& e) {
      ears.hear(e.what());
    }
  };
  refused([](consul::config& c) { c.token = token + " and a space"; });
  refused([&](consul::config& c) { c.token_file = folder.write("token", token + " and a space"); });
  refused([](consul::config& c) { c.token_function = [] { return token + " and a space"; }; });
  refused([](consul::config& c) { c.proxy = "http://user:" + password + "@:0"; });
  refused([](consul::config& c) { c.address = "http://user:" + password + "@consul.example:8500"; });
  refused([](consul::config& c) { c.addresses = {"a", "user:" + password + "@consul.example"}; });
  ears.check();
}

// From the bottom to the top: a semaphore's requests are refused, and the replies repeat all that they contained.
ASYNC_TEST_CASE(a_lock_tells_its_failures_without_them, 30s) {
  told ears;
  scripted_server server(ex);
  consul::client client(ex, settings_for(server.address(), ears));
  semaphore_options options;
  options.prefix = "s";
  options.limit = 1;
  options.log = [&ears](const holdfast::log_event& event) { ears.hear(event.text()); };
  semaphore sem(client, options);
  diagnostics why;
  acquire_options wanted;
  wanted.diag = &why;
  pending<slot> acquire(ex, sem.acquire(wanted));
  auto [peer, request] = co_await server.accept_request();
  co_await peer.refuse(403, "Permission denied: " + request);
  const error_code ended = co_await acquire.wait();
  BOOST_TEST(ended == error::permission_denied);
  ears.hear(why);
  ears.check();
}

}  // namespace

BOOST_AUTO_TEST_SUITE_END()
