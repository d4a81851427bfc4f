// SPDX-FileCopyrightText: The holdfast authors
// SPDX-License-Identifier: BSL-1.0

#pragma once

#include <exception>
#include <holdfast/detail/export.hpp>
#include <holdfast/diagnostics.hpp>
#include <holdfast/error.hpp>
#include <memory>

namespace holdfast::detail {

/// The result of an operation: success, or a code with diagnostics. Plain completion tokens get only the code.
/// `throwing` gets an exception that contains the code and the diagnostics. On success nothing is allocated. The object
/// is as large as a pointer. If there is no memory for a failure, its code becomes errc::not_enough_memory.
class HOLDFAST_EXPORT outcome {
public:
  outcome() noexcept = default;
  outcome(const error_code& ec) noexcept {  // NOLINT(google-explicit-constructor): most failures have only a code
    if (ec) *this = outcome(ec, {});
  }
  outcome(const error_code& ec, diagnostics why) noexcept;

  error_code code() const noexcept { return failure_ ? code_of(*failure_) : error_code(); }
  /// An `error_with_diagnostics`. Null on success.
  std::exception_ptr exception() const noexcept { return failure_ ? make_exception() : nullptr; }

private:
  // Allocated separately, because outcomes are moved often and most of them are successes.
  struct failure;
  struct deleter {
    void operator()(failure* ended) const noexcept;
  };
  static error_code code_of(const failure& ended) noexcept;
  static failure& without_memory() noexcept;
  std::exception_ptr make_exception() const noexcept;

  std::unique_ptr<failure, deleter> failure_{};
};

}  // namespace holdfast::detail
