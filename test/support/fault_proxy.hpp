#pragma once

#include <boost/asio/any_io_executor.hpp>
#include <cstddef>
#include <memory>
#include <string>

#include "support/agent.hpp"

namespace holdfast::test {

namespace asio = boost::asio;

/// Stands before an agent and fails on demand, as networks and agents do. Runs on the test's own executor, one thread
/// at a time.
class fault_proxy {
public:
  fault_proxy(asio::any_io_executor ex, const agent& behind);
  ~fault_proxy();

  std::string address() const;

  enum class mode {
    pass,    ///< all goes through; also what was kept back
    refuse,  ///< requests under way and all further ones are answered 500, the further ones without being forwarded
    mute,    ///< requests and replies are kept back
  };
  void set(mode m);
  /// The next request whose first line contains `text` is forwarded; its connection is cut in place of the reply.
  void lose_reply_to(std::string text);
  /// Resets every connection.
  void cut();

  std::size_t requests() const;  ///< that came
  std::size_t refused() const;   ///< requests answered 500
  std::size_t replies_lost() const;
  std::size_t watches() const;    ///< blocking queries that wait at the agent, now
  std::size_t kept_back() const;  ///< requests and pieces of replies, now

private:
  struct state;
  std::shared_ptr<state> state_;
};

}  // namespace holdfast::test
