// SPDX-FileCopyrightText: The holdfast authors
// SPDX-License-Identifier: BSL-1.0

#pragma once

#include <holdfast/kv.hpp>

namespace holdfast::consul {

using holdfast::kv_entry;

}  // namespace holdfast::consul
