// SPDX-FileCopyrightText: The holdfast authors
// SPDX-License-Identifier: BSL-1.0

#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <string_view>

// Shared by the fuzz targets. Each target is one function, which libFuzzer calls with bytes that it generates.
extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size);

namespace holdfast::fuzz {

/// Ends the program if `holds` is false. The input is then a counterexample, which libFuzzer keeps.
inline void require(bool holds, const char* what) {
  if (holds) return;
  std::fprintf(stderr, "\nnot so: %s\n", what);
  std::abort();
}

inline std::string_view text_of(const std::uint8_t* data, std::size_t size) {
  return {reinterpret_cast<const char*>(data), size};
}

/// Splits an input from its beginning: first the bytes that steer the target, then those that it reads. After the end
/// of the input all bytes are zero.
class input {
public:
  input(const std::uint8_t* data, std::size_t size) : rest_(text_of(data, size)) {}

  bool empty() const noexcept { return rest_.empty(); }

  std::uint8_t byte() noexcept {
    if (rest_.empty()) return 0;
    const auto first = static_cast<std::uint8_t>(rest_.front());
    rest_.remove_prefix(1);
    return first;
  }

  std::string_view text(std::size_t size_max) noexcept {
    const std::string_view taken = rest_.substr(0, size_max);
    rest_.remove_prefix(taken.size());
    return taken;
  }

  std::string_view rest() noexcept { return text(rest_.size()); }

private:
  std::string_view rest_;
};

/// The sizes of the pieces in which a stream arrives, derived from one byte: 0 means one piece, 1 means byte by byte.
class pieces {
public:
  explicit pieces(std::uint8_t seed) noexcept : seed_(seed), state_(seed) {}

  /// A size between 1 and `size_max`, which is not 0.
  std::size_t next(std::size_t size_max) noexcept {
    if (seed_ == 0) return size_max;
    if (seed_ == 1) return 1;
    state_ = state_ * 1664525 + 1013904223;
    return std::min<std::size_t>(1 + (state_ >> 24) % seed_, size_max);
  }

private:
  std::uint32_t seed_;
  std::uint32_t state_;
};

}  // namespace holdfast::fuzz
