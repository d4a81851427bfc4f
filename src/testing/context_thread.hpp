// SPDX-FileCopyrightText: The holdfast authors
// SPDX-License-Identifier: BSL-1.0

#pragma once

#include <boost/asio/any_io_executor.hpp>
#include <boost/asio/executor_work_guard.hpp>
#include <boost/asio/io_context.hpp>
#include <thread>

namespace holdfast::testing::detail {

namespace asio = boost::asio;

/// An `io_context` and the one thread that runs it.
class context_thread {
public:
  context_thread() : thread_([this] { context_.run(); }) {}
  ~context_thread() {
    context_.stop();
    thread_.join();
  }
  context_thread(const context_thread&) = delete;
  context_thread& operator=(const context_thread&) = delete;

  asio::any_io_executor executor() { return context_.get_executor(); }

private:
  asio::io_context context_{1};
  const asio::executor_work_guard<asio::io_context::executor_type> work_{context_.get_executor()};
  std::thread thread_;
};

}  // namespace holdfast::testing::detail
