#include "runtime/administrator.hpp"

#include <algorithm>
#include <boost/asio/any_completion_executor.hpp>
#include <boost/asio/append.hpp>
#include <boost/asio/as_tuple.hpp>
#include <boost/asio/associated_cancellation_slot.hpp>
#include <boost/asio/associated_executor.hpp>
#include <boost/asio/bind_cancellation_slot.hpp>
#include <boost/asio/cancellation_signal.hpp>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/prefer.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <chrono>
#include <optional>
#include <random>
#include <utility>

#include "protocol/lock_record.hpp"
#include "runtime/boot_clock.hpp"
#include "runtime/convert.hpp"
#include "runtime/pool_options.hpp"
#include "runtime/semaphore_status.hpp"

namespace holdfast::detail {

namespace {

using namespace std::chrono_literals;
using std::chrono::milliseconds;
using kind = administration_order::kind;

constexpr auto as_result = asio::as_tuple(asio::use_awaitable);
constexpr milliseconds request_max = 5s;
constexpr protocol::duration at_once{};
constexpr protocol::duration watch_wait = 10s;
/// Between two looks at a semaphore that never rests.
constexpr protocol::duration longest_pause = 100ms;

/// Whether a look, or another one, may do better.
bool is_worth_another_look(const error_code& ec) {
  return ec == condition::unavailable || ec == condition::outcome_unknown || ec == error::transaction_conflict;
}

protocol::instruction next_of(const administration_order& order, const protocol::survey& seen, bool first_look,
                              bool doubt, std::uint64_t first) {
  switch (order.what) {
    case kind::create:
      return protocol::create(seen, order.limit);
    case kind::resize:
      return protocol::resize(seen, order.limit);
    case kind::close:
      return protocol::set_closed(seen, true);
    case kind::open:
      return protocol::set_closed(seen, false);
    case kind::revoke:
      return protocol::revoke(seen, order.session, doubt);
    case kind::evict:
      return protocol::evict(seen, order.session, first_look);
    case kind::destroy:
      return protocol::destroy(seen, order.even_in_use, first);
    case kind::sweep:
      return protocol::sweep(seen);
    case kind::drain:
      return protocol::drain(seen, first_look);
    case kind::inspect:
      break;
  }
  return {};
}

/// What one order may take. Throws if it is not in the range of `administration_options::timeout`.
milliseconds time_for(const administration_order& order, const administration_options& options) {
  if (order.request.timeout == 0ms) return options.timeout;
  try {
    return runtime::checked_timeout(order.request.timeout);
  } catch (const system_error& wrong) {
    if (order.request.diag) *order.request.diag = {wrong.what(), {}, {}, {}};
    throw;
  }
}

}  // namespace

/// One order, while it is carried out.
struct administrator::effort {
  effort(administration_order o, const administration_options& options, asio::any_io_executor ex)
      : order(std::move(o)), time(time_for(order, options)), deadline(runtime::now() + time), timer(std::move(ex)) {}

  administration_order order;
  const protocol::duration time;
  protocol::time_point deadline;
  asio::steady_timer timer;
  protocol::random_source random{std::random_device{}()};
  protocol::outage outage{};
  unsigned conflicts = 0;
  diagnostics words{};  ///< about the latest failure
  swept removed{};

