#include "runtime/consul_store.hpp"

#include <boost/asio/bind_cancellation_slot.hpp>
#include <boost/asio/bind_executor.hpp>
#include <cstdint>
#include <random>
#include <utility>
#include <vector>

#include "protocol/mutex_set.hpp"
#include "protocol/pool.hpp"
#include "runtime/convert.hpp"
#include "runtime/driver.hpp"

namespace holdfast::runtime {

void consul_store::make(store_request&& request, const sink& to) {
  std::visit([&](auto& each) { make(std::move(each), to); }, request);
}

void consul_store::make(stop_reads&&, const sink&) {
  const std::lock_guard lock(mutex_);
  stopped_ = true;
  for (auto& [id, signal] : reads_) signal.emit(asio::cancellation_type::all);  // each answer takes its own out
}

consul::request_options consul_store::request(diagnostics& words) const {
  consul::request_options its = request_;
  its.diag = &words;
  return its;
}

consul::read_options consul_store::read(std::uint64_t index, protocol::duration wait, diagnostics& words) const {
  consul::read_options its;
  its.mode = consul::consistency::consistent;
  its.index = index;
  its.wait = std::chrono::ceil<std::chrono::milliseconds>(wait);
  its.request = request(words);
  return its;
}

/// A handler for the client: tells what `convert` makes of the answer. A client that was closed ends everything.
template <class Convert>
auto consul_store::told(const sink& to, std::unique_ptr<diagnostics> words, Convert convert) {
  return asio::bind_executor(
      client_.strand(), [to, words = std::move(words), convert = std::move(convert)](error_code ec, auto... answer) {
        to->deliver(convert(ec, std::move(answer)..., std::move(*words)));
        if (ec == error::closed) to->deliver(protocol::event::close{true, true});
      });
}

template <class Convert>
auto consul_store::told_unless_stopped(const sink& to, protocol::request_id id, std::unique_ptr<diagnostics> words,
                                       Convert convert) {
  asio::cancellation_slot stop;
  {
    const std::lock_guard lock(mutex_);
    stop = reads_[id].slot();
  }
  auto answered = [this, to, id, words = std::move(words), convert](error_code ec, auto answer) {
    if (has_ended(id)) return;
    to->deliver(convert(id, ec, std::move(answer), std::move(*words)));
    if (ec == error::closed) to->deliver(protocol::event::close{true, true});
  };
  return asio::bind_cancellation_slot(stop, asio::bind_executor(client_.strand(), std::move(answered)));
}

/// Whether nobody is to hear of its answer any more.
bool consul_store::has_ended(protocol::request_id id) {
  const std::lock_guard lock(mutex_);
  return reads_.erase(id) == 0 || stopped_;
}

void consul_store::make(protocol::action::create_session&& a, const sink& to) {
  auto words = std::make_unique<diagnostics>();
  const consul::request_options how = request(*words);
  client_.create_session(
      session_, how, told(to, std::move(words), [member = a.member](error_code ec, std::string id, diagnostics why) {
        return protocol::event::session_created{member, ec ? "" : std::move(id), {ec, std::move(why)}};
      }));
}

/// No agent stands behind that node, so its address is nobody's.
void consul_store::make(protocol::action::register_node&&, const sink& to) {
  auto words = std::make_unique<diagnostics>();
  const consul::request_options how = request(*words);
  client_.register_node({session_.node, "127.0.0.1"}, how,
                        told(to, std::move(words), [](error_code ec, diagnostics why) {
                          return protocol::event::node_registered{{ec, std::move(why)}};
                        }));
}

void consul_store::make(protocol::action::renew_session&& a, const sink& to) {
  auto words = std::make_unique<diagnostics>();
  const consul::request_options how = request(*words);
  client_.renew_session(std::move(a.session), how,
                        told(to, std::move(words), [member = a.member](error_code ec, diagnostics why) {
                          return protocol::event::session_renewed{member, renewal(ec), {ec, std::move(why)}};
                        }));
}

void consul_store::make(protocol::action::destroy_session&& a, const sink& to) {
  std::string session = a.session;
  client_.destroy_session(
      std::move(a.session), request_,
      told(to, std::make_unique<diagnostics>(), [session = std::move(session)](error_code ec, const diagnostics&) {
        return protocol::event::session_destroyed{session, !ec};
      }));
}

void consul_store::make(protocol::action::send_txn&& a, const sink& to) {
  auto words = std::make_unique<diagnostics>();
  const consul::request_options how = request(*words);
  client_.transact(std::move(a.operations), how,
                   told(to, std::move(words), [id = a.id](error_code ec, consul::txn_reply reply, diagnostics why) {
                     return txn_done(id, ec, std::move(reply), std::move(why));
                   }));
}

void consul_store::make(protocol::action::list_prefix&& a, const sink& to) {
  auto words = std::make_unique<diagnostics>();
  const consul::read_options how = read(a.index, a.wait, *words);
  client_.list(std::move(a.prefix), how, told_unless_stopped(to, a.id, std::move(words), prefix_listed));
}

void consul_store::make(protocol::action::watch_key&& a, const sink& to) {
  auto words = std::make_unique<diagnostics>();
  const consul::read_options how = read(a.index, a.wait, *words);
  client_.get(std::move(a.key), how, told_unless_stopped(to, a.id, std::move(words), key_watched));
}

void consul_store::make(protocol::action::stop_watch&& a, const sink&) {
  const std::lock_guard lock(mutex_);
  const auto at = reads_.find(a.id);
  if (at != reads_.end()) at->second.emit(asio::cancellation_type::all);  // the answer takes it out
}

void consul_store::make(key_question&& a, const sink&) {
  auto words = std::make_unique<diagnostics>();
  const consul::read_options how = read(0, {}, *words);
  client_.get(std::move(a.key), how,
              asio::bind_executor(client_.strand(), [answered = std::move(a.answered), words = std::move(words)](
                                                        error_code ec, auto answer) mutable {
                std::move(answered)(key_watched({}, ec, std::move(answer), std::move(*words)));
              }));
}

void consul_store::make(write_question&& a, const sink&) {
  auto words = std::make_unique<diagnostics>();
  const consul::request_options how = request(*words);
  client_.transact(std::move(a.operations), how,
                   asio::bind_executor(client_.strand(), [answered = std::move(a.answered), words = std::move(words)](
                                                             error_code ec, consul::txn_reply reply) mutable {
                     std::move(answered)(txn_done({}, ec, std::move(reply), std::move(*words)));
                   }));
}

}  // namespace holdfast::runtime

namespace holdfast::detail {

namespace {

std::uint64_t random_seed() {
  std::random_device device;
  return (std::uint64_t{device()} << 32) ^ device();
}

template <class Core, class Setup>
std::shared_ptr<driver> make_driver_of(consul::client client, Setup its) {
  return std::make_shared<driver>(std::make_unique<runtime::consul_store>(std::move(client), std::move(its.store)),
                                  std::move(its.driver), std::make_unique<Core>(std::move(its.core), random_seed()));
}

}  // namespace

std::shared_ptr<driver> make_driver(consul::client client, runtime::pool_setup its) {
  return make_driver_of<protocol::pool>(std::move(client), std::move(its));
}

std::shared_ptr<driver> make_driver(consul::client client, runtime::mutex_set_setup its) {
  return make_driver_of<protocol::mutex_set>(std::move(client), std::move(its));
}

}  // namespace holdfast::detail
