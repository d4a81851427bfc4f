// SPDX-FileCopyrightText: The holdfast authors
// SPDX-License-Identifier: BSL-1.0

// The administration of semaphores on a real broker, beside which test/rabbitmq/broker.py runs this program. All ends
// of an administrator are in test/unit/rabbitmq_administration.cpp, on the model; here are some.

#include <array>
#include <boost/asio/bind_executor.hpp>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/detached.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/this_coro.hpp>
#include <boost/asio/thread_pool.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <boost/asio/write.hpp>
#include <boost/test/unit_test.hpp>
#include <cstdlib>
#include <functional>
#include <holdfast/rabbitmq.hpp>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "rabbitmq/address.hpp"
#include "rabbitmq/support/neighbours.hpp"
#include "support/async.hpp"

BOOST_AUTO_TEST_SUITE(administration)

namespace {

using namespace holdfast;
using namespace std::chrono_literals;
namespace asio = boost::asio;
using asio::ip::tcp;
using rabbitmq::semaphore_administration;
using test::as_result;
using test::output_of;
using test::unique_name;
using test::until;
using numbers = std::vector<std::uint32_t>;

constexpr auto lease = 2s;
constexpr auto deadline = 60s;

/// Stands between one connection and the broker. Passes so many methods about queues from the client on, and then ends
/// both sides.
class relay : public std::enable_shared_from_this<relay> {
public:
  relay(const asio::any_io_executor& ex, std::size_t methods)
      : acceptor_(ex, tcp::endpoint(asio::ip::address_v4::loopback(), 0)), client_(ex), broker_(ex), left_(methods) {}

  std::string address() const { return "127.0.0.1:" + std::to_string(acceptor_.local_endpoint().port()); }
  bool has_ended() const { return has_ended_; }
  void start() {
    const auto run = [](std::shared_ptr<relay> self) -> asio::awaitable<void> { co_await self->pass_on(self); };
    asio::co_spawn(acceptor_.get_executor(), run(shared_from_this()), asio::detached);
  }
  void end() {
    boost::system::error_code ignored;
    acceptor_.close(ignored);
    client_.close(ignored);
    broker_.close(ignored);
  }

private:
  asio::awaitable<void> pass_on(std::shared_ptr<relay> self) {
    rabbitmq::detail::broker_address to;
    std::string_view cause;
    const char* const url = std::getenv("AMQP_URL");
    if (parse_address(url ? url : "", to, cause)) throw std::runtime_error("AMQP_URL is no address");
    client_ = co_await acceptor_.async_accept(asio::use_awaitable);
    acceptor_.close();
    const tcp::endpoint broker(asio::ip::address_v4::loopback(), to.port);
    co_await broker_.async_connect(broker, asio::use_awaitable);
    const auto back = [](std::shared_ptr<relay> its) -> asio::awaitable<void> { co_await its->pass_back(); };
    asio::co_spawn(acceptor_.get_executor(), back(self), asio::detached);
    std::array<char, 4096> space;
    while (true) {
      const std::size_t bytes = co_await client_.async_read_some(asio::buffer(space), asio::use_awaitable);
      bytes_.append(space.data(), bytes);
      const std::string passed = take_frames();
      co_await asio::async_write(broker_, asio::buffer(passed), asio::use_awaitable);
      if (left_ != 0) continue;
      has_ended_ = true;
      co_return end();
    }
  }
  asio::awaitable<void> pass_back() {
    std::array<char, 4096> space;
    while (true) {
      const std::size_t bytes = co_await broker_.async_read_some(asio::buffer(space), asio::use_awaitable);
      co_await asio::async_write(client_, asio::buffer(space.data(), bytes), asio::use_awaitable);
    }
  }
  unsigned byte(std::size_t at) const { return static_cast<unsigned char>(bytes_[at]); }
  /// Whole frames, up to the last method that is passed on.
  std::string take_frames() {
    constexpr std::size_t header = 7, end = 1;
    constexpr unsigned queue_class = 50;
    std::size_t taken = bytes_.starts_with("AMQP") ? 8 : 0;
    while (left_ != 0 && bytes_.size() >= taken + header) {
      const std::size_t size =
          (byte(taken + 3) << 24) | (byte(taken + 4) << 16) | (byte(taken + 5) << 8) | byte(taken + 6);
      if (bytes_.size() < taken + header + size + end) break;
      if (byte(taken) == 1 && byte(taken + header) == 0 && byte(taken + header + 1) == queue_class) --left_;
      taken += header + size + end;
    }
    std::string result = bytes_.substr(0, taken);
    bytes_.erase(0, taken);
    return result;
  }

