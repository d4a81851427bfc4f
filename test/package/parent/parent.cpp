// SPDX-FileCopyrightText: The holdfast authors
// SPDX-License-Identifier: BSL-1.0

// A library of the parent project, which links to holdfast.
#include <holdfast/error.hpp>

int code_of_a_closed_client() { return static_cast<int>(holdfast::error::closed); }
