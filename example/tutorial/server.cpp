// SPDX-FileCopyrightText: The holdfast authors
// SPDX-License-Identifier: BSL-1.0

// Step 2 of the tutorial: an HTTP server whose work is limited in the whole cluster. doc/tutorial/server.md explains
// it.

#include <boost/asio.hpp>
#include <boost/beast/core.hpp>
#include <boost/beast/http.hpp>
#include <csignal>
#include <cstdlib>
#include <holdfast/holdfast.hpp>
#include <holdfast/testing/server.hpp>
#include <iostream>

namespace asio = boost::asio;
namespace http = boost::beast::http;
using asio::ip::tcp;
using namespace std::chrono_literals;
using response = http::response<http::string_body>;

// readme work {
asio::awaitable<response> work(holdfast::semaphore& sem) {
  response reply(http::status::ok, 11);
  auto [failed, slot] = co_await sem.try_acquire_for(1s, asio::as_tuple(asio::use_awaitable));
  if (failed) {  // for example, Consul does not answer
    reply.result(http::status::service_unavailable);
    reply.body() = failed.message() + "\n";
    co_return reply;
  }
  if (!slot) {  // others have held all slots for a second
    reply.result(http::status::too_many_requests);
    reply.set(http::field::retry_after, "1");
    co_return reply;
  }
  asio::steady_timer timer(co_await asio::this_coro::executor, 800ms);  // the work
  co_await timer.async_wait(asio::use_awaitable);
  if (!slot.held()) reply.result(http::status::service_unavailable);  // the work is not valid without its slot
  reply.body() = "done with fencing token " + slot.fencing_token().to_string() + "\n";
  co_return reply;
}  // the destructor releases the slot
// } readme

// readme serve {
asio::awaitable<void> serve(tcp::socket socket, holdfast::semaphore& sem) {
  boost::beast::flat_buffer buffer;
  http::request<http::string_body> request;
  co_await http::async_read(socket, buffer, request, asio::use_awaitable);
  response reply = co_await work(sem);
  reply.prepare_payload();
  co_await http::async_write(socket, reply, asio::use_awaitable);
}
// } readme

// readme accept {
asio::awaitable<void> accept(tcp::acceptor& acceptor, holdfast::semaphore& sem) {
  std::cout << "listening on http://" << acceptor.local_endpoint() << std::endl;
  for (;;) {
    tcp::socket socket = co_await acceptor.async_accept(asio::use_awaitable);
    asio::co_spawn(acceptor.get_executor(), serve(std::move(socket), sem), asio::detached);
  }
}
// } readme

// readme main {
int main() {
  asio::io_context io;
  holdfast::testing::server fake;
  auto config = fake.client_config();
  if (std::getenv("CONSUL_HTTP_ADDR")) config = holdfast::consul::config::from_environment();
  holdfast::semaphore sem(holdfast::consul::client(io, config), {.prefix = "tutorial/server", .limit = 2});
  tcp::acceptor acceptor(io, tcp::endpoint(asio::ip::address_v4::loopback(), 0));
  asio::co_spawn(io, accept(acceptor, sem), asio::detached);
  asio::signal_set signals(io, SIGINT, SIGTERM);
  signals.async_wait([&](holdfast::error_code, int) {
    acceptor.close();
    sem.close(asio::detached);  // ends all holds, and then the sessions; after that, run() returns
  });
  io.run();
}
// } readme
