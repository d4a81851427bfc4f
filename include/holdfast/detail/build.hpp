// SPDX-FileCopyrightText: The holdfast authors
// SPDX-License-Identifier: BSL-1.0

#pragma once

#include <boost/asio/detail/config.hpp>
#include <boost/asio/detail/handler_tracking.hpp>  // may define one of the macros below
#include <boost/asio/detail/thread_info_base.hpp>  // defines BOOST_ASIO_RECYCLING_ALLOCATOR_CACHE_SIZE
#include <boost/config/helper_macros.hpp>
#include <boost/version.hpp>
#include <holdfast/detail/export.hpp>
#include <string_view>

/// Compatibility check at link time. Asio is compiled into the program and into this library, and the linker keeps one
/// copy of each function that both contain. So both must be built with the same Boost version, and with the same values
/// of the macros that change Asio's types or functions.
///
/// Each translation unit that includes Boost through a header of this library needs one symbol for each value that it
/// was compiled with. The library defines the symbols of the values that it was built with. If a value differs, the
/// linker names the missing symbol: "undefined reference to holdfast::was_built_with::BOOST_VERSION_is<108200>()".
/// Nothing is done at run time.
///
/// Macros that are not in the list, because the two values work together:
///
/// - BOOST_ASIO_NO_DEPRECATED hides functions. The library, built with it, neither calls nor stores any of the
///   functions that it changes.
/// - BOOST_ASIO_SEPARATE_COMPILATION only moves functions elsewhere.
/// - BOOST_ASIO_NO_TS_EXECUTORS and BOOST_ASIO_NO_EXTENSIONS remove overloads.
#define HOLDFAST_ASIO_SWITCHES(X)                                                                                 \
  X(BOOST_ASIO_HAS_THREADS)                       /* without it mutexes and thread-local pointers do nothing */   \
  X(BOOST_ASIO_HAS_THREAD_KEYWORD_EXTENSION)      /* where a thread keeps the io_context that it runs */          \
  X(BOOST_ASIO_HAS_EPOLL)                         /* the type of io_context's reactor */                          \
  X(BOOST_ASIO_HAS_EVENTFD)                       /* what wakes the reactor: a member of it */                    \
  X(BOOST_ASIO_HAS_STD_ATOMIC_WAIT)               /* a strand's mutex, from Boost 1.92 on */                      \
  X(BOOST_ASIO_HAS_FUTEX)                         /* the same */                                                  \
  X(BOOST_ASIO_HAS_IO_URING)                      /* the unit of recycled memory's sizes */                       \
  X(BOOST_ASIO_HAS_IO_URING_AS_DEFAULT)           /* the type of io_context's reactor, of sockets and timers */   \
  X(BOOST_ASIO_ENABLE_HANDLER_TRACKING)           /* a base class of each operation */                            \
  X(BOOST_ASIO_CUSTOM_HANDLER_TRACKING)           /* the same, by a user */                                       \
  X(BOOST_ASIO_USE_TS_EXECUTOR_AS_DEFAULT)        /* what any_io_executor is */                                   \
  X(BOOST_ASIO_NO_EXCEPTIONS)                     /* members of each thread's data */                             \
  X(BOOST_ASIO_NO_TYPEID)                         /* how io_context tells its services apart */                   \
  X(BOOST_ASIO_HAS_STD_ALIGNED_ALLOC)             /* whether recycled memory is from aligned_alloc or from new */ \
  X(BOOST_ASIO_DISABLE_HANDLER_HOOKS)             /* how a handler's memory is allocated, and freed */            \
  X(BOOST_ASIO_DISABLE_SMALL_BLOCK_RECYCLING)     /* the same */                                                  \
  X(BOOST_ASIO_DISABLE_AWAITABLE_FRAME_RECYCLING) /* the same of a coroutine's frame */

namespace holdfast::was_built_with {

template <int>
HOLDFAST_EXPORT void BOOST_VERSION_is();
template <int>
HOLDFAST_EXPORT void BOOST_ASIO_RECYCLING_ALLOCATOR_CACHE_SIZE_is();  // the size of each thread's data
template <bool>
HOLDFAST_EXPORT void BOOST_ASIO_ENABLE_BUFFER_DEBUGGING_is();  // a member of each buffer
#define HOLDFAST_DECLARE(name) \
  template <bool>              \
  HOLDFAST_EXPORT void name##_is();
HOLDFAST_ASIO_SWITCHES(HOLDFAST_DECLARE)
#undef HOLDFAST_DECLARE

// <boost/asio/buffer.hpp> may define BOOST_ASIO_ENABLE_BUFFER_DEBUGGING later, so the check also looks at
// _GLIBCXX_DEBUG.
#if defined(BOOST_ASIO_ENABLE_BUFFER_DEBUGGING) || \
    (defined(_GLIBCXX_DEBUG) && !defined(BOOST_ASIO_DISABLE_BUFFER_DEBUGGING))
static constexpr bool debugs_buffers = true;
#else
static constexpr bool debugs_buffers = false;
#endif

// True if the macro is defined. A macro that is not defined expands to its own name.
#define HOLDFAST_SYMBOL(name) , &name##_is<(std::string_view(BOOST_STRINGIZE(name)) != #name)>
#define HOLDFAST_VALUE(name) , (std::string_view(BOOST_STRINGIZE(name)) != #name)

// All translation units with the same values share one table. Nothing reads it, and the linker must not drop it.
template <int Version, int CacheSize, bool... Switches>
struct checked {
  [[gnu::used, gnu::retain]] static constexpr void (*by_linker[])() = {
      &BOOST_VERSION_is<Version>, &BOOST_ASIO_RECYCLING_ALLOCATOR_CACHE_SIZE_is<CacheSize>,
      &BOOST_ASIO_ENABLE_BUFFER_DEBUGGING_is<debugs_buffers> HOLDFAST_ASIO_SWITCHES(HOLDFAST_SYMBOL)};
};
[[maybe_unused]] static constexpr auto& here =
    checked<BOOST_VERSION, BOOST_ASIO_RECYCLING_ALLOCATOR_CACHE_SIZE,
            debugs_buffers HOLDFAST_ASIO_SWITCHES(HOLDFAST_VALUE)>::by_linker;
#undef HOLDFAST_SYMBOL
#undef HOLDFAST_VALUE

}  // namespace holdfast::was_built_with
