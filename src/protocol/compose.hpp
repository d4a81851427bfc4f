#pragma once

#include "protocol/decide.hpp"
#include "protocol/transaction.hpp"

namespace holdfast::protocol {

/// The transaction that makes these moves and, if it `writes_record`, makes the record what `next` says. Where a mutex
/// has to yield (`facts::must_yield`) it grants nobody, and only wakes the first of those whom `next` would grant.
transaction compose(const facts& f, const moves& what, grant_plan next, bool writes_record, request_id id);

}  // namespace holdfast::protocol
