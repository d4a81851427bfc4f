// SPDX-FileCopyrightText: The holdfast authors
// SPDX-License-Identifier: BSL-1.0

// The rules of src/rabbitmq/broker_link.hpp, which each kind of link must follow, on a real broker. Each rule is a test
// with the name that stands there. test/rabbitmq/broker.py runs this program beside a broker.

#include <unistd.h>

#include <algorithm>
#include <boost/asio/any_io_executor.hpp>
#include <boost/asio/awaitable.hpp>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/detached.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/strand.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <boost/test/unit_test.hpp>
#include <chrono>
#include <cstdio>
#include <holdfast/error.hpp>
#include <holdfast/rabbitmq/config.hpp>
#include <list>
#include <memory>
#include <optional>
#include <sstream>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "platform/strand.hpp"
#include "rabbitmq/amqp_link.hpp"
#include "rabbitmq/client_impl.hpp"
#include "rabbitmq/queues.hpp"
#include "rabbitmq/support/neighbours.hpp"
#include "support/async.hpp"

BOOST_AUTO_TEST_SUITE(link_contract)

namespace {

using namespace holdfast;
using namespace std::chrono_literals;
using namespace rabbitmq::detail;
namespace asio = boost::asio;
namespace action = protocol::action;
namespace event = protocol::event;
using protocol::broker_event;
using protocol::seat_id;
using test::unique_name;
using clock = std::chrono::steady_clock;

constexpr auto lease = 20s;

rabbitmq::config usual_config() {
  rabbitmq::config settings = rabbitmq::config::from_environment();
  settings.log = [](const holdfast::log_event& event) { BOOST_TEST_MESSAGE(event.text()); };
  return settings;
}

/// Returns true if this code runs on that strand.
bool runs_on(const asio::any_io_executor& strand) {
  const auto* const its = strand.target<holdfast::platform::strand_type>();
  return its && its->running_in_this_thread();
}

/// Takes the part of the driver of a link. It keeps the events until they are asked for.
class asker final : public broker_sink, public std::enable_shared_from_this<asker> {
public:
  asker(const asio::any_io_executor& ex, const std::shared_ptr<client_impl>& client, const std::string& name,
        std::chrono::milliseconds its_lease = lease, std::chrono::milliseconds idle_time = 200ms)
      : link_(client, terms(name, its_lease, idle_time)), news_(std::in_place, ex, clock::time_point::max()) {}

  void deliver(broker_event&& e) override {
    BOOST_TEST(!is_making_);
    is_right_place_ = is_right_place_ && runs_on(link_.strand());
    told_.push_back(std::move(e));
    news_->cancel();
  }

  void make(link_request what) {
    is_making_ = true;
    link_.make(std::move(what), shared_from_this());
    is_making_ = false;
  }

  /// Returns the next event of this kind that it gets, or has got and not returned yet.
  template <class Event>
  asio::awaitable<Event> next() {
    for (;;) {
      if (std::optional<Event> found = take<Event>()) co_return *std::move(found);
      co_await news_->async_wait(test::as_result);
      news_->expires_at(clock::time_point::max());
    }
  }
  template <class Event>
  std::optional<Event> take() {
    const auto at = std::find_if(told_.begin(), told_.end(),
                                 [](const broker_event& each) { return std::holds_alternative<Event>(each); });
    if (at == told_.end()) return std::nullopt;
    std::optional<Event> found = std::get<Event>(std::move(*at));
    told_.erase(at);
    return found;
  }
  std::size_t unread() const { return told_.size(); }

