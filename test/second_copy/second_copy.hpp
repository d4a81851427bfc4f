#pragma once

#include <holdfast/error.hpp>

/// A shared library that the error categories were linked into, for itself: as two plugins have them.
namespace holdfast::test::second_copy {

[[gnu::visibility("default")]] error_code make_error_code(error e) noexcept;
[[gnu::visibility("default")]] boost::system::error_condition make_error_condition(condition c) noexcept;

}  // namespace holdfast::test::second_copy
