// SPDX-FileCopyrightText: The holdfast authors
// SPDX-License-Identifier: BSL-1.0

#include "support/verdict.hpp"

#include <algorithm>
#include <cstdlib>
#include <fstream>
#include <map>
#include <set>
#include <sstream>
#include <utility>

#include "support/referee.hpp"
#include "support/timeline.hpp"

namespace holdfast::test {
namespace {

using protocol::duration;
using protocol::time_point;

/// One coroutine of one process.
using place = std::pair<std::string, int>;

struct holding {
  time_point lease;
  protocol::slot_id slot;
  std::string what;  ///< the name of the slot; empty if slots have no names
};

struct waiting {
  time_point since;  ///< the first ask
  protocol::ticket ticket;
  bool asked;  ///< the referee knows the ticket as open; false between a failure and the next ask
};

double in_seconds(duration d) { return std::chrono::duration<double>(d).count(); }

/// Reads a journal in the order of time.
class reader {
public:
  reader(std::uint32_t limit, duration bound) : limit_(limit), bound_(bound), referee_(limit) {
    result_.waits.push_back({{}, {}, "the start"});
  }

  void take(const journal_entry& entry) {
    if (!begun_) {
      begun_ = true;
      now_ = free_since_ = disturbed_ = entry.at;
    }
    pass_time(entry.at);
    look_at_waiters();
    apply(entry);
    const std::size_t now_believing = believers(now_);
    result_.believers_max = std::max(result_.believers_max, now_believing);
    if (!was_free_ && now_believing < limit_) free_since_ = now_;
    was_free_ = now_believing < limit_;
    referee_.check_believers(now_);
  }

  verdict end() {
    result_.violation = referee_.violation();
    return std::move(result_);
  }

private:
  std::size_t believers(time_point at) const {
    return static_cast<std::size_t>(
        std::count_if(holds_.begin(), holds_.end(), [&](const auto& each) { return at < each.second.lease; }));
  }

  /// Ends the leases that run out until `to`: no journal line says that.
  void pass_time(time_point to) {
    std::vector<time_point> steps;
    for (const auto& [where, each] : holds_)
      if (now_ < each.lease && each.lease < to) steps.push_back(each.lease);
    std::sort(steps.begin(), steps.end());
    steps.push_back(to);
    for (const time_point step : steps) {
      if (believers(now_) > limit_) result_.overlap += step - now_;
      now_ = step;
      if (!was_free_ && believers(now_) < limit_) {
        free_since_ = now_;
        was_free_ = true;
      }
    }
  }

  void look_at_waiters() {
    if (!was_free_) return;
    for (const auto& [where, each] : waits_) {
      if (away_.contains(where.first)) continue;
      time_point from = std::max({each.since, free_since_, disturbed_});
      if (const auto back = back_.find(where.first); back != back_.end()) from = std::max(from, back->second);
      longest_wait& longest = result_.waits.back();
      if (now_ - from <= longest.length) continue;
      longest.length = now_ - from;
      longest.who = where.first;
      if (longest.length > bound_) {
        std::ostringstream what;
        what << longest.who << " waits for " << in_seconds(longest.length) << " s while a slot is free, after "
             << longest.after << "; the bound is " << in_seconds(bound_) << " s";
        referee_.object(guarantee::progress, what.str());
      }
    }
  }

  int number_of(const std::string& who) {
    return numbers_.emplace(who, static_cast<int>(numbers_.size())).first->second;
  }

  void apply(const journal_entry& entry) {
    const place where(entry.who, entry.slot);
    const int process = number_of(entry.who);
    switch (entry.what) {
      case journal_event::asked: {
        const auto ticket = static_cast<protocol::ticket>(++tickets_);
        const auto [at, first] = waits_.emplace(where, waiting{entry.at, ticket, true});
        if (!first) {
          at->second.ticket = ticket;
          at->second.asked = true;
        }
        referee_.asked(process, ticket);
        break;
      }
      case journal_event::enter: {
        ++result_.entered;
        const auto slot = static_cast<protocol::slot_id>(++slots_);
        const auto asked = waits_.find(where);
        const bool known = asked != waits_.end() && asked->second.asked;
        if (!known) referee_.object(guarantee::answers, entry.who + " entered without having asked");
        if (known) referee_.granted(process, asked->second.ticket, slot, 1, entry.token, entry.at, entry.lease);
        if (known) waits_.erase(asked);
        for (const auto& [other, each] : holds_)
          if (!entry.words.empty() && each.what == entry.words && entry.at < each.lease)
            referee_.object(guarantee::numbers, entry.who + " has " + each.what + ", which " + other.first + " has");
        holds_.insert_or_assign(where, holding{entry.lease, slot, entry.words});
        break;
      }
      case journal_event::lease: {
        const auto at = holds_.find(where);
        if (at == holds_.end()) {
          referee_.object(guarantee::losses, entry.who + " extends a lease that it does not have");
          break;
        }
        at->second.lease = entry.lease;
        referee_.updated(process, at->second.slot, entry.lease);
        break;
      }
      case journal_event::lost:
        ++result_.lost;
        [[fallthrough]];
      case journal_event::leave:
        if (const auto at = holds_.find(where); at != holds_.end()) {
          referee_.gone(process, at->second.slot, entry.what == journal_event::leave);
          holds_.erase(at);
        } else {
          referee_.object(guarantee::losses, entry.who + " ends what it does not have");
        }
        break;
      case journal_event::failed:
        ++result_.failed;
        if (const auto at = waits_.find(where); at != waits_.end() && at->second.asked) {
          referee_.answered(process, at->second.ticket);
          at->second.asked = false;
        }
        break;
      case journal_event::gone:
        forget(entry, process);
        break;
      case journal_event::away:
        away_.insert(entry.who);
        break;
      case journal_event::back:
        away_.erase(entry.who);
        back_[entry.who] = entry.at;
        break;
      case journal_event::fault:
      case journal_event::mended:
        disturbed_ = entry.at;
        result_.waits.push_back({{}, {}, entry.words});
        break;
      case journal_event::limit:
        limit_ = static_cast<std::uint32_t>(std::stoul(entry.words));
        referee_.set_limit(limit_);
        break;
      case journal_event::checked:
      case journal_event::wrote:
      case journal_event::saw:
        break;
    }
  }

