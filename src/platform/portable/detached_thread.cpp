// SPDX-FileCopyrightText: The holdfast authors
// SPDX-License-Identifier: BSL-1.0

#include "platform/detached_thread.hpp"

#include <thread>
#include <utility>

namespace holdfast::platform {

void start_detached(std::function<void()> run) { std::thread(std::move(run)).detach(); }

}  // namespace holdfast::platform
