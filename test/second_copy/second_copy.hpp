// SPDX-FileCopyrightText: The holdfast authors
// SPDX-License-Identifier: BSL-1.0

#pragma once

#include <holdfast/error.hpp>

/// A shared library with its own copy of the error categories, as two plugins may have them.
namespace holdfast::test::second_copy {

[[gnu::visibility("default")]] error_code make_error_code(error e) noexcept;
[[gnu::visibility("default")]] boost::system::error_condition make_error_condition(condition c) noexcept;

}  // namespace holdfast::test::second_copy
