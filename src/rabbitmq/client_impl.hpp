// SPDX-FileCopyrightText: The holdfast authors
// SPDX-License-Identifier: BSL-1.0

#pragma once

#include <boost/asio/any_io_executor.hpp>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <holdfast/broker_statistics.hpp>
#include <holdfast/rabbitmq/config.hpp>
#include <memory>
#include <optional>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "lifetime/context_hook.hpp"
#include "lifetime/event_log.hpp"
#include "net/name_lookup.hpp"
#include "net/tls.hpp"
#include "net/waiting.hpp"
#include "rabbitmq/address.hpp"
#include "rabbitmq/connection.hpp"
#include "rabbitmq/counters.hpp"
#include "rabbitmq/login_source.hpp"

namespace holdfast::rabbitmq::detail {

/// A connection, or the reason why there is none.
struct opened {
  std::shared_ptr<connection> link{};
  failure error{};
};

/// The parts of a client that its links share: the strand, the login, one connection for probes and hints, and idle
/// connections. Lives on the strand, apart from the functions that say otherwise.
class client_impl final : public std::enable_shared_from_this<client_impl>, private lifetime::context_hook {
public:
  /// Throws `system_error` if an option breaks a rule, or a file cannot be used.
  static std::shared_ptr<client_impl> make(asio::any_io_executor executor, config settings);
  client_impl(asio::any_io_executor executor, config settings);
  ~client_impl() { unhook(); }

  using context_hook::process;

  // These may be called from any thread. The executors are empty once the execution context has been destroyed.
  const asio::any_io_executor& executor() const noexcept { return executor_; }
  const asio::any_io_executor& erased_strand() const noexcept { return erased_strand_; }
  const std::string& name() const noexcept { return name_; }
  const config& settings() const noexcept { return settings_; }
  broker_statistics statistics() const;
  /// Closes all connections, and opens no more. The users of a connection are told error::closed.
  void close();

  const std::optional<strand_type>& strand() const noexcept { return strand_; }
  bool is_closed() const noexcept { return is_closed_; }
  std::minstd_rand& random() noexcept { return random_; }

  /// Opens a connection to the first address at which that is possible. `label` is shown to the broker's operators.
  awaitable<opened> connect(std::uint16_t heartbeat, std::string label, time_point until = time_point::max());
  /// Returns an idle connection with this heartbeat and label, or null.
  std::shared_ptr<connection> take_idle(std::uint16_t heartbeat, const std::string& label);
  /// Keeps a connection that nobody uses for this time. One that is blocked is closed.
  void keep(const std::shared_ptr<connection>& link, std::uint16_t heartbeat, const std::string& label,
            net::clock::duration time);

  /// Completes with the connection for probes and hints of all links, which is opened if there is none. `rest_probes`
  /// must follow, unless the caller listens.
  awaitable<opened> probes();
  /// To be called by those who use the connection for probes all the time, and when they end.
  void begin_listening() noexcept { ++listeners_; }
  void end_listening(net::clock::duration idle_time);
  /// A probe has ended. If nobody listens, the connection is closed after this time.
  void rest_probes(net::clock::duration idle_time);

  /// To be called before the first request of a link, and after the last one. The end closes the idle connections with
  /// this heartbeat and label, and that for probes if no other link is left.
  void begin_link() noexcept { ++links_; }
  void end_link(std::uint16_t heartbeat, const std::string& label);

  /// True if the broker takes no messages, as far as is known. Each blocked connection counts. If it ends, it counts
  /// until the broker has taken a message on the connection for probes.
  bool is_blocked() const noexcept { return blocked_ != 0; }
  /// Calls the function on each change of `is_blocked`, for as long as `owner` lives.
  void on_blocked(std::weak_ptr<void> owner, std::function<void(bool)> then);

  static constexpr std::uint16_t probes_heartbeat = 10;
  static constexpr std::chrono::seconds witness_idle_time{10};

private:
  struct idle_connection {
    std::weak_ptr<connection> link;
    std::uint16_t heartbeat;
    std::string label;
  };
  struct observer {
    std::weak_ptr<void> owner;
    std::function<void(bool)> then;
  };

  std::shared_ptr<void> on_context_shutdown() noexcept override;
  awaitable<opened> connect_to(std::size_t address, std::uint16_t heartbeat, std::string label, time_point deadline);
  dialogue::listener listen_to(const std::shared_ptr<connection>& link);
  static awaitable<void> open_probes(std::shared_ptr<client_impl> self);
  void ended(const connection* link, bool was_blocked);
  void change_blocked(int by, bool is_news);
  static awaitable<void> ask_about_alarm(std::shared_ptr<client_impl> self);
  void tell(log_event&& event) const;

  asio::any_io_executor executor_;
  const config settings_;
  const std::vector<broker_address> addresses_;
  const std::string name_;
  const std::shared_ptr<counters> counters_ = std::make_shared<counters>();
  std::optional<strand_type> strand_;
  asio::any_io_executor erased_strand_;
  std::weak_ptr<void> owner_{};
  const std::shared_ptr<lifetime::event_log> log_;  ///< null if nobody wants to read it
  login_source logins_;
  std::unique_ptr<net::tls_client> tls_;
  net::name_lookup names_;
  std::minstd_rand random_;
  std::size_t preferred_ = 0;  ///< the address that has worked last
  std::shared_ptr<std::vector<std::shared_ptr<connection>>> all_;
  std::vector<idle_connection> idle_{};
  std::shared_ptr<connection> probes_{};
  failure no_probes_{};  ///< why there is no connection for probes
  bool opens_probes_ = false;
  net::waiter_list await_probes_{};
  std::size_t listeners_ = 0;
  std::size_t links_ = 0;                ///< those that have made a request and have not ended
  int blocked_ = 0;                      ///< the number of connections that count for `is_blocked`
  std::weak_ptr<connection> witness_{};  ///< the connection for probes that has `witness_channel_`
  std::uint16_t witness_channel_ = 0;    ///< the channel of `ask_about_alarm`
  std::vector<observer> observers_{};
  bool is_closed_ = false;
};

}  // namespace holdfast::rabbitmq::detail
