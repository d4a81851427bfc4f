// SPDX-FileCopyrightText: The holdfast authors
// SPDX-License-Identifier: BSL-1.0

#include "cluster/support/fenced_store.hpp"

#include <boost/asio/as_tuple.hpp>
#include <boost/asio/buffer.hpp>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/detached.hpp>
#include <boost/asio/read_until.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <boost/asio/write.hpp>
#include <sstream>
#include <utility>

namespace holdfast::test {
namespace {

namespace asio = boost::asio;

constexpr auto as_answer = asio::as_tuple(asio::use_awaitable);

}  // namespace

fenced_store::fenced_store(bool fence)
    : fence_(fence), acceptor_(io_, asio::ip::tcp::endpoint(asio::ip::address_v4::loopback(), 0)) {
  asio::co_spawn(io_, serve(), asio::detached);
  thread_ = std::thread([this] { io_.run(); });
}

fenced_store::~fenced_store() {
  io_.stop();
  thread_.join();
}

std::string fenced_store::address() const { return "127.0.0.1:" + std::to_string(acceptor_.local_endpoint().port()); }

int fenced_store::taken() const {
  const std::lock_guard lock(mutex_);
  return taken_;
}

int fenced_store::refused() const {
  const std::lock_guard lock(mutex_);
  return refused_;
}

int fenced_store::stale_taken() const {
  const std::lock_guard lock(mutex_);
  return stale_taken_;
}

bool fenced_store::has_seen(const fencing_token& token) const {
  const std::lock_guard lock(mutex_);
  return seen_.contains(token);
}

bool fenced_store::write(const fencing_token& token) {
  const std::lock_guard lock(mutex_);
  const bool stale = !seen_.empty() && token < *seen_.rbegin();
  seen_.insert(token);
  const bool take = !stale || !fence_;
  ++(take ? taken_ : refused_);
  if (take && stale) ++stale_taken_;
  return take;
}

asio::awaitable<void> fenced_store::serve() {
  for (;;) {
    auto [failure, socket] = co_await acceptor_.async_accept(as_answer);
    if (!failure) asio::co_spawn(io_, answer(std::move(socket)), asio::detached);
  }
}

asio::awaitable<void> fenced_store::answer(asio::ip::tcp::socket socket) {
  std::string request;
  const auto [failure, size] = co_await asio::async_read_until(socket, asio::dynamic_buffer(request), '\n', as_answer);
  if (failure) co_return;
  std::istringstream in(request);
  std::string who;
  fencing_token token;
  in >> who >> token.grant >> token.handoff;
  if (!in) co_return;
  const std::string reply = write(token) ? "taken\n" : "refused\n";
  co_await asio::async_write(socket, asio::buffer(reply), as_answer);
}

}  // namespace holdfast::test
