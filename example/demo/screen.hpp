// SPDX-FileCopyrightText: The holdfast authors
// SPDX-License-Identifier: BSL-1.0

#pragma once

#include <string>
#include <vector>

#include "model.hpp"

namespace demo {

/// Shows the model. If stdout is a large enough terminal and `options::plain` is not set, the screen is redrawn in
/// place. Otherwise the events, and the state once a second, are printed as lines.
class screen {
public:
  explicit screen(const options& o);
  ~screen();
  screen(const screen&) = delete;
  screen& operator=(const screen&) = delete;

  void show(const model& m, const std::string& agent);
  void summary(const model& m, bool passed);

private:
  std::vector<std::string> frame(const model& m, const std::string& agent) const;
  void draw(const std::vector<std::string>& lines);
  void tell(const model& m);
  std::string paint(const std::string& text, const char* colour) const;
  std::string worker_colour(const model& m, char name, const std::string& text) const;
  std::string strip(const model& m, const slot_view& s) const;

  bool live_ = false;
  bool colours_ = false;
  std::size_t columns_ = 80;
  std::size_t rows_drawn_ = 0;
  std::size_t events_told_ = 0;
  double status_told_at_ = 0;
};

}  // namespace demo
