// SPDX-FileCopyrightText: The holdfast authors
// SPDX-License-Identifier: BSL-1.0

// A machine that is suspended in mid-hold, as far as a process can tell: its clock that counts suspend jumps, and
// timers that were armed before do not notice. One thread only, as the kernel moves no other process into a time
// namespace. As root, or where users may make user namespaces.

#include <fcntl.h>
#include <sched.h>
#include <unistd.h>

#include <boost/asio/co_spawn.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/redirect_error.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <cerrno>
#include <chrono>
#include <fstream>
#include <holdfast/consul/client.hpp>
#include <holdfast/semaphore.hpp>
#include <holdfast/testing/server.hpp>
#include <iostream>
#include <stop_token>
#include <system_error>

namespace asio = boost::asio;
using namespace std::chrono_literals;

namespace {

void require(bool done, const char* what) {
  if (!done) throw std::system_error(errno, std::generic_category(), what);
}

/// From now on a process that enters it sees a clock that is two hours ahead.
void prepare_jump() {
  const int own_users = ::geteuid() == 0 ? 0 : CLONE_NEWUSER;
  require(::unshare(CLONE_NEWTIME | own_users) == 0, "a time namespace cannot be made");
  std::ofstream offsets("/proc/self/timens_offsets");
  offsets << "boottime 7200 0\n";
  require(static_cast<bool>(offsets.flush()), "its offsets cannot be set");
}

void jump() {
  const int there = ::open("/proc/self/ns/time_for_children", O_RDONLY | O_CLOEXEC);
  require(there >= 0 && ::setns(there, CLONE_NEWTIME) == 0, "the time namespace cannot be entered");
  ::close(there);
}

asio::awaitable<void> hold_while_suspended(holdfast::semaphore& sem, holdfast::testing::server& consul, bool& told) {
  const auto executor = co_await asio::this_coro::executor;
  holdfast::slot slot = co_await sem.acquire(asio::use_awaitable);
  // Until it watches, and nothing else is to be done for a long time.
  for (asio::steady_timer moment(executor); consul.statistics().blocked == 0;) {
    moment.expires_after(1ms);
    co_await moment.async_wait(asio::use_awaitable);
  }
  asio::steady_timer never(executor, asio::steady_timer::time_point::max());
  const std::stop_callback tell(slot.stop_token(), [&never] { never.cancel(); });
  jump();
  if (slot.held()) throw std::runtime_error("it is believed to be held after its lease");
  holdfast::error_code ended;
  co_await never.async_wait(asio::redirect_error(asio::use_awaitable, ended));
  // By its clock, and not because something else has woken it.
  told = slot.lost_because() == holdfast::loss_reason::lease_expired && consul.statistics().blocked != 0;
}

}  // namespace

int main() try {
  prepare_jump();
  asio::io_context io(1);
  holdfast::testing::server consul(io.get_executor());
  holdfast::consul::client client(io, consul.client_config());
  holdfast::semaphore_options options;
  options.prefix = "suspended";
  options.limit = 1;
  options.session_ttl = 1h;  // so nothing else wakes it for a long time
  options.tuning.request_timeout = 5s;
  holdfast::semaphore sem(client, options);
  bool told = false;
  asio::co_spawn(io, hold_while_suspended(sem, consul, told), [&](const std::exception_ptr& failure) {
    if (failure) std::rethrow_exception(failure);
    io.stop();
  });
  io.run_for(60s);
  if (!told) std::cerr << "the stop token did not fire by itself when the machine came back\n";
  return told ? 0 : 1;
} catch (const std::exception& e) {
  std::cerr << e.what() << '\n';
  return 1;
}
