// SPDX-FileCopyrightText: The holdfast authors
// SPDX-License-Identifier: BSL-1.0

// A tracer is told of waits, holds and requests.

#include <algorithm>
#include <atomic>
#include <boost/asio/bind_cancellation_slot.hpp>
#include <boost/asio/cancellation_signal.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/post.hpp>
#include <boost/test/unit_test.hpp>
#include <holdfast/holdfast.hpp>
#include <holdfast/local_store.hpp>
#include <holdfast/testing/server.hpp>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "support/async.hpp"

BOOST_AUTO_TEST_SUITE(tracing)

namespace {

using namespace std::chrono_literals;
using namespace holdfast;
namespace asio = boost::asio;

/// A span with all that was said of it.
struct record {
  span_kind kind;
  std::string name, key, session;
  std::optional<fencing_token> token{};
  const void* parent = nullptr;
  const trace_span* wait = nullptr;
  const trace_span* itself = nullptr;
  std::thread::id thread{};
  std::chrono::system_clock::time_point began{}, ended_at{};
  bool ended = false, dropped = false, got_slot = false;
  error_code error{};
  loss_reason reason = loss_reason::none;
};

class recorder final : public tracer {
  struct span final : trace_span {
    explicit span(std::shared_ptr<record> of) : its(std::move(of)) {}
    ~span() override { its->dropped = true; }
    void ended(const span_end& how) noexcept override {
      BOOST_TEST(!its->ended);
      its->ended = true;
      its->ended_at = how.at;
      its->error = how.error;
      its->reason = how.reason;
      its->got_slot = how.slot != nullptr;
      if (how.slot) its->session = how.slot->session, its->token = how.slot->token;
    }
    std::shared_ptr<record> its;
  };

public:
  std::shared_ptr<trace_span> started(const span_start& what) noexcept override {
    const auto its = std::make_shared<record>();
    its->kind = what.kind, its->name = what.name, its->key = what.key, its->began = what.at;
    its->parent = what.parent, its->wait = what.wait, its->thread = std::this_thread::get_id();
    if (what.slot) its->session = what.slot->session, its->token = what.slot->token;
    auto made = std::make_shared<span>(its);
    its->itself = made.get();
    const std::lock_guard lock(mutex_);
    all_.push_back(its);
    if (refuses) return nullptr;
    return made;
  }
  std::vector<std::shared_ptr<record>> of(span_kind kind) const {
    const std::lock_guard lock(mutex_);
    std::vector<std::shared_ptr<record>> found;
    std::copy_if(all_.begin(), all_.end(), std::back_inserter(found), [&](const auto& r) { return r->kind == kind; });
    return found;
  }
  std::atomic<bool> refuses{false};

private:
  mutable std::mutex mutex_;
  std::vector<std::shared_ptr<record>> all_;
};

semaphore_options traced(const std::shared_ptr<recorder>& by, std::uint32_t limit = 1) {
  semaphore_options options;
  options.prefix = "service/db";
  options.limit = limit;
  options.tracer = by;
  return options;
}

asio::awaitable<void> a_moment() {
  for (int i = 0; i < 20; ++i) co_await asio::post(asio::use_awaitable);
}

}  // namespace

