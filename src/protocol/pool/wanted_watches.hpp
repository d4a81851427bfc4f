// SPDX-FileCopyrightText: The holdfast authors
// SPDX-License-Identifier: BSL-1.0

#pragma once

#include <string>
#include <vector>

#include "protocol/pool/facts.hpp"
#include "protocol/pool/watch_set.hpp"
#include "protocol/record/entry_value.hpp"

namespace holdfast::protocol {

/// The watches that are wanted now. A handoff should wake only the processes that it concerns, and send them only what
/// they need. So a waiter watches its own entry, because a grant touches it. That suffices as long as each process that
/// frees a slot grants it to a waiter (`grant_duty`). If such a process dies first, it may touch nothing at all. So a
/// process that has waited for long watches the contenders before it. The head of the queue watches everything. Any
/// other waiter watches the entry just before its own, which is touched when that contender is granted, leaves or dies.
/// If there are few contenders, or if the view is not current, it watches everything, too. A waiter watches everything
/// from the beginning if it wants several slots, or if there are contenders that nobody may grant. A holder watches its
/// entries, its numbers and the record, or everything. A slot that is held for less than `watch_delay` gets no watch.
/// After a watch of one key has failed, everything is watched for a while. In a large crowd there is a pause between
/// watches of everything (`everything_pause`).
///
/// A watch of everything is not answered when the folder itself, or a folder above it, is deleted by its name without
/// the slash. Consul keeps the trace of that deletion outside of the folder. A watch of a key below the folder is
/// answered. So a process that holds for long also watches an entry of its own.
std::vector<watch> wanted_watches(moment& at, const facts& f, const watch_set& running);

/// Whether `key` is the entry of ours that is watched even beside a watch of everything.
bool is_own_entry(moment& at, const facts& f, const watch_set& running, const std::string& key);

/// Whether nobody is known to wait elsewhere, and this process keeps spare slots or has local waiters. It may keep
/// slots and hand them on locally for long only while nobody waits elsewhere, so it must notice new contenders.
bool must_know_who_comes(const facts& f);

}  // namespace holdfast::protocol
