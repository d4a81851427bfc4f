#pragma once

#include "protocol/decide.hpp"
#include "protocol/transaction.hpp"

namespace holdfast::protocol {

/// The transaction that makes these moves and, if it `writes_record`, makes the record what `next` says. Where a mutex
/// has to yield (`facts::must_yield`) it grants nobody, and only wakes the first of those whom `next` would grant.
transaction compose(const facts& f, const moves& what, grant_plan next, bool writes_record, request_id id);

/// The transaction that gives the slots of these members back without writing the record: it marks their entries, and
/// unlocks their numbers. It is refused if one of the entries has changed since its grant. `wakes`: it also touches the
/// entry of the first contender that is known to wait elsewhere. That process then reads everything, sees the free
/// slots and takes them.
transaction compose_return(const facts& f, const std::vector<const member*>& who, bool wakes, request_id id);

}  // namespace holdfast::protocol
