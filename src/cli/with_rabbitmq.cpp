// SPDX-FileCopyrightText: The holdfast authors
// SPDX-License-Identifier: BSL-1.0

#include <algorithm>
#include <boost/asio/as_tuple.hpp>
#include <boost/asio/bind_cancellation_slot.hpp>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <boost/json/array.hpp>
#include <boost/json/object.hpp>
#include <boost/json/serialize.hpp>
#include <cstdio>
#include <exception>
#include <holdfast/rabbitmq.hpp>
#include <string_view>
#include <tuple>
#include <vector>

#include "cli/arguments.hpp"
#include "cli/operate.hpp"
#include "cli/rabbitmq.hpp"

namespace holdfast::cli {

namespace {

namespace asio = boost::asio;
namespace json = boost::json;
using kind = operator_command::kind;

constexpr auto as_result = asio::as_tuple(asio::use_awaitable);

rabbitmq::config config_of(const rabbitmq_options& options) {
  rabbitmq::config its;
  its.address = options.url;
  its.password_file = options.password_file;
  its.log = [](const log_event& event) { std::fprintf(stderr, "holdfast: %s\n", event.text().c_str()); };
  return its;
}

class lock final : public rabbitmq_lock {
public:
  lock(const asio::any_io_executor& executor, const rabbitmq_options& options, rabbitmq::semaphore_options which)
      : client_(executor, config_of(options)), semaphore_(client_, std::move(which)) {}

  asio::awaitable<result> acquire(std::optional<std::chrono::nanoseconds> within,
                                  asio::cancellation_slot stop) override {
    result got;
    rabbitmq::slot slot;
    const operation_options options{.diag = &got.why};
    if (within)
      std::tie(got.error, slot) =
          co_await semaphore_.try_acquire_for(*within, options, asio::bind_cancellation_slot(stop, as_result));
    else
      std::tie(got.error, slot) = co_await semaphore_.acquire(options, asio::bind_cancellation_slot(stop, as_result));
    if (got.error || !slot) co_return got;
    got.number = slot.number();
    got.held = std::make_unique<rabbitmq::slot>(std::move(slot));
    co_return got;
  }
  asio::awaitable<void> close() override {
    co_await semaphore_.close(as_result);
    client_.close();
  }

private:
  rabbitmq::client client_;
  rabbitmq::semaphore semaphore_;
};

template <class Values>
json::array to_array(const Values& values) {
  json::array out;
  for (const auto& each : values) out.emplace_back(each);
  return out;
}

/// One command on one semaphore.
class operation_on_rabbitmq {
public:
  explicit operation_on_rabbitmq(const operator_command& command)
      : command_(command), client_(io_, config_of(command.rabbitmq)), admin_(client_, which()) {}

  int run() {
    std::exception_ptr failure;
    asio::co_spawn(io_, carry_out(), [&](std::exception_ptr failed) {
      failure = std::move(failed);
      client_.close();
    });
    io_.run();
    if (failure) std::rethrow_exception(failure);
    return status_;
  }

private:
  rabbitmq::administration_options which() const {
    rabbitmq::administration_options its;
    its.name = command_.prefix;
    its.lease = command_.rabbitmq.lease;
    its.letter_first = command_.rabbitmq.letter_first;
    return its;
  }

  asio::awaitable<void> carry_out() {
    const auto within = command_.within.value_or(std::chrono::nanoseconds::max());
    switch (command_.what) {
      case kind::inspect:
        co_return co_await inspect();
      case kind::create:
        co_return co_await admin_.create(command_.limit);
      case kind::grow: {
        const std::uint32_t slots = co_await admin_.grow(command_.limit);
        co_return tell_slots(slots);
      }
      case kind::shrink: {
        const std::uint32_t slots = co_await admin_.shrink(command_.limit);
        co_return tell_slots(slots);
      }
      case kind::destroy:
        co_return co_await destroy();
      case kind::wait:
        if (command_.limit != 0) co_return co_await admin_.wait_until_released(command_.limit, within);
        co_return co_await admin_.wait_until_drained(within);
      case kind::watch:
      case kind::resize:
      case kind::close:
      case kind::open:
      case kind::drain:
      case kind::revoke:
      case kind::evict:
      case kind::sweep:
      case kind::verify:
      case kind::list:
      case kind::explain:
      case kind::top:
        break;
    }
    throw usage_error("this command is not possible with --rabbitmq");
  }

  void tell(const json::object& result) const { std::printf("%s\n", json::serialize(result).c_str()); }
  std::string name() const { return printable(command_.prefix); }
  void tell_slots(std::uint32_t slots) const {
    if (command_.json) return tell({{"name", command_.prefix}, {"slots", slots}});
    std::printf("%s: %u slots\n", name().c_str(), slots);
  }

  asio::awaitable<void> inspect() {
    const rabbitmq::semaphore_status now = co_await admin_.inspect();
    status_ = now.exists ? status_done : status_refused;
    if (command_.json) {
      tell({{"name", command_.prefix},
            {"exists", now.exists},
            {"slots", now.slots},
            {"taken", to_array(now.taken)},
            {"unfinished", now.unfinished}});
      co_return;
    }
    if (!now.exists) std::printf("%s: no semaphore\n", name().c_str());
    if (now.exists) std::printf("%s: %u slots\n", name().c_str(), now.slots);
    for (const std::uint32_t each : now.taken)
      std::printf("slot %u is taken%s\n", each, each > now.slots ? ", and was removed" : "");
    if (now.unfinished) std::printf("its creation has begun and is not done\n");
  }

  asio::awaitable<void> destroy() {
    const rabbitmq::destroy_result left = co_await admin_.destroy(command_.overshoot);
    if (command_.json) {
      tell({{"name", command_.prefix}, {"held", to_array(left.held)}, {"kept_queues", to_array(left.kept_queues)}});
      co_return;
    }
    for (const std::uint32_t each : left.held) std::printf("slot %u is still held\n", each);
    for (const std::string& each : left.kept_queues) std::printf("the queue %s stays\n", printable(each).c_str());
  }

  const operator_command& command_;
  asio::io_context io_{1};
  rabbitmq::client client_;
  rabbitmq::semaphore_administration admin_;
  int status_ = status_done;
};

}  // namespace

std::unique_ptr<rabbitmq_lock> make_rabbitmq_lock(const asio::any_io_executor& executor,
                                                  const rabbitmq_options& options, const std::string& name,
                                                  std::uint32_t create_with, log_function log) {
  rabbitmq::semaphore_options which;
  which.name = name;
  which.create_with = create_with;
  which.lease = options.lease;
  which.letter_first = options.letter_first;
  which.log = std::move(log);
  return std::make_unique<lock>(executor, options, std::move(which));
}

int operate_on_rabbitmq(const operator_command& command) { return operation_on_rabbitmq(command).run(); }

}  // namespace holdfast::cli
