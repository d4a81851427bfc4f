#include <boost/asio/append.hpp>
#include <boost/asio/as_tuple.hpp>
#include <boost/asio/awaitable.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <holdfast/election.hpp>
#include <optional>
#include <tuple>
#include <utility>
#include <vector>

#include "protocol/election.hpp"
#include "runtime/convert.hpp"
#include "runtime/driver.hpp"
#include "runtime/observation.hpp"
#include "runtime/slot_impl.hpp"
#include "runtime/spawn.hpp"

namespace holdfast {

namespace detail {

/// What campaigns begin with. Each has a pool of its own.
class election_impl {
public:
  election_impl(consul::client through, election_options options)
      : client(std::move(through)), of_each(runtime::checked(std::move(options))) {}

  const consul::client client;
  const runtime::pool_setup of_each;
};

/// The client knows when its context has gone: an executor that is kept beyond that may not even be destroyed.
asio::any_io_executor executor_of(const election_impl& impl) noexcept { return impl.client.get_executor(); }

namespace {

/// Completes without having sent anything.
template <class... Results>
void fail(const asio::any_io_executor& executor, error_code ec, std::string text, diagnostics* diag,
          pending<error_code, Results...>&& waiting) {
  if (!executor) return;  // the context is gone: no handler can run
  if (diag) *diag = {std::move(text), {}, {}, {}};
  asio::post(executor, asio::append(std::move(waiting.handler), ec, Results()...));
}

asio::awaitable<std::tuple<error_code>> proclaim(std::shared_ptr<slot_impl> held, std::string value,
                                                 diagnostics* diag) {
  const std::shared_ptr<driver> owner = held->owner;
  const std::string& key = owner->name();
  consul::client client = owner->client();
  consul::read_options read;
  read.mode = consul::consistency::consistent;
  read.request.timeout = owner->options().request_timeout;
  read.request.diag = diag;
  protocol::proclamation wish(std::move(value));
  for (;;) {
    const std::string session = owner->holding_session(*held);
    const bool lost = held->state() == slot_state::lost;
    if (session.empty()) co_return std::tuple(wish.reported(lost ? error::slot_lost : error::not_held));
    auto [unseen, answer] = co_await client.get(key, read, asio::as_tuple(asio::use_awaitable));
    if (unseen) co_return std::tuple(wish.reported(unseen));
    const protocol::event::key_watched seen = runtime::key_watched({}, {}, std::move(answer), {});
    auto write = wish.write(seen.pair, session);
    if (wish.is_withdrawn()) owner->value_written(*held, wish.value(), true);
    if (!write) co_return std::tuple(error_code(write.error()));
    if (write->empty()) co_return std::tuple(error_code());
    std::vector<kv_operation> operations = *std::move(write);
    if (wish.announce()) owner->value_written(*held, wish.value());
    auto [ec, reply] =
        co_await client.transact(std::move(operations), read.request, asio::as_tuple(asio::use_awaitable));
    const auto end = wish.replied(runtime::txn_done({}, ec, std::move(reply), {}));
    if (wish.is_withdrawn()) owner->value_written(*held, wish.value(), true);
    if (end) co_return std::tuple(*end);
  }
}

}  // namespace

void start_campaign(const election_impl& impl, std::string value, diagnostics* diag, pending<error_code, slot>&& won) {
  if (!executor_of(impl)) return;  // the context is gone: no handler can run
  runtime::pool_setup its = impl.of_each;
  try {
    its.core.description = runtime::checked_value(std::move(value));
  } catch (const system_error& wrong) {
    return fail(executor_of(impl), wrong.code(), wrong.what(), diag, std::move(won));
  }
  acquire_request request;
  request.diag = diag;
  make_driver(impl.client, std::move(its))->acquire(request, std::move(won));
}

void start_proclaim(const std::shared_ptr<slot_impl>& impl, std::string value, diagnostics* diag,
                    pending<error_code>&& waiting) {
  const asio::any_io_executor& executor = executor_of(*impl);
  const slot_state state = impl->state();
  if (state != slot_state::held && state != slot_state::suspect)
    return fail(executor, state == slot_state::lost ? error::slot_lost : error::not_held, {}, diag, std::move(waiting));
  try {
    value = runtime::checked_value(std::move(value));
  } catch (const system_error& wrong) {
    return fail(executor, wrong.code(), wrong.what(), diag, std::move(waiting));
  }
  runtime::spawn_for(impl->owner->client(), asio::cancellation_slot(), proclaim(impl, std::move(value), diag),
                     std::move(waiting), [](const error_code&) {});
}

}  // namespace detail

election::election(consul::client client, election_options options)
    : impl_(std::make_shared<detail::election_impl>(std::move(client), std::move(options))) {}

const std::string& election::key() const noexcept { return impl_->of_each.driver.name; }

election_observer election::observe() const {
  const runtime::driver_options& options = impl_->of_each.driver;
  return election_observer(std::make_shared<detail::observation>(impl_->client, options.name, options.request_timeout));
}

}  // namespace holdfast
