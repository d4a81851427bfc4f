// SPDX-FileCopyrightText: The holdfast authors
// SPDX-License-Identifier: BSL-1.0

// An HTTP server whose expensive handler is limited in the whole cluster. However many of these servers run, they
// process at most `--limit` requests at any time.
//
//   GET /work     Holds a slot during the work. Replies 200 with the slot's fencing token. If no slot was free in time,
//                 it replies 429 with Retry-After. If the acquire failed (as when Consul cannot be reached), or if the
//                 slot was lost, it replies 503.
//   GET /status   Replies with the statistics of this server's semaphore.
//   GET /metrics  Replies with these statistics and those of the client, for Prometheus.
//
// One semaphore serves all requests. The requests queue in this process and share a few Consul sessions. A thousand
// waiting clients therefore cost Consul no more than a few do.

#include <boost/asio/as_tuple.hpp>
#include <boost/asio/awaitable.hpp>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/detached.hpp>
#include <boost/asio/experimental/awaitable_operators.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/signal_set.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <boost/asio/use_future.hpp>
#include <boost/beast/core/flat_buffer.hpp>
#include <boost/beast/core/tcp_stream.hpp>
#include <boost/beast/http.hpp>
#include <chrono>
#include <holdfast/holdfast.hpp>
#include <holdfast/prometheus.hpp>
#include <iostream>
#include <string>
#include <string_view>

#include "common/agent.hpp"
#include "common/command_line.hpp"

namespace asio = boost::asio;
namespace http = boost::beast::http;
using asio::ip::tcp;
using namespace std::chrono_literals;
using namespace asio::experimental::awaitable_operators;

namespace {

using request = http::request<http::string_body>;
using response = http::response<http::string_body>;

struct options {
  std::string address = "127.0.0.1";
  int port = 8080;
  int limit = 4;
  int wait_ms = 1'000;
  int work_ms = 500;
  std::string prefix = "server/example";
};

response reply(http::status status, std::string text) {
  response r{status, 11};
  r.set(http::field::content_type, "text/plain");
  if (status == http::status::too_many_requests) r.set(http::field::retry_after, "1");
  r.keep_alive(false);  // one request for each connection keeps this example short
  r.body() = std::move(text) + "\n";
  r.prepare_payload();
  return r;
}

class server {
public:
  server(asio::io_context& io, const holdfast::consul::client& consul, const options& o)
      : options_(o),
        semaphore_(consul, semaphore_of(o)),
        acceptor_(io, tcp::endpoint(asio::ip::make_address(o.address), static_cast<unsigned short>(o.port))) {
    metrics_.add(semaphore_);
    metrics_.add(consul, "consul");
  }

  asio::awaitable<void> run() {
    std::cout << "listening on http://" << acceptor_.local_endpoint() << ", /work, /status and /metrics" << std::endl;
    for (;;) {
      auto [failed, socket] = co_await acceptor_.async_accept(asio::as_tuple(asio::use_awaitable));
      if (!acceptor_.is_open()) co_return;
      if (!failed) asio::co_spawn(acceptor_.get_executor(), serve(std::move(socket)), asio::detached);
    }
  }

  /// Stops gracefully. It accepts no more connections, waits for the running requests for at most 10 s, and then closes
  /// the semaphore, which releases its slots and destroys its sessions. Without `close` the slots would stay taken
  /// until the sessions expire, for up to twice their TTL.
  asio::awaitable<void> stop_on_signal() {
    asio::signal_set signals(acceptor_.get_executor(), SIGINT, SIGTERM);
    co_await signals.async_wait(asio::use_awaitable);
    signals.clear();  // a second Ctrl-C ends the program at once
    std::cout << "stopping: " << connections_ << " connections to finish" << std::endl;
    acceptor_.close();
    asio::steady_timer pause(acceptor_.get_executor());
    for (const auto end = std::chrono::steady_clock::now() + 10s;
         connections_ != 0 && std::chrono::steady_clock::now() < end;) {
      pause.expires_after(20ms);
      co_await pause.async_wait(asio::use_awaitable);
    }
    co_await semaphore_.close();
    std::cout << "stopped" << std::endl;
  }

private:
  static holdfast::semaphore_options semaphore_of(const options& o) {
    holdfast::semaphore_options result;
    result.prefix = o.prefix;
    result.limit = static_cast<std::uint32_t>(o.limit);
    result.tuning.slot_idle_timeout = 200ms;  // keeps a slot for the next request, without Consul
    result.log = [](const holdfast::log_event& event) { std::cerr << event.text() << std::endl; };
    return result;
  }

