// SPDX-FileCopyrightText: The holdfast authors
// SPDX-License-Identifier: BSL-1.0

#pragma once

#include <chrono>
#include <cstddef>
#include <map>
#include <string>
#include <vector>

namespace holdfast::test {

/// A picture of the slots that processes held over time: one row for each process, a bar for each slot, and marks for
/// faults. Times count from the beginning. The picture is a single SVG file, which any browser shows.
class timeline {
public:
  using time = std::chrono::nanoseconds;
  enum class end { released, lost, crashed };

  explicit timeline(std::string title) : title_(std::move(title)) {}

  /// Rows stand in the order in which they are first named.
  void holds(const std::string& row, const std::string& slot, time from, const std::string& words = {});
  /// The holder believes in the slot until `until`. Without this call it does so until `ends`.
  void lease(const std::string& row, const std::string& slot, time until);
  void ends(const std::string& row, const std::string& slot, time at, end how);
  /// The row's process was stopped or cut off in that time.
  void shade(const std::string& row, time from, time to, const std::string& words);
  void mark(const std::string& row, time at, const std::string& words);
  /// Marks an event that concerns all rows.
  void mark(time at, const std::string& words) { mark({}, at, words); }

  std::string svg() const;

private:
  struct bar {
    std::size_t row;
    std::size_t lane;
    time from, to;
    time until;  ///< the end of its lease
    end how;
    bool over;
    std::string words;
  };
  struct area {
    std::size_t row;
    time from, to;
    std::string words;
  };
  struct note {
    std::size_t row;  ///< `everywhere`: all rows
    time at;
    std::string words;
  };
  static constexpr std::size_t everywhere = static_cast<std::size_t>(-1);

  std::size_t row_of(const std::string& name);
  time last() const;

  std::string title_;
  std::vector<std::string> rows_;
  std::vector<std::size_t> lanes_;  ///< for each row, the number of bars that stand one above the other
  std::vector<bar> bars_;
  std::map<std::pair<std::size_t, std::string>, std::size_t> open_;  ///< the index of the bar
  std::vector<area> areas_;
  std::vector<note> notes_;
};

}  // namespace holdfast::test
