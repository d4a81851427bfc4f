// SPDX-FileCopyrightText: The holdfast authors
// SPDX-License-Identifier: BSL-1.0

#include <algorithm>
#include <random>
#include <unordered_map>

#include "front.hpp"

namespace holdfast::testing {
namespace detail {

// The HTTP limit exceeds Consul's limits by this much, so that a body slightly over them gets Consul's own error text.
constexpr std::size_t body_bytes_margin = 64 * 1024;

/// The store behind a front, whose mutex guards it.
class model final : public backend {
public:
  model(front_impl& front, const server_options& options)
      : front_(front),
        store_(options.model),
        seed_(options.seed != 0 ? options.seed : std::random_device()()),
        api_(store_, seed_),
        exchange_max_(options.exchange_max),
        random_(static_cast<std::minstd_rand::result_type>(seed_)),
        timer_(front.strand()) {}

  std::unique_ptr<exchange> open(connection& client) override;

  std::size_t body_bytes_max() const noexcept override {
    const store_options& limits = store_.options();
    return std::max(limits.value_bytes_max, limits.txn_bytes_max) + body_bytes_margin;
  }

  void release() noexcept override { timer_.reset(); }

  front_impl& front() const noexcept { return front_; }

  /// Requires the mutex.
  store& contents() noexcept { return store_; }

  /// Called on the strand after a change of the store that no request has made, and at the store's deadlines. Wakes the
  /// queries whose watches have fired.
  void settle();

  struct waiter {
    connection& client;
    bool fired = false;
  };
  struct asked {
    api_answer answer;
    store::watch_id watch = 0;  // set if the answer waits
    bool stopped = false;
  };
  /// The answer and the watch are made from the same state of the store, so that no change between them is missed.
  asked ask(const connection& client, const api_request& request);
  void add(store::watch_id watch, waiter& who) { waiters_.emplace(watch, &who); }
  void remove(store::watch_id watch);
  /// The random time that Consul adds to the wait of every blocking query: up to a sixteenth of the wait.
  store::duration jitter(store::duration wait);
  /// The time limit of a query that begins now, see `server_options::exchange_max`.
  time_point overdue_at() const {
    return exchange_max_ == store::duration::zero() ? time_point::max() : clock::now() + exchange_max_;
  }

private:
  struct changes {
    std::vector<store::watch_id> fired;
    time_point next_deadline;
  };
  changes take_changes();
  void follow(const changes& what);

  front_impl& front_;
  // --- Guarded by the mutex.
  store store_;
  const std::uint64_t seed_;
  api api_;
  const store::duration exchange_max_;
  // --- Used on the strand.
  std::minstd_rand random_;
  std::unordered_map<store::watch_id, waiter*> waiters_;
  std::optional<timer_type> timer_;
  time_point due_ = time_point::max();
};

namespace {

class model_exchange final : public exchange {
public:
  model_exchange(model& owner, connection& client) : model_(owner), client_(client) {}

  awaitable<std::optional<api_reply>> perform(const http_request& request) override;
  awaitable<void> end_session(std::string id) override;
  void abandon() noexcept override { client_.wake(); }

private:
  awaitable<bool> fires(store::watch_id watch, time_point end);

