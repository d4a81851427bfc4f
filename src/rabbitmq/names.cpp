// SPDX-FileCopyrightText: The holdfast authors
// SPDX-License-Identifier: BSL-1.0

#include "rabbitmq/names.hpp"

#include <algorithm>

#include "net/utf8.hpp"

namespace holdfast::rabbitmq::detail {
namespace {

constexpr char separator = '-';

std::string joined(std::string_view name, std::string_view second, std::string_view third) {
  std::string text(name);
  text += separator;
  text += second;
  text += separator;
  text += third;
  return text;
}

bool is_letter(std::string_view part) noexcept { return part == "A" || part == "B" || part == "F"; }

bool is_number(std::string_view part) noexcept {
  return !part.empty() && std::all_of(part.begin(), part.end(), [](char c) { return c >= '0' && c <= '9'; });
}

/// Removes the part behind the last separator, and returns it. Returns an empty part if there is no separator.
std::string_view take_last_part(std::string_view& name) noexcept {
  const auto at = name.rfind(separator);
  if (at == std::string_view::npos) return {};
  const std::string_view part = name.substr(at + 1);
  name = name.substr(0, at);
  return part;
}

// Numbers over the largest, and those with leading zeros, are refused, too: other clients may use them.
bool is_queue_of_a_semaphore(std::string_view name) noexcept {
  const std::string_view last = take_last_part(name);
  if (last == "F") return true;
  const std::string_view second = take_last_part(name);
  return (is_letter(last) && is_number(second)) || (is_number(last) && is_letter(second));
}

std::string_view problem_of(std::string_view name) {
  if (name.empty()) return "the name is empty";
  if (name.size() > name_bytes_max) return "the name has more than 240 bytes";
  if (name.starts_with("amq.")) return "the name begins with \"amq.\", which RabbitMQ reserves";
  if (is_queue_of_a_semaphore(name)) return "the name is that of a queue of another semaphore";
  if (!net::is_utf8(name)) return "the name is not valid UTF-8";
  if (!net::is_plain_text(name)) return "the name has a control character";
  return {};
}

}  // namespace

std::string queue_names::of_slot(std::uint32_t slot, slot_queue queue) const {
  const std::string number = std::to_string(slot);
  const char letter = static_cast<char>(queue);
  const std::string_view text(&letter, 1);
  return letter_first_ ? joined(semaphore_, text, number) : joined(semaphore_, number, text);
}

std::string queue_names::hints() const { return semaphore_ + separator + static_cast<char>(slot_queue::token); }

error_code check_name(std::string_view name, std::string_view& cause) {
  const std::string_view problem = problem_of(name);
  if (problem.empty()) return {};
  cause = problem;
  return error::invalid_name;
}

}  // namespace holdfast::rabbitmq::detail
