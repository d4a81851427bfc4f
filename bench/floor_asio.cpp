// SPDX-FileCopyrightText: The holdfast authors
// SPDX-License-Identifier: BSL-1.0

#include <boost/asio/any_completion_handler.hpp>
#include <boost/asio/append.hpp>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/post.hpp>
#include <deque>
#include <utility>

#include "arena.hpp"
#include "participant.hpp"
#include "workloads.hpp"

namespace holdfast::bench {
namespace {

using boost::system::error_code;

/// The least that a semaphore for coroutines must do. It has a counter and a queue of handlers. It posts them in order.
class bare_semaphore {
public:
  class permit {
  public:
    permit() = default;
    explicit permit(bare_semaphore& of) : of_(&of) {}
    void give_back() { of_->release(); }

  private:
    bare_semaphore* of_ = nullptr;
  };

  bare_semaphore(asio::io_context& io, std::uint32_t limit) : io_(io), free_(limit) {}

  template <class Token>
  auto acquire(Token&& token) {
    return asio::async_initiate<Token, void(error_code, permit)>(
        [this](handler h) {
          waiting_.push_back(std::move(h));
          if (free_ > 0) {
            --free_;
            grant({});
          }
        },
        token);
  }
  void release() {
    if (waiting_.empty())
      ++free_;
    else
      grant({});
  }
  void close() {
    while (!waiting_.empty()) grant(asio::error::operation_aborted);
  }

private:
  using handler = asio::any_completion_handler<void(error_code, permit)>;

  void grant(error_code failure) {
    asio::post(io_, asio::append(std::move(waiting_.front()), failure, permit(*this)));
    waiting_.pop_front();
  }

  asio::io_context& io_;
  std::uint32_t free_;
  std::deque<handler> waiting_;
};

}  // namespace

void closed_loop_floor(const parameters& p) {
  asio::io_context io(1);
  const auto form = shape::of(p);
  arena everyone(p);
  bare_semaphore semaphore(io, p.limit + (p.broken ? 1 : 0));
  for (std::uint32_t i = 0; i < form.clients * form.coroutines; ++i)
    asio::co_spawn(io, contend(semaphore, everyone, i / form.coroutines, i), rethrow);
  if (form.rival) asio::co_spawn(io, contend(semaphore, everyone, 1, p.contenders), rethrow);

  const auto close = [&]() -> asio::awaitable<void> {
    semaphore.close();
    co_return;
  };
  asio::co_spawn(io, everyone.conduct([] { return traffic(); }, close), rethrow);
  io.run();
  everyone.finish();
}

}  // namespace holdfast::bench
