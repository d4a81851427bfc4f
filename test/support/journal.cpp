// SPDX-FileCopyrightText: The holdfast authors
// SPDX-License-Identifier: BSL-1.0

#include "support/journal.hpp"

#include <fcntl.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <fstream>
#include <sstream>
#include <stdexcept>
#include <system_error>

namespace holdfast::test {
namespace {

using protocol::nanoseconds;
using protocol::time_point;

}  // namespace

std::string to_line(const journal_entry& entry) {
  std::ostringstream line;
  line << entry.at.time_since_epoch().count() << ' ' << entry.who << ' ' << to_string(entry.what) << ' ' << entry.slot
       << ' ' << entry.token.grant << '.' << entry.token.handoff << ' ' << entry.lease.time_since_epoch().count() << ' '
       << (entry.words.empty() ? "-" : entry.words);
  return line.str();
}

std::optional<journal_entry> parse_journal_line(std::string_view line) {
  std::istringstream in{std::string(line)};
  nanoseconds::rep at = 0, lease = 0;
  journal_entry entry;
  std::string event;
  char dot = 0;
  in >> at >> entry.who >> event >> entry.slot >> entry.token.grant >> dot >> entry.token.handoff >> lease;
  const auto named = std::find_if(journal_events.begin(), journal_events.end(),
                                  [&](journal_event each) { return to_string(each) == event; });
  if (!in || dot != '.' || named == journal_events.end()) return std::nullopt;
  std::getline(in >> std::ws, entry.words);
  if (entry.words.empty()) return std::nullopt;
  if (entry.words == "-") entry.words.clear();
  entry.at = time_point(nanoseconds(at));
  entry.lease = time_point(nanoseconds(lease));
  entry.what = *named;
  return entry;
}

time_point journal_now() {
  timespec t{};
  ::clock_gettime(CLOCK_BOOTTIME, &t);
  return time_point(std::chrono::seconds(t.tv_sec) + nanoseconds(t.tv_nsec));
}

journal::journal(std::filesystem::path file)
    : path_(std::move(file)), fd_(::open(path_.c_str(), O_CREAT | O_APPEND | O_WRONLY | O_CLOEXEC, 0644)) {
  if (fd_ < 0) throw std::system_error(errno, std::generic_category(), "cannot open " + path_.string());
}

journal::~journal() { ::close(fd_); }

void journal::write(const journal_entry& entry) {
  const std::string line = to_line(entry) + '\n';
  if (::write(fd_, line.data(), line.size()) != static_cast<ssize_t>(line.size()))
    throw std::system_error(errno, std::generic_category(), "cannot write to " + path_.string());
}

std::vector<journal_entry> read_journal(const std::filesystem::path& file) {
  std::vector<journal_entry> entries;
  std::ifstream in(file);
  for (std::string line; std::getline(in, line);) {
    if (in.eof()) break;  // the line is not complete yet: one that crosses a page may be seen in two parts
    auto entry = parse_journal_line(line);
    if (!entry) throw std::runtime_error(file.string() + ": no line of a journal: " + line);
    entries.push_back(std::move(*entry));
  }
  std::stable_sort(entries.begin(), entries.end(),
                   [](const journal_entry& a, const journal_entry& b) { return a.at < b.at; });
  return entries;
}

}  // namespace holdfast::test
