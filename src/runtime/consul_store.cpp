// SPDX-FileCopyrightText: The holdfast authors
// SPDX-License-Identifier: BSL-1.0

#include "runtime/consul_store.hpp"

#include <algorithm>
#include <boost/asio/associated_cancellation_slot.hpp>
#include <boost/asio/bind_cancellation_slot.hpp>
#include <boost/asio/bind_executor.hpp>
#include <boost/asio/post.hpp>
#include <chrono>
#include <cstdint>
#include <holdfast/lock_store.hpp>
#include <iterator>
#include <new>
#include <string_view>
#include <tuple>
#include <type_traits>
#include <utility>
#include <vector>

#include "runtime/convert.hpp"

namespace holdfast::runtime {

namespace {

// Elections of 12 to 16 s leave enough time for a renewal with this TTL, as measured by test/cluster/failover.cpp.
constexpr std::chrono::seconds ttl_for_slow_elections{30};

/// Returns true if Consul has answered that it has no leader, or that the asked server is not the leader (any more).
bool tells_of_no_leader(const diagnostics& details) {
  constexpr std::string_view all[] = {"No cluster leader", "leadership lost", "node is not the leader"};
  return std::any_of(std::begin(all), std::end(all), [&details](std::string_view each) {
    return details.server_message.find(each) != std::string::npos;
  });
}

/// Adds the ACL rules that the token needs, if Consul has denied permission to create a session on `node`.
protocol::failure with_rules(protocol::failure why, std::string_view node) {
  if (why.code != error::permission_denied || node.empty()) return why;
  const std::string rule = " \"" + std::string(node) + "\" { policy = \"write\" }";
  why.details.message += "; the token needs the ACL rule session" + rule +
                         ", and where nobody has registered that node yet, node" + rule + ", too";
  return why;
}

consul::session_options session_of(store_terms terms) {
  consul::session_options session;
  session.name = std::move(terms.session_name);
  session.ttl = terms.ttl;
  session.lock_delay = terms.lock_delay;
  session.behavior = consul::session_behavior::remove;
  session.node_checks = terms.node_checks;
  session.node = std::move(terms.node);
  return session;
}

class consul_stores final : public store_factory {
public:
  explicit consul_stores(consul::client client) : client_(std::move(client)) {}

