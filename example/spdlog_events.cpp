// SPDX-FileCopyrightText: The holdfast authors
// SPDX-License-Identifier: BSL-1.0

// Sends the log events of holdfast to spdlog, each with its severity. The slot is lost, so that there is an event.

#include <spdlog/sinks/stdout_sinks.h>
#include <spdlog/spdlog.h>

#include <boost/asio/awaitable.hpp>
#include <holdfast/holdfast.hpp>
#include <string_view>
#include <utility>

#include "common/agent.hpp"
#include "common/command_line.hpp"

namespace asio = boost::asio;

namespace {

void to_spdlog(const holdfast::log_event& event) {
  const auto level = event.severity() == holdfast::severity::error     ? spdlog::level::err
                     : event.severity() == holdfast::severity::warning ? spdlog::level::warn
                                                                       : spdlog::level::info;
  if (!spdlog::should_log(level)) return;  // then no text is made
  spdlog::log(level, "[{}] {}", to_string(event.kind), event.text());
}

asio::awaitable<void> lose_a_slot(holdfast::consul::client consul) {
  holdfast::semaphore_options options{.prefix = "service/reports", .limit = 2};
  options.log = to_spdlog;
  holdfast::semaphore sem(consul, std::move(options));
  holdfast::slot held = co_await sem.acquire();
  co_await consul.remove_tree("service/reports/");  // somebody deletes the keys of the semaphore
  co_await held.wait_lost();
  held = holdfast::slot();
  co_await sem.close();
}

constexpr std::string_view help = R"(usage: spdlog_events [options]

Loses a slot, and shows what spdlog writes about it.

)";

}  // namespace

int main(int argc, char** argv) {
  return example::run(argc, argv, help, [](example::arguments& given) {
    given.end();
    spdlog::set_default_logger(spdlog::stdout_logger_mt("holdfast"));
    spdlog::set_pattern("%n %l %v");
    example::agent(given.consul()).run(lose_a_slot);
    return 0;
  });
}
