// SPDX-FileCopyrightText: The holdfast authors
// SPDX-License-Identifier: BSL-1.0

#pragma once

#include <boost/system/result.hpp>
#include <chrono>
#include <cstdint>
#include <holdfast/error.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "protocol/base/operation.hpp"
#include "protocol/record/snapshot.hpp"

// The commands of an operator, for a semaphore that is in use. Each command is a pure function from the state in
// Consul, and from its own history (`command_history`), to the next instruction. The index of the record guards a
// transaction that writes the record, and the index of each removed entry guards its removal. If somebody else has
// written one of them meanwhile, such as another operator, Consul refuses the transaction, and the state is read again.
// A command that is already carried out needs no write. So after a write of unknown outcome, the command is run again
// with its history, and the state in Consul decides.
namespace holdfast::protocol {

/// The state of all keys below a semaphore's prefix at one index.
struct inspection {
  std::string prefix;    ///< with its trailing slash
  std::string lock_key;  ///< the full name of the record's key
  snapshot now;
  std::uint64_t lock_created = 0;  ///< the record's CreateIndex; 0: there is no record
  /// Entries that no session has locked any more. A session leaves such an entry if its behavior is not to delete its
  /// keys.
  std::vector<contender> leftovers{};
  std::size_t request_bytes = request_bytes_max;  ///< the largest request that Consul accepts
};

/// Fails with the same errors as `make_snapshot`.
boost::system::result<inspection> make_inspection(std::string prefix, std::string lock_key,
                                                  std::vector<kv_entry> listing, std::uint64_t index);

/// The number of traces that dead processes have left.
struct leftovers_count {
  std::size_t holders = 0;  ///< dead holders in the record
  std::size_t entries = 0;
  bool operator==(const leftovers_count&) const = default;
};

/// The next thing to do. An empty instruction means that the command is carried out.
struct instruction {
  error_code refused{};                    ///< why the command is refused; then nothing is done
  std::string session{};                   ///< destroy this session, then read again
  std::vector<kv_operation> operations{};  ///< send these operations in one transaction
  bool more = false;                       ///< more is to be done after this instruction: read again
  /// The last operation of the transaction reads all keys below the prefix. Use its result as the next read.
  bool reads = false;
  leftovers_count swept{};  ///< the traces of dead processes that a transaction of `sweep` removes
  bool operator==(const instruction&) const = default;
};

// A write that may free a slot, except one of `destroy`, ends with a read (`instruction::reads`). The command is done
// when this read shows no contender that could be granted. It is also done, with success, if its time is over, or if a
// later write is not applied: then a process that waits grants the contender.
//
// Each write of the record also grants the free slots, as many as fit. A granted contender is notified by this write,
// because the write touches its entry. Dead holders keep their slots, because a lock delay may protect them, which only
// the pools know. There are two exceptions: `sweep` removes all dead holders, and `evict` removes the one that it has
// ended.

/// Creates the record, if there is none. Refused with error::limit_conflict if there is one with another limit, and
/// with error::invalid_limit if no semaphore can have this limit.
instruction create(const inspection& s, std::uint32_t limit);
/// Changes the limit. A lower limit takes no slot away from a holder. Refused with error::invalid_limit like `create`,
/// and with error::no_semaphore if there is no record.
instruction resize(const inspection& s, std::uint32_t limit);
/// Closes or opens the semaphore. While it is closed, no contender is granted. Holders keep their slots. Refused with
/// error::no_semaphore if there is no record.
instruction set_closed(const inspection& s, bool closed);
/// Marks a holder, to ask it to release its slot. Refused with error::too_large if the marked record would not fit into
/// a request. Refused if the first read shows no record (error::no_semaphore), or that the session is no holder
/// (error::not_held). At a later read, this means that the command is carried out: a write may have been applied
/// although its reply was lost, or said that others had written. A proxy that repeats a request has such a reply.
instruction revoke(const inspection& s, std::string_view session, bool first_read);
/// Ends the session if it has an entry that holds or waits. Then removes it from the record, and removes an entry that
/// it has left. Refused with error::not_held if the first read shows neither an entry of the session nor its name in
/// the record. At a later read, this means that the command is carried out.
instruction evict(const inspection& s, std::string_view session, bool first_read);
/// Removes the traces of dead processes: dead holders, and entries that no session has locked.
instruction sweep(const inspection& s);
/// Removes the record, all entries with their acceptances, and all numbers. Refused with error::in_use if a live
/// session holds, waits, or has a number, unless `even_in_use`. `first` is the index of the command's first read, or 0
/// if this is the first read. Once the record of the first read is gone, the command is not refused any more. Keys that
/// were written after the first read then belong to processes that use the semaphore anew, and they are kept.
instruction destroy(const inspection& s, bool even_in_use, std::uint64_t first = 0);
/// Sets `more` while a live session holds a slot, and never writes. Without a record there is no holder. If there is no
/// record at the first read, the command is refused with error::no_semaphore.
instruction drain(const inspection& s, bool first_read);

/// The number of traces of dead processes that `sweep` would find.
leftovers_count count_leftovers(const inspection& s);

}  // namespace holdfast::protocol
