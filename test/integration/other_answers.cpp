// SPDX-FileCopyrightText: The holdfast authors
// SPDX-License-Identifier: BSL-1.0

// For a while, something else than Consul answers: a load balancer without a backend, a login page, a proxy that is in
// trouble. Holders keep their locks, waiters keep their places, and operations that begin in that time end afterwards.

#include <boost/test/unit_test.hpp>
#include <chrono>
#include <cmath>
#include <holdfast/testing/proxy.hpp>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "support/agent.hpp"
#include "support/async.hpp"
#include "support/figures.hpp"
#include "support/participant.hpp"
#include "support/scripted_server.hpp"

namespace holdfast::test {
namespace {

using testing::fault;
using testing::fault_plan;
using testing::fault_rule;

const std::map<std::string, fault> answers = {
    {"200 html", fault::not_consul(200)},
    {"200 json", fault::not_consul(200, R"({"status":"ok"})", "application/json")},
    {"200 empty", fault::not_consul(200, {})},
    {"302", fault::not_consul(302, {}, "text/html", "https://sso.example/login?state=1")},
    {"308", fault::not_consul(308, {}, "text/html", "https://consul.example/v1/kv/")},
    {"400 tls", fault::not_consul(400, "The plain HTTP request was sent to HTTPS port")},
    {"401", fault::not_consul(401)},
    {"403 html", fault::not_consul(403)},
    {"404", fault::not_consul(404, "default backend - 404", "text/plain; charset=utf-8")},
    {"408", fault::not_consul(408)},
    {"421", fault::not_consul(421)},
    {"425", fault::not_consul(425)},
    {"502", fault::not_consul(502)},
    {"cut", fault::cut_reply()},
};

constexpr std::chrono::seconds lives{120};  // longer than the case, so that no lease is over before

tuning patient() {
  tuning its;
  its.give_up_after = 60s;
  its.request_timeout = 30s;
  return its;
}

template <class Held>
auto give_back(Held& held) {
  if constexpr (std::is_same_v<Held, leadership>)
    return held.resign();
  else
    return held.release();
}

/// Two programs of which one holds a lock, and the other waits for it. `Lock` says which kind.
template <class Lock>
class scene {
public:
  scene(const asio::any_io_executor& ex, agent& consul, const std::string& answer, bool has_two)
      : consul_(consul), answer_(answer), bad_(ex, consul.address()) {
    consul::config its = bad_.client_config();
    if (has_two) {
      good_.emplace(ex, consul.address());
      its.addresses = {bad_.address(), good_->address()};
    }
    for (auto* each : {&holder_, &waiter_}) {
      each->emplace(ex, its, prefix_, [this](const log_event& event) { ++lines_[event.kind]; });
    }
  }

  asio::awaitable<void> play(const asio::any_io_executor& ex) {
    held_ = co_await holder_->lock.take();
    waiting_.emplace(ex, waiter_->lock.take());
    co_await until("it waits", [&] { return waiter_->lock.waits(consul_, prefix_); });
    bad_.set_faults(fault_plan({fault_rule{.what = answers.at(answer_), .times = 0}}));
    bad_.cut();  // also the connections of the watches
    co_await until("both have met it", [&] { return has_met_it(); });
    BOOST_TEST(held_.held(), name() << ": the lock is lost");
    BOOST_TEST(!waiting_->ready(), name() << ": the waiter has an answer");
    const std::size_t requests = bad_.statistics().faults;
    bad_.set_faults({});
    const auto released = std::chrono::steady_clock::now();
    co_await give_back(held_);
    const error_code ec = co_await waiting_->wait();
    BOOST_TEST(!ec, name() << ": " << ec.message());
    const std::chrono::duration<double, std::milli> took = std::chrono::steady_clock::now() - released;
    print_figures({{"answer", name()},
                   {"requests", requests},
                   {"log_lines", lines_[log_kind::watch_failed] + lines_[log_kind::watch_restored]},
                   {"ms_to_next_grant", std::round(took.count())}});
    // The last watches may not have been needed any more, so that nobody knows whether they would work again.
    BOOST_TEST(lines_[log_kind::watch_failed] <= 2u, name());
    BOOST_TEST(lines_[log_kind::watch_restored] <= lines_[log_kind::watch_failed], name());
    auto last = !ec ? waiting_->take() : typename Lock::held();
    if (!ec) co_await give_back(last);
    co_await holder_->lock.close();
    co_await waiter_->lock.close();
  }

private:
  struct program {
    program(const asio::any_io_executor& ex, const consul::config& reach, const std::string& prefix, log_function log)
        : client(ex, reach), lock(client, prefix, std::move(log)) {}
    consul::client client;
    Lock lock;
  };