  seat_id new_seat(std::uint32_t slot) { return protocol::make_seat_id(++generation_, slot); }
  asio::awaitable<event::probed> probe(std::uint32_t count) {
    make(action::probe{++id_, count});
    return next<event::probed>();
  }
  asio::awaitable<event::seized> seize(seat_id seat, bool declares = true) {
    make(action::seize{seat, ++id_, declares});
    return next<event::seized>();
  }
  asio::awaitable<event::verified> verify(seat_id seat) {
    make(action::verify{seat, ++id_});
    return next<event::verified>();
  }
  asio::awaitable<event::verified> cleanse(seat_id seat) {
    make(action::cleanse{seat, ++id_});
    return next<event::verified>();
  }
  asio::awaitable<event::vacated> vacate(seat_id seat, bool with_token, bool with_hint = false) {
    make(action::vacate{seat, ++id_, with_token, with_hint});
    return next<event::vacated>();
  }
  asio::awaitable<event::created> create(std::uint32_t count) {
    make(action::create{++id_, count});
    return next<event::created>();
  }
  protocol::request_id last_id() const { return id_; }
  bool is_right_place() const { return is_right_place_; }
  amqp_link& link() { return link_; }
  /// To be called before the context is destroyed.
  void forget_timer() { news_.reset(); }

private:
  static link_terms terms(const std::string& name, std::chrono::milliseconds its_lease,
                          std::chrono::milliseconds idle_time) {
    link_terms t;
    t.name = name;
    t.lease = its_lease;
    t.session_idle_timeout = idle_time;
    return t;
  }

  amqp_link link_;
  std::list<broker_event> told_{};
  std::optional<asio::steady_timer> news_;
  bool is_making_ = false;
  bool is_right_place_ = true;
  std::uint64_t generation_ = 0;
  protocol::request_id id_ = 0;
};

/// An administrator, operator or rival on a connection of its own, which is not that of a link.
class peer {
public:
  explicit peer(asio::any_io_executor ex) : ex_(std::move(ex)), client_(client_impl::make(ex_, usual_config())) {}

  asio::awaitable<reply> ask(steps what) {
    if (!link_) {
      auto connecting = [this]() -> net::awaitable<void> {
        opened made = co_await client_->connect(60, "a peer");
        link_ = made.link;
        news_.cancel();
      };
      asio::co_spawn(*client_->strand(), connecting, asio::detached);
      while (!link_) {
        co_await news_.async_wait(test::as_result);
        news_.expires_at(clock::time_point::max());
      }
    }
    std::optional<reply> answer;
    asio::post(*client_->strand(), [&] {
      link_->ask(connection::first_channel, std::move(what), clock::now() + 10s, [&](reply&& its) {
        answer = std::move(its);
        news_.cancel();
      });
    });
    while (!answer) {
      co_await news_.async_wait(test::as_result);
      news_.expires_at(clock::time_point::max());
    }
    co_return std::move(*answer);
  }
  template <class... Steps>
  asio::awaitable<reply> ask(step first, Steps... others) {
    steps what;
    what.push_back(std::move(first));
    (what.push_back(std::move(others)), ...);
    return ask(std::move(what));
  }
  asio::awaitable<reply> erase(std::string queue) {
    queue_delete what;
    what.queue = std::move(queue);
    steps request;
    request.push_back({std::move(what), {}, {}});
    return ask(std::move(request));
  }
  /// Returns true if there was a token, and removes it.
  asio::awaitable<bool> has_token(const queues& its, std::uint32_t slot) {
    const reply answer = co_await ask(its.get_token(slot));
    co_return answer.has_message;
  }
  void close() { client_->close(); }

private:
  asio::any_io_executor ex_;
  std::shared_ptr<client_impl> client_;
  std::shared_ptr<connection> link_{};
  asio::steady_timer news_{ex_, clock::time_point::max()};
};

/// Waits for a while in which nothing may come.
asio::awaitable<void> a_moment() {
  asio::steady_timer timer(co_await asio::this_coro::executor, 100ms);
  co_await timer.async_wait(asio::use_awaitable);
}

/// Lets others run.
asio::awaitable<void> a_while() {
  asio::steady_timer timer(co_await asio::this_coro::executor, 1ms);
  co_await timer.async_wait(asio::use_awaitable);
}

/// A semaphore of its own with two slots, and a peer.
struct scene {
  explicit scene(const asio::any_io_executor& executor)
      : ex(executor), client(client_impl::make(ex, usual_config())), operator_(ex) {}
  ~scene() {
    client->close();
    operator_.close();
  }
  scene(const scene&) = delete;
  scene& operator=(const scene&) = delete;

