#include "protocol/snapshot.hpp"

#include <algorithm>
#include <charconv>
#include <holdfast/error.hpp>
#include <tuple>

#include "protocol/succession.hpp"

namespace holdfast::protocol {

namespace {

bool stands_before(const contender& a, const contender& b) {
  return std::tie(a.create_index, a.session) < std::tie(b.create_index, b.session);
}

template <class Contenders>
auto find_in(Contenders& contenders, std::string_view session) {
  const auto at = std::find_if(contenders.begin(), contenders.end(),
                               [&](const contender& entry) { return entry.session == session; });
  return at == contenders.end() ? nullptr : &*at;
}

constexpr std::string_view number_folder = ".slot/";

}  // namespace

std::string numbers_of(std::string_view entries) { return std::string(entries).append(number_folder); }

std::optional<std::uint32_t> number_in(std::string_view key, std::string_view entries) {
  if (!key.starts_with(entries) || !key.substr(entries.size()).starts_with(number_folder)) return std::nullopt;
  const std::string_view digits = key.substr(entries.size() + number_folder.size());
  std::uint32_t number = 0;
  const auto [end, ec] = std::from_chars(digits.data(), digits.data() + digits.size(), number);
  if (ec != std::errc() || number >= limit_max || digits != std::to_string(number)) return std::nullopt;
  return number;
}

const contender* snapshot::find(std::string_view session) const { return find_in(contenders, session); }
contender* snapshot::find(std::string_view session) { return find_in(contenders, session); }

void snapshot::insert(contender entry) {
  const auto at = std::upper_bound(contenders.begin(), contenders.end(), entry, stands_before);
  contenders.insert(at, std::move(entry));
}

void snapshot::erase(std::string_view session) {
  std::erase_if(contenders, [&](const contender& entry) { return entry.session == session; });
}

const slot_number* snapshot::number_of(std::string_view session) const {
  const auto at =
      std::find_if(numbers.begin(), numbers.end(), [&](const slot_number& each) { return each.session == session; });
  return at == numbers.end() || session.empty() ? nullptr : &*at;
}

void snapshot::take_number(slot_number seen) {
  const auto at =
      std::find_if(numbers.begin(), numbers.end(), [&](const slot_number& each) { return each.number == seen.number; });
  if (at == numbers.end())
    numbers.push_back(std::move(seen));
  else if (at->modify_index < seen.modify_index)
    *at = std::move(seen);
}

void snapshot::take_record(lock_record whole, std::uint64_t flags, std::uint64_t at) {
  for (const contender& entry : contenders)
    if (entry.modify_index > at && record.names(entry.session)) whole.add(entry.session);
  record = std::move(whole);
  lock_flags = flags;
  lock_index = at;
}

void snapshot::keep_newer(const snapshot& other) {
  const bool newer_record = other.lock_index > index;
  if (newer_record) take_record(other.record, other.lock_flags, other.lock_index);
  for (const contender& entry : other.contenders) {
    if (entry.modify_index <= index) continue;
    erase(entry.session);
    insert(entry);
    if (!newer_record && other.record.names(entry.session)) record.add(entry.session);
  }
  for (const slot_number& each : other.numbers)
    if (each.modify_index > index) take_number(each);
}

boost::system::result<snapshot> make_snapshot(std::string_view entries, std::string_view lock_key,
                                              std::vector<key_value> listing, std::uint64_t index, record_form form) {
  const bool is_mutex = form == record_form::session;
  snapshot result;
  result.index = index;
  result.record.form = form;
  result.lock_flags = is_mutex ? mutex_flags : semaphore_flags;
  for (key_value& pair : listing) {
    if (pair.key == lock_key) {
      if (pair.flags != 0 && pair.flags != result.lock_flags)
        return make_error_code(is_mutex ? error::not_a_mutex : error::not_a_semaphore);
      result.lock_index = pair.modify_index;
      result.lock_flags = pair.flags;
      if (is_mutex) {
        result.record.limit = 1;
        if (!pair.session.empty()) result.record.add(std::move(pair.session));
        continue;
      }
      auto record = parse_lock_record(pair.value);
      if (!record) return record.error();
      result.record = *std::move(record);
    } else if (!pair.session.empty() && pair.key.starts_with(entries) &&
               std::string_view(pair.key).substr(entries.size()) == pair.session) {
      result.contenders.push_back(
          {std::move(pair.session), std::move(pair.value), pair.flags, pair.create_index, pair.modify_index});
    } else if (const auto number = number_in(pair.key, entries)) {
      result.numbers.push_back({*number, std::move(pair.session), pair.modify_index});
    }
  }
  std::sort(result.contenders.begin(), result.contenders.end(), stands_before);
  return result;
}

std::vector<operation> rewrite(std::string_view lock_key, const snapshot& now, const lock_record& next,
                               const std::string& description, const std::optional<std::string>& left) {
  const std::string key(lock_key);
  if (next.form != record_form::session) return {{verb::cas, key, format(next), now.lock_flags, now.lock_index}};
  const auto described = [&](const std::string& holder) {
    const contender* const entry = now.find(holder);
    return entry ? std::string(words_in(entry->value).description) : description;
  };
  std::vector<operation> list;
  list.push_back(now.lock_index == 0 ? operation{verb::check_not_exists, key}
                                     : operation{verb::check_index, key, {}, 0, now.lock_index});
  for (const std::string& holder : now.record.holders)
    if (!next.names(holder))
      list.push_back({verb::unlock, key, left ? *left : described(holder), now.lock_flags, 0, holder});
  for (const std::string& holder : next.holders)
    if (!now.record.names(holder)) list.push_back({verb::lock, key, described(holder), now.lock_flags, 0, holder});
  return list;
}

}  // namespace holdfast::protocol