  std::string name() const { return answer_ + (good_ ? ", two addresses" : ", one address"); }
  bool has_met_it() const {
    if (!good_) return bad_.statistics().faults >= 8;
    const std::string good = good_->address();
    return holder_->client.health().address == good && waiter_->client.health().address == good;
  }

  agent& consul_;
  std::string answer_;
  testing::proxy bad_;
  std::optional<testing::proxy> good_{};
  std::string prefix_ = unique_prefix("answers");
  std::map<log_kind, std::size_t> lines_{};
  std::optional<program> holder_{}, waiter_{};
  typename Lock::held held_{};
  std::optional<pending<typename Lock::held>> waiting_{};
};

template <class Lock>
asio::awaitable<void> play_all(asio::any_io_executor ex) {
  agent consul({.http_max_conns_per_client = 2000});
  companions all(ex);
  std::vector<std::unique_ptr<scene<Lock>>> scenes;
  for (const auto& [answer, how] : answers) {
    for (const bool has_two : {false, true}) {
      scenes.push_back(std::make_unique<scene<Lock>>(ex, consul, answer, has_two));
      all.start(scenes.back()->play(ex));
    }
  }
  co_await all.join();
}

struct one_slot {
  using held = slot;
  one_slot(const consul::client& client, const std::string& prefix, log_function log)
      : sem(client, options(prefix, std::move(log))) {}
  static semaphore_options options(const std::string& prefix, log_function log) {
    semaphore_options its = calm(prefix, 1);
    its.session_ttl = lives;
    its.tuning = patient();
    its.log = std::move(log);
    return its;
  }
  auto take() { return sem.acquire(); }
  auto close() { return sem.close(); }
  static bool waits(const agent& a, const std::string& prefix) { return contenders(a, prefix).size() == 2; }
  semaphore sem;
};

struct one_mutex {
  using held = held_mutex;
  one_mutex(const consul::client& client, const std::string& prefix, log_function log)
      : mutex(client, options(prefix, std::move(log))) {}
  static mutex_options options(const std::string& prefix, log_function log) {
    mutex_options its = calm(prefix);
    its.session_ttl = lives;
    its.tuning = patient();
    its.log = std::move(log);
    return its;
  }
  auto take() { return mutex.lock(); }
  auto close() { return mutex.close(); }
  static bool waits(const agent& a, const std::string& prefix) { return contenders(a, prefix).size() == 1; }
  holdfast::mutex mutex;
};

struct one_election {
  using held = leadership;
  one_election(const consul::client& client, const std::string& prefix, log_function log)
      : candidates(client, options(prefix, std::move(log))) {}
  static election_options options(const std::string& prefix, log_function log) {
    election_options its;
    its.key = prefix;
    its.session_ttl = lives;
    its.tuning = patient();
    its.log = std::move(log);
    return its;
  }
  auto take() { return candidates.campaign("me"); }
  static asio::awaitable<void> close() { co_return; }
  static bool waits(const agent& a, const std::string& prefix) { return contenders(a, prefix).size() == 1; }
  election candidates;
};

/// Operations that begin while something else answers. They end when Consul answers again.
class interlude {
public:
  interlude(const asio::any_io_executor& ex, agent& consul, std::string answer)
      : answer_(std::move(answer)),
        bad_(ex, consul.address()),
        direct_(ex, consul, calm(prefix_, 1)),
        client_(ex, bad_.client_config()),
        set_(client_, set_options(prefix_)),
        admin_(client_, admin_options(prefix_)),
        observer_(client_, prefix_ + "/leader") {}

