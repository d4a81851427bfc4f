#include "runtime/administrator.hpp"

#include <boost/asio/as_tuple.hpp>
#include <boost/asio/associated_cancellation_slot.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <chrono>
#include <functional>
#include <limits>
#include <random>
#include <utility>
#include <variant>

#include "runtime/boot_clock.hpp"
#include "runtime/convert.hpp"
#include "runtime/semaphore_status.hpp"
#include "runtime/setup.hpp"
#include "runtime/spawn.hpp"

namespace holdfast::detail {

namespace {

using namespace std::chrono_literals;
using std::chrono::milliseconds;
using kind = administration_order::kind;

constexpr auto as_result = asio::as_tuple(asio::use_awaitable);

/// What one order may take. Throws if it is not in the range of `administration_options::timeout`.
milliseconds time_for(const administration_order& order, const administration_options& options) {
  if (order.request.timeout == 0ms) return options.timeout;
  try {
    return runtime::checked_timeout(order.request.timeout);
  } catch (const system_error& wrong) {
    if (order.request.diag) *order.request.diag = {runtime::reason_of(wrong), {}, {}, {}};
    throw;
  }
}

using protocol::inspection;
using protocol::order_history;

std::function<protocol::instruction(const inspection&, const order_history&)> steps_of(
    const administration_order& order) {
  switch (order.what) {
    case kind::create:
      return [limit = order.limit](const inspection& s, const order_history&) { return protocol::create(s, limit); };
    case kind::resize:
      return [limit = order.limit](const inspection& s, const order_history&) { return protocol::resize(s, limit); };
    case kind::close:
      return [](const inspection& s, const order_history&) { return protocol::set_closed(s, true); };
    case kind::open:
      return [](const inspection& s, const order_history&) { return protocol::set_closed(s, false); };
    case kind::revoke:
      return [whose = order.session](const inspection& s, const order_history& past) {
        return protocol::revoke(s, whose, past.in_doubt);
      };
    case kind::evict:
      return [whose = order.session](const inspection& s, const order_history& past) {
        return protocol::evict(s, whose, past.is_first_look);
      };
    case kind::destroy:
      return [even_in_use = order.even_in_use](const inspection& s, const order_history& past) {
        return protocol::destroy(s, even_in_use, past.first_look);
      };
    case kind::sweep:
      return [](const inspection& s, const order_history&) { return protocol::sweep(s); };
    case kind::drain:
      return [](const inspection& s, const order_history& past) { return protocol::drain(s, past.is_first_look); };
    case kind::inspect:
      break;
  }
  return [](const inspection&, const order_history&) { return protocol::instruction(); };
}

/// For one request. `words`: where the client puts what is to be said about a failure of it.
consul::request_options request_within(protocol::duration time, diagnostics& words) {
  return {std::chrono::ceil<milliseconds>(time), false, &words};
}

}  // namespace

administrator::administrator(consul::client client, administration_options options)
    : client_(std::move(client)), options_(std::move(options)) {
  semaphore_options which;
  which.prefix = options_.prefix;
  which.lock_key = options_.lock_key;
  which.limit = 1;
  const protocol::pool_options checked = runtime::checked(std::move(which)).core;
  prefix_ = checked.prefix;
  lock_key_ = checked.lock_key;
  runtime::checked_timeout(options_.timeout);
  if (options_.attempts_max == 0) throw system_error(make_error_code(error::invalid_option), "attempts_max: 0");
}

protocol::order administrator::order_of(const administration_order& given) const {
  protocol::order result;
  result.next = steps_of(given);
  result.prefix = prefix_;
  result.lock_key = lock_key_;
  result.time = time_for(given, options_);
  // A look is not beaten by anybody: it has all of its time.
  result.attempts_max = given.what == kind::inspect ? std::numeric_limits<unsigned>::max() : options_.attempts_max;
  if (given.what == kind::drain) result.waits = given.within;
  if (given.what == kind::create || given.what == kind::resize) result.limit = given.limit;
  return result;
}

asio::awaitable<std::tuple<outcome>> administrator::give(administration_order order) {
  protocol::order_run run(order_of(order), std::random_device{}(), runtime::now());
  outcome ended = co_await carry_out(run, order.request.diag);
  co_return std::tuple(std::move(ended));
}

asio::awaitable<std::tuple<outcome, swept>> administrator::sweep(administration_order order) {
  protocol::order_run run(order_of(order), std::random_device{}(), runtime::now());
  outcome ended = co_await carry_out(run, order.request.diag);
  co_return std::tuple(std::move(ended), swept{run.removed().holders, run.removed().entries});
}

asio::awaitable<std::tuple<outcome, semaphore_status>> administrator::inspect(administration_order order) {
  protocol::order_run run(order_of(order), std::random_device{}(), runtime::now());
  outcome ended = co_await carry_out(run, order.request.diag);
  if (ended.code()) co_return std::tuple(std::move(ended), semaphore_status());
  const auto wall = std::chrono::system_clock::now().time_since_epoch();
  co_return std::tuple(std::move(ended),
                       runtime::to_status(run.seen(), std::chrono::floor<std::chrono::seconds>(wall)));
}

/// A failure is told; on success nobody's words are touched.
asio::awaitable<outcome> administrator::carry_out(protocol::order_run& run, diagnostics* diag) {
  protocol::next_step next = run.begin(runtime::now());
  while (!std::holds_alternative<protocol::order_step::done>(next)) next = co_await take(run, std::move(next));
  protocol::failure& why = std::get<protocol::order_step::done>(next).why;
  co_return runtime::outcome_of(std::move(why), diag);
}

asio::awaitable<protocol::next_step> administrator::take(protocol::order_run& run, protocol::next_step step) {
  diagnostics words;
  if (auto* const look = std::get_if<protocol::order_step::look>(&step)) {
    consul::read_options read;
    read.mode = consul::consistency::consistent;
    read.index = look->index;
    if (look->index != 0) read.wait = std::chrono::ceil<milliseconds>(look->wait);
    read.request = request_within(look->within, words);
    std::string prefix = prefix_;
    auto [ec, answer] = co_await client_.list(std::move(prefix), read, as_result);
    co_return run.looked(runtime::prefix_listed(0, ec, std::move(answer), std::move(words)), runtime::now());
  }
  if (auto* const end = std::get_if<protocol::order_step::end_session>(&step)) {
    const consul::request_options request = request_within(end->within, words);
    auto [ec] = co_await client_.destroy_session(std::move(end->session), request, as_result);
    co_return run.session_ended({ec, std::move(words)}, runtime::now());
  }
  if (auto* const write = std::get_if<protocol::order_step::write>(&step)) {
    const consul::request_options request = request_within(write->within, words);
    auto [ec, reply] = co_await client_.transact(std::move(write->operations), request, as_result);
    co_return run.written(runtime::txn_done(0, ec, std::move(reply), std::move(words)), runtime::now());
  }
  asio::steady_timer timer(client_.strand(), std::get<protocol::order_step::pause>(step).time);
  auto [cancelled] = co_await timer.async_wait(as_result);
  if (cancelled) co_return run.cancelled(cancelled);
  co_return run.rested(runtime::now());
}

namespace {

template <class... Results>
using result_of = asio::awaitable<std::tuple<outcome, Results...>>;

template <class... Results>
result_of<Results...> run(std::shared_ptr<administrator> impl, administration_order order,
                          result_of<Results...> (administrator::*member)(administration_order)) {
  auto result = co_await (impl.get()->*member)(std::move(order));
  co_return result;
}

template <class... Results>
void start(const std::shared_ptr<administrator>& impl, administration_order order, pending<Results...>&& waiting,
           result_of<Results...> (administrator::*member)(administration_order)) {
  if (!impl->get_executor()) return;  // the context is gone: no handler can run
  const asio::cancellation_slot stop = asio::get_associated_cancellation_slot(waiting.handler);
  runtime::spawn_for(impl->client().get_executor(), impl->client().strand(), stop, run(impl, std::move(order), member),
                     std::move(waiting), [](const error_code&, const Results&...) {});
}

}  // namespace

asio::any_io_executor executor_of(const administrator& impl) noexcept { return impl.get_executor(); }

void start_order(const std::shared_ptr<administrator>& impl, administration_order order, pending<>&& waiting) {
  start(impl, std::move(order), std::move(waiting), &administrator::give);
}

void start_order(const std::shared_ptr<administrator>& impl, administration_order order, pending<swept>&& waiting) {
  start(impl, std::move(order), std::move(waiting), &administrator::sweep);
}

void start_order(const std::shared_ptr<administrator>& impl, administration_order order,
                 pending<semaphore_status>&& waiting) {
  start(impl, std::move(order), std::move(waiting), &administrator::inspect);
}

}  // namespace holdfast::detail

namespace holdfast {

semaphore_administration::semaphore_administration(consul::client client, administration_options options)
    : impl_(std::make_shared<detail::administrator>(std::move(client), std::move(options))) {}

}  // namespace holdfast
