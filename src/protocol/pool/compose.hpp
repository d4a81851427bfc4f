// SPDX-FileCopyrightText: The holdfast authors
// SPDX-License-Identifier: BSL-1.0

#pragma once

#include "protocol/pool/decide.hpp"
#include "protocol/pool/transaction.hpp"

namespace holdfast::protocol {

/// The transaction that makes these moves. If `writes_record` is true, it also writes the record of `next`. If the
/// moves release a mutex that has to yield (`facts::must_yield`), the transaction grants nobody, and only wakes the
/// first contender that `next` would grant.
transaction compose(const facts& f, const moves& what, grant_plan next, bool writes_record, request_id id);

/// The transaction that releases the slots of these members without writing the record. It marks their entries, unlocks
/// their numbers, and removes the keys of their acceptances. It is refused if one of the entries has changed since its
/// grant. If `wakes` is true, it also touches the entry of the first contender that is known to wait elsewhere and that
/// others may grant. The process of that contender then reads everything, and sees the free slots. If that entry has
/// changed meanwhile, the transaction is refused, too.
transaction compose_return(const facts& f, const std::vector<const member*>& who, bool wakes, request_id id);

}  // namespace holdfast::protocol
