#include "protocol/lock_record.hpp"

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
  std::sort(into.holders.begin(), into.holders.end());
  into.holders.erase(std::unique(into.holders.begin(), into.holders.end()), into.holders.end());
  return true;
}

}  // namespace

bool lock_record::names(std::string_view session) const {
  return std::binary_search(holders.begin(), holders.end(), session);
}

void lock_record::add(std::string session) {
  const auto at = std::lower_bound(holders.begin(), holders.end(), session);
  if (at == holders.end() || *at != session) holders.insert(at, std::move(session));
}

void lock_record::drop(std::string_view session) {
  const auto at = std::lower_bound(holders.begin(), holders.end(), session);
  if (at != holders.end() && *at == session) holders.erase(at);
}

boost::system::result<lock_record> parse_lock_record(std::string_view value) {
  json::parse_options options;
  options.max_depth = 4;
  error_code ec;
  const json::value parsed = json::parse(json::string_view(value.data(), value.size()), ec, {}, options);
  const json::object* object = ec ? nullptr : parsed.if_object();
  lock_record record;
  if (!object || !read_limit(*object, record.limit) || !read_holders(*object, record))
    return make_error_code(error::corrupt_record);
  return record;
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
  return json::serialize(object);
}

}  // namespace holdfast::protocol
