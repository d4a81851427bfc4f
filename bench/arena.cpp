#include "arena.hpp"

#include <algorithm>
#include <boost/asio/post.hpp>
#include <boost/asio/this_coro.hpp>
#include <cstdio>
#include <iostream>
#include <stdexcept>

#include "process.hpp"

namespace holdfast::bench {

using std::chrono::milliseconds;

arena::arena(const parameters& p)
    : parameters_(p),
      shape_(shape::of(p)),
      processes_(shape_.processes + (shape_.rival ? 1 : 0)),
      shares_(std::size_t{shape_.processes} * shape_.coroutines + (shape_.rival ? 1 : 0)) {}

void arena::entered(std::uint32_t process, std::uint32_t contender, clock::time_point asked, clock::time_point now) {
  limit_.enter();
  ++processes_[process].entered;
  if (!freed_.empty()) {
    if (measuring_) handoffs_.add(now - freed_.front());
    freed_.pop_front();
  }
  if (process != last_process_) note_turn(process, now);
  if (!measuring_) return;
  ++operations_;
  ++shares_[contender];
  waits_.add(now - asked);
}

// A turn ends when another process gets a slot.
void arena::note_turn(std::uint32_t process, clock::time_point now) {
  last_process_ = process;
  const auto left = processes_[process].left;
  if (measuring_ && left != clock::time_point{}) turns_.add(now - left);
}

void arena::leaving(std::uint32_t process, clock::time_point now) {
  limit_.leave();
  processes_[process].left = now;
  freed_.push_back(now);
}

void arena::cycled(clock::time_point asked, clock::time_point now) {
  if (measuring_) cycles_.add(now - asked);
}

void arena::failed(const boost::system::error_code& why) {
  if (stopping_) return;  // they are told that the semaphore was closed
  if (errors_++ == 0) std::cerr << "bench: " << why.message() << '\n';
}

bool arena::all_had_a_turn() const {
  return std::all_of(processes_.begin(), processes_.end(), [](const participant& p) { return p.entered > 0; });
}

asio::awaitable<void> arena::hold() {
  const auto executor = co_await asio::this_coro::executor;
  if (measuring_)
    co_await asio::post(executor, asio::deferred);
  else
    co_await sleep_for(milliseconds(1));
}

asio::awaitable<void> arena::conduct(std::function<traffic()> count, std::function<asio::awaitable<void>()> close) {
  const auto give_up = clock::now() + std::chrono::seconds(2) + parameters_.window;
  while (!all_had_a_turn() && clock::now() < give_up) {
    co_await sleep_for(milliseconds(5));
  }
  const auto around = std::min<duration>(parameters_.window / 4, milliseconds(500));
  co_await sleep_for(around);

  const auto before = count();
  const auto begun = clock::now();
  measuring_ = true;
  co_await sleep_for(parameters_.window);
  measuring_ = false;
  measured_ = clock::now() - begun;
  traffic_ = count() - before;

  co_await sleep_for(around);
  limit_held_ = limit_.held(parameters_.limit);  // closing takes slots from those who are inside
  stopping_ = true;
  co_await close();
}

// Between processes, or else between coroutines.
std::optional<double> arena::fairness() const {
  std::vector<std::uint64_t> shares(shape_.processes > 1 ? shape_.processes : shape_.coroutines);
  if (operations_ < 4 * shares.size()) return {};  // too few to tell
  for (std::size_t i = 0; i < shares_.size(); ++i) shares[i * shares.size() / shares_.size()] += shares_[i];
  return jain(shares);
}

void arena::print() const {
  if (std::none_of(processes_.begin(), processes_.end(), [](const participant& p) { return p.entered > 0; }))
    throw std::runtime_error("nobody got a slot");
  row r;
  r.set_rates(static_cast<double>(operations_), measured_, traffic_);
  const bool alone = parameters_.workload.starts_with("cycle");
  r.times = alone                                                                  ? &cycles_
            : parameters_.workload == "handoff" || parameters_.workload == "mutex" ? &handoffs_
                                                                                   : &waits_;
  if (!alone && !shape_.rival) r.jain = fairness();
  r.limit_held = limit_held_;
  r.connections = static_cast<double>(traffic_.connections) / static_cast<double>(processes_.size());
  if (shape_.processes > 1 && parameters_.limit == 1 && turns_.count() > 0)
    r.turn_wait_max = static_cast<double>(turns_.max().count()) / static_cast<double>(turns_.mean().count());
  r.errors = errors_;
  std::puts(r.to_json(parameters_).c_str());
}

}  // namespace holdfast::bench
