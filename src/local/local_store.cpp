// SPDX-FileCopyrightText: The holdfast authors
// SPDX-License-Identifier: BSL-1.0

#include <atomic>
#include <boost/asio/associated_cancellation_slot.hpp>
#include <boost/asio/post.hpp>
#include <holdfast/local_store.hpp>
#include <new>
#include <string>
#include <type_traits>
#include <utility>
#include <variant>
#include <vector>

#include "local/local_context.hpp"
#include "runtime/convert.hpp"
#include "runtime/store.hpp"

namespace holdfast {

namespace local {

namespace {

using namespace std::chrono_literals;
namespace action = protocol::action;
namespace event = protocol::event;
using runtime::store_request;
using clock = local_context::clock;
using testing::subject;
using sink = std::shared_ptr<runtime::event_sink>;

constexpr protocol::request_id a_question = 0;  // the core numbers its requests from 1 on
constexpr std::size_t session_size = 36;

/// Without a network there is no reason for a least TTL.
testing::store_options settings() {
  testing::store_options options;
  options.session_ttl_min = 1ms;
  return options;
}

protocol::failure why_closed() { return {error::closed, {}}; }
protocol::failure why_not(bool is_closed) { return is_closed ? why_closed() : protocol::failure(); }

/// The store of one lock, of an observer, or of the commands of an operator.
class store_of_a_lock final : public runtime::store {
public:
  store_of_a_lock(std::shared_ptr<local_context> with, runtime::store_terms terms)
      : with_(std::move(with)), terms_(std::move(terms)) {}
  ~store_of_a_lock() override {
    if (with_->process().is_foreign()) return;  // another thread of the parent may have held the lock
    with_->stop_if([this](const local_reader& r) { return r.of == this; });
  }

  asio::any_io_executor executor() const noexcept override { return with_->executor(); }
  asio::any_io_executor strand() const override { return with_->strand(); }
  std::string name() const override { return "the local store"; }
  bool has_fence_checks() const noexcept override { return false; }
  void make(store_request&& request, const sink& to) override {
    const asio::any_io_executor strand = with_->strand();
    if (!strand) return;
    if (auto* const key = std::get_if<runtime::key_question>(&request)) return ask(strand, *key);
    if (auto* const prefix = std::get_if<runtime::prefix_question>(&request)) return ask(strand, *prefix);
    if (std::holds_alternative<runtime::stop_reads>(request)) is_stopped_ = true;
    asio::post(strand, [this, to, with = with_, request = std::move(request)]() mutable {
      try {
        std::visit([&](auto& each) { answer(each, to); }, request);
      } catch (const std::bad_alloc&) {
        if (auto failed = runtime::not_made(request, {error::connection_lost, {}})) to->deliver(*std::move(failed));
      }
    });
  }

private:
  /// Delivers an answer to the core. If the store is closed, the core must close, too, and is told so next.
  static void tell(const sink& to, protocol::core_event&& e, bool is_closed) {
    to->deliver(std::move(e));
    if (is_closed) to->deliver(event::close{.lose_slots = true, .at_once = true});
  }

