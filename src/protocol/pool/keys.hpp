// SPDX-FileCopyrightText: The holdfast authors
// SPDX-License-Identifier: BSL-1.0

#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "protocol/pool/pool_options.hpp"
#include "protocol/record/snapshot.hpp"

namespace holdfast::protocol {

/// The names of the keys of a semaphore or a mutex.
struct key_names {
  std::string prefix;   ///< the common beginning of all keys that are listed and watched
  std::string lock;     ///< the key of the record
  std::string entries;  ///< the part of the contenders' keys before their sessions
  std::string numbers;  ///< the part of the numbers' keys before the number

  explicit key_names(const pool_options& o)
      : prefix(o.prefix), lock(o.lock_key), entries(entries_of(o)), numbers(numbers_of(entries)) {}

  std::string entry(std::string_view session) const { return entries + std::string(session); }
  std::string number(std::uint32_t number) const { return numbers + std::to_string(number); }
  std::string acceptance(std::string_view session) const { return acceptance_of_entry(entry(session)); }
  std::string_view session_in(std::string_view entry) const { return entry.substr(entries.size()); }
};

}  // namespace holdfast::protocol