  std::shared_ptr<asker> one(std::chrono::milliseconds its_lease = lease) {
    return std::make_shared<asker>(ex, client, name, its_lease);
  }
  asio::awaitable<void> make_slots() {
    steps what;
    what.push_back(its.declare_existence(1));
    what.push_back(its.declare_existence(2));
    const reply answer = co_await operator_.ask(std::move(what));
    BOOST_REQUIRE(answer.answered == 2);
  }

  /// Runs rabbitmqctl on the broker. Returns what it prints.
  static std::string ctl(const std::string& words) {
    const std::string command = "\"$HOLDFAST_BROKER\" ctl \"$HOLDFAST_BROKER_FOLDER\" " + words;
    const std::unique_ptr<FILE, int (*)(FILE*)> pipe(::popen(command.c_str(), "r"), ::pclose);
    std::string text;
    for (int c = 0; pipe && (c = std::fgetc(pipe.get())) != EOF;) text += static_cast<char>(c);
    return text;
  }
  /// Closes the connection that has the exclusive queue, as an operator does.
  static void close_owner(const std::string& queue) {
    std::istringstream lines(ctl("list_queues -q --no-table-headers name owner_pid"));
    for (std::string line; std::getline(lines, line);) {
      if (line.starts_with(queue + '\t')) ctl("close_connection '" + line.substr(queue.size() + 1) + "' 'by a test'");
    }
  }
  /// How many connections of this process have the semaphore's name in theirs.
  std::size_t connections() const {
    const std::string all = ctl("list_connections -q --no-table-headers client_properties");
    std::size_t count = 0;
    for (auto at = all.find(name); at != std::string::npos; at = all.find(name, at + 1)) ++count;
    return count;
  }
  asio::awaitable<void> until_listening(std::size_t count) {
    while (true) {
      const std::string all = ctl("list_consumers -q --no-table-headers queue_name");
      std::size_t found = 0;
      for (auto at = all.find(its.names().hints()); at != std::string::npos; at = all.find(its.names().hints(), at + 1))
        ++found;
      if (found == count) co_return;
      co_await a_moment();
    }
  }

  asio::any_io_executor ex;
  std::string name = unique_name("semaphore");
  queues its{queue_names(name), lease};
  std::shared_ptr<client_impl> client;
  peer operator_;
};

}  // namespace

ASYNC_TEST_CASE(a_probe_tells_which_slots_exist_and_which_are_taken, 20s) {
  scene on(ex);
  co_await on.make_slots();
  const auto holder = on.one();
  const auto other = on.one();
  co_await holder->seize(holder->new_seat(2));
  const event::probed answer = co_await other->probe(3);
  BOOST_TEST(!answer.error.code, answer.error.details.to_string());
  BOOST_REQUIRE(answer.slots.size() == 3);
  const event::probed::slot expected[] = {{true, false}, {true, true}, {false, false}};
  for (int i = 0; i != 3; ++i) BOOST_TEST((answer.slots[i] == expected[i]), i);
}

ASYNC_TEST_CASE(a_seizure_gets_b_and_the_token, 20s) {
  scene on(ex);
  co_await on.make_slots();
  const auto holder = on.one();
  seat_id seat = holder->new_seat(1);
  event::seized answer = co_await holder->seize(seat);
  BOOST_TEST((answer.outcome == event::seizure::ok));
  BOOST_TEST(!answer.token);
  co_await holder->vacate(seat, true);
  seat = holder->new_seat(1);
  answer = co_await holder->seize(seat, false);
  BOOST_TEST((answer.outcome == event::seizure::ok));
  BOOST_TEST(answer.token);
  const bool is_left = co_await on.operator_.has_token(on.its, 1);
  BOOST_TEST(!is_left);
}

ASYNC_TEST_CASE(a_probe_leaves_no_message, 20s) {
  scene on(ex);
  steps what{on.its.declare_tokens(1)};  // a queue that would keep a message
  co_await on.operator_.ask(std::move(what));
  co_await on.operator_.ask(queues::probe(on.its.tokens(1)), queues::passive(on.its.tokens(1)));
  const bool is_there = co_await on.operator_.has_token(on.its, 1);
  BOOST_TEST(!is_there);
}