  tcp::acceptor acceptor_;
  tcp::socket client_, broker_;
  std::string bytes_{};
  std::size_t left_;
  bool has_ended_ = false;
};

/// Starts a command, and then calls the function.
using command = std::function<void(semaphore_administration&, std::function<void(error_code)>)>;

/// An administrator, a name that nobody else uses, and a seed client.
struct scene {
  explicit scene(const asio::any_io_executor& executor)
      : ex(executor), client(ex, rabbitmq::config::from_environment()), admin(client, options()) {}
  ~scene() { client.close(); }
  scene(const scene&) = delete;
  scene& operator=(const scene&) = delete;

  rabbitmq::administration_options options() const {
    rabbitmq::administration_options its;
    its.name = name;
    its.lease = lease;
    return its;
  }
  rabbitmq::semaphore with(std::uint32_t create_with) const {
    rabbitmq::semaphore_options its;
    its.name = name;
    its.lease = lease;
    its.create_with = create_with;
    its.tuning.poll_interval = 50ms;
    return {client, its};
  }
  asio::awaitable<std::string> run(std::string words) {
    auto body = [](std::string what) -> asio::awaitable<std::string> { co_return output_of(what); };
    return asio::co_spawn(others, body(std::move(words)), asio::use_awaitable);
  }
  asio::awaitable<std::string> seed(const std::string& words) {
    return run("\"$HOLDFAST_SEED_CLIENT\" \"$AMQP_URL\" " + name + ' ' + words + " 2>&1");
  }
  /// The names of all queues of the semaphore, without its own name.
  asio::awaitable<std::string> queues() {
    co_return co_await run(
        "\"$HOLDFAST_BROKER\" ctl \"$HOLDFAST_BROKER_FOLDER\" list_queues -q --no-table-headers name"
        " | grep -F '" +
        name + "' | sed 's/^" + name + "//' | sort | tr '\\n' ' '");
  }

  /// Ends another administrator when it has sent so many requests about queues.
  asio::awaitable<void> end_after(std::size_t requests, const command& start) {
    const auto between = std::make_shared<relay>(ex, requests);
    between->start();
    rabbitmq::client mortal(ex, {.address = "amqp://guest:guest@" + between->address()});
    rabbitmq::administration_options its = options();
    its.timeout = 1s;
    semaphore_administration other(mortal, its);
    bool is_over = false;
    start(other, [&](error_code) { is_over = true; });
    co_await until([&] { return between->has_ended() || is_over; });
    BOOST_TEST(between->has_ended());
    mortal.close();
    co_await until([&] { return is_over; });
    between->end();
  }

  asio::any_io_executor ex;
  std::string name = unique_name("administered");
  rabbitmq::client client;
  semaphore_administration admin;
  asio::thread_pool others{1};
};

template <class... Results>
auto only_code(asio::any_io_executor ex, std::function<void(error_code)> then) {
  return asio::bind_executor(std::move(ex),
                             [then = std::move(then)](error_code code, const Results&...) { then(code); });
}

void create_two(semaphore_administration& its, std::function<void(error_code)> then) {
  its.create(2, only_code<>(its.get_executor(), std::move(then)));
}
void grow_by_two(semaphore_administration& its, std::function<void(error_code)> then) {
  its.grow(2, only_code<std::uint32_t>(its.get_executor(), std::move(then)));
}
void shrink_by_two(semaphore_administration& its, std::function<void(error_code)> then) {
  its.shrink(2, only_code<std::uint32_t>(its.get_executor(), std::move(then)));
}
void destroy(semaphore_administration& its, std::function<void(error_code)> then) {
  its.destroy(only_code<rabbitmq::destroy_result>(its.get_executor(), std::move(then)));
}

}  // namespace

