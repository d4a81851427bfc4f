# SPDX-FileCopyrightText: The holdfast authors
# SPDX-License-Identifier: BSL-1.0

# Configures CPack, which makes a Debian package of each component that is installed. scripts/packages runs it.

set(HOLDFAST_DEBIAN_REVISION 1 CACHE STRING "The revision of the Debian packages, behind the version of holdfast")
set(HOLDFAST_DEBIAN_MAINTAINER "The holdfast authors <holdfast@localhost>" CACHE STRING "The maintainer of the packages")

# The packages have exactly these parts, so that the same source always makes the same packages.
foreach(part IN ITEMS BOTH_KINDS TESTING TLS RABBITMQ BUILD_PROGRAM INSTALL)
  if(NOT HOLDFAST_${part})
    message(FATAL_ERROR "Debian packages need HOLDFAST_${part}=ON.")
  endif()
endforeach()
if(NOT TARGET holdfast_manual)
  message(FATAL_ERROR "Debian packages need the manual of the program, for which Python makes it.")
endif()
if(NOT CMAKE_INSTALL_PREFIX STREQUAL "/usr" OR HOLDFAST_HEADER_ONLY_BOOST)
  message(FATAL_ERROR "Debian packages need CMAKE_INSTALL_PREFIX=/usr and HOLDFAST_HEADER_ONLY_BOOST=OFF.")
endif()

install(FILES cmake/debian/tmpfiles.conf DESTINATION lib/tmpfiles.d RENAME holdfast.conf COMPONENT holdfast_tools)

# --- Files that all packages have. The time is that of the commit, if SOURCE_DATE_EPOCH is.

string(TIMESTAMP HOLDFAST_DEBIAN_YEAR "%Y" UTC)
string(TIMESTAMP HOLDFAST_DEBIAN_DATE "%a, %d %b %Y %H:%M:%S +0000" UTC)
file(READ LICENSE license)
string(STRIP "${license}" license)
string(REGEX REPLACE "\n\n" "\n.\n" license "${license}")
string(REPLACE "\n" "\n " license "${license}")
set(HOLDFAST_DEBIAN_VERSION ${PROJECT_VERSION}-${HOLDFAST_DEBIAN_REVISION})
configure_file(cmake/debian/copyright.in ${CMAKE_CURRENT_BINARY_DIR}/debian/copyright @ONLY)
configure_file(cmake/debian/changelog.in ${CMAKE_CURRENT_BINARY_DIR}/debian/changelog.Debian @ONLY)

# --- What is the same in all packages.

set(CPACK_GENERATOR DEB)
set(CPACK_PACKAGE_VENDOR holdfast)
set(CPACK_PACKAGING_INSTALL_PREFIX /usr)
set(CPACK_INSTALL_DEFAULT_DIRECTORY_PERMISSIONS OWNER_READ OWNER_WRITE OWNER_EXECUTE GROUP_READ GROUP_EXECUTE WORLD_READ
  WORLD_EXECUTE)
set(CPACK_COMPONENTS_ALL "")
set(CPACK_DEB_COMPONENT_INSTALL ON)
set(CPACK_PACKAGE_CONTACT "${HOLDFAST_DEBIAN_MAINTAINER}")
set(CPACK_PRE_BUILD_SCRIPTS ${PROJECT_SOURCE_DIR}/cmake/debian/finish.cmake)
set(CPACK_HOLDFAST_FILES ${CMAKE_CURRENT_BINARY_DIR}/debian) # for finish.cmake
set(CPACK_DEBIAN_PACKAGE_RELEASE ${HOLDFAST_DEBIAN_REVISION})
set(CPACK_DEBIAN_PACKAGE_SOURCE holdfast)
set(CPACK_DEBIAN_FILE_NAME DEB-DEFAULT)
set(CPACK_DEBIAN_COMPRESSION_TYPE xz)
set(CPACK_DEBIAN_PACKAGE_CONTROL_STRICT_PERMISSION ON)
set(CPACK_DEBIAN_PACKAGE_SHLIBDEPS ON)
# dpkg-shlibdeps finds libholdfast.so here. It does not know the package of it, so `depends` names that package.
set(CPACK_DEBIAN_PACKAGE_SHLIBDEPS_PRIVATE_DIRS ${CMAKE_CURRENT_BINARY_DIR})

