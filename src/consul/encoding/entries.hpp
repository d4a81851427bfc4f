// SPDX-FileCopyrightText: The holdfast authors
// SPDX-License-Identifier: BSL-1.0

#pragma once

#include <cstddef>
#include <holdfast/consul/kv.hpp>
#include <holdfast/consul/txn.hpp>
#include <holdfast/error.hpp>
#include <string_view>
#include <vector>

// Parses listings and transactions, which are read often and can be long. json.hpp says what is refused.
namespace holdfast::consul::detail {

error_code parse_entries(std::string_view body, std::vector<kv_entry>& out);

/// `operations` is the number of operations in the transaction. An error that names an operation beyond it is
/// malformed.
error_code parse_txn(std::string_view body, std::size_t operations, txn_reply& out);

}  // namespace holdfast::consul::detail
