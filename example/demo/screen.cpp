// SPDX-FileCopyrightText: The holdfast authors
// SPDX-License-Identifier: BSL-1.0

#include "screen.hpp"

#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <cstdarg>
#include <cstdio>
#include <cstdlib>

namespace demo {

namespace {

constexpr std::size_t events_shown = 5;
constexpr std::size_t strip_offset = 25;  // columns before a slot's history
constexpr const char* bold = "1";
constexpr const char* dim = "2";
constexpr const char* bad = "1;31";
constexpr const char* good = "1;32";

[[gnu::format(printf, 1, 2)]] std::string format(const char* pattern, ...) {
  char text[512];
  va_list arguments;
  va_start(arguments, pattern);
  std::vsnprintf(text, sizeof text, pattern, arguments);
  va_end(arguments);
  return text;
}

const char* in_words(state s) {
  switch (s) {
    case state::starting:
      return "starting";
    case state::working:
      return "working";
    case state::killed:
      return "KILLED";
    case state::ended:
      return "ended";
    case state::failed:
      return "FAILED";
  }
  return "?";
}

bool is_gone(const worker_view& w) { return w.state == state::killed || w.state == state::failed; }

}  // namespace

screen::screen(const options& o) {
  if (o.plain || !::isatty(STDOUT_FILENO)) return;
  colours_ = std::getenv("NO_COLOR") == nullptr;
  winsize size{};
  ::ioctl(STDOUT_FILENO, TIOCGWINSZ, &size);
  const auto rows_needed = static_cast<std::size_t>(o.limit + o.workers) + events_shown + 11;
  live_ = size.ws_row > rows_needed && size.ws_col >= 76;
  columns_ = size.ws_col;
  if (live_) std::fputs("\x1b[?25l", stdout);  // hides the cursor, which would flicker
}

screen::~screen() {
  if (live_) std::fputs("\x1b[?25h", stdout);
  std::fflush(stdout);
}

std::string screen::paint(const std::string& text, const char* colour) const {
  return colours_ ? "\x1b[" + std::string(colour) + "m" + text + "\x1b[0m" : text;
}

std::string screen::worker_colour(const model& m, char name, const std::string& text) const {
  static constexpr const char* colours[] = {"32", "36", "33", "35", "34", "92", "96", "95"};
  if (name == 'x' || name == m.victim) return paint(text, bad);
  if (name < 'A' || name > 'H') return paint(text, dim);
  return paint(text, colours[name - 'A']);
}

/// Paints the newest samples. A run of equal samples is painted as one text.
std::string screen::strip(const model& m, const slot_view& s) const {
  const std::size_t width = std::min<std::size_t>(columns_ - strip_offset - 1, 100);
  const std::string shown = s.history.size() > width ? s.history.substr(s.history.size() - width) : s.history;
  std::string result;
  for (std::size_t i = 0; i < shown.size();) {
    const std::size_t end = std::min(shown.find_first_not_of(shown[i], i), shown.size());
    const char painted_as = shown[i] == m.victim ? '.' : shown[i];  // samples from before its death are dim
    result += worker_colour(m, painted_as, shown.substr(i, end - i));
    i = end;
  }
  return result;
}

std::vector<std::string> screen::frame(const model& m, const std::string& agent) const {
  std::vector<std::string> lines;
  lines.push_back(paint("holdfast demo", bold) + format("   %.1f of %lld s   %s", m.now(),
                                                        static_cast<long long>(m.settings.run_time.count()),
                                                        agent.c_str()));
  lines.push_back(format("%d processes with %d coroutines each share one semaphore of %d slots", m.settings.workers,
                         m.settings.coroutines, m.settings.limit));
  lines.emplace_back();
  lines.push_back(paint("slot   held by (session)  over time, one letter for each 0.1 s; x: the killed process", dim));
  for (std::size_t i = 0; i < m.slots.size(); ++i) {
    const slot_view& s = m.slots[i];
    const bool dead = m.victim != 0 && s.owner == m.victim;
    const std::string holder =
        s.session.empty() ? "free"
                          : std::string(1, s.owner) + (dead ? " dead (" : "      (") + s.session.substr(0, 8) + ")";
    lines.push_back(format("%3zu    ", i + 1) + worker_colour(m, s.owner, format("%-17s", holder.c_str())) + " " +
                    strip(m, s));
  }
  lines.emplace_back();
  lines.push_back(
      paint("process   pid       state      holds   waiting   slots taken   local handoffs   requests", dim));
  for (const worker_view& w : m.workers) {
    const std::string row =
        is_gone(w) ? format("%-9c %-9d %-10s %5s %9s %13llu %16llu %10llu", w.name, w.pid, in_words(w.state), "-", "-",
                            static_cast<unsigned long long>(w.taken), static_cast<unsigned long long>(w.handoffs),
                            static_cast<unsigned long long>(w.requests))
                   : format("%-9c %-9d %-10s %5zu %9llu %13llu %16llu %10llu", w.name, w.pid, in_words(w.state),
                            w.believers.size(), static_cast<unsigned long long>(w.waiting),
                            static_cast<unsigned long long>(w.taken), static_cast<unsigned long long>(w.handoffs),
                            static_cast<unsigned long long>(w.requests));
    lines.push_back(worker_colour(m, w.name, row));
  }
  lines.emplace_back();
  const bool held = m.in_record_most <= m.slots.size() && m.believing_most <= m.slots.size();
  lines.push_back(format("holders by the lock record %zu, most so far %zu;  by the workers' own word %zu, most %zu:  ",
                         m.in_record, m.in_record_most, m.believing, m.believing_most) +
                  (held ? paint("limit holds", good) : paint("LIMIT BROKEN", bad)));
  lines.emplace_back();
  const std::size_t first = m.events.size() > events_shown ? m.events.size() - events_shown : 0;
  for (std::size_t i = first; i < m.events.size(); ++i)
    lines.push_back(format("%5.1f s  %s", m.events[i].at, m.events[i].text.substr(0, columns_ - 10).c_str()));
  return lines;
}

void screen::draw(const std::vector<std::string>& lines) {
  std::string out;
  if (rows_drawn_ > 0) out += format("\x1b[%zuF", rows_drawn_);
  for (const std::string& line : lines) out += line + "\x1b[K\n";
  out += "\x1b[J";
  rows_drawn_ = lines.size();
  std::fwrite(out.data(), 1, out.size(), stdout);
  std::fflush(stdout);
}

/// Without a live screen, prints each event once, and the state once a second.
void screen::tell(const model& m) {
  for (; events_told_ < m.events.size(); ++events_told_)
    std::printf("%5.1f s  %s\n", m.events[events_told_].at, m.events[events_told_].text.c_str());
  if (m.now() >= status_told_at_ + 1) {
    if (status_told_at_ == 0)
      std::printf(
          "       A letter is the process that holds a slot, x is the killed one. Holders are counted by the lock\n"
          "       record in Consul and by the processes' own word.\n");
    status_told_at_ = m.now();
    std::string line = format("%5.1f s  slots held by ", status_told_at_);
    for (const slot_view& s : m.slots) line += m.victim != 0 && s.owner == m.victim ? 'x' : s.owner;
    line += format(" (record %zu, workers' word %zu, limit %zu)", m.in_record, m.believing, m.slots.size());
    for (const worker_view& w : m.workers)
      line += format("  %c took %llu", w.name, static_cast<unsigned long long>(w.taken));
    std::printf("%s\n", line.c_str());
  }
  std::fflush(stdout);
}

void screen::show(const model& m, const std::string& agent) {
  if (live_)
    draw(frame(m, agent));
  else
    tell(m);
}

void screen::summary(const model& m, bool passed) {
  if (!live_) tell(m);
  std::printf("\n%s\n\n", paint("summary", bold).c_str());
  std::uint64_t taken = 0, handoffs = 0, requests = 0;
  std::printf("%s\n", paint("process   slots taken   local handoffs   requests   end", dim).c_str());
  for (const worker_view& w : m.workers) {
    std::printf("%-9c %11llu %16llu %10llu   %s\n", w.name, static_cast<unsigned long long>(w.taken),
                static_cast<unsigned long long>(w.handoffs), static_cast<unsigned long long>(w.requests),
                in_words(w.state));
    taken += w.taken;
    handoffs += w.handoffs;
    requests += w.requests;
  }
  std::printf("%-9s %11llu %16llu %10llu\n\n", "all", static_cast<unsigned long long>(taken),
              static_cast<unsigned long long>(handoffs), static_cast<unsigned long long>(requests));
  std::printf("limit                       %zu\n", m.slots.size());
  std::printf("most holders at one time    %zu by the lock record, %zu by the workers' own word\n", m.in_record_most,
              m.believing_most);
  const double bound = 2 * std::chrono::duration<double>(m.settings.ttl).count();
  if (m.recovered_after) {
    std::printf(
        "slots of the killed one     %zu when it was killed, %zu with those that its queued sessions were granted\n",
        m.victim_held, m.victim_held_most);
    std::printf("all of them taken again     %.1f s after the kill (its sessions end within 2 x TTL = %.1f s)\n",
                *m.recovered_after, bound);
  }
  std::printf("left in Consul at the end   %zu holders, %zu contenders\n", m.in_record, m.entries);
  if (m.lost > 0)
    std::printf("slots lost                  %llu (each noticed)\n", static_cast<unsigned long long>(m.lost));
  for (const std::string& complaint : m.complaints) std::printf("%s\n", paint(complaint, bad).c_str());
  std::printf("\n%s\n",
              passed ? paint("PASSED: never more than the limit, and the dead process's slots came back", good).c_str()
                     : paint("FAILED", bad).c_str());
}

}  // namespace demo