ASYNC_TEST_CASE(an_answer_comes_later_and_on_the_strand, 20s) {
  scene on(ex);
  const auto one = on.one();  // checks that `deliver` is not called within `make`, and that it is on the strand
  const event::probed answer = co_await one->probe(1);
  BOOST_TEST(answer.slots.size() == 1u);
  BOOST_TEST(one->is_right_place());
}

ASYNC_TEST_CASE(each_request_is_answered_once_by_its_id, 20s) {
  scene on(ex);
  co_await on.make_slots();
  const auto one = on.one();
  const seat_id first = one->new_seat(1);
  const seat_id second = one->new_seat(2);
  one->make(action::probe{101, 1});
  one->make(action::seize{first, 102, true});
  one->make(action::seize{second, 103, true});
  const event::probed probed = co_await one->next<event::probed>();
  BOOST_TEST(probed.id == 101u);
  for (int i = 0; i != 2; ++i) {
    const event::seized seized = co_await one->next<event::seized>();
    BOOST_TEST(seized.id == (seized.seat == first ? 102u : 103u));
  }
  one->make(action::listen{true});
  one->make(action::settle_hint{protocol::hint_id{7}, true});
  one->make(action::drop{first});
  co_await a_moment();
  BOOST_TEST(one->unread() == 0u);
}

ASYNC_TEST_CASE(a_seizure_of_a_taken_slot_is_locked, 20s) {
  scene on(ex);
  co_await on.make_slots();
  const auto holder = on.one();
  const auto rival = on.one();
  const seat_id seat = holder->new_seat(1);
  co_await holder->seize(seat);
  co_await on.operator_.ask(on.its.publish_token(1), queues::passive(on.its.tokens(1)));
  const event::seized answer = co_await rival->seize(rival->new_seat(1), false);
  BOOST_TEST((answer.outcome == event::seizure::locked));
  BOOST_TEST(!answer.error.code);
  const bool is_left = co_await on.operator_.has_token(on.its, 1);
  BOOST_TEST(is_left);
}

ASYNC_TEST_CASE(two_seats_never_share_a_connection, 20s) {
  scene on(ex);
  co_await on.make_slots();
  const auto one = on.one();
  const event::seized first = co_await one->seize(one->new_seat(1));
  const event::seized second = co_await one->seize(one->new_seat(1));
  BOOST_TEST((first.outcome == event::seizure::ok));
  BOOST_TEST((second.outcome == event::seizure::locked));
}

ASYNC_TEST_CASE(a_slot_without_a_is_seized_and_told_so, 20s) {
  scene on(ex);
  const auto one = on.one();
  const event::seized answer = co_await one->seize(one->new_seat(1));
  BOOST_TEST((answer.outcome == event::seizure::no_such_slot));
  const reply rival = co_await on.operator_.ask(queues::passive(on.its.holder(1)));
  BOOST_REQUIRE(rival.refused);
  BOOST_TEST(rival.refused->code == 405);
}

ASYNC_TEST_CASE(a_missing_token_queue_is_declared, 20s) {
  scene on(ex);
  co_await on.make_slots();
  const auto one = on.one();
  const event::seized answer = co_await one->seize(one->new_seat(1), false);
  BOOST_TEST((answer.outcome == event::seizure::ok));
  BOOST_TEST(!answer.token);
  const reply same = co_await on.operator_.ask(on.its.declare_tokens(1));
  BOOST_TEST(!same.refused);
}

ASYNC_TEST_CASE(another_lease_is_a_conflict, 20s) {
  scene on(ex);
  co_await on.make_slots();
  co_await on.operator_.ask(on.its.declare_tokens(1));
  const auto one = on.one(3s);
  const event::seized answer = co_await one->seize(one->new_seat(1));
  BOOST_TEST((answer.outcome == event::seizure::failed));
  BOOST_TEST(answer.error.code == error::lease_conflict);
  BOOST_TEST(answer.error.details.server_message.find("20000") != std::string::npos);
}

