// SPDX-FileCopyrightText: The holdfast authors
// SPDX-License-Identifier: BSL-1.0

#include <algorithm>
#include <utility>

#include "sim/support/world_impl.hpp"

namespace holdfast::test {

/// Operators that use the library's administration. They read, write what the core decides, and read again if the write
/// was refused or its outcome is unknown. Several of them act at once.
void world::administrate(int number) {
  if (now() >= last_call_) return;
  carry_out(number, some_order(number), true);
  in(random_.between(50ms, random_.chance(50) ? 1s : 4s), [this, number] { administrate(number); });
}

world::order world::some_order(int number) {
  const auto told = [&](const std::string& words) { mark("administrator " + std::to_string(number) + ": " + words); };
  const snapshot& seen = look();
  const bool closed = seen.record.closed;
  const std::string who = seen.contenders.empty() ? "" : seen.contenders[random_.below(seen.contenders.size())].session;
  switch (random_.below(closed ? 6 : 9)) {
    case 0:
    case 1: {
      const auto slots = static_cast<std::uint32_t>(1 + random_.below(most_slots()));
      told("resize to " + std::to_string(slots));
      return [slots](const inspection& s, bool) {
        return s.now.lock_index == 0 ? protocol::create(s, slots) : protocol::resize(s, slots);
      };
    }
    case 2:
    case 3:
      told("open");
      return [](const inspection& s, bool) { return protocol::set_closed(s, false); };
    case 4:
      told("revoke " + who);
      return [who](const inspection& s, bool first) { return protocol::revoke(s, who, first); };
    case 5:
      told("sweep");
      return [](const inspection& s, bool) { return protocol::sweep(s); };
    case 6:
      told("close");
      return [](const inspection& s, bool) { return protocol::set_closed(s, true); };
    case 7: {
      const bool even_in_use = faults() && random_.chance(10);
      told(even_in_use ? "destroy in use" : "destroy");
      if (even_in_use) referee_.excuse_until(now() + options_.ttl + 4s);
      return [even_in_use, first = std::make_shared<std::uint64_t>(0)](const inspection& s, bool) {
        const instruction next = protocol::destroy(s, even_in_use, *first);
        if (*first == 0) *first = s.now.index;
        return next;
      };
    }
    default:
      if (!faults() || random_.chance(50)) return [](const inspection&, bool) { return instruction(); };
      told("evict " + who);
      referee_.excuse_until(now() + options_.ttl + 4s);
      return [who](const inspection& s, bool first) { return protocol::evict(s, who, first); };
  }
}

void world::carry_out(int number, order what, bool first_read) {
  in(random_.between(50us, options_.latency_max), [this, number, what = std::move(what), first_read] {
    auto seen = make_inspection(std::string(world_prefix), std::string(world_lock_key), consul_.list(world_prefix),
                                consul_.store.raft_index());
    if (!seen) return;
    if (options_.request_bytes != 0) seen->request_bytes = options_.request_bytes;
    const instruction next = what(*seen, first_read);
    if (next.refused || (next.session.empty() && next.operations.empty())) return;
    in(random_.between(50us, 2 * options_.latency_max),
       [this, number, what, next] { write_order(number, what, next); });
  });
}

void world::write_order(int number, order what, const instruction& next) {
  if (!next.session.empty()) {
    unwanted_.insert(next.session);
    consul_.destroy_session(next.session, now());
    return carry_out(number, std::move(what), false);
  }
  say([&] { return "administrator " + std::to_string(number) + ": txn" + describe(next.operations); });
  check_size(next.operations);
  const bool lost = faults() && random_.chance(options_.request_faults);
  if (lost && random_.chance(50)) {  // applied late, if at all
    in(random_.between(1ms, 2 * options_.ttl), [this, next] {
      if (now() < calm_) transact(nullptr, next.operations);
    });
    return carry_out(number, std::move(what), false);
  }
  instruction written = next;
  sabotage_.bend(written, look().lock_index);
  const bool applied = transact(nullptr, written.operations).applied;
  if (applied) free_since_ = never;
  if (!applied || lost || next.more) return carry_out(number, std::move(what), false);
  if (next.reads) grant_the_rest(number, std::move(what));
}

/// The command is carried out. Its write has shown the state at that time. Contenders that had joined unseen are
/// granted now, unless somebody else has written meanwhile.
void world::grant_the_rest(int number, order what) {
  auto seen = make_inspection(std::string(world_prefix), std::string(world_lock_key), consul_.list(world_prefix),
                              consul_.store.raft_index());
  if (!seen) return;
  if (options_.request_bytes != 0) seen->request_bytes = options_.request_bytes;
  const instruction next = what(*seen, false);
  if (next.refused || next.operations.empty()) return;
  in(random_.between(50us, 2 * options_.latency_max), [this, number, what = std::move(what), next] {
    say([&] { return "administrator " + std::to_string(number) + ": txn" + describe(next.operations); });
    check_size(next.operations);
    if (transact(nullptr, next.operations).applied) grant_the_rest(number, what);
  });
}

/// Restores the first limit and opens the record for the end of the run, when all other commands are done.
void world::restore_order() {
  const auto usual = [slots = options_.limit](const inspection& s, bool) {
    return s.now.lock_index == 0 ? instruction() : protocol::resize(s, slots);
  };
  const auto open = [](const inspection& s, bool) { return protocol::set_closed(s, false); };
  in(1s, [this, usual, open] {
    carry_out(0, usual, true);
    carry_out(1, open, true);
  });
}

}  // namespace holdfast::test
