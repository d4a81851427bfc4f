// SPDX-FileCopyrightText: The holdfast authors
// SPDX-License-Identifier: BSL-1.0

#pragma once

#include <cstddef>
#include <holdfast/consul/kv.hpp>
#include <holdfast/consul/txn.hpp>
#include <holdfast/error.hpp>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace holdfast::consul::detail {

/// Reads listings and the replies to transactions, which are read often and can be long. A long one is read in parts,
/// so that other work goes on in between. json.hpp says what is refused.
class entries_reader {
public:
  static constexpr std::size_t usual_part = 64 * 1024;

  explicit entries_reader(std::size_t part_max = usual_part) noexcept;
  ~entries_reader();
  entries_reader(entries_reader&&) noexcept;
  entries_reader& operator=(entries_reader&&) = delete;

  /// Reads the next part of the body. Returns nullopt if there is more: the next call must have the same arguments. The
  /// result is reply_too_large if the elements of `out` would need more than `kept_max` bytes beside their texts.
  std::optional<error_code> read(std::string_view body, std::vector<std::string>& out, std::size_t kept_max);
  std::optional<error_code> read(std::string_view body, std::vector<kv_entry>& out, std::size_t kept_max);
  std::optional<error_code> read(std::string_view body, txn_reply& out, std::size_t kept_max);

private:
  class document;

  template <class Target>
  std::optional<error_code> read_part(std::string_view body, Target& out, std::size_t kept_max);

  std::size_t part_max_;
  std::unique_ptr<document> begun_;
};

}  // namespace holdfast::consul::detail
