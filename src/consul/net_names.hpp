// SPDX-FileCopyrightText: The holdfast authors
// SPDX-License-Identifier: BSL-1.0

#pragma once

namespace holdfast::net {}

/// Makes the names of src/net known in the client's namespace, so that the client's files need not qualify them. So
/// `awaitable`, `time_point`, `as_result` and so on are in net/asio.hpp.
namespace holdfast::consul::detail {

using namespace net;  // NOLINT(google-build-using-namespace): nearly all files of the client use it

}  // namespace holdfast::consul::detail