  model& model_;
  connection& client_;
};

// Keeps a watch registered while a query waits for it.
class registration {
public:
  registration(model& owner, store::watch_id watch, model::waiter& who) : model_(owner), watch_(watch) {
    model_.add(watch_, who);
  }
  ~registration() { model_.remove(watch_); }
  registration(const registration&) = delete;
  registration& operator=(const registration&) = delete;

private:
  model& model_;
  const store::watch_id watch_;
};

awaitable<std::optional<api_reply>> model_exchange::perform(const http_request& request) {
  model::asked now = model_.ask(client_, request.call);
  if (!now.stopped && now.answer.waits_for) {
    const front_impl::blocked_mark mark(model_.front(), client_);
    const time_point end = clock::now() + now.answer.wait + model_.jitter(now.answer.wait);
    const time_point overdue_at = model_.overdue_at();
    while (!now.stopped && now.answer.waits_for) {
      const bool fired = co_await fires(now.watch, std::min(end, overdue_at));
      client_.overdue = !fired && overdue_at < end;
      if (client_.abandoned() || client_.overdue) co_return std::nullopt;
      if (!fired) break;
      now = model_.ask(client_, request.call);
    }
  }
  if (now.stopped) co_return std::nullopt;
  co_return std::move(now.answer.reply);
}

// Returns false if `end` came first, or if the query was abandoned before.
awaitable<bool> model_exchange::fires(store::watch_id watch, time_point end) {
  model::waiter self{client_};
  const registration waits(model_, watch, self);
  while (!self.fired && !client_.abandoned() && clock::now() < end) co_await client_.changed(end);
  co_return self.fired;
}

awaitable<void> model_exchange::end_session(std::string id) {
  {
    const std::lock_guard lock(model_.front().mutex());
    if (model_.front().is_stopped(client_)) co_return;
    model_.contents().destroy_session(id, clock::now());
  }
  model_.settle();
  co_return;
}

}  // namespace

std::unique_ptr<exchange> model::open(connection& client) { return std::make_unique<model_exchange>(*this, client); }

model::asked model::ask(const connection& client, const api_request& request) {
  asked out;
  changes what;
  {
    const std::lock_guard lock(front_.mutex());
    if (front_.is_stopped(client)) {
      out.stopped = true;
      return out;
    }
    const time_point now = clock::now();
    store_.advance(now);
    out.answer = api_.handle(request, now);
    what = take_changes();
    // The watch is made last. No query waits for it yet, so a watch that fired above would be lost.
    if (out.answer.waits_for) out.watch = store_.watch(*out.answer.waits_for);
  }
  follow(what);
  return out;
}

void model::remove(store::watch_id watch) {
  waiters_.erase(watch);
  const std::lock_guard lock(front_.mutex());
  store_.unwatch(watch);
}

store::duration model::jitter(store::duration wait) {
  return store::duration(std::uniform_int_distribution<store::duration::rep>(0, wait.count() / 16)(random_));
}

void model::settle() {
  changes what;
  {
    const std::lock_guard lock(front_.mutex());
    store_.advance(clock::now());
    what = take_changes();
  }
  follow(what);
}

model::changes model::take_changes() { return {store_.take_fired(), store_.next_deadline()}; }

// Wakes the waiting queries, and sets the timer for the next deadline of the store.
void model::follow(const changes& what) {
  for (const store::watch_id watch : what.fired) {
    const auto at = waiters_.find(watch);
    if (at == waiters_.end()) continue;
    at->second->fired = true;
    at->second->client.wake();
  }
  if (!timer_ || std::exchange(due_, what.next_deadline) == what.next_deadline) return;
  timer_->expires_at(what.next_deadline);
  timer_->async_wait([front = front_.shared_from_this(), this](const boost::system::error_code& ec) {
    if (ec) return;
    due_ = time_point::max();
    settle();
  });
}

}  // namespace detail

server::server(server_options options) : server(asio::any_io_executor(), std::move(options)) {}

server::server(asio::any_io_executor executor, server_options options)
    : front(std::move(executor), options), model_(std::make_shared<detail::model>(*impl_, options)) {
  impl_->open(model_);
}

server::~server() = default;

server::access::access(server& owner)
    : owner_(owner), lock_(owner.impl_->mutex()), now_(std::chrono::steady_clock::now()) {
  model().advance(now_);
}

server::access::~access() {
  lock_.unlock();
  owner_.impl_->dispatch([front = owner_.impl_, model = owner_.model_] { model->settle(); });
}

store& server::access::model() const noexcept { return owner_.model_->contents(); }

}  // namespace holdfast::testing
