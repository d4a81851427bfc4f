#pragma once

#include <boost/system/result.hpp>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace holdfast::protocol {

/// The flags of a semaphore's lock key and of a Go contender's entry; the guide's have 0.
inline constexpr std::uint64_t semaphore_flags = 0xe0f69a2baa414de0;

/// A record that names so many holders, and marks each of them as one whom an operator asks for its slot, still fits a
/// transaction, with some room beside it.
inline constexpr std::uint32_t limit_max = 4'200;

/// The flags of a mutex's lock key, as HashiCorp's Go `api.Lock` writes them. Whoever takes it by hand leaves 0.
inline constexpr std::uint64_t mutex_flags = 0x2ddccbc058a50c18;

/// How the lock key says who holds. We write back the form that we found.
enum class record_form {
  map,      ///< `{"<session>":true}` in its value, as HashiCorp's Go semaphore does; and where there was none
  list,     ///< `["<session>"]` in its value, as in the semaphore guide
  session,  ///< a mutex: its one holder has locked it. The value is the holder's description
};

/// What the lock key says: the semaphore's limit and who holds its slots; and what an operator has ordered, which
/// other clients do not know, and drop when they write the record.
struct lock_record {
  record_form form = record_form::map;
  std::uint32_t limit = 0;
  std::vector<std::string> holders;    ///< session ids, sorted, each once
  bool closed = false;                 ///< nobody is to be granted
  std::vector<std::string> revoked{};  ///< those who are asked to give their slots back; sorted, each once

  bool names(std::string_view session) const;
  bool revokes(std::string_view session) const;
  void add(std::string session);
  void drop(std::string session);
  void revoke(std::string session);
  /// Marks of those who do not hold (any more) go.
  void keep_marks_of_holders();
  bool operator==(const lock_record&) const = default;
};

/// error::corrupt_record unless `value` is such a record, its limit between 1 and 2^31.
boost::system::result<lock_record> parse_lock_record(std::string_view value);
/// The value of a semaphore's lock key. What nobody has ordered is not written: an ordinary record is as HashiCorp's
/// client would write it.
std::string format(const lock_record& record);
/// How many bytes that has at most, with so many holders more.
std::size_t size_of(const lock_record& record, std::size_t more_holders = 0);

}  // namespace holdfast::protocol