ASYNC_TEST_CASE(a_wait_and_its_hold_are_told, 20s) {
  const auto by = std::make_shared<recorder>();
  const local_store store(ex);
  semaphore sem(store, traced(by));
  const int caller = 0;
  acquire_options options;
  options.trace_parent = &caller;
  slot held = co_await sem.acquire(options);
  co_await a_moment();
  const auto waits = by->of(span_kind::wait), holds = by->of(span_kind::hold);
  BOOST_TEST_REQUIRE(waits.size() == 1u);
  BOOST_TEST_REQUIRE(holds.size() == 1u);
  const record &wait = *waits[0], &hold = *holds[0];
  BOOST_TEST(wait.name == "acquire");
  BOOST_TEST(wait.key == "service/db");
  BOOST_TEST(wait.parent == &caller);
  BOOST_TEST(wait.ended);
  BOOST_TEST(wait.got_slot);
  BOOST_TEST(!wait.error);
  BOOST_TEST(!wait.session.empty());
  BOOST_TEST((wait.token == held.fencing_token()));
  BOOST_TEST(hold.name == "hold");
  BOOST_TEST(hold.key == "service/db");
  BOOST_TEST(hold.wait == wait.itself);
  BOOST_TEST(hold.parent == no_parent);
  BOOST_TEST(hold.session == wait.session);
  BOOST_TEST((hold.token == held.fencing_token()));
  BOOST_TEST((hold.began == wait.ended_at));
  BOOST_TEST(!hold.ended);
  co_await held.release();
  co_await a_moment();
  BOOST_TEST(hold.ended);
  BOOST_TEST((hold.reason == loss_reason::none));
  BOOST_TEST(hold.dropped);
}

ASYNC_TEST_CASE(a_wait_without_a_slot_tells_why, 20s) {
  const auto by = std::make_shared<recorder>();
  const local_store store(ex);
  semaphore sem(store, traced(by));
  slot held = co_await sem.acquire();
  const slot none = co_await sem.try_acquire();
  BOOST_TEST(!none);
  asio::cancellation_signal stop;
  std::optional<error_code> cancelled;
  sem.acquire(asio::bind_cancellation_slot(stop.slot(), [&](error_code ec, const slot&) { cancelled = ec; }));
  stop.emit(asio::cancellation_type::terminal);
  while (!cancelled) co_await asio::post(asio::use_awaitable);
  co_await a_moment();
  const auto waits = by->of(span_kind::wait);
  BOOST_TEST_REQUIRE(waits.size() == 3u);
  BOOST_TEST(waits[1]->ended);
  BOOST_TEST(!waits[1]->error);
  BOOST_TEST(!waits[1]->got_slot);
  BOOST_TEST(waits[2]->error == asio::error::operation_aborted);
  BOOST_TEST(by->of(span_kind::hold).size() == 1u);
}

ASYNC_TEST_CASE(a_loss_ends_the_hold, 20s) {
  const auto by = std::make_shared<recorder>();
  testing::server fake;
  consul::client client(ex, fake.client_config());
  semaphore sem(client, traced(by));
  slot held = co_await sem.acquire();
  fake.with([](auto& store, auto now) { store.write(consul::txn_operation::remove_tree("service"), now); });
  co_await held.wait_lost();
  co_await a_moment();
  BOOST_TEST_REQUIRE(by->of(span_kind::hold).size() == 1u);
  BOOST_TEST(by->of(span_kind::hold)[0]->ended);
  BOOST_TEST((by->of(span_kind::hold)[0]->reason == loss_reason::session_invalidated));
}

/// The session of a local waiter is that of the slot that is handed on, and the token grows.
ASYNC_TEST_CASE(a_slot_that_is_handed_on_has_two_holds, 20s) {
  const auto by = std::make_shared<recorder>();
  const local_store store(ex);
  semaphore sem(store, traced(by));
  slot held = co_await sem.acquire();
  std::optional<slot> next;
  sem.acquire([&](error_code, slot got) { next.emplace(std::move(got)); });
  co_await held.release();
  while (!next) co_await asio::post(asio::use_awaitable);
  co_await a_moment();
  const auto holds = by->of(span_kind::hold);
  BOOST_TEST_REQUIRE(holds.size() == 2u);
  BOOST_TEST(holds[0]->ended);
  BOOST_TEST(!holds[1]->ended);
  BOOST_TEST(holds[0]->session == holds[1]->session);
  BOOST_TEST((*holds[0]->token < *holds[1]->token));
}

