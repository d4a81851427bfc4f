#include "support/memory_store.hpp"

#include <algorithm>
#include <boost/asio/associated_cancellation_slot.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/strand.hpp>
#include <functional>
#include <list>
#include <utility>

#include "runtime/convert.hpp"
#include "runtime/store.hpp"

namespace holdfast::test {
namespace {

namespace asio = boost::asio;
using namespace std::chrono_literals;
using clock = std::chrono::steady_clock;
namespace action = protocol::action;
namespace event = protocol::event;
using runtime::store_request;

/// Everything that has a TTL in tests is quicker than Consul allows by default.
testing::store_options quick() {
  testing::store_options options;
  options.session_ttl_min = 1ms;
  return options;
}

/// A read that waits for news.
struct reader {
  const void* of = nullptr;  ///< the store that it belongs to
  protocol::request_id id{};
  testing::subject what{};
  std::uint64_t index = 0;
  clock::time_point until{};
  std::function<void()> answer{};  ///< with what stands there now
};

}  // namespace

class memory_store::shared : public std::enable_shared_from_this<shared> {
public:
  explicit shared(asio::any_io_executor ex)
      : executor(std::move(ex)), strand(asio::make_strand(executor)), timer_(strand) {}

  const asio::any_io_executor executor;
  const asio::any_io_executor strand;
  testing::store model{quick()};
  std::uint64_t sessions_made = 0;

  void add(reader&& r) {
    const auto all = readers();
    all->push_back(std::move(r));
    settle();
  }
  template <class Condition>
  void stop_if(Condition&& stopped) {
    const auto all = readers();
    std::list<reader> gone;  // ends last: with a reader may end its driver, and that stops its other readers here
    for (auto at = all->begin(); at != all->end();) {
      const auto here = at++;
      if (stopped(*here)) gone.splice(gone.end(), *all, here);
    }
  }

  /// Answers those that have waited long enough, and comes back when the next one has.
  void settle() {
    const auto now = clock::now();
    model.advance(now);
    const auto all = readers();
    std::list<reader> due;
    clock::time_point next = model.next_deadline();
    for (auto at = all->begin(); at != all->end();) {
      const auto here = at++;
      if (here->index == 0 || model.index_of(here->what) > here->index || here->until <= now) {
        due.splice(due.end(), *all, here);
      } else {
        next = std::min(next, here->until);
      }
    }
    timer_.expires_at(next);
    timer_.async_wait([weak = weak_from_this(), all](const error_code& ec) {
      const auto self = weak.lock();
      if (self && !ec) self->settle();
    });
    for (reader& each : due) each.answer();
  }

private:
  std::shared_ptr<std::list<reader>> readers() {
    auto all = readers_.lock();
    if (!all) readers_ = all = std::make_shared<std::list<reader>>();
    return all;
  }

  // The wait of the timer owns them, so that they end with its context: each keeps a driver, and with it this.
  std::weak_ptr<std::list<reader>> readers_;
  asio::steady_timer timer_;
};

/// One lock's.
class memory_store::one final : public runtime::store {
public:
  one(std::shared_ptr<shared> with, runtime::store_terms terms) : with_(std::move(with)), terms_(std::move(terms)) {}
  ~one() override {
    with_->stop_if([this](const reader& r) { return r.of == this; });
  }

  asio::any_io_executor executor() const noexcept override { return with_->executor; }
  asio::any_io_executor strand() const override { return with_->strand; }
  void make(store_request&& request, const std::shared_ptr<runtime::event_sink>& to) override {
    asio::post(with_->strand, [this, keep = to, with = with_, request = std::move(request)]() mutable {
      std::visit([&](auto& each) { answer(each, keep); }, request);
      with->settle();
    });
  }

private:
  using sink = std::shared_ptr<runtime::event_sink>;
  testing::store& model() const { return with_->model; }

