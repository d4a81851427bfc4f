// SPDX-FileCopyrightText: The holdfast authors
// SPDX-License-Identifier: BSL-1.0

#pragma once

namespace holdfast::platform {

/// From now on, each child of fork() calls this function before fork() returns in it. `vfork`, `_Fork` and a bare
/// `clone` do not call it. Throws `boost::system::system_error` if the system has no memory for that.
/// Portable version: the function is never called, so a child of fork() is not noticed.
void call_in_forked_child(void (*function)());

}  // namespace holdfast::platform
