// SPDX-FileCopyrightText: The holdfast authors
// SPDX-License-Identifier: BSL-1.0

#include "cli/explain.hpp"

#include <algorithm>
#include <chrono>
#include <cstddef>

#include "cli/status.hpp"

namespace holdfast::cli {

namespace {

using maker_function = std::function<maker_state(const std::string&)>;

using session_map = std::map<std::string, consul::session_info>;

std::string called(const contender_status& each) {
  return each.session + (each.description.empty() ? "" : " (" + each.description + ")");
}

std::string counted(std::size_t count, const std::string& thing) {
  return std::to_string(count) + " " + thing + (count == 1 ? "" : "s");
}

/// The object of "holds" in the sentence about a holder.
std::string thing_of(const lock_status& now) {
  return now.kind == lock_kind::semaphore ? "a slot" : now.kind == lock_kind::mutex ? "the mutex or leads" : "a lock";
}

std::string about_holder(const contender_status& each, const std::string& thing, const session_map& sessions,
                         const maker_function& maker) {
  std::string text = called(each) + " holds " + thing;
  if (each.age) text += "; it joined " + shown(*each.age) + " ago";
  text += ". ";
  if (each.revoked) text += "An operator has asked for the slot. ";
  if (each.provisional) text += "It has not accepted the grant yet: if it is dead, the slot is taken back soon. ";
  const auto its = sessions.find(each.session);
  if (its != sessions.end() && !its->second.name.empty()) text += "Its session is named '" + its->second.name + "'. ";
  const bool has_no_ttl = its != sessions.end() && its->second.ttl.count() == 0;
  const bool has_ttl = its != sessions.end() && its->second.ttl.count() != 0;
  const std::string ttl =
      has_ttl ? shown(std::chrono::ceil<std::chrono::seconds>(2 * its->second.ttl)) : std::string("an unknown time");
  switch (maker(each.session)) {
    case maker_state::lives:
      text += "Its process is alive on this host, or was stopped there.";
      break;
    case maker_state::gone:
      text +=
          "Its process on this host is gone. The next process that waits on this host takes the slot. Without one, "
          "Consul ends the session " +
          ttl + " after its last renewal, or later if it elects a leader meanwhile.";
      break;
    case maker_state::unknown:
      text += "It is not known here whether its process is alive. ";
      text += has_no_ttl ? "Its session has no TTL, so Consul does not end it."
                         : "If not, Consul ends the session " + ttl +
                               " after its last renewal, or later if it elects a leader meanwhile.";
      break;
  }
  return text;
}

/// `gone` is how many of those before it have died on this host.
std::string about_waiter(const contender_status& each, std::size_t gone, bool is_gone) {
  const std::size_t before = each.place == 0 ? 0 : each.place - 1;
  std::string text = called(each) + " waits";
  if (each.age) text += " for " + shown(*each.age);
  text += before == 0 ? ". It is next." : ". " + counted(before, "contender") + " stand before it.";
  if (before == 1) text = text.substr(0, text.size() - std::string("stand before it.").size()) + "stands before it.";
  if (gone == 1) text += " Of these, 1 was a process on this host that is gone.";
  if (gone > 1) text += " Of these, " + std::to_string(gone) + " were processes on this host that are gone.";
  if (is_gone) text += " Its own process is gone: nobody will use its slot.";
  if (each.kind != contender_kind::holdfast)
    text += " It is another client, which takes a free slot itself and is not granted one.";
  return text;
}

}  // namespace

std::vector<std::string> explanation(const std::string& prefix, const lock_status& now, const std::string& session,
                                     const session_map& sessions, const maker_function& maker) {
  std::vector<std::string> lines;
  if (!now.exists)
    return {prefix + ": there is no semaphore, and nothing is held. `holdfast list` shows what is below it."};
  const std::string held = std::to_string(now.holders.size());
  const std::string waiting = std::to_string(now.queue.size()) + " waiting";
  switch (now.kind) {
    case lock_kind::semaphore:
      lines.push_back(prefix + ": " + held + " of " + counted(now.limit, "slot") + " held, " + waiting + ".");
      break;
    case lock_kind::mutex:
      lines.push_back(prefix + ": a mutex or an election, " + (now.holders.empty() ? "not held, " : "held, ") +
                      waiting + ".");
      break;
    case lock_kind::mutex_set:
      lines.push_back(prefix + ": a mutex set, " + counted(now.holders.size(), "lock") + " held.");
      break;
  }
  if (now.closed) lines.emplace_back("An operator has closed it: nobody is granted a slot until `holdfast open`.");
  if (now.holders.size() > now.limit)
    lines.push_back("The limit was lowered: nobody is granted a slot until fewer than " + std::to_string(now.limit) +
                    " are held.");
  if (now.dead_holders != 0)
    lines.push_back(counted(now.dead_holders, "holder") +
                    " in the record without a session. The slots may be kept from others for the rest of the leases.");
  if (now.dead_entries != 0)
    lines.push_back(std::to_string(now.dead_entries) + (now.dead_entries == 1 ? " entry" : " entries") +
                    " of dead sessions. They keep no slot.");
  const auto is_asked_for = [&](const contender_status& each) { return session.empty() || each.session == session; };
  const bool is_there = std::any_of(now.queue.begin(), now.queue.end(), is_asked_for) ||
                        std::any_of(now.holders.begin(), now.holders.end(), is_asked_for);
  if (!session.empty() && !is_there) lines.push_back(session + " neither holds nor waits.");
  for (const contender_status& each : now.holders) lines.push_back(about_holder(each, thing_of(now), sessions, maker));
  std::size_t gone = 0;
  for (const contender_status& each : now.queue) {
    const bool is_gone = maker(each.session) == maker_state::gone;
    if (is_asked_for(each)) lines.push_back(about_waiter(each, gone, is_gone));
    gone += is_gone;
  }
  const std::size_t free =
      now.limit > now.holders.size() + now.dead_holders ? now.limit - now.holders.size() - now.dead_holders : 0;
  if (free != 0 && !now.queue.empty() && !now.closed)
    lines.push_back(counted(free, "slot") +
                    " free while somebody waits. This lasts for a moment. If it lasts longer, a "
                    "process at the head of the queue is dead or cannot reach Consul.");
  if (!now.holders.empty() || !now.queue.empty())
    lines.emplace_back(
        "Coroutines and threads that wait inside of one of these processes are not seen here: the metrics "
        "of the process count them.");
  return lines;
}

}  // namespace holdfast::cli
