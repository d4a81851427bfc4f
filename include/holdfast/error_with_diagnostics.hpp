// SPDX-FileCopyrightText: The holdfast authors
// SPDX-License-Identifier: BSL-1.0

#pragma once

#include <holdfast/detail/export.hpp>
#include <holdfast/diagnostics.hpp>
#include <holdfast/error.hpp>
#include <memory>
#include <string>
#include <utility>

namespace holdfast {

/// Thrown by an operation that was awaited without a completion token, or with `holdfast::throwing`. `what()` names the
/// key and the cause. It consists of `diagnostics::to_string`, followed by the message of the code unless that is
/// included already. A handler for `system_error` catches it, too. It is also the base of `slot_lost_error`, whose
/// `what()` begins with the reason of the loss.
class HOLDFAST_EXPORT error_with_diagnostics : public system_error {
public:
  error_with_diagnostics(const error_code& ec, const diagnostics& why);

  /// `what()` begins with `text`.
  error_with_diagnostics(const error_code& ec, const std::string& text, const diagnostics& why);

  // There is no move, because a moved-from object would have no text.
  error_with_diagnostics(const error_with_diagnostics&) = default;
  error_with_diagnostics& operator=(const error_with_diagnostics&) = default;

  const char* what() const noexcept override { return content_->what.c_str(); }
  /// Empty if there is nothing to add to the code.
  const diagnostics& get_diagnostics() const noexcept { return content_->why; }

private:
  struct content {
    std::string what;
    diagnostics why;
  };
  std::shared_ptr<const content> content_;  // shared, because copying an exception must not throw
};

/// The default completion token. The operation is deferred, as with `asio::deferred`: `co_await` it, or call it with
/// another token. If it fails, `co_await` throws `error_with_diagnostics`.
///
/// If you complete such an operation otherwise, for example in a `make_parallel_group`, its signature is
/// `void(std::exception_ptr, ...)` instead of `void(error_code, ...)`. (If there are results, Boost before 1.83 has a
/// type that derives from `std::exception_ptr` there.) To get the code, use `asio::deferred`.
class throwing_t {
public:
  constexpr throwing_t() noexcept {}  // NOLINT(modernize-use-equals-default): g++ 12 destroys aggregates twice
};
inline constexpr throwing_t throwing;

}  // namespace holdfast
