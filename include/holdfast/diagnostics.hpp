// SPDX-FileCopyrightText: The holdfast authors
// SPDX-License-Identifier: BSL-1.0

#pragma once

#include <chrono>
#include <cstdint>
#include <holdfast/detail/export.hpp>
#include <optional>
#include <string>
#include <vector>

namespace holdfast {

/// Explains a failure to a person: the library's message, the key, and the server's message. The server's message is
/// kept apart, because its text is untrusted.
///
/// If the options of an operation point to a `diagnostics`, the operation fills it in on failure. A cancellation, or an
/// operation on an empty handle, may leave it as it was. The object must outlive the operation. It is not changed after
/// completion, and on success only in two cases. If a successful read had to leave something out, the client says so
/// there: see `consul::request_options::diag`. An acquire describes the queue: see `queue`.
struct diagnostics {
  struct limits {
    std::uint32_t recorded = 0;  ///< the limit in the lock record
    std::uint32_t ours = 0;      ///< the limit of this semaphore, or of the command
    bool operator==(const limits&) const = default;
  };

  /// The queue of a lock, as far as the process knew it when an acquire completed. No request is made for it.
  struct queue_report {
    struct holder {
      std::string session;
      std::string description;                    ///< see `contender_status::description`; untrusted
      std::optional<std::chrono::seconds> age{};  ///< since it joined the queue; see `contender_status::age`
      bool operator==(const holder&) const = default;
    };
    /// The place of the first local waiter in the cluster's queue; 1 is the next one. It is approximate while many
    /// contenders wait. Empty if it is not known.
    std::optional<std::uint64_t> place{};
    std::uint64_t before = 0;  ///< acquires and contenders that were to be served before this acquire when it began
    std::uint64_t held = 0;    ///< slots that are held
    /// Slots among them that users of this object hold. If one of these users waits for the acquire, it waits for
    /// itself.
    std::uint64_t held_here = 0;
    /// At most 10 of the holders, in the order in which they joined. Empty if the acquire got a slot.
    std::vector<holder> holders{};
    /// The wait that was expected when the acquire began. Empty if too few holds were seen before.
    std::optional<std::chrono::nanoseconds> expected_wait{};
    bool operator==(const queue_report&) const = default;
  };

  std::string message;         ///< one sentence from this library
  std::string key;             ///< the key or prefix, session, node, lock or semaphore concerned, empty if none
  std::string server_message;  ///< the server's answer, cut to a reasonable length
  std::optional<limits> limit_conflict;  ///< set with error::limit_conflict
  /// Set by an acquire that gets no slot: it was denied, cancelled by its deadline, or has failed. Also set, without
  /// holders, by an acquire that has waited and got a slot. Empty if nothing is known of the queue, for mutex sets, and
  /// on RabbitMQ.
  std::optional<queue_report> queue{};

  /// Returns all fields as one line, for logs.
  HOLDFAST_EXPORT std::string to_string() const;
  bool operator==(const diagnostics&) const = default;
};

/// Options of an operation that has no other options. `diag` is in the options of all operations.
struct operation_options {
  /// Filled in on failure. Must outlive the operation.
  diagnostics* diag = nullptr;
  const void* trace_parent = nullptr;  ///< the tracer of an acquire gets it; see `span_start::parent`
};

}  // namespace holdfast
