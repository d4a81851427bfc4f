// SPDX-FileCopyrightText: The holdfast authors
// SPDX-License-Identifier: BSL-1.0

// Handlers that are destroyed without being called. Their destructors may wait for other threads, which may use the
// same lock or the same context. So no lock of the library may be held meanwhile.

#include <boost/asio/io_context.hpp>
#include <boost/test/unit_test.hpp>
#include <chrono>
#include <functional>
#include <future>
#include <holdfast/local_store.hpp>
#include <holdfast/mutex.hpp>
#include <memory>
#include <optional>
#include <utility>
#include <variant>

#include "runtime/store.hpp"
#include "support/async.hpp"

BOOST_AUTO_TEST_SUITE(handler_ends)

namespace {

using namespace holdfast;
namespace asio = boost::asio;
using namespace std::chrono_literals;

/// Does something on another thread when the last copy of its handler is destroyed, and waits for it.
class waits_when_destroyed {
public:
  explicit waits_when_destroyed(std::function<void()> what) : what_(std::move(what)) {}
  /// Must be called before the objects are destroyed that `what` uses.
  bool has_waited_long_enough() {
    const bool done = done_within_time_;
    if (other_.valid()) other_.wait();
    return done;
  }
  /// An object for the handler to own.
  std::shared_ptr<void> mark() {
    return {nullptr, [this](void*) {
              other_ = std::async(std::launch::async, what_);
              done_within_time_ = other_.wait_for(test::scaled(60s)) == std::future_status::ready;
            }};
  }

private:
  const std::function<void()> what_;
  std::future<void> other_;
  bool done_within_time_ = false;
};

held_mutex lock(asio::io_context& io, mutex& m) {
  held_mutex got;
  m.lock([&](error_code, held_mutex its) { got = std::move(its); });
  while (!got.held()) BOOST_REQUIRE(io.run_one_for(test::scaled(60s)) == 1u);
  return got;
}

/// A local store that destroys questions about a key instead of answering them.
class forgetful_store final : public runtime::store {
public:
  explicit forgetful_store(std::unique_ptr<runtime::store> real) : real_(std::move(real)) {}
  asio::any_io_executor executor() const noexcept override { return real_->executor(); }
  asio::any_io_executor strand() const override { return real_->strand(); }
  std::string name() const override { return real_->name(); }
  bool has_fence_checks() const noexcept override { return real_->has_fence_checks(); }
  void make(runtime::store_request&& request, const std::shared_ptr<runtime::event_sink>& to) override {
    if (!std::holds_alternative<runtime::key_question>(request)) real_->make(std::move(request), to);
  }

private:
  const std::unique_ptr<runtime::store> real_;
};

class forgetful_stores final : public runtime::store_factory {
public:
  explicit forgetful_stores(lock_store real) : real_(std::move(real)) {}
  std::unique_ptr<runtime::store> open(runtime::store_terms terms) const override {
    return std::make_unique<forgetful_store>(of(real_).open(std::move(terms)));
  }
  asio::any_io_executor executor() const noexcept override { return of(real_).executor(); }

private:
  const lock_store real_;
};

}  // namespace

BOOST_AUTO_TEST_CASE(a_release_that_waits_when_its_context_is_destroyed) {
  auto io = std::make_unique<asio::io_context>(1);
  const local_store store(*io);
  mutex m(store, {.key = "m"});
  std::optional<mutex> other(std::in_place, store, mutex_options{.key = "other"});
  held_mutex held = lock(*io, m);
  waits_when_destroyed end([&] { other.reset(); });
  held.release([mark = end.mark()](error_code) {});
  io.reset();
  BOOST_TEST(end.has_waited_long_enough());
}

BOOST_AUTO_TEST_CASE(a_question_that_its_store_drops) {
  asio::io_context io(1);
  mutex m(runtime::store_factory::lock_store_of(std::make_shared<forgetful_stores>(local_store(io))), {.key = "m"});
  held_mutex held = lock(io, m);
  waits_when_destroyed end([&] { held.wait_lost([](error_code, loss_reason) {}); });
  error_code result;
  sequencer_of(held, [&, mark = end.mark()](error_code ec, const sequencer&) { result = ec; });
  io.restart();
  io.poll();
  BOOST_TEST(result == error::connection_lost);
  BOOST_TEST(end.has_waited_long_enough());
}

BOOST_AUTO_TEST_SUITE_END()
