// SPDX-FileCopyrightText: The holdfast authors
// SPDX-License-Identifier: BSL-1.0

// The rules of src/runtime/store.hpp, which each kind of store must follow. Each rule is a test with the name that
// stands there. A kind that is not Consul's is added to `kinds` below.

#include <algorithm>
#include <boost/asio/bind_cancellation_slot.hpp>
#include <boost/asio/cancellation_signal.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/strand.hpp>
#include <boost/test/unit_test.hpp>
#include <holdfast/consul/client.hpp>
#include <holdfast/lock_store.hpp>
#include <holdfast/testing/server.hpp>
#include <list>
#include <memory>
#include <optional>
#include <tuple>
#include <type_traits>
#include <variant>
#include <vector>

#include "platform/strand.hpp"
#include "protocol/base/operation.hpp"
#include "runtime/store.hpp"
#include "support/async.hpp"
#include "support/memory_store.hpp"

// Makes the names of the tests `rule<on::consul>`.
namespace on {

namespace asio = boost::asio;

/// The place where stores of one kind keep their data.
class place {
public:
  place() = default;
  place(const place&) = delete;
  place& operator=(const place&) = delete;
  virtual ~place() = default;
  virtual holdfast::lock_store where() const = 0;
  /// All stores at that place are closed.
  virtual void close() = 0;
  /// Until `mend`, the stores cannot reach their data, as far as that is possible for this kind.
  virtual void fail() {}
  virtual void mend() {}
};

class consul final : public place {
public:
  explicit consul(const asio::any_io_executor& ex) : server_(quick()), client_(ex, server_.client_config()) {}
  holdfast::lock_store where() const override { return client_; }
  void close() override { client_.close(); }
  void fail() override { server_.stop(); }
  void mend() override { server_.start(); }

private:
  static holdfast::testing::server_options quick() {
    holdfast::testing::server_options options;
    options.model.session_ttl_min = std::chrono::milliseconds(1);
    return options;
  }

  holdfast::testing::server server_;
  holdfast::consul::client client_;
};

class local final : public place {
public:
  explicit local(const asio::any_io_executor& ex) : store_(ex) {}
  holdfast::lock_store where() const override { return store_; }
  void close() override { store_.close(); }

private:
  const holdfast::test::memory_store store_;
};

}  // namespace on

namespace {

using namespace holdfast;
using namespace std::chrono_literals;
using protocol::core_event;
using runtime::store_terms;
namespace action = protocol::action;
namespace event = protocol::event;
namespace asio = boost::asio;
using clock = std::chrono::steady_clock;

using kinds = std::tuple<on::consul, on::local>;
using on::place;

/// Long enough for everything that comes soon.
constexpr auto a_moment = 30ms;
constexpr auto forever = 60s;
/// No test lasts this long, except those that are about it.
constexpr auto long_ttl = 60s;

asio::awaitable<void> pause(std::chrono::milliseconds time) {
  asio::steady_timer timer(co_await asio::this_coro::executor, time);
  co_await timer.async_wait(asio::use_awaitable);
}

store_terms usual_terms() {
  store_terms terms;
  terms.session_name = "a test";
  terms.ttl = long_ttl;
  terms.timeout = 10s;
  return terms;
}

/// Returns true if this code runs on that strand. Returns false for an executor of another kind, because nobody can
/// tell then.
bool runs_on(const asio::any_io_executor& strand) {
  if (const auto* const any = strand.target<holdfast::platform::strand_type>()) return any->running_in_this_thread();
  const auto* const of_io = strand.target<asio::strand<asio::io_context::executor_type>>();
  return of_io && of_io->running_in_this_thread();
}

/// Takes the part of the driver for a store, and of a user that asks questions. It keeps the answers until they are
/// asked for.
class asker final : public runtime::event_sink, public std::enable_shared_from_this<asker> {
public:
  asker(const asio::any_io_executor& ex, const lock_store& where, store_terms terms)
      : store_(runtime::store_factory::of(where).open(std::move(terms))), news_(ex, clock::time_point::max()) {}

  void deliver(core_event&& e) override {
    expect_is_right_place();
    std::visit([](const auto& each) { expect_is_one_of_ours(each); }, e);
    told_.push_back(std::move(e));
    news_.cancel();
  }

  void make(runtime::store_request request) {
    is_making_ = true;
    store_->make(std::move(request), shared_from_this());
    is_making_ = false;
  }

  /// Returns the next event of this kind that it gets, or has got and not returned yet.
  template <class Event>
  asio::awaitable<Event> next() {
    for (;;) {
      if (std::optional<Event> found = take<Event>()) co_return *std::move(found);
      co_await news_.async_wait(test::as_result);
      news_.expires_at(clock::time_point::max());
    }
  }
  template <class Event>
  std::optional<Event> take() {
    const auto at = std::find_if(told_.begin(), told_.end(),
                                 [](const core_event& each) { return std::holds_alternative<Event>(each); });
    if (at == told_.end()) return std::nullopt;
    std::optional<Event> found = std::get<Event>(std::move(*at));
    told_.erase(at);
    return found;
  }
  std::size_t unread() const { return told_.size(); }