  void answer(action::create_session& a, const sink& to) {
    if (with_->is_closed()) return tell(to, event::session_created{a.member, {}, why_closed()}, true);
    consul::session_info session;
    session.ttl = terms_.ttl;
    session.lock_delay = terms_.lock_delay;
    session.behavior = consul::session_behavior::remove;
    session.node = terms_.node;
    std::string id = with_->change([&](testing::store& model) {
      session.id = std::to_string(++with_->state()->sessions_made);
      session.id.insert(0, session_size - session.id.size(), '0');
      std::string its = session.id;
      const bool is_refused = model.create_session(std::move(session), clock::now()).has_value();
      return is_refused ? std::string() : its;
    });
    protocol::failure why;
    if (id.empty()) why.code = error::missing_node;
    to->deliver(event::session_created{a.member, std::move(id), std::move(why)});
  }
  void answer(action::register_node&, const sink& to) {
    const bool is_closed = with_->is_closed();
    if (!is_closed)
      with_->change([&](testing::store& model) {
        model.register_node(terms_.node, "127.0.0.1", clock::now());
        return true;
      });
    tell(to, event::node_registered{why_not(is_closed)}, is_closed);
  }
  void answer(action::renew_session& a, const sink& to) {
    using event::renewal;
    if (with_->is_closed()) return tell(to, event::session_renewed{a.member, renewal::failed, why_closed()}, true);
    const bool lives =
        with_->change([&](testing::store& model) { return model.renew_session(a.session, clock::now()); });
    to->deliver(event::session_renewed{a.member, lives ? renewal::renewed : renewal::gone, {}});
  }
  void answer(action::destroy_session& a, const sink& to) {
    const bool is_closed = !destroy(a.session);
    tell(to, event::session_destroyed{a.session, !is_closed}, is_closed);
  }
  bool destroy(const std::string& session) {
    if (with_->is_closed()) return false;
    return with_->change([&](testing::store& model) {
      model.destroy_session(session, clock::now());
      return true;
    });
  }
  event::txn_done done(protocol::request_id id, const std::vector<kv_operation>& operations) {
    if (with_->is_closed()) return runtime::txn_done(id, error::closed, {}, {});
    return runtime::txn_done(
        id, {}, with_->change([&](testing::store& model) { return model.transact(operations, clock::now()); }), {});
  }
  void answer(action::send_txn& a, const sink& to) { tell(to, done(a.id, a.operations), with_->is_closed()); }

