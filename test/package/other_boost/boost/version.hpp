// SPDX-FileCopyrightText: The holdfast authors
// SPDX-License-Identifier: BSL-1.0

// Another version of Boost, which begins like this.
#include_next <boost/version.hpp>
#undef BOOST_VERSION
#define BOOST_VERSION 199900
