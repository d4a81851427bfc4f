// SPDX-FileCopyrightText: The holdfast authors
// SPDX-License-Identifier: BSL-1.0

#include <algorithm>

#include "sim/support/world_impl.hpp"

// The run directory of one host. Each process that has it keeps a file for each of its sessions there. The kernel shows
// when the process is gone.

namespace holdfast::test {

void world::perform(process& p, action::watch_makers& a) {
  p.watches_makers = a.on;
  if (!a.on) return;
  for (const auto& each : processes_)
    if (!each->alive)
      for (const std::string& session : each->files) tell_of_maker(p, session);
}

/// The kernel tells each watcher a moment after the process has ended.
void world::tell_all_of(const process& maker) {
  for (const auto& each : processes_)
    if (each->alive && each->watches_makers && each.get() != &maker)
      for (const std::string& session : maker.files) tell_of_maker(*each, session);
}

void world::tell_of_maker(process& p, const std::string& session) {
  in(random_.between(0ms, 40ms), [this, &p, session] {
    when_running(p, [this, &p, session] {
      say([&] { return name(p) + ": the maker of " + session + " is gone"; });
      p.proofs.try_emplace(session, now());
      step(p, event::maker_gone{session});
    });
  });
}

/// A process has freed the slot of a dead one.
void world::remove_file(const std::string& session) {
  bool is_removed = false;
  for (const auto& each : processes_) is_removed = each->files.erase(session) != 0 || is_removed;
  if (!is_removed) return;
  for (const auto& each : processes_) {
    if (!each->alive || !each->watches_makers) continue;
    process& p = *each;
    in(random_.between(0ms, 40ms),
       [this, &p, session] { when_running(p, [this, &p, session] { step(p, event::maker_file_removed{session}); }); });
  }
}

/// G5: a process that waits, and has proof that the maker of another contender is gone, frees the slot and the place of
/// that contender soon.
void world::check_makers() {
  const duration moment = 1s + options_.lock_delay + 30 * options_.slowest();
  const snapshot& seen = look();
  for (const auto& p : processes_) {
    const bool is_disturbed_now = !p->alive || is_disturbed(*p);
    const bool waits = p->watches_makers && !is_disturbed_now && !may_be_silent(*p) && !p->requests.empty() &&
                       p->requests.begin()->second.patient && p->leases.size() < limit();
    if (!waits)
      p->waits_since = never;
    else if (p->waits_since == never)
      p->waits_since = now();
    if (!waits || now() - p->waits_since < moment) continue;
    for (const auto& [session, at] : p->proofs)
      if (now() - at > moment && seen.find(session))
        object(guarantee::progress, name(*p) + " waits, and leaves the slot of " + session + " to a dead process");
  }
}

}  // namespace holdfast::test
