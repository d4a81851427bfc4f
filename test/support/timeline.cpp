// SPDX-FileCopyrightText: The holdfast authors
// SPDX-License-Identifier: BSL-1.0

#include "support/timeline.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdio>

namespace holdfast::test {
namespace {

constexpr double width = 1000, left = 130, right = 20, top = 62, lane_height = 13, gap = 9, bottom = 34;

std::string escaped(const std::string& text) {
  std::string out;
  for (const char c : text) switch (c) {
      case '<':
        out += "&lt;";
        break;
      case '>':
        out += "&gt;";
        break;
      case '&':
        out += "&amp;";
        break;
      case '"':
        out += "&quot;";
        break;
      default:
        out += c;
    }
  return out;
}

template <class... Values>
std::string print(const char* format, Values... values) {
  std::array<char, 512> text{};
  std::snprintf(text.data(), text.size(), format, values...);
  return text.data();
}

std::string titled(const std::string& words) { return words.empty() ? "" : "<title>" + escaped(words) + "</title>"; }

double seconds(timeline::time t) { return std::chrono::duration<double>(t).count(); }

/// A round number of seconds of which about ten span the whole time.
double tick_for(double span) {
  const double raw = span / 10;
  const double power = std::pow(10.0, std::floor(std::log10(raw)));
  for (const double step : {1.0, 2.0, 5.0})
    if (raw <= step * power) return step * power;
  return 10 * power;
}

}  // namespace

std::size_t timeline::row_of(const std::string& name) {
  const auto found = std::find(rows_.begin(), rows_.end(), name);
  if (found != rows_.end()) return static_cast<std::size_t>(found - rows_.begin());
  rows_.push_back(name);
  lanes_.push_back(1);
  return rows_.size() - 1;
}

void timeline::holds(const std::string& row, const std::string& slot, time from, const std::string& words) {
  const std::size_t its = row_of(row);
  std::vector<bool> taken(lanes_[its]);
  for (const auto& [key, index] : open_)
    if (key.first == its) taken[bars_[index].lane] = true;
  const auto free = static_cast<std::size_t>(std::find(taken.begin(), taken.end(), false) - taken.begin());
  lanes_[its] = std::max(lanes_[its], free + 1);
  open_[{its, slot}] = bars_.size();
  bars_.push_back({its, free, from, from, time::max(), end::released, false, words});
}

void timeline::lease(const std::string& row, const std::string& slot, time until) {
  const auto found = open_.find({row_of(row), slot});
  if (found != open_.end()) bars_[found->second].until = until;
}

void timeline::ends(const std::string& row, const std::string& slot, time at, end how) {
  const auto found = open_.find({row_of(row), slot});
  if (found == open_.end()) return;
  bar& its = bars_[found->second];
  its.to = at;
  its.how = how;
  its.over = true;
  open_.erase(found);
}

void timeline::shade(const std::string& row, time from, time to, const std::string& words) {
  areas_.push_back({row_of(row), from, to, words});
}

void timeline::mark(const std::string& row, time at, const std::string& words) {
  notes_.push_back({row.empty() ? everywhere : row_of(row), at, words});
}

timeline::time timeline::last() const {
  time last{1};
  for (const bar& each : bars_) last = std::max(last, each.to);
  for (const area& each : areas_) last = std::max(last, each.to);
  for (const note& each : notes_) last = std::max(last, each.at);
  return last;
}

std::string timeline::svg() const {
  const time end_of_all = last();
  const double span = seconds(end_of_all);
  const auto x = [&](time t) { return left + (width - left - right) * seconds(t) / span; };
  std::vector<double> y;
  double height = top;
  for (const std::size_t lanes : lanes_) {
    y.push_back(height);
    height += static_cast<double>(lanes) * lane_height + gap;
  }
  std::string svg = print(
      "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 %.0f %.0f\" font-family=\"sans-serif\" "
      "font-size=\"11\">\n"
      "<rect width=\"100%%\" height=\"100%%\" fill=\"#fff\"/>\n",
      width, height + bottom);
  svg += "<text x=\"8\" y=\"18\" font-size=\"14\" fill=\"#222\">" + escaped(title_) + "</text>\n";
  const std::pair<const char*, const char*> legend[] = {{"#2b7a4b", "held"},
                                                        {"#bfe0cc", "lease over"},
                                                        {"#d98a00", "lost"},
                                                        {"#444", "crashed"},
                                                        {"#ccd6ee", "paused or cut off"}};
  double at = 8;
  for (const auto& [colour, words] : legend) {
    svg += print(
        "<rect x=\"%.0f\" y=\"28\" width=\"10\" height=\"10\" fill=\"%s\"/><text x=\"%.0f\" y=\"37\" "
        "fill=\"#444\">%s</text>\n",
        at, colour, at + 14, words);
    at += 110;
  }
  svg += print(
      "<path d=\"M%.0f 28v10\" stroke=\"#c22\" stroke-dasharray=\"2 2\"/><text x=\"%.0f\" y=\"37\" "
      "fill=\"#444\">a fault (point at it)</text>\n",
      at + 40, at + 46);
  const double tick = tick_for(span);
  for (int i = 0; i * tick <= span; ++i) {
    const double t = i * tick;
    const double px = left + (width - left - right) * t / span;
    svg += print(
        "<path d=\"M%.1f %.0fV%.0f\" stroke=\"#eee\"/><text x=\"%.1f\" y=\"%.0f\" text-anchor=\"middle\" "
        "fill=\"#666\">%g s</text>\n",
        px, top - 6, height, px, height + 16, t);
  }
  for (std::size_t i = 0; i < rows_.size(); ++i)
    svg += print("<text x=\"%.0f\" y=\"%.1f\" text-anchor=\"end\" fill=\"#222\">", left - 8, y[i] + 10) +
           escaped(rows_[i]) + "</text>\n";
  for (const area& each : areas_)
    svg += print("<rect x=\"%.1f\" y=\"%.1f\" width=\"%.1f\" height=\"%.1f\" fill=\"#ccd6ee\">", x(each.from),
                 y[each.row] - 3, std::max(x(each.to) - x(each.from), 1.0),
                 static_cast<double>(lanes_[each.row]) * lane_height + 5) +
           titled(each.words) + "</rect>\n";
  for (const bar& each : bars_) {
    const char* const colour = !each.over || each.how == end::released ? "#2b7a4b"
                               : each.how == end::lost                 ? "#d98a00"
                                                                       : "#444";
    const time to = each.over ? each.to : end_of_all;
    const double from_top = y[each.row] + static_cast<double>(each.lane) * lane_height;
    const auto box = [&](time from, time until, const char* fill) {
      return print("<rect x=\"%.1f\" y=\"%.1f\" width=\"%.1f\" height=\"%.0f\" fill=\"%s\">", x(from), from_top,
                   std::max(x(until) - x(from), 0.6), lane_height - 2, fill) +
             titled(each.words) + "</rect>\n";
    };
    svg += box(each.from, std::min(to, each.until), colour);
    if (each.until < to) svg += box(each.until, to, "#bfe0cc");
  }
  for (const note& each : notes_) {
    const bool all = each.row == everywhere;
    const double from = all ? top - 6 : y[each.row] - 4;
    const double to = all ? height : y[each.row] + static_cast<double>(lanes_[each.row]) * lane_height + 2;
    svg += print("<path d=\"M%.1f %.1fV%.1f\" stroke=\"#c22\" stroke-width=\"1.5\" stroke-dasharray=\"2 2\">",
                 x(each.at), from, to) +
           titled(each.words) + "</path>\n";
  }
  return svg + "</svg>\n";
}

}  // namespace holdfast::test
