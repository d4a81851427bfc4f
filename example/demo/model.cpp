// SPDX-FileCopyrightText: The holdfast authors
// SPDX-License-Identifier: BSL-1.0

#include "model.hpp"

#include <algorithm>
#include <boost/json/parse.hpp>
#include <boost/json/value.hpp>
#include <cstdio>
#include <sstream>
#include <utility>

namespace demo {

namespace {

constexpr std::size_t history_max = 200;
constexpr std::size_t complaints_max = 5;

std::string seconds(double s) {
  char text[32];
  std::snprintf(text, sizeof text, "%.1f s", s);
  return text;
}

std::string slots_in_words(std::size_t n) { return std::to_string(n) + (n == 1 ? " slot" : " slots"); }

}  // namespace

model::model(const options& o) : settings(o), slots(static_cast<std::size_t>(o.limit)) {}

void model::note(std::string text) { events.push_back({now(), std::move(text)}); }

void model::complain(std::string text) {
  if (complaints.size() >= complaints_max || std::find(complaints.begin(), complaints.end(), text) != complaints.end())
    return;
  note("WRONG: " + text);
  complaints.push_back(std::move(text));
}

worker_view* model::find(char name) {
  const auto at = std::find_if(workers.begin(), workers.end(), [&](const auto& w) { return w.name == name; });
  return at == workers.end() ? nullptr : &*at;
}

std::size_t model::named(char owner) const {
  return static_cast<std::size_t>(std::count_if(
      slots.begin(), slots.end(), [&](const slot_view& s) { return s.owner == owner && !s.session.empty(); }));
}

worker_view& model::busiest() {
  return *std::max_element(workers.begin(), workers.end(),
                           [&](const auto& a, const auto& b) { return named(a.name) < named(b.name); });
}

void model::line(std::string_view text) {
  std::istringstream words{std::string(text)};
  char name = 0;
  std::string what;
  words >> name >> what;
  worker_view* const w = find(name);
  if (!w) return;
  if (what == "enter") {
    int coroutine = 0;
    std::string token;
    words >> coroutine >> token;
    w->believers.insert(coroutine);
    ++w->taken;
    if (!token.ends_with(".0")) ++w->handoffs;  // the slot changed hands inside the process
  } else if (what == "leave" || what == "lost") {
    int coroutine = 0;
    words >> coroutine;
    w->believers.erase(coroutine);
    if (what == "lost") {
      ++lost;
      note(std::string("process ") + name + " lost a slot, and noticed");
    }
  } else if (what == "died") {
    w->believers.clear();
  } else if (what == "stats") {
    words >> w->waiting >> w->requests;
    if (w->state == state::starting) w->state = state::working;
  } else if (what == "error") {
    complain(std::string("process ") + name + ":" + std::string(text.substr(text.find("error") + 5)));
  }
  believing = 0;
  for (const worker_view& each : workers) believing += each.believers.size();
  believing_most = std::max(believing_most, believing);
  if (believing > slots.size())
    complain(std::to_string(believing) + " coroutines believed that they held one of " + slots_in_words(slots.size()));
}

/// Parses the record itself, as any program can: its form is `{"Limit":4,"Holders":{"<session>":true}}`.
void model::listing(const std::vector<holdfast::consul::kv_entry>& all) {
  std::set<std::string> holders;
  entries = 0;
  for (const holdfast::consul::kv_entry& entry : all) {
    if (!entry.key.ends_with("/.lock")) {
      owners_[entry.session] = entry.value.empty() ? '?' : entry.value[0];
      ++entries;
      continue;
    }
    boost::system::error_code ec;
    const boost::json::value record = boost::json::parse(entry.value, ec);
    const boost::json::object* const object = ec ? nullptr : record.if_object();
    const boost::json::value* const named = object ? object->if_contains("Holders") : nullptr;
    if (!named || !named->is_object()) {
      complain("the lock record is not one: " + entry.value.substr(0, 60));
      return;
    }
    for (const auto& holder : named->get_object()) holders.emplace(holder.key());
  }

  in_record = holders.size();
  in_record_most = std::max(in_record_most, in_record);
  if (in_record > slots.size())
    complain("the record names " + std::to_string(in_record) + " holders of " + slots_in_words(slots.size()));

  for (slot_view& s : slots)
    if (!holders.erase(s.session)) s = {{}, '.', std::move(s.history)};
  for (slot_view& s : slots) {
    if (!s.session.empty() || holders.empty()) continue;
    s.session = std::move(holders.extract(holders.begin()).value());
    s.owner = owners_.contains(s.session) ? owners_[s.session] : '?';
  }

  if (victim == 0 || recovered_after) return;
  const std::size_t dead = named(victim);
  if (dead > victim_held_most && dead == slots.size())
    note("all " + slots_in_words(dead) + " are in dead hands: its sessions in the queue have had their turn, too");
  victim_held_most = std::max(victim_held_most, dead);
  if (dead != 0 || in_record < slots.size()) return;
  recovered_after = now() - killed_at;
  note("the sessions of " + std::string(1, victim) + " have ended, and others hold " + slots_in_words(slots.size()) +
       " again: " + seconds(*recovered_after) + " after the kill");
}

void model::sample() {
  for (slot_view& s : slots) {
    s.history += s.owner == victim && victim != 0 ? 'x' : s.owner;
    if (s.history.size() > history_max) s.history.erase(0, s.history.size() - history_max);
  }
}

void model::begin_kill(worker_view& w) {
  victim = w.name;
  w.state = state::killed;
  killed_at = now();
  victim_held = victim_held_most = named(w.name);
}

void model::confirm_death(worker_view& w) {
  note("killed process " + std::string(1, w.name) + " (SIGKILL) while it held " + slots_in_words(victim_held) +
       "; its sessions end within 2 x TTL = " + seconds(2 * std::chrono::duration<double>(settings.ttl).count()));
}

}  // namespace demo
