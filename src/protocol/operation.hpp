#pragma once

#include <cstddef>
#include <holdfast/kv.hpp>
#include <vector>

namespace holdfast::protocol {

/// How many operations every Consul takes in one transaction. From 1.14 on it takes twice as many.
inline constexpr std::size_t operations_max = 64;

/// Consul's bound on the bytes of a request that is a transaction, and on those of a value.
inline constexpr std::size_t request_bytes_max = 512 * 1024;

/// As a value travels.
constexpr std::size_t in_base64(std::size_t bytes) noexcept { return (bytes + 2) / 3 * 4; }

/// What an operation with a key and a value of so many bytes has in a request at most.
constexpr std::size_t bytes_of_operation(std::size_t key, std::size_t value) noexcept {
  return 200 + key + in_base64(value);  // the names of all fields, two numbers, and a session
}

/// What Consul returns for an operation of this verb. What is read stands behind all the rest, because transactions of
/// ours read at their end.
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

/// How many results Consul returns for these before those of the reads at their end.
inline std::size_t results_before_reads(const std::vector<kv_operation>& operations) noexcept {
  std::size_t count = 0;
  for (const kv_operation& op : operations) {
    const result_kind kind = result_of(op.verb);
    count += kind == result_kind::written || kind == result_kind::unchanged;
  }
  return count;
}

}  // namespace holdfast::protocol
