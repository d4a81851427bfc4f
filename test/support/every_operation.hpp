// SPDX-FileCopyrightText: The holdfast authors
// SPDX-License-Identifier: BSL-1.0

#pragma once

#include <boost/asio/any_io_executor.hpp>
#include <boost/asio/bind_cancellation_slot.hpp>
#include <boost/asio/bind_executor.hpp>
#include <boost/asio/cancellation_signal.hpp>
#include <boost/asio/execution/blocking.hpp>
#include <boost/asio/execution/context.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/query.hpp>
#include <boost/asio/require.hpp>
#include <boost/test/unit_test.hpp>
#include <chrono>
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

/// Every operation of the library, for tests that treat all alike.
namespace holdfast::test::every {

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
  std::shared_ptr<int> handler = std::make_shared<int>();  ///< each handler that exists has a copy
  asio::cancellation_signal stop{};
  std::optional<asio::io_context> app{std::in_place, 1};
  std::optional<asio::io_context> own{std::in_place, 1};
  consul::client client;
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

  explicit world(bool on_consul, std::chrono::milliseconds request_timeout = 5s)
      : client(*own, config(request_timeout)), store(on_consul ? lock_store(client) : lock_store(local_store(*own))) {
    const tuning its{.give_up_after = request_timeout, .request_timeout = request_timeout};
    sem.emplace(store, semaphore_options{.prefix = "s", .limit = 1, .tuning = its});
    one.emplace(store, mutex_options{.key = "m", .tuning = its});
    set.emplace(store, mutex_set_options{.prefix = "set", .tuning = its});
    candidates.emplace(store, election_options{.key = "e", .tuning = its});
    observer.emplace(candidates->observe());
    admin.emplace(store, administration_options{.prefix = "s", .timeout = 2 * request_timeout});
  }
  consul::config config(std::chrono::milliseconds request_timeout) const {
    consul::config its = fake.client_config();
    its.request_timeout = request_timeout;
    return its;
  }

  /// A handler that runs on the other context, or on the client's if there is no other. It can be cancelled.
  auto there() {
    asio::any_io_executor executor = own->get_executor();
    if (app) executor = noting_executor(app->get_executor(), passed_on);
    return asio::bind_cancellation_slot(
        stop.slot(), asio::bind_executor(executor, [this, alive = handler](auto&&...) { ++called; }));
  }
  /// Runs the client's context until the handler has been passed on.
  void run_until_passed_on() {
    own->restart();
    while (!passed_on) BOOST_REQUIRE(own->run_one_for(test::scaled(60s)) == 1u);
    passed_on = false;
  }
  void need_nothing() {}
  /// Gets a handle that an operation needs. With a short timeout, a busy machine may need several attempts.
  template <class Handle, class Begin>
  void get(Handle& which, Begin begin) {
    for (int attempts = 1; !which.held(); ++attempts) {
      BOOST_REQUIRE(attempts < 100);
      bool has_ended = false;
      begin([&](error_code, Handle its) {
        which = std::move(its);
        has_ended = true;
      });
      own->restart();
      // NOLINTNEXTLINE(bugprone-infinite-loop): the handler sets it
      while (!has_ended) BOOST_REQUIRE(own->run_one_for(test::scaled(60s)) == 1u);
    }
  }
  void need_slot() {
    get(held, [this](auto handler) { sem->acquire(std::move(handler)); });
  }
  void need_lock() {
    get(locked, [this](auto handler) { one->lock(std::move(handler)); });
  }
  void need_office() {
    get(leads, [this](auto handler) { candidates->campaign("a", std::move(handler)); });
  }
};

struct operation {
  const char* name;
  void (*begin)(world&);
  void (world::*needs)() = &world::need_nothing;  ///< to be called before
  bool waits = false;                             ///< it completes only after an event
  bool only_on_consul = false;
};
inline std::ostream& operator<<(std::ostream& out, const operation& which) { return out << which.name; }

inline constexpr operation operations[] = {
    {"acquire", [](world& w) { w.sem->acquire(w.there()); }},
    {"acquire that waits", [](world& w) { w.sem->acquire(w.there()); }, &world::need_slot, true},
    {"try_acquire", [](world& w) { w.sem->try_acquire(w.there()); }},
    {"try_acquire_for", [](world& w) { w.sem->try_acquire_for(1h, w.there()); }},
    {"release", [](world& w) { w.held.release(w.there()); }, &world::need_slot},
    {"wait_lost", [](world& w) { w.held.wait_lost(w.there()); }, &world::need_slot, true},
    {"wait_revoked", [](world& w) { w.held.wait_revoked(w.there()); }, &world::need_slot, true},
    {"close", [](world& w) { w.sem->close(w.there()); }, &world::need_slot},
    {"lock", [](world& w) { w.one->lock(w.there()); }},
    {"sequencer_of", [](world& w) { sequencer_of(w.locked, w.there()); }, &world::need_lock},
    {"verify", [](world& w) { verify(w.store, sequencer{"m", 1, "a", 1}, w.there()); }},
    {"lock of a set", [](world& w) { w.set->try_lock("a", w.there()); }},
    {"campaign", [](world& w) { w.candidates->campaign("a", w.there()); }},
    {"proclaim", [](world& w) { w.leads.proclaim("b", w.there()); }, &world::need_office},
    {"next", [](world& w) { w.observer->next(w.there()); }},
    {"create", [](world& w) { w.admin->create(2, w.there()); }},
    {"resize", [](world& w) { w.admin->resize(2, w.there()); }, &world::need_slot},
    {"close for all", [](world& w) { w.admin->close(w.there()); }, &world::need_slot},
    {"open", [](world& w) { w.admin->open(w.there()); }, &world::need_slot},
    {"revoke", [](world& w) { w.admin->revoke("x", w.there()); }, &world::need_slot},
    {"evict", [](world& w) { w.admin->evict("x", w.there()); }, &world::need_slot},
    {"destroy", [](world& w) { w.admin->destroy(w.there()); }, &world::need_slot},
    {"sweep", [](world& w) { w.admin->sweep(w.there()); }, &world::need_slot},
    {"drain", [](world& w) { w.admin->wait_until_drained(1h, w.there()); }, &world::need_slot, true},
    {"inspect", [](world& w) { w.admin->inspect(w.there()); }, &world::need_slot},
    {"get", [](world& w) { w.client.get("k", w.there()); }, &world::need_nothing, false, true},
    {"blocking get", [](world& w) { w.client.get("k", {.index = 1'000, .wait = 1h}, w.there()); }, &world::need_nothing,
     true, true},
    {"put", [](world& w) { w.client.put("k", "v", w.there()); }, &world::need_nothing, false, true},
};

/// An operation on one of the two kinds of stores.
struct scene {
  operation what;
  bool on_consul;
};
inline std::ostream& operator<<(std::ostream& out, const scene& of) {
  return out << of.what << (of.on_consul ? " on Consul" : " on a local store");
}

inline std::vector<scene> scenes(bool also_those_that_wait) {
  std::vector<scene> all;
  for (const operation& each : operations)
    for (const bool on_consul : {false, true})
      if ((also_those_that_wait || !each.waits) && (on_consul || !each.only_on_consul))
        all.push_back({each, on_consul});
  return all;
}

}  // namespace holdfast::test::every
