#pragma once

#include <holdfast/error.hpp>
#include <ostream>

// So that BOOST_TEST can print what it compares. In the library's namespace, where argument-dependent lookup finds it.
namespace holdfast {

inline std::ostream& operator<<(std::ostream& out, error e) { return out << make_error_code(e).message(); }

}  // namespace holdfast