ASYNC_TEST_CASE(a_verification_tells_whose_b_is, 20s) {
  scene on(ex);
  co_await on.make_slots();
  const auto one = on.one();
  const seat_id seat = one->new_seat(1);
  co_await one->seize(seat);
  event::verified answer = co_await one->verify(seat);
  BOOST_TEST((answer.outcome == event::verification::ours));
  BOOST_TEST(answer.exists);
  on.ctl("delete_queue '" + on.its.holder(1) + "'");
  answer = co_await one->verify(seat);
  BOOST_TEST((answer.outcome == event::verification::gone));
  co_await on.operator_.ask(on.its.take(1));
  answer = co_await one->verify(seat);
  BOOST_TEST((answer.outcome == event::verification::gone));
}

ASYNC_TEST_CASE(a_verification_tells_whether_the_slot_exists, 20s) {
  scene on(ex);
  co_await on.make_slots();
  const auto one = on.one();
  const seat_id seat = one->new_seat(1);
  co_await one->seize(seat);
  co_await on.operator_.erase(on.its.existence(1));
  const event::verified answer = co_await one->verify(seat);
  BOOST_TEST((answer.outcome == event::verification::ours));
  BOOST_TEST(!answer.exists);
}

ASYNC_TEST_CASE(a_cleansing_removes_the_token, 20s) {
  scene on(ex);
  co_await on.make_slots();
  const auto one = on.one();
  const seat_id seat = one->new_seat(1);
  co_await one->seize(seat);
  co_await on.operator_.ask(on.its.publish_token(1), queues::passive(on.its.tokens(1)));
  event::verified answer = co_await one->cleanse(seat);
  BOOST_TEST((answer.outcome == event::verification::ours));
  const bool is_left = co_await on.operator_.has_token(on.its, 1);
  BOOST_TEST(!is_left);
  co_await on.operator_.erase(on.its.tokens(1));
  answer = co_await one->cleanse(seat);
  BOOST_TEST((answer.outcome == event::verification::ours));
}

ASYNC_TEST_CASE(a_vacated_slot_has_the_token_that_was_asked_for, 20s) {
  scene on(ex);
  co_await on.make_slots();
  const auto one = on.one();
  for (const bool with_token : {true, false}) {
    const seat_id seat = one->new_seat(1);
    co_await one->seize(seat);
    const event::vacated answer = co_await one->vacate(seat, with_token);
    BOOST_TEST(!answer.error.code);
    const reply gone = co_await on.operator_.ask(queues::passive(on.its.holder(1)));
    BOOST_REQUIRE(gone.refused);
    BOOST_TEST(gone.refused->code == 404);
    const bool has_token = co_await on.operator_.has_token(on.its, 1);
    BOOST_TEST(has_token == with_token);
  }
}

ASYNC_TEST_CASE(a_b_that_is_anothers_gets_no_token, 20s) {
  scene on(ex);
  co_await on.make_slots();
  const auto one = on.one();
  const seat_id seat = one->new_seat(1);
  co_await one->seize(seat);
  on.ctl("delete_queue '" + on.its.holder(1) + "'");
  co_await on.operator_.ask(on.its.take(1));
  const event::vacated answer = co_await one->vacate(seat, true);
  BOOST_TEST(!answer.error.code);
  const bool has_token = co_await on.operator_.has_token(on.its, 1);
  BOOST_TEST(!has_token);
  const reply still = co_await on.operator_.ask(queues::passive(on.its.holder(1)));
  BOOST_TEST(!still.refused);
}

ASYNC_TEST_CASE(a_connection_is_used_again, 20s) {
  scene on(ex);
  co_await on.make_slots();
  const auto one = on.one();
  for (int i = 0; i != 20; ++i) {
    const seat_id seat = one->new_seat(1);
    const event::seized seized = co_await one->seize(seat, i == 0);
    BOOST_TEST((seized.outcome == event::seizure::ok));
    BOOST_TEST(seized.token == (i != 0));
    co_await one->vacate(seat, true);
  }
  BOOST_TEST(on.connections() == 1u);
}

