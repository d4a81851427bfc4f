// SPDX-FileCopyrightText: The holdfast authors
// SPDX-License-Identifier: BSL-1.0

// HOLDFAST_HEADER_ONLY_BOOST: Boost.JSON as a part of the library.
#include <boost/json/src.hpp>
