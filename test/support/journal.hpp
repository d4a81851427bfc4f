#pragma once

#include <cstdint>
#include <filesystem>
#include <holdfast/fencing_token.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "protocol/time.hpp"

// What worker processes write down while a cluster fails around them. One line each, so that anybody can read it:
//   <ns> <who> <event> <slot> <grant>.<handoff> <lease ns> <words>
// Times are of the clock that counts suspend, which all processes of a machine share.
namespace holdfast::test {

enum class journal_event {
  asked,    ///< waits for a slot
  enter,    ///< believes in it from now on, until `lease` at the latest; the words say which one, if that matters
  lease,    ///< believes until then now
  leave,    ///< believes no longer, by its own will
  lost,     ///< believes no longer: it was told that the slot is lost
  failed,   ///< the acquire failed; it asks again
  gone,     ///< neither waits nor believes any more: all of this process's, if `slot` is -1
  checked,  ///< has looked at its slot, and is going to write to a store without looking again
  wrote,    ///< has done so; the words are what the stores said
  away,     ///< by the test: stopped, or cut off from where slots are granted; nothing can be promised to its waiters
  back,     ///< by the test: not so any more
  fault,    ///< by the test: something breaks
  mended,   ///< by the test: it works again, which may well disturb once more
  limit,    ///< by the test: so many may believe from now on; the words say how many
  saw,      ///< an observer was told who leads: the words, or nobody; `token` says since which index
};

struct journal_entry {
  protocol::time_point at{};
  std::string who{};
  journal_event what = journal_event::asked;
  int slot = 0;  ///< which of the process's coroutines
  fencing_token token{};
  protocol::time_point lease{};
  std::string words{};
  bool operator==(const journal_entry&) const = default;
};

std::string_view to_string(journal_event event);
std::string to_line(const journal_entry& entry);
/// Nothing if that is no line of a journal.
std::optional<journal_entry> parse_journal_line(std::string_view line);

/// Now, by the journals' clock.
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