  /// For one request of it.
  consul::request_options request() {
    const auto left = std::chrono::ceil<milliseconds>(deadline - runtime::now());
    return {std::clamp<milliseconds>(left, 1ms, request_max), false, &words};
  }
  error_code fail(error_code why, std::string message, std::string key) {
    words = {std::move(message), std::move(key), {}, {}};
    return why;
  }
  void count(const protocol::leftovers_count& taken) {
    removed.holders += taken.holders;
    removed.entries += taken.entries;
  }
  /// A failure is told; on success nobody's words are touched.
  error_code end(error_code ec) {
    if (ec && order.request.diag) *order.request.diag = std::move(words);
    return ec;
  }
};

administrator::administrator(consul::client client, administration_options options)
    : client_(std::move(client)), options_(std::move(options)) {
  semaphore_options which;
  which.prefix = options_.prefix;
  which.lock_key = options_.lock_key;
  which.limit = 1;
  which.request_timeout = options_.timeout;  // by the same bounds
  const protocol::pool_options checked = runtime::checked(std::move(which)).pool;
  prefix_ = checked.prefix;
  lock_key_ = checked.lock_key;
  if (options_.timeout == 0ms || options_.attempts_max == 0)
    throw system_error(make_error_code(error::invalid_option), "administration: a timeout or attempts_max of 0");
}

asio::awaitable<std::tuple<error_code>> administrator::give(administration_order order) {
  effort e(std::move(order), options_, strand());
  error_code ec;
  if (e.order.what == kind::drain)
    ec = co_await drain(e);
  else
    ec = co_await carry_out(e);
  co_return std::tuple(e.end(ec));
}

asio::awaitable<std::tuple<error_code, swept>> administrator::sweep(administration_order order) {
  effort e(std::move(order), options_, strand());
  const error_code ec = co_await carry_out(e);
  co_return std::tuple(e.end(ec), e.removed);
}

asio::awaitable<std::tuple<error_code, semaphore_status>> administrator::inspect(administration_order order) {
  effort e(std::move(order), options_, strand());
  protocol::survey seen;
  error_code ec = co_await look(e, seen, 0, at_once);
  while (is_worth_another_look(ec)) {
    ec = co_await rest(e, ec);
    if (ec) break;
    ec = co_await look(e, seen, 0, at_once);
  }
  if (ec) co_return std::tuple(e.end(ec), semaphore_status());
  const auto wall = std::chrono::system_clock::now().time_since_epoch();
  co_return std::tuple(ec, runtime::to_status(seen, std::chrono::floor<std::chrono::seconds>(wall)));
}

asio::awaitable<error_code> administrator::carry_out(effort& e) {
  const bool sets_limit = e.order.what == kind::create || e.order.what == kind::resize;
  if (sets_limit && (e.order.limit == 0 || e.order.limit > protocol::limit_max))
    co_return e.fail(error::invalid_limit, "the limit is not between 1 and " + std::to_string(protocol::limit_max),
                     lock_key_);
  error_code ec, doubt;  // a request may have been applied, or may be later: that is what a failure must say
  const auto failed = [&] { return doubt && ec == condition::not_applied ? doubt : ec; };
  bool first_look = true;
  std::uint64_t first = 0;                              // the index of the first look
  std::optional<protocol::leftovers_count> unanswered;  // what there was when a write got no answer
  unsigned in_vain = 0;
  while (in_vain++ != options_.attempts_max) {
    if (!ec && runtime::now() >= e.deadline) ec = e.fail(error::timed_out, "not done in time", lock_key_);
    if (ec) ec = co_await rest(e, ec);
    if (ec) co_return failed();
    protocol::survey seen;
    ec = co_await look(e, seen, 0, at_once);
    if (is_worth_another_look(ec)) continue;
    if (ec) co_return failed();
    const protocol::leftovers_count there = protocol::count_leftovers(seen);
    if (unanswered)
      e.count({unanswered->holders - std::min(unanswered->holders, there.holders),
               unanswered->entries - std::min(unanswered->entries, there.entries)});
    unanswered.reset();

    protocol::instruction next = next_of(e.order, seen, first_look, bool(doubt), first);
    if (std::exchange(first_look, false)) first = seen.now.index;
    if (next.refused) {
      ec = e.fail(next.refused, next.refused.message(), lock_key_);
      if (ec == error::limit_conflict) e.words.limit_conflict = {seen.now.record.limit, e.order.limit};
      co_return failed();
    }
    if (next.session.empty() && next.operations.empty()) co_return error_code();
    const bool last = next.session.empty() && !next.more;
    const protocol::leftovers_count taken = next.swept;
    if (!next.session.empty())
      ec = co_await end_session(e, std::move(next.session));
    else
      ec = co_await write(e, std::move(next));
    if (ec == condition::outcome_unknown) {
      doubt = ec;
      unanswered = there;
    }
    if (ec && !is_worth_another_look(ec)) co_return failed();
    if (ec) continue;
    e.outage.over();
    e.count(taken);
    if (last) co_return error_code();
    doubt = {};
    in_vain = 0;  // it gets on
  }
  co_return failed();
}

asio::awaitable<error_code> administrator::drain(effort& e) {
  const auto begun = runtime::now();
  const auto within = std::max(e.order.within, std::chrono::nanoseconds::zero());
  const auto end = within < protocol::never - begun ? begun + within : protocol::never;
  std::uint64_t index = 0;
  bool first_look = true;
  error_code ec;
  for (;;) {
    if (ec) {
      index = 0;
      if (!e.outage.on()) e.deadline = runtime::now() + e.time;  // the outage begins now, not with the wait
      ec = co_await rest(e, ec);
    }
    if (ec) co_return ec;
    e.deadline = runtime::now() + e.time;  // it is an outage that this bounds, not the wait
    if (e.outage.on()) e.deadline = e.outage.since() + e.time;
    protocol::survey seen;
    const auto left = end == protocol::never ? watch_wait : std::min(watch_wait, end - runtime::now());
    if (left > 0ns || index == 0) ec = co_await look(e, seen, index, std::max<protocol::duration>(left, 1ms));
    if (is_worth_another_look(ec)) continue;
    if (ec) co_return ec;
    e.outage.over();
    if (left > 0ns || index == 0) {
      const protocol::instruction next = next_of(e.order, seen, std::exchange(first_look, false), false, 0);
      if (next.refused) co_return e.fail(next.refused, next.refused.message(), lock_key_);
      if (!next.more) co_return error_code();
      index = consul::next_index(index, seen.now.index);
    }
    const auto now = runtime::now();
    if (now >= end) co_return e.fail(error::in_use, "somebody still holds a slot", lock_key_);
    e.timer.expires_after(std::min(e.random.between({}, longest_pause), end - now));
    auto [cancelled] = co_await e.timer.async_wait(as_result);
    if (cancelled) co_return cancelled;
  }
}

asio::awaitable<error_code> administrator::look(effort& e, protocol::survey& into, std::uint64_t index,
                                                protocol::duration wait) {
  consul::read_options read;
  read.mode = consul::consistency::consistent;
  read.index = index;
  if (index != 0) read.wait = std::chrono::ceil<milliseconds>(wait);
  read.request = e.request();
  std::string prefix = prefix_;
  auto [ec, answer] = co_await client_.list(std::move(prefix), read, as_result);
  if (ec) co_return ec;
  // Whoever is left out would be taken for dead.
  if (answer.meta.filtered_by_acls)
    co_return e.fail(error::permission_denied, "the ACL token may not read all that stands there", prefix_);
  auto seen = protocol::make_survey(prefix_, lock_key_, std::move(answer.value), answer.meta.index);
  if (!seen) co_return e.fail(seen.error(), seen.error().message(), lock_key_);
  into = *std::move(seen);
  co_return error_code();
}

asio::awaitable<error_code> administrator::end_session(effort& e, std::string session) {
  const consul::request_options request = e.request();
  auto [ec] = co_await client_.destroy_session(std::move(session), request, as_result);
  co_return ec;
}

asio::awaitable<error_code> administrator::write(effort& e, protocol::instruction next) {
  std::vector<kv_operation> operations = std::move(next.operations);
  const consul::request_options request = e.request();
  auto [ec, reply] = co_await client_.transact(std::move(operations), request, as_result);
  if (ec || reply.applied) co_return ec;
  for (const consul::txn_error& each : reply.errors)
    if (each.reason == consul::txn_refusal::permission_denied)
      co_return e.fail(error::permission_denied, "the ACL token may not write below the prefix", prefix_);
  ++e.conflicts;
  co_return e.fail(error::transaction_conflict, "others wrote first each time", lock_key_);
}

/// A pause before the next look, with jitter; or `why`, if there is no time for one. Whoever was beaten by another
/// writer looks again soon: on a busy semaphore that is the rule.
asio::awaitable<error_code> administrator::rest(effort& e, error_code why) {
  const auto now = runtime::now();
  const bool beaten = why == error::transaction_conflict;
  if (!beaten) e.outage.failed({why, {}}, now, e.random);
  const protocol::duration most = std::min<protocol::duration>(1ms * (1 << std::min(e.conflicts, 5u)), 20ms);
  const auto again = beaten ? now + e.random.between({}, most) : e.outage.retry_at();
  if (again >= e.deadline) co_return why;
  e.timer.expires_after(again - now);
  auto [ec] = co_await e.timer.async_wait(as_result);
  co_return ec;
}

namespace {

/// An order under way, and the handler that waits for it. It runs on the client's strand; cancellation signals come on
/// any thread.
template <class... Results>
struct running {
  running(asio::any_io_executor executor, asio::any_io_executor own, administration_handler<Results...> h)
      : home(std::move(executor)),
        strand(std::move(own)),
        work(asio::prefer(asio::get_associated_executor(h, home), asio::execution::outstanding_work.tracked)),
        handler(std::move(h)) {}