ASYNC_TEST_CASE(a_seat_whose_connection_ends_is_told_that_once, 20s) {
  scene on(ex);
  co_await on.make_slots();
  const auto one = on.one();
  const seat_id seat = one->new_seat(1);
  co_await one->seize(seat);
  on.close_owner(on.its.holder(1));
  one->make(action::verify{seat, 999});
  const event::connection_ended told = co_await one->next<event::connection_ended>();
  BOOST_TEST((told.seat == seat));
  BOOST_TEST(told.error.code == error::connection_lost);
  BOOST_TEST(told.error.details.server_message.find("320") != std::string::npos);
  one->make(action::verify{seat, 1000});
  co_await a_moment();
  BOOST_TEST(one->unread() == 0u);
}

ASYNC_TEST_CASE(a_dropped_seat_is_told_nothing_and_has_no_b, 20s) {
  scene on(ex);
  co_await on.make_slots();
  const auto one = on.one();
  const seat_id held = one->new_seat(1);
  co_await one->seize(held);
  one->make(action::verify{held, 998});
  one->make(action::drop{held});
  const seat_id early = one->new_seat(2);
  one->make(action::seize{early, 999, true});
  one->make(action::drop{early});
  for (const std::uint32_t slot : {1u, 2u}) {
    while (true) {
      const reply answer = co_await on.operator_.ask(queues::passive(on.its.holder(slot)));
      if (answer.refused && answer.refused->code == 404) break;
    }
  }
  co_await a_moment();
  BOOST_TEST(one->unread() == 0u);
}

ASYNC_TEST_CASE(the_sink_lives_until_its_last_answer, 20s) {
  scene on(ex);
  co_await on.make_slots();
  auto one = on.one();
  const std::weak_ptr<asker> weak = one;
  const seat_id seat = one->new_seat(1);
  co_await one->seize(seat);
  one.reset();
  BOOST_TEST(!weak.expired());
  weak.lock()->make(action::vacate{seat, 5, true, true});
  while (!weak.expired()) co_await a_moment();
  const bool has_token = co_await on.operator_.has_token(on.its, 1);
  BOOST_TEST(has_token);
}

ASYNC_TEST_CASE(a_failure_is_one_of_ours, 20s) {
  rabbitmq::config nowhere;
  nowhere.address = "127.0.0.1:1";
  const auto client = client_impl::make(ex, nowhere);
  const auto one = std::make_shared<asker>(ex, client, unique_name("semaphore"));
  const event::probed probed = co_await one->probe(1);
  BOOST_TEST(probed.error.code == error::unreachable, probed.error.details.to_string());
  const event::seized seized = co_await one->seize(one->new_seat(1));
  BOOST_TEST(seized.error.code == error::unreachable);
}

ASYNC_TEST_CASE(a_wrong_password_is_a_failure_without_it, 20s) {
  rabbitmq::config wrong = usual_config();
  wrong.address.replace(wrong.address.find(":guest@"), 7, ":mistaken@");
  const auto client = client_impl::make(ex, wrong);
  const auto one = std::make_shared<asker>(ex, client, unique_name("semaphore"));
  const event::probed probed = co_await one->probe(1);
  BOOST_TEST(probed.error.code == error::permission_denied);
  BOOST_TEST(probed.error.details.server_message.find("403") != std::string::npos);
  BOOST_TEST(probed.error.details.to_string().find("mistaken") == std::string::npos);
}

ASYNC_TEST_CASE(what_is_closed_says_so_and_closes_its_core, 20s) {
  scene on(ex);
  co_await on.make_slots();
  const auto one = on.one();
  const seat_id seat = one->new_seat(1);
  co_await one->seize(seat);
  on.client->close();
  const event::connection_ended ended = co_await one->next<event::connection_ended>();
  BOOST_TEST((ended.seat == seat));
  BOOST_TEST(ended.error.code == error::closed);
  co_await one->next<event::close>();
  const event::probed probed = co_await one->probe(1);
  BOOST_TEST(probed.error.code == error::closed);
  co_await one->next<event::close>();
}

