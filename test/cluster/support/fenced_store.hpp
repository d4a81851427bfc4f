// SPDX-FileCopyrightText: The holdfast authors
// SPDX-License-Identifier: BSL-1.0

#pragma once

#include <boost/asio/awaitable.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <holdfast/fencing_token.hpp>
#include <mutex>
#include <set>
#include <string>
#include <thread>

namespace holdfast::test {

/// A resource that a semaphore of limit 1 protects: a store of one value, on a port of 127.0.0.1. A write is a line,
/// "<who> <grant> <handoff>"; the answer is "taken" or "refused".
///
/// With a fence it refuses tokens lower than the highest that it has seen. Without one it takes every write, and only
/// counts the writes that a fence would have refused: those of an old holder that have replaced a newer one's value.
class fenced_store {
public:
  explicit fenced_store(bool fence);
  fenced_store(const fenced_store&) = delete;
  fenced_store& operator=(const fenced_store&) = delete;
  ~fenced_store();

  std::string address() const;
  int taken() const;
  int refused() const;
  int stale_taken() const;  ///< the writes with an old token among `taken`
  /// True if a write with this token has arrived.
  bool has_seen(const fencing_token& token) const;

private:
  boost::asio::awaitable<void> serve();
  boost::asio::awaitable<void> answer(boost::asio::ip::tcp::socket socket);
  bool write(const fencing_token& token);

  const bool fence_;
  boost::asio::io_context io_{1};
  boost::asio::ip::tcp::acceptor acceptor_;
  mutable std::mutex mutex_;
  std::set<fencing_token> seen_;
  int taken_ = 0, refused_ = 0, stale_taken_ = 0;
  std::thread thread_;
};

}  // namespace holdfast::test
