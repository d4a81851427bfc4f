// SPDX-FileCopyrightText: The holdfast authors
// SPDX-License-Identifier: BSL-1.0

#include "protocol/facts.hpp"

#include "protocol/acceptance.hpp"
#include "protocol/succession.hpp"

namespace holdfast::protocol {

bool facts::is_withdrawn(const member& m) const {
  const lock_record& record = now().record;
  if (const slot_number* const its = number_of(m); its && its->number >= situation.limit) return true;
  return record.closed || situation.over_limit || (!record.revoked.empty() && record.revokes(m.session));
}

std::string facts::entry_text() const {
  if (!options.wall_offset) return options.description;
  const entry_lease lease{options.ttl, options.lease_margin, options.node, accepts_grants(options)};
  return with_stamp(options.description, time.time_since_epoch() + *options.wall_offset, lease);
}

}  // namespace holdfast::protocol