BOOST_AUTO_TEST_CASE(an_executor_is_empty_once_its_context_is_gone) {
  std::optional<asio::io_context> io(std::in_place);
  const auto client = client_impl::make(io->get_executor(), usual_config());
  const auto one = std::make_shared<asker>(io->get_executor(), client, unique_name("semaphore"));
  const std::weak_ptr<asker> weak = one;
  one->make(action::seize{one->new_seat(1), 1, true});
  one->make(action::listen{true});
  one->make(action::probe{2, 3});
  for (int i = 0; i != 40; ++i) io->run_one_for(20ms);
  BOOST_TEST(one->unread() != 0u);
  one->forget_timer();
  io.reset();
  BOOST_TEST(!one->link().executor());
  BOOST_TEST(!one->link().strand());
  one->make(action::probe{3, 1});
  BOOST_TEST(one.use_count() == 1);
}

ASYNC_TEST_CASE(a_hint_reaches_a_link_that_listens, 20s) {
  scene on(ex);
  co_await on.make_slots();
  const auto holder = on.one();
  const auto waiter = on.one();
  waiter->make(action::listen{true});
  co_await on.until_listening(1);
  for (int i = 0; i != 2; ++i) {
    const seat_id seat = holder->new_seat(2);
    co_await holder->seize(seat);
    co_await holder->vacate(seat, true, true);
  }
  const event::hinted first = co_await waiter->next<event::hinted>();
  BOOST_TEST(first.number == 2u);
  co_await a_moment();
  BOOST_TEST(waiter->unread() == 0u);
  waiter->make(action::settle_hint{first.hint, true});
  const event::hinted second = co_await waiter->next<event::hinted>();
  BOOST_TEST((second.hint != first.hint));
}

ASYNC_TEST_CASE(a_hint_that_is_not_used_goes_to_another, 20s) {
  scene on(ex);
  const std::shared_ptr<asker> both[] = {on.one(), on.one()};
  for (const auto& each : both) each->make(action::listen{true});
  co_await on.until_listening(2);
  co_await on.operator_.ask(on.its.publish_hint(3), queues::passive(on.its.names().hints()));
  while (both[0]->unread() + both[1]->unread() == 0) co_await a_while();
  const std::size_t first = both[0]->unread() != 0 ? 0 : 1;
  const event::hinted refused = co_await both[first]->next<event::hinted>();
  both[first]->make(action::settle_hint{refused.hint, false});
  while (both[0]->unread() + both[1]->unread() == 0) co_await a_while();
  const std::size_t second = both[0]->unread() != 0 ? 0 : 1;
  both[second]->make(action::listen{false});  // the hint is not settled
  const event::hinted again = co_await both[1 - second]->next<event::hinted>();
  BOOST_TEST(again.number == 3u);
}

ASYNC_TEST_CASE(a_link_listens_again_after_its_queue_was_deleted, 20s) {
  scene on(ex);
  const auto one = on.one();
  one->make(action::listen{true});
  co_await on.until_listening(1);
  co_await on.operator_.erase(on.its.names().hints());
  co_await on.until_listening(1);
  co_await on.operator_.ask(on.its.publish_hint(1), queues::passive(on.its.names().hints()));
  const event::hinted hint = co_await one->next<event::hinted>();
  BOOST_TEST(hint.number == 1u);
}

ASYNC_TEST_CASE(an_alarm_is_told_and_its_end, 60s) {
  scene on(ex);
  co_await on.make_slots();
  const auto one = on.one();
  const seat_id seat = one->new_seat(1);
  co_await one->seize(seat);
  co_await one->probe(1);
  on.ctl("set_vm_memory_high_watermark 0.000001");
  one->make(action::probe{998, 1});
  event::blocked told = co_await one->next<event::blocked>();
  BOOST_TEST(told.on);
  const event::verified verified = co_await one->verify(seat);
  BOOST_TEST((verified.outcome == event::verification::ours));
  on.ctl("set_vm_memory_high_watermark absolute 1GiB");
  told = co_await one->next<event::blocked>();
  BOOST_TEST(!told.on);
}

