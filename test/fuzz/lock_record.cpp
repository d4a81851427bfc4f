// SPDX-FileCopyrightText: The holdfast authors
// SPDX-License-Identifier: BSL-1.0

// The value of the lock key, which any Consul client may write.

#include "protocol/record/lock_record.hpp"

#include <algorithm>
#include <holdfast/error.hpp>
#include <string>

#include "fuzz.hpp"

using namespace holdfast;
using namespace holdfast::protocol;
using holdfast::fuzz::require;

namespace {

void check_well_formed(const lock_record& record) {
  require(record.limit >= 1, "a limit is at least 1");
  require(std::is_sorted(record.holders.begin(), record.holders.end()), "holders are sorted");
  require(std::adjacent_find(record.holders.begin(), record.holders.end()) == record.holders.end(),
          "each holder is named once");
  require(std::is_sorted(record.revoked.begin(), record.revoked.end()), "marks are sorted");
  require(std::adjacent_find(record.revoked.begin(), record.revoked.end()) == record.revoked.end(),
          "each mark is there once");
}

void check_survives(const lock_record& record) {
  check_well_formed(record);
  const std::string written = format(record);
  const auto again = parse_lock_record(written);
  require(again.has_value(), "what we write can be read");
  require(*again == record, "a record survives being written");
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const auto parsed = parse_lock_record(fuzz::text_of(data, size));
  if (!parsed) {
    require(parsed.error() == error::corrupt_record, "a record that cannot be read is corrupt");
    return 0;
  }
  check_survives(*parsed);

  // One more, one less: what a grant and a release do to it.
  const std::string newcomer = "11111111-2222-3333-4444-555555555555";
  lock_record changed = *parsed;
  changed.add(newcomer);
  require(changed.names(newcomer), "who is added is named");
  require(changed.holders.size() == parsed->holders.size() + (parsed->names(newcomer) ? 0 : 1), "by one");
  check_survives(changed);
  changed.revoke(newcomer);
  require(changed.revokes(newcomer), "who is revoked is marked");
  changed.closed = !changed.closed;
  check_survives(changed);
  changed.closed = parsed->closed;
  changed.drop(newcomer);
  require(!changed.names(newcomer) && !changed.revokes(newcomer), "who is dropped is not");
  if (!parsed->names(newcomer) && !parsed->revokes(newcomer)) require(changed == *parsed, "and leaves no trace");
  while (!changed.holders.empty()) {
    const std::size_t before = changed.holders.size();
    changed.drop(changed.holders[before / 2]);
    require(changed.holders.size() == before - 1, "each holder can be dropped");
  }
  check_survives(changed);
  changed.keep_marks_of_holders();
  require(changed.revoked.empty(), "nobody holds, nobody is marked");
  return 0;
}
