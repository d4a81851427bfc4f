// SPDX-FileCopyrightText: The holdfast authors
// SPDX-License-Identifier: BSL-1.0

#pragma once

namespace holdfast::net {}

/// The client speaks to the network in the terms of src/net.
namespace holdfast::consul::detail {

using namespace net;  // NOLINT(google-build-using-namespace): the client is built on it, as on the language

}  // namespace holdfast::consul::detail