ASYNC_TEST_CASE(an_alarm_is_told_to_the_seat_that_has_published, 60s) {
  scene on(ex);
  co_await on.make_slots();
  const auto one = on.one();
  const seat_id seat = one->new_seat(1);
  co_await one->seize(seat);
  on.ctl("set_vm_memory_high_watermark 0.000001");
  one->make(action::vacate{seat, 998, true, true});
  const event::seat_blocked told = co_await one->next<event::seat_blocked>();
  BOOST_TEST((told.seat == seat));
  one->make(action::drop{seat});
  on.ctl("set_vm_memory_high_watermark absolute 1GiB");
}

ASYNC_TEST_CASE(a_semaphore_is_created, 20s) {
  scene on(ex);
  const auto one = on.one();
  const event::created created = co_await one->create(3);
  BOOST_TEST(!created.error.code, created.error.details.to_string());
  const event::probed probed = co_await one->probe(4);
  BOOST_REQUIRE(probed.slots.size() == 4);
  for (std::size_t i = 0; i != 4; ++i) BOOST_TEST((probed.slots[i] == event::probed::slot{i < 3, false}), i);
  const event::seized seized = co_await one->seize(one->new_seat(3));
  BOOST_TEST(seized.token);
  const event::created again = co_await one->create(3);
  BOOST_TEST(!again.error.code);
  const event::created other = co_await one->create(2);
  BOOST_TEST(!other.error.code, other.error.details.to_string());
  const event::probed after = co_await one->probe(4);
  BOOST_REQUIRE(after.slots.size() == 4);
  for (std::size_t i = 0; i != 4; ++i) BOOST_TEST(after.slots[i].exists == (i < 3), i);
}

ASYNC_TEST_CASE(a_creation_that_has_died_is_completed, 20s) {
  scene on(ex);
  co_await on.operator_.ask(on.its.declare_mark(3), on.its.declare_existence(1));
  const auto one = on.one();
  const event::created other = co_await one->create(2);
  BOOST_TEST(!other.error.code, other.error.details.to_string());
  event::probed probed = co_await one->probe(2);
  BOOST_TEST((probed.slots == std::vector<event::probed::slot>{{true, false}, {false, false}}));
  const event::created created = co_await one->create(3);
  BOOST_TEST(!created.error.code, created.error.details.to_string());
  probed = co_await one->probe(4);
  BOOST_REQUIRE(probed.slots.size() == 4);
  for (std::size_t i = 0; i != 4; ++i) BOOST_TEST((probed.slots[i] == event::probed::slot{i < 3, false}), i);
  const reply mark = co_await on.operator_.ask(queues::passive(on.its.mark()));
  BOOST_TEST((mark.refused && mark.refused->code == 404));
}

ASYNC_TEST_CASE(a_link_that_has_ended_keeps_no_connection, 20s) {
  scene on(ex);
  co_await on.make_slots();
  const auto one = std::make_shared<asker>(ex, on.client, on.name, lease, 24h);
  const seat_id seat = one->new_seat(1);
  co_await one->seize(seat);
  co_await one->vacate(seat, true);
  BOOST_TEST(on.connections() == 1u);
  one->make(end_link{});
  while (on.connections() != 0) co_await a_moment();
}

ASYNC_TEST_CASE(idle_connections_are_closed, 20s) {
  scene on(ex);
  co_await on.make_slots();
  // If both links had the same idle time, the connection of the other one would be closed first.
  scene beside(ex);
  co_await beside.make_slots();
  const auto patient = std::make_shared<asker>(ex, beside.client, beside.name, lease, 24h);
  const seat_id other = patient->new_seat(1);
  co_await patient->seize(other);
  co_await patient->vacate(other, true);
  const auto one = on.one();
  const seat_id seat = one->new_seat(1);
  co_await one->seize(seat);
  co_await one->probe(2);
  co_await one->vacate(seat, true);
  while (on.connections() != 0) co_await a_moment();
  BOOST_TEST(beside.connections() == 1u);
}

BOOST_AUTO_TEST_SUITE_END()
