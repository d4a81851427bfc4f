// A library of the parent project, which links to holdfast.
#include <holdfast/error.hpp>

int code_of_a_closed_client() { return static_cast<int>(holdfast::error::closed); }
