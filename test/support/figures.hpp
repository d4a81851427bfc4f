// SPDX-FileCopyrightText: The holdfast authors
// SPDX-License-Identifier: BSL-1.0

#pragma once

#include <boost/json/object.hpp>

namespace holdfast::test {

/// Prints one line on stdout, `figures: {"test": "suite/case", ...}`, for the tools that write figures into documents.
/// Boost.Test's own messages are not fit for that: they are for people, and are written on request only.
void print_figures(const boost::json::object& figures);

}  // namespace holdfast::test
