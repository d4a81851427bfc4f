// SPDX-FileCopyrightText: The holdfast authors
// SPDX-License-Identifier: BSL-1.0

#include "protocol/record/snapshot.hpp"

#include <algorithm>
#include <charconv>
#include <holdfast/error.hpp>
#include <numeric>
#include <set>
#include <tuple>
#include <utility>

#include "protocol/record/entry_value.hpp"

namespace holdfast::protocol {

namespace {

bool stands_before(const contender& a, const contender& b) {
  return std::tie(a.create_index, a.session) < std::tie(b.create_index, b.session);
}

constexpr std::string_view number_folder = ".slot/";
constexpr std::string_view acceptance_ending = ".accepted";

}  // namespace

std::string numbers_of(std::string_view entries) { return std::string(entries).append(number_folder); }
std::string acceptance_of_entry(std::string entry_key) { return std::move(entry_key.append(acceptance_ending)); }

std::optional<std::uint32_t> number_in(std::string_view key, std::string_view entries) {
  if (!key.starts_with(entries) || !key.substr(entries.size()).starts_with(number_folder)) return std::nullopt;
  const std::string_view digits = key.substr(entries.size() + number_folder.size());
  std::uint32_t number = 0;
  const auto [end, ec] = std::from_chars(digits.data(), digits.data() + digits.size(), number);
  if (ec != std::errc() || number >= limit_max || digits != std::to_string(number)) return std::nullopt;
  return number;
}

contender_queue::contender_queue(std::vector<contender> all) : list_(std::move(all)) {
  sort();
  const auto is_same = [this](std::uint32_t a, std::uint32_t b) { return list_[a].session == list_[b].session; };
  if (std::adjacent_find(by_session_.begin(), by_session_.end(), is_same) == by_session_.end()) return;
  // Consul lists each key once. If a session appears more than once all the same, its first contender counts.
  std::set<std::string_view> seen;
  std::vector<contender> once;
  for (const contender& each : list_)
    if (seen.insert(each.session).second) once.push_back(each);
  list_ = std::move(once);
  sort();
}

void contender_queue::sort() {
  std::sort(list_.begin(), list_.end(), stands_before);
  by_session_.resize(list_.size());
  std::iota(by_session_.begin(), by_session_.end(), 0u);
  std::sort(by_session_.begin(), by_session_.end(),
            [this](std::uint32_t a, std::uint32_t b) { return list_[a].session < list_[b].session; });
}

/// The first place whose session is not before this one in the order of names.
std::vector<std::uint32_t>::const_iterator contender_queue::place_of(std::string_view session) const {
  return std::lower_bound(by_session_.begin(), by_session_.end(), session,
                          [this](std::uint32_t place, std::string_view name) { return list_[place].session < name; });
}

const contender* contender_queue::find(std::string_view session) const {
  const auto at = place_of(session);
  return at != by_session_.end() && list_[*at].session == session ? &list_[*at] : nullptr;
}

contender* contender_queue::find(std::string_view session) {
  return const_cast<contender*>(std::as_const(*this).find(session));
}

void contender_queue::insert(contender entry) {
  const auto at = std::upper_bound(list_.begin(), list_.end(), entry, stands_before);
  const auto place = static_cast<std::uint32_t>(at - list_.begin());
  const auto found = by_session_.insert(place_of(entry.session), place);
  for (auto each = by_session_.begin(); each != by_session_.end(); ++each)
    if (each != found && *each >= place) ++*each;
  list_.insert(at, std::move(entry));
}

void contender_queue::erase(std::string_view session) {
  const auto at = place_of(session);
  if (at == by_session_.end() || list_[*at].session != session) return;
  const std::uint32_t place = *at;
  list_.erase(list_.begin() + place);
  by_session_.erase(at);
  for (std::uint32_t& each : by_session_) each -= each > place;
}

snapshot::matches snapshot::match() const {
  matches result{std::vector<bool>(contenders.size()), std::vector<bool>(record.holders.size())};
  auto place = contenders.by_session().begin();
  const auto end = contenders.by_session().end();
  for (std::size_t i = 0; i != record.holders.size(); ++i) {
    int order = -1;
    while (place != end && (order = contenders[*place].session.compare(record.holders[i])) < 0) ++place;
    if (place == end) break;
    result.present[i] = result.named[*place] = order == 0;
  }
  return result;
}

const slot_number* snapshot::number_of(std::string_view session) const {
  const auto at =
      std::find_if(numbers.begin(), numbers.end(), [&](const slot_number& each) { return each.session == session; });
  return at == numbers.end() || session.empty() ? nullptr : &*at;
}

bool snapshot::has_given_back(std::string_view session) const {
  return std::any_of(given_back.begin(), given_back.end(),
                     [&](const contender& each) { return each.session == session; });
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
  if (at > lock_index) given_back.clear();
  record = std::move(whole);
  lock_flags = flags;
  lock_index = at;
}

void snapshot::keep_newer(const snapshot& other) {
  const bool newer_record = other.lock_index > index;
  if (newer_record) take_record(other.record, other.lock_flags, other.lock_index);
  for (const contender& entry : other.contenders) {
    if (entry.modify_index <= index) continue;
    contenders.erase(entry.session);
    contenders.insert(entry);
    if (!newer_record && other.record.names(entry.session)) record.add(entry.session);
  }
  for (const slot_number& each : other.numbers)
    if (each.modify_index > index) take_number(each);
}

boost::system::result<snapshot> make_snapshot(std::string_view entries, std::string_view lock_key,
                                              std::vector<kv_entry> listing, std::uint64_t index, record_form form) {
  const bool is_mutex = form == record_form::session;
  snapshot result;
  std::vector<contender> contenders;
  std::vector<std::string> accepted;
  result.index = index;
  result.record.form = form;
  result.lock_flags = is_mutex ? mutex_flags : semaphore_flags;
  for (kv_entry& pair : listing) {
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
      (is_given_back(pair.flags) ? result.given_back : contenders)
          .push_back(
              {std::move(pair.session), std::move(pair.value), pair.flags, pair.create_index, pair.modify_index});
    } else if (!pair.session.empty() && pair.key.ends_with(acceptance_ending) &&
               pair.key == acceptance_of_entry(std::string(entries) + pair.session)) {
      accepted.push_back(std::move(pair.session));
    } else if (const auto number = number_in(pair.key, entries)) {
      result.numbers.push_back({*number, std::move(pair.session), pair.modify_index});
    }
  }
  std::sort(result.given_back.begin(), result.given_back.end(),
            [](const contender& a, const contender& b) { return a.session < b.session; });
  result.contenders = contender_queue(std::move(contenders));
  for (const std::string& session : accepted)
    if (contender* const its = result.find(session)) its->accepted = true;
  return result;
}

std::vector<kv_operation> rewrite(std::string_view lock_key, const snapshot& now, const lock_record& next,
                                  const std::string& description, const std::optional<std::string>& left) {
  const std::string key(lock_key);
  if (next.form != record_form::session) return {kv_operation::cas(key, format(next), now.lock_index, now.lock_flags)};
  const auto described = [&](const std::string& holder) {
    const contender* const entry = now.find(holder);
    return entry ? std::string(parse_entry_value(entry->value).description) : description;
  };
  std::vector<kv_operation> list;
  list.push_back(now.lock_index == 0 ? kv_operation::check_not_exists(key)
                                     : kv_operation::check_index(key, now.lock_index));
  for (const std::string& holder : now.record.holders)
    if (!next.names(holder))
      list.push_back(kv_operation::unlock(key, left ? *left : described(holder), holder, now.lock_flags));
  for (const std::string& holder : next.holders)
    if (!now.record.names(holder)) list.push_back(kv_operation::lock(key, described(holder), holder, now.lock_flags));
  return list;
}

}  // namespace holdfast::protocol
