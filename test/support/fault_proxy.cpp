#include "support/fault_proxy.hpp"

#include <algorithm>
#include <array>
#include <boost/asio/as_tuple.hpp>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/detached.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/read.hpp>
#include <boost/asio/read_until.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <boost/asio/write.hpp>
#include <vector>

namespace holdfast::test {
namespace {

using tcp = asio::ip::tcp;
constexpr auto as_result = asio::as_tuple(asio::use_awaitable);

// One client's connection and the one to the agent behind it. A client has one request under way on it at a time.
struct link {
  explicit link(tcp::socket accepted) : client(std::move(accepted)), server(client.get_executor()) {}
  tcp::socket client;
  tcp::socket server;
  bool under_way = false;
  bool watches = false;
  bool loses_reply = false;

  void close() {
    boost::system::error_code ignored;
    client.set_option(asio::socket_base::linger(true, 0), ignored);
    client.close(ignored);
    server.close(ignored);
  }
};
using link_ptr = std::shared_ptr<link>;

std::size_t body_size(const std::string& head) {
  constexpr std::string_view name = "Content-Length: ";
  const auto at = head.find(name);
  return at == std::string::npos ? 0 : std::stoul(head.substr(at + name.size()));
}

asio::awaitable<std::string> read_request(link_ptr l, std::string* received) {
  auto [ec, head_size] =
      co_await asio::async_read_until(l->client, asio::dynamic_buffer(*received), "\r\n\r\n", as_result);
  if (ec) co_return std::string();
  const std::size_t size = head_size + body_size(received->substr(0, head_size));
  if (received->size() < size) {
    const std::size_t missing = size - received->size();
    auto [failure, more] = co_await asio::async_read(l->client, asio::dynamic_buffer(*received),
                                                     asio::transfer_exactly(missing), as_result);
    if (failure) co_return std::string();
  }
  std::string request = received->substr(0, size);
  received->erase(0, size);
  co_return request;
}

asio::awaitable<void> answer_500(link_ptr l) {
  static const std::string reply =
      "HTTP/1.1 500 Internal Server Error\r\nContent-Length: 26\r\n\r\nrpc error making call: EOF";
  co_await asio::async_write(l->client, asio::buffer(reply), as_result);
}

}  // namespace

struct fault_proxy::state {
  state(asio::any_io_executor ex, const agent& a)
      : acceptor(ex, tcp::endpoint(asio::ip::make_address("127.0.0.1"), 0)),
        changed(ex, asio::steady_timer::time_point::max()),
        behind(asio::ip::make_address(a.host()), a.http_port()) {}

  tcp::acceptor acceptor;
  asio::steady_timer changed;
  const tcp::endpoint behind;
  fault_proxy::mode now = fault_proxy::mode::pass;
  std::string loses_reply_to;
  std::vector<link_ptr> links;
  std::size_t requests = 0, refused = 0, replies_lost = 0, kept_back = 0;

  using state_ptr = std::shared_ptr<state>;

  static asio::awaitable<void> while_mute(state_ptr self) {
    ++self->kept_back;
    while (self->now == fault_proxy::mode::mute && self->acceptor.is_open())
      co_await self->changed.async_wait(as_result);
    --self->kept_back;
  }

  static asio::awaitable<void> serve(state_ptr self) {
    for (;;) {
      auto [ec, socket] = co_await self->acceptor.async_accept(as_result);
      if (ec) co_return;
      auto l = std::make_shared<link>(std::move(socket));
      l->client.set_option(tcp::no_delay(true));
      self->links.push_back(l);
      asio::co_spawn(self->acceptor.get_executor(), upstream(self, l), asio::detached);
    }
  }

  static asio::awaitable<void> upstream(state_ptr self, link_ptr l) {
    std::string received;
    for (;;) {
      const std::string request = co_await read_request(l, &received);
      if (request.empty()) break;
      ++self->requests;
      if (self->now == fault_proxy::mode::mute) co_await while_mute(self);
      if (self->now == fault_proxy::mode::refuse) {
        ++self->refused;
        co_await answer_500(l);
        continue;
      }
      if (!l->server.is_open()) {
        auto [ec] = co_await l->server.async_connect(self->behind, as_result);
        if (ec) break;
        l->server.set_option(tcp::no_delay(true));
        asio::co_spawn(self->acceptor.get_executor(), downstream(self, l), asio::detached);
      }
      const std::string line = request.substr(0, request.find('\r'));
      if (!self->loses_reply_to.empty() && line.find(self->loses_reply_to) != std::string::npos) {
        self->loses_reply_to.clear();
        l->loses_reply = true;
      }
      l->under_way = true;
      l->watches = line.find("index=") != std::string::npos;
      auto [ec, size] = co_await asio::async_write(l->server, asio::buffer(request), as_result);
      if (ec) break;
    }
    l->close();
    std::erase(self->links, l);
  }

  static asio::awaitable<void> downstream(state_ptr self, link_ptr l) {
    std::array<char, 16384> buffer;
    for (;;) {
      auto [ec, size] = co_await l->server.async_read_some(asio::buffer(buffer), as_result);
      if (ec == asio::error::operation_aborted) co_return;  // closed by set(refuse): the client's connection goes on
      if (ec) break;
      if (self->now == fault_proxy::mode::mute) co_await while_mute(self);
      if (l->loses_reply) {
        ++self->replies_lost;
        break;
      }
      l->under_way = false;
      auto [failure, written] = co_await asio::async_write(l->client, asio::buffer(buffer, size), as_result);
      if (failure) break;
    }
    l->close();
  }
};

fault_proxy::fault_proxy(asio::any_io_executor ex, const agent& behind)
    : state_(std::make_shared<state>(std::move(ex), behind)) {
  asio::co_spawn(state_->acceptor.get_executor(), state::serve(state_), asio::detached);
}

fault_proxy::~fault_proxy() {
  boost::system::error_code ignored;
  state_->acceptor.close(ignored);
  cut();
  state_->changed.cancel();
}

std::string fault_proxy::address() const {
  return "127.0.0.1:" + std::to_string(state_->acceptor.local_endpoint().port());
}

void fault_proxy::set(mode m) {
  state_->now = m;
  state_->changed.cancel();
  if (m != mode::refuse) return;
  for (const link_ptr& l : state_->links) {
    if (!l->under_way) continue;
    l->under_way = false;
    boost::system::error_code ignored;
    l->server.close(ignored);
    ++state_->refused;
    asio::co_spawn(state_->acceptor.get_executor(), answer_500(l), asio::detached);
  }
}

void fault_proxy::lose_reply_to(std::string text) { state_->loses_reply_to = std::move(text); }

void fault_proxy::cut() {
  for (const link_ptr& l : state_->links) l->close();
}

std::size_t fault_proxy::requests() const { return state_->requests; }
std::size_t fault_proxy::refused() const { return state_->refused; }
std::size_t fault_proxy::replies_lost() const { return state_->replies_lost; }
std::size_t fault_proxy::watches() const {
  return static_cast<std::size_t>(std::count_if(state_->links.begin(), state_->links.end(),
                                                [](const link_ptr& l) { return l->under_way && l->watches; }));
}
std::size_t fault_proxy::kept_back() const { return state_->kept_back; }

}  // namespace holdfast::test
