#pragma once

#include <cstddef>
#include <holdfast/consul/kv.hpp>
#include <holdfast/consul/session.hpp>
#include <holdfast/consul/txn.hpp>
#include <holdfast/error.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

// Consul's JSON bodies to and from our types. What comes in is not trusted: depth is bounded, every field's type is
// checked, numbers are exact unsigned 64-bit or refused, and anything unexpected is error::malformed_reply.
// Unknown fields are ignored, so newer servers may add some. On error `out` is unspecified.
namespace holdfast::consul::detail {

/// How deep a document may be.
inline constexpr std::size_t depth_max = 16;
/// For how many elements memory is taken before they are parsed: else a reply's size alone decided how much.
inline constexpr std::size_t reserve_max = 1024;

error_code parse_entries(std::string_view body, std::vector<kv_entry>& out);
error_code parse_keys(std::string_view body, std::vector<std::string>& out);
error_code parse_session_id(std::string_view body, std::string& out);
error_code parse_sessions(std::string_view body, std::vector<session_info>& out);

/// `null`, which Consul answers where there is no such node: nothing.
error_code parse_node(std::string_view body, std::optional<catalog_node>& out);

/// `operations` is how many the transaction had: an error that names none of them is malformed.
error_code parse_txn(std::string_view body, std::size_t operations, txn_reply& out);

/// What Consul's text about a refused operation means.
txn_refusal refusal_of(std::string_view text) noexcept;

/// Consul looks for the namespace and the partition in each operation; empty: the token's.
std::string write_txn(const std::vector<txn_operation>& operations, std::string_view consul_namespace = {},
                      std::string_view partition = {});
std::string write_session(const session_options& options);
std::string write_node(const node_registration& node, std::string_view datacenter);

}  // namespace holdfast::consul::detail
