// Connecting to a host with several addresses.

#include "consul/connection.hpp"

#include <boost/asio/co_spawn.hpp>
#include <boost/asio/redirect_error.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <boost/test/unit_test.hpp>

#include "support/async.hpp"
#include "support/scripted_server.hpp"

using namespace std::chrono_literals;
using namespace holdfast::consul::detail;
using holdfast::error_code;
using holdfast::test::scripted_server;

namespace {

// An address that answers nothing, not even a refusal: its queue of new connections is full, so the kernel drops what
// else comes.
class black_hole {
public:
  explicit black_hole(const asio::any_io_executor& ex) : acceptor_(ex, asio::ip::tcp::v4()) {
    acceptor_.bind({asio::ip::address_v4::loopback(), 0});
    acceptor_.listen(0);
    for (int i = 0; i < 4; ++i) {
      asio::ip::tcp::socket& filler = fillers_.emplace_back(ex, asio::ip::tcp::v4());
      filler.async_connect(endpoint(), [](error_code) {});
    }
  }
  asio::ip::tcp::endpoint endpoint() const { return acceptor_.local_endpoint(); }

private:
  asio::ip::tcp::acceptor acceptor_;
  std::vector<asio::ip::tcp::socket> fillers_;
};

asio::awaitable<error_code> connect(asio::any_io_executor ex, connection::endpoints candidates,
                                    std::chrono::milliseconds limit) {
  const strand_type strand(ex);
  const auto link = std::make_shared<connection>(strand, std::make_shared<counters>(), 1024);
  error_code result;
  asio::steady_timer done(ex, asio::steady_timer::time_point::max());
  asio::co_spawn(strand, link->connect(std::move(candidates), clock::now() + limit, agent_address()),
                 [&](const std::exception_ptr& failure, const exchange& outcome) {
                   BOOST_TEST(!failure);
                   result = outcome.cause;
                   done.cancel();
                 });
  error_code ignored;
  co_await done.async_wait(asio::redirect_error(asio::use_awaitable, ignored));
  co_return result;
}

}  // namespace

BOOST_AUTO_TEST_SUITE(consul_connection)

ASYNC_TEST_CASE(a_silent_address_leaves_time_for_the_next, 10s) {
  const black_hole silent(ex);
  const scripted_server server(ex);
  const connection::endpoints candidates{silent.endpoint(), silent.endpoint(), server.endpoint()};
  const auto begun = clock::now();
  const error_code ec = co_await connect(ex, candidates, 3s);
  BOOST_TEST(!ec);
  BOOST_TEST((clock::now() - begun >= 1900ms), "each has its third");
}

ASYNC_TEST_CASE(a_refusal_leaves_its_time_to_the_next, 10s) {
  scripted_server gone(ex);
  const auto refusing = gone.endpoint();
  gone.stop();
  const scripted_server server(ex);
  const connection::endpoints candidates{refusing, server.endpoint()};
  const error_code ec = co_await connect(ex, candidates, 3s);
  BOOST_TEST(!ec);
}

ASYNC_TEST_CASE(silent_addresses_only_end_at_the_deadline, 10s) {
  const black_hole silent(ex);
  const connection::endpoints candidates{silent.endpoint(), silent.endpoint()};
  const auto begun = clock::now();
  const error_code ec = co_await connect(ex, candidates, 200ms);
  BOOST_TEST(ec == asio::error::timed_out);
  BOOST_TEST((clock::now() - begun >= 200ms));
}

BOOST_AUTO_TEST_SUITE_END()
