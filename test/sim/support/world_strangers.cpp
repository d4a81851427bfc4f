// SPDX-FileCopyrightText: The holdfast authors
// SPDX-License-Identifier: BSL-1.0

#include <utility>

#include "sim/support/world_impl.hpp"

namespace holdfast::test {

void world::start_stranger(int number) {
  strangers_.push_back({number, {}, stranger::outside, random_.chance(30)});
  in(random_.between(0s, 2s), [this, i = strangers_.size() - 1] { stranger_step(i); });
}

void world::stranger_step(std::size_t i) {
  stranger& g = strangers_[i];
  const auto leave = [&] {
    g.state = stranger::leaving;
    referee_.stranger_holds(g.number, false);
    if (told_.picture)
      told_.picture->ends("go " + std::to_string(g.number), "", now().time_since_epoch(), timeline::end::released);
  };
  duration next = random_.between(1ms, 30ms);
  if (!g.session.empty() && !consul_.renew_session(g.session, now())) {  // an operator has ended it
    leave();
    g.session.clear();
    g.state = stranger::outside;
  }
  switch (g.state) {
    case stranger::outside:
      if (now() >= last_call_) return;
      g.session = consul_.create_session(options_.ttl, now());
      if (!options_.mutex)  // a contender that waits for a mutex has no entry
        consul_.transact({{kv_verb::lock, std::string(world_prefix) + g.session, "go", semaphore_flags, 0, g.session}},
                         now());
      g.state = stranger::waiting;
      break;
    case stranger::waiting: {
      if (now() >= last_call_ || (g.abandoned && random_.chance(2))) {
        g.state = stranger::leaving;
        break;
      }
      if (g.abandoned) break;
      const snapshot seen = standing();
      g.seen = seen.record;
      g.seen_at = seen.lock_index;
      if (options_.mutex) {
        if (!seen.record.holders.empty()) break;
        g.state = stranger::taking;
        next = random_.between(100us, options_.latency_max);
        break;
      }
      if (!seen.find(g.session)) {
        g.state = stranger::leaving;
        break;
      }
      g.seen.limit = limit();  // it was started with the limit that an operator has set
      std::erase_if(g.seen.holders, [&](const std::string& holder) { return !seen.find(holder); });
      if (g.seen.holders.size() >= g.seen.limit) break;
      g.seen.add(g.session);
      g.state = stranger::taking;
      next = random_.between(100us, options_.latency_max);
      break;
    }
    case stranger::taking:
      g.state = stranger::waiting;
      if (!(options_.mutex ? write_mutex(kv_verb::lock, g.session) : write_record(g.seen, g.seen_at))) break;
      say([&] { return "go " + g.session + " takes a slot"; });
      if (told_.picture) told_.picture->holds("go " + std::to_string(g.number), "", now().time_since_epoch());
      g.state = stranger::holding;
      referee_.stranger_holds(g.number, true);
      next = random_.between(0ms, 200ms);
      break;
    case stranger::holding: {
      say([&] { return "go " + g.session + " gives its slot back"; });
      leave();  // for a moment its entry looks like that of a waiting contender
      if (options_.mutex) {
        write_mutex(kv_verb::unlock, g.session);
        break;
      }
      const snapshot seen = standing();
      lock_record record = seen.record;
      record.drop(g.session);
      if (seen.lock_index != 0) write_record(record, seen.lock_index);
      break;
    }
    case stranger::leaving: {
      consul_.destroy_session(std::exchange(g.session, {}), now());
      g.state = stranger::outside;
      const snapshot seen = standing();
      if (seen.lock_index != 0 && seen.record.holders.empty() && random_.chance(50))
        consul_.remove(std::string(world_lock_key), now());
      next = random_.between(0ms, 1s);
      break;
    }
  }
  in(next, [this, i] { stranger_step(i); });
}

bool world::write_mutex(kv_verb how, const std::string& session) {
  return consul_.transact({{how, std::string(world_lock_key), "go", mutex_flags, 0, session}}, now()).applied;
}

bool world::write_record(const lock_record& record, std::uint64_t index) {
  lock_record known = record;  // this client drops members that it does not know
  known.closed = false;
  known.revoked.clear();
  return consul_.transact({{kv_verb::cas, std::string(world_lock_key), format(known), semaphore_flags, index}}, now())
      .applied;
}

}  // namespace holdfast::test