  asio::awaitable<event::session_created> create() {
    make(action::create_session{protocol::member_id{7}});
    return next<event::session_created>();
  }
  asio::awaitable<event::node_registered> register_node() {
    make(action::register_node{});
    return next<event::node_registered>();
  }
  asio::awaitable<event::session_renewed> renew(std::string session) {
    make(action::renew_session{protocol::member_id{8}, std::move(session)});
    return next<event::session_renewed>();
  }
  asio::awaitable<event::session_destroyed> destroy(std::string session) {
    make(action::destroy_session{std::move(session)});
    return next<event::session_destroyed>();
  }
  asio::awaitable<event::txn_done> write(std::vector<kv_operation> operations) {
    make(action::send_txn{++last_id_, std::move(operations)});
    return next<event::txn_done>();
  }
  asio::awaitable<event::prefix_listed> list(std::string prefix, std::uint64_t index = 0,
                                             protocol::duration wait = forever) {
    make(action::list_prefix{++last_id_, std::move(prefix), index, wait});
    return next<event::prefix_listed>();
  }
  asio::awaitable<event::key_watched> watch(std::string key, std::uint64_t index = 0,
                                            protocol::duration wait = forever) {
    make(action::watch_key{++last_id_, std::move(key), index, wait});
    return next<event::key_watched>();
  }
  asio::awaitable<event::node_seen> read_node(std::string node) {
    make(action::read_node{++last_id_, std::move(node)});
    return next<event::node_seen>();
  }
  protocol::request_id last_id() const { return last_id_; }

  /// Questions, with and without a sink. The answers are told like those of the core.
  void ask_for_key(std::string key, std::uint64_t index, const std::shared_ptr<event_sink>& sink,
                   asio::cancellation_slot stop = {}) {
    runtime::key_question question;
    question.key = std::move(key);
    question.index = index;
    question.wait = forever;
    auto heard = [self = shared_from_this()](event::key_watched seen) { self->deliver(std::move(seen)); };
    asio::any_completion_handler<void(event::key_watched)>(asio::bind_cancellation_slot(stop, std::move(heard)))
        .swap(question.answered);
    ask(std::move(question), sink);
  }
  void ask_for_prefix(std::string prefix, std::uint64_t index, asio::cancellation_slot stop = {}) {
    runtime::prefix_question question;
    question.prefix = std::move(prefix);
    question.index = index;
    question.wait = forever;
    auto heard = [self = shared_from_this()](event::prefix_listed seen) { self->deliver(std::move(seen)); };
    asio::any_completion_handler<void(event::prefix_listed)>(asio::bind_cancellation_slot(stop, std::move(heard)))
        .swap(question.answered);
    ask(std::move(question), nullptr);
  }
  void ask_to_write(std::vector<kv_operation> operations, const std::shared_ptr<event_sink>& sink) {
    auto heard = [self = shared_from_this()](event::txn_done done) { self->deliver(std::move(done)); };
    ask(runtime::write_question{std::move(operations), std::move(heard)}, sink);
  }

  /// It is told as `session_destroyed`.
  void ask_to_end(const std::string& session) {
    auto heard = [self = shared_from_this(), session](const protocol::failure& why) {
      self->deliver(event::session_destroyed{session, !why.code});
    };
    ask(runtime::end_question{session, std::move(heard)}, nullptr);
  }

  runtime::store& store() { return *store_; }

private:
  void ask(runtime::store_request question, const std::shared_ptr<event_sink>& sink) {
    is_making_ = true;
    store_->make(std::move(question), sink);
    is_making_ = false;
  }
  void expect_is_right_place() {
    BOOST_TEST(!is_making_, "an answer comes inside of make");
    BOOST_TEST(!std::exchange(is_told_, true), "an answer comes inside of another one");
    BOOST_TEST(runs_on(store_->strand()), "an answer comes on another executor than the strand");
    is_told_ = false;
  }
  template <class Event>
  static void expect_is_one_of_ours(const Event& e) {
    if constexpr (requires { e.error.code; }) {
      const error_code& why = e.error.code;
      const bool is_ours = !why || why.category() == error_category() || why == asio::error::operation_aborted;
      BOOST_TEST(is_ours, "a failure of another category: " << why.message());
    }
  }

  const std::unique_ptr<runtime::store> store_;
  asio::steady_timer news_;
  std::list<core_event> told_;
  protocol::request_id last_id_ = 0;
  bool is_making_ = false;
  bool is_told_ = false;
};

std::shared_ptr<asker> asker_at(const asio::any_io_executor& ex, const place& at, store_terms terms = usual_terms()) {
  return std::make_shared<asker>(ex, at.where(), std::move(terms));
}

std::vector<kv_operation> one(kv_operation operation) { return {std::move(operation)}; }
std::vector<kv_operation> one_lock(std::string key, std::string session) {
  return one(kv_operation::lock(std::move(key), "v", std::move(session)));
}

using rule = asio::awaitable<void>(asio::any_io_executor ex, place& at);

template <class Kind>
void try_rule(rule& body) {
  test::run_case([&body](asio::any_io_executor ex) -> asio::awaitable<void> {
    Kind at(ex);
    co_await body(ex, at);
  });
}

}  // namespace

