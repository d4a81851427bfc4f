// SPDX-FileCopyrightText: The holdfast authors
// SPDX-License-Identifier: BSL-1.0

#include "runtime/exposition.hpp"

#include <array>
#include <charconv>
#include <utility>

namespace holdfast::runtime {

namespace {

std::string in_decimal(double value) {
  std::array<char, 32> text{};
  const auto end = std::to_chars(text.data(), text.data() + text.size(), value).ptr;
  return {text.data(), end};
}

}  // namespace

labels labels::and_also(std::string_view name, std::string_view value) const {
  labels more = *this;
  std::string& text = more.text_;
  if (!text.empty()) text += ',';
  text.append(name).append("=\"");
  for (const char c : value) {
    if (c == '\\' || c == '"') text += '\\';
    text.append(c == '\n' ? std::string_view("\\n") : std::string_view(&c, 1));
  }
  text += '"';
  return more;
}

void exposition::family(std::string_view name, std::string_view type, std::string_view help) {
  name_ = name;
  head_.assign("# HELP ").append(name).append(" ").append(help).append("\n# TYPE ").append(name);
  head_.append(" ").append(type).append("\n");
}

void exposition::sample(const labels& its, double value) { line({}, its, value); }

void exposition::bucket(const labels& its, double bound, std::uint64_t count) {
  line("_bucket", its.and_also("le", in_decimal(bound)), static_cast<double>(count));
}

void exposition::histogram_end(const labels& its, double sum, std::uint64_t count) {
  line("_bucket", its.and_also("le", "+Inf"), static_cast<double>(count));
  line("_sum", its, sum);
  line("_count", its, static_cast<double>(count));
}

void exposition::line(std::string_view suffix, const labels& its, double value) {
  text_ += std::exchange(head_, {});
  text_.append(name_).append(suffix);
  if (!its.text().empty()) text_.append("{").append(its.text()).append("}");
  text_.append(" ").append(in_decimal(value)).append("\n");
}

}  // namespace holdfast::runtime
