// SPDX-FileCopyrightText: The holdfast authors
// SPDX-License-Identifier: BSL-1.0

#include "rabbitmq/client_impl.hpp"

#include <algorithm>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/ip/host_name.hpp>
#include <boost/asio/post.hpp>

#include "platform/process_id.hpp"
#include "rabbitmq/config_check.hpp"
#include "rabbitmq/queues.hpp"
#include "rabbitmq/rethrow.hpp"

namespace holdfast::rabbitmq::detail {
namespace {

using net::as_result;
using net::clock;

// An address that drops all packets must not use up the time that the addresses behind it need.
constexpr std::chrono::milliseconds candidate_time_min{200};

failure closed() { return failed(error::closed, "the client was closed"); }

bool is_tls(const broker_address& address) { return address.is_tls; }

/// Returns `holdfast HOST:PID NAME`, by which an operator finds the process.
std::string connection_name(const std::string& label) {
  error_code ec;
  const std::string host = asio::ip::host_name(ec);
  std::string text = "holdfast " + (ec ? "?" : host) + ':' + platform::process_id();
  if (!label.empty()) text += ' ' + label;
  return text;
}

}  // namespace

client_impl::client_impl(asio::any_io_executor executor, config settings)
    : context_hook(executor),
      executor_(std::move(executor)),
      settings_(std::move(settings)),
      addresses_(check(settings_)),
      name_("RabbitMQ at " + addresses_.front().to_string()),
      strand_(platform::strand_type(executor_)),
      erased_strand_(*strand_),
      log_(lifetime::event_log::make(erased_strand_, settings_.log)),
      logins_(settings_),
      tls_(net::make_tls_client(
          settings_.tls, [this](log_event&& event) { tell(std::move(event)); },
          std::any_of(addresses_.begin(), addresses_.end(), is_tls))),
      names_(*strand_, owner_),
      random_(std::random_device{}()),
      all_(std::make_shared<std::vector<std::shared_ptr<connection>>>()) {
  counters_->tracer = settings_.tracer;
}

std::shared_ptr<client_impl> client_impl::make(asio::any_io_executor executor, config settings) {
  auto made = lifetime::make_hooked<client_impl>(std::move(executor), std::move(settings));
  made->owner_ = made;
  return made;
}

std::shared_ptr<void> client_impl::on_context_shutdown() noexcept {
  is_closed_ = true;
  names_.close();
  for (const auto& each : *all_) each->release();
  idle_.clear();
  counters_->connections_open.set(0);
  erased_strand_ = {};
  strand_.reset();
  executor_ = {};
  all_->push_back(std::move(probes_));
  return std::move(all_);
}

void client_impl::tell(log_event&& event) const {
  if (log_) log_->add(std::move(event));
}

broker_statistics client_impl::statistics() const {
  broker_statistics now;
  if (process().is_foreign()) return now;
  now.requests_ok = counters_->requests_ok.read();
  now.requests_refused = counters_->requests_refused.read();
  now.requests_failed = counters_->requests_failed.read();
  now.connections_opened = counters_->connections_opened.read();
  now.connections_failed = counters_->connections_failed.read();
  now.connections_open = counters_->connections_open.read();
  now.has_alarm = counters_->alarms.read() != 0;
  const std::lock_guard lock(counters_->mutex);
  now.address = counters_->address;
  return now;
}

void client_impl::close() {
  if (process().is_foreign() || !strand_) return;
  asio::post(*strand_, [self = shared_from_this()] {
    self->is_closed_ = true;
    self->names_.close();
    const auto all = *self->all_;
    for (const auto& each : all) each->close(closed());
    if (self->log_) self->log_->flush();
  });
}

// --- Connections.

awaitable<opened> client_impl::connect(std::uint16_t heartbeat, std::string label, time_point until) {
  const std::shared_ptr<client_impl> self = shared_from_this();
  const time_point deadline = std::min(until, clock::now() + settings_.connect_timeout);
  opened result;
  result.error = failed(error::unreachable, "no address has been tried");
  const std::size_t first = preferred_;
  for (std::size_t i = 0; i != addresses_.size(); ++i) {
    if (is_closed_) {
      result.error = closed();
      co_return result;
    }
    const time_point now = clock::now();
    if (now >= deadline) break;
    const auto left = static_cast<clock::rep>(addresses_.size() - i);
    const clock::duration part = std::max<clock::duration>((deadline - now) / left, candidate_time_min);
    const std::size_t address = (first + i) % addresses_.size();
    opened next = co_await connect_to(address, heartbeat, label, std::min(now + part, deadline));
    if (next.link) preferred_ = address;
    result = std::move(next);
    if (result.link || result.error.code == error::permission_denied) break;
  }
  co_return result;
}

awaitable<opened> client_impl::connect_to(std::size_t address, std::uint16_t heartbeat, std::string label,
                                          time_point deadline) {
  const std::shared_ptr<client_impl> self = shared_from_this();
  const broker_address& to = addresses_[address];
  opened result;
  net::resolution found = co_await names_.find(to, deadline);
  result.error = failed(error::unreachable, found.error ? found.error.message() : "the name has no address");
  auto left = static_cast<clock::rep>(found.endpoints.size());
  for (const auto& candidate : found.endpoints) {
    const time_point now = clock::now();
    if (is_closed_ || now >= deadline) break;
    const clock::duration part = std::max<clock::duration>((deadline - now) / left--, candidate_time_min);
    dialogue::terms terms;
    terms.how = logins_.get(
        to, [this](std::string why) { tell({.kind = log_kind::password_unusable, .cause = std::move(why)}); });
    terms.connection_name = connection_name(label);
    terms.virtual_host = to.virtual_host;
    terms.heartbeat = heartbeat;
    const auto link = std::make_shared<connection>(*strand_, std::move(terms), counters_);
    all_->push_back(link);
    counters_->connections_open.set(all_->size());
    net::tls_client* const tls = to.is_tls ? tls_.get() : nullptr;
    net::address door = static_cast<const net::address&>(to);
    dialogue::listener told = listen_to(link);
    const time_point until = std::min(now + part, deadline);
    failure refused = co_await link->open(self, candidate, std::move(door), tls, until, std::move(told));
    if (!refused.code) {
      counters_->connections_opened.add();
      const std::lock_guard lock(counters_->mutex);
      counters_->address = to.to_string();
      result.link = link;
      result.error = {};
      break;
    }
    counters_->connections_failed.add();
    ended(link.get(), false);
    result.error = std::move(refused);
    if (result.error.code == error::permission_denied) break;
  }
  if (result.link && is_closed_) {
    result.link->close();
    result.link.reset();
    result.error = closed();
  }
  result.error.details.server_message = logins_.without_secrets(result.error.details.server_message, to);
  if (!result.link) result.error.details.message += " (" + to.to_string() + ')';
  co_return result;
}

dialogue::listener client_impl::listen_to(const std::shared_ptr<connection>& link) {
  dialogue::listener told;
  const auto is_blocked = std::make_shared<bool>(false);
  told.blocked = [weak = weak_from_this(), is_blocked](bool on) {
    *is_blocked = on;
    if (const auto self = weak.lock()) self->change_blocked(on ? 1 : -1, true);
  };
  told.ended = [weak = weak_from_this(), is_blocked, its = link.get()](const failure&) {
    if (const auto self = weak.lock()) self->ended(its, *is_blocked);
  };
  return told;
}

void client_impl::ended(const connection* link, bool was_blocked) {
  if (!strand_) return;
  if (probes_.get() == link) {
    probes_.reset();
    no_probes_ = failed(error::connection_lost, "the connection has ended");
  }
  std::erase_if(idle_, [link](const idle_connection& each) {
    const auto its = each.link.lock();
    return !its || its.get() == link;
  });
  const auto at = std::find_if(all_->begin(), all_->end(), [link](const auto& each) { return each.get() == link; });
  if (at != all_->end()) all_->erase(at);
  counters_->connections_open.set(all_->size());
  if (was_blocked) asio::co_spawn(*strand_, ask_about_alarm(shared_from_this()), rethrow);
}

std::shared_ptr<connection> client_impl::take_idle(std::uint16_t heartbeat, const std::string& label) {
  while (true) {
    const auto at = std::find_if(idle_.rbegin(), idle_.rend(), [&](const idle_connection& each) {
      return each.heartbeat == heartbeat && each.label == label;
    });
    if (at == idle_.rend()) return nullptr;
    std::shared_ptr<connection> link = at->link.lock();
    idle_.erase(std::next(at).base());
    if (!link || !link->is_open() || link->is_blocked()) continue;
    link->keep_until(time_point::max());
    return link;
  }
}

void client_impl::keep(const std::shared_ptr<connection>& link, std::uint16_t heartbeat, const std::string& label,
                       clock::duration time) {
  link->set_user(connection::first_channel, {});
  if (is_closed_ || link->is_blocked()) return link->close();
  idle_.push_back({link, heartbeat, label});
  link->keep_until(clock::now() + time);
}

// --- The connection for probes.

awaitable<opened> client_impl::probes() {
  const std::shared_ptr<client_impl> self = shared_from_this();
  if (!probes_ || !probes_->is_open()) {
    if (!opens_probes_) {
      opens_probes_ = true;
      asio::co_spawn(*strand_, open_probes(self), rethrow);
    }
    if (opens_probes_) {  // otherwise it has failed at once
      net::waiter one(*strand_, time_point::max());
      await_probes_.push_back(one);
      co_await one.timer.async_wait(as_result);
    }
  }
  opened result;
  result.link = probes_;
  if (probes_) {
    probes_->keep_until(time_point::max());
  } else {
    result.error = no_probes_;
  }
  co_return result;
}

awaitable<void> client_impl::open_probes(std::shared_ptr<client_impl> self) {
  opened result = co_await self->connect(probes_heartbeat, std::string());
  self->probes_ = result.link;
  self->no_probes_ = std::move(result.error);
  self->opens_probes_ = false;
  net::wake_all(self->await_probes_);
}

void client_impl::end_listening(clock::duration idle_time) {
  --listeners_;
  rest_probes(idle_time);
}

void client_impl::rest_probes(clock::duration idle_time) {
  if (!probes_ || listeners_ != 0) return;
  const std::shared_ptr<connection> link = probes_;  // to close it may reset the member
  if (links_ == 0) return link->close();
  link->keep_until(clock::now() + idle_time);
}

void client_impl::end_link(std::uint16_t heartbeat, const std::string& label) {
  --links_;
  const auto all = idle_;  // to close a connection removes it from the member
  for (const idle_connection& each : all) {
    const std::shared_ptr<connection> link = each.link.lock();
    if (link && each.heartbeat == heartbeat && each.label == label) link->close();
  }
  if (links_ == 0) rest_probes({});
}

// --- Alarms.

/// `is_news`: the broker has said so. Otherwise a connection has ended on which it had said that it was blocked, and
/// nobody can be asked.
void client_impl::change_blocked(int by, bool is_news) {
  const bool before = is_blocked();
  blocked_ += by;
  if (is_blocked() == before) return;
  counters_->alarms.set(before ? 0 : 1);
  if (is_news) tell({.kind = before ? log_kind::broker_alarm_over : log_kind::broker_alarm});
  std::erase_if(observers_, [](const observer& each) { return each.owner.expired(); });
  const auto all = observers_;
  for (const observer& each : all)
    if (const auto alive = each.owner.lock()) each.then(!before);
}

/// Finds out whether the alarm goes on, after the end of a connection that the broker had blocked. That connection
/// counts as blocked until then. This publishes on the connection for probes. In an alarm, the broker blocks that
/// connection, too, and answers after the alarm.
awaitable<void> client_impl::ask_about_alarm(std::shared_ptr<client_impl> self) {
  opened found = co_await self->probes();
  if (self->witness_.lock() != found.link) {
    self->witness_ = found.link;
    self->witness_channel_ = found.link ? found.link->open_channel(true, {}) : std::uint16_t{0};
  }
  if (!found.link || self->witness_channel_ == 0) {
    self->change_blocked(-1, false);
    co_return;
  }
  steps question{queues::probe(std::string())};  // a queue that does not exist
  found.link->ask(self->witness_channel_, std::move(question), clock::now() + self->settings_.request_timeout,
                  [self](reply&& answer) {
                    self->rest_probes(witness_idle_time);
                    self->change_blocked(-1, !answer.error.code);
                  });
}

void client_impl::on_blocked(std::weak_ptr<void> owner, std::function<void(bool)> then) {
  observers_.push_back({std::move(owner), std::move(then)});
}

}  // namespace holdfast::rabbitmq::detail