  static event::prefix_listed listed(const local_context& with, protocol::request_id id, const std::string& prefix) {
    const std::lock_guard lock(with.state()->mutex);
    if (with.state()->is_closed) return event::prefix_listed{.id = id, .error = why_closed()};
    return runtime::prefix_listed(id, {}, with.state()->model.list(prefix), {});
  }
  static event::key_watched seen(const local_context& with, protocol::request_id id, const std::string& key) {
    const std::lock_guard lock(with.state()->mutex);
    if (with.state()->is_closed) return event::key_watched{.id = id, .error = why_closed()};
    return runtime::key_watched(id, {}, with.state()->model.get(key), {});
  }
  static event::node_seen seen_node(const local_context& with, protocol::request_id id, const std::string& node) {
    const std::lock_guard lock(with.state()->mutex);
    if (with.state()->is_closed) return event::node_seen{.id = id, .error = why_closed()};
    const auto found = with.state()->model.node(node).value;
    return event::node_seen{id, found ? found->create_index : 0, {}};
  }
  /// A read of the core.
  template <class Read>
  void wait(protocol::request_id id, subject what, std::uint64_t index, protocol::duration time, const sink& to,
            Read read) {
    local_reader r{this, id, std::move(what), index, clock::now() + time, {}};
    r.answer = [this, to, with = with_, read] {
      if (is_stopped_) return;
      auto its = read(*with);
      const bool is_closed = its.error.code == error::closed;
      tell(to, std::move(its), is_closed);
    };
    with_->add(std::move(r));
  }
  void answer(action::list_prefix& a, const sink& to) {
    wait(a.id, {subject::kind::prefix, a.prefix}, a.index, a.wait, to,
         [id = a.id, prefix = a.prefix](const local_context& with) { return listed(with, id, prefix); });
  }
  void answer(action::watch_key& a, const sink& to) {
    wait(a.id, {subject::kind::key, a.key}, a.index, a.wait, to,
         [id = a.id, key = a.key](const local_context& with) { return seen(with, id, key); });
  }
  void answer(action::read_node& a, const sink& to) {
    wait(a.id, {subject::kind::node, a.node}, 0, 0ms, to,
         [id = a.id, node = a.node](const local_context& with) { return seen_node(with, id, node); });
  }
  void answer(action::stop_watch& a, const sink&) {
    with_->stop_if([this, id = a.id](const local_reader& r) { return r.of == this && r.id == id; });
  }
  void ask(const asio::any_io_executor& strand, runtime::key_question& a) {
    ask(strand, a, {subject::kind::key, a.key}, [key = a.key, with = with_] { return seen(*with, {}, key); });
  }
  void ask(const asio::any_io_executor& strand, runtime::prefix_question& a) {
    ask(strand, a, {subject::kind::prefix, a.prefix},
        [prefix = a.prefix, with = with_] { return listed(*with, {}, prefix); });
  }
  /// Only the read, or the function that is posted before it, owns the handler. So the handler is destroyed with them.
  /// It can be cancelled at once, also before the read begins.
  template <class Question, class Read>
  void ask(const asio::any_io_executor& strand, Question& a, subject what, Read read) {
    using handler = decltype(a.answered);
    auto stop = asio::get_associated_cancellation_slot(a.answered);
    const auto waiting = std::make_shared<handler>(std::move(a.answered));
    auto answer = [stop](handler& to, auto its) mutable {
      if (!to) return;
      handler now;
      now.swap(to);
      if (stop.is_connected()) stop.clear();
      std::move(now)(std::move(its));
    };
    if (stop.is_connected())
      stop.assign([weak = std::weak_ptr(waiting), with = with_, answer](asio::cancellation_type) {
        const asio::any_io_executor there = with->strand();
        if (!there) return;
        asio::post(there, [weak, with, answer]() mutable {
          const auto its = weak.lock();
          if (!its) return;
          with->stop_if([&](const local_reader& r) { return r.handler == its.get(); });
          std::invoke_result_t<Read> nothing{};
          nothing.error.code = asio::error::operation_aborted;
          answer(*its, std::move(nothing));
        });
      });
    local_reader r{this, a_question, std::move(what), a.index, clock::now() + a.wait, {}, waiting.get()};
    asio::post(strand, [with = with_, waiting, answer, read, r = std::move(r)]() mutable {
      if (!*waiting) return;
      r.answer = [waiting, answer, read]() mutable { answer(*waiting, read()); };
      with->add(std::move(r));
    });
  }
  void answer(runtime::key_question&, const sink&) {}  // `ask` takes these two
  void answer(runtime::prefix_question&, const sink&) {}
  void answer(runtime::write_question& a, const sink&) { std::move(a.answered)(done({}, a.operations)); }
  void answer(runtime::end_question& a, const sink&) { std::move(a.answered)(why_not(!destroy(a.session))); }
  void answer(runtime::stop_reads&, const sink&) {
    with_->stop_if([this](const local_reader& r) { return r.of == this && r.id != a_question; });
  }

  const std::shared_ptr<local_context> with_;
  const runtime::store_terms terms_;
  std::atomic<bool> is_stopped_{false};  ///< the core gets no more answers to its reads
};

class stores final : public runtime::store_factory {
public:
  explicit stores(std::shared_ptr<local_context> with) : with_(std::move(with)) {}
  std::unique_ptr<runtime::store> open(runtime::store_terms terms) const override {
    return std::make_unique<store_of_a_lock>(with_, std::move(terms));
  }
  asio::any_io_executor executor() const noexcept override { return with_->executor(); }

private:
  const std::shared_ptr<local_context> with_;
};

}  // namespace

}  // namespace local

local_store::local_store(const executor_type& executor)
    : context_(local::local_context::make(std::make_shared<local::local_state>(local::settings()), executor)) {}

local_store local_store::on(const executor_type& executor) const {
  return local_store(local::local_context::make(context_->state(), executor));
}

local_store::operator lock_store() const {
  return runtime::store_factory::lock_store_of(std::make_shared<const local::stores>(context_));
}

local_store::executor_type local_store::get_executor() const { return context_->executor(); }

void local_store::end_sessions() const {
  if (context_->process().is_foreign()) return;
  context_->change([](testing::store& model) {
    model.expire_sessions(std::chrono::steady_clock::now());
    return true;
  });
}

}  // namespace holdfast
