// SPDX-FileCopyrightText: The holdfast authors
// SPDX-License-Identifier: BSL-1.0

#include "support/secure_server.hpp"

#include <netinet/in.h>
#include <netinet/tcp.h>
#include <openssl/ssl.h>
#include <sys/socket.h>

#include <boost/asio/buffer.hpp>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/detached.hpp>
#include <boost/asio/read_until.hpp>
#include <boost/asio/ssl/stream.hpp>
#include <boost/asio/write.hpp>
#include <utility>

#include "support/async.hpp"

namespace holdfast::test {
namespace {

namespace ssl = asio::ssl;
using manner = secure_server_options::manner;

std::shared_ptr<ssl::context> context_of(const secure_server_options& options) {
  auto made = std::make_shared<ssl::context>(ssl::context::tls_server);
  SSL_CTX* const native = made->native_handle();
  made->use_certificate_chain(asio::buffer(options.own.certificate));
  made->use_private_key(asio::buffer(options.own.key), ssl::context::pem);
  if (options.version_max != 0) {
    SSL_CTX_set_min_proto_version(native, TLS1_VERSION);
    SSL_CTX_set_max_proto_version(native, options.version_max);
    SSL_CTX_set_security_level(native, 0);
  }
  const unsigned char id[] = "holdfast";
  SSL_CTX_set_session_id_context(native, id, sizeof id);
  if (!options.clients.empty()) {
    made->add_certificate_authority(asio::buffer(options.clients));
    made->set_verify_mode(ssl::verify_peer | ssl::verify_fail_if_no_peer_cert);
  }
  return made;
}

}  // namespace

secure_server::secure_server(asio::any_io_executor ex, secure_server_options options)
    : acceptor_(std::move(ex), {asio::ip::address_v4::loopback(), 0}) {
  change(std::move(options));
}

void secure_server::change(secure_server_options options) {
  options_ = std::move(options);
  if (!options_.own.key.empty()) context_ = context_of(options_);
}

std::string secure_server::url(const std::string& host) const {
  return "https://" + host + ':' + std::to_string(acceptor_.local_endpoint().port());
}

void secure_server::start() {
  auto run = [](std::shared_ptr<secure_server> self) -> asio::awaitable<void> { co_await self->listen(); };
  asio::co_spawn(acceptor_.get_executor(), run(shared_from_this()), asio::detached);
}

asio::awaitable<void> secure_server::listen() {
  for (;;) {
    auto [ec, socket] = co_await acceptor_.async_accept(as_result);
    if (ec) co_return;
    auto run = [](std::shared_ptr<secure_server> self, asio::ip::tcp::socket accepted) -> asio::awaitable<void> {
      co_await self->serve(std::move(accepted));
    };
    asio::co_spawn(acceptor_.get_executor(), run(shared_from_this(), std::move(socket)), asio::detached);
  }
}

asio::awaitable<void> secure_server::serve(asio::ip::tcp::socket socket) {
  const secure_server_options options = options_;
  const std::shared_ptr<ssl::context> context = context_;
  std::string plain(4096, '\0');
  if (options.does == manner::is_silent || options.does == manner::is_plain) {
    auto [ec, n] = co_await socket.async_read_some(asio::buffer(plain), as_result);
    bytes += n;
    const std::string words = "HTTP/1.1 400 Bad Request\r\nContent-Length: 0\r\n\r\n";
    if (options.does == manner::is_plain) co_await asio::async_write(socket, asio::buffer(words), as_result);
    while (!ec) {
      auto [ended, more] = co_await socket.async_read_some(asio::buffer(plain), as_result);
      ec = ended;
    }
    co_return;
  }
  ssl::stream<asio::ip::tcp::socket> stream(std::move(socket), *context);
  auto [failed] = co_await stream.async_handshake(ssl::stream_base::server, as_result);
  const char* const name = SSL_get_servername(stream.native_handle(), TLSEXT_NAMETYPE_host_name);
  names.emplace_back(name == nullptr ? "" : name);
  if (failed) co_return;
  ++handshakes;
  resumed += SSL_session_reused(stream.native_handle());
  std::string received;
  for (;;) {
    auto [ec, size] = co_await asio::async_read_until(stream, asio::dynamic_buffer(received), "\r\n\r\n", as_result);
    if (ec) co_return;
    requests.push_back(received.substr(0, size));
    received.erase(0, size);
    if (options.does == manner::never_replies) continue;
    if (options.does == manner::truncates) {
      const std::string half = "HTTP/1.1 200 OK\r\nConnection: close\r\n\r\n[{\"Key\":";
      co_await asio::async_write(stream, asio::buffer(half), as_result);
      co_return;
    }
    const std::string reply = std::string("HTTP/1.1 404 Not Found\r\nX-Consul-Index: 1\r\n") +
                              (options.keeps_open ? "" : "Connection: close\r\n") +
                              "Content-Length: " + std::to_string(options.body) + "\r\n\r\n" +
                              std::string(options.body, 'x');
    if (options.does == manner::says_more) {
      // The second reply is in another record but in the same packets, so that the client's OpenSSL reads both at once.
      const std::string more = "HTTP/1.1 500 Nobody Asked\r\nContent-Length: 0\r\n\r\n";
      const int fd = stream.next_layer().native_handle();
      int corked = 1;
      ::setsockopt(fd, IPPROTO_TCP, TCP_CORK, &corked, sizeof corked);
      co_await asio::async_write(stream, asio::buffer(reply), as_result);
      co_await asio::async_write(stream, asio::buffer(more), as_result);
      corked = 0;
      ::setsockopt(fd, IPPROTO_TCP, TCP_CORK, &corked, sizeof corked);
      continue;
    }
    co_await asio::async_write(stream, asio::buffer(reply), as_result);
    if (options.keeps_open) continue;
    co_await stream.async_shutdown(as_result);
    co_return;
  }
}

}  // namespace holdfast::test
