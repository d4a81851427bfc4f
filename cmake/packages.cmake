# SPDX-FileCopyrightText: The holdfast authors
# SPDX-License-Identifier: BSL-1.0

# The common parts of Debian and RPM packages. CPack makes a package of each component that is installed.
# holdfast_package_parts(FORMAT) refuses a build that lacks a part. For each component, COMPONENT_summary and
# COMPONENT_text describe its package.

# The packages have exactly these parts, so that the same source always makes the same packages.
function(holdfast_package_parts format)
  foreach(part IN ITEMS HOLDFAST_BOTH_KINDS HOLDFAST_TESTING HOLDFAST_TLS HOLDFAST_RABBITMQ
      HOLDFAST_BUILD_PROGRAM HOLDFAST_INSTALL)
    if(NOT ${part})
      message(FATAL_ERROR "${format} packages need ${part}=ON.")
    endif()
  endforeach()
  if(NOT TARGET holdfast_manual)
    message(FATAL_ERROR "${format} packages need the manual of the program, for which Python makes it.")
  endif()
  if(NOT CMAKE_INSTALL_PREFIX STREQUAL "/usr" OR HOLDFAST_HEADER_ONLY_BOOST)
    message(FATAL_ERROR "${format} packages need CMAKE_INSTALL_PREFIX=/usr and HOLDFAST_HEADER_ONLY_BOOST=OFF.")
  endif()
endfunction()

install(FILES cmake/debian/tmpfiles.conf DESTINATION lib/tmpfiles.d RENAME holdfast.conf COMPONENT holdfast_tools)

set(CPACK_PACKAGE_VENDOR holdfast)
set(CPACK_PACKAGING_INSTALL_PREFIX /usr)
set(CPACK_INSTALL_DEFAULT_DIRECTORY_PERMISSIONS OWNER_READ OWNER_WRITE OWNER_EXECUTE GROUP_READ GROUP_EXECUTE WORLD_READ
  WORLD_EXECUTE)
set(CPACK_COMPONENTS_ALL "")

# holdfast_package_text(COMPONENT SUMMARY TEXT)
macro(holdfast_package_text component summary text)
  set(${component}_summary "${summary}")
  set(${component}_text "holdfast limits how many processes of a cluster hold a slot at the same time.
It waits without threads or polling, and notices when a slot is lost.

This package has ${text}")
endmacro()
holdfast_package_text(holdfast_runtime "distributed semaphores, mutexes and leader election over Consul"
  "the shared library.")
holdfast_package_text(holdfast_development "distributed semaphores over Consul for C++20 (development files)"
  "the headers, the static library, files for CMake\nand pkg-config, and a model of Consul for tests.")
holdfast_package_text(holdfast_rabbitmq_runtime "distributed semaphores on a RabbitMQ broker"
  "the shared library for semaphores on RabbitMQ.")
holdfast_package_text(holdfast_rabbitmq_development "distributed semaphores on RabbitMQ for C++20 (development files)"
  "the headers, the static library, files for CMake\nand pkg-config, and a model of RabbitMQ for tests.")
holdfast_package_text(holdfast_tools "run commands under distributed locks of Consul"
  "the program holdfast, which runs a command while\nit holds a slot, and the directory in which the processes of a host notice\neach other's deaths.")
