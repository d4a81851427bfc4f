# SPDX-FileCopyrightText: The holdfast authors
# SPDX-License-Identifier: BSL-1.0

# Static libraries beside the shared ones. Each consists of the objects of the other library, so nothing is compiled
# twice. Both kinds have the same names of targets in the installed package. They are installed if HOLDFAST_BOTH_KINDS is
# set. Otherwise only tests link them, because a shared library hides its internals.

function(holdfast_static_twin name)
  set(twin ${name}_static)
  add_library(${twin} STATIC $<TARGET_OBJECTS:${name}>)
  get_target_property(export ${name} EXPORT_NAME)
  if(NOT export)
    set(export ${name})
  endif()
  set_target_properties(${twin} PROPERTIES LINKER_LANGUAGE CXX OUTPUT_NAME ${name} EXPORT_NAME ${export}
    ARCHIVE_OUTPUT_DIRECTORY ${CMAKE_CURRENT_BINARY_DIR}/static)
  # A library is linked to the twins of the libraries of this project.
  foreach(kind IN ITEMS INTERFACE_LINK_LIBRARIES:INTERFACE LINK_LIBRARIES:PRIVATE)
    string(REGEX MATCH "(.*):(.*)" ignored ${kind})
    set(keyword ${CMAKE_MATCH_2})
    get_target_property(linked ${name} ${CMAKE_MATCH_1})
    list(FILTER linked EXCLUDE REGEX LINK_ONLY) # they are private, and come again
    list(TRANSFORM linked REPLACE "^(holdfast|holdfast_rabbitmq)$" "\\1_static")
    list(TRANSFORM linked REPLACE "holdfast::holdfast" "holdfast_static")
    list(TRANSFORM linked REPLACE "holdfast::(rabbitmq_testing|rabbitmq|testing)" "holdfast_\\1_static")
    target_link_libraries(${twin} ${keyword} ${linked})
  endforeach()
  foreach(property IN ITEMS INTERFACE_INCLUDE_DIRECTORIES INTERFACE_COMPILE_FEATURES)
    get_target_property(value ${name} ${property})
    if(value)
      set_target_properties(${twin} PROPERTIES ${property} "${value}")
    endif()
  endforeach()
endfunction()

foreach(group IN ITEMS holdfast:HOLDFAST_LIBRARIES:development:holdfast
    holdfast_rabbitmq:HOLDFAST_RABBITMQ_LIBRARIES:rabbitmq_development:holdfastRabbitmq)
  string(REPLACE ":" ";" group ${group})
  list(GET group 0 export)
  list(GET group 1 libraries)
  list(GET group 2 component)
  list(GET group 3 file)
  if(${libraries})
    set(twins "")
    foreach(library IN LISTS ${libraries})
      holdfast_static_twin(${library})
      list(APPEND twins ${library}_static)
    endforeach()
    if(NOT HOLDFAST_BOTH_KINDS OR NOT HOLDFAST_INSTALL)
      set_target_properties(${twins} PROPERTIES EXCLUDE_FROM_ALL ON)
      continue()
    endif()
    install(TARGETS ${twins} EXPORT ${export}_static ARCHIVE COMPONENT holdfast_${component})
    install(EXPORT ${export}_static NAMESPACE holdfast:: FILE ${file}StaticTargets.cmake
      DESTINATION ${HOLDFAST_CMAKE_DIR} COMPONENT holdfast_${component})
  endif()
endforeach()
