// SPDX-FileCopyrightText: The holdfast authors
// SPDX-License-Identifier: BSL-1.0

#include "consul/client_impl.hpp"

#include <algorithm>
#include <boost/asio/bind_cancellation_slot.hpp>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/deferred.hpp>
#include <boost/asio/error.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/this_coro.hpp>
#include <boost/system/errc.hpp>
#include <new>

#include "consul/config_check.hpp"
#include "consul/encoding/classify.hpp"
#include "consul/encoding/reply.hpp"
#include "net/backoff.hpp"

namespace holdfast::consul::detail {
namespace {

// If the connection of a blocking query is closed without a reply, and the query was begun at least this long before,
// the client assumes that the agent had accepted the query.
constexpr std::chrono::seconds cut_after{1};

request_outcome outcome_of(const error_code& ended) {
  if (!ended) return request_outcome::ok;
  if (ended == asio::error::operation_aborted) return request_outcome::cancelled;
  const bool failed = ended == condition::unavailable || ended == condition::outcome_unknown;
  return failed ? request_outcome::failed : request_outcome::refused;
}

// Keeps an operation in the list of operations that close() cancels: until its last attempt has ended, or until the
// coroutine's frame is destroyed.
class registration {
public:
  registration(boost::intrusive::list<operation>& list, operation& op) : list_(list), op_(op) { list.push_back(op); }
  ~registration() { list_.erase(list_.iterator_to(op_)); }
  registration(const registration&) = delete;
  registration& operator=(const registration&) = delete;

private:
  boost::intrusive::list<operation>& list_;
  operation& op_;
};

}  // namespace

void operation::cancel(const error_code& reason) {
  if (cancelled_) return;
  cancelled_ = reason;
  signal_.emit(asio::cancellation_type::terminal);
}

client_impl::client_impl(asio::any_io_executor executor, config settings)
    : context_hook(executor),
      executor_(std::move(executor)),
      settings_(std::move(settings)),
      addresses_(check(settings_)),
      address_text_(addresses_.front().to_string()),
      calls_(settings_),
      health_(address_text_),
      strand_(platform::strand_type(executor_)),
      erased_strand_(*strand_),
      log_(lifetime::event_log::make(erased_strand_, settings_.log)),
      transport_(*strand_, settings_, addresses_, counters_, health_, log_),
      random_(std::random_device{}()) {}

std::shared_ptr<client_impl> client_impl::make(asio::any_io_executor executor, config settings) {
  auto made = lifetime::make_hooked<client_impl>(std::move(executor), std::move(settings));
  made->transport_.owned_by(made);
  return made;
}

std::shared_ptr<void> client_impl::on_context_shutdown() noexcept {
  transport_.close();
  erased_strand_ = {};
  strand_.reset();
  executor_ = {};
  return nullptr;
}

void client_impl::start(const std::shared_ptr<operation>& op) {
  if (process().is_foreign()) return;
  if (settings_.tracer) {
    const call& what = op->what();
    op->span = settings_.tracer->started({.kind = span_kind::request,
                                          .name = to_string(what.request.kind),
                                          .key = what.key,
                                          .at = std::chrono::system_clock::now(),
                                          .parent = what.trace_parent});
  }
  // The coroutine starts in this call if this thread runs the strand, or runs the context while the strand is free. The
  // completion handler owns the operation, because it is destroyed last and the coroutine uses the slot to its end. An
  // exception comes from a handler that was called on the strand, or is a bug or a lack of memory. It leaves through
  // io_context::run(), as from any handler.
  asio::co_spawn(*strand_, perform(*op),
                 asio::bind_cancellation_slot(op->slot(), [op](const std::exception_ptr& failure) {
                   if (failure) std::rethrow_exception(failure);
                 }));
  op->leave();
}

void client_impl::request_cancel(std::shared_ptr<operation> op) {
  if (process().is_foreign() || !strand_) return;
  asio::post(*strand_, [op = std::move(op)] { op->cancel(asio::error::operation_aborted); });
}

void client_impl::close() {
  if (process().is_foreign() || !strand_) return;
  asio::post(*strand_, [self = shared_from_this()] {
    self->closed_ = true;
    self->transport_.close();
    if (self->log_) self->log_->flush();
    for (operation& op : self->running_) op.cancel(error::closed);
  });
}

client_statistics client_impl::statistics() const noexcept {
  const auto read = [](const std::atomic<std::uint64_t>& c) { return c.load(std::memory_order_relaxed); };
  client_statistics s;
  s.requests = read(counters_->requests);
  s.writes = read(counters_->writes);
  s.bytes_sent = read(counters_->bytes_sent);
  s.bytes_received = read(counters_->bytes_received);
  s.connections_opened = read(counters_->connections_opened);
  s.connections_open = read(counters_->connections_open);
  s.connections_refused = read(counters_->connections_refused);
  s.tokens_unknown = read(counters_->tokens_unknown);
  for (std::size_t i = 0; i < s.operations.size(); ++i) {
    s.operations[i].ended = counters_->operations[i].ended.read();
    s.operations[i].took = counters_->operations[i].took.read();
  }
  return s;
}

void client_impl::count(const call& what, const error_code& result, clock::duration took) {
  counters::kind_tallies& its = counters_->operations[holdfast::detail::index_of(what.request.kind)];
  its.ended.add(outcome_of(result));
  if (what.where != connection_class::blocking) its.took.add(took);
}

awaitable<void> client_impl::perform(operation& op) {
  attempt_result ended;
  const time_point began = clock::now();
  if (op.what().refused) {
    ended.error = op.what().refused;
  } else if (closed_) {
    ended.error = error::closed;
  } else if (op.cancelled()) {
    ended.error = op.cancelled();
  } else {
    const registration listed(running_, op);
    const time_point deadline = began + op.what().time;
    try {
      ended = co_await attempt(op, deadline);
    } catch (const system_error& e) {  // thrown by co_await once the operation is cancelled
      ended.error = e.code();
    } catch (const std::bad_alloc&) {
      ended.error = error::connection_lost;
      ended.cause = make_error_code(boost::system::errc::not_enough_memory);
    }
    if (ended.error && op.cancelled()) ended.error = op.cancelled();
  }
  count(op.what(), ended.error, clock::now() - began);
  outcome result(ended.error);
  if (ended.error || ended.reply.filtered_by_acls) result = outcome_with_diagnostics(op.what(), ended);
  if (op.span) op.span->ended({.at = std::chrono::system_clock::now(), .error = ended.error});
  op.complete(std::move(result));
}

awaitable<attempt_result> client_impl::attempt(operation& op, time_point deadline) {
  const call& what = op.what();
  error_code unknown;  // the error of an earlier attempt at a write that may have been applied
  constexpr int new_tokens_max = 3;
  int new_tokens = 0;
  for (unsigned retries = 0;; ++retries) {
    const time_point asked = clock::now();
    attempt_result ended = co_await transport_.send(what.request, what.where, deadline);
    if (what.does != effect::none && ended.is_in_doubt) unknown = error::connection_lost;
    // A proxy or load balancer may close every request after, for example, 30 s. That is no failure of Consul, so the
    // query is sent again for the rest of its wait.
    if (what.where == connection_class::blocking && ended.is_cut && clock::now() - asked >= cut_after &&
        clock::now() + what.request.slack < deadline) {
      continue;
    }
    if (!ended.error) {
      const std::optional<error_code> decoded = decode_part(op, ended.reply);
      if (decoded) {
        ended.error = *decoded;
      } else {
        co_await asio::this_coro::throw_if_cancelled(false);  // the reply has arrived, so it is too late
        ended.error = co_await decode_rest(op, ended.reply);
      }
      if (ended.error == error::malformed_reply) ended.error = error::not_consul;
    }
    if (ended.error == error::too_large) learn_from(ended.reply);
    if (ended.error == error::permission_denied && needs_another_token(ended) && new_tokens++ < new_tokens_max &&
        clock::now() < deadline) {
      continue;
    }

    const bool again = ended.error && may_repeat(what, ended.error);
    const clock::duration pause =
        again ? pause_after(retries, settings_.backoff_min, settings_.backoff_max, random_) : clock::duration(0);
    if (!again || clock::now() + pause >= deadline) {
      // If the last attempt had no effect, an earlier one may still have had one. Only the answer that the session does
      // not exist settles that, too.
      if (unknown && ended.error == condition::not_applied && ended.error != error::invalid_session) {
        ended.error = unknown;
      }
      co_return ended;
    }
    if (what.does != effect::none && ended.error == condition::outcome_unknown) unknown = ended.error;

    timer_type timer(*strand_, pause);
    co_await timer.async_wait(as_result);
  }
}

// Returns true if the request may be sent again at once, with another token. If Consul may know the token soon, changes
// the error.
bool client_impl::needs_another_token(attempt_result& ended) {
  if (!is_token_unknown(ended.reply)) return transport_.has_another_token(ended.token);
  const token_source::advice next = transport_.token_is_unknown(ended.token);
  if (next != token_source::advice::give_up) ended.error = error::token_unknown;
  return next == token_source::advice::send_again;
}

void client_impl::learn_from(const http_reply& refusal) noexcept {
  const auto most = operations_taken(refusal);
  if (most && *most < operations_max()) operations_max_.store(*most, std::memory_order_relaxed);
}

// The server decides how much memory an answer takes. If memory runs out, only this operation fails.
std::optional<error_code> client_impl::decode_part(operation& op, const http_reply& reply) try {
  return op.decode(reply);
} catch (const std::bad_alloc&) {
  return error_code(error::reply_too_large);
}

// Between two parts, other work on the strand goes on: renewals, above all.
awaitable<error_code> client_impl::decode_rest(operation& op, const http_reply& reply) {
  std::optional<error_code> ended;
  while (!ended) {
    co_await asio::post(*strand_, asio::deferred);
    ended = decode_part(op, reply);
  }
  co_return *ended;
}

outcome client_impl::outcome_with_diagnostics(const call& what, const attempt_result& ended) const try {
  diagnostics details = diagnostics_about(what, ended);
  if (what.diag != nullptr) *what.diag = details;
  return {ended.error, std::move(details)};
} catch (const std::bad_alloc&) {
  return ended.error;
}

diagnostics client_impl::diagnostics_about(const call& what, const attempt_result& ended) const {
  diagnostics details;
  details.message = describe(what, transport_.address_of(ended.agent).to_string(), ended);
  details.key = what.key;
  if (ended.error) details.server_message = readable(transport_.without_secrets(ended.reply.body, ended));
  return details;
}

}  // namespace holdfast::consul::detail
