// SPDX-FileCopyrightText: The holdfast authors
// SPDX-License-Identifier: BSL-1.0

#include "protocol/record/lock_record.hpp"

#include <algorithm>
#include <boost/json/parse.hpp>
#include <boost/json/serialize.hpp>
#include <boost/json/value.hpp>
#include <holdfast/error.hpp>

namespace holdfast::protocol {

namespace json = boost::json;

namespace {

constexpr std::size_t holders_max = 100'000;
constexpr std::uint64_t recorded_limit_max = std::uint64_t{1} << 31;

// The lists are sorted and contain each name once.
bool is_in(const std::vector<std::string>& list, std::string_view session) {
  return std::binary_search(list.begin(), list.end(), session);
}
void put_in(std::vector<std::string>& list, std::string session) {
  const auto at = std::lower_bound(list.begin(), list.end(), session);
  if (at == list.end() || *at != session) list.insert(at, std::move(session));
}
void take_out(std::vector<std::string>& list, std::string_view session) {
  const auto at = std::lower_bound(list.begin(), list.end(), session);
  if (at != list.end() && *at == session) list.erase(at);
}
void sort_once(std::vector<std::string>& list) {
  std::sort(list.begin(), list.end());
  list.erase(std::unique(list.begin(), list.end()), list.end());
}

bool read_limit(const json::object& record, std::uint32_t& limit) {
  const json::value* found = record.if_contains("Limit");
  if (!found) return false;
  const bool positive = found->is_uint64() || (found->is_int64() && found->get_int64() > 0);
  if (!positive) return false;
  const auto value = found->is_uint64() ? found->get_uint64() : static_cast<std::uint64_t>(found->get_int64());
  limit = static_cast<std::uint32_t>(value);
  return value >= 1 && value <= recorded_limit_max;
}

bool read_holders(const json::object& record, lock_record& into) {
  const json::value* found = record.if_contains("Holders");
  if (!found || found->is_null()) return true;  // Go writes null for a nil map
  if (const json::object* map = found->if_object()) {
    into.form = record_form::map;
    if (map->size() > holders_max) return false;
    for (const auto& holder : *map) into.holders.emplace_back(holder.key());
  } else if (const json::array* list = found->if_array()) {
    into.form = record_form::list;
    if (list->size() > holders_max) return false;
    for (const json::value& holder : *list) {
      if (!holder.is_string()) return false;
      into.holders.emplace_back(holder.get_string());
    }
  } else {
    return false;
  }
  sort_once(into.holders);
  return true;
}

bool read_closed(const json::object& record, bool& closed) {
  const json::value* found = record.if_contains("Closed");
  if (!found || found->is_null()) return true;
  closed = found->is_bool() && found->get_bool();
  return found->is_bool();
}

bool read_revoked(const json::object& record, std::vector<std::string>& revoked) {
  const json::value* found = record.if_contains("Revoked");
  if (!found || found->is_null()) return true;
  const json::object* map = found->if_object();
  if (!map || map->size() > holders_max) return false;
  for (const auto& mark : *map) revoked.emplace_back(mark.key());
  sort_once(revoked);
  return true;
}

}  // namespace

bool lock_record::names(std::string_view session) const { return is_in(holders, session); }
bool lock_record::revokes(std::string_view session) const { return is_in(revoked, session); }
void lock_record::add(std::string session) { put_in(holders, std::move(session)); }
void lock_record::revoke(std::string session) { put_in(revoked, std::move(session)); }

void lock_record::drop(std::string session) {
  take_out(holders, session);
  take_out(revoked, session);
}

void lock_record::keep_marks_of_holders() {
  auto holder = holders.begin();  // both are sorted
  std::erase_if(revoked, [&](const std::string& session) {
    while (holder != holders.end() && *holder < session) ++holder;
    return holder == holders.end() || *holder != session;
  });
}

boost::system::result<lock_record> parse_lock_record(std::string_view value) {
  json::parse_options options;
  options.max_depth = 4;
  error_code ec;
  const json::value parsed = json::parse(json::string_view(value.data(), value.size()), ec, {}, options);
  const json::object* object = ec ? nullptr : parsed.if_object();
  lock_record record;
  if (!object || !read_limit(*object, record.limit) || !read_holders(*object, record) ||
      !read_closed(*object, record.closed) || !read_revoked(*object, record.revoked))
    return make_error_code(error::corrupt_record);
  return record;
}

std::size_t size_of(const lock_record& record, std::size_t more_holders) {
  constexpr std::size_t text_bytes = 64, session = 36, around = 8;  // "":true,
  std::size_t bytes = text_bytes + more_holders * (session + around);
  for (const std::vector<std::string>* list : {&record.holders, &record.revoked})
    for (const std::string& each : *list) bytes += each.size() + around;
  return bytes;
}

std::string format(const lock_record& record) {
  json::object object;
  object["Limit"] = record.limit;
  if (record.form != record_form::list) {
    json::object& holders = object["Holders"].emplace_object();
    for (const std::string& session : record.holders) holders[session] = true;
  } else {
    json::array& holders = object["Holders"].emplace_array();
    for (const std::string& session : record.holders) holders.emplace_back(session);
  }
  if (record.closed) object["Closed"] = true;
  if (!record.revoked.empty()) {
    json::object& revoked = object["Revoked"].emplace_object();
    for (const std::string& session : record.revoked) revoked[session] = true;
  }
  return json::serialize(object);
}

}  // namespace holdfast::protocol
