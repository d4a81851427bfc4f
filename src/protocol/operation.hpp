#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

namespace holdfast::protocol {

/// Consul's bound on the operations of one transaction.
inline constexpr std::size_t operations_max = 64;

/// The transaction verbs that the protocol needs. The shell hands them to Consul as they are.
enum class verb { lock, cas, remove, remove_cas, get_tree };

struct operation {
  protocol::verb verb;
  std::string key;
  std::string value{};
  std::uint64_t flags = 0;
  std::uint64_t index = 0;
  std::string session{};
  bool operator==(const operation&) const = default;
};

/// How many results Consul returns for it in the reply (get_tree: any number).
constexpr std::size_t results_of(verb v) noexcept {
  return v == verb::remove || v == verb::remove_cas || v == verb::get_tree ? 0 : 1;
}

}  // namespace holdfast::protocol
