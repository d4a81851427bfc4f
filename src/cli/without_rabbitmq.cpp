// SPDX-FileCopyrightText: The holdfast authors
// SPDX-License-Identifier: BSL-1.0

#include "cli/arguments.hpp"
#include "cli/rabbitmq.hpp"

namespace holdfast::cli {

namespace {

[[noreturn]] void refuse() {
  throw usage_error("--rabbitmq: this program was built without RabbitMQ (HOLDFAST_RABBITMQ)");
}

}  // namespace

std::unique_ptr<rabbitmq_lock> make_rabbitmq_lock(const boost::asio::any_io_executor&, const rabbitmq_options&,
                                                  const std::string&, std::uint32_t, log_function) {
  refuse();
}

int operate_on_rabbitmq(const operator_command&) { refuse(); }

}  // namespace holdfast::cli
