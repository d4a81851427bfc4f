// SPDX-FileCopyrightText: The holdfast authors
// SPDX-License-Identifier: BSL-1.0

// Boost.JSON with the same instrumentation: the fuzzer sees its branches, and the address sanitizer its memory.
#include <boost/json/src.hpp>
