// SPDX-FileCopyrightText: The holdfast authors
// SPDX-License-Identifier: BSL-1.0

#include "arena.hpp"

#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <boost/asio/post.hpp>
#include <boost/asio/this_coro.hpp>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <iostream>
#include <new>
#include <stdexcept>
#include <system_error>

#include "participant.hpp"

namespace holdfast::bench {

using std::chrono::milliseconds;

std::optional<clock::time_point> arena::freed_slots::pop() {
  for (auto next = popped_.load(); next < pushed_;) {
    if (!popped_.compare_exchange_weak(next, next + 1)) continue;
    for (;;)  // the process that pushed has advanced `pushed_` already, and is about to write the time
      if (const auto at = at_[next % slots_max].exchange(0)) return clock::time_point(duration(at));
  }
  return {};
}

arena::board& arena::board::make(std::uint32_t contenders) {
  return *new (shared_memory(sizeof(board) + contenders * sizeof(std::uint64_t))) board;
}

arena::arena(const parameters& p)
    : parameters_(p),
      shape_(shape::of(p)),
      handoff_(p.workload == "handoff" || p.workload == "mutex"),
      long_hold_(p.workload == "long-hold"),
      common_(board::make(shape_.contenders())),
      clients_(shape_.all_clients()) {}

std::uint32_t arena::spread() {
  for (std::uint32_t number = 1; number < shape_.processes(); ++number) {
    const pid_t parent = ::getpid(), child = ::fork();
    if (child < 0) throw std::system_error(errno, std::generic_category(), "fork");
    if (child > 0) {
      children_.push_back(child);
      continue;
    }
    ::prctl(PR_SET_PDEATHSIG, SIGKILL);  // the kernel kills this process when the first one ends
    if (::getppid() != parent) std::_Exit(1);
    children_.clear();
    mine_ = &common_.parts[number];
    return number;
  }
  return 0;
}

void arena::finish() {
  if (mine_ != common_.parts) std::_Exit(0);
  for (const pid_t child : children_) {
    int status = 0;
    while (::waitpid(child, &status, 0) < 0 && errno == EINTR) {
    }
    if (!WIFEXITED(status) || WEXITSTATUS(status) != 0) throw std::runtime_error("one of the processes has failed");
  }
  print();
}

void arena::entered(std::uint32_t client, std::uint32_t contender, clock::time_point asked, clock::time_point now) {
  if (!stopping()) common_.limit.enter();  // later, closing takes slots from contenders that are still inside
  if (handoff_)
    if (const auto freed = common_.freed.pop(); freed && measuring_) mine_->handoffs.add(now - *freed);
  if (!clients_[client].served) {
    clients_[client].served = true;
    ++common_.served;
  }
  if (client != common_.last_client) note_turn(client, now);
  if (!measuring_) return;
  ++mine_->operations;
  ++common_.shares[contender];
  mine_->waits.add(now - asked);
}

// A turn ends when another client gets a slot.
void arena::note_turn(std::uint32_t client, clock::time_point now) {
  common_.last_client = client;
  const auto left = clients_[client].left;
  if (measuring_ && left != clock::time_point{}) mine_->turns.add(now - left);
}

void arena::leaving(std::uint32_t client, clock::time_point now) {
  common_.limit.leave();
  clients_[client].left = now;
  if (handoff_) common_.freed.push(now);
}

void arena::cycled(clock::time_point asked, clock::time_point now) {
  if (measuring_) mine_->cycles.add(now - asked);
}

void arena::failed(const boost::system::error_code& why) {
  if (stopping()) return;  // closing the semaphore makes pending acquires fail
  if (mine_->errors++ == 0) std::cerr << "bench: " << why.message() << '\n';
}

asio::awaitable<void> arena::hold() {
  const auto executor = co_await asio::this_coro::executor;
  if (long_hold_) {
    co_await sleep_for(std::chrono::seconds(1));
  } else if (measuring_) {
    co_await asio::post(executor, asio::deferred);
  } else {
    do {
      co_await sleep_for(milliseconds(1));
    } while (must_be_noticed() && !stopping());
  }
}

asio::awaitable<void> arena::conduct(std::function<traffic()> count, std::function<asio::awaitable<void>()> close) {
  const auto around = std::min<duration>(parameters_.window / 4, milliseconds(500));
  const auto give_up = clock::now() + std::chrono::seconds(30);
  while (common_.begin == 0) {
    const auto waiting = clients_.size() - common_.served;
    const auto now = clock::now();
    clock::rep unknown = 0;
    if ((waiting > 0 || must_be_noticed()) && now < give_up)
      co_await sleep_for(milliseconds(5));
    else if (common_.begin.compare_exchange_strong(unknown, (now + around).time_since_epoch().count()))
      common_.not_served = static_cast<std::uint32_t>(waiting);
  }
  const clock::time_point begin(duration(common_.begin.load()));
  co_await sleep_until(begin);

  const auto before = count();
  const auto begun = clock::now();
  measuring_ = true;
  co_await sleep_until(begin + parameters_.window);
  measuring_ = false;
  mine_->measured = clock::now() - begun;
  mine_->used = count() - before;

  co_await sleep_until(begin + parameters_.window + around);
  common_.stopping = true;
  co_await close();
}

// Jain's index over the clients, or over the coroutines if there is only one client.
std::optional<double> arena::fairness(std::uint64_t operations) const {
  const auto all = shape_.contenders();
  std::vector<std::uint64_t> shares(shape_.clients > 1 ? shape_.clients : shape_.coroutines);
  if (operations < 4 * shares.size()) return {};  // too few to tell
  for (std::size_t i = 0; i < all; ++i) shares[i * shares.size() / all] += common_.shares[i];
  return jain(shares);
}

void arena::print() const {
  if (common_.served == 0) throw std::runtime_error("nobody got a slot");
  part all;
  const auto processes = children_.size() + 1;
  for (std::size_t i = 0; i < processes; ++i) {
    const auto& each = common_.parts[i];
    for (const auto times : {&part::waits, &part::handoffs, &part::cycles, &part::turns}) all.*times += each.*times;
    all.operations += each.operations;
    all.errors += each.errors;
    all.used += each.used;
    all.measured += each.measured / processes;
  }
  row r;
  r.set_rates(static_cast<double>(all.operations), all.measured, all.used);
  const bool alone = parameters_.workload.starts_with("cycle");
  r.times = alone ? &all.cycles : handoff_ ? &all.handoffs : &all.waits;
  if (!alone && !shape_.rival) r.jain = fairness(all.operations);
  r.limit_held = common_.limit.held(parameters_.limit);
  r.connections = static_cast<double>(all.used.connections) / static_cast<double>(clients_.size());
  if (shape_.clients > 1 && parameters_.limit == 1 && all.turns.count() > 0)
    r.turn_wait_max = static_cast<double>(all.turns.max().count()) / static_cast<double>(all.turns.mean().count());
  r.processes = static_cast<std::uint32_t>(processes);
  r.not_served = common_.not_served;
  r.errors = all.errors;
  std::puts(r.to_json(parameters_).c_str());
}

}  // namespace holdfast::bench
