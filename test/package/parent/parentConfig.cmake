# SPDX-FileCopyrightText: The holdfast authors
# SPDX-License-Identifier: BSL-1.0

include(CMakeFindDependencyMacro)
find_dependency(holdfast)
include(${CMAKE_CURRENT_LIST_DIR}/parentTargets.cmake)
