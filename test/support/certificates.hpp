#pragma once

#include <chrono>
#include <memory>
#include <string>
#include <vector>

namespace holdfast::test {

/// A certificate with its key, both as PEM.
struct identity {
  std::string certificate;
  std::string key;
};

/// What an authority is asked to sign. Names that are IP literals are such.
struct certificate_request {
  std::vector<std::string> names{};
  std::chrono::seconds from = -std::chrono::hours(1);  ///< from now
  std::chrono::seconds until = std::chrono::hours(1);
};

/// A certificate authority of the test's own.
class authority {
public:
  authority();
  ~authority();
  authority(authority&&) noexcept;
  authority& operator=(authority&&) noexcept;

  const std::string& certificate() const;  ///< PEM
  identity issue(const certificate_request& request) const;
  /// Signed by itself.
  static identity self_signed(const certificate_request& request);

private:
  struct state;
  std::unique_ptr<state> state_;
};

}  // namespace holdfast::test
