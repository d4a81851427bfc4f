// SPDX-FileCopyrightText: The holdfast authors
// SPDX-License-Identifier: BSL-1.0

#pragma once

#include <cstdint>
#include <optional>
#include <string>

namespace holdfast {

/// Explains a failure to a person: the library's message, the key, and the server's message. The server's message is
/// kept apart, because its text is untrusted.
///
/// If the options of an operation point to a `diagnostics`, the operation fills it in on failure. A cancellation, or an
/// operation on an empty handle, may leave it as it was. The object must outlive the operation. It is not changed on
/// success, nor after completion. There is one exception: if a successful read had to leave something out, the client
/// says so there. See `consul::request_options::diag`.
struct diagnostics {
  struct limits {
    std::uint32_t recorded = 0;  ///< the limit in the lock record
    std::uint32_t ours = 0;      ///< the limit of this semaphore, or of the command
    bool operator==(const limits&) const = default;
  };

  std::string message;         ///< one sentence from this library
  std::string key;             ///< the key or prefix, session, node, lock or semaphore concerned, empty if none
  std::string server_message;  ///< the server's answer, cut to a reasonable length
  std::optional<limits> limit_conflict;  ///< set with error::limit_conflict

  /// Returns all fields as one line, for logs.
  std::string to_string() const;
  bool operator==(const diagnostics&) const = default;
};

/// Options of an operation that has no other options. `diag` is in the options of all operations.
struct operation_options {
  /// Filled in on failure. Must outlive the operation.
  diagnostics* diag = nullptr;
};

}  // namespace holdfast
