// SPDX-FileCopyrightText: The holdfast authors
// SPDX-License-Identifier: BSL-1.0

#pragma once

namespace holdfast::platform {

/// The version of this folder that was linked.
enum class version { linux_calls, portable };
version linked_version() noexcept;

}  // namespace holdfast::platform