  asio::any_io_executor home, strand;
  asio::any_completion_executor work;  ///< the handler's executor, at work
  administration_handler<Results...> handler;
  asio::cancellation_signal stop{};
};

template <class... Results, class Begin>
void launch(const std::shared_ptr<administrator>& impl, administration_handler<Results...> handler, Begin begin) {
  if (!impl->get_executor()) return;  // the context is gone: no handler can run
  asio::cancellation_slot slot = asio::get_associated_cancellation_slot(handler);
  const auto op = std::make_shared<running<Results...>>(impl->get_executor(), impl->strand(), std::move(handler));
  if (slot.is_connected())
    slot.assign([weak = std::weak_ptr(op)](asio::cancellation_type) {
      if (const auto found = weak.lock())
        asio::post(found->strand, [weak] {
          // The only type that a coroutine hears of before it has begun.
          if (const auto still = weak.lock()) still->stop.emit(asio::cancellation_type::terminal);
        });
    });
  // As a plain function object: nothing is awaited here.
  auto finish = [op](std::exception_ptr failure, std::tuple<error_code, Results...> results) {
    if (failure) std::rethrow_exception(failure);
    // Posted to the plain executor, from where the handler goes on to its own.
    std::apply([&](auto&... each) { asio::post(op->home, asio::append(std::move(op->handler), std::move(each)...)); },
               results);
    op->work = {};
  };
  asio::co_spawn(impl->strand(), begin, asio::bind_cancellation_slot(op->stop.slot(), std::move(finish)));
}

/// What is cancelled between two requests throws at the next.
template <class Result>
asio::awaitable<Result> run(std::shared_ptr<administrator> impl, administration_order order,
                            asio::awaitable<Result> (administrator::*member)(administration_order)) {
  Result result;
  try {
    result = co_await (impl.get()->*member)(std::move(order));
  } catch (const system_error& cancelled) {
    std::get<0>(result) = cancelled.code();
  }
  co_return result;
}

}  // namespace

asio::any_io_executor executor_of(const administrator& impl) noexcept { return impl.get_executor(); }

void start(const std::shared_ptr<administrator>& impl, administration_order order, administration_handler<> handler) {
  launch(impl, std::move(handler), [impl, order] { return run(impl, order, &administrator::give); });
}

void start(const std::shared_ptr<administrator>& impl, administration_order order,
           administration_handler<swept> handler) {
  launch(impl, std::move(handler), [impl, order] { return run(impl, order, &administrator::sweep); });
}

void start(const std::shared_ptr<administrator>& impl, administration_order order,
           administration_handler<semaphore_status> handler) {
  launch(impl, std::move(handler), [impl, order] { return run(impl, order, &administrator::inspect); });
}

}  // namespace holdfast::detail

namespace holdfast {

semaphore_administration::semaphore_administration(consul::client client, administration_options options)
    : impl_(std::make_shared<detail::administrator>(std::move(client), std::move(options))) {}

}  // namespace holdfast
