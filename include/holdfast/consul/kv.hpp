#pragma once

#include <cstdint>
#include <string>

namespace holdfast::consul {

/// One key of the KV store as Consul returns it, `value` decoded from base64. All numbers are exact 64-bit.
struct kv_entry {
  std::string key;
  std::string value;
  std::uint64_t flags = 0;
  std::string session;  ///< the session that has locked the key, empty if none
  std::uint64_t create_index = 0;
  std::uint64_t modify_index = 0;
  std::uint64_t lock_index = 0;
  bool operator==(const kv_entry&) const = default;
};

}  // namespace holdfast::consul
