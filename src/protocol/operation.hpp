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