ASYNC_TEST_CASE(a_semaphore_is_created_changed_and_destroyed, deadline) {
  scene on(ex);
  co_await on.admin.create(2);
  co_await on.admin.create(2);
  const auto [conflict] = co_await on.admin.create(3, as_result);
  BOOST_TEST(conflict == error::limit_conflict);
  std::uint32_t slots = co_await on.admin.grow(2);
  BOOST_TEST(slots == 4u);
  slots = co_await on.admin.shrink(1);
  BOOST_TEST(slots == 3u);
  const rabbitmq::semaphore_status status = co_await on.admin.inspect();
  BOOST_TEST((status == rabbitmq::semaphore_status{true, 3, {}, false}));
  std::string queues = co_await on.queues();
  BOOST_TEST(queues == "-1-A -1-F -2-A -2-F -3-A -3-F -4-F ");
  const rabbitmq::destroy_result left = co_await on.admin.destroy();
  BOOST_TEST((left == rabbitmq::destroy_result()));
  queues = co_await on.queues();
  BOOST_TEST(queues.empty(), queues);
}

ASYNC_TEST_CASE(holders_are_told_and_destroy_names_what_stays, deadline) {
  scene on(ex);
  co_await on.admin.create(2);
  rabbitmq::semaphore sem = on.with(0);
  rabbitmq::slot held = co_await sem.acquire();
  const std::uint32_t number = held.number();
  rabbitmq::semaphore_status status = co_await on.admin.inspect();
  BOOST_TEST(status.taken == numbers{number}, boost::test_tools::per_element());
  co_await on.admin.shrink(2);
  co_await held.wait_revoked();
  BOOST_TEST(held.held());
  rabbitmq::destroy_result left = co_await on.admin.destroy();
  BOOST_TEST(left.held == numbers{number}, boost::test_tools::per_element());
  const std::string tokens = on.name + '-' + std::to_string(number) + "-F";
  BOOST_TEST(left.kept_queues == std::vector<std::string>{tokens}, boost::test_tools::per_element());
  std::optional<error_code> released;
  on.admin.wait_until_released(number, asio::bind_executor(ex, [&](error_code code) { released = code; }));
  const auto [late] = co_await on.admin.wait_until_released(number, 50ms, as_result);
  BOOST_TEST(late == error::in_use);
  BOOST_TEST(!released.has_value());
  co_await held.release();
  co_await sem.close();
  co_await until([&] { return released.has_value(); });
  BOOST_TEST(!*released);
  left = co_await on.admin.destroy(number);
  BOOST_TEST((left == rabbitmq::destroy_result()));
  const std::string queues = co_await on.queues();
  BOOST_TEST(queues.empty(), queues);
}

ASYNC_TEST_CASE(the_semaphore_is_drained_when_all_have_released, deadline) {
  scene on(ex);
  co_await on.admin.create(2);
  rabbitmq::semaphore sem = on.with(0);
  std::vector<rabbitmq::slot> held(2);
  for (rabbitmq::slot& each : held) each = co_await sem.acquire();
  co_await on.admin.shrink(2);
  std::optional<error_code> drained;
  on.admin.wait_until_drained(asio::bind_executor(ex, [&](error_code code) { drained = code; }));
  co_await held[0].release();
  const auto [late] = co_await on.admin.wait_until_drained(50ms, as_result);
  BOOST_TEST(late == error::in_use);
  BOOST_TEST(!drained.has_value());
  co_await held[1].release();
  co_await until([&] { return drained.has_value(); });
  BOOST_TEST(!*drained);
  co_await sem.close();
}

ASYNC_TEST_CASE(commands_exclude_each_other, deadline) {
  scene on(ex);
  co_await on.admin.create(1);
  int done = 0;
  for (int i = 0; i != 5; ++i)
    on.admin.grow(2, asio::bind_executor(ex, [&](error_code code, std::uint32_t) {
                    BOOST_TEST(!code, code.message());
                    ++done;
                  }));
  co_await until([&] { return done == 5; });
  const rabbitmq::semaphore_status status = co_await on.admin.inspect();
  BOOST_TEST(status.slots == 11u);
  co_await on.admin.destroy();
}

