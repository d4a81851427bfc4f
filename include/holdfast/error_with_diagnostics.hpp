#pragma once

#include <holdfast/diagnostics.hpp>
#include <holdfast/error.hpp>
#include <memory>
#include <string>
#include <utility>

namespace holdfast {

/// The exception of an operation that was awaited without a completion token, or with `holdfast::throwing`. `what()`
/// names the key and the cause: it is `diagnostics::to_string` and then the text of the code, unless that is in there
/// already. Code that catches `system_error` catches it, too.
class error_with_diagnostics : public system_error {
public:
  error_with_diagnostics(const error_code& ec, const diagnostics& why);

  /// `text` is what `what()` begins with.
  error_with_diagnostics(const error_code& ec, const std::string& text, const diagnostics& why);

  // There is no move: what was moved from would have no text.
  error_with_diagnostics(const error_with_diagnostics&) = default;
  error_with_diagnostics& operator=(const error_with_diagnostics&) = default;

  const char* what() const noexcept override { return content_->what.c_str(); }
  /// Empty if there is no more to say than the code.
  const diagnostics& get_diagnostics() const noexcept { return content_->why; }

private:
  struct content {
    std::string what;
    diagnostics why;
  };
  std::shared_ptr<const content> content_;  // copies of an exception must not throw
};

/// The completion token of operations that are begun without one. The operation is deferred, as with `asio::deferred`:
/// `co_await` it, or call it with another token. If it fails, `co_await` throws `error_with_diagnostics`. Where it is
/// completed by hand, as in a `make_parallel_group`, its signature is `void(std::exception_ptr, ...)` in place of
/// `void(error_code, ...)`; `asio::deferred` gives the code.
class throwing_t {
public:
  constexpr throwing_t() noexcept {}  // NOLINT(modernize-use-equals-default): g++ 12 destroys aggregates twice
};
inline constexpr throwing_t throwing;

}  // namespace holdfast
