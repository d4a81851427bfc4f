// SPDX-FileCopyrightText: The holdfast authors
// SPDX-License-Identifier: BSL-1.0

#include <holdfast/detail/build.hpp>

// The header uses these templates, so including it instantiates them for the values that the library is built with.
namespace holdfast::was_built_with {

template <int>
void BOOST_VERSION_is() {}
template <int>
void BOOST_ASIO_RECYCLING_ALLOCATOR_CACHE_SIZE_is() {}
template <bool>
void BOOST_ASIO_ENABLE_BUFFER_DEBUGGING_is() {}
#define HOLDFAST_DEFINE(name) \
  template <bool>             \
  void name##_is() {}
HOLDFAST_ASIO_SWITCHES(HOLDFAST_DEFINE)

}  // namespace holdfast::was_built_with