ASYNC_TEST_CASE(a_seed_client_administers_ours, deadline) {
  scene on(ex);
  co_await on.admin.create(1);
  co_await on.seed("grow 2");
  rabbitmq::semaphore_status status = co_await on.admin.inspect();
  BOOST_TEST(status.slots == 3u);
  co_await on.seed("shrink 1");
  status = co_await on.admin.inspect();
  BOOST_TEST(status.slots == 2u);
  const std::string most = co_await on.seed("max");
  BOOST_TEST(most == "2\n", most);
  co_await on.seed("destroy");
  status = co_await on.admin.inspect();
  BOOST_TEST(!status.exists);
  const rabbitmq::destroy_result left = co_await on.admin.destroy();
  BOOST_TEST((left == rabbitmq::destroy_result()));
  const std::string queues = co_await on.queues();
  BOOST_TEST(queues.empty(), queues);
}

ASYNC_TEST_CASE(ours_administers_that_of_a_seed_client, deadline) {
  scene on(ex);
  co_await on.seed("create 2");
  co_await on.admin.create(2);
  std::uint32_t slots = co_await on.admin.grow(1);
  BOOST_TEST(slots == 3u);
  const std::string most = co_await on.seed("max");
  BOOST_TEST(most == "3\n", most);
  std::optional<std::string> held;
  auto holding = [&]() -> asio::awaitable<void> { held = co_await on.seed("hold 60"); };
  asio::co_spawn(ex, holding(), asio::detached);
  rabbitmq::semaphore_status status;
  while (status.taken.empty()) status = co_await on.admin.inspect();
  BOOST_TEST(status.taken == numbers{1}, boost::test_tools::per_element());
  const rabbitmq::destroy_result left = co_await on.admin.destroy();
  // The seed client asks every 0.1 s whether its slot exists, so it may have released the slot meanwhile.
  BOOST_TEST((left.held.empty() || left.held == numbers{1}));
  BOOST_TEST(left.kept_queues.empty());  // a seed client knows no F
  co_await until([&] { return held.has_value(); });
  BOOST_TEST(held->find("removed 1") != std::string::npos, *held);
  co_await on.admin.wait_until_released(1);
  const std::string queues = co_await on.queues();
  BOOST_TEST(queues.empty(), queues);
}

// --- An administrator that ends in the middle.

ASYNC_TEST_CASE(the_same_command_completes_a_creation, deadline) {
  for (const std::size_t requests : {1u, 3u, 4u, 6u, 7u, 8u, 13u, 16u}) {
    BOOST_TEST_INFO_SCOPE("ended after " << requests << " requests");
    scene on(ex);
    co_await on.end_after(requests, create_two);
    co_await on.admin.create(2);
    const rabbitmq::semaphore_status status = co_await on.admin.inspect();
    BOOST_TEST((status == rabbitmq::semaphore_status{true, 2, {}, false}));
    co_await on.admin.destroy();
  }
}

ASYNC_TEST_CASE(grow_and_shrink_that_have_ended_count_anew, deadline) {
  for (const std::size_t requests : {1u, 6u, 7u, 8u, 9u, 12u}) {
    BOOST_TEST_INFO_SCOPE("ended after " << requests << " requests");
    scene on(ex);
    co_await on.admin.create(2);
    co_await on.end_after(requests, grow_by_two);
    const rabbitmq::semaphore_status status = co_await on.admin.inspect();
    BOOST_TEST((2 <= status.slots && status.slots <= 4));
    const std::uint32_t grown = co_await on.admin.grow(2);
    BOOST_TEST(grown >= status.slots + 2);  // the broker may have carried out the last request meanwhile
    co_await on.end_after(grown + 4, shrink_by_two);
    const std::uint32_t shrunk = co_await on.admin.shrink(2);
    BOOST_TEST((grown - 4 <= shrunk && shrunk <= grown - 2));
    co_await on.admin.destroy();
  }
}

ASYNC_TEST_CASE(the_same_command_completes_a_destroy, deadline) {
  for (const std::size_t requests : {1u, 5u, 6u, 7u, 8u, 9u, 10u, 11u, 12u, 17u}) {
    BOOST_TEST_INFO_SCOPE("ended after " << requests << " requests");
    scene on(ex);
    co_await on.admin.create(2);
    co_await on.end_after(requests, destroy);
    const rabbitmq::destroy_result left = co_await on.admin.destroy();
    BOOST_TEST((left == rabbitmq::destroy_result()));
    const rabbitmq::semaphore_status status = co_await on.admin.inspect();
    BOOST_TEST((status == rabbitmq::semaphore_status()));
  }
}

BOOST_AUTO_TEST_SUITE_END()
