#pragma once

#include <chrono>
#include <cstddef>
#include <map>
#include <string>
#include <vector>

namespace holdfast::test {

/// A picture of who held what when: one row for each process, a bar for each slot, marks for what went wrong. Times are
/// since the beginning. SVG, which any browser shows, and which needs nothing but itself.
class timeline {
public:
  using time = std::chrono::nanoseconds;
  enum class end { released, lost, crashed };

  explicit timeline(std::string title) : title_(std::move(title)) {}

  /// Rows stand in the order in which they are first named.
  void holds(const std::string& row, const std::string& slot, time from, const std::string& words = {});
  /// Until then its holder believes in it, even if it hears nothing. Without this: until it ends.
  void lease(const std::string& row, const std::string& slot, time until);
  void ends(const std::string& row, const std::string& slot, time at, end how);
  /// The row's process stood still, or was cut off.
  void shade(const std::string& row, time from, time to, const std::string& words);
  void mark(const std::string& row, time at, const std::string& words);
  /// Something that concerns all.
  void mark(time at, const std::string& words) { mark({}, at, words); }

  std::string svg() const;

private:
  struct bar {
    std::size_t row;
    std::size_t lane;
    time from, to;
    time until;  ///< its lease ends
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
    std::size_t row;  ///< `everywhere`: all
    time at;
    std::string words;
  };
  static constexpr std::size_t everywhere = static_cast<std::size_t>(-1);

  std::size_t row_of(const std::string& name);
  time last() const;

  std::string title_;
  std::vector<std::string> rows_;
  std::vector<std::size_t> lanes_;  ///< of each row: how many bars stand one above the other
  std::vector<bar> bars_;
  std::map<std::pair<std::size_t, std::string>, std::size_t> open_;  ///< which bar
  std::vector<area> areas_;
  std::vector<note> notes_;
};

}  // namespace holdfast::test
