# SPDX-FileCopyrightText: The holdfast authors
# SPDX-License-Identifier: BSL-1.0

# Finds rabbitmq-c 0.11 or later, by its own configuration files or by pkg-config. If it is there, this file makes the
# target holdfast_rabbitmq_c, which links it. The installed package includes this file, too.

if(TARGET holdfast_rabbitmq_c)
  return()
endif()

set(holdfast_rabbitmq_c_target "")
find_package(rabbitmq-c 0.11 QUIET CONFIG)
if(TARGET rabbitmq::rabbitmq)
  set(holdfast_rabbitmq_c_target rabbitmq::rabbitmq)
elseif(TARGET rabbitmq::rabbitmq-static)
  set(holdfast_rabbitmq_c_target rabbitmq::rabbitmq-static)
else()
  find_package(PkgConfig QUIET)
  if(PKG_CONFIG_FOUND)
    pkg_check_modules(holdfast_librabbitmq QUIET IMPORTED_TARGET librabbitmq>=0.11)
    if(TARGET PkgConfig::holdfast_librabbitmq)
      set(holdfast_rabbitmq_c_target PkgConfig::holdfast_librabbitmq)
    endif()
  endif()
endif()

# Both targets are global, because a project that contains holdfast links to them from its own folders.
if(holdfast_rabbitmq_c_target)
  set_target_properties(${holdfast_rabbitmq_c_target} PROPERTIES IMPORTED_GLOBAL TRUE)
  add_library(holdfast_rabbitmq_c INTERFACE IMPORTED GLOBAL)
  set_target_properties(holdfast_rabbitmq_c PROPERTIES INTERFACE_LINK_LIBRARIES ${holdfast_rabbitmq_c_target})
endif()
