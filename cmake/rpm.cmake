# SPDX-FileCopyrightText: The holdfast authors
# SPDX-License-Identifier: BSL-1.0

# Configures CPack, which makes an RPM package of each component that is installed. doc/reference/packages.md has the
# commands.

set(HOLDFAST_RPM_RELEASE 1 CACHE STRING "The release of the RPM packages, behind the version of holdfast")
set(HOLDFAST_RPM_BOOST boost-devel CACHE STRING "The package with the headers and libraries of Boost")

include(cmake/packages.cmake)
holdfast_package_parts(RPM)
if(CMAKE_INSTALL_LIBDIR MATCHES "linux-gnu")
  message(FATAL_ERROR "RPM packages need CMAKE_INSTALL_LIBDIR=lib64: ${CMAKE_INSTALL_LIBDIR} is Debian's.")
endif()

set(CPACK_GENERATOR RPM)
set(CPACK_RPM_COMPONENT_INSTALL ON)
set(CPACK_RPM_FILE_NAME RPM-DEFAULT)
set(CPACK_RPM_PACKAGE_RELEASE ${HOLDFAST_RPM_RELEASE})
set(CPACK_RPM_PACKAGE_LICENSE BSL-1.0)
set(CPACK_RPM_PACKAGE_URL https://example.com/holdfast)
set(CPACK_RPM_PACKAGE_AUTOREQPROV ON)
set(CPACK_STRIP_FILES ON)
set(CPACK_PRE_BUILD_SCRIPTS ${PROJECT_SOURCE_DIR}/cmake/rpm/finish.cmake)
set(CPACK_RPM_SPEC_MORE_DEFINE "%define _build_id_links none") # there is no debug information that the links would find
set(CMAKE_INSTALL_SO_NO_EXE OFF) # rpm wants shared libraries that may be executed; CMake installs others on Debian
# Folders of the system that holdfast does not own.
set(CPACK_RPM_EXCLUDE_FROM_AUTO_FILELIST_ADDITION /usr/share/man /usr/share/man/man1 /usr/share/licenses /usr/lib/tmpfiles.d
  /usr/${CMAKE_INSTALL_LIBDIR}/cmake /usr/${CMAKE_INSTALL_LIBDIR}/pkgconfig /usr/share/bash-completion
  /usr/share/bash-completion/completions /usr/share/zsh /usr/share/zsh/site-functions /usr/share/fish
  /usr/share/fish/vendor_completions.d)

# holdfast_rpm_package(COMPONENT NAME GROUP REQUIRES...)
macro(holdfast_rpm_package component name group)
  list(APPEND CPACK_COMPONENTS_ALL ${component})
  string(TOUPPER ${component} upper)
  set(CPACK_RPM_${component}_PACKAGE_NAME ${name})
  set(CPACK_RPM_${component}_PACKAGE_GROUP "${group}")
  set(summary "${${component}_summary}")
  string(SUBSTRING "${summary}" 0 1 first)
  string(SUBSTRING "${summary}" 1 -1 rest)
  string(TOUPPER "${first}" first)
  set(CPACK_RPM_${component}_PACKAGE_SUMMARY "${first}${rest}")
  set(CPACK_RPM_${component}_PACKAGE_DESCRIPTION "${${component}_text}")
  set(requires ${ARGN})
  list(JOIN requires ", " CPACK_RPM_${component}_PACKAGE_REQUIRES)
  install(FILES LICENSE DESTINATION share/licenses/${name} COMPONENT ${component})
endmacro()

# openSUSE's rule for packages of shared libraries: the SONAME, with _ in place of the dot.
string(REPLACE "." "_" number ${HOLDFAST_SOVERSION})
set(runtime libholdfast${number})
set(rabbitmq_runtime libholdfast_rabbitmq${number})
# The library has internal symbols that the others of the same version use.
set(same "= ${PROJECT_VERSION}-${HOLDFAST_RPM_RELEASE}")
# A program must use the Boost with which the library was built.
math(EXPR next_minor "${Boost_VERSION_MINOR} + 1")
set(boost "${HOLDFAST_RPM_BOOST} >= ${Boost_VERSION_MAJOR}.${Boost_VERSION_MINOR}"
  "${HOLDFAST_RPM_BOOST} < ${Boost_VERSION_MAJOR}.${next_minor}")
set(libraries "System/Libraries")
set(development "Development/Libraries/C and C++")
holdfast_rpm_package(holdfast_runtime ${runtime} ${libraries})
holdfast_rpm_package(holdfast_development holdfast-devel ${development} "${runtime} ${same}" ${boost} "pkgconfig(openssl)")
holdfast_rpm_package(holdfast_rabbitmq_runtime ${rabbitmq_runtime} ${libraries} "${runtime} ${same}")
holdfast_rpm_package(holdfast_rabbitmq_development holdfast-rabbitmq-devel ${development} "${rabbitmq_runtime} ${same}"
  "holdfast-devel ${same}" "pkgconfig(librabbitmq)")
holdfast_rpm_package(holdfast_tools holdfast "System/Management" "${runtime} ${same}" "${rabbitmq_runtime} ${same}")
# Fedora's name for the static libraries that a -devel package has.
set(CPACK_RPM_holdfast_development_PACKAGE_PROVIDES "holdfast-static ${same}")
set(CPACK_RPM_holdfast_rabbitmq_development_PACKAGE_PROVIDES "holdfast-rabbitmq-static ${same}")

foreach(library IN ITEMS runtime rabbitmq_runtime)
  set(CPACK_RPM_holdfast_${library}_POST_INSTALL_SCRIPT_FILE ${PROJECT_SOURCE_DIR}/cmake/rpm/ldconfig)
  set(CPACK_RPM_holdfast_${library}_POST_UNINSTALL_SCRIPT_FILE ${PROJECT_SOURCE_DIR}/cmake/rpm/ldconfig)
endforeach()
set(CPACK_RPM_holdfast_tools_POST_INSTALL_SCRIPT_FILE ${PROJECT_SOURCE_DIR}/cmake/rpm/make_run_directory)
set(CPACK_RPM_holdfast_tools_PRE_UNINSTALL_SCRIPT_FILE ${PROJECT_SOURCE_DIR}/cmake/rpm/remove_run_directory)
include(CPack)