  asio::awaitable<void> play(const asio::any_io_executor& ex) {
    slot held = co_await direct_.sem.acquire();
    bad_.set_faults(fault_plan({fault_rule{.what = answers.at(answer_), .times = 0}}));
    consul::request_options patient;
    patient.timeout = 60s;
    consul::read_options patient_read;
    patient_read.request.timeout = 60s;
    pending<slot> lock(ex, set_.try_lock("one"));
    pending<semaphore_status> seen(ex, admin_.inspect(patient));
    pending<> drained(ex, admin_.wait_until_drained(60s, patient));
    pending<std::optional<leader>> led(ex, observer_.next());
    pending<consul::answer<std::optional<consul::kv_entry>>> got(ex, client_.get(prefix_ + "/.lock", patient_read));
    diagnostics why;
    const consul::request_options with_reason{.diag = &why};
    auto [failed, written] = co_await client_.put(prefix_ + "/x", "v", 0, with_reason, as_result);
    BOOST_TEST((failed == condition::outcome_unknown && failed == condition::unavailable), answer_);
    BOOST_TEST((answer_ == "cut") == (why.message.find("not Consul's answer") == std::string::npos), why.message);
    co_await until("all have met it", [&] { return bad_.statistics().faults >= 25; });
    BOOST_TEST(!(lock.ready() || seen.ready() || drained.ready() || led.ready() || got.ready()), answer_);
    bad_.set_faults({});
    co_await succeeds(lock);
    co_await succeeds(seen);
    co_await succeeds(led);
    co_await succeeds(got);
    BOOST_TEST(lock.value().held());
    co_await held.release();
    co_await succeeds(drained);
    co_await lock.take().release();
    co_await set_.close();
    co_await direct_.sem.close();
  }

private:
  template <class Pending>
  asio::awaitable<void> succeeds(Pending& operation) {
    const error_code ec = co_await operation.wait();
    BOOST_TEST(!ec, answer_ << ": " << ec.message());
  }
  static mutex_set_options set_options(const std::string& prefix) {
    mutex_set_options its = calm_set(prefix + "-set");
    its.tuning.give_up_after = 60s;
    return its;
  }
  static administration_options admin_options(const std::string& prefix) {
    administration_options its;
    its.prefix = prefix;
    return its;
  }

  std::string answer_;
  std::string prefix_ = unique_prefix("interlude");
  testing::proxy bad_;
  participant direct_;
  consul::client client_;
  mutex_set set_;
  semaphore_administration admin_;
  election_observer observer_;
};

}  // namespace
}  // namespace holdfast::test

using namespace holdfast;
using namespace holdfast::test;

BOOST_AUTO_TEST_SUITE(other_answers)

ASYNC_TEST_CASE(semaphores_outlive_them, 60s) { co_await play_all<one_slot>(ex); }

ASYNC_TEST_CASE(mutexes_outlive_them, 60s) { co_await play_all<one_mutex>(ex); }

ASYNC_TEST_CASE(elections_outlive_them, 60s) { co_await play_all<one_election>(ex); }

ASYNC_TEST_CASE(what_is_begun_meanwhile_ends_afterwards, 60s) {
  agent consul({.http_max_conns_per_client = 2000});
  companions all(ex);
  std::vector<std::unique_ptr<interlude>> played;
  for (const auto& [answer, how] : answers) {
    played.push_back(std::make_unique<interlude>(ex, consul, answer));
    all.start(played.back()->play(ex));
  }
  co_await all.join();
}

BOOST_AUTO_TEST_SUITE_END()
