// SPDX-FileCopyrightText: The holdfast authors
// SPDX-License-Identifier: BSL-1.0

#include "second_copy/second_copy.hpp"

namespace holdfast::test::second_copy {

error_code make_error_code(error e) noexcept { return holdfast::make_error_code(e); }

boost::system::error_condition make_error_condition(condition c) noexcept { return holdfast::make_error_condition(c); }

}  // namespace holdfast::test::second_copy
