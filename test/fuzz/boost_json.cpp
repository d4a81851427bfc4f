// Boost.JSON with the same instrumentation: the fuzzer sees its branches, and the address sanitizer its memory.
#include <boost/json/src.hpp>
