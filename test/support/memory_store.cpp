// SPDX-FileCopyrightText: The holdfast authors
// SPDX-License-Identifier: BSL-1.0

#include "support/memory_store.hpp"

#include <algorithm>
#include <boost/asio/associated_cancellation_slot.hpp>
#include <boost/asio/dispatch.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/strand.hpp>
#include <functional>
#include <list>
#include <optional>
#include <type_traits>
#include <utility>

#include "consul/context_hook.hpp"
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
  options.version = {1, 8, 7};  // as the simulator's
  options.session_ttl_min = 1ms;
  return options;
}

constexpr protocol::request_id a_question = 0;  // the core numbers its requests from 1 on

/// A read that waits for news.
struct reader {
  const void* of = nullptr;  ///< the store that it belongs to
  protocol::request_id id{};
  testing::subject what{};
  std::uint64_t index = 0;
  clock::time_point until{};
  std::function<void()> answer{};  ///< answers the read with the present state
};

}  // namespace

/// The state that all locks of a memory store share. It releases its context when that shuts down, as `runtime::store`
/// requires.
class memory_store::shared final : public std::enable_shared_from_this<shared>, consul::detail::context_hook {
public:
  explicit shared(const asio::any_io_executor& ex)
      : context_hook(ex), executor(ex), strand(asio::make_strand(ex)), timer_(std::in_place, strand) {}
  ~shared() { unhook(); }

  asio::any_io_executor executor;  ///< empty once the context is gone, as is the strand
  asio::any_io_executor strand;
  testing::store model{quick()};
  std::uint64_t sessions_made = 0;
  bool closed = false;

  void add(reader&& r) {
    readers_.push_back(std::move(r));
    settle();
  }
  template <class Condition>
  void stop_if(Condition&& stopped) {
    std::list<reader> gone;  // destroyed last: a reader may be the last owner of its driver, which stops other readers
    for (auto at = readers_.begin(); at != readers_.end();) {
      const auto here = at++;
      if (stopped(*here)) gone.splice(gone.end(), readers_, here);
    }
  }

  /// Answers the reads that have waited long enough or have news. A timer calls it again at the next deadline.
  void settle() {
    if (!timer_) return;
    const auto now = clock::now();
    model.advance(now);
    std::list<reader> due;
    clock::time_point next = model.next_deadline();
    for (auto at = readers_.begin(); at != readers_.end();) {
      const auto here = at++;
      if (closed || here->index == 0 || model.index_of(here->what) > here->index || here->until <= now) {
        due.splice(due.end(), readers_, here);
      } else {
        next = std::min(next, here->until);
      }
    }
    timer_->expires_at(next);
    timer_->async_wait([weak = weak_from_this()](const error_code& ec) {
      const auto self = weak.lock();
      if (self && !ec) self->settle();
    });
    for (reader& each : due) each.answer();
  }

private:
  /// Returns the readers, to be destroyed later. Each of them keeps its driver alive, which keeps this object alive.
  std::shared_ptr<void> on_context_shutdown() noexcept override {
    timer_.reset();
    strand = {};
    executor = {};
    return std::make_shared<std::list<reader>>(std::move(readers_));
  }

  std::list<reader> readers_;
  std::optional<asio::steady_timer> timer_;
};

