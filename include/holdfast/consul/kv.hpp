#pragma once

#include <holdfast/kv.hpp>

namespace holdfast::consul {

using holdfast::kv_entry;

}  // namespace holdfast::consul
