#pragma once

#include <string>
#include <vector>

#include "protocol/facts.hpp"
#include "protocol/watch_set.hpp"

namespace holdfast::protocol {

/// The watches that are wanted now. A handoff should wake only the processes that it concerns, and send them only what
/// they need. So a waiter watches its own entry, because a grant touches it. That suffices as long as each process that
/// frees a slot grants it to a waiter (`grant_duty`). If such a process dies first, it may touch nothing at all. So a
/// process that has waited for long watches the contenders before it. The head of the queue watches everything. Any
/// other waiter watches the entry just before its own, which is touched when that contender is granted, leaves or dies.
///
/// A watch of everything is not answered when the folder itself, or a folder above it, is deleted by its name without
/// the slash. Consul keeps the trace of that deletion outside of the folder. A watch of a key below the folder is
/// answered. So a process that holds for long also watches an entry of its own.
std::vector<watch> wanted_watches(context& ctx, const facts& f, const watch_set& running);

/// Whether `key` is the entry of ours that is watched in any case.
bool is_own_entry(context& ctx, const facts& f, const watch_set& running, const std::string& key);

/// Whether this process keeps slots, or hands them on locally. It may do so only while nobody waits elsewhere, so it
/// must notice new contenders.
bool must_know_who_comes(const facts& f);

}  // namespace holdfast::protocol
