// SPDX-FileCopyrightText: The holdfast authors
// SPDX-License-Identifier: BSL-1.0

// A client on one context, and handlers on another. doc/reference/contexts.md says in which order two contexts may be
// destroyed.

#include <boost/asio/any_io_executor.hpp>
#include <boost/asio/bind_cancellation_slot.hpp>
#include <boost/asio/bind_executor.hpp>
#include <boost/asio/cancellation_signal.hpp>
#include <boost/asio/execution/blocking.hpp>
#include <boost/asio/execution/context.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/query.hpp>
#include <boost/asio/require.hpp>
#include <boost/test/data/test_case.hpp>
#include <boost/test/unit_test.hpp>
#include <chrono>
#include <functional>
#include <holdfast/administration.hpp>
#include <holdfast/consul/client.hpp>
#include <holdfast/election.hpp>
#include <holdfast/local_store.hpp>
#include <holdfast/mutex.hpp>
#include <holdfast/mutex_set.hpp>
#include <holdfast/semaphore.hpp>
#include <holdfast/testing/server.hpp>
#include <memory>
#include <optional>
#include <ostream>
#include <string>
#include <utility>
#include <vector>

#include "support/async.hpp"

BOOST_AUTO_TEST_SUITE(two_contexts)

namespace {

using namespace holdfast;
namespace asio = boost::asio;
using namespace std::chrono_literals;

/// An executor of a context. It notes that a function was passed on to it.
class noting_executor {
public:
  noting_executor(asio::any_io_executor usual, bool& passed_on) : usual_(std::move(usual)), passed_on_(&passed_on) {}

  asio::execution_context& query(asio::execution::context_t) const noexcept {
    return asio::query(usual_, asio::execution::context);
  }
  static constexpr asio::execution::blocking_t query(asio::execution::blocking_t) noexcept {
    return asio::execution::blocking.never;
  }
  template <class Function>
  void execute(Function&& function) const {
    *passed_on_ = true;
    asio::require(usual_, asio::execution::blocking.never).execute(std::forward<Function>(function));
  }
  bool operator==(const noting_executor&) const noexcept = default;

private:
  asio::any_io_executor usual_;
  bool* passed_on_;
};

/// Two contexts, and handles that belong to the client's. All handles outlive both contexts.
struct world {
  testing::server fake;
  bool passed_on = false;
  int called = 0;
  asio::cancellation_signal stop{};
  std::optional<asio::io_context> app{std::in_place, 1};
  std::optional<asio::io_context> own{std::in_place, 1};
  consul::client client{*own, fake.client_config()};
  lock_store store;
  std::optional<semaphore> sem{};
  std::optional<mutex> one{};
  std::optional<mutex_set> set{};
  std::optional<election> candidates{};
  std::optional<election_observer> observer{};
  std::optional<semaphore_administration> admin{};
  slot held{};
  held_mutex locked{};
  leadership leads{};

  explicit world(bool on_consul) : store(on_consul ? lock_store(client) : lock_store(local_store(*own))) {
    sem.emplace(store, semaphore_options{.prefix = "s", .limit = 1});
    one.emplace(store, mutex_options{.key = "m"});
    set.emplace(store, mutex_set_options{.prefix = "set"});
    candidates.emplace(store, election_options{.key = "e"});
    observer.emplace(candidates->observe());
    admin.emplace(store, administration_options{.prefix = "s"});
  }

