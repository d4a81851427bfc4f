// SPDX-FileCopyrightText: The holdfast authors
// SPDX-License-Identifier: BSL-1.0

#include "protocol/record/succession.hpp"

#include <algorithm>
#include <boost/json/parse.hpp>
#include <boost/json/serialize.hpp>
#include <boost/json/value.hpp>
#include <holdfast/error.hpp>

#include "protocol/record/entry_value.hpp"

namespace holdfast::protocol {

namespace json = boost::json;

namespace {

constexpr std::size_t session_size_max = 64;
std::optional<contender> read_contender(const json::value& from) {
  const json::array* const fields = from.if_array();
  if (!fields || fields->size() < 3 || fields->size() > 4) return std::nullopt;
  const bool is_numbered = fields->size() == 4;
  if (is_numbered && (*fields)[3] != true) return std::nullopt;
  const json::string *session = (*fields)[0].if_string(), *description = (*fields)[2].if_string();
  error_code ec;
  const auto index = (*fields)[1].to_number<std::uint64_t>(ec);
  if (ec || index == 0 || !session || !description) return std::nullopt;
  // The session becomes a key below the prefix. So it must be a single name, not a path.
  if (session->empty() || session->size() > session_size_max || session->find('/') != json::string::npos)
    return std::nullopt;
  const std::uint64_t flags = contender_magic | (is_numbered ? numbered_flag : 0);
  return contender{std::string(*session), std::string(*description), flags, index, index};
}

}  // namespace

std::string with_succession(std::string_view description, const succession_view& s) {
  std::string value(description);
  if (s.next.empty() && !s.number) return value;
  value.append(succession_opening).append(std::to_string(s.limit)).append(",\"Next\":[");
  std::size_t named = 0;
  for (const contender* each : s.next) {
    json::array fields{each->session, each->create_index, json::string_view(description_in(each->value))};
    if (is_numbered(each->flags)) fields.push_back(true);
    const std::string text = json::serialize(fields);
    if (value.size() - description.size() + text.size() > succession_bytes_max) break;
    if (named++ != 0) value += ',';
    value += text;
  }
  if (named == 0 && !s.number) return std::string(description);
  const std::size_t behind = std::min(s.behind + s.next.size() - named, behind_max);
  value.append("],\"Behind\":").append(std::to_string(behind));
  if (s.number) value.append(",\"Number\":").append(std::to_string(*s.number));
  return value + '}';
}

std::optional<succession> succession_in(std::string_view value, std::string_view description) {
  if (!value.starts_with(description) || !value.substr(description.size()).starts_with(succession_opening))
    return std::nullopt;
  const std::string_view text = value.substr(description.size() + 1);
  // Ours take little more than `succession_bytes_max`. In other JSON, escaped characters may take more bytes.
  if (text.size() > 8 * succession_bytes_max) return std::nullopt;
  json::parse_options options;
  options.max_depth = 4;
  error_code ec;
  const json::value parsed = json::parse(json::string_view(text.data(), text.size()), ec, {}, options);
  const json::object* const object = ec ? nullptr : parsed.if_object();
  const json::value* const limit = object ? object->if_contains("Limit") : nullptr;
  const json::value* const next = object ? object->if_contains("Next") : nullptr;
  const json::value* const behind = object ? object->if_contains("Behind") : nullptr;
  if (!limit || !next || !next->is_array() || !behind) return std::nullopt;
  succession result;
  result.behind = behind->to_number<std::size_t>(ec);
  if (ec || result.behind > behind_max) return std::nullopt;
  result.limit = limit->to_number<std::uint32_t>(ec);
  if (const json::value* const number = object->if_contains("Number")) {
    result.number = number->to_number<std::uint32_t>(ec);
    if (ec || *result.number >= limit_max) return std::nullopt;
  }
  const std::size_t named = next->get_array().size();
  if (ec || result.limit == 0 || (named == 0 && !result.number) || named > succession_max) return std::nullopt;
  for (const json::value& each : next->get_array()) {
    auto entry = read_contender(each);
    const bool in_order = result.next.empty() || (entry && result.next.back().create_index <= entry->create_index);
    if (!entry || !in_order) return std::nullopt;
    result.next.push_back(*std::move(entry));
  }
  return result;
}

}  // namespace holdfast::protocol
