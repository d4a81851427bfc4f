#pragma once

#include <boost/asio/any_io_executor.hpp>
#include <boost/asio/awaitable.hpp>
#include <holdfast/administration.hpp>
#include <holdfast/consul/client.hpp>
#include <memory>
#include <string>
#include <tuple>

#include "protocol/administration.hpp"
#include "protocol/outage.hpp"
#include "protocol/random.hpp"
#include "protocol/time.hpp"

namespace holdfast::detail {

/// The I/O shell of `semaphore_administration`: looks, asks the core what comes next, does that, and looks again if it
/// has to. It decides nothing, and has no state but what each order has.
class administrator final {
public:
  administrator(consul::client client, administration_options options);

  asio::any_io_executor get_executor() const noexcept { return client_.get_executor(); }
  asio::any_io_executor strand() const noexcept { return client_.strand(); }

  // The caller keeps it alive until they are complete.
  asio::awaitable<std::tuple<error_code>> give(administration_order order);
  asio::awaitable<std::tuple<error_code, swept>> sweep(administration_order order);
  asio::awaitable<std::tuple<error_code, semaphore_status>> inspect(administration_order order);

private:
  struct effort;
  asio::awaitable<error_code> carry_out(effort& e);
  asio::awaitable<error_code> drain(effort& e);
  asio::awaitable<error_code> look(effort& e, protocol::survey& into, std::uint64_t index, protocol::duration wait);
  asio::awaitable<error_code> end_session(effort& e, std::string session);
  asio::awaitable<error_code> write(effort& e, protocol::instruction next);
  asio::awaitable<error_code> rest(effort& e, error_code why);

  consul::client client_;
  administration_options options_;
  std::string prefix_;    ///< with its trailing slash
  std::string lock_key_;  ///< whole
};

}  // namespace holdfast::detail
