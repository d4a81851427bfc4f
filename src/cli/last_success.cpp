// SPDX-FileCopyrightText: The holdfast authors
// SPDX-License-Identifier: BSL-1.0

#include "cli/last_success.hpp"

#include <boost/json/object.hpp>
#include <boost/json/parse.hpp>
#include <boost/json/serialize.hpp>
#include <boost/json/value.hpp>
#include <cstdint>
#include <cstdio>
#include <holdfast/error.hpp>

namespace holdfast::cli {

namespace json = boost::json;

namespace {

/// The seconds of the last day of the year 9999. So a time that is read from a record can be computed with and shown.
constexpr std::int64_t latest_time = 253'402'300'799;

std::string as_text(std::chrono::sys_seconds at) {
  const auto day = std::chrono::floor<std::chrono::days>(at);
  const std::chrono::year_month_day date(day);
  const std::chrono::hh_mm_ss time(at - day);
  char text[64];
  std::snprintf(text, sizeof text, "%04d-%02u-%02uT%02d:%02d:%02dZ", static_cast<int>(date.year()),
                static_cast<unsigned>(date.month()), static_cast<unsigned>(date.day()),
                static_cast<int>(time.hours().count()), static_cast<int>(time.minutes().count()),
                static_cast<int>(time.seconds().count()));
  return text;
}

}  // namespace

std::string key_of_last_success(const std::string& prefix) { return prefix + "/.last-success"; }

std::string format(const last_success& record) {
  return json::serialize(json::object{
      {"unix_time", record.at.time_since_epoch().count()}, {"time", as_text(record.at)}, {"host", record.host}});
}

std::optional<last_success> parse_last_success(std::string_view text) {
  error_code failed;
  const json::value found = json::parse(text, failed);
  const json::object* const object = failed ? nullptr : found.if_object();
  if (object == nullptr) return std::nullopt;
  const json::value* const time = object->if_contains("unix_time");
  const json::value* const host = object->if_contains("host");
  if (time == nullptr || !time->is_int64() || host == nullptr || !host->is_string()) return std::nullopt;
  const std::int64_t seconds = time->get_int64();
  if (seconds < 0 || seconds > latest_time) return std::nullopt;
  return last_success{std::chrono::sys_seconds(std::chrono::seconds(seconds)), std::string(host->get_string())};
}

bool is_recent(const last_success& record, std::chrono::system_clock::time_point now, std::chrono::nanoseconds period) {
  // In seconds, because nanoseconds since 1970 do not reach the latest time of a record.
  const auto age = std::chrono::floor<std::chrono::seconds>(now) - record.at;
  return age >= -clock_difference_max && age < std::chrono::ceil<std::chrono::seconds>(period);
}

std::string shown(const last_success& record) { return as_text(record.at) + " on " + record.host; }

}  // namespace holdfast::cli