ASYNC_TEST_CASE(a_lock_of_a_set_has_its_own_key, 20s) {
  const auto by = std::make_shared<recorder>();
  const local_store store(ex);
  mutex_set_options options;
  options.prefix = "set";
  options.tracer = by;
  mutex_set set(store, options);
  held_mutex held = co_await set.try_lock("a");
  co_await a_moment();
  BOOST_TEST_REQUIRE(by->of(span_kind::hold).size() == 1u);
  BOOST_TEST(by->of(span_kind::wait)[0]->key == "set/a");
  BOOST_TEST(by->of(span_kind::hold)[0]->key == "set/a");
}

ASYNC_TEST_CASE(each_request_is_told, 20s) {
  const auto by = std::make_shared<recorder>();
  testing::server fake;
  consul::config config = fake.client_config();
  config.tracer = by;
  consul::client client(ex, config);
  const int caller = 0;
  consul::request_options mine;
  mine.trace_parent = &caller;
  co_await client.put("k", "v", 0, mine);
  auto requests = by->of(span_kind::request);
  BOOST_TEST_REQUIRE(requests.size() == 1u);
  BOOST_TEST(requests[0]->name == to_string(consul::request_kind::kv_write));
  BOOST_TEST(requests[0]->key == "k");
  BOOST_TEST(requests[0]->parent == &caller);
  BOOST_TEST((requests[0]->thread == std::this_thread::get_id()));
  BOOST_TEST(requests[0]->ended);
  BOOST_TEST(!requests[0]->error);
  // The requests of a lock have no caller.
  semaphore sem(client, traced(by));
  slot held = co_await sem.acquire();
  requests = by->of(span_kind::request);
  BOOST_TEST(requests.size() > 1u);
  BOOST_TEST(std::all_of(requests.begin() + 1, requests.end(), [](const auto& r) { return r->parent == no_parent; }));
  fake.stop();
  mine.retry = false;
  std::optional<error_code> failed;
  client.put("k", "v", 0, mine, [&](error_code ec, const auto&...) { failed = ec; });
  while (!failed) co_await asio::post(asio::use_awaitable);
  // The lock may have made another request meanwhile.
  requests = by->of(span_kind::request);
  const auto at = std::find_if(requests.rbegin(), requests.rend(), [&](const auto& r) { return r->parent == &caller; });
  BOOST_TEST_REQUIRE((at != requests.rend()));
  BOOST_TEST((*at)->ended);
  BOOST_TEST((*at)->error == *failed);
}

/// A tracer may be interested in nothing.
ASYNC_TEST_CASE(no_span_is_ended_if_none_was_made, 20s) {
  const auto by = std::make_shared<recorder>();
  by->refuses = true;
  testing::server fake;
  consul::config config = fake.client_config();
  config.tracer = by;
  consul::client client(ex, config);
  semaphore sem(client, traced(by));
  slot held = co_await sem.acquire();
  co_await held.release();
  co_await a_moment();
  for (const span_kind each : {span_kind::wait, span_kind::hold, span_kind::request})
    for (const auto& its : by->of(each)) BOOST_TEST(!its->ended);
}

BOOST_AUTO_TEST_CASE(what_is_cut_off_by_the_end_of_the_context_is_dropped) {
  const auto by = std::make_shared<recorder>();
  std::optional<slot> held;
  auto io = std::make_unique<asio::io_context>();
  {
    const local_store store(io->get_executor());
    semaphore sem(store, traced(by));
    sem.acquire([&](error_code, slot got) { held.emplace(std::move(got)); });
    while (!held) io->run_one();
    sem.acquire([](error_code, const slot&) {});
    for (int i = 0; i < 20; ++i) io->poll();
    io.reset();
  }
  const auto waits = by->of(span_kind::wait);
  BOOST_TEST_REQUIRE(waits.size() == 2u);
  BOOST_TEST(!waits[1]->ended);
  BOOST_TEST(waits[1]->dropped);
  BOOST_TEST(!by->of(span_kind::hold)[0]->ended);
}

BOOST_AUTO_TEST_SUITE_END()
