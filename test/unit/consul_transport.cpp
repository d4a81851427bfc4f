// Which connections are kept, and for how long.

#include "consul/transport.hpp"

#include <boost/asio/co_spawn.hpp>
#include <boost/test/unit_test.hpp>
#include <optional>

#include "support/async.hpp"
#include "support/print.hpp"
#include "support/scripted_server.hpp"

using namespace std::chrono_literals;
using namespace holdfast::consul::detail;
using holdfast::error;
using holdfast::consul::config;
using holdfast::test::scripted_server;

namespace {

http_request request_for(std::string_view target, std::chrono::milliseconds wait = 0ms) {
  http_request request;
  request.bytes = format_request("GET", target, "", "");
  request.wait = wait;
  return request;
}

// A transport whose connections are idle for a moment at most.
struct tested {
  tested(const asio::any_io_executor& ex, const scripted_server& server, clock::duration idle_max)
      : strand(ex), address{"127.0.0.1", server.endpoint().port()} {
    settings.connections_max = 2;
    link.emplace(strand, settings, address, statistics, idle_max);
  }

  void send(std::string_view target, lane which, std::chrono::milliseconds wait = 0ms) {
    auto body = [](transport& link, http_request request, lane lane) -> awaitable<exchange> {
      exchange result = co_await link.send(request, lane, clock::now() + 1min);
      co_return result;
    };
    asio::co_spawn(strand, body(*link, request_for(target, wait), which),
                   [this](const std::exception_ptr& failure, const exchange& result) {
                     if (failure) std::rethrow_exception(failure);
                     BOOST_TEST(!result.error);
                     ++answered;
                   });
  }

  std::uint64_t open() const { return statistics->connections_open; }

  strand_type strand;
  config settings;
  agent_address address;
  std::shared_ptr<counters> statistics = std::make_shared<counters>();
  std::optional<transport> link;
  int answered = 0;
};

}  // namespace

BOOST_AUTO_TEST_SUITE(consul_transport)

ASYNC_TEST_CASE(what_nobody_needs_is_closed_while_another_request_runs) {
  scripted_server server(ex);
  tested t(ex, server, 1ms);
  t.send("/watch?index=1&wait=60000ms", lane::blocking, 1min);
  auto [watched, watch] = co_await server.accept_request();
  for (const lane which : {lane::ordinary, lane::renewal}) {
    t.send("/", which);
    auto [peer, request] = co_await server.accept_request();
    co_await peer.reply("");
    const bool closed = co_await peer.closed_by_client();
    BOOST_TEST(closed);
  }
  BOOST_TEST(t.answered == 2);
  BOOST_TEST(t.open() == 1u);
}

ASYNC_TEST_CASE(what_is_needed_again_soon_is_kept) {
  scripted_server server(ex);
  tested t(ex, server, 1min);
  t.send("/watch?index=1&wait=60000ms", lane::blocking, 1min);
  auto [watched, watch] = co_await server.accept_request();
  t.send("/1", lane::ordinary);
  auto [peer, request] = co_await server.accept_request();
  co_await peer.reply("");
  for (const char* const target : {"/2", "/3"}) {
    while (t.open() != 2 || t.answered == 0) co_await asio::post(ex, asio::use_awaitable);
    t.answered = 0;
    t.send(target, lane::ordinary);
    co_await peer.read_request();
    co_await peer.reply("");
  }
  BOOST_TEST(t.statistics->connections_opened == 2u);
}

// A timer alone would keep the io_context running: then there is none, and it is not for many connections to wait.
ASYNC_TEST_CASE(without_requests_no_more_is_kept_than_ordinary_ones_need) {
  scripted_server server(ex);
  tested t(ex, server, 1min);
  std::vector<holdfast::test::scripted_peer> peers;
  for (int i = 0; i < 5; ++i) {
    t.send("/watch?index=1&wait=60000ms", lane::blocking, 1min);
    auto [peer, request] = co_await server.accept_request();
    peers.push_back(std::move(peer));
  }
  for (auto& peer : peers) co_await peer.reply("");
  while (t.answered < 5) co_await asio::post(ex, asio::use_awaitable);
  BOOST_TEST(t.open() == t.settings.connections_max);
}

BOOST_AUTO_TEST_CASE(no_timer_keeps_the_context_running) {
  boost::asio::io_context context;
  scripted_server server(context.get_executor());
  tested t(context.get_executor(), server, 1h);
  asio::co_spawn(
      context,
      [&]() -> asio::awaitable<void> {
        t.send("/1", lane::ordinary);
        t.send("/2", lane::renewal);
        auto [first, one] = co_await server.accept_request();
        auto [second, other] = co_await server.accept_request();
        co_await first.reply("");
        co_await second.reply("");
      },
      asio::detached);
  context.run();
  BOOST_TEST(t.answered == 2);
}

BOOST_AUTO_TEST_SUITE_END()
