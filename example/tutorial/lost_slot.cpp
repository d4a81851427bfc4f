// SPDX-FileCopyrightText: The holdfast authors
// SPDX-License-Identifier: BSL-1.0

// Step 3 of the tutorial: a slot is lost during the work. doc/tutorial/lost_slot.md explains the program.

#include <boost/asio.hpp>
#include <cstdlib>
#include <holdfast/holdfast.hpp>
#include <holdfast/testing/server.hpp>
#include <iostream>
#include <utility>

namespace asio = boost::asio;
using namespace std::chrono_literals;

// readme destroy {
asio::awaitable<void> destroy_sessions(holdfast::consul::client consul) {  // as an operator might do it
  const auto entries = co_await consul.list("tutorial/report/");
  for (const holdfast::consul::kv_entry& entry : entries.value)
    if (!entry.session.empty()) co_await consul.destroy_session(entry.session);
}
// } readme

// readme report {
asio::awaitable<void> report(holdfast::slot& slot, holdfast::consul::client consul, bool& disturb) {
  asio::steady_timer timer(co_await asio::this_coro::executor);
  for (int chapter = 1; chapter <= 3; ++chapter) {
    std::cout << "chapter " << chapter << ", fencing token " << slot.fencing_token().to_string() << std::endl;
    if (chapter == 2 && std::exchange(disturb, false)) co_await destroy_sessions(consul);
    timer.expires_after(200ms);
    co_await timer.async_wait(asio::use_awaitable);  // with_slot cancels this wait when the slot is lost
  }
  std::cout << "published" << std::endl;
}
// } readme

// readme again {
asio::awaitable<void> write_report(holdfast::consul::client consul) {
  holdfast::semaphore sem(consul, {.prefix = "tutorial/report", .limit = 1});
  bool disturb = true;
  auto body = [&](holdfast::slot& slot) { return report(slot, consul, disturb); };
  for (bool done = false; !done;) {
    try {
      co_await holdfast::with_slot(sem, body);
      done = true;
    } catch (const holdfast::system_error& failed) {
      if (failed.code() != holdfast::error::slot_lost) throw;
      std::cout << "again, because of: " << failed.what() << std::endl;
    }
  }
  co_await sem.close();
}
// } readme

int main() {
  asio::io_context io;
  holdfast::testing::server fake;
  auto config = fake.client_config();
  if (std::getenv("CONSUL_HTTP_ADDR")) config = holdfast::consul::config::from_environment();
  asio::co_spawn(io, write_report(holdfast::consul::client(io, config)), [](std::exception_ptr failed) {
    if (failed) std::rethrow_exception(failed);
  });
  io.run();
}
