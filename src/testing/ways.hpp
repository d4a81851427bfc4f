// SPDX-FileCopyrightText: The holdfast authors
// SPDX-License-Identifier: BSL-1.0

#pragma once

#include <cstddef>
#include <holdfast/testing/store.hpp>

// The modelled differences between versions of Consul. They were measured on 1.8.7, 1.10.12, 1.12.9, 1.15.3, 1.20.6 and
// 1.22.7. If the exact version of a change is not known, the first release of the newer minor version is taken.
namespace holdfast::testing::detail::ways {

/// The error text of a write that Raft refuses begins with "raft apply failed: ", except in a transaction.
/// The text for a session whose node or check is missing, or for destroying a malformed session id, begins with
/// "apply failed: ".
constexpr bool errors_say_what_failed(consul_version v) noexcept { return v >= consul_version{1, 10, 0}; }

/// A blocking query for a missing key or session continues to wait while that is missing.
constexpr bool missing_is_no_news(consul_version v) noexcept {
  return v >= consul_version{1, 11, 4} || (v >= consul_version{1, 10, 9} && v < consul_version{1, 11, 0});
}

/// A session id may be any text, and an id that no session has is not an error in itself. Older versions refuse an id
/// that is not a UUID.
constexpr bool session_ids_are_any_text(consul_version v) noexcept { return v >= consul_version{1, 12, 0}; }

/// Registering a node again with only the case of its name changed leaves the node as it is.
constexpr bool node_names_have_no_case(consul_version v) noexcept { return v >= consul_version{1, 12, 0}; }

/// The index of a node is that of its own last change. The index of a missing node is that of the last removal of a
/// node.
constexpr bool nodes_have_indexes(consul_version v) noexcept { return v >= consul_version{1, 13, 0}; }

constexpr std::size_t operations_max(consul_version v) noexcept { return v >= consul_version{1, 14, 0} ? 128 : 64; }

/// An unknown verb is refused before the transaction is tried.
constexpr bool verbs_are_checked_first(consul_version v) noexcept { return v >= consul_version{1, 20, 0}; }

/// The reply to a transaction that only reads also has NotModified and Backend. Its index is 1 if it was tried, not 0.
constexpr bool reads_say_more(consul_version v) noexcept { return v >= consul_version{1, 10, 0}; }
constexpr bool reads_say_what_was_filtered(consul_version v) noexcept { return v >= consul_version{1, 12, 0}; }

/// An encoded slash at the beginning of a key is a part of the key.
constexpr bool keys_may_begin_with_a_slash(consul_version v) noexcept { return v >= consul_version{1, 20, 0}; }

/// The KV endpoint refuses keys with leading or trailing spaces, or with escaped spaces or "..". Transactions accept
/// them.
constexpr bool keys_are_checked(consul_version v) noexcept { return v >= consul_version{1, 22, 0}; }

}  // namespace holdfast::testing::detail::ways
