// SPDX-FileCopyrightText: The holdfast authors
// SPDX-License-Identifier: BSL-1.0

#pragma once

#include <cstdint>
#include <filesystem>
#include <holdfast/detail/enumeration.hpp>
#include <holdfast/fencing_token.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "protocol/base/time.hpp"

// The journal that worker processes write while a cluster fails around them. Each entry is one line of text:
//   <ns> <who> <event> <slot> <grant>.<handoff> <lease ns> <words>
// Times are those of the clock that goes on while the machine is suspended. All processes of a machine share it.
namespace holdfast::test {

enum class journal_event {
  asked,    ///< the coroutine waits for a slot
  enter,    ///< it believes that it holds a slot, until `lease` at the latest; `words` name the slot, if that matters
  lease,    ///< it now believes so until `lease`
  leave,    ///< it no longer believes, because it is going to release the slot
  lost,     ///< it was notified that the slot is lost
  failed,   ///< the acquire failed; it asks again
  gone,     ///< it neither waits nor believes any more; if `slot` is -1, this is true of all coroutines of the process
  checked,  ///< it has checked its slot, and is going to write to a store without checking again
  wrote,    ///< it has written; `words` are the answers of the stores
  away,     ///< by the test: the process is stopped or cut off, so its waiters are promised nothing
  back,     ///< by the test: the process is no longer away
  fault,    ///< by the test: a fault begins
  mended,   ///< by the test: the fault ends, which may disturb once more
  limit,    ///< by the test: a new limit, which is in `words`
  saw,      ///< an observer was notified of the leader: `words` are its value or "nobody", `token` has the index
};

constexpr std::string_view to_string(journal_event event) noexcept {
  switch (event) {
    case journal_event::asked:
      return "asked";
    case journal_event::enter:
      return "enter";
    case journal_event::lease:
      return "lease";
    case journal_event::leave:
      return "leave";
    case journal_event::lost:
      return "lost";
    case journal_event::failed:
      return "failed";
    case journal_event::gone:
      return "gone";
    case journal_event::checked:
      return "checked";
    case journal_event::wrote:
      return "wrote";
    case journal_event::away:
      return "away";
    case journal_event::back:
      return "back";
    case journal_event::fault:
      return "fault";
    case journal_event::mended:
      return "mended";
    case journal_event::limit:
      return "limit";
    case journal_event::saw:
      return "saw";
  }
  return {};
}
inline constexpr auto journal_events = detail::enumerators<journal_event>();

struct journal_entry {
  protocol::time_point at{};
  std::string who{};
  journal_event what = journal_event::asked;
  int slot = 0;  ///< the number of the coroutine in its process
  fencing_token token{};
  protocol::time_point lease{};
  std::string words{};
  bool operator==(const journal_entry&) const = default;
};

std::string to_line(const journal_entry& entry);
/// Empty if that is no line of a journal.
std::optional<journal_entry> parse_journal_line(std::string_view line);

/// The present time on the journals' clock.
protocol::time_point journal_now();

/// A file that any number of processes append to. Each line is one write, so lines do not mix.
class journal {
public:
  /// Throws std::system_error if it cannot be opened.
  explicit journal(std::filesystem::path file);
  journal(const journal&) = delete;
  journal& operator=(const journal&) = delete;
  ~journal();

  const std::filesystem::path& path() const { return path_; }
  /// Throws std::system_error if the line is not written whole.
  void write(const journal_entry& entry);

private:
  std::filesystem::path path_;
  int fd_;
};

/// All whole lines of the file, which may be written to, in the order of time. Throws std::runtime_error if a line
/// cannot be read.
std::vector<journal_entry> read_journal(const std::filesystem::path& file);

}  // namespace holdfast::test