  void answer(action::create_session& a, const sink& to) {
    consul::session_info session;
    session.id = std::to_string(++with_->sessions_made);
    session.id.insert(0, 36 - session.id.size(), '0');
    session.ttl = terms_.ttl;
    session.lock_delay = terms_.lock_delay;
    session.behavior = consul::session_behavior::remove;
    session.node = terms_.node;
    std::string id = session.id;
    const bool refused = model().create_session(std::move(session), clock::now()).has_value();
    if (refused) return to->deliver(event::session_created{a.member, {}, {error::missing_node, {}}});
    to->deliver(event::session_created{a.member, std::move(id), {}});
  }
  void answer(action::register_node&, const sink& to) {
    model().register_node(terms_.node, "127.0.0.1", clock::now());
    to->deliver(event::node_registered{});
  }
  void answer(action::renew_session& a, const sink& to) {
    const bool lives = model().renew_session(a.session, clock::now());
    to->deliver(event::session_renewed{a.member, lives ? event::renewal::renewed : event::renewal::gone, {}});
  }
  void answer(action::destroy_session& a, const sink& to) {
    model().destroy_session(a.session, clock::now());
    to->deliver(event::session_destroyed{a.session, true});
  }
  void answer(action::send_txn& a, const sink& to) {
    to->deliver(runtime::txn_done(a.id, {}, model().transact(a.operations, clock::now()), {}));
  }
  void answer(action::list_prefix& a, const sink& to) {
    reader r{this, a.id, {testing::subject::kind::prefix, a.prefix}, a.index, clock::now() + a.wait, {}};
    r.answer = [this, to, id = a.id, prefix = a.prefix] {
      to->deliver(runtime::prefix_listed(id, {}, model().list(prefix), {}));
    };
    with_->add(std::move(r));
  }
  void answer(action::watch_key& a, const sink& to) {
    reader r{this, a.id, {testing::subject::kind::key, a.key}, a.index, clock::now() + a.wait, {}};
    r.answer = [this, to, id = a.id, key = a.key] { to->deliver(runtime::key_watched(id, {}, model().get(key), {})); };
    with_->add(std::move(r));
  }
  void answer(action::stop_watch& a, const sink&) {
    with_->stop_if([this, id = a.id](const reader& r) { return r.of == this && r.id == id; });
  }
  void answer(runtime::key_question& a, const sink&) {
    reader r{this, {}, {testing::subject::kind::key, a.key}, a.index, clock::now() + a.wait, {}};
    auto stop = asio::get_associated_cancellation_slot(a.answered);
    const auto waiting = std::make_shared<decltype(a.answered)>(std::move(a.answered));
    auto once = [waiting, stop](event::key_watched seen) mutable {
      if (!*waiting) return;
      decltype(a.answered) handler;
      handler.swap(*waiting);
      if (stop.is_connected()) stop.clear();
      std::move(handler)(std::move(seen));
    };
    r.answer = [once, key = a.key, with = with_]() mutable {
      once(runtime::key_watched({}, {}, with->model.get(key), {}));
    };
    if (stop.is_connected()) {
      stop.assign([once](asio::cancellation_type) mutable {
        event::key_watched nothing{};
        nothing.error.code = asio::error::operation_aborted;
        once(std::move(nothing));
      });
    }
    with_->add(std::move(r));
  }
  void answer(runtime::write_question& a, const sink&) {
    std::move(a.answered)(runtime::txn_done({}, {}, model().transact(a.operations, clock::now()), {}));
  }
  void answer(runtime::stop_reads&, const sink&) {
    with_->stop_if([this](const reader& r) { return r.of == this; });
  }

  const std::shared_ptr<shared> with_;
  const runtime::store_terms terms_;
};

class memory_store::factory final : public runtime::store_factory {
public:
  explicit factory(std::shared_ptr<shared> with) : with_(std::move(with)) {}
  std::unique_ptr<runtime::store> open(runtime::store_terms terms) const override {
    return std::make_unique<one>(with_, std::move(terms));
  }
  asio::any_io_executor executor() const noexcept override { return with_->executor; }

private:
  const std::shared_ptr<shared> with_;
};

memory_store::memory_store(asio::any_io_executor executor) : shared_(std::make_shared<shared>(std::move(executor))) {}
memory_store::operator lock_store() const { return lock_store(std::make_shared<const factory>(shared_)); }
testing::store& memory_store::model() const { return shared_->model; }
void memory_store::settle() const { shared_->settle(); }

}  // namespace holdfast::test
