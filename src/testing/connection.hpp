#pragma once

#include <array>
#include <boost/asio/basic_stream_socket.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "consul/net.hpp"
#include "testing/http.hpp"

namespace holdfast::testing::detail {

namespace asio = boost::asio;
using consul::detail::as_result;
using consul::detail::awaitable;
using consul::detail::clock;
using consul::detail::strand_type;
using consul::detail::time_point;
using consul::detail::timer_type;
using socket_type = asio::basic_stream_socket<asio::ip::tcp, strand_type>;

class front_impl;
class connection;

/// What stands behind one client's connection: the model, or an agent. Lives on the strand.
class exchange {
public:
  virtual ~exchange() = default;
  /// The reply; nothing if there is none to have: then the client's connection is reset.
  virtual awaitable<std::optional<api_reply>> perform(const http_request& request) = 0;
  virtual awaitable<void> end_session(std::string id) = 0;
  /// What is under way is to end at once, with nothing.
  virtual void abandon() noexcept = 0;
};

/// A client's connection. Bytes are read all the time, also while a request is under way, since only so a client's end
/// is noticed. One coroutine serves it; what that waits for is always `changed()`, in a loop around a condition.
class connection final : public std::enable_shared_from_this<connection> {
public:
  /// `run`: of the listener that accepted it.
  connection(socket_type accepted, std::size_t body_bytes_max, unsigned run);

  /// Completes after `wake`, at `until`, or sooner.
  awaitable<void> changed(time_point until = time_point::max());
  void wake() { timer_.cancel(); }
  /// False if the client does not take them.
  awaitable<bool> send(std::string_view bytes);
  /// Ends it in order: the client gets what was sent, and then its end.
  awaitable<void> finish();
  /// Ends it with a TCP reset. What was read of it is done all the same, but for a blocking query.
  void reset() noexcept;
  /// Ends it, and all that is done for it.
  void drop() noexcept;
  /// Reads on in the background, while there is room. To be called after each `requests.parse()`.
  void receive();

  const asio::ip::address& peer() const noexcept { return peer_; }
  const unsigned run;
  request_reader requests;
  std::unique_ptr<exchange> behind;

  bool gone = false;     ///< nothing more will come from the client
  bool dropped = false;  ///< as if it had never been
  bool held = false;     ///< by a freeze
  bool blocked = false;  ///< in a blocking query
  bool overdue = false;  ///< what it waits for has taken too long: it gets the connection's end
  /// What the query that waits is answered in place of its reply.
  std::optional<api_reply> interruption;

  /// A blocking query is not to wait any more.
  bool abandoned() const noexcept { return gone || dropped || interruption; }

private:
  void lose() noexcept;
  void received(const boost::system::error_code& ec, std::size_t size);

  socket_type socket_;
  timer_type timer_;
  const asio::ip::address peer_;
  std::array<char, 8192> incoming_;
  bool receiving_ = false;
  bool discards_ = false;  // what still comes, after finish()
};

}  // namespace holdfast::testing::detail