/// One test for each kind of store: `name<kind>`.
#define STORE_RULE(name)                                                            \
  static asio::awaitable<void> name##_rule(asio::any_io_executor ex, place& at);    \
  BOOST_AUTO_TEST_CASE_TEMPLATE(name, Kind, kinds) { try_rule<Kind>(name##_rule); } \
  static asio::awaitable<void> name##_rule([[maybe_unused]] asio::any_io_executor ex, [[maybe_unused]] place& at)

BOOST_AUTO_TEST_SUITE(store_contract)

// ---- how it answers

// `asker` checks where each answer is delivered, here and in all other tests.
STORE_RULE(an_answer_comes_later_and_on_the_strand) {
  const auto it = asker_at(ex, at);
  BOOST_TEST(!runs_on(it->store().strand()), "the test itself runs there: it would notice nothing");
  const auto created = co_await it->create();
  const auto renewed = co_await it->renew(created.session);
  const auto listed = co_await it->list("");
  const auto seen = co_await it->watch("none");
  const auto destroyed = co_await it->destroy(created.session);
  BOOST_TEST((renewed.outcome == event::renewal::renewed));
  BOOST_TEST((!listed.error.code && !seen.error.code && destroyed.gone));
  it->ask_for_key("none", 0, it);
  const auto asked = co_await it->next<event::key_watched>();
  BOOST_TEST(!asked.error.code);
  it->ask_to_write(one(kv_operation::set("a", "1")), it);
  const auto done = co_await it->next<event::txn_done>();
  BOOST_TEST((done.outcome == event::outcome::applied));
}

STORE_RULE(each_request_is_answered_once_by_its_id) {
  const auto it = asker_at(ex, at);
  const auto created = co_await it->create();
  BOOST_TEST((created.member == protocol::member_id{7}));
  const auto renewed = co_await it->renew(created.session);
  BOOST_TEST((renewed.member == protocol::member_id{8}));
  it->make(action::send_txn{11, one(kv_operation::set("a", "1"))});
  it->make(action::send_txn{12, one(kv_operation::set("b", "1"))});
  const auto first = co_await it->next<event::txn_done>();
  const auto second = co_await it->next<event::txn_done>();
  BOOST_TEST(first.id + second.id == 23u);
  BOOST_TEST((first.id == 11u || first.id == 12u));
  it->make(action::list_prefix{13, "a", 0, forever});
  const auto listed = co_await it->next<event::prefix_listed>();
  BOOST_TEST(listed.id == 13u);
  it->make(action::watch_key{14, "b", 0, forever});
  const auto seen = co_await it->next<event::key_watched>();
  BOOST_TEST(seen.id == 14u);
  BOOST_TEST_REQUIRE(seen.pair.has_value());
  BOOST_TEST(seen.pair->key == "b");
  const auto destroyed = co_await it->destroy(created.session);
  BOOST_TEST(destroyed.session == created.session);
  co_await pause(a_moment);
  BOOST_TEST(it->unread() == 0u);
}

STORE_RULE(the_sink_lives_until_its_last_answer) {
  auto it = asker_at(ex, at);
  const auto listed = co_await it->list("");
  const std::weak_ptr<asker> still = it;
  it->make(action::watch_key{99, "a", listed.index, 50ms});
  it.reset();
  co_await pause(1ms);
  BOOST_TEST(!still.expired());
  while (!still.expired()) co_await pause(1ms);
}

STORE_RULE(a_question_needs_no_sink) {
  const auto it = asker_at(ex, at);
  it->ask_to_write(one(kv_operation::set("a", "1")), nullptr);
  const auto done = co_await it->next<event::txn_done>();
  BOOST_TEST((done.outcome == event::outcome::applied));
  it->ask_for_key("a", 0, nullptr);
  const auto seen = co_await it->next<event::key_watched>();
  BOOST_TEST_REQUIRE(seen.pair.has_value());
  BOOST_TEST(seen.pair->value == "1");
  it->ask_for_key("a", seen.index, nullptr);
  co_await it->write(one(kv_operation::set("a", "2")));
  const auto news = co_await it->next<event::key_watched>();
  BOOST_TEST_REQUIRE(news.pair.has_value());
  BOOST_TEST(news.pair->value == "2");
  it->ask_for_prefix("a", 0);
  const auto listed = co_await it->next<event::prefix_listed>();
  BOOST_TEST(listed.listing.size() == 1u);
  it->ask_for_prefix("a", listed.index);
  co_await it->write(one(kv_operation::set("a.more", "1")));
  const auto longer = co_await it->next<event::prefix_listed>();
  BOOST_TEST(longer.listing.size() == 2u);
}

STORE_RULE(a_question_ends_when_its_slot_says_so) {
  const auto it = asker_at(ex, at);
  co_await it->write(one(kv_operation::set("a", "1")));
  const auto seen = co_await it->watch("a");
  asio::cancellation_signal signal;
  it->ask_for_key("a", seen.index, nullptr, signal.slot());
  co_await pause(a_moment);
  BOOST_TEST(it->unread() == 0u);
  auto stop = [&signal] { signal.emit(asio::cancellation_type::terminal); };
  asio::post(it->store().strand(), stop);
  const auto ended = co_await it->next<event::key_watched>();
  BOOST_TEST(ended.error.code.failed());
  it->ask_for_prefix("a", seen.index, signal.slot());
  co_await pause(a_moment);
  asio::post(it->store().strand(), stop);
  const auto ended_too = co_await it->next<event::prefix_listed>();
  BOOST_TEST(ended_too.error.code.failed());
  co_await it->write(one(kv_operation::set("a", "2")));
  co_await pause(a_moment);
  BOOST_TEST(it->unread() == 0u);
}

STORE_RULE(a_stopped_watch_is_told_once_more_at_most) {
  auto it = asker_at(ex, at);
  co_await it->write(one(kv_operation::set("a", "1")));
  const auto seen = co_await it->watch("a");
  it->make(action::watch_key{21, "a", seen.index, forever});
  it->make(action::watch_key{22, "a", seen.index, forever});
  co_await pause(a_moment);
  it->make(action::stop_watch{21});
  co_await pause(a_moment);
  const auto last_word = it->take<event::key_watched>();
  if (last_word) BOOST_TEST(last_word->id == 21u);
  it->make(action::stop_watch{21});  // of what is over
  co_await it->write(one(kv_operation::set("a", "2")));
  const auto news = co_await it->next<event::key_watched>();
  BOOST_TEST(news.id == 22u);
  co_await pause(a_moment);
  BOOST_TEST(it->unread() == 0u);

  it->make(action::watch_key{23, "a", news.index, forever});
  co_await pause(a_moment);
  it->make(action::stop_watch{23});
  const std::weak_ptr<asker> still = it;
  it.reset();
  while (!still.expired()) co_await pause(1ms);
}

STORE_RULE(nothing_is_told_of_reads_once_they_are_stopped) {
  auto it = asker_at(ex, at);
  co_await it->write(one(kv_operation::set("a", "1")));
  const auto seen = co_await it->watch("a");
  it->make(action::watch_key{31, "a", seen.index, forever});
  it->make(action::list_prefix{32, "a", seen.index, forever});
  it->ask_for_key("a", seen.index, it);
  co_await pause(a_moment);
  it->make(runtime::stop_reads());
  co_await pause(a_moment);
  BOOST_TEST(it->unread() == 0u);
  it->ask_to_write(one(kv_operation::set("a", "2")), it);
  const auto done = co_await it->next<event::txn_done>();
  BOOST_TEST((done.outcome == event::outcome::applied));
  const auto news = co_await it->next<event::key_watched>();
  BOOST_TEST_REQUIRE(news.pair.has_value());
  BOOST_TEST(news.pair->value == "2");
  co_await pause(a_moment);
  BOOST_TEST(it->unread() == 0u);
  const std::weak_ptr<asker> still = it;
  it.reset();
  while (!still.expired()) co_await pause(1ms);
}

STORE_RULE(a_failure_is_one_of_ours) {
  // `asker` checks the code of each failure, here and in all other tests.
  store_terms terms = usual_terms();
  terms.timeout = 500ms;
  terms.node = "nowhere";
  const auto it = asker_at(ex, at, terms);
  const auto refused = co_await it->create();
  BOOST_TEST(refused.session == "");
  BOOST_TEST((refused.error.code == error::missing_node));
  at.fail();
  co_await it->create();
  co_await it->register_node();
  co_await it->renew("00000000-0000-0000-0000-000000000009");
  co_await it->destroy("00000000-0000-0000-0000-000000000009");
  co_await it->write(one(kv_operation::set("a", "1")));
  co_await it->list("");
  co_await it->watch("a");
  it->ask_for_key("a", 0, nullptr);
  co_await it->next<event::key_watched>();
}

STORE_RULE(what_was_not_sent_has_no_effect) {
  const auto it = asker_at(ex, at);
  at.fail();
  const auto done = co_await it->write(one(kv_operation::set("a", "1")));
  at.mend();
  co_await pause(a_moment);
  const auto seen = co_await it->watch("a");
  BOOST_TEST(!seen.error.code);
  BOOST_TEST(
      (done.outcome == event::outcome::not_sent || done.outcome == event::outcome::unknown || seen.pair.has_value()));
  BOOST_TEST(
      (done.outcome == event::outcome::applied || done.outcome == event::outcome::unknown || !seen.pair.has_value()));
  const bool says_why = done.outcome == event::outcome::applied || done.error.code.failed();
  BOOST_TEST(says_why);
}

STORE_RULE(what_is_closed_says_so_and_closes_its_core) {
  store_terms terms = usual_terms();
  terms.node = "a-node";
  const auto it = asker_at(ex, at, terms);
  co_await it->register_node();
  const auto created = co_await it->create();
  const auto first = co_await it->list("");
  it->make(action::watch_key{41, "a", first.index, forever});
  it->make(action::list_prefix{42, "a", first.index, forever});
  co_await pause(a_moment);
  at.close();
  const auto seen = co_await it->next<event::key_watched>();
  BOOST_TEST((seen.error.code == error::closed));
  co_await it->next<event::close>();
  const auto listed = co_await it->next<event::prefix_listed>();
  BOOST_TEST((listed.error.code == error::closed));
  co_await it->next<event::close>();

  const auto second = co_await it->create();
  BOOST_TEST((second.error.code == error::closed));
  BOOST_TEST(second.session == "");
  co_await it->next<event::close>();
  const auto registered = co_await it->register_node();
  BOOST_TEST((registered.error.code == error::closed));
  co_await it->next<event::close>();
  const auto renewed = co_await it->renew(created.session);
  BOOST_TEST((renewed.error.code == error::closed));
  BOOST_TEST((renewed.outcome == event::renewal::failed));
  co_await it->next<event::close>();
  const auto destroyed = co_await it->destroy(created.session);
  BOOST_TEST(!destroyed.gone);
  co_await it->next<event::close>();
  const auto done = co_await it->write(one(kv_operation::set("a", "1")));
  BOOST_TEST((done.error.code == error::closed));
  co_await it->next<event::close>();
  const auto now = co_await it->watch("a");
  BOOST_TEST((now.error.code == error::closed));
  const event::close how = co_await it->next<event::close>();
  BOOST_TEST((how == event::close{true, true}));

  it->ask_for_key("a", 0, it);
  const auto asked = co_await it->next<event::key_watched>();
  BOOST_TEST((asked.error.code == error::closed));
  it->ask_to_write(one(kv_operation::set("a", "1")), it);
  const auto written = co_await it->next<event::txn_done>();
  BOOST_TEST((written.error.code == error::closed));
  co_await pause(a_moment);
  BOOST_TEST(it->unread() == 0u);  // a user's question does not close the core
}

BOOST_AUTO_TEST_CASE_TEMPLATE(an_executor_is_empty_once_its_context_is_gone, Kind, kinds) {
  auto io = std::make_unique<asio::io_context>();
  Kind at(io->get_executor());
  const lock_store where = at.where();
  const std::unique_ptr<runtime::store> unused = runtime::store_factory::of(where).open(usual_terms());
  auto it = std::make_shared<asker>(io->get_executor(), where, usual_terms());
  runtime::store& used = it->store();
  BOOST_TEST((used.executor() == io->get_executor()));
  BOOST_TEST((runtime::store_factory::of(where).executor() == io->get_executor()));
  it->make(action::watch_key{1, "a", 1'000, forever});
  const std::weak_ptr<asker> still = it;
  io->run_for(a_moment);
  it.reset();
  BOOST_TEST(!still.expired());
  BOOST_TEST((unused->executor() == io->get_executor()));
  io.reset();
  BOOST_TEST(still.expired());
  BOOST_TEST(!unused->executor());
  BOOST_TEST(!runtime::store_factory::of(where).executor());
}

// ---- what it keeps

STORE_RULE(an_entry_has_its_indexes_and_flags) {
  constexpr std::uint64_t flags = 0xf123'4567'89ab'cdef;
  const auto it = asker_at(ex, at);
  const auto created = co_await it->create();
  const auto made = co_await it->write(one(kv_operation::lock("a", "1", created.session, flags)));
  BOOST_TEST_REQUIRE(made.results.size() == 1u);
  const auto first = co_await it->watch("a");
  BOOST_TEST_REQUIRE(first.pair.has_value());
  BOOST_TEST(first.pair->value == "1");
  BOOST_TEST(first.pair->flags == flags);
  BOOST_TEST(first.pair->session == created.session);
  BOOST_TEST(first.pair->lock_index == 1u);
  BOOST_TEST(first.pair->create_index == first.pair->modify_index);
  BOOST_TEST(made.results.front().modify_index == first.pair->modify_index);
  BOOST_TEST(made.results.front().flags == flags);
  BOOST_TEST(first.index >= first.pair->modify_index);

  std::vector<kv_operation> two;
  two.push_back(kv_operation::unlock("a", "2", created.session));
  two.push_back(kv_operation::set("b", "1"));
  co_await it->write(std::move(two));
  co_await it->write(one_lock("a", created.session));
  const auto second = co_await it->watch("a");
  const auto other = co_await it->watch("b");
  BOOST_TEST_REQUIRE(second.pair.has_value());
  BOOST_TEST_REQUIRE(other.pair.has_value());
  BOOST_TEST(second.pair->create_index == first.pair->create_index);
  BOOST_TEST(second.pair->lock_index == 2u);
  BOOST_TEST(second.pair->flags == 0u);
  // All keys share one index: a later write has a higher one, for any key.
  BOOST_TEST(first.pair->modify_index < other.pair->modify_index);
  BOOST_TEST(other.pair->modify_index < second.pair->modify_index);
  const auto listed = co_await it->list("");
  BOOST_TEST(listed.index >= second.pair->modify_index);
  BOOST_TEST(listed.listing.size() == 2u);
}

STORE_RULE(a_transaction_is_applied_whole_or_not_at_all) {
  const auto it = asker_at(ex, at);
  std::vector<kv_operation> both;
  both.push_back(kv_operation::set("a", "1"));
  both.push_back(kv_operation::set("b", "1"));
  const auto done = co_await it->write(both);
  BOOST_TEST((done.outcome == event::outcome::applied));
  BOOST_TEST_REQUIRE(done.results.size() == 2u);
  BOOST_TEST(done.results[0].modify_index == done.results[1].modify_index);

  std::vector<kv_operation> mixed;
  mixed.push_back(kv_operation::set("a", "2"));
  mixed.push_back(kv_operation::cas("b", "2", 1));
  mixed.push_back(kv_operation::remove("b"));
  mixed.push_back(kv_operation::check_not_exists("a"));
  const auto refused = co_await it->write(std::move(mixed));
  BOOST_TEST((refused.outcome == event::outcome::refused));
  BOOST_TEST(!refused.refusals.empty());
  for (const event::refused_operation& each : refused.refusals)
    BOOST_TEST((each.operation == 1u || each.operation == 3u), "operation " << each.operation);
  const auto listed = co_await it->list("");
  BOOST_TEST_REQUIRE(listed.listing.size() == 2u);
  for (const kv_entry& each : listed.listing) BOOST_TEST(each.value == "1");
}

STORE_RULE(a_transaction_has_as_many_operations_as_there_may_be) {
  const auto it = asker_at(ex, at);
  std::vector<kv_operation> all;
  for (std::size_t i = 0; i != protocol::operations_max; ++i)
    all.push_back(kv_operation::set("k" + std::to_string(i), "1"));
  const auto done = co_await it->write(std::move(all));
  BOOST_TEST((done.outcome == event::outcome::applied));
  BOOST_TEST(done.results.size() == protocol::operations_max);
  const auto listed = co_await it->list("k");
  BOOST_TEST(listed.listing.size() == protocol::operations_max);
}

STORE_RULE(a_transaction_has_as_many_bytes_as_there_may_be) {
  const auto it = asker_at(ex, at);
  const std::string key = "k00";
  const std::size_t part = protocol::request_bytes_max / protocol::operations_max;
  const std::string value((part - protocol::bytes_of_operation(key.size(), 0)) / 4 * 3, 'v');
  std::vector<kv_operation> all;
  for (std::size_t i = 0; i != protocol::operations_max; ++i)
    all.push_back(kv_operation::set("k" + std::to_string(10 + i), value));
  const auto done = co_await it->write(std::move(all));
  BOOST_TEST((done.outcome == event::outcome::applied));
}

STORE_RULE(a_refusal_says_why) {
  store_terms terms = usual_terms();
  terms.lock_delay = 10s;
  const auto it = asker_at(ex, at, terms);
  const auto mine = co_await it->create();
  const auto other = co_await it->create();
  const auto reason_of = [](const event::txn_done& done) {
    BOOST_TEST((done.outcome == event::outcome::refused));
    BOOST_TEST(!done.error.code);
    BOOST_TEST_REQUIRE(done.refusals.size() == 1u);
    BOOST_TEST(done.refusals.front().operation == 0u);
    return done.refusals.front().reason;
  };
  co_await it->write(one_lock("a", mine.session));
  const auto held = co_await it->write(one_lock("a", other.session));
  BOOST_TEST((reason_of(held) == event::refusal::conflict));
  const auto changed = co_await it->write(one(kv_operation::check_index("a", 1)));
  BOOST_TEST((reason_of(changed) == event::refusal::conflict));
  const auto none = co_await it->write(one_lock("b", "00000000-0000-0000-0000-0000000000ff"));
  BOOST_TEST((reason_of(none) == event::refusal::invalid_session));
  co_await it->destroy(mine.session);
  const auto delayed = co_await it->write(one_lock("a", other.session));
  BOOST_TEST((reason_of(delayed) == event::refusal::lock_delay));
}

STORE_RULE(a_key_is_locked_by_one_session) {
  const auto it = asker_at(ex, at);
  const auto there = asker_at(ex, at);
  const auto mine = co_await it->create();
  const auto other = co_await there->create();
  BOOST_TEST(mine.session != other.session);
  const auto first = co_await it->write(one_lock("a", mine.session));
  BOOST_TEST((first.outcome == event::outcome::applied));
  const auto second = co_await there->write(one_lock("a", other.session));
  BOOST_TEST((second.outcome == event::outcome::refused));
  const auto again = co_await it->write(one_lock("a", mine.session));
  BOOST_TEST((again.outcome == event::outcome::applied));
  const auto not_its = co_await there->write(one(kv_operation::unlock("a", "v", other.session)));
  BOOST_TEST((not_its.outcome == event::outcome::refused));
  co_await it->write(one(kv_operation::unlock("a", "v", mine.session)));
  const auto third = co_await there->write(one_lock("a", other.session));
  BOOST_TEST((third.outcome == event::outcome::applied));
}

STORE_RULE(a_read_sees_what_was_written_before) {
  const auto it = asker_at(ex, at);
  const auto there = asker_at(ex, at);
  for (int i = 0; i != 20; ++i) {
    co_await it->write(one(kv_operation::set("a", std::to_string(i))));
    const auto seen = co_await there->watch("a");
    BOOST_TEST_REQUIRE(seen.pair.has_value());
    BOOST_TEST(seen.pair->value == std::to_string(i));
    const auto listed = co_await there->list("a");
    BOOST_TEST_REQUIRE(listed.listing.size() == 1u);
    BOOST_TEST(listed.listing.front().value == std::to_string(i));
  }
}

STORE_RULE(a_read_from_an_index_waits_for_a_newer_one) {
  const auto it = asker_at(ex, at);
  const auto there = asker_at(ex, at);
  co_await it->write(one(kv_operation::set("a", "1")));
  const auto seen = co_await it->watch("a");
  const auto listed = co_await it->list("a");
  it->make(action::watch_key{51, "a", seen.index, forever});
  it->make(action::list_prefix{52, "a", listed.index, forever});
  co_await pause(a_moment);
  BOOST_TEST(it->unread() == 0u);
  co_await there->write(one(kv_operation::set("a", "2")));
  const auto news = co_await it->next<event::key_watched>();
  BOOST_TEST_REQUIRE(news.pair.has_value());
  BOOST_TEST(news.pair->value == "2");
  BOOST_TEST(news.index > seen.index);
  const auto all = co_await it->next<event::prefix_listed>();
  BOOST_TEST_REQUIRE(all.listing.size() == 1u);
  BOOST_TEST(all.listing.front().value == "2");
  BOOST_TEST(all.index > listed.index);
  const auto at_once = co_await it->watch("a", seen.index);  // which is no longer the newest
  BOOST_TEST(at_once.index == news.index);
  it->make(action::watch_key{53, "a", news.index, forever});
  co_await there->write(one(kv_operation::remove("a")));
  const auto gone = co_await it->next<event::key_watched>();
  BOOST_TEST(!gone.pair.has_value());
  BOOST_TEST(!gone.error.code);
}

STORE_RULE(a_read_whose_wait_is_over_is_answered) {
  const auto it = asker_at(ex, at);
  co_await it->write(one(kv_operation::set("a", "1")));
  const auto first = co_await it->watch("a");
  const auto before = clock::now();
  const auto seen = co_await it->watch("a", first.index, 50ms);
  BOOST_TEST((clock::now() - before >= 50ms));
  BOOST_TEST(!seen.error.code);
  BOOST_TEST((seen.pair == first.pair));
  BOOST_TEST(seen.index == first.index);
  const auto listed = co_await it->list("a", first.index, 50ms);
  BOOST_TEST(!listed.error.code);
  BOOST_TEST(listed.listing.size() == 1u);
}

// ---- its sessions

STORE_RULE(a_session_lives_for_its_ttl_and_no_longer_unless_renewed) {
  store_terms terms = usual_terms();
  terms.ttl = 100ms;
  const auto it = asker_at(ex, at, terms);
  const auto renewed_one = co_await it->create();
  const auto other = co_await it->create();
  std::vector<kv_operation> both;
  both.push_back(kv_operation::lock("renewed", "", renewed_one.session));
  both.push_back(kv_operation::lock("other", "", other.session));
  auto asked = clock::now();
  const auto last = co_await it->renew(other.session);
  BOOST_TEST((last.outcome == event::renewal::renewed));
  co_await it->write(std::move(both));
  const auto first = co_await it->watch("other");
  it->make(action::watch_key{61, "other", first.index, forever});
  std::optional<event::key_watched> gone;
  auto late = clock::duration::zero();  // where this process was not let run for so long, no renewal came in time
  while (!(gone = it->take<event::key_watched>())) {
    const auto before = clock::now();
    co_await it->renew(renewed_one.session);
    co_await pause(20ms);
    late = std::max(late, clock::now() - before);
  }
  BOOST_TEST(!gone->pair.has_value());
  BOOST_TEST((clock::now() - asked >= terms.ttl));
  const auto kept = co_await it->watch("renewed");
  if (late < terms.ttl) BOOST_TEST(kept.pair.has_value());
}

STORE_RULE(a_session_that_has_ended_is_gone) {
  const auto it = asker_at(ex, at);
  const auto created = co_await it->create();
  const auto first = co_await it->destroy(created.session);
  BOOST_TEST(first.gone);
  const auto second = co_await it->destroy(created.session);
  BOOST_TEST(second.gone);
  const auto renewed = co_await it->renew(created.session);
  BOOST_TEST((renewed.outcome == event::renewal::gone));
}

STORE_RULE(a_user_can_end_a_session) {
  const auto it = asker_at(ex, at);
  const auto other = asker_at(ex, at);
  const auto created = co_await other->create();
  co_await other->write(one_lock("a", created.session));
  it->ask_to_end(created.session);
  const auto ended = co_await it->next<event::session_destroyed>();
  BOOST_TEST(ended.gone);
  it->ask_to_end(created.session);
  const auto again = co_await it->next<event::session_destroyed>();
  BOOST_TEST(again.gone);
  const auto seen = co_await it->watch("a");
  BOOST_TEST(!seen.pair);
  at.close();
  it->ask_to_end(created.session);
  const auto refused = co_await it->next<event::session_destroyed>();
  BOOST_TEST(!refused.gone);
}

STORE_RULE(what_a_session_has_locked_goes_with_it) {
  const auto it = asker_at(ex, at);
  const auto created = co_await it->create();
  std::vector<kv_operation> some;
  some.push_back(kv_operation::lock("p/a", "", created.session));
  some.push_back(kv_operation::lock("p/b", "", created.session));
  some.push_back(kv_operation::set("p/c", ""));
  co_await it->write(std::move(some));
  const auto before = co_await it->list("p/");
  it->make(action::list_prefix{71, "p/", before.index, forever});
  co_await pause(a_moment);
  co_await it->destroy(created.session);
  const auto after = co_await it->next<event::prefix_listed>();  // the first news there is of it
  BOOST_TEST_REQUIRE(after.listing.size() == 1u);
  BOOST_TEST(after.listing.front().key == "p/c");
}

STORE_RULE(a_lock_delay_keeps_keys_of_ended_sessions) {
  store_terms terms = usual_terms();
  terms.lock_delay = 100ms;
  const auto it = asker_at(ex, at, terms);
  const auto mine = co_await it->create();
  const auto other = co_await it->create();
  co_await it->write(one_lock("a", mine.session));
  const auto ended = clock::now();
  co_await it->destroy(mine.session);
  for (;;) {
    const auto done = co_await it->write(one_lock("a", other.session));
    if (done.outcome == event::outcome::applied) break;
    co_await pause(5ms);
  }
  BOOST_TEST((clock::now() - ended >= terms.lock_delay));
}

STORE_RULE(a_session_waits_for_its_node) {
  store_terms terms = usual_terms();
  terms.node = "a-node";
  const auto it = asker_at(ex, at, terms);
  const auto refused = co_await it->create();
  BOOST_TEST((refused.error.code == error::missing_node));
  const auto registered = co_await it->register_node();
  BOOST_TEST(!registered.error.code);
  const auto created = co_await it->create();
  BOOST_TEST(!created.error.code);
  BOOST_TEST(created.session != "");
}

STORE_RULE(a_nodes_create_index_says_since_when_it_stands) {
  store_terms terms = usual_terms();
  terms.node = "a-node";
  const auto it = asker_at(ex, at, terms);
  const auto none = co_await it->read_node("a-node");
  BOOST_TEST(none.id == it->last_id());
  BOOST_TEST((!none.error.code && none.create_index == 0));
  co_await it->register_node();
  const auto first = co_await it->read_node("a-node");
  BOOST_TEST(first.create_index != 0u);
  const auto created = co_await it->create();
  const auto locked = co_await it->write(one_lock("a", created.session));
  BOOST_REQUIRE(locked.results.size() == 1u);
  BOOST_TEST(locked.results.front().create_index > first.create_index);
  co_await it->register_node();
  const auto second = co_await it->read_node("a-node");
  BOOST_TEST(second.create_index == first.create_index);
}

STORE_RULE(terms_that_may_be_ignored_may_be_left_out) {
  store_terms least;
  least.ttl = long_ttl;
  store_terms most = usual_terms();
  most.node_checks = true;
  const auto plain = asker_at(ex, at, least);
  const auto full = asker_at(ex, at, most);
  const auto mine = co_await plain->create();
  const auto other = co_await full->create();
  BOOST_TEST((!mine.error.code && !other.error.code));
  const auto first = co_await plain->write(one_lock("a", mine.session));
  BOOST_TEST((first.outcome == event::outcome::applied));
  const auto second = co_await full->write(one_lock("a", other.session));
  BOOST_TEST((second.outcome == event::outcome::refused));
}

BOOST_AUTO_TEST_SUITE_END()