  void forget(const journal_entry& entry, int process) {
    const auto its = [&](const auto& each) {
      return each.first.first == entry.who && (entry.slot < 0 || each.first.second == entry.slot);
    };
    if (entry.slot < 0) {
      referee_.crashed(process);
    } else {
      for (const auto& [where, each] : waits_)
        if (where == place(entry.who, entry.slot) && each.asked) referee_.answered(process, each.ticket);
      for (const auto& [where, each] : holds_)
        if (where == place(entry.who, entry.slot)) referee_.gone(process, each.slot, true);
    }
    std::erase_if(waits_, its);
    std::erase_if(holds_, its);
  }

  std::uint32_t limit_;
  const duration bound_;
  referee referee_;
  verdict result_;
  bool begun_ = false;
  bool was_free_ = true;
  time_point now_{}, free_since_{}, disturbed_{};
  std::map<std::string, int> numbers_;
  std::map<place, holding> holds_;
  std::map<place, waiting> waits_;
  std::set<std::string> away_;
  std::map<std::string, time_point> back_;
  std::uint64_t tickets_ = 0, slots_ = 0;
};

}  // namespace

const longest_wait& verdict::longest() const {
  return *std::max_element(waits.begin(), waits.end(),
                           [](const auto& a, const auto& b) { return a.length < b.length; });
}

std::string verdict::summary() const {
  std::ostringstream out;
  out.precision(3);
  out << entered << " entered, " << lost << " lost their slot, " << failed << " acquires failed; at most "
      << believers_max << " believed at once";
  if (overlap > duration::zero()) out << ", too many for " << in_seconds(overlap) << " s";
  out << "; longest wait while a slot was free:";
  for (const longest_wait& each : waits) {
    out << (&each == &waits.front() ? " " : ", ") << in_seconds(each.length) << " s after " << each.after;
    if (!each.who.empty()) out << " (" << each.who << ')';
  }
  return out.str();
}

verdict judge(const std::vector<journal_entry>& entries, std::uint32_t limit, duration bound) {
  reader all(limit, bound);
  for (const journal_entry& each : entries) all.take(each);
  return all.end();
}

std::string picture_of(const std::vector<journal_entry>& entries, const std::string& title) {
  timeline picture(title);
  if (entries.empty()) return picture.svg();
  const time_point begin = entries.front().at, end = entries.back().at;
  std::set<place> held;
  std::map<std::string, std::pair<time_point, std::string>> away;
  const auto over = [&](const place& where, time_point at, timeline::end how) {
    picture.ends(where.first, std::to_string(where.second), at - begin, how);
    held.erase(where);
  };
  for (const journal_entry& each : entries) {
    const place where(each.who, each.slot);
    switch (each.what) {
      case journal_event::enter:
        held.insert(where);
        picture.holds(each.who, std::to_string(each.slot), each.at - begin, "token " + each.token.to_string());
        [[fallthrough]];
      case journal_event::lease:  // belief ends with the lease, even if the process writes that down later
        if (each.lease != protocol::never) picture.lease(each.who, std::to_string(each.slot), each.lease - begin);
        break;
      case journal_event::leave:
        over(where, each.at, timeline::end::released);
        break;
      case journal_event::lost:
        over(where, each.at, timeline::end::lost);
        break;
      case journal_event::gone:
        if (each.slot >= 0) {
          over(where, each.at, timeline::end::crashed);
          break;
        }
        for (auto at = held.begin(); at != held.end();) {
          const place its = *at++;
          if (its.first == each.who) over(its, each.at, timeline::end::crashed);
        }
        picture.mark(each.who, each.at - begin, "killed");
        break;
      case journal_event::failed:
        picture.mark(each.who, each.at - begin, each.words);
        break;
      case journal_event::away:
        away[each.who] = {each.at, each.words};
        break;
      case journal_event::back:
        if (const auto at = away.find(each.who); at != away.end()) {
          picture.shade(each.who, at->second.first - begin, each.at - begin, at->second.second);
          away.erase(at);
        }
        break;
      case journal_event::fault:
      case journal_event::mended:
        picture.mark(each.at - begin, each.words);
        break;
      case journal_event::limit:
        picture.mark(each.at - begin, "limit " + each.words);
        break;
      case journal_event::asked:
      case journal_event::checked:
      case journal_event::wrote:
      case journal_event::saw:
        break;
    }
  }
  for (const auto& [who, since] : away) picture.shade(who, since.first - begin, end - begin, since.second);
  return picture.svg();
}

std::string document(const std::vector<journal_entry>& entries, const std::string& name, const std::string& title) {
  const char* const folder = std::getenv("HOLDFAST_PICTURES");
  const std::filesystem::path base = std::filesystem::path(folder && *folder ? folder : ".") / name;
  std::ofstream(base.string() + ".svg") << picture_of(entries, title);
  std::ofstream log(base.string() + ".log");
  for (const journal_entry& each : entries) log << to_line(each) << '\n';
  return std::filesystem::absolute(base).string() + ".svg and .log tell what happened";
}

}  // namespace holdfast::test
