// SPDX-FileCopyrightText: The holdfast authors
// SPDX-License-Identifier: BSL-1.0

#include "protocol/pool/facts.hpp"

#include "protocol/pool/acceptance.hpp"
#include "protocol/record/entry_value.hpp"

namespace holdfast::protocol {

bool facts::is_withdrawn(const member& m) const {
  const lock_record& record = now().record;
  if (const slot_number* const its = number_of(m); its && its->number >= parts.situation.limit) return true;
  return record.closed || parts.situation.over_limit || (!record.revoked.empty() && record.revokes(m.session));
}

std::string facts::entry_text() const {
  if (!parts.options.wall_offset) return parts.options.description;
  const entry_lease lease{parts.options.ttl, parts.options.lease_margin, parts.options.node,
                          accepts_grants(parts.options)};
  return with_stamp(parts.options.description, time.time_since_epoch() + *parts.options.wall_offset, lease);
}

}  // namespace holdfast::protocol
