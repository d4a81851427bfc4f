#pragma once

#include <boost/system/result.hpp>
#include <chrono>
#include <cstdint>
#include <holdfast/error.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "protocol/operation.hpp"
#include "protocol/snapshot.hpp"

// What an operator orders, on a semaphore that is in use. Each order is a pure function from what stands in Consul to
// the one transaction that comes next, guarded by the record's index: whoever has written meanwhile, another operator
// included, lets it be refused, and one looks again. What is done already needs no write: so an order whose write has
// an unknown outcome is just given again, and the record decides.
namespace holdfast::protocol {

/// All that stands below a semaphore's prefix, at one index.
struct inspection {
  std::string prefix;    ///< with its trailing slash
  std::string lock_key;  ///< whole
  snapshot now;
  std::uint64_t lock_created = 0;  ///< the record's CreateIndex; 0: there is none
  /// Entries that no session has locked any more, as sessions leave them that do not delete their keys.
  std::vector<contender> leftovers{};
  std::size_t request_bytes = request_bytes_max;  ///< the largest that Consul takes
};

/// Errors as `make_snapshot`.
boost::system::result<inspection> make_inspection(std::string prefix, std::string lock_key,
                                                  std::vector<kv_entry> listing, std::uint64_t index);

/// What dead processes have left.
struct leftovers_count {
  std::size_t holders = 0;  ///< dead ones, in the record
  std::size_t entries = 0;
  bool operator==(const leftovers_count&) const = default;
};

/// What is to be done next. Nothing at all: it is as it was ordered to be.
struct instruction {
  error_code refused{};                    ///< then nothing is done
  std::string session{};                   ///< to be destroyed; then look again
  std::vector<kv_operation> operations{};  ///< of one transaction
  bool more = false;                       ///< it is not the last one: look again
  /// The last operation reads all that stands there then. Go on with that as with another look.
  bool reads = false;
  leftovers_count swept{};  ///< what a transaction of `sweep` removes
  bool operator==(const instruction&) const = default;
};

// A write that may free a slot ends with a look (`instruction::reads`), and the order is over when that shows nobody
// who could be granted.
//
// Whoever writes the record grants what is free then: who waits and can run hears of it by this very write. Dead
// holders keep their slots, because theirs may be a lock delay that only the pools know of; but for `sweep`, and the
// one whom `evict` has ended.

/// The record, if there is none. error::limit_conflict if there is one with another limit.
instruction create(const inspection& s, std::uint32_t limit);
/// No slot is taken away by a lower limit.
instruction resize(const inspection& s, std::uint32_t limit);
/// While it is closed nobody is granted; who holds goes on.
instruction set_closed(const inspection& s, bool closed);
/// Marks a holder; error::not_held if the session is none. `doubt`: an earlier write of the mark may have been applied,
/// and then a session that holds no more has heard of it.
instruction revoke(const inspection& s, std::string_view session, bool doubt = false);
/// Ends the session, then takes it out of the record. error::not_held if it neither holds nor waits, unless this is
/// not the first look: then that is what was wanted.
instruction evict(const inspection& s, std::string_view session, bool first_read);
/// What nobody lives by any more.
instruction sweep(const inspection& s);
/// The record and all entries. error::in_use if anybody holds or waits, unless `even_in_use`. `first`: the index of
/// this order's first look; 0: this is it. Once the record of that time has gone, what was written since is other
/// people's, who use the semaphore anew: it is left alone.
instruction destroy(const inspection& s, bool even_in_use, std::uint64_t first = 0);
/// `more` while somebody alive holds; nothing is ever written. Without a record nobody does, but if that is so at the
/// first look there is nothing to wait for: error::no_semaphore.
instruction drain(const inspection& s, bool first_read);

/// What `sweep` would find.
leftovers_count count_leftovers(const inspection& s);

}  // namespace holdfast::protocol
