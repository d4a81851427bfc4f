// SPDX-FileCopyrightText: The holdfast authors
// SPDX-License-Identifier: BSL-1.0

#include "platform/fork.hpp"

namespace holdfast::platform {

void call_in_forked_child(void (*)()) {}

}  // namespace holdfast::platform