  std::unique_ptr<store> open(store_terms terms) const override {
    return std::make_unique<consul_store>(client_, std::move(terms));
  }
  // Asks the client, because the client knows when its context has been destroyed. A copy of the executor that outlives
  // the context could not even be destroyed safely.
  asio::any_io_executor executor() const noexcept override { return client_.get_executor(); }

private:
  const consul::client client_;
};

}  // namespace

std::string consul_store::advice_on_expiry(const diagnostics& why) const {
  if (!tells_of_no_leader(why) || session_.ttl >= ttl_for_slow_elections) return {};
  return "; a session_ttl of 30 s outlasts the elections of a Consul with its default raft_multiplier";
}

consul_store::consul_store(consul::client client, store_terms terms)
    : client_(std::move(client)),
      request_{terms.timeout, false, nullptr, no_parent},
      session_(session_of(std::move(terms))) {}

void consul_store::make(store_request&& request, const sink& to) {
  std::visit([&](auto& each) { make(std::move(each), to); }, request);
}

void consul_store::make(stop_reads&&, const sink&) {
  const std::lock_guard lock(mutex_);
  stopped_ = true;
  for (auto& [id, each] : reads_) each.end(client_.strand());  // each answer removes its own entry
}

void consul_store::pending_read::end(const asio::any_io_executor& strand) {
  is_stopped = true;
  stop.emit(asio::cancellation_type::all);
  if (second && strand) asio::post(strand, [second = second] { second->emit(asio::cancellation_type::all); });
}

consul::request_options consul_store::request(diagnostics& details, protocol::duration within) const {
  consul::request_options its = request_;
  its.diag = &details;
  if (within != protocol::duration()) its.timeout = std::chrono::ceil<std::chrono::milliseconds>(within);
  return its;
}

consul::read_options consul_store::read(std::uint64_t index, protocol::duration wait, diagnostics& details,
                                        protocol::duration within) const {
  consul::read_options its;
  its.mode = consul::consistency::consistent;
  its.index = index;
  its.wait = std::chrono::ceil<std::chrono::milliseconds>(wait);
  its.request = request(details, within);
  return its;
}

/// Calls convert(first..., ec, answer..., details). If memory runs out there, the answer is as good as lost: calls it
/// once more, with an error and without the answer.
template <class Convert, class... First, class... Answer>
auto converted(Convert& convert, const std::tuple<First...>& first, error_code ec, diagnostics&& details,
               Answer&&... answer) {
  const auto call = [&](auto&&... rest) {
    return std::apply([&](const First&... each) { return convert(each..., std::forward<decltype(rest)>(rest)...); },
                      first);
  };
  try {
    return call(ec, std::forward<Answer>(answer)..., std::move(details));
  } catch (const std::bad_alloc&) {
    return call(make_error_code(error::connection_lost), std::decay_t<Answer>()..., diagnostics());
  }
}

/// Makes a handler for the client. It delivers the event that `convert` makes of the answer. If the client was closed,
/// the handler also closes the core.
template <class Convert>
auto consul_store::told(const sink& to, std::unique_ptr<diagnostics> details, Convert convert) {
  return asio::bind_executor(client_.strand(), [to, details = std::move(details), convert = std::move(convert)](
                                                   error_code ec, auto... answer) {
    to->deliver(converted(convert, std::tuple(), ec, std::move(*details), std::move(answer)...));
    if (ec == error::closed) to->deliver(protocol::event::close{.lose_slots = true, .at_once = true});
  });
}

template <class Convert>
auto consul_store::told_unless_stopped(const sink& to, protocol::request_id id, std::unique_ptr<diagnostics> details,
                                       Convert convert) {
  return stoppable(id, telling(to, id, std::move(details), std::move(convert)));
}

template <class Convert>
auto consul_store::telling(const sink& to, protocol::request_id id, std::unique_ptr<diagnostics> details,
                           Convert convert) {
  return [this, to, id, details = std::move(details), convert = std::move(convert)](error_code ec, auto answer) {
    this->tell(to, id, convert, ec, std::move(*details), std::move(answer));
  };
}

/// Makes a handler for the client, whose request ends when the read is stopped.
template <class Handler>
auto consul_store::stoppable(protocol::request_id id, Handler handler) {
  asio::cancellation_slot stop;
  {
    const std::lock_guard lock(mutex_);
    stop = reads_[id].stop.slot();
  }
  return asio::bind_cancellation_slot(stop, asio::bind_executor(client_.strand(), std::move(handler)));
}

template <class Convert, class Answer>
void consul_store::tell(const sink& to, protocol::request_id id, Convert convert, error_code ec, diagnostics&& why,
                        Answer answer) {
  if (has_ended(id)) return;
  to->deliver(converted(convert, std::tuple(id), ec, std::move(why), std::move(answer)));
  if (ec == error::closed) to->deliver(protocol::event::close{.lose_slots = true, .at_once = true});
}

/// Removes the read. Returns true if its answer must be dropped.
bool consul_store::has_ended(protocol::request_id id) {
  const std::lock_guard lock(mutex_);
  return reads_.erase(id) == 0 || stopped_;
}

void consul_store::make(protocol::action::create_session&& a, const sink& to) {
  auto details = std::make_unique<diagnostics>();
  const consul::request_options how = request(*details);
  client_.create_session(
      session_, how,
      told(to, std::move(details),
           [member = a.member, node = session_.node](error_code ec, std::string id, diagnostics why) {
             return protocol::event::session_created{member, ec ? "" : std::move(id),
                                                     with_rules({ec, std::move(why)}, node)};
           }));
}

/// The node has no agent, and Consul never connects to its address.
void consul_store::make(protocol::action::register_node&&, const sink& to) {
  auto details = std::make_unique<diagnostics>();
  const consul::request_options how = request(*details);
  client_.register_node({session_.node, "127.0.0.1"}, how,
                        told(to, std::move(details), [node = session_.node](error_code ec, diagnostics why) {
                          return protocol::event::node_registered{with_rules({ec, std::move(why)}, node)};
                        }));
}

void consul_store::make(protocol::action::renew_session&& a, const sink& to) {
  auto details = std::make_unique<diagnostics>();
  const consul::request_options how = request(*details);
  client_.renew_session(std::move(a.session), how,
                        told(to, std::move(details), [member = a.member](error_code ec, diagnostics why) {
                          return protocol::event::session_renewed{member, renewal(ec), {ec, std::move(why)}};
                        }));
}

void consul_store::make(protocol::action::destroy_session&& a, const sink& to) {
  std::string session = a.session;
  client_.destroy_session(
      a.session, request_,
      told(to, std::make_unique<diagnostics>(), [session = std::move(session)](error_code ec, const diagnostics&) {
        return protocol::event::session_destroyed{session, !ec};
      }));
}

void consul_store::make(protocol::action::send_txn&& a, const sink& to) {
  auto details = std::make_unique<diagnostics>();
  const consul::request_options how = request(*details);
  client_.transact(std::move(a.operations), how,
                   told(to, std::move(details), [id = a.id](error_code ec, consul::txn_reply reply, diagnostics why) {
                     return txn_done(id, ec, std::move(reply), std::move(why));
                   }));
}

void consul_store::make(protocol::action::list_prefix&& a, const sink& to) {
  auto details = std::make_unique<diagnostics>();
  const consul::read_options how = read(a.index, a.wait, *details);
  if (!a.expects_keys) {
    client_.list(std::move(a.prefix), how, told_unless_stopped(to, a.id, std::move(details), prefix_listed));
    return;
  }
  std::string prefix = a.prefix;
  const protocol::request_id id = a.id;
  auto listed = [this, to, a = std::move(a), details = std::move(details)](error_code ec, auto answer) mutable {
    if (ec || !answer.value.empty() || answer.meta.filtered_by_acls) {
      return tell(to, a.id, prefix_listed, ec, std::move(*details), std::move(answer));
    }
    make_sure_of_absence(std::move(a), to, std::move(answer));
  };
  client_.list(std::move(prefix), how, stoppable(id, std::move(listed)));
}

/// A listing found no key. Reads one: Consul says of a single key that the token may not read it. Runs on the strand.
void consul_store::make_sure_of_absence(protocol::action::list_prefix&& a, const sink& to,
                                        consul::answer<std::vector<consul::kv_entry>> listed) try {
  const auto stop = std::make_shared<asio::cancellation_signal>();
  bool is_stopped = false;
  {
    const std::lock_guard lock(mutex_);
    pending_read& its = reads_[a.id];
    is_stopped = stopped_ || its.is_stopped;
    if (!is_stopped) its.second = stop;
  }
  if (is_stopped) return tell(to, a.id, prefix_listed, asio::error::operation_aborted, {}, std::move(listed));
  auto details = std::make_unique<diagnostics>();
  const consul::read_options how = read(0, {}, *details);
  auto confirmed = [listed](protocol::request_id id, const error_code& ec, const auto&, diagnostics why) {
    return prefix_listed(id, ec, listed, std::move(why));
  };
  auto handler = asio::bind_executor(client_.strand(), telling(to, a.id, std::move(details), std::move(confirmed)));
  client_.get(std::move(a.prefix), how, asio::bind_cancellation_slot(stop->slot(), std::move(handler)));
} catch (const std::bad_alloc&) {
  tell(to, a.id, prefix_listed, error::connection_lost, {}, std::move(listed));
}

void consul_store::make(protocol::action::watch_key&& a, const sink& to) {
  auto details = std::make_unique<diagnostics>();
  const consul::read_options how = read(a.index, a.wait, *details);
  client_.get(std::move(a.key), how, told_unless_stopped(to, a.id, std::move(details), key_watched));
}

void consul_store::make(protocol::action::read_node&& a, const sink& to) {
  auto details = std::make_unique<diagnostics>();
  const consul::read_options how = read(0, {}, *details);
  client_.node(std::move(a.node), how, told_unless_stopped(to, a.id, std::move(details), node_seen));
}

void consul_store::make(protocol::action::stop_watch&& a, const sink&) {
  const std::lock_guard lock(mutex_);
  const auto at = reads_.find(a.id);
  if (at != reads_.end()) at->second.end(client_.strand());  // the answer removes it
}

/// Makes a handler for the client. It answers the question with the result that `convert` makes of the reply.
template <class Question, class Convert>
auto consul_store::answering(Question& a, std::unique_ptr<diagnostics> details, Convert convert) {
  const asio::cancellation_slot stop = asio::get_associated_cancellation_slot(a.answered);
  auto heard = [answered = std::move(a.answered), details = std::move(details), convert](error_code ec,
                                                                                         auto... reply) mutable {
    std::move(answered)(converted(convert, std::tuple(), ec, std::move(*details), std::move(reply)...));
  };
  return asio::bind_cancellation_slot(stop, asio::bind_executor(client_.strand(), std::move(heard)));
}

void consul_store::make(key_question&& a, const sink&) {
  auto details = std::make_unique<diagnostics>();
  const consul::read_options how = read(a.index, a.wait, *details, a.within);
  client_.get(std::move(a.key), how, answering(a, std::move(details), [](auto&&... reply) {
                return key_watched({}, std::forward<decltype(reply)>(reply)...);
              }));
}

void consul_store::make(prefix_question&& a, const sink&) {
  auto details = std::make_unique<diagnostics>();
  const consul::read_options how = read(a.index, a.wait, *details, a.within);
  client_.list(std::move(a.prefix), how, answering(a, std::move(details), [](auto&&... reply) {
                 return prefix_listed({}, std::forward<decltype(reply)>(reply)...);
               }));
}

void consul_store::make(write_question&& a, const sink&) {
  auto details = std::make_unique<diagnostics>();
  const consul::request_options how = request(*details, a.within);
  client_.transact(std::move(a.operations), how, answering(a, std::move(details), [](auto&&... reply) {
                     return txn_done({}, std::forward<decltype(reply)>(reply)...);
                   }));
}

void consul_store::make(end_question&& a, const sink&) {
  auto details = std::make_unique<diagnostics>();
  const consul::request_options how = request(*details, a.within);
  client_.destroy_session(std::move(a.session), how,
                          answering(a, std::move(details), [](error_code ec, diagnostics why) {
                            return protocol::failure{ec, std::move(why)};
                          }));
}

}  // namespace holdfast::runtime

namespace holdfast {

lock_store::lock_store(consul::client client)
    : factory_(std::make_shared<const runtime::consul_stores>(std::move(client))) {}

}  // namespace holdfast
