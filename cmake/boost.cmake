# SPDX-FileCopyrightText: The holdfast authors
# SPDX-License-Identifier: BSL-1.0

# Takes Boost from the parent project if that has targets for it. Otherwise it finds Boost. Sets these variables:
#
# HOLDFAST_BOOST_HEADERS     the targets that have the include directories of the public and private headers
#
# HOLDFAST_BOOST_JSON        the target to link, or empty if Boost.JSON becomes a part of holdfast
#
# HOLDFAST_BOOST_INCLUDES    include directories for holdfast's own sources, from libraries that are not linked
#
# HOLDFAST_BOOST_COMPONENTS  the components that the installed package has to find

set(HOLDFAST_BOOST_HEADERS Boost::headers)
set(HOLDFAST_BOOST_JSON Boost::json)
set(HOLDFAST_BOOST_INCLUDES "")
set(HOLDFAST_BOOST_COMPONENTS json)
set(needed Boost::json)
if(HOLDFAST_HEADER_ONLY_BOOST)
  set(HOLDFAST_BOOST_JSON "")
  set(HOLDFAST_BOOST_COMPONENTS "")
  set(needed Boost::headers)
endif()

if(NOT TARGET ${needed})
  find_package(Boost 1.81 REQUIRED COMPONENTS ${HOLDFAST_BOOST_COMPONENTS})
  return()
endif()
if(DEFINED Boost_VERSION_STRING AND Boost_VERSION_STRING VERSION_LESS 1.81)
  message(FATAL_ERROR "holdfast needs Boost 1.81 or later. The project that contains it uses Boost ${Boost_VERSION_STRING}.")
endif()

# A Boost that is built as a part of the parent project has an include directory for each library. Its Boost::headers is
# an empty target by default. An imported Boost::headers has everything.
if(TARGET Boost::headers)
  get_target_property(imported Boost::headers IMPORTED)
  if(imported OR NOT TARGET Boost::config) # only a Boost of single libraries has a target for Boost.Config
    return()
  endif()
endif()
set(HOLDFAST_BOOST_HEADERS "")
set(missing "")
foreach(library IN ITEMS asio beast config intrusive system json locale)
  if(NOT TARGET Boost::${library})
    string(APPEND missing " Boost::${library}")
  elseif(library MATCHES "json|locale") # these have sources; holdfast reads headers of them
    list(APPEND HOLDFAST_BOOST_INCLUDES $<TARGET_PROPERTY:Boost::${library},INTERFACE_INCLUDE_DIRECTORIES>)
  else()
    list(APPEND HOLDFAST_BOOST_HEADERS Boost::${library})
    list(APPEND HOLDFAST_BOOST_COMPONENTS ${library})
  endif()
endforeach()
if(missing)
  message(FATAL_ERROR "The Boost of the project that contains holdfast lacks these targets:${missing}. "
    "If Boost comes by FetchContent, add the libraries to BOOST_INCLUDE_LIBRARIES.")
endif()
