# SPDX-FileCopyrightText: The holdfast authors
# SPDX-License-Identifier: BSL-1.0

# Runs the portfile of holdfast without vcpkg. It defines the functions that the portfile calls, as vcpkg documents them,
# and the variables that vcpkg sets. test/package/vcpkg.py runs it:
#
#   cmake -DPORT=... -DVERSION=... -DFEATURES=... -DVCPKG_LIBRARY_LINKAGE=... -DVCPKG_BUILD_TYPE=... -DSOURCE=...
#     -DWORK=... -DPORTFILE=... -DEXTRA=... -P port.cmake
#
# An argument that a function does not know is an error here, as it is in vcpkg. FEATURES does not name `core`.
cmake_minimum_required(VERSION 3.23)

set(CURRENT_PACKAGES_DIR ${WORK}/packages)
set(CURRENT_BUILDTREES_DIR ${WORK}/buildtrees)
set(configurations release:rel:${CURRENT_PACKAGES_DIR})
if(NOT VCPKG_BUILD_TYPE STREQUAL "release")
  list(APPEND configurations debug:dbg:${CURRENT_PACKAGES_DIR}/debug)
endif()

# arguments(FUNCTION "OPTIONS" "SINGLE" "MULTIPLE" "REQUIRED" ARGN...)
macro(arguments function options single multiple required)
  cmake_parse_arguments(arg "${options}" "${single}" "${multiple}" ${ARGN})
  if(DEFINED arg_UNPARSED_ARGUMENTS)
    message(FATAL_ERROR "${function} does not know: ${arg_UNPARSED_ARGUMENTS}")
  endif()
  foreach(each ${required})
    if(NOT DEFINED arg_${each})
      message(FATAL_ERROR "${function} needs ${each}")
    endif()
  endforeach()
endmacro()

function(run)
  execute_process(COMMAND ${ARGN} COMMAND_ERROR_IS_FATAL ANY)
endfunction()

# configuration(ENTRY): sets type, short and prefix.
macro(configuration entry)
  string(REPLACE ":" ";" parts ${entry})
  list(GET parts 0 type)
  list(GET parts 1 short)
  list(GET parts 2 prefix)
endmacro()

# Takes the source that the test has prepared.
function(vcpkg_from_github)
  arguments(vcpkg_from_github "" "OUT_SOURCE_PATH;REPO;REF;SHA512;HEAD_REF" "PATCHES" "OUT_SOURCE_PATH;REPO;REF;SHA512" ${ARGN})
  if(NOT arg_REF STREQUAL "v${VERSION}")
    message(FATAL_ERROR "The portfile takes ${arg_REF}, not the tag of version ${VERSION}.")
  endif()
  set(${arg_OUT_SOURCE_PATH} ${SOURCE} PARENT_SCOPE)
endfunction()

function(vcpkg_check_features)
  arguments(vcpkg_check_features "" "OUT_FEATURE_OPTIONS" "FEATURES;INVERTED_FEATURES" "OUT_FEATURE_OPTIONS" ${ARGN})
  set(options "")
  foreach(kind IN ITEMS FEATURES:ON:OFF INVERTED_FEATURES:OFF:ON)
    string(REPLACE ":" ";" kind ${kind})
    list(GET kind 0 list)
    list(GET kind 1 if_there)
    list(GET kind 2 if_not)
    while(arg_${list})
      list(POP_FRONT arg_${list} feature variable)
      if(feature IN_LIST FEATURES)
        list(APPEND options -D${variable}=${if_there})
      else()
        list(APPEND options -D${variable}=${if_not})
      endif()
    endwhile()
  endforeach()
  set(${arg_OUT_FEATURE_OPTIONS} "${options}" PARENT_SCOPE)
endfunction()

function(vcpkg_cmake_configure)
  arguments(vcpkg_cmake_configure "DISABLE_PARALLEL_CONFIGURE;NO_CHARSET_FLAG;WINDOWS_USE_MSBUILD"
    "SOURCE_PATH;GENERATOR;LOGFILE_BASE"
    "OPTIONS;OPTIONS_DEBUG;OPTIONS_RELEASE;MAYBE_UNUSED_VARIABLES" "SOURCE_PATH" ${ARGN})
  set(shared ON)
  if(VCPKG_LIBRARY_LINKAGE STREQUAL "static")
    set(shared OFF)
  endif()
  foreach(entry IN LISTS configurations)
    configuration(${entry})
    string(TOUPPER ${type} upper)
    string(SUBSTRING ${upper} 0 1 first)
    string(SUBSTRING ${type} 1 -1 rest)
    run(${CMAKE_COMMAND} -S ${arg_SOURCE_PATH} -B ${CURRENT_BUILDTREES_DIR}/${short} -G Ninja
      -DCMAKE_BUILD_TYPE=${first}${rest} -DBUILD_SHARED_LIBS=${shared} -DCMAKE_INSTALL_PREFIX=${prefix}
      -DCMAKE_INSTALL_LIBDIR:STRING=lib -DCMAKE_INSTALL_BINDIR:STRING=bin -DCMAKE_POSITION_INDEPENDENT_CODE=ON
      -DCMAKE_EXPORT_NO_PACKAGE_REGISTRY=ON -DCMAKE_FIND_PACKAGE_NO_PACKAGE_REGISTRY=ON
      -DFETCHCONTENT_FULLY_DISCONNECTED=ON ${arg_OPTIONS} ${arg_OPTIONS_${upper}} ${EXTRA})
  endforeach()
