// HOLDFAST_HEADER_ONLY_BOOST: Boost.JSON as a part of the library.
#include <boost/json/src.hpp>
