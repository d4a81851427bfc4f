// SPDX-FileCopyrightText: The holdfast authors
// SPDX-License-Identifier: BSL-1.0

#pragma once

#include <cstddef>
#include <holdfast/kv.hpp>
#include <vector>

namespace holdfast::protocol {

/// The number of operations that every version of Consul accepts in one transaction. Versions from 1.14 on accept twice
/// as many.
inline constexpr std::size_t operations_max = 64;

/// Consul's default limit on the bytes of a transaction's request, and on the bytes of a value.
inline constexpr std::size_t request_bytes_max = 512 * 1024;

/// The size of a value in a request, where it is encoded in base64.
constexpr std::size_t in_base64(std::size_t bytes) noexcept { return (bytes + 2) / 3 * 4; }

/// The largest size of an operation in a request, in bytes. `key` and `value` are the sizes of its key and its value.
constexpr std::size_t bytes_of_operation(std::size_t key, std::size_t value) noexcept {
  return 200 + key + in_base64(value);  // the names of all fields, two numbers, and a session
}

/// The kind of result that Consul returns for an operation. Our transactions read at their end, so the results of reads
/// are the last ones.
enum class result_kind { none, unchanged, written, read };
constexpr result_kind result_of(kv_verb v) noexcept {
  switch (v) {
    case kv_verb::lock:
    case kv_verb::unlock:
    case kv_verb::cas:
    case kv_verb::set:
      return result_kind::written;
    case kv_verb::check_session:
    case kv_verb::check_index:
      return result_kind::unchanged;
    case kv_verb::get:
    case kv_verb::get_tree:
      return result_kind::read;
    case kv_verb::check_not_exists:
    case kv_verb::remove:
    case kv_verb::remove_cas:
    case kv_verb::remove_tree:
      return result_kind::none;
  }
  return result_kind::none;
}

/// The number of results that precede those of the reads at the end of a transaction.
inline std::size_t results_before_reads(const std::vector<kv_operation>& operations) noexcept {
  std::size_t count = 0;
  for (const kv_operation& op : operations) {
    const result_kind kind = result_of(op.verb);
    count += kind == result_kind::written || kind == result_kind::unchanged;
  }
  return count;
}

}  // namespace holdfast::protocol
