#include "runtime/driver.hpp"

#include <unistd.h>

#include <algorithm>
#include <boost/asio/append.hpp>
#include <boost/asio/associated_cancellation_slot.hpp>
#include <boost/asio/associated_executor.hpp>
#include <boost/asio/bind_cancellation_slot.hpp>
#include <boost/asio/bind_executor.hpp>
#include <boost/asio/dispatch.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/prefer.hpp>
#include <boost/asio/query.hpp>
#include <random>
#include <utility>

#include "runtime/boot_clock.hpp"
#include "runtime/convert.hpp"
#include "runtime/pool_options.hpp"

namespace holdfast::detail {

namespace {

std::uint64_t number(auto id) { return static_cast<std::uint64_t>(id); }

std::uint64_t random_seed() {
  std::random_device device;
  return (std::uint64_t{device()} << 32) ^ device();
}

}  // namespace

template <class... Results>
driver::pending<Results...>::pending(asio::any_completion_handler<void(Results...)> h,
                                     const asio::any_io_executor& fallback)
    : handler(std::move(h)),
      work(asio::prefer(asio::get_associated_executor(handler, fallback), asio::execution::outstanding_work.tracked)) {}

driver::driver(consul::client client, semaphore_options options)
    : context_hook(asio::query(client.get_executor(), asio::execution::context)),
      options_(runtime::checked(std::move(options))),
      client_(std::move(client)),
      request_{runtime::request_timeout(options_), false, nullptr},
      strand_(client_.strand()),
      timer_(*strand_),
      pool_(runtime::to_pool_options(options_), random_seed()) {}

driver::~driver() = default;

semaphore_statistics driver::statistics() const noexcept {
  return {counters_.granted, counters_.handoffs, counters_.lost, counters_.waiting, counters_.sessions, counters_.held};
}

// ---- from any thread

template <class Work>
void driver::enter(Work work) noexcept {
  if (gone_.load(std::memory_order_acquire)) return;
  asio::dispatch(*strand_, [self = shared_from_this(), work = std::move(work)]() mutable {
    if (!self->gone_.load(std::memory_order_relaxed)) work(*self);
  });
}

/// Cancellation signals come on any thread, and as late as they like: `cancel(driver&)` is run on the strand, where it
/// may find nothing to do.
template <class Handler, class Cancel>
void driver::on_cancel(Handler& handler, Cancel cancel) {
  auto slot = asio::get_associated_cancellation_slot(handler);
  if (!slot.is_connected()) return;
  slot.assign([weak = weak_from_this(), cancel](asio::cancellation_type) {
    if (const auto self = weak.lock()) self->enter(cancel);
  });
}

// Once the context is gone no handler can run: it is destroyed, as those that waited were.

void driver::acquire(const acquire_request& request, asio::any_completion_handler<void(error_code, slot)> handler) {
  if (gone_) return;
  // The ticket is given on the strand: tickets grow in the order in which the machine sees them, whatever thread asks.
  struct place {
    std::uint64_t ticket = 0;
    bool cancelled = false;
  };
  std::shared_ptr<place> mine;
  if (asio::get_associated_cancellation_slot(handler).is_connected()) {
    mine = std::make_shared<place>();
    on_cancel(handler, [mine](driver& self) {
      mine->cancelled = true;
      if (mine->ticket != 0) self.feed(protocol::event::cancel{protocol::ticket{mine->ticket}});
    });
  }
  acquiring waiting(std::move(handler), client_.get_executor());
  waiting.diag = request.diag;
  waiting.count = request.count;
  enter([mine = std::move(mine), request, waiting = std::move(waiting)](driver& self) mutable {
    if (mine && mine->cancelled)
      return self.complete(std::move(waiting), error_code(asio::error::operation_aborted), slot());
    const std::uint64_t ticket = ++self.last_ticket_;
    if (mine) mine->ticket = ticket;
    self.acquires_.emplace(ticket, std::move(waiting));
    const auto now = runtime::now();
    const bool ends = request.within && *request.within < protocol::never - now;  // else the sum would overflow
    const auto deadline = ends ? now + *request.within : protocol::never;
    self.feed(protocol::event::acquire{protocol::ticket{ticket}, request.count, request.once, deadline});
  });
}

void driver::release(protocol::slot_id id, asio::any_completion_handler<void(error_code)> handler) {
  if (gone_) return;
  std::optional<pending<error_code>> waiting;
  if (handler) waiting.emplace(std::move(handler), client_.get_executor());
  enter([id, waiting = std::move(waiting)](driver& self) mutable {
    if (!self.slots_.erase(number(id))) {  // lost on its way here
      if (waiting) self.complete(*std::move(waiting), make_error_code(error::slot_lost));
      return;
    }
    self.end_waits(id, error::not_held, loss_reason::none);
    if (waiting) self.releases_.emplace(number(id), *std::move(waiting));
    self.feed(protocol::event::release{id});
  });
}

void driver::wait_lost(std::shared_ptr<slot_impl> slot,
                       asio::any_completion_handler<void(error_code, loss_reason)> handler) {
  if (gone_) return;
  const std::uint64_t ticket = next_wait_.fetch_add(1, std::memory_order_relaxed);
  on_cancel(handler, [ticket](driver& self) {
    const auto at = self.losses_.find(ticket);
    if (at == self.losses_.end()) return;
    losing waiting = std::move(at->second);
    self.losses_.erase(at);
    self.complete(std::move(waiting), error_code(asio::error::operation_aborted), loss_reason::none);
  });
  losing waiting(slot->id, std::move(handler), client_.get_executor());
  enter([ticket, slot = std::move(slot), waiting = std::move(waiting)](driver& self) mutable {
    if (self.slots_.contains(number(slot->id))) {
      self.losses_.emplace(ticket, std::move(waiting));
    } else if (slot->reason() != loss_reason::none) {
      self.complete(std::move(waiting), error_code(), slot->reason());
    } else {
      self.complete(std::move(waiting), make_error_code(error::not_held), loss_reason::none);
    }
  });
}

void driver::close(asio::any_completion_handler<void(error_code)> handler) {
  if (gone_) return;
  enter([waiting = pending<error_code>(std::move(handler), client_.get_executor())](driver& self) mutable {
    if (self.closed_) return self.complete(std::move(waiting), error_code());
    self.closes_.push_back(std::move(waiting));
    self.feed(protocol::event::close{true});
  });
}

void driver::abandon() noexcept {
  enter([](driver& self) {
    if (!self.closed_) self.feed(protocol::event::close{false});
  });
}

// ---- on the strand

void driver::feed(protocol::pool_event e) {
  protocol::pool_actions actions;
  pool_.step(std::move(e), runtime::now(), actions);
  for (protocol::pool_action& a : actions) std::visit([this](auto& concrete) { perform(concrete); }, a);
  counters_.waiting = pool_.waiting();
  counters_.sessions = pool_.sessions();
  counters_.held = slots_.size();
  schedule();
}

void driver::schedule() {
  const auto wake = pool_.wake();
  if (wake >= armed_) return;  // it wakes early enough, and then looks again
  armed_ = wake;
  sleep();
}

void driver::sleep() {
  timer_->expires_after(std::max(armed_ - runtime::now(), protocol::duration::zero()));
  timer_->async_wait([self = shared_from_this()](const error_code& ec) {
    if (ec || self->gone_) return;  // armed anew, or over
    self->armed_ = protocol::never;
    if (!self->closed_) self->feed(protocol::event::tick{});
  });
}

/// Posted to the plain executor, from where the handler goes on to its own: it never runs inside the strand.
template <class Pending, class... Results>
void driver::complete(Pending&& waiting, Results... results) {
  asio::post(client_.get_executor(), asio::append(std::move(waiting.handler), std::move(results)...));
}

/// A handler for the client: runs on the strand, with the words for a failure, and ends when the driver is closed.
template <class Reply>
auto driver::reply_to(Reply reply) {
  return asio::bind_executor(*strand_, std::move(reply));
}

void driver::perform(protocol::action::create_session& a) {
  consul::session_options session;
  session.name = "holdfast " + options_.prefix;
  session.ttl = options_.session_ttl;
  session.lock_delay = options_.node_health_checks ? options_.lock_delay : std::chrono::milliseconds(0);
  session.behavior = consul::session_behavior::remove;
  session.node_checks = options_.node_health_checks;
  auto words = std::make_unique<diagnostics>();
  consul::request_options request = request_;
  request.diag = words.get();
  client_.create_session(
      std::move(session), request,
      reply_to([self = shared_from_this(), member = a.member, words = std::move(words)](error_code ec, std::string id) {
        if (self->gone_) return;
        self->feed(protocol::event::session_created{member, ec ? "" : std::move(id), {ec, std::move(*words)}});
      }));
}

void driver::perform(protocol::action::renew_session& a) {
  client_.renew_session(std::move(a.session), request_,
                        reply_to([self = shared_from_this(), member = a.member](error_code ec) {
                          if (self->gone_) return;
                          self->feed(protocol::event::session_renewed{member, runtime::renewal(ec)});
                        }));
}

void driver::perform(protocol::action::destroy_session& a) {
  std::string session = a.session;
  client_.destroy_session(std::move(a.session), request_,
                          reply_to([self = shared_from_this(), session = std::move(session)](error_code ec) {
                            if (self->gone_) return;
                            self->feed(protocol::event::session_destroyed{session, !ec});
                          }));
}

void driver::perform(protocol::action::send_txn& a) {
  auto words = std::make_unique<diagnostics>();
  consul::request_options request = request_;
  request.diag = words.get();
  client_.transact(runtime::to_consul(std::move(a.operations)), request,
                   reply_to([self = shared_from_this(), id = a.id, words = std::move(words)](error_code ec,
                                                                                             consul::txn_reply reply) {
                     if (self->gone_) return;
                     self->feed(runtime::txn_done(id, ec, std::move(reply), std::move(*words)));
                   }));
}

consul::read_options driver::read_options(std::uint64_t index, protocol::duration wait, diagnostics& words) const {
  consul::read_options read;
  read.mode = consul::consistency::consistent;
  read.index = index;
  read.wait = std::chrono::ceil<std::chrono::milliseconds>(wait);
  read.request = request_;
  read.request.diag = &words;
  return read;
}

/// Like `reply_to`, for what can be stopped: `watches_` has the signal until the answer comes.
template <class Reply>
auto driver::stoppable(protocol::request_id id, Reply reply) {
  auto forget = [self = shared_from_this(), id, reply = std::move(reply)](error_code ec, auto answer) mutable {
    if (self->gone_ || self->watches_.erase(id) == 0 || self->closed_) return;
    reply(*self, ec, std::move(answer));
  };
  return asio::bind_cancellation_slot(watches_[id].slot(), reply_to(std::move(forget)));
}

void driver::perform(protocol::action::list_prefix& a) {
  auto words = std::make_unique<diagnostics>();
  const consul::read_options read = read_options(a.index, a.wait, *words);
  client_.list(pool_.options().prefix, read,
               stoppable(a.id, [id = a.id, words = std::move(words)](
                                   driver& self, error_code ec, consul::answer<std::vector<consul::kv_entry>> answer) {
                 self.feed(runtime::prefix_listed(id, ec, std::move(answer), std::move(*words)));
               }));
}

void driver::perform(protocol::action::watch_key& a) {
  auto words = std::make_unique<diagnostics>();
  const consul::read_options read = read_options(a.index, a.wait, *words);
  client_.get(std::move(a.key), read,
              stoppable(a.id, [id = a.id, words = std::move(words)](
                                  driver& self, error_code ec, consul::answer<std::optional<consul::kv_entry>> answer) {
                self.feed(runtime::key_watched(id, ec, std::move(answer), std::move(*words)));
              }));
}

void driver::perform(protocol::action::stop_watch& a) {
  const auto at = watches_.find(a.id);
  if (at != watches_.end()) at->second.emit(asio::cancellation_type::all);  // the answer takes it out
}

void driver::perform(protocol::action::grant& a) {
  auto at = acquires_.find(number(a.ticket));
  acquiring waiting = std::move(at->second);
  acquires_.erase(at);
  auto impl = std::make_shared<slot_impl>(shared_from_this(), a.slot, a.token, waiting.count, a.deadline);
  slots_.emplace(number(a.slot), impl);
  ++counters_.granted;
  if (a.token.handoff != 0) ++counters_.handoffs;
  complete(std::move(waiting), error_code(), slot_impl::make_handle(std::move(impl)));
}

void driver::perform(protocol::action::deny& a) {
  auto at = acquires_.find(number(a.ticket));
  acquiring waiting = std::move(at->second);
  acquires_.erase(at);
  complete(std::move(waiting), error_code(), slot());
}

void driver::perform(protocol::action::fail& a) {
  auto at = acquires_.find(number(a.ticket));
  acquiring waiting = std::move(at->second);
  acquires_.erase(at);
  if (waiting.diag) *waiting.diag = std::move(a.error.details);
  complete(std::move(waiting), a.error.code, slot());
}

void driver::perform(protocol::action::released& a) {
  const auto at = releases_.find(number(a.slot));
  if (at == releases_.end()) return;  // nobody waits for it
  pending<error_code> waiting = std::move(at->second);
  releases_.erase(at);
  complete(std::move(waiting), a.error.code);
}

void driver::perform(protocol::action::lose& a) {
  const auto at = slots_.find(number(a.slot));
  if (at == slots_.end()) return;
  const std::shared_ptr<slot_impl> slot = std::move(at->second);
  slots_.erase(at);
  ++counters_.lost;
  // The user's stop callbacks run in request_stop: not in here.
  std::stop_source stop = slot->lose(a.reason);
  if (stop.stop_possible()) asio::post(client_.get_executor(), [stop]() mutable { stop.request_stop(); });
  end_waits(a.slot, {}, a.reason);
  if (options_.log) options_.log("slot of " + options_.prefix + " lost: " + std::string(to_string(a.reason)));
}

void driver::perform(protocol::action::update& a) {
  const auto at = slots_.find(number(a.slot));
  if (at != slots_.end()) at->second->update(a.deadline, a.suspect);
}

void driver::perform(protocol::action::closed& a) {
  closed_ = true;
  timer_->cancel();
  std::vector<protocol::action::stop_watch> open;
  for (const auto& [id, signal] : watches_) open.push_back({id});
  for (protocol::action::stop_watch& each : open) perform(each);
  for (pending<error_code>& waiting : std::exchange(closes_, {})) complete(std::move(waiting), a.error.code);
}

void driver::perform(protocol::action::note& a) {
  if (options_.log) options_.log(a.text);
}

void driver::end_waits(protocol::slot_id id, error_code ec, loss_reason reason) {
  for (auto at = losses_.begin(); at != losses_.end();) {
    if (at->second.slot != id) {
      ++at;
      continue;
    }
    losing waiting = std::move(at->second);
    at = losses_.erase(at);
    complete(std::move(waiting), ec, reason);
  }
}

/// What waits is destroyed, not called; handles find `gone_` and do nothing.
void driver::on_context_shutdown() noexcept {
  gone_.store(true, std::memory_order_release);
  const auto acquires = std::exchange(acquires_, {});
  const auto slots = std::exchange(slots_, {});
  const auto releases = std::exchange(releases_, {});
  const auto losses = std::exchange(losses_, {});
  const auto closes = std::exchange(closes_, {});
  for (const auto& [id, slot] : slots) slot->lose(loss_reason::closed);
  timer_.reset();
  strand_.reset();
}

}  // namespace holdfast::detail
