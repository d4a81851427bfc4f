// SPDX-FileCopyrightText: The holdfast authors
// SPDX-License-Identifier: BSL-1.0

#include "protocol/pool/transaction.hpp"

#include <algorithm>
#include <iterator>
#include <utility>

namespace holdfast::protocol {

bool transaction::moves(member_id id) const { return std::find(movers.begin(), movers.end(), id) != movers.end(); }

void transaction::patch(snapshot& now, std::uint64_t index, std::uint64_t record_index) const {
  const auto is_newer = [&](const std::string& session) {
    const contender* entry = now.find(session);
    return index != 0 && entry && entry->modify_index > index;
  };
  for (slot_number each : numbers) {
    each.modify_index = index;
    now.take_number(std::move(each));
  }
  if (record_index > now.lock_index) {
    // Nobody else has written the record since it was seen. So the marks of the sessions that had released their slots
    // by then are still valid.
    std::vector<contender> given_back = std::exchange(now.given_back, {});
    now.take_record(record, now.lock_flags, record_index);
    std::erase_if(given_back, [this](const contender& each) {
      return std::find(removed.begin(), removed.end(), each.session) != removed.end();
    });
    now.given_back = std::move(given_back);
  }
  for (const std::string& session : granted) {
    contender* entry = now.find(session);
    if (!entry || is_newer(session)) continue;
    const bool is_provisional = std::find(provisional.begin(), provisional.end(), session) != provisional.end();
    entry->flags = next_grant_flags(entry->flags, is_provisional);
    entry->accepted = false;
    entry->modify_index = index;
  }
  if (contender* const entry = now.find(woken); entry && !is_newer(woken)) entry->modify_index = index;
  for (const auto* const gone : {&removed, &returned})
    for (const std::string& session : *gone)
      if (!is_newer(session)) now.contenders.erase(session);
  for (const auto& [session, text] : inserted) {
    if (is_newer(session)) continue;
    now.contenders.erase(session);  // a late listing may have brought it back
    now.contenders.insert({session, text, entry_flags, index, index});
  }
}

transaction::reply transaction::applied(std::vector<kv_entry> results) const {
  reply its;
  std::size_t single = 0;
  for (std::size_t i = 0; i != operations.size(); ++i) {
    const result_kind kind = result_of(operations[i].verb);
    if (kind == result_kind::written && single < results.size()) {
      std::uint64_t& index = i < record_operations ? its.record_index : its.index;
      index = std::max(index, results[single].modify_index);
    }
    single += kind == result_kind::written || kind == result_kind::unchanged;
  }
  if (its.record_index != base) its.index = std::max(its.index, its.record_index);
  its.has_read = reads != read_scope::none && results.size() >= single;
  if (its.has_read)
    its.read.assign(std::make_move_iterator(results.begin() + static_cast<std::ptrdiff_t>(single)),
                    std::make_move_iterator(results.end()));
  return its;
}

bool transaction::is_granted_since(const snapshot& now, std::uint64_t index) const {
  return now.lock_index > index && std::any_of(inserted.begin(), inserted.end(), [&](const auto& each) {
           const std::string& session = each.first;
           const contender* const entry = now.find(session);
           return now.record.names(session) && !record.names(session) && !(entry && entry->modify_index > index);
         });
}

/// Whether this snapshot shows the final outcome of the transaction. Consul applies a guarded transaction only while
/// the record has the index `base`. So when the record has another index, the transaction has been applied or never
/// will be. A transaction that requires that there is no record (`base` 0) is different: somebody may make a record and
/// delete it again, and then the transaction may still be applied. Its effects on the entries and the numbers also
/// show that a transaction was applied, unless it changes an existing record.
bool transaction::is_decided_by(const snapshot& now) const {
  const auto present = [&](const std::string& session) { return now.find(session) != nullptr; };
  const auto joined = [&](const auto& each) { return present(each.first); };
  const auto numbered = [&](const slot_number& each) {
    const slot_number* const its = now.number_of(each.session);
    return each.session.empty() || (its && its->number == each.number);
  };
  const bool is_guarded = guarded && base != 0;
  const bool moved_on = is_guarded && now.lock_index != base;
  const bool changes_record = record_operations != 0 && !keeps_record;
  const bool done = !(is_guarded && changes_record) && std::all_of(inserted.begin(), inserted.end(), joined) &&
                    std::all_of(numbers.begin(), numbers.end(), numbered) &&
                    (!inserted.empty() || std::none_of(removed.begin(), removed.end(), present));
  return moved_on || done;
}

}  // namespace holdfast::protocol
