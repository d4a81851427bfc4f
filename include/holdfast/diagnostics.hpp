#pragma once

#include <cstdint>
#include <optional>
#include <string>

namespace holdfast {

/// What a person needs to know about a failure: our words, the key it is about, and the server's words, kept apart
/// because the server's text is not ours to trust. Operations fill one in on failure when their options point to it;
/// it must outlive the operation, and is not touched on success, nor after completion. (The client says there what a
/// read that succeeded had to leave out: see `consul::request_options::diag`.)
struct diagnostics {
  struct limits {
    std::uint32_t recorded = 0;  ///< what the lock record says
    std::uint32_t ours = 0;      ///< what this semaphore was configured with
    bool operator==(const limits&) const = default;
  };

  std::string message;                   ///< one sentence of ours
  std::string key;                       ///< the KV key or session concerned, empty if none
  std::string server_message;            ///< what Consul answered, cut to a sane length
  std::optional<limits> limit_conflict;  ///< set with error::limit_conflict

  /// All of it on one line, for logs.
  std::string to_string() const;
  bool operator==(const diagnostics&) const = default;
};

/// Options of an operation that has no others. All operations take `diag` in their options.
struct operation_options {
  /// Filled in on failure. Must outlive the operation.
  diagnostics* diag = nullptr;
};

}  // namespace holdfast