  asio::awaitable<void> serve(tcp::socket socket) {
    ++connections_;
    boost::beast::tcp_stream stream(std::move(socket));
    stream.expires_after(60s);
    try {
      boost::beast::flat_buffer buffer;
      request asked;
      co_await http::async_read(stream, buffer, asked, asio::use_awaitable);
      response answer = co_await handle(std::move(asked));
      co_await http::async_write(stream, answer, asio::use_awaitable);
      stream.socket().shutdown(tcp::socket::shutdown_send);
      // The client has gone, was too slow, or sent no valid request. If its request held a slot, the handle has
      // released it. NOLINTNEXTLINE(bugprone-empty-catch): so nothing is left to be done
    } catch (const std::exception&) {
    }
    --connections_;
  }

  asio::awaitable<response> handle(request asked) {
    if (asked.target() == "/status") co_return status();
    if (asked.target() == "/metrics") co_return metrics();
    if (asked.target() != "/work") co_return reply(http::status::not_found, "try /work, /status or /metrics");
    if (asked.method() != http::verb::get) co_return reply(http::status::method_not_allowed, "GET, please");

    holdfast::diagnostics why;
    holdfast::acquire_options acquire{.diag = &why};
    auto [failed, slot] = co_await semaphore_.try_acquire_for(std::chrono::milliseconds(options_.wait_ms), acquire,
                                                              asio::as_tuple(asio::use_awaitable));
    if (failed) co_return reply(http::status::service_unavailable, why.to_string());
    if (!slot) co_return reply(http::status::too_many_requests, "all slots are taken");

    // Do the work, and stop if the slot is lost, because another request may hold it then.
    asio::steady_timer work(acceptor_.get_executor(), std::chrono::milliseconds(options_.work_ms));
    auto finished = co_await (work.async_wait(asio::use_awaitable) || slot.wait_lost(asio::use_awaitable));
    if (finished.index() == 1)
      co_return reply(http::status::service_unavailable,
                      "lost the slot: " + std::string(to_string(std::get<1>(finished))));
    // After a pause of this process both operations may be ready, and `||` takes the first. Therefore check the slot
    // itself at the end.
    if (!slot.held())
      co_return reply(http::status::service_unavailable,
                      "lost the slot: " + std::string(to_string(slot.lost_because())));
    co_return reply(http::status::ok, "done with fencing token " + slot.fencing_token().to_string());
  }  // the slot's destructor releases it for the next request, here or at another server

  response status() const {
    const holdfast::lock_statistics s = semaphore_.statistics();
    return reply(http::status::ok, "limit " + std::to_string(semaphore_.limit()) + ", held here " +
                                       std::to_string(s.held) + ", waiting here " + std::to_string(s.waiting) +
                                       ", granted " + std::to_string(s.granted) +
                                       ", of these handed on without a request " + std::to_string(s.handoffs) +
                                       ", lost " + std::to_string(s.lost.total()));
  }

  response metrics() const {
    response r{http::status::ok, 11};
    r.set(http::field::content_type, std::string(holdfast::prometheus_text::content_type));
    r.keep_alive(false);
    r.body() = metrics_.text();
    r.prepare_payload();
    return r;
  }

  const options& options_;
  holdfast::semaphore semaphore_;
  holdfast::prometheus_text metrics_;
  tcp::acceptor acceptor_;
  int connections_ = 0;
};

constexpr std::string_view help = R"(usage: server [options]

An HTTP server whose GET /work holds a slot of a limit that all servers of the cluster share. Ctrl-C ends it gracefully.
Try it: for i in 1 2 3 4 5 6; do curl -s http://127.0.0.1:8080/work & done; wait; curl http://127.0.0.1:8080/status

  --address IP     to listen on (127.0.0.1)
  --port N         to listen on (8080; 0: any that is free)
  --limit N        requests at work in the whole cluster (4); the same for all servers
  --wait-ms N      how long a request waits for a slot before it is told 429 (1000)
  --work-ms N      how long the work takes (500)
  --prefix KEY     where the semaphore is in Consul (server/example)
)";

options parse(example::arguments& given) {
  options o;
  o.address = given.text("--address", o.address);
  o.port = given.number("--port", o.port, 0, 65'535);
  o.limit = given.number("--limit", o.limit, 1, 10'000);
  o.wait_ms = given.number("--wait-ms", o.wait_ms, 0, 3'600'000);
  o.work_ms = given.number("--work-ms", o.work_ms, 0, 3'600'000);
  o.prefix = given.text("--prefix", o.prefix);
  given.end();
  return o;
}

}  // namespace

int main(int argc, char** argv) {
  return example::run(argc, argv, help, [](example::arguments& given) {
    const options o = parse(given);
    const example::agent agent(given.consul());
    asio::io_context io(1);  // one thread, so that the members of `server` need no lock
    holdfast::consul::client consul(io, agent.config());
    server self(io, consul, o);
    auto stopped = asio::co_spawn(io, self.stop_on_signal(), asio::use_future);
    asio::co_spawn(io, self.run(), asio::detached);
    io.run();
    stopped.get();
    return 0;
  });
}
