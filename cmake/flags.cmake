# SPDX-FileCopyrightText: The holdfast authors
# SPDX-License-Identifier: BSL-1.0

# Flags for this project's own builds; none of them reaches users of the library.

function(holdfast_warnings target)
  target_compile_definitions(${target} PRIVATE BOOST_ASIO_NO_DEPRECATED) # our own code uses nothing of that
  if(NOT PROJECT_IS_TOP_LEVEL)
    return()
  endif()
  # A `switch` names each enumerator, also if it has a `default`. So a new enumerator does not compile until each place
  # that must know it has been changed. This does not depend on HOLDFAST_WERROR.
  target_compile_options(${target} PRIVATE -Wall -Wextra -Wpedantic -Werror=switch -Werror=switch-enum)
  if(HOLDFAST_WERROR)
    target_compile_options(${target} PRIVATE -Werror)
  endif()
  if(CMAKE_CXX_COMPILER_ID STREQUAL GNU)
    # g++ 12 gives these warnings falsely, in coroutine frames and in use_future.
    target_compile_options(${target} PRIVATE -Wno-mismatched-new-delete -Wno-maybe-uninitialized)
    if(CMAKE_UNITY_BUILD) # which is not what a file includes: an anonymous namespace in it is no mistake
      target_compile_options(${target} PRIVATE -Wno-subobject-linkage)
    endif()
  endif()
endfunction()

# A sanitizer must be switched on in all translation units or in none.
if(HOLDFAST_SANITIZER MATCHES "^(address|undefined)$")
  # clang 14 does not survive all checks of undefined behaviour in coroutines. With all of them g++ takes three times as
  # long.
  set(sanitizers address,bool,bounds,enum,float-cast-overflow,integer-divide-by-zero,return,shift,signed-integer-overflow)
  if(HOLDFAST_SANITIZER STREQUAL "undefined")
    set(sanitizers address,undefined)
  endif()
  # Asio recycles coroutine frames and handler memory, which hides a use after free from the sanitizer.
  add_compile_options(-O0 -g1 -fno-omit-frame-pointer -fsanitize=${sanitizers} -fno-sanitize-recover=all)
  add_compile_definitions(_GLIBCXX_ASSERTIONS BOOST_ASIO_DISABLE_AWAITABLE_FRAME_RECYCLING
    BOOST_ASIO_DISABLE_SMALL_BLOCK_RECYCLING)
  add_link_options(-fsanitize=${sanitizers})
elseif(HOLDFAST_SANITIZER STREQUAL "thread")
  add_compile_options(-O0 -g1 -fsanitize=thread) # -O1 takes 1.7 times as long to compile
  if(CMAKE_CXX_COMPILER_ID STREQUAL GNU)
    add_compile_options(-Wno-tsan) # g++ does not model atomic_thread_fence; see test/tsan.supp
  endif()
  add_link_options(-fsanitize=thread)
elseif(HOLDFAST_SANITIZER STREQUAL "fuzzer")
  if(NOT CMAKE_CXX_COMPILER_ID MATCHES Clang)
    message(FATAL_ERROR "HOLDFAST_SANITIZER=fuzzer needs clang++: libFuzzer is a part of it")
  endif()
  add_compile_options(-O1 -g1 -fno-omit-frame-pointer -fsanitize=fuzzer-no-link,address,undefined
    -fno-sanitize-recover=all)
  add_compile_definitions(_GLIBCXX_ASSERTIONS)
  add_link_options(-fsanitize=address,undefined)
elseif(HOLDFAST_SANITIZER)
  message(FATAL_ERROR "HOLDFAST_SANITIZER must be empty, address, undefined, thread or fuzzer, not \"${HOLDFAST_SANITIZER}\"")
endif()

if(HOLDFAST_COVERAGE)
  if(NOT CMAKE_CXX_COMPILER_ID MATCHES Clang)
    message(FATAL_ERROR "HOLDFAST_COVERAGE needs clang++: its llvm-cov evaluates the counters")
  endif()
  # One file has one name in all objects. Otherwise a unity build names it by its full path, and ccache, which shortens
  # the paths of folders, by one that begins in the build folder.
  file(RELATIVE_PATH upwards ${PROJECT_BINARY_DIR} ${PROJECT_SOURCE_DIR})
  add_compile_options(-fprofile-instr-generate -fcoverage-mapping
    "-fcoverage-prefix-map=${PROJECT_SOURCE_DIR}/=${upwards}")
  add_link_options(-fprofile-instr-generate)
endif()
