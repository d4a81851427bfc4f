# SPDX-FileCopyrightText: The holdfast authors
# SPDX-License-Identifier: BSL-1.0

# Configures CPack, which makes a Debian package of each component that is installed. scripts/packages runs it.

set(HOLDFAST_DEBIAN_REVISION 1 CACHE STRING "The revision of the Debian packages, behind the version of holdfast")
set(HOLDFAST_DEBIAN_MAINTAINER "The holdfast authors <holdfast@localhost>" CACHE STRING "The maintainer of the packages")

include(cmake/packages.cmake)
holdfast_package_parts(Debian)

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

# holdfast_debian_package(COMPONENT NAME SECTION DEPENDS...)
macro(holdfast_debian_package component name section)
  list(APPEND CPACK_COMPONENTS_ALL ${component})
  string(TOUPPER ${component} upper)
  set(CPACK_DEBIAN_${upper}_PACKAGE_NAME ${name})
  set(CPACK_DEBIAN_${upper}_PACKAGE_SECTION ${section})
  set(CPACK_COMPONENT_${upper}_DESCRIPTION "${${component}_summary}\n${${component}_text}")
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
holdfast_debian_package(holdfast_runtime ${runtime} libs)
holdfast_debian_package(holdfast_development libholdfast-dev libdevel
  "${runtime} ${same}" libboost${boost}-dev libboost-json${boost}-dev libssl-dev)
holdfast_debian_package(holdfast_rabbitmq_runtime ${rabbitmq_runtime} libs "${runtime} ${same}")
holdfast_debian_package(holdfast_rabbitmq_development libholdfast-rabbitmq-dev libdevel
  "${rabbitmq_runtime} ${same}" "libholdfast-dev ${same}" librabbitmq-dev)
holdfast_debian_package(holdfast_tools holdfast-tools admin "${runtime} ${same}" "${rabbitmq_runtime} ${same}")

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
