// SPDX-FileCopyrightText: The holdfast authors
// SPDX-License-Identifier: BSL-1.0

#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "protocol/base/time.hpp"
#include "support/journal.hpp"

namespace holdfast::test {

/// The longest time for which a coroutine waited while a slot was free, between one disturbance and the next.
struct longest_wait {
  protocol::duration length{};
  std::string who{};    ///< the process that waited; empty if none did
  std::string after{};  ///< the text of the disturbance
};

/// The results of a journal.
struct verdict {
  std::string violation{};  ///< the referee's: "G1 ..."; empty if there is none
  std::size_t believers_max = 0;
  protocol::duration overlap{};  ///< the total time in which there were more believers than the limit
  std::size_t entered = 0;
  std::size_t lost = 0;
  std::size_t failed = 0;               ///< acquires
  std::vector<longest_wait> waits{};    ///< one until the first disturbance, then one for each fault and each mending
  const longest_wait& longest() const;  ///< of these
  std::string summary() const;          ///< one line for people
};

/// Judges the journal of the processes by these rules:
/// - The number of believers is checked at every instant. A coroutine believes from `enter` until `leave`, `lost` or
///   `gone`, or until the lease that was written last, whichever is first.
/// - Two believers whose entries name their slots must not name the same one.
/// - A slot is free while there are fewer believers than the limit. If a coroutine then waits for longer than `bound`
///   after the last fault or mending, and after the last return (`back`) of its process, the guarantee of progress is
///   broken. While its process is away, its wait does not count. A coroutine whose acquire failed, and which
///   asked again, has waited all the time.
verdict judge(const std::vector<journal_entry>& entries, std::uint32_t limit, protocol::duration bound);

/// The journal as a picture: the slots that processes held over time, the faults, and the processes that were away.
std::string picture_of(const std::vector<journal_entry>& entries, const std::string& title);

/// Writes `<name>.svg` and `<name>.log` into $HOLDFAST_PICTURES, or into the current folder if that is not set. Returns
/// a text that says where the files are.
std::string document(const std::vector<journal_entry>& entries, const std::string& name, const std::string& title);

}  // namespace holdfast::test
