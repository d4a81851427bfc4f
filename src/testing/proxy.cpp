// SPDX-FileCopyrightText: The holdfast authors
// SPDX-License-Identifier: BSL-1.0

#include <boost/asio/write.hpp>
#include <holdfast/testing/proxy.hpp>

#include "consul/encoding/url.hpp"
#include "front.hpp"

namespace holdfast::testing {
namespace detail {
namespace {

using asio::ip::tcp;
using boost::system::error_code;

constexpr std::size_t request_bytes_max = 64 * 1024 * 1024;
constexpr std::size_t reply_bytes_max = 64 * 1024 * 1024;

/// A connection to the agent.
class upstream {
public:
  upstream(const strand_type& strand, tcp::endpoint agent, std::string host)
      : socket_(strand), agent_(std::move(agent)), host_(std::move(host)) {}

  awaitable<std::optional<api_reply>> converse(const http_request& request);
  void close() noexcept {
    error_code ignored;
    socket_.close(ignored);
  }

private:
  awaitable<bool> open();
  awaitable<bool> read(reply_reader& reader);
  bool is_alive() noexcept;

  socket_type socket_;
  const tcp::endpoint agent_;
  const std::string host_;
  std::array<char, 16 * 1024> incoming_;
};

awaitable<std::optional<api_reply>> upstream::converse(const http_request& request) {
  const bool opened = co_await open();
  if (!opened) co_return std::nullopt;
  const std::string bytes = format_request(request, host_);
  // A reply may arrive even if the write fails: Consul answers 413 before it has read a large body.
  auto [ec, size] = co_await asio::async_write(socket_, asio::buffer(bytes), as_result);
  reply_reader reader(request.call.method, reply_bytes_max);
  const bool complete = co_await read(reader);
  if (!complete) {
    close();
    co_return std::nullopt;
  }
  http_reply made = reader.take();
  if (ec || !made.keep_alive) close();
  co_return std::move(made.reply);
}

awaitable<bool> upstream::open() {
  if (socket_.is_open() && is_alive()) co_return true;
  close();
  auto [ec] = co_await socket_.async_connect(agent_, as_result);
  if (ec) close();
  error_code ignored;
  socket_.set_option(tcp::no_delay(true), ignored);
  co_return !ec;
}

awaitable<bool> upstream::read(reply_reader& reader) {
  for (;;) {
    auto [ec, size] = co_await socket_.async_read_some(asio::buffer(incoming_), as_result);
    reader.append({incoming_.data(), size});
    parse_state state = reader.parse();
    if (ec && state == parse_state::incomplete)
      state = ec == asio::error::eof ? reader.finish() : parse_state::malformed;
    if (state != parse_state::incomplete) co_return state == parse_state::complete;
  }
}

// True if the agent has not closed the connection, and has sent nothing that was not read. The check sets the socket to
// non-blocking.
bool upstream::is_alive() noexcept {
  char byte = 0;
  error_code ec;
  socket_.non_blocking(true, ec);
  socket_.receive(asio::buffer(&byte, 1), asio::socket_base::message_peek, ec);
  return ec == asio::error::would_block;
}

class forwarding final : public exchange {
public:
  forwarding(front_impl& front, connection& client, const tcp::endpoint& agent, const std::string& host)
      : front_(front), client_(client), main_(front.strand(), agent, host), side_(front.strand(), agent, host) {}

  awaitable<std::optional<api_reply>> perform(const http_request& request) override {
    if (is_stopped()) co_return std::nullopt;
    std::optional<front_impl::blocked_mark> mark;
    if (is_blocking_query(request.call)) {
      if (client_.abandoned()) co_return std::nullopt;
      mark.emplace(front_, client_);
    }
    std::optional<api_reply> reply = co_await main_.converse(request);
    co_return reply;
  }

  awaitable<void> end_session(std::string id) override {
    if (is_stopped()) co_return;
    http_request request;
    request.call = {"PUT", "/v1/session/destroy/" + id, {}};
    co_await side_.converse(request);
    side_.close();
  }

  void abandon() noexcept override {
    main_.close();
    side_.close();
  }

private:
  bool is_stopped() const {
    const std::lock_guard lock(front_.mutex());
    return front_.is_stopped(client_);
  }

  front_impl& front_;
  connection& client_;
  upstream main_;
  upstream side_;
};

class forwarder final : public backend {
public:
  forwarder(front_impl& front, tcp::endpoint agent, std::string host)
      : front_(front), agent_(std::move(agent)), host_(std::move(host)) {}

  std::unique_ptr<exchange> open(connection& client) override {
    return std::make_unique<forwarding>(front_, client, agent_, host_);
  }
  std::size_t body_bytes_max() const noexcept override { return request_bytes_max; }
  void release() noexcept override {}

private:
  front_impl& front_;
  const tcp::endpoint agent_;
  const std::string host_;
};

tcp::endpoint endpoint_of(const std::string& agent) {
  consul::detail::agent_address address;
  error_code ec = consul::detail::parse_address(agent, address);
  if (address.scheme != consul::detail::scheme::http) ec = error::unsupported_scheme;
  const auto host = ec ? asio::ip::address() : asio::ip::make_address(address.host, ec);
  if (ec) throw system_error(make_error_code(error::invalid_address), "not an IP literal and a port: '" + agent + "'");
  return {host, address.port};
}

}  // namespace
}  // namespace detail

proxy::proxy(const std::string& agent, const server_options& options)
    : proxy(asio::any_io_executor(), agent, options) {}

proxy::proxy(asio::any_io_executor executor, const std::string& agent, const server_options& options)
    : front(std::move(executor), options) {
  impl_->open(std::make_shared<detail::forwarder>(*impl_, detail::endpoint_of(agent), agent));
}

}  // namespace holdfast::testing