  /// A handler that runs on the other context, and can be cancelled.
  auto there() {
    const noting_executor executor(app->get_executor(), passed_on);
    return asio::bind_cancellation_slot(stop.slot(), asio::bind_executor(executor, [this](auto&&...) { ++called; }));
  }
  /// Runs the client's context until the handler has been passed on.
  void run_until_passed_on() {
    own->restart();
    while (!passed_on) BOOST_REQUIRE(own->run_one_for(test::scaled(60s)) == 1u);
    passed_on = false;
  }
  /// Waits for a handle that an operation needs.
  template <class Handle>
  void run_until_held(const Handle& which) {
    own->restart();
    while (!which.held()) BOOST_REQUIRE(own->run_one_for(test::scaled(60s)) == 1u);
  }
  void need_slot() {
    sem->acquire([this](error_code, slot its) { held = std::move(its); });
    run_until_held(held);
  }
  void need_lock() {
    one->lock([this](error_code, held_mutex its) { locked = std::move(its); });
    run_until_held(locked);
  }
  void need_office() {
    candidates->campaign("a", [this](error_code, leadership its) { leads = std::move(its); });
    run_until_held(leads);
  }
};

struct operation {
  const char* name;
  void (*begin)(world&);
  bool waits = false;  ///< it completes only after an event
  bool only_on_consul = false;
};
std::ostream& operator<<(std::ostream& out, const operation& which) { return out << which.name; }

constexpr operation operations[] = {
    {"acquire", [](world& w) { w.sem->acquire(w.there()); }},
    {"acquire that waits", [](world& w) { w.need_slot(), w.sem->acquire(w.there()); }, true},
    {"try_acquire", [](world& w) { w.sem->try_acquire(w.there()); }},
    {"try_acquire_for", [](world& w) { w.sem->try_acquire_for(1h, w.there()); }},
    {"release", [](world& w) { w.need_slot(), w.held.release(w.there()); }},
    {"wait_lost", [](world& w) { w.need_slot(), w.held.wait_lost(w.there()); }, true},
    {"wait_revoked", [](world& w) { w.need_slot(), w.held.wait_revoked(w.there()); }, true},
    {"close", [](world& w) { w.need_slot(), w.sem->close(w.there()); }},
    {"lock", [](world& w) { w.one->lock(w.there()); }},
    {"sequencer_of", [](world& w) { w.need_lock(), sequencer_of(w.locked, w.there()); }},
    {"verify", [](world& w) { verify(w.store, sequencer{"m", 1, "a", 1}, w.there()); }},
    {"lock of a set", [](world& w) { w.set->try_lock("a", w.there()); }},
    {"campaign", [](world& w) { w.candidates->campaign("a", w.there()); }},
    {"proclaim", [](world& w) { w.need_office(), w.leads.proclaim("b", w.there()); }},
    {"next", [](world& w) { w.observer->next(w.there()); }},
    {"create", [](world& w) { w.admin->create(2, w.there()); }},
    {"resize", [](world& w) { w.need_slot(), w.admin->resize(2, w.there()); }},
    {"close for all", [](world& w) { w.need_slot(), w.admin->close(w.there()); }},
    {"open", [](world& w) { w.need_slot(), w.admin->open(w.there()); }},
    {"revoke", [](world& w) { w.need_slot(), w.admin->revoke("x", w.there()); }},
    {"evict", [](world& w) { w.need_slot(), w.admin->evict("x", w.there()); }},
    {"destroy", [](world& w) { w.need_slot(), w.admin->destroy(w.there()); }},
    {"sweep", [](world& w) { w.need_slot(), w.admin->sweep(w.there()); }},
    {"drain", [](world& w) { w.need_slot(), w.admin->wait_until_drained(1h, w.there()); }, true},
    {"inspect", [](world& w) { w.need_slot(), w.admin->inspect(w.there()); }},
    {"get", [](world& w) { w.client.get("k", w.there()); }, false, true},
    {"blocking get", [](world& w) { w.client.get("k", {.index = 1'000, .wait = 1h}, w.there()); }, true, true},
    {"put", [](world& w) { w.client.put("k", "v", w.there()); }, false, true},
};

/// An operation on one of the two kinds of stores.
struct scene {
  operation what;
  bool on_consul;
};
std::ostream& operator<<(std::ostream& out, const scene& of) {
  return out << of.what << (of.on_consul ? " on Consul" : " on a local store");
}

std::vector<scene> scenes(bool also_those_that_wait) {
  std::vector<scene> all;
  for (const operation& each : operations)
    for (const bool on_consul : {false, true})
      if ((also_those_that_wait || !each.waits) && (on_consul || !each.only_on_consul))
        all.push_back({each, on_consul});
  return all;
}

/// Begins the operation, and calls `then` when the handler has been passed on to its context.
template <class Then>
void when_passed_on(const scene& of, Then then) {
  world w(of.on_consul);
  of.what.begin(w);
  w.run_until_passed_on();
  then(w);
}

namespace data = boost::unit_test::data;

}  // namespace

BOOST_DATA_TEST_CASE(the_context_of_the_client_goes_before_the_handler_runs, data::make(scenes(false)), of) {
  when_passed_on(of, [](world& w) {
    w.own.reset();
    BOOST_TEST(w.called == 0);
    w.app->run_for(test::scaled(60s));
    BOOST_TEST(w.called == 1);
  });
}

BOOST_DATA_TEST_CASE(and_the_operation_is_cancelled_after_that, data::make(scenes(false)), of) {
  when_passed_on(of, [](world& w) {
    w.own.reset();
    w.stop.emit(asio::cancellation_type::terminal);
    w.app->run_for(test::scaled(60s));
    BOOST_TEST(w.called == 1);
  });
}

BOOST_DATA_TEST_CASE(the_context_of_the_handler_goes_first, data::make(scenes(false)), of) {
  when_passed_on(of, [](world& w) {
    w.app.reset();
    BOOST_TEST(w.called == 0);
    w.own->poll();
    w.own.reset();
  });
}

BOOST_DATA_TEST_CASE(the_context_of_the_client_goes_while_the_operation_is_pending, data::make(scenes(true)), of) {
  world w(of.on_consul);
  of.what.begin(w);
  w.own.reset();
  w.stop.emit(asio::cancellation_type::terminal);
  w.app->poll();
  BOOST_TEST(w.called == 0);
}

BOOST_AUTO_TEST_SUITE_END()
