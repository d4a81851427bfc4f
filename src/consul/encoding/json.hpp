// SPDX-FileCopyrightText: The holdfast authors
// SPDX-License-Identifier: BSL-1.0

#pragma once

#include <cstddef>
#include <holdfast/consul/kv.hpp>
#include <holdfast/consul/session.hpp>
#include <holdfast/consul/txn.hpp>
#include <holdfast/detail/export.hpp>
#include <holdfast/error.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

// Converts Consul's JSON bodies to and from the types of this library; listings and transactions are in entries.hpp.
// Replies are not trusted: the depth is bounded, the type of every field is checked, and numbers must be unsigned
// 64-bit integers. Anything else is error::malformed_reply. A text that is too long is error::reply_too_large.
// Unknown fields are ignored, because newer servers may add some. After an error, `out` is unspecified.
namespace holdfast::consul::detail {

/// The largest depth of a document.
inline constexpr std::size_t depth_max = 16;
/// Memory is reserved for at most this many elements before they are parsed, so that the size of a reply alone does not
/// decide how much memory is taken.
inline constexpr std::size_t reserve_max = 1024;

/// The largest body that is read into a tree. A tree may take twenty times as much memory.
inline constexpr std::size_t tree_text_max = std::size_t{8} << 20;

error_code parse_session_id(std::string_view body, std::string& out);
error_code parse_sessions(std::string_view body, std::vector<session_info>& out);

/// Consul answers `null` if there is no such node. Then `out` is empty.
error_code parse_node(std::string_view body, std::optional<catalog_node>& out);

/// Returns the reason that Consul's text about a refused operation stands for: `other` if the text is not known.
HOLDFAST_INTERNAL txn_refusal refusal_of(std::string_view text) noexcept;

/// Consul reads the namespace and the partition from each operation, so they are written into each. An empty one is
/// left out, and then the token's is used.
std::string write_txn(const std::vector<txn_operation>& operations, std::string_view consul_namespace = {},
                      std::string_view partition = {});
std::string write_session(const session_options& options);
std::string write_node(const node_registration& node, std::string_view datacenter);

}  // namespace holdfast::consul::detail
