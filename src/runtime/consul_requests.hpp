#pragma once

#include <boost/asio/any_completion_handler.hpp>
#include <boost/asio/cancellation_signal.hpp>
#include <chrono>
#include <holdfast/consul/client.hpp>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <variant>

#include "protocol/actions.hpp"
#include "protocol/events.hpp"

namespace holdfast::runtime {

namespace asio = boost::asio;

/// Whom the answers are told, on the client's strand. It keeps itself alive until the last one.
class event_sink {
public:
  virtual void deliver(protocol::core_event&& e) = 0;

protected:
  ~event_sink() = default;
};

/// A consistent look at one key, for a user.
struct key_question {
  using answer = consul::answer<std::optional<kv_entry>>;
  std::string key;
  asio::any_completion_handler<void(error_code, answer)> answered;
};

/// All reads end. What they are answered is told nobody.
struct stop_reads {};

/// What a core asks of its store. The other actions concern users.
using store_request =
    std::variant<protocol::action::create_session, protocol::action::register_node, protocol::action::renew_session,
                 protocol::action::destroy_session, protocol::action::send_txn, protocol::action::list_prefix,
                 protocol::action::watch_key, protocol::action::stop_watch, key_question, stop_reads>;

/// Consul's part of a driver: makes its requests, and makes events of the answers. It is used by one thread at a time;
/// answers come on the client's strand.
class consul_requests {
public:
  consul_requests(consul::client client, consul::session_options session, std::chrono::milliseconds timeout)
      : client_(std::move(client)), session_(std::move(session)), request_{timeout, false, nullptr} {}

  const consul::client& client() const noexcept { return client_; }
  void make(store_request&& request, const std::shared_ptr<event_sink>& to);

private:
  using sink = std::shared_ptr<event_sink>;
  void make(protocol::action::create_session&& a, const sink& to);
  void make(protocol::action::register_node&& a, const sink& to);
  void make(protocol::action::renew_session&& a, const sink& to);
  void make(protocol::action::destroy_session&& a, const sink& to);
  void make(protocol::action::send_txn&& a, const sink& to);
  void make(protocol::action::list_prefix&& a, const sink& to);
  void make(protocol::action::watch_key&& a, const sink& to);
  void make(protocol::action::stop_watch&& a, const sink& to);
  void make(key_question&& a, const sink& to);
  void make(stop_reads&& a, const sink& to);

  template <class Convert>
  auto told(const sink& to, std::unique_ptr<diagnostics> words, Convert convert);
  template <class Convert>
  auto told_unless_stopped(const sink& to, protocol::request_id id, std::unique_ptr<diagnostics> words,
                           Convert convert);
  consul::request_options request(diagnostics& words) const;
  consul::read_options read(std::uint64_t index, protocol::duration wait, diagnostics& words) const;
  bool has_ended(protocol::request_id id);

  consul::client client_;
  const consul::session_options session_;
  const consul::request_options request_;

  std::mutex mutex_;                                                 ///< of what follows
  std::map<protocol::request_id, asio::cancellation_signal> reads_;  ///< under way, to stop them by
  bool stopped_ = false;
};

}  // namespace holdfast::runtime
