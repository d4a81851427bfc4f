// SPDX-FileCopyrightText: The holdfast authors
// SPDX-License-Identifier: BSL-1.0

#include "server.hpp"

#include <algorithm>
#include <boost/asio/co_spawn.hpp>
#include <holdfast/error.hpp>
#include <utility>

#include "rabbitmq/rethrow.hpp"
#include "testing/context_thread.hpp"

namespace holdfast::testing {
namespace detail {
namespace {

using asio::ip::tcp;
using boost::system::error_code;

constexpr std::chrono::milliseconds accept_pause{20};  // after a failed accept
constexpr std::chrono::seconds handshake_time{10};
constexpr std::chrono::seconds closing_time{30};
constexpr unsigned silent_halves_max = 5;  // of a heartbeat's interval
constexpr std::uint16_t channel_max = 2047;
constexpr std::uint32_t frame_max = 131'072;

tcp::endpoint endpoint_of(const broker_options& options) {
  error_code ec;
  const auto host = asio::ip::make_address(options.host, ec);
  const bool is_possible = options.heartbeat.count() >= 0 && options.heartbeat.count() <= 0xFFFF;
  if (ec || !host.is_loopback())
    throw system_error(make_error_code(error::invalid_option),
                       "holdfast::testing listens on loopback addresses only, not on '" + options.host + "'");
  if (!is_possible) throw system_error(make_error_code(error::invalid_option), "heartbeat");
  return {host, options.port};
}

std::string_view queue_of(const amqp::method& what) {
  return std::visit(
      []<class Method>(const Method& method) -> std::string_view {
        if constexpr (requires { method.queue; }) return method.queue;
        if constexpr (requires { method.routing_key; }) return method.routing_key;
        return {};
      },
      what);
}

}  // namespace

class broker_impl::listed {
public:
  listed(broker_impl& owner, session& client)
      : owner_(owner), at_(owner.sessions_.insert(owner.sessions_.end(), &client)) {
    const std::lock_guard lock(owner_.mutex_);
    ++owner_.statistics_.connections;
  }
  ~listed() {
    owner_.sessions_.erase(at_);
    const std::lock_guard lock(owner_.mutex_);
    --owner_.statistics_.connections;
  }
  listed(const listed&) = delete;
  listed& operator=(const listed&) = delete;

private:
  broker_impl& owner_;
  const std::list<session*>::iterator at_;
};

// --- The listener. The mutex guards its socket, so that stop() and start() have taken effect when they return.

broker_impl::broker_impl(asio::any_io_executor executor, const broker_options& options)
    : context_hook(executor),
      options_(options),
      asked_(endpoint_of(options)),
      model_(options.virtual_host),
      strand_(platform::strand_type(std::move(executor))),
      accept_timer_(*strand_) {}

std::shared_ptr<void> broker_impl::on_context_shutdown() noexcept {
  acceptor_.reset();
  accept_timer_.reset();
  strand_.reset();
  return nullptr;
}

void broker_impl::open() {
  endpoint_ = asked_;
  const std::lock_guard lock(mutex_);
  acceptor_ = bind();
  endpoint_ = acceptor_->local_endpoint();
  listen();
}

broker_impl::acceptor_ptr broker_impl::bind() const {
  auto acceptor = std::make_shared<acceptor_type>(*strand_, endpoint_.protocol());
  acceptor->set_option(asio::socket_base::reuse_address(true));
  acceptor->bind(endpoint_);
  return acceptor;
}

void broker_impl::listen() {
  acceptor_->listen();
  listening_ = true;
  accept(acceptor_);
}

// Requires the mutex. Returns the number of the next run.
unsigned broker_impl::close_listener() {
  error_code ignored;
  if (acceptor_) acceptor_->close(ignored);
  acceptor_.reset();
  listening_ = false;
  return ++run_;
}

void broker_impl::stop(broker::ending how) {
  if (!strand_) return;
  unsigned next_run = 0;
  {
    const std::lock_guard lock(mutex_);
    if (!listening_) return;
    next_run = close_listener();
    model_.restart(how == broker::ending::stop, clock::now());
    acceptor_ = bind();
  }
  dispatch([self = shared_from_this(), next_run] {
    self->send_answers(nullptr);
    for (session* const each : self->sessions_)
      if (each->run < next_run && each->at != session::stage::closing) each->reset();
  });
}

void broker_impl::start() {
  if (!strand_) return;
  const std::lock_guard lock(mutex_);
  if (listening_) return;
  if (!acceptor_) acceptor_ = bind();
  listen();
}

void broker_impl::close() {
  {
    const std::lock_guard lock(mutex_);
    close_listener();
  }
  dispatch([self = shared_from_this()] {
    self->accept_timer_.reset();
    for (session* const each : self->sessions_) each->reset();
    for (timer_type* const each : self->late_) each->cancel();
  });
}

// Requires the mutex.
void broker_impl::accept(const acceptor_ptr& listener) {
  listener->async_accept([self = shared_from_this(), listener](const error_code& ec, broker_socket socket) {
    self->accepted(listener, ec, std::move(socket));
  });
}

void broker_impl::accepted(const acceptor_ptr& listener, const error_code& ec, broker_socket socket) {
  unsigned run = 0;
  {
    const std::lock_guard lock(mutex_);
    if (listener != acceptor_) return;
    if (ec) return pause_accepting(listener);
    accept(listener);
    ++statistics_.accepted;
    run = run_;
  }
  auto client = std::make_shared<session>(std::move(socket), run);
  asio::co_spawn(*strand_, serve(shared_from_this(), std::move(client)), amqp::rethrow);
}

// Requires the mutex.
void broker_impl::pause_accepting(const acceptor_ptr& listener) {
  accept_timer_->expires_after(accept_pause);
  accept_timer_->async_wait([self = shared_from_this(), listener](const error_code& ec) {
    const std::lock_guard lock(self->mutex_);
    if (!ec && listener == self->acceptor_) self->accept(listener);
  });
}

// --- One connection.

awaitable<void> broker_impl::serve(std::shared_ptr<broker_impl> self, session_ptr client) {
  const listed counted(*self, *client);
  client->limit(clock::now() + handshake_time);
  for (;;) {
    co_await self->pause(*client);
    if (client->is_over) break;
    if (self->advance(client)) continue;
    const bool is_there = co_await client->receive();
    if (!is_there) break;
  }
  co_await self->pause(*client);  // a broker that stands still does not notice the end, either
  client->is_over = true;
  client->stop_timers();
  self->ended(*client);
  if (client->is_graceful) co_await client->finish();
  client->reset();
}

bool broker_impl::stands_still(const session& client) const {
  const std::lock_guard lock(mutex_);
  return is_frozen_ || client.is_held || model_.is_blocked(client.id);
}

awaitable<void> broker_impl::pause(session& client) {
  while (!client.is_over) {
    const bool is_delayed = clock::now() < client.resumes_at;
    if (stands_still(client)) {
      co_await client.changed();
    } else if (is_delayed) {
      co_await client.changed(client.resumes_at);
    } else {
      co_return;
    }
  }
}

// Sends heartbeats twice in each interval. Ends the connection when no byte has come from the client for two and a half
// to three intervals. RabbitMQ does so after two to three. A blocked connection is not read, so it does not time out.
awaitable<void> broker_impl::beat(std::shared_ptr<broker_impl> self, session_ptr client) {
  const auto half = std::chrono::milliseconds(500 * client->heartbeat);
  std::uint64_t seen = 0;
  unsigned silent_halves = 0;
  while (!client->is_over) {
    client->beat_timer.expires_after(half);
    auto [ec] = co_await client->beat_timer.async_wait(as_result);
    if (ec || client->is_over) break;
    if (client->holds_writes) continue;
    client->beat();
    const bool is_silent = std::exchange(seen, client->bytes_received) == seen && !self->stands_still(*client);
    silent_halves = is_silent ? silent_halves + 1 : 0;
    if (silent_halves >= silent_halves_max) client->reset();
  }
}

// Returns false if there is nothing to do before more bytes come.
bool broker_impl::advance(const session_ptr& client) {
  if (client->delayed) {
    apply(client, *std::exchange(client->delayed, std::nullopt));
    return true;
  }
  if (client->at == session::stage::header) {
    bool is_amqp = false;
    if (!client->requests.take_protocol_header(is_amqp)) return false;
    if (is_amqp) {
      client->at = session::stage::start;
      client->say(0, amqp::connection_start{0, 9, {"holdfast::testing", "3.10.8"}, "PLAIN", "en_US"});
      client->flush();
    } else {
      client->refuse_protocol();
    }
    return true;
  }
  std::optional<client_request> request;
  std::optional<client_error> problem;
  if (!client->requests.parse(request, problem)) return false;
  if (problem) {
    refuse(*client, problem->code, problem->text);
    client->is_over = client->is_graceful = true;  // what comes next cannot be read
  }
  if (request) take(client, std::move(*request));
  return true;
}

void broker_impl::take(const session_ptr& client, client_request request) {
  {
    const std::lock_guard lock(mutex_);
    ++requests_[std::string(name_of(request.what))];
  }
  switch (client->at) {
    case session::stage::header:
    case session::stage::start:
    case session::stage::tune:
    case session::stage::open:
      return begin(client, request);
    case session::stage::running:
      return meet(client, std::move(request));
    case session::stage::closing:
      if (!std::holds_alternative<amqp::connection_close_ok>(request.what)) return;
      client->is_over = true;
      client->is_graceful = true;
      return;
  }
}

void broker_impl::begin(const session_ptr& client, const client_request& request) {
  const auto* const start = std::get_if<amqp::connection_start_ok>(&request.what);
  const auto* const tuned = std::get_if<amqp::connection_tune_ok>(&request.what);
  const auto* const opened = std::get_if<amqp::connection_open>(&request.what);
  if (client->at == session::stage::start && start) return log_in(*client, *start);
  if (client->at == session::stage::tune && tuned) return tune(client, *tuned);
  if (client->at == session::stage::open && opened) return open_session(*client, *opened);
  refuse(*client, 503, "the method is not expected");
}

// The response of PLAIN has three parts: for whom to act, user and password, with a zero byte before the latter two.
void broker_impl::log_in(session& client, const amqp::connection_start_ok& start) {
  const std::string_view response = start.response;
  const std::size_t user_at = response.find('\0');
  const std::size_t password_at = user_at == response.npos ? response.npos : response.find('\0', user_at + 1);
  bool is_right = start.mechanism == "PLAIN" && password_at != response.npos;
  if (is_right) {
    client.user = response.substr(user_at + 1, password_at - user_at - 1);
    const std::lock_guard lock(mutex_);
    is_right = !refuses_logins_ && model_.is_password_right(client.user, response.substr(password_at + 1));
  }
  if (!is_right)
    return refuse(client, 403,
                  "Login was refused using authentication mechanism " + start.mechanism +
                      ". For details see the broker logfile.");
  client.name = start.properties.connection_name.empty() ? client.peer() : start.properties.connection_name;
  client.at = session::stage::tune;
  client.say(0, amqp::connection_tune{channel_max, frame_max, static_cast<std::uint16_t>(options_.heartbeat.count())});
  client.flush();
}

void broker_impl::tune(const session_ptr& client, const amqp::connection_tune_ok& tune) {
  if (tune.channel_max == 0 || tune.channel_max > channel_max)
    return refuse(*client, 530, "negotiated channel_max is higher than the maximum allowed value");
  if (tune.frame_max == 0 || tune.frame_max > frame_max)
    return refuse(*client, 530, "negotiated frame_max is higher than the maximum allowed value");
  client->at = session::stage::open;
  client->requests.set_limits(tune.frame_max, tune.channel_max);
  client->set_frame_max(tune.frame_max);
  client->heartbeat = tune.heartbeat;
  if (tune.heartbeat != 0) asio::co_spawn(*strand_, beat(shared_from_this(), client), amqp::rethrow);
}

void broker_impl::open_session(session& client, const amqp::connection_open& open) {
  std::string refusal;
  {
    const std::lock_guard lock(mutex_);
    if (client.run != run_) return client.reset();
    refusal = model_.refusal_to_open(client.user, open.virtual_host);
    if (refusal.empty()) client.id = model_.connect(client.user, client.name);
  }
  if (!refusal.empty()) return refuse(client, 530, refusal);
  client.at = session::stage::running;
  client.unlimit();
  client.say(0, amqp::connection_open_ok{});
  client.flush();
}

// Closes the connection with connection.close, because of what the client has sent.
void broker_impl::refuse(session& client, std::uint16_t code, std::string_view text) {
  if (client.at == session::stage::closing) {
    client.is_over = true;
    return;
  }
  ended(client);
  client.at = session::stage::closing;
  client.limit(clock::now() + closing_time);
  client.say(0, amqp::connection_close{code, refusal_text(code, text)});
  client.flush();
}

// --- Requests.

broker_fault broker_impl::fault_for(const client_request& request) {
  const std::string_view name = name_of(request.what), queue = queue_of(request.what);
  const std::lock_guard lock(mutex_);
  ++statistics_.requests;
  for (counted_rule& each : rules_) {
    if (!each.rule.method.empty() && each.rule.method != name) continue;
    if (queue.find(each.rule.queue) == queue.npos) continue;
    if (each.seen++ < each.rule.skip) continue;
    if (each.rule.times != 0 && each.met >= each.rule.times) continue;
    ++each.met;
    ++statistics_.faults;
    return each.rule.what;
  }
  return {};
}

void broker_impl::meet(const session_ptr& client, client_request request) {
  using kind = broker_fault::kind;
  const broker_fault fault = fault_for(request);
  const bool is_message = std::holds_alternative<amqp::basic_publish>(request.what);
  switch (fault.what) {
    case kind::none:
      return apply(client, std::move(request));
    case kind::late:
      if (is_message) {
        request.content.routing_key = std::get<amqp::basic_publish>(request.what).routing_key;
        const time_point at = clock::now() + fault.time;
        asio::co_spawn(*strand_, deliver_late(shared_from_this(), std::move(request.content), at), amqp::rethrow);
        return;
      }
      [[fallthrough]];
    case kind::delay:
      client->resumes_at = clock::now() + fault.time;
      client->delayed = std::move(request);
      return;
    case kind::freeze:
      client->is_held = true;
      client->delayed = std::move(request);
      return;
    case kind::drop_request:
      return client->reset();
    case kind::drop_reply:
    case kind::cut_reply:
      send_answers(nullptr);
      client->begin_cut_reply(fault.what == kind::cut_reply ? session::kept::half : session::kept::none);
      return apply(client, std::move(request));
    case kind::close_channel:
      with([&](broker_model& model, time_point now) {
        model.refuse_channel(client->id, request.channel, fault.code, fault.text, now);
      });
      return;
    case kind::close_connection:
      return refuse(*client, fault.code, fault.text);
  }
}

void broker_impl::apply(const session_ptr& client, client_request request) {
  {
    const std::lock_guard lock(mutex_);
    model_.receive(client->id, request.channel, request.what, request.content, clock::now());
  }
  send_answers(client->reply_kept == session::kept::all ? nullptr : client.get());
}

awaitable<void> broker_impl::deliver_late(std::shared_ptr<broker_impl> self, broker_message message, time_point at) {
  timer_type timer(*self->strand_);
  const auto here = self->late_.insert(self->late_.end(), &timer);
  timer.expires_at(at);
  auto [ec] = co_await timer.async_wait(as_result);
  self->late_.erase(here);
  if (ec) co_return;
  self->with([&](broker_model& model, time_point now) { model.receive_late(message, now); });
}

// Sends what the model has answered. `cut` is the session whose replies a fault drops.
void broker_impl::send_answers(session* cut) {
  std::vector<broker_model::answer> answers;
  {
    const std::lock_guard lock(mutex_);
    answers = model_.take_answers();
  }
  for (const auto& each : answers) {
    const auto at = std::ranges::find_if(sessions_, [&](const session* s) { return s->id == each.to && s->id != 0; });
    if (at == sessions_.end()) continue;
    session& to = **at;
    if (to.is_over || to.at == session::stage::closing) continue;
    to.say(each.channel, each.what, each.content);
    if (std::holds_alternative<amqp::connection_close>(each.what)) {
      to.at = session::stage::closing;
      to.limit(clock::now() + closing_time);
      to.wake();
    } else if (std::holds_alternative<amqp::connection_close_ok>(each.what)) {
      to.is_over = to.is_graceful = true;
    } else if (std::holds_alternative<amqp::connection_unblocked>(each.what)) {
      to.wake();
    }
  }
  if (cut) cut->cut_reply();
  for (session* const each : sessions_) each->flush();
}

void broker_impl::ended(session& client) {
  if (client.id == 0) return;
  {
    const std::lock_guard lock(mutex_);
    model_.end(client.id, clock::now());
  }
  client.id = 0;
  send_answers(nullptr);
}

// --- The rest.

void broker_impl::set_faults(std::vector<broker_fault_rule> rules) {
  const std::lock_guard lock(mutex_);
  rules_.clear();
  for (broker_fault_rule& each : rules) rules_.push_back({std::move(each)});
}

broker_statistics broker_impl::statistics() const {
  const std::lock_guard lock(mutex_);
  return statistics_;
}

std::uint64_t broker_impl::requests(std::string_view method) const {
  const std::lock_guard lock(mutex_);
  const auto at = requests_.find(method);
  return at == requests_.end() ? 0 : at->second;
}

void broker_impl::refuse_logins(bool are_refused) {
  const std::lock_guard lock(mutex_);
  refuses_logins_ = are_refused;
}

void broker_impl::freeze() {
  {
    const std::lock_guard lock(mutex_);
    is_frozen_ = true;
  }
  dispatch([self = shared_from_this()] { self->follow_freeze(); });
}

void broker_impl::thaw() {
  {
    const std::lock_guard lock(mutex_);
    is_frozen_ = false;
  }
  dispatch([self = shared_from_this()] {
    for (session* const each : self->sessions_) each->is_held = false;
    self->follow_freeze();
  });
}

void broker_impl::follow_freeze() {
  bool is_frozen = false;
  {
    const std::lock_guard lock(mutex_);
    is_frozen = is_frozen_;
  }
  for (session* const each : sessions_) {
    each->holds_writes = is_frozen;
    if (is_frozen) continue;
    each->flush();
    each->wake();
  }
}

void broker_impl::cut() {
  dispatch([self = shared_from_this()] {
    for (session* const each : self->sessions_) each->reset();
  });
}

namespace {

queue_status status_of(broker_queue&& queue) {
  return {std::move(queue.name), queue.is_exclusive,   std::move(queue.owner),
          queue.ready,           queue.unacknowledged, queue.consumers};
}

}  // namespace
}  // namespace detail

broker::broker(broker_options options) : broker(asio::any_io_executor(), std::move(options)) {}

broker::broker(asio::any_io_executor executor, broker_options options)
    : thread_(executor ? nullptr : std::make_unique<detail::context_thread>()),
      impl_(std::make_shared<detail::broker_impl>(thread_ ? thread_->executor() : std::move(executor), options)) {
  impl_->open();
}

broker::~broker() {
  impl_->close();
  thread_.reset();  // first, because the context notifies `impl_` when it is destroyed
}

std::string broker::address() const {
  const auto& endpoint = impl_->endpoint();
  const std::string host = endpoint.address().to_string();
  return (endpoint.address().is_v6() ? '[' + host + ']' : host) + ':' + std::to_string(endpoint.port());
}

std::string broker::url() const {
  const std::string& virtual_host = impl_->options().virtual_host;
  return "amqp://guest:guest@" + address() + '/' + (virtual_host == "/" ? "%2F" : virtual_host);
}

broker_statistics broker::statistics() const { return impl_->statistics(); }
std::uint64_t broker::requests(std::string_view method) const { return impl_->requests(method); }

std::vector<queue_status> broker::queues() const {
  std::vector<queue_status> all;
  auto found = impl_->with([](detail::broker_model& model, auto now) { return model.queues(now); });
  all.reserve(found.size());
  for (auto& each : found) all.push_back(detail::status_of(std::move(each)));
  return all;
}

std::optional<queue_status> broker::queue(std::string_view name) const {
  auto found = impl_->with([&](detail::broker_model& model, auto now) { return model.queue(std::string(name), now); });
  if (!found) return std::nullopt;
  return detail::status_of(std::move(*found));
}

void broker::set_faults(std::vector<broker_fault_rule> rules) { impl_->set_faults(std::move(rules)); }
void broker::freeze() { impl_->freeze(); }
void broker::thaw() { impl_->thaw(); }
void broker::cut() { impl_->cut(); }
void broker::stop(ending how) { impl_->stop(how); }
void broker::start() { impl_->start(); }
void broker::refuse_logins(bool are_refused) { impl_->refuse_logins(are_refused); }

void broker::set_alarm(bool is_on) {
  impl_->with([&](detail::broker_model& model, auto now) { model.set_alarm(is_on, now); });
}

std::size_t broker::close_connection(std::string_view name, std::string_view reason) {
  return impl_->with([&](detail::broker_model& model, auto now) { return model.force_close(name, reason, now); });
}

bool broker::close_owner(std::string_view queue, std::string_view reason) {
  return impl_->with(
      [&](detail::broker_model& model, auto now) { return model.force_close_owner(std::string(queue), reason, now); });
}

bool broker::delete_queue(std::string_view name) {
  return impl_->with([&](detail::broker_model& model, auto) { return model.delete_queue(std::string(name)); });
}

void broker::set_user(const std::string& name, std::string password) {
  impl_->with([&](detail::broker_model& model, auto) { model.set_user(name, std::move(password)); });
}

void broker::set_rights(const std::string& name, user_rights rights) {
  impl_->with([&](detail::broker_model& model, auto) {
    model.set_rights(name, {std::move(rights.configure), std::move(rights.write), std::move(rights.read)});
  });
}

void broker::delete_user(const std::string& name) {
  impl_->with([&](detail::broker_model& model, auto now) { model.delete_user(name, now); });
}

}  // namespace holdfast::testing
