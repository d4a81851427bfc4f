#pragma once

#include <string>
#include <vector>

#include "protocol/facts.hpp"
#include "protocol/watch_set.hpp"

namespace holdfast::protocol {

/// What has to be watched now. A handoff should wake those whom it concerns, and send them what they need: so a waiter
/// watches its own entry, for a grant touches it. That suffices as long as those who free a slot see to it that it goes
/// to whoever waits (`grant_duty`). If they die before, nothing may be touched at all, so who has waited for long looks
/// after those before it: the head of the queue after everything, any other after the entry just before its own, which
/// is touched when that contender is granted, leaves or dies.
///
/// A watch of everything is not told when the folder itself is deleted, by its name without the slash, or one above it:
/// Consul keeps the trace of that outside of the folder. Those who watch a key below it are told. So whoever holds for
/// long watches an entry of its own, too.
std::vector<watch> wanted_watches(context& ctx, const facts& f, const watch_set& running);

/// Whether this is the entry of ours that is watched whatever else is.
bool is_own_entry(context& ctx, const facts& f, const watch_set& running, const std::string& key);

/// Slots may be kept here, or handed on here, only while nobody waits elsewhere: then it must be seen who comes.
bool must_know_who_comes(const facts& f);

}  // namespace holdfast::protocol
