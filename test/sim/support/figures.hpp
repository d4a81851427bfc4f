#pragma once

#include <boost/json/object.hpp>

namespace holdfast::test {

/// One line on stdout, `figures: {"test": "suite/case", ...}`, for those who write them into documents. Boost.Test's
/// own messages are only written where they are asked for, and are for people.
void print_figures(const boost::json::object& figures);

}  // namespace holdfast::test