endfunction()

function(vcpkg_cmake_install)
  arguments(vcpkg_cmake_install "DISABLE_PARALLEL;ADD_BIN_TO_PATH" "" "" "" ${ARGN})
  foreach(entry IN LISTS configurations)
    configuration(${entry})
    run(${CMAKE_COMMAND} --build ${CURRENT_BUILDTREES_DIR}/${short} --target install)
  endforeach()
endfunction()

# Moves the package's files to share/, and the debug libraries' ones beside them. Then all paths fit the new places.
function(vcpkg_cmake_config_fixup)
  arguments(vcpkg_cmake_config_fixup "DO_NOT_DELETE_PARENT_CONFIG_PATH;NO_PREFIX_CORRECTION"
    "PACKAGE_NAME;CONFIG_PATH;TOOLS_PATH" "" "" ${ARGN})
  if(NOT DEFINED arg_PACKAGE_NAME)
    set(arg_PACKAGE_NAME ${PORT})
  endif()
  if(NOT DEFINED arg_CONFIG_PATH)
    set(arg_CONFIG_PATH share/${arg_PACKAGE_NAME})
  endif()
  set(share ${CURRENT_PACKAGES_DIR}/share/${arg_PACKAGE_NAME})
  foreach(entry IN LISTS configurations)
    configuration(${entry})
    if(NOT EXISTS ${prefix}/${arg_CONFIG_PATH})
      message(FATAL_ERROR "There is no folder ${prefix}/${arg_CONFIG_PATH}.")
    endif()
    set(which *)
    if(type STREQUAL "debug")
      set(which *[Tt]argets-debug.cmake *[Cc]onfig-debug.cmake)
    endif()
    list(TRANSFORM which PREPEND ${prefix}/${arg_CONFIG_PATH}/)
    file(GLOB files ${which})
    foreach(file IN LISTS files)
      file(READ ${file} text)
      if(type STREQUAL "debug")
        string(REPLACE "\${_IMPORT_PREFIX}/lib" "\${_IMPORT_PREFIX}/debug/lib" text "${text}")
      endif()
      string(REGEX REPLACE "(\nget_filename_component[(]_IMPORT_PREFIX \"[^\n]*)+"
        "\nget_filename_component(_IMPORT_PREFIX \"\${CMAKE_CURRENT_LIST_DIR}/../..\" ABSOLUTE)" text "${text}")
      string(REGEX REPLACE "(PACKAGE_PREFIX_DIR \"\\\${CMAKE_CURRENT_LIST_DIR})/[./]+\"" "\\1/../../\"" text "${text}")
      string(REPLACE "${CURRENT_PACKAGES_DIR}" "\${_IMPORT_PREFIX}" text "${text}")
      get_filename_component(name ${file} NAME)
      file(WRITE ${share}/${name} "${text}")
    endforeach()
    file(REMOVE_RECURSE ${prefix}/${arg_CONFIG_PATH})
    get_filename_component(parent ${prefix}/${arg_CONFIG_PATH} DIRECTORY)
    file(GLOB left ${parent}/*)
    if(NOT left AND NOT arg_DO_NOT_DELETE_PARENT_CONFIG_PATH)
      file(REMOVE_RECURSE ${parent})
    endif()
  endforeach()
endfunction()

# The prefix follows from the place of the file. pkg-config checks that each module is complete.
function(vcpkg_fixup_pkgconfig)
  arguments(vcpkg_fixup_pkgconfig "SKIP_CHECK" "" "" "" ${ARGN})
  foreach(entry IN LISTS configurations)
    configuration(${entry})
    file(GLOB modules ${prefix}/lib/pkgconfig/*.pc)
    foreach(module IN LISTS modules)
      file(READ ${module} text)
      string(REPLACE "${prefix}" "\${prefix}" text "${text}")
      string(REGEX REPLACE "(^|\n)prefix *=[^\n]*" "\\1" text "${text}")
      file(WRITE ${module} "prefix=\${pcfiledir}/../..\n${text}")
    endforeach()
    foreach(module IN LISTS modules)
      get_filename_component(name ${module} NAME_WE)
      run(${CMAKE_COMMAND} -E env PKG_CONFIG_PATH=${prefix}/lib/pkgconfig pkg-config --exists --print-errors ${name})
    endforeach()
  endforeach()
endfunction()

function(vcpkg_install_copyright)
  arguments(vcpkg_install_copyright "" "COMMENT" "FILE_LIST" "FILE_LIST" ${ARGN})
  file(MAKE_DIRECTORY ${CURRENT_PACKAGES_DIR}/share/${PORT})
  foreach(file IN LISTS arg_FILE_LIST)
    file(READ ${file} text)
    file(APPEND ${CURRENT_PACKAGES_DIR}/share/${PORT}/copyright "${text}")
  endforeach()
endfunction()

include(${PORTFILE})