/// The store of one lock.
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
  static protocol::failure why_closed() { return {error::closed, {}}; }
  static protocol::failure why_not(bool closed) { return closed ? why_closed() : protocol::failure(); }

  /// Delivers an answer to the core. If the store is closed, the core must close, too, and is told so next.
  static void tell(const sink& to, protocol::core_event&& e, bool closed) {
    to->deliver(std::move(e));
    if (closed) to->deliver(event::close{true, true});
  }

  void answer(action::create_session& a, const sink& to) {
    if (with_->closed) return tell(to, event::session_created{a.member, {}, why_closed()}, true);
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
    if (!with_->closed) model().register_node(terms_.node, "127.0.0.1", clock::now());
    tell(to, event::node_registered{why_not(with_->closed)}, with_->closed);
  }
  void answer(action::renew_session& a, const sink& to) {
    using event::renewal;
    if (with_->closed) return tell(to, event::session_renewed{a.member, renewal::failed, why_closed()}, true);
    const bool lives = model().renew_session(a.session, clock::now());
    to->deliver(event::session_renewed{a.member, lives ? renewal::renewed : renewal::gone, {}});
  }
  void answer(action::destroy_session& a, const sink& to) {
    if (!with_->closed) model().destroy_session(a.session, clock::now());
    tell(to, event::session_destroyed{a.session, !with_->closed}, with_->closed);
  }
  event::txn_done done(protocol::request_id id, const std::vector<kv_operation>& operations) {
    if (with_->closed) return runtime::txn_done(id, error::closed, {}, {});
    return runtime::txn_done(id, {}, model().transact(operations, clock::now()), {});
  }
  void answer(action::send_txn& a, const sink& to) { tell(to, done(a.id, a.operations), with_->closed); }
  void answer(action::list_prefix& a, const sink& to) {
    reader r{this, a.id, {testing::subject::kind::prefix, a.prefix}, a.index, clock::now() + a.wait, {}};
    r.answer = [this, to, id = a.id, prefix = a.prefix, with = with_] {
      if (with->closed) return tell(to, event::prefix_listed{.id = id, .error = why_closed()}, true);
      to->deliver(runtime::prefix_listed(id, {}, model().list(prefix), {}));
    };
    with_->add(std::move(r));
  }
  static event::key_watched seen(const shared& with, protocol::request_id id, const std::string& key) {
    if (with.closed) return event::key_watched{.id = id, .error = why_closed()};
    return runtime::key_watched(id, {}, with.model.get(key), {});
  }
  void answer(action::watch_key& a, const sink& to) {
    reader r{this, a.id, {testing::subject::kind::key, a.key}, a.index, clock::now() + a.wait, {}};
    r.answer = [to, id = a.id, key = a.key, with = with_] { tell(to, seen(*with, id, key), with->closed); };
    with_->add(std::move(r));
  }
  void answer(action::read_node& a, const sink& to) {
    reader r{this, a.id, {testing::subject::kind::node, a.node}, 0, clock::now(), {}};
    r.answer = [to, id = a.id, node = a.node, with = with_] {
      if (with->closed) return tell(to, event::node_seen{.id = id, .error = why_closed()}, true);
      const auto found = with->model.node(node).value;
      to->deliver(event::node_seen{id, found ? found->create_index : 0, {}});
    };
    with_->add(std::move(r));
  }
  void answer(action::stop_watch& a, const sink&) {
    with_->stop_if([this, id = a.id](const reader& r) { return r.of == this && r.id == id; });
  }
  void answer(runtime::key_question& a, const sink&) {
    answer_question(a, {testing::subject::kind::key, a.key},
                    [key = a.key, with = with_] { return seen(*with, {}, key); });
  }
  void answer(runtime::prefix_question& a, const sink&) {
    answer_question(a, {testing::subject::kind::prefix, a.prefix}, [prefix = a.prefix, with = with_] {
      if (with->closed) return event::prefix_listed{.id = {}, .error = why_closed()};
      return runtime::prefix_listed({}, {}, with->model.list(prefix), {});
    });
  }
  template <class Question, class Read>
  void answer_question(Question& a, testing::subject what, Read read) {
    reader r{this, a_question, std::move(what), a.index, clock::now() + a.wait, {}};
    auto stop = asio::get_associated_cancellation_slot(a.answered);
    const auto waiting = std::make_shared<decltype(a.answered)>(std::move(a.answered));
    auto once = [waiting, stop](auto seen) mutable {
      if (!*waiting) return;
      decltype(a.answered) handler;
      handler.swap(*waiting);
      if (stop.is_connected()) stop.clear();
      std::move(handler)(std::move(seen));
    };
    r.answer = [once, read]() mutable { once(read()); };
    if (stop.is_connected()) {
      stop.assign([once, with = with_](asio::cancellation_type) {
        if (!with->strand) return;
        asio::post(with->strand, [once]() mutable {
          std::invoke_result_t<Read> nothing{};
          nothing.error.code = asio::error::operation_aborted;
          once(std::move(nothing));
        });
      });
    }
    with_->add(std::move(r));
  }
  void answer(runtime::write_question& a, const sink&) { std::move(a.answered)(done({}, a.operations)); }
  void answer(runtime::stop_reads&, const sink&) {
    with_->stop_if([this](const reader& r) { return r.of == this && r.id != a_question; });
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

memory_store::memory_store(const asio::any_io_executor& executor) : shared_(std::make_shared<shared>(executor)) {}
memory_store::operator lock_store() const { return lock_store(std::make_shared<const factory>(shared_)); }
testing::store& memory_store::model() const { return shared_->model; }
void memory_store::settle() const {
  asio::dispatch(shared_->strand, [with = shared_] { with->settle(); });
}
void memory_store::close() const {
  shared_->closed = true;
  settle();
}

}  // namespace holdfast::test
