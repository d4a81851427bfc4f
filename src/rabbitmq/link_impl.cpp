// SPDX-FileCopyrightText: The holdfast authors
// SPDX-License-Identifier: BSL-1.0

#include "rabbitmq/link_impl.hpp"

#include <algorithm>
#include <boost/asio/co_spawn.hpp>
#include <chrono>
#include <utility>

#include "net/backoff.hpp"
#include "rabbitmq/command_runner.hpp"
#include "rabbitmq/reply_codes.hpp"
#include "rabbitmq/rethrow.hpp"

namespace holdfast::rabbitmq::detail {
namespace {

using net::as_result;
using net::clock;
using net::timer_type;

/// B is missing, or belongs to another connection.
bool is_gone(const refusal& why) { return why.code == not_found || why.code == resource_locked; }

}  // namespace

link_impl::link_impl(std::shared_ptr<client_impl> client, link_terms terms)
    : client_(std::move(client)),
      terms_(std::move(terms)),
      queues_(queue_names(terms_.name, terms_.letter_first), terms_.lease),
      heartbeat_(heartbeat_for(terms_.lease)) {}

time_point link_impl::request_deadline() const { return clock::now() + client_->settings().request_timeout; }

/// A holder cannot use an answer that comes later than a lease.
time_point link_impl::lease_deadline() const { return clock::now() + terms_.lease; }

failure link_impl::described(const refusal& why, const char* what) const {
  failure result = failure_of(why, what);
  result.details.key = terms_.name;
  return result;
}

/// Delivers the answer to a request, which has failed if there is a code. A core whose client is closed is closed, too.
void link_impl::deliver(const sink& to, protocol::broker_event&& e, const error_code& code) {
  to->deliver(std::move(e));
  if (code == error::closed) to->deliver(event::close{.lose_slots = true, .at_once = true});
}

std::shared_ptr<connection> link_impl::connection_of(protocol::seat_id id) const {
  const auto at = seats_.find(id);
  return at == seats_.end() ? nullptr : at->second.link.lock();
}

/// The seat has no B any more. Its connection is kept for the next one.
void link_impl::release_seat(protocol::seat_id id) {
  const std::shared_ptr<connection> link = connection_of(id);
  seats_.erase(id);
  if (link) keep(link);
}

void link_impl::keep(const std::shared_ptr<connection>& link) {
  if (has_ended_) return link->close();
  client_->keep(link, heartbeat_, terms_.name, terms_.session_idle_timeout);
}

// --- Seats.

void link_impl::on(const action::seize& a, const sink& to) {
  seats_[a.seat] = {};
  const std::shared_ptr<connection> link = client_->take_idle(heartbeat_, terms_.name);
  if (link) return begin_seat(link, a, to);
  asio::co_spawn(*client_->strand(), open_seat(shared_from_this(), a, to), rethrow);
}

awaitable<void> link_impl::open_seat(std::shared_ptr<link_impl> self, action::seize a, sink to) {
  opened made = co_await self->client_->connect(self->heartbeat_, self->terms_.name);
  const auto at = self->seats_.find(a.seat);
  if (at == self->seats_.end()) {  // dropped
    if (made.link) self->keep(made.link);
    co_return;
  }
  if (made.link) {
    self->begin_seat(made.link, a, to);
    co_return;
  }
  self->seats_.erase(at);
  const error_code code = made.error.code;
  deliver(to, event::seized{a.seat, a.id, event::seizure::failed, false, std::move(made.error)}, code);
}

/// Rule 1: the token counts only if it is got behind the declare of B, on the connection that has B.
void link_impl::begin_seat(const std::shared_ptr<connection>& link, const action::seize& a, const sink& to) {
  if (!link->is_open()) {
    seats_.erase(a.seat);
    failure why{error::connection_lost, {"the connection has ended", {}, {}, {}}};
    return to->deliver(event::seized{a.seat, a.id, event::seizure::failed, false, std::move(why)});
  }
  seats_[a.seat].link = link;
  channel_user user;
  user.ended = [self = shared_from_this(), seat = a.seat, to](const failure& why) {
    if (self->seats_.erase(seat) != 0) deliver(to, event::connection_ended{seat, why}, why.code);
  };
  user.blocked = [seat = a.seat, to] { to->deliver(event::seat_blocked{seat}); };
  link->set_user(connection::first_channel, std::move(user));
  const std::uint32_t slot = number_of(a.seat);
  steps request;
  if (a.declares_tokens) request.push_back(queues_.declare_tokens(slot));
  request.push_back(queues_.take(slot));
  request.push_back(queues_.get_token(slot));
  request.push_back(queues::passive(queues_.existence(slot)));
  link->ask(connection::first_channel, std::move(request), request_deadline(),
            [self = shared_from_this(), a, to](reply&& answer) { self->on_seized(a, to, std::move(answer)); });
}

void link_impl::on_seized(const action::seize& a, const sink& to, reply&& answer) {
  // If the connection has ended, the user of the channel is told. A seat that was dropped is told nothing.
  if (answer.error.code || !seats_.contains(a.seat)) return;
  event::seized told{a.seat, a.id, event::seizure::ok, answer.has_message, {}};
  if (!answer.refused) return to->deliver(std::move(told));
  const refusal& why = *answer.refused;
  const std::size_t declared = a.declares_tokens ? 1 : 0;
  told.outcome = event::seizure::failed;
  told.token = false;
  if (answer.answered < declared) {
    told.error = described(why, "the queue of the token cannot be declared");
    if (why.code == precondition_failed) told.error.code = error::lease_conflict;
  } else if (answer.answered == declared && why.code == resource_locked) {
    release_seat(a.seat);
    told.outcome = event::seizure::locked;
  } else if (answer.answered == declared) {
    told.error = described(why, "the queue of a holder cannot be declared");
  } else if (answer.answered == declared + 1 && why.code == not_found) {
    return declare_missing_tokens(a, to);
  } else if (answer.answered == declared + 2 && why.code == not_found) {
    told.outcome = event::seizure::no_such_slot;
    told.token = answer.has_message;
  } else {
    told.error = described(why, "the slot cannot be read");
  }
  to->deliver(std::move(told));
}

/// B is ours, and F was missing: so there is no token.
void link_impl::declare_missing_tokens(const action::seize& a, const sink& to) {
  const std::shared_ptr<connection> link = connection_of(a.seat);
  if (!link) return;
  const std::uint32_t slot = number_of(a.seat);
  const auto on_declared = [self = shared_from_this(), a, to](reply&& answer) {
    if (answer.error.code || !self->seats_.contains(a.seat)) return;
    event::seized told{a.seat, a.id, event::seizure::ok, false, {}};
    if (answer.refused && answer.answered == 1 && answer.refused->code == not_found) {
      told.outcome = event::seizure::no_such_slot;
    } else if (answer.refused) {
      told.outcome = event::seizure::failed;
      told.error = self->described(*answer.refused, "the queue of the token cannot be declared");
      if (answer.refused->code == precondition_failed) told.error.code = error::lease_conflict;
    }
    to->deliver(std::move(told));
  };
  steps request{queues_.declare_tokens(slot), queues::passive(queues_.existence(slot))};
  link->ask(connection::first_channel, std::move(request), request_deadline(), on_declared);
}

void link_impl::on(const action::verify& a, const sink& to) {
  const std::shared_ptr<connection> link = connection_of(a.seat);
  if (!link) return;
  const std::uint32_t slot = number_of(a.seat);
  steps request{queues::passive(queues_.holder(slot)), queues::passive(queues_.existence(slot))};
  link->ask(connection::first_channel, std::move(request), lease_deadline(),
            [self = shared_from_this(), a, to](reply&& answer) {
              self->on_verified(a.seat, a.id, to, 0, std::move(answer));
            });
}

/// `before`: how many steps were in front of the declare of B.
void link_impl::on_verified(protocol::seat_id whose, protocol::request_id id, const sink& to, std::size_t before,
                            reply&& answer) {
  if (answer.error.code || !seats_.contains(whose)) return;
  event::verified told{whose, id, event::verification::ours, true, {}};
  if (answer.refused) {
    const refusal& why = *answer.refused;
    if (answer.answered == before && is_gone(why)) {
      told.outcome = event::verification::gone;
    } else if (answer.answered == before + 1 && why.code == not_found) {
      told.exists = false;
    } else {
      told.outcome = event::verification::failed;
      told.error = described(why, "the slot cannot be verified");
    }
  }
  to->deliver(std::move(told));
}

void link_impl::on(const action::cleanse& a, const sink& to) {
  const std::shared_ptr<connection> link = connection_of(a.seat);
  if (!link) return;
  const std::uint32_t slot = number_of(a.seat);
  steps request{queues_.purge_tokens(slot), queues::passive(queues_.holder(slot)),
                queues::passive(queues_.existence(slot))};
  link->ask(connection::first_channel, std::move(request), lease_deadline(),
            [self = shared_from_this(), a, to](reply&& answer) { self->on_cleansed(a, to, std::move(answer)); });
}

void link_impl::on_cleansed(const action::cleanse& a, const sink& to, reply&& answer) {
  const bool is_missing = answer.refused && answer.answered == 0 && answer.refused->code == not_found;
  const std::shared_ptr<connection> link = connection_of(a.seat);
  if (answer.error.code || !is_missing || !link) return on_verified(a.seat, a.id, to, 1, std::move(answer));
  // There is no F, so there is no token in it. It is declared for the next holder.
  const std::uint32_t slot = number_of(a.seat);
  steps request{queues_.declare_tokens(slot), queues::passive(queues_.holder(slot)),
                queues::passive(queues_.existence(slot))};
  link->ask(connection::first_channel, std::move(request), lease_deadline(),
            [self = shared_from_this(), a, to](reply&& declared) {
              self->on_verified(a.seat, a.id, to, 1, std::move(declared));
            });
}

/// Rule 2: if B is not ours any more, the broker refuses the first step, and does none of the others.
void link_impl::on(const action::vacate& a, const sink& to) {
  const std::shared_ptr<connection> link = connection_of(a.seat);
  if (!link) return;
  const std::uint32_t slot = number_of(a.seat);
  steps request{queues::passive(queues_.holder(slot))};
  if (a.with_token) request.push_back(queues_.publish_token(slot));
  request.push_back(queues_.erase_holder(slot));
  if (a.with_hint) request.push_back(queues_.publish_hint(slot));
  link->ask(connection::first_channel, std::move(request), request_deadline(),
            [self = shared_from_this(), a, to](reply&& answer) { self->on_vacated(a, to, std::move(answer)); });
}

void link_impl::on_vacated(const action::vacate& a, const sink& to, reply&& answer) {
  if (answer.error.code || !seats_.contains(a.seat)) return;
  event::vacated told{a.seat, a.id, {}};
  if (answer.refused && !(answer.answered == 0 && is_gone(*answer.refused))) {
    told.error = described(*answer.refused, "the slot cannot be released");
  } else {
    release_seat(a.seat);
  }
  to->deliver(std::move(told));
}

void link_impl::on(const action::drop& a, const sink&) {
  const std::shared_ptr<connection> link = connection_of(a.seat);
  seats_.erase(a.seat);
  if (!link) return;
  link->set_user(connection::first_channel, {});
  link->close();
}

// --- Probes.

void link_impl::on(const action::probe& a, const sink& to) {
  asio::co_spawn(*client_->strand(), probe(shared_from_this(), a, to), rethrow);
}

awaitable<void> link_impl::probe(std::shared_ptr<link_impl> self, action::probe a, sink to) {
  opened found = co_await self->client_->probes();
  const std::uint16_t channel = found.link ? self->channel_for_probes(found.link) : std::uint16_t{0};
  if (channel == 0) {
    if (!found.error.code)
      found.error = {error::too_busy, {"the connection for probes has no free channel", {}, {}, {}}};
    self->client_->rest_probes(self->terms_.session_idle_timeout);
    const error_code code = found.error.code;
    deliver(to, event::probed{a.id, {}, std::move(found.error)}, code);
    co_return;
  }
  steps request;
  for (std::uint32_t slot = 1; slot <= a.count; ++slot) {
    request.push_back(queues::probe(self->queues_.existence(slot)));
    request.push_back(queues::probe(self->queues_.holder(slot)));
  }
  found.link->ask(channel, std::move(request), self->request_deadline(),
                  [self, a, to](reply&& answer) { self->on_probed(a, to, answer); });
}

void link_impl::on_probed(const action::probe& a, const sink& to, const reply& answer) {
  event::probed told{a.id, {}, answer.error};
  if (answer.refused) told.error = described(*answer.refused, "the slots cannot be probed");
  if (!told.error.code) {
    for (std::size_t i = 0; i + 1 < answer.missing.size(); i += 2)
      told.slots.push_back({!answer.missing[i], !answer.missing[i + 1]});
  }
  client_->rest_probes(terms_.session_idle_timeout);
  const error_code code = told.error.code;
  deliver(to, std::move(told), code);
}

/// Returns 0 if the connection has no channel left.
std::uint16_t link_impl::channel_for_probes(const std::shared_ptr<connection>& link) {
  if (probes_.lock() != link) {
    probes_ = link;
    probe_channel_ = hint_channel_ = 0;
  }
  if (probe_channel_ == 0) probe_channel_ = link->open_channel(true, {});
  return probe_channel_;
}

// --- Hints.

void link_impl::on(const action::listen& a, const sink& to) {
  wants_hints_ = a.on;
  wake_listener();
  if (!a.on || std::exchange(listens_, true)) return;
  asio::co_spawn(*client_->strand(), listen(shared_from_this(), to), rethrow);
}

void link_impl::on(const action::settle_hint& a, const sink&) {
  if (hint_.id == a.hint && a.hint != protocol::hint_id::none) settle(a.used);
}

void link_impl::settle(bool used) {
  const hint its = std::exchange(hint_, {});
  const std::shared_ptr<connection> link = probes_.lock();
  if (its.id == protocol::hint_id::none || !link) return;
  step answer{basic_ack{its.delivery_tag, false}, {}, {}};
  if (!used) answer.what = basic_nack{its.delivery_tag, false, true};
  link->tell(hint_channel_, answer);
}

void link_impl::on_hint(const sink& to, std::uint64_t delivery_tag, const std::string& body) {
  hint_ = {protocol::hint_id{++last_hint_}, delivery_tag};
  if (!wants_hints_) return settle(false);
  to->deliver(event::hinted{hint_.id, number_in_hint(body)});
}

std::uint16_t link_impl::channel_for_hints(const std::shared_ptr<connection>& link, const sink& to) {
  if (probes_.lock() != link) {
    probes_ = link;
    probe_channel_ = hint_channel_ = 0;
  }
  const auto stop = [self = shared_from_this()] {
    self->is_subscribed_ = false;
    self->hint_ = {};
    self->wake_listener();
  };
  channel_user user;
  user.delivered = [self = shared_from_this(), to](std::uint64_t tag, const std::string& body) {
    self->on_hint(to, tag, body);
  };
  user.stopped = [stop](const refusal&) { stop(); };
  user.ended = [stop](const failure&) { stop(); };
  if (hint_channel_ == 0) {
    hint_channel_ = link->open_channel(false, std::move(user));
  } else {
    link->set_user(hint_channel_, std::move(user));
  }
  return hint_channel_;
}

/// A process gets one hint at a time, so that each hint wakes one process.
steps link_impl::subscription() const {
  basic_consume consume;
  consume.queue = consume.consumer_tag = queues_.names().hints();
  return {queues_.declare_hints(), {basic_qos{1}, {}, {}}, {consume, {}, {}}};
}

/// The hint that is not settled goes back behind the end of the subscription, so that it comes to another process.
void link_impl::unsubscribe() {
  is_subscribed_ = false;
  const std::shared_ptr<connection> link = probes_.lock();
  steps request{{basic_cancel{queues_.names().hints()}, {}, {}}};
  if (link) link->ask(hint_channel_, std::move(request), request_deadline(), [](reply&&) {});
  settle(false);
}

/// Runs from the first `listen` until nobody wants hints any more. Subscribes anew when the subscription has ended.
awaitable<void> link_impl::listen(std::shared_ptr<link_impl> self, sink to) {
  client_impl& client = *self->client_;
  unsigned failures = 0;
  client.begin_listening();
  while (self->wants_hints_ && !client.is_closed()) {
    opened found = co_await client.probes();
    const std::uint16_t channel = found.link ? self->channel_for_hints(found.link, to) : std::uint16_t{0};
    if (channel != 0) {
      self->is_asking_ = true;
      found.link->ask(channel, self->subscription(), self->request_deadline(), [self](reply&& answer) {
        self->is_asking_ = false;
        self->is_subscribed_ = !answer.error.code && !answer.refused;
        self->wake_listener();
      });
      bool was_subscribed = false;
      while (self->is_asking_ || (self->is_subscribed_ && self->wants_hints_)) {
        was_subscribed = was_subscribed || self->is_subscribed_;
        net::waiter one(*client.strand(), time_point::max());
        self->listener_.push_back(one);
        co_await one.timer.async_wait(as_result);
      }
      if (was_subscribed) failures = 0;
    }
    if (!self->wants_hints_ || client.is_closed()) break;
    const config& settings = client.settings();
    net::waiter pause(*client.strand(), clock::now() + net::pause_after(failures++, settings.backoff_min,
                                                                        settings.backoff_max, client.random()));
    self->listener_.push_back(pause);
    co_await pause.timer.async_wait(as_result);
  }
  self->listens_ = false;
  if (self->is_subscribed_) self->unsubscribe();
  client.end_listening(self->terms_.session_idle_timeout);
}

// --- The broker.

void link_impl::on(const action::create& a, const sink& to) {
  asio::co_spawn(*client_->strand(), create(shared_from_this(), a, to), rethrow);
}

awaitable<void> link_impl::create(std::shared_ptr<link_impl> self, action::create a, sink to) {
  protocol::broker_command what{protocol::broker_command::kind::create, self->terms_.name, a.count};
  what.time = self->client_->settings().request_timeout;
  protocol::broker_command_run run(std::move(what), self->client_->random()(), command_runner::now());
  command_runner runner(self->client_, self->terms_);
  failure result = co_await runner.run(run);
  if (result.code == error::limit_conflict) result = {};  // another process was faster, and its number stays
  const error_code code = result.code;
  deliver(to, event::created{a.id, std::move(result)}, code);
}

void link_impl::on(const end_link&, const sink&) {
  if (std::exchange(has_ended_, true)) return;
  client_->end_link(heartbeat_, terms_.name);
}

void link_impl::watch_alarms(const sink& to) {
  if (std::exchange(watches_alarms_, true)) return;
  client_->begin_link();
  const std::weak_ptr<broker_sink> weak = to;
  client_->on_blocked(weak, [weak](bool on) {
    if (const sink alive = weak.lock()) alive->deliver(event::blocked{on});
  });
  if (client_->is_blocked()) to->deliver(event::blocked{true});
}

}  // namespace holdfast::rabbitmq::detail
