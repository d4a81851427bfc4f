// SPDX-FileCopyrightText: The holdfast authors
// SPDX-License-Identifier: BSL-1.0

#pragma once

#include <boost/asio/any_io_executor.hpp>
#include <boost/asio/cancellation_signal.hpp>
#include <holdfast/consul/client.hpp>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "runtime/store.hpp"

namespace holdfast::runtime {

/// Consul as a store. It makes the requests to Consul and converts the answers to events. The answers are delivered on
/// the client's strand.
class consul_store final : public store {
public:
  consul_store(consul::client client, store_terms terms);

  asio::any_io_executor executor() const noexcept override { return client_.get_executor(); }
  asio::any_io_executor strand() const override { return client_.strand(); }
  std::string name() const override { return "Consul at " + client_.address(); }
  bool has_fence_checks() const noexcept override { return true; }
  std::string advice_on_expiry(const diagnostics& why) const override;
  void make(store_request&& request, const std::shared_ptr<event_sink>& to) override;

private:
  using sink = std::shared_ptr<event_sink>;
  void make(protocol::action::create_session&& a, const sink& to);
  void make(protocol::action::register_node&& a, const sink& to);
  void make(protocol::action::renew_session&& a, const sink& to);
  void make(protocol::action::destroy_session&& a, const sink& to);
  void make(protocol::action::send_txn&& a, const sink& to);
  void make(protocol::action::list_prefix&& a, const sink& to);
  void make(protocol::action::watch_key&& a, const sink& to);
  void make(protocol::action::read_node&& a, const sink& to);
  void make(protocol::action::stop_watch&& a, const sink& to);
  void make(key_question&& a, const sink& to);
  void make(prefix_question&& a, const sink& to);
  void make(write_question&& a, const sink& to);
  void make(end_question&& a, const sink& to);
  void make(stop_reads&& a, const sink& to);

  /// A read of the core.
  struct pending_read {
    asio::cancellation_signal stop{};  ///< ends its request
    bool is_stopped = false;
    std::shared_ptr<asio::cancellation_signal> second{};  ///< ends its second request; used on the strand only
    void end(const asio::any_io_executor& strand);
  };

  template <class Convert>
  auto told(const sink& to, std::unique_ptr<diagnostics> details, Convert convert);
  template <class Convert>
  auto told_unless_stopped(const sink& to, protocol::request_id id, std::unique_ptr<diagnostics> details,
                           Convert convert);
  template <class Convert>
  auto telling(const sink& to, protocol::request_id id, std::unique_ptr<diagnostics> details, Convert convert);
  template <class Handler>
  auto stoppable(protocol::request_id id, Handler handler);
  template <class Convert, class Answer>
  void tell(const sink& to, protocol::request_id id, Convert convert, error_code ec, diagnostics&& why, Answer answer);
  void make_sure_of_absence(protocol::action::list_prefix&& a, const sink& to,
                            consul::answer<std::vector<consul::kv_entry>> listed);
  template <class Question, class Convert>
  auto answering(Question& a, std::unique_ptr<diagnostics> details, Convert convert);
  consul::request_options request(diagnostics& details, protocol::duration within = {}) const;
  consul::read_options read(std::uint64_t index, protocol::duration wait, diagnostics& details,
                            protocol::duration within = {}) const;
  bool has_ended(protocol::request_id id);

  consul::client client_;
  const consul::request_options request_;
  const consul::session_options session_;

  std::mutex mutex_;                                    ///< guards the following members
  std::map<protocol::request_id, pending_read> reads_;  ///< of the core
  bool stopped_ = false;
};

}  // namespace holdfast::runtime
