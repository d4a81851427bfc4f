// SPDX-FileCopyrightText: The holdfast authors
// SPDX-License-Identifier: BSL-1.0

#pragma once

#include <boost/system/result.hpp>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace holdfast::protocol {

/// The flags of a semaphore's lock key and of a Go contender's entry. Programs that follow Consul's semaphore guide
/// write 0.
inline constexpr std::uint64_t semaphore_flags = 0xe0f69a2baa414de0;

/// The largest limit that a user can set. A record that names this many holders, and marks each of them as revoked,
/// still fits in a transaction of `request_bytes_max` with some room to spare. Records of other clients may have more.
inline constexpr std::uint32_t limit_max = 4'200;

/// The flags of a mutex's lock key, as HashiCorp's Go `api.Lock` writes them. A client that locks the key by hand
/// leaves 0. The locks of a mutex set and the keys of slot numbers have these flags, too.
inline constexpr std::uint64_t mutex_flags = 0x2ddccbc058a50c18;

/// The form in which the lock key names the holders. We write back the form that we found.
enum class record_form {
  map,      ///< `{"<session>":true}` in its value, as HashiCorp's Go semaphore does; also the form of a new record
  list,     ///< `["<session>"]` in its value, as in the semaphore guide
  session,  ///< a mutex: its one holder has locked it. The value is the holder's description, or what it has proclaimed
};

/// The content of the lock key: the semaphore's limit, the holders of its slots, and the effects of an operator's
/// commands. Other clients do not know these effects, and drop them when they write the record.
struct lock_record {
  record_form form = record_form::map;
  std::uint32_t limit = 0;
  std::vector<std::string> holders;    ///< session ids, sorted, each once
  bool closed = false;                 ///< no contender is to be granted
  std::vector<std::string> revoked{};  ///< the holders that are asked to release their slots; sorted, each once

  bool names(std::string_view session) const;
  bool revokes(std::string_view session) const;
  void add(std::string session);
  void drop(std::string session);
  void revoke(std::string session);
  /// Removes from `revoked` the sessions that are not holders.
  void keep_marks_of_holders();
  bool operator==(const lock_record&) const = default;
};

/// Fails with error::corrupt_record unless `value` is such a record with a limit between 1 and 2^31, and with at most
/// 100'000 holders and as many marks.
boost::system::result<lock_record> parse_lock_record(std::string_view value);
/// The value of a semaphore's lock key. Without a command of an operator, a value with the holders in a map is as
/// HashiCorp's client would write it.
std::string format(const lock_record& record);
/// The largest size of that value in bytes, with `more_holders` additional holders.
std::size_t size_of(const lock_record& record, std::size_t more_holders = 0);

}  // namespace holdfast::protocol