# --- The packages.

# holdfast_debian_package(COMPONENT NAME SECTION SUMMARY TEXT DEPENDS...)
macro(holdfast_debian_package component name section summary text)
  list(APPEND CPACK_COMPONENTS_ALL ${component})
  string(TOUPPER ${component} upper)
  set(CPACK_DEBIAN_${upper}_PACKAGE_NAME ${name})
  set(CPACK_DEBIAN_${upper}_PACKAGE_SECTION ${section})
  set(CPACK_COMPONENT_${upper}_DESCRIPTION "${summary}
holdfast limits how many processes of a cluster hold a slot at the same time.
It waits without threads or polling, and notices when a slot is lost.

This package has ${text}")
  set(depends ${ARGN})
  if(NOT ${section} STREQUAL "admin")
    set(CPACK_DEBIAN_${upper}_PACKAGE_MULTIARCH same) # CMake 3.31 and later know it
  endif()
  list(JOIN depends ", " CPACK_DEBIAN_${upper}_PACKAGE_DEPENDS)
endmacro()

# The library has internal symbols that the others of the same version use.
set(same "(= ${HOLDFAST_DEBIAN_VERSION})")
set(runtime libholdfast${HOLDFAST_SOVERSION})
set(rabbitmq_runtime libholdfast-rabbitmq${HOLDFAST_SOVERSION})
set(boost ${Boost_VERSION_MAJOR}.${Boost_VERSION_MINOR})
holdfast_debian_package(holdfast_runtime ${runtime} libs
  "distributed semaphores, mutexes and leader election over Consul" "the shared library.")
holdfast_debian_package(holdfast_development libholdfast-dev libdevel
  "distributed semaphores over Consul for C++20 (development files)"
  "the headers, the static library, files for CMake\nand pkg-config, and a model of Consul for tests."
  "${runtime} ${same}" libboost${boost}-dev libboost-json${boost}-dev libssl-dev)
holdfast_debian_package(holdfast_rabbitmq_runtime ${rabbitmq_runtime} libs
  "distributed semaphores on a RabbitMQ broker" "the shared library for semaphores on RabbitMQ." "${runtime} ${same}")
holdfast_debian_package(holdfast_rabbitmq_development libholdfast-rabbitmq-dev libdevel
  "distributed semaphores on RabbitMQ for C++20 (development files)"
  "the headers, the static library, files for CMake\nand pkg-config, and a model of RabbitMQ for tests."
  "${rabbitmq_runtime} ${same}" "libholdfast-dev ${same}" librabbitmq-dev)
holdfast_debian_package(holdfast_tools holdfast-tools admin
  "run commands under distributed locks of Consul"
  "the program holdfast, which runs a command while\nit holds a slot, and the directory in which the processes of a host notice\neach other's deaths."
  "${runtime} ${same}" "${rabbitmq_runtime} ${same}")

foreach(library IN ITEMS HOLDFAST_RUNTIME HOLDFAST_RABBITMQ_RUNTIME)
  # CPack makes scripts that call ldconfig, unless it is given some. Debian wants a trigger instead. CPack leaves out
  # files that do not exist.
  set(CPACK_DEBIAN_${library}_PACKAGE_CONTROL_EXTRA ${PROJECT_SOURCE_DIR}/cmake/debian/triggers
    ${PROJECT_SOURCE_DIR}/cmake/debian/none/postinst ${PROJECT_SOURCE_DIR}/cmake/debian/none/postrm)
endforeach()
set(CPACK_DEBIAN_PACKAGE_GENERATE_SHLIBS ON)
set(CPACK_DEBIAN_PACKAGE_GENERATE_SHLIBS_POLICY ">=")
set(CPACK_DEBIAN_HOLDFAST_TOOLS_PACKAGE_CONTROL_EXTRA ${PROJECT_SOURCE_DIR}/cmake/debian/postinst
  ${PROJECT_SOURCE_DIR}/cmake/debian/prerm)
include(CPack)
