#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "protocol/time.hpp"
#include "support/journal.hpp"

namespace holdfast::test {

/// The longest that somebody waited while a slot was free, between one disturbance and the next.
struct longest_wait {
  protocol::duration length{};
  std::string who{};    ///< empty: nobody did
  std::string after{};  ///< the disturbance's words
};

/// What a journal shows.
struct verdict {
  std::string violation{};  ///< the referee's: "G1 ..."; empty if there is none
  std::size_t believers_max = 0;
  protocol::duration overlap{};  ///< for so long in all more than the limit believed
  std::size_t entered = 0;
  std::size_t lost = 0;
  std::size_t failed = 0;               ///< acquires
  std::vector<longest_wait> waits{};    ///< the first before anything broke, then one for each fault and each mending
  const longest_wait& longest() const;  ///< of these
  std::string summary() const;          ///< one line for people
};

/// Reads what processes wrote down. Believers are counted at every instant: from `enter` until `leave` or `lost`, or
/// until the lease that was written last, whichever is first. Of those who say what they have no two have the same. A
/// slot is free while fewer believe than the limit;
/// whoever waits for longer than `bound` then, after the last fault or mending, breaks the promise of progress. One
/// whose acquire failed and who asked again has waited all the time.
verdict judge(const std::vector<journal_entry>& entries, std::uint32_t limit, protocol::duration bound);

/// The picture of it: who held what when, what broke, and who was away.
std::string picture_of(const std::vector<journal_entry>& entries, const std::string& title);

/// Writes `<name>.svg` and `<name>.log` into $HOLDFAST_PICTURES, or else where this process runs. Tells where.
std::string document(const std::vector<journal_entry>& entries, const std::string& name, const std::string& title);

}  // namespace holdfast::test
