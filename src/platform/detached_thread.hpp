// SPDX-FileCopyrightText: The holdfast authors
// SPDX-License-Identifier: BSL-1.0

#pragma once

#include <functional>

namespace holdfast::platform {

/// Runs a function, which must not throw, on a thread that nobody waits for. The program may end meanwhile. The
/// thread takes none of the program's signals. Throws std::system_error if there is no thread.
/// Portable version: the thread may take signals.
void start_detached(std::function<void()> run);

}  // namespace holdfast::platform
