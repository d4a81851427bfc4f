#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

namespace holdfast::protocol {

/// Consul's bound on the operations of one transaction.
inline constexpr std::size_t operations_max = 64;

/// The transaction verbs that the protocol needs. The shell hands them to Consul as they are.
enum class verb { lock, unlock, cas, check_session, check_index, check_not_exists, remove, remove_cas, get, get_tree };

/// Consul's bound on the bytes of a request that is a transaction, and on those of a value.
inline constexpr std::size_t request_bytes_max = 512 * 1024;

/// As a value travels.
constexpr std::size_t in_base64(std::size_t bytes) noexcept { return (bytes + 2) / 3 * 4; }

/// What an operation with a key and a value of so many bytes has in a request at most.
constexpr std::size_t bytes_of_operation(std::size_t key, std::size_t value) noexcept {
  return 200 + key + in_base64(value);  // the names of all fields, two numbers, and a session
}

struct operation {
  protocol::verb verb;
  std::string key;
  std::string value{};
  std::uint64_t flags = 0;
  std::uint64_t index = 0;
  std::string session{};
  bool operator==(const operation&) const = default;
};

constexpr bool writes(verb v) noexcept { return v == verb::lock || v == verb::unlock || v == verb::cas; }

/// How many results Consul returns for it in the reply, before those of what is read, which stands at the end.
constexpr std::size_t results_of(verb v) noexcept {
  return writes(v) || v == verb::check_session || v == verb::check_index ? 1 : 0;
}

}  // namespace holdfast::protocol
