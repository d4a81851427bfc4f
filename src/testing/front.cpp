// SPDX-FileCopyrightText: The holdfast authors
// SPDX-License-Identifier: BSL-1.0

#include "front.hpp"

#include <boost/asio/co_spawn.hpp>
#include <holdfast/error.hpp>
#include <utility>

#include "testing/context_thread.hpp"

namespace holdfast::testing {
namespace detail {
namespace {

using asio::ip::tcp;
using boost::system::error_code;

// The pause after a failed accept, for example when file descriptors are exhausted.
constexpr std::chrono::milliseconds accept_pause{20};

tcp::endpoint endpoint_of(const server_options& options) {
  error_code ec;
  const auto host = asio::ip::make_address(options.host, ec);
  if (ec || !host.is_loopback())
    throw system_error(make_error_code(error::invalid_option),
                       "holdfast::testing listens on loopback addresses only, not on '" + options.host + "'");
  return {host, options.port};
}

// An exception means a bug or a lack of memory. It leaves through io_context::run(), as from any handler.
void rethrow(const std::exception_ptr& failure) {
  if (failure) std::rethrow_exception(failure);
}

void reset(socket_type& socket) {
  error_code ignored;
  socket.set_option(asio::socket_base::linger(true, 0), ignored);
  socket.close(ignored);
}

}  // namespace

class front_impl::listed {
public:
  listed(front_impl& front, connection_list& list, std::size_t server_statistics::*level, connection& client)
      : front_(front), list_(list), level_(level), at_(list.insert(list.end(), &client)) {
    const std::lock_guard lock(front_.mutex_);
    ++(front_.statistics_.*level_);
  }
  ~listed() {
    list_.erase(at_);
    const std::lock_guard lock(front_.mutex_);
    --(front_.statistics_.*level_);
  }
  listed(const listed&) = delete;
  listed& operator=(const listed&) = delete;

private:
  front_impl& front_;
  connection_list& list_;
  std::size_t server_statistics::*const level_;
  const connection_list::iterator at_;
};

front_impl::blocked_mark::blocked_mark(front_impl& front, connection& client) : front_(front), client_(client) {
  client_.blocked = true;
  const std::lock_guard lock(front_.mutex_);
  ++front_.statistics_.blocked;
}

front_impl::blocked_mark::~blocked_mark() {
  client_.blocked = false;
  const std::lock_guard lock(front_.mutex_);
  --front_.statistics_.blocked;
}

// --- The listener. The mutex guards its socket, so that stop() and start() have taken effect when they return.

front_impl::front_impl(asio::any_io_executor executor, const server_options& options)
    : context_hook(executor),
      asked_(endpoint_of(options)),
      connections_max_(options.connections_max),
      strand_(platform::strand_type(std::move(executor))),
      accept_timer_(*strand_) {}

std::shared_ptr<void> front_impl::on_context_shutdown() noexcept {
  if (backend_) backend_->release();
  acceptor_.reset();
  accept_timer_.reset();
  strand_.reset();
  return nullptr;
}

void front_impl::open(std::shared_ptr<backend> behind) {
  backend_ = std::move(behind);
  endpoint_ = asked_;
  const std::lock_guard lock(mutex_);
  acceptor_ = bind();
  endpoint_ = acceptor_->local_endpoint();
  listen();
}

front_impl::acceptor_ptr front_impl::bind() const {
  auto acceptor = std::make_shared<acceptor_type>(*strand_, endpoint_.protocol());
  acceptor->set_option(asio::socket_base::reuse_address(true));
  acceptor->bind(endpoint_);
  return acceptor;
}

void front_impl::listen() {
  acceptor_->listen();
  listening_ = true;
  accept(acceptor_);
}

// Requires the mutex. Returns the number of the next run.
unsigned front_impl::close_listener() {
  error_code ignored;
  if (acceptor_) acceptor_->close(ignored);
  acceptor_.reset();
  listening_ = false;
  return ++run_;
}

void front_impl::stop() {
  if (!strand_) return;
  unsigned next_run = 0;
  {
    const std::lock_guard lock(mutex_);
    if (!listening_) return;
    next_run = close_listener();
    // A socket that is bound but does not listen refuses connections, and keeps the port reserved.
    acceptor_ = bind();
  }
  dispatch([self = shared_from_this(), next_run] {
    for (connection* const each : self->connections_)
      if (each->run < next_run) each->drop();
  });
}

void front_impl::start() {
  if (!strand_) return;
  const std::lock_guard lock(mutex_);
  if (listening_) return;
  if (!acceptor_) acceptor_ = bind();
  listen();
}

void front_impl::close() {
  {
    const std::lock_guard lock(mutex_);
    close_listener();
  }
  dispatch([self = shared_from_this()] {
    if (self->backend_) self->backend_->release();
    self->accept_timer_.reset();
    for (connection* const each : self->connections_) each->drop();
  });
}

// Requires the mutex.
void front_impl::accept(const acceptor_ptr& listener) {
  listener->async_accept([self = shared_from_this(), listener](const error_code& ec, socket_type socket) {
    self->accepted(listener, ec, std::move(socket));
  });
}

void front_impl::accepted(const acceptor_ptr& listener, const error_code& ec, socket_type socket) {
  bool refused = false;
  unsigned run = 0;
  {
    const std::lock_guard lock(mutex_);
    if (listener != acceptor_) return ec ? void() : reset(socket);
    if (ec) return pause_accepting(listener);
    accept(listener);
    ++statistics_.accepted;
    if (to_refuse_ > 0) {
      --to_refuse_;
      refused = true;
    }
    run = run_;
  }
  if (refused || is_one_too_many(socket)) return reset(socket);
  auto client = std::make_shared<connection>(std::move(socket), backend_->body_bytes_max(), run);
  asio::co_spawn(*strand_, serve(shared_from_this(), std::move(client)), rethrow);
}

// Requires the mutex.
void front_impl::pause_accepting(const acceptor_ptr& listener) {
  accept_timer_->expires_after(accept_pause);
  accept_timer_->async_wait([self = shared_from_this(), listener](const error_code& ec) {
    const std::lock_guard lock(self->mutex_);
    if (!ec && listener == self->acceptor_) self->accept(listener);
  });
}

bool front_impl::is_one_too_many(const socket_type& socket) const {
  if (connections_max_ == 0) return false;
  error_code ignored;
  const auto peer = socket.remote_endpoint(ignored).address();
  std::size_t from_there = 0;
  for (const connection* const each : connections_) from_there += each->peer() == peer;
  return from_there >= connections_max_;
}

// --- One connection.

awaitable<void> front_impl::serve(std::shared_ptr<front_impl> self, std::shared_ptr<connection> client) {
  const listed counted(*self, self->connections_, &server_statistics::connections, *client);
  client->behind = self->backend_->open(*client);
  bool more = true;
  while (more) more = co_await self->serve_one(*client);
  co_await client->finish();
}

awaitable<bool> front_impl::serve_one(connection& client) {
  const parse_state read = co_await next_request(client);
  if (read == parse_state::incomplete) co_return false;
  if (read != parse_state::complete) {
    const std::string refusal = format_reply(refusal_of(read, backend_->body_bytes_max()), false);
    co_await client.send(refusal);
    co_return false;
  }
  http_request request = client.requests.take();
  const fault_steps how = meet(request.call);
  if (how.names_other_key) name_other_key(request.call.target);
  std::optional<api_reply> reply = co_await apply(client, request, how);
  if (!reply && client.overdue) co_return false;
  if (!reply || how.reply == fault_steps::delivery::none) {
    client.reset();
    co_return false;
  }
  if (how.resets_index) reset_index(*reply);
  std::string bytes = format_reply(*reply, request.keep_alive, request.call.method != "HEAD");
  const bool delivered = co_await deliver(client, std::move(bytes), how);
  if (how.copy_after && !client.dropped) {
    auto nobody = std::make_shared<connection>(socket_type(*strand_), backend_->body_bytes_max(), client.run);
    asio::co_spawn(*strand_, apply_copy(shared_from_this(), std::move(nobody), request, *how.copy_after), rethrow);
  }
  const bool more = delivered && request.keep_alive;
  co_return more;
}

// Returns `incomplete` if there is no further request because the client has gone.
awaitable<parse_state> front_impl::next_request(connection& client) {
  for (;;) {
    const parse_state state = client.requests.parse();
    client.receive();
    if (client.dropped) co_return parse_state::incomplete;
    if (state != parse_state::incomplete || client.gone) co_return state;
    co_await client.changed();
  }
}

fault_steps front_impl::meet(const api_request& request) {
  const std::lock_guard lock(mutex_);
  ++statistics_.requests;
  const fault what = plan_.next(request.method + ' ' + request.target, request.body);
  if (what.what != fault::kind::none) ++statistics_.faults;
  const fault_steps how = steps_of(what);
  to_refuse_ += how.refuses;
  return how;
}

awaitable<std::optional<api_reply>> front_impl::apply(connection& client, const http_request& request,
                                                      const fault_steps& how) {
  const time_point due = clock::now() + how.delay;
  while (!client.dropped && clock::now() < due) co_await client.changed(due);
  co_await pass_freeze(client, how.held);
  if (how.ends_session && !client.dropped) {
    std::optional<std::string> id = session_named(request.call);
    if (id) co_await client.behind->end_session(std::move(*id));
  }
  std::optional<api_reply> reply = how.instead;
  for (unsigned i = 0; i < how.applications; ++i) {
    if (client.dropped) co_return std::nullopt;
    std::optional<api_reply> made = co_await client.behind->perform(request);
    if (client.interruption) made = std::exchange(client.interruption, std::nullopt);
    if (!made) co_return std::nullopt;
    if (!how.instead) reply = std::move(made);
  }
  co_await pass_freeze(client, false);
  if (client.dropped) co_return std::nullopt;
  co_return reply;
}

// Applies the request as if another client had sent it.
awaitable<void> front_impl::apply_copy(std::shared_ptr<front_impl> self, std::shared_ptr<connection> nobody,
                                       http_request request, std::chrono::milliseconds after) {
  const listed counted(*self, self->connections_, &server_statistics::connections, *nobody);
  nobody->behind = self->backend_->open(*nobody);
  const fault_steps how{.delay = after};
  const std::optional<api_reply> unseen = co_await self->apply(*nobody, request, how);
}

awaitable<bool> front_impl::deliver(connection& client, std::string bytes, const fault_steps& how) {
  using delivery = fault_steps::delivery;
  for (const unsigned status : how.interim) {
    const std::string interim = format_interim(status);
    const bool sent = co_await client.send(interim);
    if (!sent) co_return false;
  }
  switch (how.reply) {
    case delivery::byte_by_byte:
      for (const char& byte : bytes) {
        const bool sent = co_await client.send(std::string_view(&byte, 1));
        if (!sent) co_return false;
        const time_point next = clock::now() + how.between;
        while (!client.dropped && clock::now() < next) co_await client.changed(next);
      }
      co_return true;
    case delivery::half:
      bytes.resize(bytes.size() / 2);
      break;
    case delivery::none:
    case delivery::whole:
      break;
  }
  const bool sent = co_await client.send(bytes);
  const bool all = sent && how.reply == delivery::whole;
  co_return all;
}

// --- Freezing. Requests and replies wait in one queue. After thaw() they continue one after the other: each wakes the
// next. New requests and replies join the queue until it is empty, so that they do not overtake the held ones.

bool front_impl::is_held_back(bool held) const {
  const std::lock_guard lock(mutex_);
  return held || mode_ != mode::running;
}

awaitable<void> front_impl::pass_freeze(connection& client, bool held) {
  if (client.dropped || !is_held_back(held)) co_return;
  {
    const listed counted(*this, held_, &server_statistics::frozen, client);
    client.held = true;
    while (client.held && !client.dropped) co_await client.changed();
  }
  if (!std::exchange(client.held, false)) release_next();
}

void front_impl::release_next() {
  connection* next = nullptr;
  {
    const std::lock_guard lock(mutex_);
    if (mode_ == mode::frozen) return;
    if (held_.empty()) {
      mode_ = mode::running;
      return;
    }
    next = held_.front();
  }
  next->held = false;
  next->wake();
}

void front_impl::freeze() {
  const std::lock_guard lock(mutex_);
  mode_ = mode::frozen;
}

void front_impl::thaw() {
  {
    const std::lock_guard lock(mutex_);
    if (mode_ != mode::frozen && statistics_.frozen == 0) return;
    mode_ = mode::thawing;
  }
  dispatch([self = shared_from_this()] { self->release_next(); });
}

// --- The rest.

void front_impl::set_faults(fault_plan plan) {
  const std::lock_guard lock(mutex_);
  plan_ = std::move(plan);
}

server_statistics front_impl::statistics() const {
  const std::lock_guard lock(mutex_);
  return statistics_;
}

void front_impl::cut() {
  dispatch([self = shared_from_this()] {
    for (connection* const each : self->connections_) each->reset();
  });
}

void front_impl::answer_blocked(api_reply reply) {
  dispatch([self = shared_from_this(), reply = std::move(reply)] {
    for (connection* const each : self->connections_) {
      if (!each->blocked) continue;
      {
        const std::lock_guard lock(self->mutex_);
        ++self->statistics_.faults;
      }
      each->interruption = reply;
      each->behind->abandon();
      each->wake();
    }
  });
}

}  // namespace detail

front::front(asio::any_io_executor executor, const server_options& options)
    : thread_(executor ? nullptr : std::make_unique<detail::context_thread>()),
      impl_(std::make_shared<detail::front_impl>(thread_ ? thread_->executor() : std::move(executor), options)) {}

front::~front() {
  impl_->close();
  thread_.reset();  // first, because the context notifies `impl_` when it is destroyed
}

std::string front::address() const {
  const auto& endpoint = impl_->endpoint();
  const std::string host = endpoint.address().to_string();
  return (endpoint.address().is_v6() ? '[' + host + ']' : host) + ':' + std::to_string(endpoint.port());
}

consul::config front::client_config() const {
  consul::config settings;
  settings.address = address();
  return settings;
}

server_statistics front::statistics() const { return impl_->statistics(); }
void front::set_faults(fault_plan plan) { impl_->set_faults(std::move(plan)); }
void front::freeze() { impl_->freeze(); }
void front::thaw() { impl_->thaw(); }
void front::cut() { impl_->cut(); }
void front::stop() { impl_->stop(); }
void front::start() { impl_->start(); }

void front::answer_blocked(unsigned status, std::string text) {
  impl_->answer_blocked({status, {{"Content-Type", "text/plain; charset=utf-8"}}, std::move(text)});
}

}  // namespace holdfast::testing
