// SPDX-FileCopyrightText: The holdfast authors
// SPDX-License-Identifier: BSL-1.0

#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace holdfast::runtime {

/// The labels of a sample: `lock="service/db",kind="mutex"`.
class labels {
public:
  labels() = default;
  /// Returns these labels and one more. The value may be any text.
  labels and_also(std::string_view name, std::string_view value) const;
  const std::string& text() const noexcept { return text_; }

private:
  std::string text_;
};

/// Writes Prometheus' text format, version 0.0.4.
class exposition {
public:
  /// Begins a family of samples. Its name must be new, and its samples must follow before the next family. A family
  /// without samples is left out.
  void family(std::string_view name, std::string_view type, std::string_view help);
  void sample(const labels& its, double value);
  /// One bucket of a histogram: `count` values are at most `bound`. The bounds of one histogram must ascend.
  void bucket(const labels& its, double bound, std::uint64_t count);
  /// The last bucket, the sum and the count of a histogram.
  void histogram_end(const labels& its, double sum, std::uint64_t count);
  std::string text() && { return std::move(text_); }

private:
  void line(std::string_view suffix, const labels& its, double value);

  std::string text_;
  std::string name_, head_;  ///< `head_` is written before the family's first sample
};

}  // namespace holdfast::runtime
