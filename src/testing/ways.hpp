#pragma once

#include <cstddef>
#include <holdfast/testing/store.hpp>

// In what versions of Consul differ, as far as the model has it. Measured on 1.8.7, 1.10.12, 1.12.9, 1.15.3, 1.20.6 and
// 1.22.7: what changed between two of them is said of the newer one's first release.
namespace holdfast::testing::detail::ways {

/// A refused write begins with "raft apply failed: ", or, of a session, with "apply failed: ".
constexpr bool errors_say_what_failed(consul_version v) noexcept { return v >= consul_version{1, 10, 0}; }

/// A blocking query for what is missing goes on waiting as long as it is missing.
constexpr bool missing_is_no_news(consul_version v) noexcept {
  return v >= consul_version{1, 11, 4} || (v >= consul_version{1, 10, 9} && v < consul_version{1, 11, 0});
}

/// Whatever is no session's id is one that no session has.
constexpr bool session_ids_are_any_text(consul_version v) noexcept { return v >= consul_version{1, 12, 0}; }

/// A node that is registered with other letters of its name, and the same otherwise, stays as it is.
constexpr bool node_names_have_no_case(consul_version v) noexcept { return v >= consul_version{1, 12, 0}; }

/// The index of a node is that of its own last change, of a missing one that of the last node that went.
constexpr bool nodes_have_indexes(consul_version v) noexcept { return v >= consul_version{1, 13, 0}; }

constexpr std::size_t operations_max(consul_version v) noexcept { return v >= consul_version{1, 14, 0} ? 128 : 64; }

/// An unknown verb is found before the transaction is tried.
constexpr bool verbs_are_checked_first(consul_version v) noexcept { return v >= consul_version{1, 20, 0}; }

/// What the reply to a transaction that only reads says of itself: NotModified and Backend, too, and the index 1.
constexpr bool reads_say_more(consul_version v) noexcept { return v >= consul_version{1, 10, 0}; }
constexpr bool reads_say_what_was_filtered(consul_version v) noexcept { return v >= consul_version{1, 12, 0}; }

/// A slash at the beginning of a key that is encoded is a part of the key.
constexpr bool keys_may_begin_with_a_slash(consul_version v) noexcept { return v >= consul_version{1, 20, 0}; }

/// What a single read, write or deletion refuses as a key, and a transaction does not.
constexpr bool keys_are_checked(consul_version v) noexcept { return v >= consul_version{1, 22, 0}; }

}  // namespace holdfast::testing::detail::ways
