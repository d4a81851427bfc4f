#pragma once

#include <optional>

#include "protocol/decide.hpp"
#include "protocol/transaction.hpp"

namespace holdfast::protocol {

/// The transaction that makes these moves, and makes the record what `next` says if it `writes_record`. Whom it wakes
/// without a grant, if it yields a mutex: the head of the queue.
transaction compose(const facts& f, const moves& what, grant_plan next, bool writes_record, request_id id);

}  // namespace holdfast::protocol
